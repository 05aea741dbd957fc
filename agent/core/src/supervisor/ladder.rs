//! How a tree is killed, rung by rung.
//!
//! SIGTERM to the whole tree; when the grace is over SIGKILL, and SIGKILL again until a look at the
//! machine finds nothing alive. A process in uninterruptible IO can take for ever, and trying costs,
//! so the pauses grow, and once a person is told.

use protocol::lease::KILL_GRACE;
use protocol::supervisor::KillCause;
use protocol::{BootMs, DurationMs};

/// Pause between two SIGKILLs, or two looks, at a tree that will not die: doubles from the first
/// to the second.
pub(super) const PAUSE_FIRST: DurationMs = DurationMs(10);
const PAUSE_LAST: DurationMs = DurationMs(1_000);

pub(super) fn longer(pause: DurationMs) -> DurationMs {
    DurationMs(pause.0 * 2).clamp_to(PAUSE_LAST)
}

#[derive(Debug)]
pub(super) struct Ladder {
    /// `None`: only leftovers are killed, the main process had ended by itself.
    cause: Option<KillCause>,
    /// When SIGKILL is sent next.
    next: BootMs,
    pause: DurationMs,
    told_unkillable: bool,
}

/// SIGKILL is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rung {
    /// It has been sent for more than a second, and nobody was told so yet.
    pub(super) tell_unkillable: bool,
}

impl Ladder {
    /// Begins to kill, with a grace that is counted from an instant that may have passed. Whether
    /// SIGTERM is to be sent: something is left of the grace.
    pub(super) fn begin(cause: KillCause, counted_from: BootMs, now: BootMs) -> (Ladder, bool) {
        let kill_at = counted_from + KILL_GRACE;
        let ladder = Ladder {
            cause: Some(cause),
            next: kill_at.max(now),
            pause: PAUSE_FIRST,
            told_unkillable: false,
        };
        (ladder, now < kill_at)
    }

    /// What a main process left behind has no grace.
    pub(super) fn of_leftovers(now: BootMs) -> Ladder {
        Ladder {
            cause: None,
            next: now,
            pause: PAUSE_FIRST,
            told_unkillable: false,
        }
    }

    pub(super) fn cause(&self) -> Option<KillCause> {
        self.cause
    }

    /// When [`Ladder::climb`] has something to do.
    pub(super) fn next_rung(&self) -> BootMs {
        self.next
    }

    pub(super) fn climb(&mut self, now: BootMs) -> Option<Rung> {
        if now < self.next {
            return None;
        }
        let tell_unkillable = self.pause == PAUSE_LAST && !self.told_unkillable;
        self.told_unkillable |= tell_unkillable;
        self.next = now + self.pause;
        self.pause = longer(self.pause);
        Some(Rung { tell_unkillable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When SIGKILL is sent to what does not die, until somebody is told.
    fn kills(mut ladder: Ladder) -> Vec<i64> {
        let mut sent = Vec::new();
        loop {
            let at = ladder.next_rung();
            assert_eq!(ladder.climb(at - DurationMs(1)), None, "before its time");
            let rung = ladder.climb(at).expect("it is time");
            sent.push(at.0);
            if rung.tell_unkillable {
                return sent;
            }
        }
    }

    #[test]
    fn the_grace_counts_from_the_cause_and_pauses_grow() {
        const REPEATED: [i64; 7] = [10, 30, 70, 150, 310, 630, 1_270];
        let grace = KILL_GRACE.0;
        for (what, counted_from, now, asked, first) in [
            ("noticed at once", 1_000, 1_000, true, 1_000 + grace),
            ("noticed late", 1_000, 1_500, true, 1_000 + grace),
            ("at the end of the grace", 0, grace, false, grace),
            ("after it", 0, grace + 700, false, grace + 700),
        ] {
            let cause = KillCause::LeaseLost;
            let (ladder, is_asked) = Ladder::begin(cause, BootMs(counted_from), BootMs(now));
            assert_eq!(is_asked, asked, "{what}");
            assert_eq!(ladder.cause(), Some(cause), "{what}");
            let expected: Vec<i64> = [0].into_iter().chain(REPEATED).map(|t| first + t).collect();
            assert_eq!(kills(ladder), expected, "{what}");
        }
        let leftovers = Ladder::of_leftovers(BootMs(500));
        assert_eq!(leftovers.cause(), None);
        assert_eq!(kills(leftovers).first(), Some(&500));
    }

    #[test]
    fn a_person_is_told_once() {
        let mut ladder = Ladder::of_leftovers(BootMs(0));
        let told = (0..100).filter(|_| {
            let at = ladder.next_rung();
            ladder.climb(at).is_some_and(|rung| rung.tell_unkillable)
        });
        assert_eq!(told.count(), 1);
    }
}
