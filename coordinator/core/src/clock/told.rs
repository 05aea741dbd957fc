//! What of the clock a person has been told: of each doubt once.

use ledger::command::AlertKind;
use protocol::DurationMs;

use super::service::{Keeping, ServiceWord};
use super::{Doubt, Verdict, in_words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// This reign has not looked yet: who led before may have told of anything.
    #[default]
    NotKnown,
    Nothing,
    Differs,
    /// Of another control machine than this one.
    Odd(u64),
    Stepped,
    Contradicted,
    Divided,
}

impl Told {
    /// What is to be told of a verdict that has not been, and what is over with it. `odd` is another
    /// control machine whose clock is wrong, and by how much it is ahead of this one's.
    pub(crate) fn note(
        &mut self,
        verdict: Verdict,
        odd: Option<(u64, DurationMs)>,
        node: &str,
    ) -> (Option<(AlertKind, String)>, Vec<AlertKind>) {
        let told = match (verdict, odd) {
            (Verdict::Trusted | Verdict::NoReference, None) => Told::Nothing,
            (Verdict::Trusted | Verdict::NoReference, Some((odd, _))) => Told::Odd(odd),
            (Verdict::Warned(_), _) => Told::Differs,
            // The hosts are on their way: no matter for a person, and nothing is over yet.
            (Verdict::Held(Doubt::Unheard { .. }), _) => return (None, Vec::new()),
            (Verdict::Held(Doubt::Stepped { .. }), _) => Told::Stepped,
            (Verdict::Held(Doubt::Contradicted(_)), _) => Told::Contradicted,
            (Verdict::Held(Doubt::Divided(_)), _) => Told::Divided,
        };
        let before = std::mem::replace(self, told);
        if before == told {
            return (None, Vec::new());
        }
        let text = match (verdict, odd) {
            (Verdict::Trusted | Verdict::NoReference, None) => None,
            (Verdict::Trusted | Verdict::NoReference, Some((odd, ahead))) => {
                let (by, way) = in_words(ahead);
                Some(format!(
                    "the clock of node {odd} is {by} {way} that of coordinator {node}, which leads and \
                     fires by its own: see that chrony runs there; until it is mended, a failure of \
                     another control machine may leave nobody to fire"
                ))
            }
            (Verdict::Warned(difference), _) => Some(format!(
                "the clock of coordinator {node} is {difference}; jobs still fire, by this clock: \
                 see that chrony runs on all of these machines"
            )),
            (Verdict::Held(doubt), _) => Some(format!(
                "nothing fires: the clock of coordinator {node} {doubt}; what comes due meanwhile \
                 is late, not lost; see that chrony runs there, on the other control machines and \
                 on the hosts"
            )),
        };
        let kinds = [AlertKind::ClockDiffers, AlertKind::ClockHeld];
        let over = kinds.into_iter().filter(|&kind| {
            let was_open = before == Told::NotKnown || before.kind() == Some(kind);
            was_open && told.kind() != Some(kind)
        });
        (told.kind().zip(text), over.collect())
    }

    fn kind(self) -> Option<AlertKind> {
        match self {
            Told::NotKnown | Told::Nothing => None,
            Told::Differs | Told::Odd(_) => Some(AlertKind::ClockDiffers),
            Told::Stepped | Told::Contradicted | Told::Divided => Some(AlertKind::ClockHeld),
        }
    }
}

/// Whether a person has been told that the time service of this machine does not keep its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServiceTold {
    /// This reign has not heard it yet: who led before may have told of anything.
    #[default]
    NotKnown,
    Told(Keeping),
}

/// What is to be done about an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Raise(String),
    Settle,
}

impl ServiceTold {
    pub(crate) fn note(&mut self, word: &ServiceWord, node: &str) -> Option<Tell> {
        let told = ServiceTold::Told(word.keeping);
        if std::mem::replace(self, told) == told {
            return None;
        }
        let how = match word.keeping {
            Keeping::Synchronised => return Some(Tell::Settle),
            Keeping::FreeRunning => "runs freely",
            Keeping::Unsynchronised => "is not synchronised",
        };
        let reason = &word.reason;
        Some(Tell::Raise(format!(
            "the clock of coordinator {node} {how}: {reason}; it drifts until jobs fire late or early, and \
             only other clocks can tell: see that chronyd runs there, and what `chronyc sources` says"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Keeping::{FreeRunning, Synchronised, Unsynchronised};

    #[test]
    fn each_way_of_keeping_a_clock_is_told_of_once() {
        let mut told = ServiceTold::default();
        let mut note = |keeping| {
            let word = ServiceWord {
                keeping,
                ahead_us: None,
                bound_us: None,
                reason: "why".to_owned(),
            };
            told.note(&word, "a").map(|tell| match tell {
                Tell::Raise(text) => text.split(": why").next().unwrap().to_owned(),
                Tell::Settle => "over".to_owned(),
            })
        };
        assert_eq!(note(Synchronised).as_deref(), Some("over"));
        assert_eq!(note(Synchronised), None);
        let free = "the clock of coordinator a runs freely";
        assert_eq!(note(FreeRunning).as_deref(), Some(free));
        assert_eq!(note(FreeRunning), None);
        let not = "the clock of coordinator a is not synchronised";
        assert_eq!(note(Unsynchronised).as_deref(), Some(not));
        assert_eq!(note(Synchronised).as_deref(), Some("over"));
    }
}
