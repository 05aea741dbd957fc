//! Whether a run may start beside the other runs of its job.
//!
//! Asked in `apply` and nowhere else that counts: when a run is written, and again when it leaves
//! `waiting`. Between the two, others may have come.

use jobs::Overlap;
use protocol::{JobId, Rule, RunId};

use crate::apply::{Context, Stop};
use crate::rows::{RunState, ShardState};
use crate::settle::pending_at;
use crate::tables::run::Run;
use crate::tables::shard::Shard;

/// The answer for a run that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Start,
    /// Not beside this one, and the policy is not to wait.
    Refuse(RunId),
    /// After this one.
    Wait(RunId),
}

impl Context<'_> {
    /// Judges a new run of a job. Runs that wait count too: they came first.
    pub(crate) fn judge_new(&self, job_id: JobId, overlap: Overlap) -> Result<Admission, Stop> {
        if !self.rules.on(Rule::OverlapJudgedInApply) {
            return Ok(Admission::Start);
        }
        let open = self.open_runs(job_id)?;
        let live = open.iter().find(|(_, state)| state.is_live());
        let before = live.or_else(|| open.iter().find(|(_, state)| *state == RunState::Waiting));
        Ok(match (before, overlap) {
            (None, _) | (_, Overlap::Allow) => Admission::Start,
            (Some((run_id, _)), Overlap::Forbid) => Admission::Refuse(*run_id),
            (Some((run_id, _)), Overlap::Queue | Overlap::Replace) => Admission::Wait(*run_id),
        })
    }

    /// The run that keeps a waiting one from starting: another live run of the job, or one that
    /// has waited longer (the smaller id).
    pub(crate) fn before_in_line(
        &self,
        job_id: JobId,
        run_id: RunId,
    ) -> Result<Option<RunId>, Stop> {
        if !self.rules.on(Rule::OverlapJudgedInApply) {
            return Ok(None);
        }
        let open = self.open_runs(job_id)?;
        Ok(open
            .into_iter()
            .find(|&(other, state)| {
                other != run_id
                    && (state.is_live() || (state == RunState::Waiting && other < run_id))
            })
            .map(|(other, _)| other))
    }

    /// Another live run of the job.
    pub(crate) fn other_live(&self, job_id: JobId, run_id: RunId) -> Result<Option<RunId>, Stop> {
        if !self.rules.on(Rule::OverlapJudgedInApply) {
            return Ok(None);
        }
        let open = self.open_runs(job_id)?;
        Ok(open
            .into_iter()
            .find(|&(other, state)| other != run_id && state.is_live())
            .map(|(other, _)| other))
    }

    /// Lets a run start: takes its fence, and writes its shards where it has none yet. The caller
    /// has written the run's row or writes it afterwards.
    pub(crate) fn make_ready(&mut self, run: &mut Run) -> Result<(), Stop> {
        self.take_fence(run);
        run.row.state = RunState::Ready;
        run.row.reason = None;
        let state = pending_at(self.at);
        let shards = self.shards(run.row.run_id)?;
        if shards.is_empty() {
            for shard in 0..run.row.shards {
                self.insert_shard(run, &Shard::new(run.row.run_id, shard, state))?;
            }
            return Ok(());
        }
        for mut shard in shards {
            if matches!(shard.row.state, ShardState::Pending { .. }) {
                let why = shard.row.reason.clone();
                self.move_shard(run, &mut shard, state, why)?;
            }
        }
        Ok(())
    }

    /// A fence higher than that of every run of any job that left `waiting` before.
    pub(crate) fn take_fence(&mut self, run: &mut Run) {
        if run.row.fence.is_none() || self.rules.on(Rule::FencePerExecution) {
            run.row.fence = Some(self.meta.mint_position());
        }
    }

    /// Sends a run into line behind another. Its next start takes a new fence.
    pub(crate) fn make_waiting(&mut self, run: &mut Run, behind: RunId) {
        if self.rules.on(Rule::FencePerExecution) {
            run.row.fence = None;
        }
        run.row.state = RunState::Waiting;
        run.row.reason = Some(waits_for(behind));
    }
}

pub(crate) fn waits_for(behind: RunId) -> String {
    format!("overlap: in line behind {behind}")
}
