//! How far long work is, on standard error and only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::text::{LINE_WIDTH, printable};

/// What is done sooner than this is not worth a line.
const QUIET_FOR: Duration = Duration::from_millis(400);
const BETWEEN: Duration = Duration::from_millis(100);

/// One line that is written over and over, and gone at the end.
pub(crate) struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            begun: Instant::now(),
            shown: None,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Shows how far it is, unless it was shown only just now.
    pub(crate) fn show(&mut self, text: &str) {
        let due = match self.shown {
            None => self.begun.elapsed() >= QUIET_FOR,
            Some(shown) => shown.elapsed() >= BETWEEN,
        };
        if self.is_terminal && due {
            let text: String = printable(text).chars().take(LINE_WIDTH - 1).collect();
            write_over(&text);
            self.shown = Some(Instant::now());
        }
    }
}

fn write_over(text: &str) {
    // Where nobody looks any more, that is no reason to fail.
    let _ = write!(io::stderr().lock(), "\r\x1b[K{text}");
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            write_over("");
        }
    }
}
