//! Alerts: what a person should know, one row for each matter while it is open.
//!
//! A matter is a kind of alert about one run, one job, one agent, or the coordinator. Raised again
//! while it is open, it counts up and says what was said last; when it is over it is cleared, by
//! the command that ends it or by a person, and stays as a record for a while.

use protocol::{AlertId, JobId};
use rusqlite::{OptionalExtension, params};

use crate::apply::{Context, Stop};
use crate::codes::Coded;
use crate::command::AlertKind;
use crate::rows::{Namespace, RunRow};
use crate::tables::job::name_of;
use crate::tables::record::On;

/// Alerts that are kept, newest first; older ones go once they are cleared.
const KEPT: i64 = 10_000;

/// How often old ones are looked for, in alerts.
const LOOK: i64 = 256;

/// What alerts of a kind are about: all those about one such thing are one matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Run,
    Job,
    Agent,
    All,
}

impl AlertKind {
    pub(crate) const fn scope(self) -> Scope {
        match self {
            AlertKind::NeedsConfirmation | AlertKind::CommandRefused => Scope::Run,
            AlertKind::UnreadableJob
            | AlertKind::FireRefused
            | AlertKind::OverlapSkipped
            | AlertKind::StartDeadlinePassed
            | AlertKind::PredecessorFailed
            | AlertKind::UnknownSinceBackup
            | AlertKind::GivenUp
            | AlertKind::FuseBlown => Scope::Job,
            AlertKind::FlappingLeader
            | AlertKind::DuplicateAgent
            | AlertKind::AgentRevoked
            | AlertKind::HostUnwell
            | AlertKind::CertificateEnds
            | AlertKind::HostChanged => Scope::Agent,
            AlertKind::ClockBehind
            | AlertKind::ClockDiffers
            | AlertKind::ClockHeld
            | AlertKind::ClockUnsynchronised
            | AlertKind::BacklogOld
            | AlertKind::Restored
            | AlertKind::BackupFailed
            | AlertKind::BackupOverdue
            | AlertKind::MemberMissing
            | AlertKind::MemberBehind
            | AlertKind::RoomShort
            | AlertKind::AddressAway
            | AlertKind::ClassesDiffer
            | AlertKind::MemberUnfit => Scope::All,
        }
    }
}

/// The key of a matter within its kind. Ids begin at 1.
fn about(kind: AlertKind, on: On) -> i64 {
    let (job, run, agent) = on.ids();
    let id = match kind.scope() {
        Scope::Run => run,
        Scope::Job => job,
        Scope::Agent => agent,
        Scope::All => None,
    };
    id.unwrap_or(0)
}

