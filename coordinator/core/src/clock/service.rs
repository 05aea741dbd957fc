//! What this machine's own time service says of its clock.
//!
//! It knows by how much the clock is off and how wrong it can be at most, and it knows so by whom it
//! listens to, who may be wrong. So its word counts where nobody else has a say, and there it holds; where
//! the clocks of most control machines or of the fleet agree with this one, it is told to a person and
//! stops nothing: one wrong server must not stop a group.
//!
//! A service that listens to nobody says nothing of the clock but what it knew. A clock that it had
//! contradicted stays contradicted until it says otherwise.
//!
//! It is asked every second, and a word that is worse counts when it is said twice in a row. What is
//! over is over when it has not been said for [`OVER_AFTER`]: a server whose time flaps opens and shuts
//! no gate with it.

use protocol::{BootMs, DurationMs, Now};

use super::{Difference, Others, Says, Thresholds};

/// An older word is none.
pub const FRESH: DurationMs = DurationMs(10_000);

/// For so long nothing of the kind must have been said.
pub const OVER_AFTER: DurationMs = DurationMs(10_000);

/// How the clock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    Synchronised,
    /// By what was known before its reference fell silent.
    FreeRunning,
    Unsynchronised,
}

impl Keeping {
    pub fn as_str(self) -> &'static str {
        match self {
            Keeping::Synchronised => "synchronised",
            Keeping::FreeRunning => "free-running",
            Keeping::Unsynchronised => "unsynchronised",
        }
    }
}

/// What the time service says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWord {
    pub keeping: Keeping,
    /// By how much the clock is ahead of the right time, negative where it is behind.
    pub ahead_us: Option<i64>,
    /// How wrong it can be at most.
    pub bound_us: Option<i64>,
    /// What that rests on, as half a sentence of which the clock is the subject.
    pub reason: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    word: Option<(BootMs, ServiceWord)>,
    says: Says,
    /// What the last word would have been worth, were it not to be said twice.
    last: Worth,
    /// When the newest word came that was worth what is held now.
    at_worst: Option<BootMs>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    #[default]
    Nothing,
    Agree,
    Differ,
    Contradict,
}

impl Service {
    pub(super) fn hear(&mut self, word: ServiceWord, thresholds: Thresholds, now: Now) {
        let first = self.word.is_none();
        let heard = judge(&word, thresholds);
        let (worth, difference) = heard;
        let held = Worth::of(self.says);
        // A word for the worse counts as far as the one before it goes, too.
        let agreed = if first {
            worth
        } else {
            worth.min(self.last.max(held))
        };
        self.last = worth;
        self.word = Some((now.boot, word));
        if agreed >= held {
            self.at_worst = Some(now.boot);
            self.says = agreed.says(difference);
            return;
        }
        // A service that listens to nobody takes nothing back.
        if worth == Worth::Nothing && held == Worth::Contradict {
            self.at_worst = Some(now.boot);
        }
        let rests =
            held <= Worth::Agree || self.at_worst.is_none_or(|at| now.boot - at >= OVER_AFTER);
        if rests {
            self.says = agreed.says(difference);
            self.at_worst = Some(now.boot);
        }
    }

    /// What it says, or said when it contradicted this clock.
    pub(super) fn says(&self, now: BootMs) -> Says {
        match self.says {
            Says::Contradict(_) => self.says,
            _ if self.word(now).is_some() => self.says,
            _ => Says::Nothing,
        }
    }

    pub(super) fn word(&self, now: BootMs) -> Option<&ServiceWord> {
        let (at, word) = self.word.as_ref()?;
        (now - *at < FRESH).then_some(word)
    }

    /// The right time by its word, less the boot clock, and by how much that may be wrong; where it
    /// contradicts this clock.
    pub(super) fn offset(&self, now: Now) -> Option<(i64, i64)> {
        let Says::Contradict(Difference {
            from: Others::TimeService,
            ..
        }) = self.says
        else {
            return None;
        };
        let word = self.word(now.boot)?;
        let (ahead_us, bound_us) = (word.ahead_us?, word.bound_us?);
        let offset = now.wall.0.saturating_sub(now.boot.0) - ahead_us / 1_000;
        let unsure = bound_us.saturating_sub(ahead_us.saturating_abs()).max(0);
        Some((offset, unsure / 1_000 + 1))
    }

    /// The clock was set: what was said of it was said of another.
    pub(super) fn begin_anew(&mut self) {
        *self = Service::default();
    }
}

impl Worth {
    fn of(says: Says) -> Worth {
        match says {
            Says::Nothing => Worth::Nothing,
            Says::Agree => Worth::Agree,
            Says::Differ(_) => Worth::Differ,
            Says::Contradict(_) | Says::Divided(_) => Worth::Contradict,
        }
    }

    fn says(self, difference: Difference) -> Says {
        match self {
            Worth::Nothing => Says::Nothing,
            Worth::Agree => Says::Agree,
            Worth::Differ => Says::Differ(difference),
            Worth::Contradict => Says::Contradict(difference),
        }
    }
}

