//! Why a schedule is refused.

use std::fmt;

use super::dialect::Dialect;
use crate::shown::shown;

/// A schedule that is refused: which part of it, as written, why, and what to write instead.
/// Displays with settings as fields of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// `second`, `minute`, `hour`, `day of month`, `month`, `day of week`, `year`, `cron`,
    /// `period` or `timezone`.
    pub field: &'static str,
    /// The part refused, cut where it is long.
    pub text: String,
    /// Continues a sentence that begins with the text.
    pub reason: String,
    /// What to write in this part's place. Empty where only the setting beside it helps.
    pub remedy: String,
    /// A setting beside the expression with which it means what its writer seems to want.
    pub beside: Option<Box<Beside>>,
}

/// A setting beside the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    pub setting: Setting,
    /// The expression that goes with it; `None` where it is right as it stands.
    pub cron: Option<String>,
    /// More likely meant than the remedy.
    pub first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Dialect(Dialect),
    Timezone(String),
}

impl ScheduleError {
    pub(super) fn new(
        field: &'static str,
        text: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ScheduleError {
        ScheduleError {
            field,
            text: shown(text),
            reason: reason.into(),
            remedy: remedy.into(),
            beside: None,
        }
    }

    /// All that may be done. `setting` writes a setting, given its name and value, as it is
    /// written where the expression stands.
    pub fn remedies(&self, setting: impl Fn(&str, &str) -> String) -> String {
        let Some(beside) = &self.beside else {
            return self.remedy.clone();
        };
        let setting = match &beside.setting {
            Setting::Dialect(dialect) => setting("dialect", dialect.name()),
            Setting::Timezone(zone) => setting("timezone", zone),
        };
        let beside_it = match &beside.cron {
            Some(cron) => format!("write `{}` with `{setting}`", shown(cron)),
            None => format!("add `{setting}`, which reads it as it stands"),
        };
        match (self.remedy.as_str(), beside.first) {
            ("", _) => beside_it,
            (remedy, true) => format!("{beside_it}; or {remedy}"),
            (remedy, false) => format!("{remedy}; or {beside_it}"),
        }
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedies = self.remedies(|name, value| format!("{name}: {value}"));
        let ScheduleError {
            field,
            text,
            reason,
            ..
        } = self;
        write!(f, "{field} `{text}` {reason}; {remedies}")
    }
}

impl std::error::Error for ScheduleError {}