impl Context<'_> {
    /// Opens a matter, or counts up the one that is open.
    pub(crate) fn raise(&mut self, kind: AlertKind, on: On, text: &str) -> Result<(), Stop> {
        let (job_id, run_id, agent_id) = on.ids();
        let about = about(kind, on);
        let counted = self.meta.open_alerts > 0
            && self
                .conn
                .prepare_cached(
                    "UPDATE alerts SET count = count + 1, last_at = ?3, text = ?4, run_id = ?5
                     WHERE kind = ?1 AND about = ?2 AND cleared_at IS NULL",
                )?
                .execute(params![kind.code(), about, self.at.0, text, run_id])?
                > 0;
        if counted {
            return Ok(());
        }
        let alert_id = self.meta.mint_alert();
        self.meta.open_alerts += 1;
        self.conn
            .prepare_cached(
                "INSERT INTO alerts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, 1, NULL, NULL)",
            )?
            .execute(params![
                alert_id.0,
                kind.code(),
                about,
                job_id,
                run_id,
                agent_id,
                text,
                self.at.0,
            ])?;
        self.forget_old_alerts(alert_id)
    }

    fn forget_old_alerts(&mut self, newest: AlertId) -> Result<(), Stop> {
        if newest.0 % LOOK == 0 {
            self.conn
                .prepare_cached(
                    "DELETE FROM alerts WHERE alert_id <= ?1 AND cleared_at IS NOT NULL",
                )?
                .execute([newest.0 - KEPT])?;
        }
        Ok(())
    }

    /// All matters of a job are over, for it is no more.
    pub(crate) fn settle_alerts_of_job(&mut self, job_id: JobId) -> Result<(), Stop> {
        let of_a_job = |kind: &&AlertKind| kind.scope() == Scope::Job;
        for &kind in AlertKind::ALL.iter().filter(of_a_job) {
            self.settle_alert(kind, On::Job(job_id))?;
        }
        Ok(())
    }

    /// The matter is over, if it was open.
    pub(crate) fn settle_alert(&mut self, kind: AlertKind, on: On) -> Result<(), Stop> {
        if self.meta.open_alerts == 0 {
            return Ok(());
        }
        let settled = self
            .conn
            .prepare_cached(
                "UPDATE alerts SET cleared_at = ?3
                 WHERE kind = ?1 AND about = ?2 AND cleared_at IS NULL",
            )?
            .execute(params![kind.code(), about(kind, on), self.at.0])?;
        self.count_cleared(settled);
        Ok(())
    }

    /// The matter of the run's job is over, if it was open and about a run before this one.
    pub(crate) fn settle_alert_of_earlier(
        &mut self,
        kind: AlertKind,
        run: &RunRow,
    ) -> Result<(), Stop> {
        if self.meta.open_alerts == 0 {
            return Ok(());
        }
        let settled = self
            .conn
            .prepare_cached(
                "UPDATE alerts SET cleared_at = ?4
                 WHERE kind = ?1 AND about = ?2 AND cleared_at IS NULL AND run_id < ?3",
            )?
            .execute(params![kind.code(), run.job_id.0, run.run_id.0, self.at.0])?;
        self.count_cleared(settled);
        Ok(())
    }

    /// Of the open matters of a kind none but these is still so.
    pub(crate) fn settle_alerts_but(&mut self, kind: AlertKind, still: &[On]) -> Result<(), Stop> {
        if self.meta.open_alerts == 0 {
            return Ok(());
        }
        let open: Vec<(i64, i64)> = self
            .conn
            .prepare_cached(
                "SELECT alert_id, about FROM alerts WHERE kind = ?1 AND cleared_at IS NULL",
            )?
            .query_map([kind.code()], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (alert_id, of) in open {
            if !still.iter().any(|&on| about(kind, on) == of) {
                self.clear(AlertId(alert_id), None)?;
            }
        }
        Ok(())
    }

    /// Clears one alert. Answers whether it was open; `None` where there is none.
    pub(crate) fn clear(
        &mut self,
        alert_id: AlertId,
        by: Option<&str>,
    ) -> Result<Option<bool>, Stop> {
        let cleared: Option<bool> = self
            .conn
            .prepare_cached("SELECT cleared_at IS NOT NULL FROM alerts WHERE alert_id = ?1")?
            .query_row([alert_id.0], |row| row.get(0))
            .optional()?;
        if cleared != Some(false) {
            return Ok(cleared.map(|_| false));
        }
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE alerts SET cleared_at = ?2, cleared_by = ?3 WHERE alert_id = ?1",
            )?
            .execute(params![alert_id.0, self.at.0, by])?;
        self.count_cleared(changed);
        Ok(Some(true))
    }

    fn count_cleared(&mut self, cleared: usize) {
        let cleared = i64::try_from(cleared).unwrap_or(i64::MAX);
        self.meta.open_alerts = self.meta.open_alerts.saturating_sub(cleared);
    }

    /// A run as alerts name it: `team/job@2026-11-29T15:30:00Z (run-12)`.
    pub(crate) fn title(&self, run: &RunRow) -> Result<String, Stop> {
        let name = name_of(self.conn, run.job_id)?;
        let (at, id) = (run.fire_time, run.run_id);
        Ok(match run.namespace {
            Namespace::Scheduled => format!("{name}@{at} ({id})"),
            Namespace::Manual => format!("{name} by hand at {at} ({id})"),
        })
    }
}
