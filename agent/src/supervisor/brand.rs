//! A mark that a process does not lose by accident.
//!
//! A process can be moved out of its cgroup, begin a session of its own, start the next program with an
//! empty environment and let its parent end: container runtimes do all of that. Then nothing that the
//! supervisor knows of it is left, and it cannot be told from what another attempt has lost. But there
//! is one thing that the kernel hands down from a process to all that it starts, over `exec` and to
//! another user too, and that hardly any program ever sets: by how much timers of it may be late. So
//! each attempt begins with the usual 50 microseconds and a few nanoseconds more, and these say whose
//! its processes are.
//!
//! It is a help to attribution and nothing rests on it alone: where it cannot be read (that takes root),
//! or two attempts have the same, a process is anybody's as before.

use std::fs;
use std::path::Path;

use protocol::Token;

/// What every process has that says nothing, in nanoseconds.
const USUAL: u64 = 50_000;

/// So many marks there are; a third more lateness, at the most, is nothing to a timer.
const MARKS: i64 = 16_384;

/// How late timers of an attempt's processes may be.
pub(super) const fn slack_ns(token: Token) -> u64 {
    USUAL + 1 + token.0.rem_euclid(MARKS).unsigned_abs()
}

/// The same of a process, as far as it may be asked.
pub(super) fn read_slack_ns(proc: &Path, pid: i32) -> Option<u64> {
    let path = proc.join(pid.to_string()).join("timerslack_ns");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_marks_of_their_own_and_nobody_has_the_usual() {
        let marks: std::collections::BTreeSet<u64> = (-8_000..8_000)
            .map(|token| slack_ns(Token(token)))
            .collect();
        assert_eq!(marks.len(), 16_000);
        assert!(
            marks
                .iter()
                .all(|mark| (USUAL + 1..USUAL * 4 / 3).contains(mark))
        );
        let own = std::process::id().cast_signed();
        // Root may ask, others may ask of themselves.
        assert!(read_slack_ns(Path::new("/proc"), own).is_some());
        assert_eq!(read_slack_ns(Path::new("/nowhere"), own), None);
    }
}
