//! Backups that grow old, told of whoever leads.
//!
//! The leader's shell makes them. Where it does not, because this coordinator was given no place for
//! them, or because what makes them hangs, nobody would say so.

use ledger::command::{AlertKind, On, RaiseAlert};
use protocol::{BootMs, DurationMs, Now};

use crate::core::Core;

/// Between two looks.
const LOOK: DurationMs = DurationMs(60_000);

/// A person is reminded this often.
const REMIND: DurationMs = DurationMs(86_400_000);

/// So many times the interval may pass without a good one.
const INTERVALS_MAX: i64 = 2;

#[derive(Debug, Default)]
pub(crate) struct Backups {
    /// Nobody looks before this.
    look_at: BootMs,
}

impl Core {
    pub(crate) fn tell_of_old_backups(&mut self, now: Now) {
        // A clock that was stepped says nothing of an age.
        if now.boot < self.backups.look_at || !self.clock_verdict(now).may_fire() {
            return;
        }
        self.backups.look_at = now.boot + LOOK;
        let Some(known) = &self.set.backup else {
            return;
        };
        let limit = DurationMs(known.every.0.saturating_mul(INTERVALS_MAX));
        // Of one that never came to be, each failure is told.
        let Some(good_at) = known.good_at.filter(|&at| now.wall - at > limit) else {
            return;
        };
        let text = format!(
            "the last good backup is of {}, {} ago, and one is to be made every {}: see that the \
             coordinator that leads has a place for them (--backup-dir), and why it makes none",
            good_at.whole_second(),
            now.wall - good_at,
            known.every,
        );
        self.backups.look_at = now.boot + REMIND;
        let (kind, on) = (AlertKind::BackupOverdue, On::All);
        self.alert(RaiseAlert { kind, on, text }, now);
    }
}
