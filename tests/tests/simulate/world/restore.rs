//! A ledger that is lost with all its machines, and another that goes on from a backup of it.

use ledger::command::Restore;
use ledger::{Command, Proposal, RunState};
use protocol::WallMs;

use super::World;
use super::ledger::NOBODYS;

/// A backup: what the ledger had committed at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Backup {
    commands: usize,
    taken_at: WallMs,
}

impl World {
    pub fn take_backup(&self) -> Backup {
        Backup {
            commands: self.log.len(),
            taken_at: self.coordinator_now().wall,
        }
    }

    /// The group is lost with everything that came after the backup. What ran then has run all the
    /// same, and the world does not forget it.
    pub fn restore(&mut self, backup: Backup) {
        for leader in self.coordinators.keys().copied().collect::<Vec<_>>() {
            self.crash_leader(leader, false);
        }
        let lost = self.log.len() - backup.commands;
        self.note(|_| format!("the ledger is lost with {lost} commands, and restored"));
        self.log.truncate(backup.commands);
        self.log_looked_at = (backup.commands, self.now);
        self.roll_back();
        self.truth.waits_since.clear();
        for grant in self.truth.grants.values_mut() {
            grant.broken_off = true;
        }
        let open: Vec<_> = self.truth.set.runs.keys().copied().collect();
        self.truth
            .ended
            .retain(|run_id, _: &mut RunState| !open.contains(run_id));
        let now = self.coordinator_now().wall;
        let restore = Restore {
            clock: now,
            taken_at: backup.taken_at,
            by: "simulation".to_owned(),
            reason: "all machines are lost".to_owned(),
        };
        let proposal = Proposal {
            epoch: None,
            at: now,
            source: None,
            command: Command::Restore(restore),
        };
        self.apply_batch(&[(NOBODYS, proposal)]);
    }
}
