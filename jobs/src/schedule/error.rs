//! Why a schedule is refused.

use super::dialect::Dialect;
use crate::shown::shown;

/// A schedule that is refused: which part of it, as written, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} `{text}` {reason}; {remedy}")]
pub struct ScheduleError {
    /// `second`, `minute`, `hour`, `day of month`, `month`, `day of week`, `year`, `cron`,
    /// `period` or `timezone`.
    pub field: &'static str,
    /// The part refused, cut where it is long.
    pub text: String,
    /// Continues a sentence that begins with the text.
    pub reason: String,
    pub remedy: String,
    /// The dialect that means what the writer seems to want, where there is one; the remedy
    /// says it too.
    pub dialect: Option<Dialect>,
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
            dialect: None,
        }
    }
}
