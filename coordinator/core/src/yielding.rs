//! Giving the lead to a coordinator with a better clock.
//!
//! A leader whose clock is held fires nothing for as long as that lasts, while another machine with
//! the right time stands by. So it gives the lead away: at once, and where it has only just been
//! given the lead, before its reign begins. It never leaves the group without a leader for that. Where
//! nobody has a better clock it leads on, since everything but firing goes on by other clocks; where
//! the other one does not take the lead, it leads on too, and asks again after a while.

use ledger::command::Command;
use protocol::{BootMs, DurationMs, Now, Rule};

use crate::core::{Core, Effect, Flight};

/// How long after one try the next is made: the other one did not take the lead, or gave it back.
const AGAIN: DurationMs = DurationMs(30_000);

/// How long the beginning of a reign is put off for another to take the lead: longer than the shell
/// waits for the other one to catch up.
const PUT_OFF: DurationMs = DurationMs(3_000);

#[derive(Debug, Default)]
pub(crate) struct Yielding {
    /// No try before this.
    not_before: Option<BootMs>,
    /// The beginning of this reign, and until when it is put off.
    put_off: Option<(Command, BootMs)>,
}

impl Yielding {
    /// `yielded`: when this process last gave the lead away for its clock.
    pub(crate) fn new(yielded: Option<BootMs>) -> Yielding {
        Yielding {
            not_before: yielded.map(|at| at + AGAIN),
            put_off: None,
        }
    }
}

impl Core {
    /// Begins the reign, or puts that off where another should have it.
    pub(crate) fn begin_or_yield(&mut self, begin: Command, now: Now) {
        if self.rules.on(Rule::WrongClockDeclines) && self.yield_lead(now) {
            self.yielding.put_off = Some((begin, now.boot + PUT_OFF));
        } else {
            self.propose_in_no_epoch(Flight::BecomeActive, begin, now);
        }
    }

    /// Nobody has taken the lead instead.
    pub(crate) fn begin_after_all(&mut self, now: Now) {
        let put_off = &mut self.yielding.put_off;
        if let Some((begin, _)) = put_off.take_if(|&mut (_, until)| now.boot >= until) {
            self.propose_in_no_epoch(Flight::BecomeActive, begin, now);
        }
    }

    /// Gives the lead to another whose clock is better, if there is one. Whether it came to that.
    pub(crate) fn yield_lead(&mut self, now: Now) -> bool {
        let rests = self.yielding.not_before.is_some_and(|at| now.boot < at);
        if rests || !self.rules.on(Rule::HeldClockHandsOver) {
            return false;
        }
        let Some(to) = self.gate.heir(now) else {
            return false;
        };
        self.yielding.not_before = Some(now.boot + AGAIN);
        self.effect(Effect::HandOver { to });
        true
    }
}
