//! Why a schedule is refused.

/// Longest piece of somebody's text that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// A schedule that is refused: which part of it, as written, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} `{text}` {reason}; {remedy}")]
pub struct ScheduleError {
    /// `minute`, `hour`, `day of month`, `month`, `day of week`, `cron`, `period` or `timezone`.
    pub field: &'static str,
    /// The part refused, cut where it is long.
    pub text: String,
    /// Continues a sentence that begins with the text.
    pub reason: String,
    pub remedy: String,
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
        }
    }
}

/// Somebody's text as a message may repeat it: on one line and not endless.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARS_MAX)
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}