/// What a word is worth: by the correction, and, as long as somebody is listened to, by the bound.
/// Of a clock that runs freely the bound grows by itself, and tells of no error.
fn judge(word: &ServiceWord, thresholds: Thresholds) -> (Worth, Difference) {
    let ahead_us = word.ahead_us.unwrap_or(0);
    let off_us = ahead_us.saturating_abs();
    let bound_us = match word.keeping {
        Keeping::Synchronised => word.bound_us.unwrap_or(0),
        Keeping::FreeRunning | Keeping::Unsynchronised => 0,
    };
    let beyond = |us: i64, threshold: DurationMs| us > threshold.0.saturating_mul(1_000);
    let of = |threshold| {
        let from = if beyond(off_us, threshold) {
            Others::TimeService
        } else if beyond(bound_us, threshold) {
            Others::TimeServiceAtMost
        } else {
            return None;
        };
        let ahead = match from {
            Others::TimeServiceAtMost => bound_us,
            _ => ahead_us,
        };
        let ahead = DurationMs(ahead / 1_000);
        Some(Difference { ahead, from })
    };
    let agrees = Difference {
        ahead: DurationMs(ahead_us / 1_000),
        from: Others::TimeService,
    };
    match (word.keeping, word.ahead_us) {
        (Keeping::Unsynchronised, _) | (_, None) => (Worth::Nothing, agrees),
        _ => match (of(thresholds.stop), of(thresholds.warn)) {
            (Some(stop), _) => (Worth::Contradict, stop),
            (None, Some(warn)) => (Worth::Differ, warn),
            // What runs freely is no reference.
            (None, None) if word.keeping == Keeping::FreeRunning => (Worth::Nothing, agrees),
            (None, None) => (Worth::Agree, agrees),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::WallMs;

    const S: i64 = 1_000_000;

    fn word(keeping: Keeping, ahead_us: i64, bound_us: i64) -> ServiceWord {
        ServiceWord {
            keeping,
            ahead_us: Some(ahead_us),
            bound_us: Some(bound_us),
            reason: String::new(),
        }
    }

    /// What is held after these words, one a second.
    fn check(words: &[(Keeping, i64, i64)], expected: &[Worth]) {
        let mut service = Service::default();
        let mut held = Vec::new();
        for (second, &(keeping, ahead_us, bound_us)) in (0..).zip(words) {
            let now = Now {
                boot: BootMs(second * 1_000),
                wall: WallMs(second * 1_000),
            };
            let word = word(keeping, ahead_us, bound_us);
            service.hear(word, Thresholds::default(), now);
            held.push(Worth::of(service.says(now.boot)));
        }
        assert_eq!(held, expected, "{words:?}");
    }

    use Keeping::{FreeRunning, Synchronised, Unsynchronised};
    use Worth::{Agree, Contradict, Differ, Nothing};

    #[test]
    fn correction_and_bound_against_both_thresholds() {
        for (keeping, ahead_us, bound_us, worth) in [
            (Synchronised, 0, 2_000, Agree),
            (Synchronised, 100_000, 100_000, Agree),
            (Synchronised, -100_001, 100_001, Differ),
            (Synchronised, 0, 100_001, Differ),
            (Synchronised, 5 * S, 5 * S, Contradict),
            (Synchronised, -S - 1, S + 1, Contradict),
            (Synchronised, 0, S + 1, Contradict),
            (FreeRunning, 0, 20 * S, Nothing),
            (FreeRunning, 200_000, 20 * S, Differ),
            (FreeRunning, 5 * S, 5 * S, Contradict),
            (Unsynchronised, 5 * S, 5 * S, Nothing),
        ] {
            // The first has nothing before it that it would have to agree with.
            check(&[(keeping, ahead_us, bound_us)], &[worth]);
        }
    }

    #[test]
    fn for_the_worse_two_in_a_row_and_for_the_better_ten_seconds() {
        let good = (Synchronised, 0, 1_000);
        let bad = (Synchronised, 5 * S, 5 * S);
        let off = (Synchronised, 500_000, 500_000);
        check(&[good, bad, good, bad], &[Agree, Agree, Agree, Agree]);
        check(&[good, bad, bad], &[Agree, Agree, Contradict]);
        check(&[good, bad, off], &[Agree, Agree, Differ]);
        let mut words = vec![good, bad, bad];
        words.extend([good; 10]);
        let mut expected = vec![Agree, Agree, Contradict];
        expected.extend([Contradict; 9]);
        expected.push(Agree);
        check(&words, &expected);
        // It flaps: nothing opens.
        let flaps: Vec<_> = (0..60)
            .map(|second| if second % 8 < 4 { bad } else { good })
            .collect();
        check(&flaps, &[Contradict; 60]);
    }

    #[test]
    fn who_listens_to_nobody_takes_nothing_back() {
        for keeping in [Unsynchronised, FreeRunning] {
            let mut words = vec![(Synchronised, 5 * S, 5 * S)];
            words.extend([(keeping, 0, 0); 60]);
            check(&words, &[Contradict; 61]);
        }
        let mut service = Service::default();
        let begin = Now {
            boot: BootMs(0),
            wall: WallMs(0),
        };
        service.hear(
            word(Synchronised, 5 * S, 5 * S),
            Thresholds::default(),
            begin,
        );
        assert_eq!(Worth::of(service.says(BootMs(3_600_000))), Contradict);
        let mut service = Service::default();
        service.hear(word(Synchronised, 0, 0), Thresholds::default(), begin);
        assert_eq!(Worth::of(service.says(BootMs(9_999))), Agree);
        assert_eq!(Worth::of(service.says(BootMs(10_000))), Nothing);
    }
}
