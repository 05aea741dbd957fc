//! A run that is carried out again: what a rerun and a redo have in common.

use protocol::attempt::Trigger;

use crate::apply::{Context, Stop, malformed};
use crate::command::AlertKind;
use crate::outcome::Done;
use crate::tables::record::Audit;
use crate::tables::run::Run;

/// What is asked for, by whom, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) trigger: Trigger,
    /// As the audit names it.
    pub(crate) action: &'static str,
    pub(crate) by: &'a str,
    pub(crate) reason: &'a str,
}

impl Context<'_> {
    /// Begins the run's next execution, and judges it like a new run once `reopen` has seen to its
    /// shards.
    pub(crate) fn carry_out_again(
        &mut self,
        mut run: Run,
        asked: Asked<'_>,
        reopen: impl FnOnce(&mut Self, &mut Run) -> Result<(), Stop>,
    ) -> Result<Done, Stop> {
        self.begin_execution(&mut run, asked)?;
        reopen(self, &mut run)?;
        self.admit(&mut run)?;
        self.update_run(&run)?;
        self.audit(Audit {
            by: asked.by,
            action: asked.action,
            on: run.on(),
            reason: Some(asked.reason),
        })?;
        Ok(Done::Rerun {
            execution_id: run.row.execution_id,
            execution: run.row.execution,
            state: run.row.state,
        })
    }

    fn begin_execution(&mut self, run: &mut Run, asked: Asked<'_>) -> Result<(), Stop> {
        run.row.execution = run
            .row
            .execution
            .checked_add(1)
            .ok_or_else(|| malformed("an execution beyond the last"))?;
        run.row.execution_id = self.meta.mint_execution();
        run.row.trigger = asked.trigger;
        run.row.admitted_at = self.at;
        run.row.start_deadline = None;
        run.row.reason = None;
        run.ended_at = None;
        self.insert_execution(&run.row, Some(asked.by), Some(asked.reason))?;
        run.row.asked_at = None;
        self.settle_alert(AlertKind::NeedsConfirmation, run.on())?;
        // A run that was final comes back into the working set, and its version with it.
        self.show_version(run.row.job_id, run.row.version)
    }
}
