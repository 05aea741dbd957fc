//! What of the clock a person has been told: of each doubt once.

use ledger::command::AlertKind;
use protocol::DurationMs;

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
