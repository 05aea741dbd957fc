//! Backups that grow old, told of whoever leads.
//!
//! The leader's shell makes them. Where it does not, because this coordinator was given no place for
//! them, or because what makes them hangs, nobody would say so.

use ledger::command::{AlertKind, On, RaiseAlert};
use protocol::{BootMs, DurationMs, Now, WallMs};

use crate::alerts::REMIND_EVERY;
use crate::core::Core;

/// Between two looks.
const LOOK: DurationMs = DurationMs(60_000);

/// So many times the interval may pass without a good one.
const INTERVALS_MAX: i64 = 2;

#[derive(Debug, Default)]
pub(crate) struct Backups {
    /// Nobody looks before this.
    look_at: BootMs,
    /// When a person was last told of one that is still overdue.
    told: Option<BootMs>,
}

impl Core {
    pub(crate) fn tell_of_old_backups(&mut self, now: Now) {
        // A clock that was stepped says nothing of an age.
        if now.boot < self.backups.look_at || !self.clock_verdict(now).may_fire() {
            return;
        }
        self.backups.look_at = now.boot + LOOK;
        let Some((good_at, every)) = self.overdue_backup(now) else {
            self.backups.told = None;
            return;
        };
        let told = self.backups.told;
        if told.is_some_and(|told| now.boot - told < REMIND_EVERY) {
            return;
        }
        self.backups.told = Some(now.boot);
        let text = format!(
            "the last good backup is of {}, {} ago, and one is to be made every {every}: see that the \
             coordinator that leads has a place for them (--backup-dir), and why it makes none",
            good_at.whole_second(),
            now.wall - good_at,
        );
        let (kind, on) = (AlertKind::BackupOverdue, On::All);
        self.alert(RaiseAlert { kind, on, text }, now);
    }

    /// When the last good one was made, if that is too long ago, and how often one is to be made.
    fn overdue_backup(&self, now: Now) -> Option<(WallMs, DurationMs)> {
        let known = self.set.backup.as_ref()?;
        let limit = DurationMs(known.every.0.saturating_mul(INTERVALS_MAX));
        // Of one that never came to be, each failure is told.
        let good_at = known.good_at.filter(|&at| now.wall - at > limit)?;
        Some((good_at, known.every))
    }
}
