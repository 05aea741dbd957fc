//! A run that is carried out again: what a rerun and a redo have in common.

use protocol::attempt::Trigger;

use crate::apply::{Context, Stop, malformed};
use crate::command::AlertKind;
use crate::tables::record::On;
use crate::tables::run::Run;

/// Who asks for it, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) by: &'a str,
    pub(crate) reason: &'a str,
}

impl Context<'_> {
    /// Begins the run's next execution. Its shards are the caller's.
    pub(crate) fn begin_execution(
        &mut self,
        run: &mut Run,
        trigger: Trigger,
        asked: Asked<'_>,
    ) -> Result<(), Stop> {
        run.row.execution = run
            .row
            .execution
            .checked_add(1)
            .ok_or_else(|| malformed("an execution beyond the last"))?;
        run.row.execution_id = self.meta.mint_execution();
        run.row.trigger = trigger;
        run.row.admitted_at = self.at;
        run.row.start_deadline = None;
        run.row.reason = None;
        run.ended_at = None;
        self.insert_execution(&run.row, Some(asked.by), Some(asked.reason))?;
        run.row.asked_at = None;
        let on = On::Run(run.row.job_id, run.row.run_id);
        self.settle_alert(AlertKind::NeedsConfirmation, on)?;
        // A run that was final comes back into the working set, and its version with it.
        self.show_version(run.row.job_id, run.row.version)
    }
}
