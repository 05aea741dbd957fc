//! How an attempt ended, and why it did not succeed, in words for whoever is called at night.

use protocol::DurationMs;
use protocol::attempt::{AttemptOutcome, Exit};

/// Most characters of a line of output that are repeated.
const LINE_CHARS_MAX: usize = 160;

/// How an attempt ended, as far as its shard is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended<'a> {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) exit: Option<Exit>,
    pub(crate) out_of_memory: bool,
    pub(crate) started: bool,
    /// What was said of it besides, by its host or by who gave it up.
    pub(crate) reason: Option<&'a str>,
    /// Last of its output.
    pub(crate) tail: &'a str,
}

impl<'a> Ended<'a> {
    /// An end that nobody reported.
    pub(crate) const fn unheard(outcome: AttemptOutcome, reason: Option<&'a str>) -> Ended<'a> {
        Ended {
            outcome,
            exit: None,
            out_of_memory: false,
            started: false,
            reason,
            tail: "",
        }
    }

    /// Whether the work may have been done in part, without anybody knowing how far.
    pub(crate) fn is_unknown(self) -> bool {
        match self.outcome {
            AttemptOutcome::Lost | AttemptOutcome::TimedOut => true,
            AttemptOutcome::Interrupted => self.started,
            AttemptOutcome::Failed => {
                self.out_of_memory || matches!(self.exit, Some(Exit::Signal(_)))
            }
            AttemptOutcome::Succeeded
            | AttemptOutcome::Cancelled
            | AttemptOutcome::Refused
            | AttemptOutcome::NeverStarted => false,
        }
    }

    /// `exit 3 on host-1`.
    pub(crate) fn cause(self, host: &str, timeout: DurationMs) -> String {
        let with_reason = |words: String| match self.reason {
            Some(reason) => format!("{words}: {reason}"),
            None => words,
        };
        match (self.outcome, self.exit) {
            (AttemptOutcome::Failed, _) if self.out_of_memory => {
                format!("killed on {host} because memory was used up")
            }
            (AttemptOutcome::Failed, Some(Exit::Code(code))) => format!("exit {code} on {host}"),
            (AttemptOutcome::Failed, Some(Exit::Signal(signal))) => {
                format!("killed by {} on {host}", signal_words(signal))
            }
            (AttemptOutcome::Failed, None) => with_reason(format!("failed on {host}")),
            (AttemptOutcome::TimedOut, _) => format!("timed out after {timeout} on {host}"),
            (AttemptOutcome::Lost, _) => with_reason(format!("lost on {host}")),
            (AttemptOutcome::Interrupted, _) => with_reason(format!("interrupted on {host}")),
            (AttemptOutcome::Refused, _) => with_reason(format!("refused by {host}")),
            (AttemptOutcome::NeverStarted, _) => format!("never started on {host}"),
            (AttemptOutcome::Succeeded | AttemptOutcome::Cancelled, _) => {
                format!("{} on {host}", self.outcome.as_str())
            }
        }
    }

    /// The last line of its output that says something, fit for a line of text.
    pub(crate) fn last_line(self) -> Option<String> {
        let line = self
            .tail
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        let plain = line.chars().filter(|c| !c.is_control());
        let mut kept: String = plain.clone().take(LINE_CHARS_MAX).collect();
        if plain.count() > LINE_CHARS_MAX {
            kept.push('…');
        }
        (!kept.is_empty()).then_some(kept)
    }
}

/// `signal 9 (SIGKILL)`.
fn signal_words(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended<'a>(outcome: AttemptOutcome, exit: Option<Exit>, started: bool) -> Ended<'a> {
        Ended {
            exit,
            started,
            ..Ended::unheard(outcome, None)
        }
    }

    #[test]
    fn which_ends_leave_it_unknown_what_was_done() {
        let without_memory = Ended {
            out_of_memory: true,
            ..ended(AttemptOutcome::Failed, Some(Exit::Code(1)), true)
        };
        let failed = |exit, started| ended(AttemptOutcome::Failed, exit, started);
        for (end, unknown) in [
            (ended(AttemptOutcome::Lost, None, false), true),
            (ended(AttemptOutcome::TimedOut, None, true), true),
            (ended(AttemptOutcome::Interrupted, None, true), true),
            (ended(AttemptOutcome::Interrupted, None, false), false),
            (failed(Some(Exit::Code(1)), true), false),
            (failed(Some(Exit::Signal(9)), true), true),
            (without_memory, true),
            (failed(None, false), false),
            (ended(AttemptOutcome::NeverStarted, None, false), false),
            (ended(AttemptOutcome::Refused, None, false), false),
        ] {
            assert_eq!(end.is_unknown(), unknown, "{end:?}");
        }
    }

    #[test]
    fn the_cause_comes_first_and_names_the_host() {
        let says = |outcome, exit, reason| {
            let end = Ended {
                exit,
                ..Ended::unheard(outcome, reason)
            };
            end.cause("h1", DurationMs::from_secs(900))
        };
        for (outcome, exit, reason, expected) in [
            (
                AttemptOutcome::Failed,
                Some(Exit::Code(3)),
                Some("exited with status 3"),
                "exit 3 on h1",
            ),
            (
                AttemptOutcome::Failed,
                Some(Exit::Signal(64)),
                None,
                "killed by signal 64 on h1",
            ),
            (
                AttemptOutcome::Failed,
                None,
                Some("could not be started: no such file"),
                "failed on h1: could not be started: no such file",
            ),
            (
                AttemptOutcome::TimedOut,
                None,
                None,
                "timed out after 15m on h1",
            ),
            (AttemptOutcome::Lost, None, None, "lost on h1"),
            (
                AttemptOutcome::Refused,
                None,
                Some("its disk is full"),
                "refused by h1: its disk is full",
            ),
            (
                AttemptOutcome::NeverStarted,
                None,
                None,
                "never started on h1",
            ),
        ] {
            assert_eq!(says(outcome, exit, reason), expected);
        }
    }

    #[test]
    fn the_last_line_is_one_line_without_tricks() {
        let long = "ä".repeat(200);
        for (tail, expected) in [
            ("", None),
            ("\n \n\t\n", None),
            ("first\r\nlast\r\n\n", Some("last".to_owned())),
            ("\u{1b}[31mred\u{7}\u{1b}[0m", Some("[31mred[0m".to_owned())),
            (long.as_str(), Some(format!("{}…", "ä".repeat(160)))),
        ] {
            let end = Ended {
                tail,
                ..Ended::unheard(AttemptOutcome::Failed, None)
            };
            assert_eq!(end.last_line(), expected);
        }
    }
}
