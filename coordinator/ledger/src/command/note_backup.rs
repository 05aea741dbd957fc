use protocol::DurationMs;
use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::rows::BackupRow;
use crate::tables::record::{On, read_backup};

/// What became of a backup that a leader made by schedule: kept for the leader after it, which goes on
/// from there, and for whoever is told of their age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteBackup {
    /// Who made it, or tried.
    pub node: String,
    /// How often one is to be made.
    pub every: DurationMs,
    pub file: String,
    pub bytes: u64,
    /// Why it is no good one: it could not be made, or not shipped.
    pub problem: Option<String>,
}

impl NoteBackup {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let node = clip(&self.node);
        let mut row = read_backup(context.conn)?.unwrap_or(BackupRow {
            every: self.every,
            good_at: None,
            failed_at: None,
        });
        row.every = self.every;
        match &self.problem {
            None => {
                row.good_at = Some(context.at);
                row.failed_at = None;
                context.conn.execute(
                    "INSERT INTO backups (id, every_ms, good_at, node, file, bytes)
                     VALUES (1, ?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT DO UPDATE SET every_ms = ?1, good_at = ?2, node = ?3, file = ?4,
                        bytes = ?5, failed_at = NULL, problem = NULL",
                    params![
                        self.every.0,
                        context.at.0,
                        node,
                        clip(&self.file),
                        i64::try_from(self.bytes).unwrap_or(i64::MAX)
                    ],
                )?;
                context.settle_alert(AlertKind::BackupFailed, On::All)?;
                context.settle_alert(AlertKind::BackupOverdue, On::All)?;
            }
            Some(problem) => {
                row.failed_at = Some(context.at);
                context.conn.execute(
                    "INSERT INTO backups (id, every_ms, failed_at, problem)
                     VALUES (1, ?1, ?2, ?3)
                     ON CONFLICT DO UPDATE SET every_ms = ?1, failed_at = ?2, problem = ?3",
                    params![self.every.0, context.at.0, clip(problem)],
                )?;
                let text = format!(
                    "the backup on {node} failed: {problem}. {}. It is tried again by itself",
                    row.last_good()
                );
                context.raise(AlertKind::BackupFailed, On::All, clip(&text))?;
            }
        }
        context.changes.backup(row);
        Ok(Done::BackupNoted)
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::testing::{Bed, MINUTE};

    fn note(problem: Option<&str>) -> NoteBackup {
        NoteBackup {
            node: "c1".to_owned(),
            every: DurationMs(60 * MINUTE),
            file: "/b/a.backup".to_owned(),
            bytes: 4096,
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn a_failure_is_told_with_the_age_of_the_last_good_one_until_the_next_good_one() {
        let mut bed = Bed::new();
        bed.ok(note(Some("no room")));
        bed.at = WallMs(MINUTE);
        bed.ok(note(None));
        assert_eq!(
            bed.view("SELECT good_at, node, file, bytes, failed_at, problem FROM backup_view"),
            ["1970-01-01T00:01:00.000Z|c1|/b/a.backup|4096|-|-"]
        );
        assert_eq!(
            bed.view("SELECT text FROM alert_view WHERE cleared_at IS NOT NULL"),
            [
                "the backup on c1 failed: no room. There is no good one yet. It is tried again by itself"
            ]
        );
        bed.at = WallMs(3 * MINUTE);
        bed.ok(note(Some("no host")));
        bed.ok(note(Some("no host")));
        assert_eq!(
            bed.view("SELECT count, text FROM alert_view WHERE cleared_at IS NULL"),
            [
                "2|the backup on c1 failed: no host. The last good one is of 1970-01-01T00:01:00Z. \
              It is tried again by itself"
            ]
        );
        let row = bed.set.backup.clone().unwrap();
        assert_eq!(
            (row.good_at, row.failed_at),
            (Some(WallMs(MINUTE)), Some(bed.at))
        );
    }
}
