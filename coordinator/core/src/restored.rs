//! How long a leader over a restored ledger grants nothing.
//!
//! Hosts may still run what the group of before has granted after the backup, and this ledger does
//! not know of it. Whoever attaches is told to end it; whoever does not, ends it by itself when its
//! leases run out, for nobody acknowledges its beats any more. So the longest lease that there is,
//! counted from the beginning of a reign, bounds both.

use ledger::command::{Command, ReleaseGrants};
use protocol::lease::{TAKEOVER_MAX, leader_expiry};
use protocol::{BootMs, DurationMs, Now, Rule};

use crate::core::{Core, Flight};
use crate::queue::Queue;

#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// In this reign.
    until: BootMs,
    release_proposed: bool,
}

impl Hold {
    pub(crate) fn begin_reign(&mut self, now: BootMs) {
        self.until = leader_expiry(now, TAKEOVER_MAX);
    }

    pub(crate) fn left(&self, now: BootMs) -> DurationMs {
        (self.until - now).max(DurationMs::ZERO)
    }
}

impl Core {
    pub(crate) fn is_held(&self) -> bool {
        self.set.held && self.rules.on(Rule::RestoreHoldsGrants)
    }

    pub(crate) fn release_grants(&mut self, now: Now) {
        if self.set.held && now.boot >= self.hold.until && !self.hold.release_proposed {
            self.hold.release_proposed = true;
            let release = Command::ReleaseGrants(ReleaseGrants {});
            self.propose(Flight::Note, release, now);
        }
    }

    /// Shards wait for a place from now on: until now there was none to wait for.
    pub(crate) fn note_released(&mut self, now: Now) {
        self.queue = Queue::build(&self.set, &self.catalogue, now, self.rules);
        self.note_touched();
    }
}
