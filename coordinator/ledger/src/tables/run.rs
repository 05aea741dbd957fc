//! Runs, and their executions.

use std::collections::BTreeMap;

use protocol::attempt::Trigger;
use protocol::{DurationMs, ExecutionId, JobId, RunId, WallMs};
use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{BlockerKind, Coded, coded, coded_option, damaged, json, json_option};
use crate::outcome::Refusal;
use crate::rows::{Blocker, RunRow, RunState, ShardState, Wait};
use crate::tables::record::On;

/// A run with the tally of its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) row: RunRow,
    pub(crate) tally: Tally,
    pub(crate) ended_at: Option<WallMs>,
}

impl Run {
    /// As records name it.
    pub(crate) const fn on(&self) -> On {
        On::Run(self.row.job_id, self.row.run_id)
    }

    pub(crate) fn wrong_state(&self, needed: &str) -> Stop {
        Refusal::WrongRunState {
            run: self.row.run_id,
            state: self.row.state,
            needed: needed.to_owned(),
        }
        .into()
    }
}

/// What the other runs of its job must know of an open run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRun {
    pub(crate) run_id: RunId,
    pub(crate) state: RunState,
    /// Rises with every execution that is admitted: its place in the line.
    pub(crate) execution_id: ExecutionId,
    pub(crate) trigger: Trigger,
    pub(crate) fire_time: WallMs,
    pub(crate) waits_on: Option<Blocker>,
}

/// How many of a run's shards are in each state. All zero before the run first leaves `waiting`:
/// its shard rows are written then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) pending: u32,
    pub(crate) leased: u32,
    pub(crate) succeeded: u32,
    pub(crate) needs_confirmation: u32,
    pub(crate) cancelled: u32,
}

impl Tally {
    /// Shards that something is still to happen to without a person.
    pub(crate) const fn open(&self) -> u32 {
        self.pending.saturating_add(self.leased)
    }

    /// Whether the run has never left `waiting`.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Tally::default()
    }

    pub(crate) fn add(&mut self, state: &ShardState) {
        let slot = self.slot(state);
        *slot = slot.saturating_add(1);
    }

    pub(crate) fn remove(&mut self, state: &ShardState) {
        let slot = self.slot(state);
        *slot = slot.saturating_sub(1);
    }

    fn slot(&mut self, state: &ShardState) -> &mut u32 {
        match state {
            ShardState::Pending { .. } => &mut self.pending,
            ShardState::Leased(_) => &mut self.leased,
            ShardState::Succeeded => &mut self.succeeded,
            ShardState::NeedsConfirmation => &mut self.needs_confirmation,
            ShardState::Cancelled => &mut self.cancelled,
        }
    }
}

/// As a literal, so that statements are literals too: they are looked up by their text, many
/// thousand times a second.
macro_rules! run_columns {
    () => {
        "run_id, job_id, version, namespace, fire_time, nominal, \
         state, reason, execution, execution_id, trigger, fence, admitted_at, start_deadline_ms, \
         shards, pending, leased, succeeded, needs_confirmation, cancelled, ended_at, \
         params, asked_at, redo, waits_on, waits_job, waits_run, waits_since"
    };
}

pub(crate) const RUN_COLUMNS: &str = run_columns!();

/// Reads [`RUN_COLUMNS`].
pub(crate) fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        row: RunRow {
            run_id: RunId(row.get(0)?),
            job_id: JobId(row.get(1)?),
            version: row.get(2)?,
            namespace: coded(row, 3)?,
            fire_time: WallMs(row.get(4)?),
            nominal: json(row, 5)?,
            state: coded(row, 6)?,
            reason: row.get(7)?,
            waits: read_wait(row, 24)?,
            execution: row.get(8)?,
            execution_id: ExecutionId(row.get(9)?),
            trigger: coded(row, 10)?,
            fence: row.get(11)?,
            admitted_at: WallMs(row.get(12)?),
            start_deadline: row.get::<_, Option<i64>>(13)?.map(DurationMs),
            shards: row.get(14)?,
            params: json_option(row, 21)?.unwrap_or_default(),
            asked_at: row.get::<_, Option<i64>>(22)?.map(WallMs),
            redo: row.get(23)?,
        },
        tally: Tally {
            pending: row.get(15)?,
            leased: row.get(16)?,
            succeeded: row.get(17)?,
            needs_confirmation: row.get(18)?,
            cancelled: row.get(19)?,
        },
        ended_at: row.get::<_, Option<i64>>(20)?.map(WallMs),
    })
}

/// Reads `waits_on, waits_job, waits_run, waits_since` from `first` on.
fn read_wait(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Wait>> {
    let Some(kind) = coded_option::<BlockerKind>(row, first)? else {
        return Ok(None);
    };
    let run = row.get::<_, Option<i64>>(first + 2)?.map(RunId);
    let named = || run.ok_or_else(|| damaged(first + 2, Type::Null, "it waits for no run"));
    let on = match kind {
        BlockerKind::Overlap => Blocker::Overlap { run: named()? },
        BlockerKind::Replaced => Blocker::Replaced { run: named()? },
        BlockerKind::Previous => Blocker::Previous { run: named()? },
        BlockerKind::Turn => Blocker::Turn { run: named()? },
        BlockerKind::After => Blocker::After {
            job: JobId(row.get(first + 1)?),
            run,
        },
    };
    let since = WallMs(row.get(first + 3)?);
    Ok(Some(Wait { on, since }))
}

/// The columns that a wait fills: kind, job, run, since.
fn wait_columns(wait: Option<Wait>) -> (Option<i64>, Option<i64>, Option<i64>, Option<i64>) {
    let Some(Wait { on, since }) = wait else {
        return (None, None, None, None);
    };
    let (kind, job) = match on {
        Blocker::Overlap { .. } => (BlockerKind::Overlap, None),
        Blocker::Replaced { .. } => (BlockerKind::Replaced, None),
        Blocker::Previous { .. } => (BlockerKind::Previous, None),
        Blocker::After { job, .. } => (BlockerKind::After, Some(job.0)),
        Blocker::Turn { .. } => (BlockerKind::Turn, None),
    };
    let run = on.run().map(|run| run.0);
    (Some(kind.code()), job, run, Some(since.0))
}

/// `None` where nothing was given, as it is for nearly every run.
fn write_params(params: &BTreeMap<String, String>) -> Option<String> {
    (!params.is_empty())
        .then(|| serde_json::to_string(params).expect("a map of strings is always JSON"))
}

fn write_nominal(nominal: &[String]) -> String {
    serde_json::to_string(nominal).expect("a list of strings is always JSON")
}

pub(crate) fn find_run(conn: &Connection, run_id: RunId) -> rusqlite::Result<Option<Run>> {
    conn.prepare_cached(concat!(
        "SELECT ",
        run_columns!(),
        " FROM runs WHERE run_id = ?1"
    ))?
    .query_row([run_id.0], read_run)
    .optional()
}

/// Writes what may change of a run.
pub(crate) fn write_run(conn: &Connection, run: &Run) -> rusqlite::Result<()> {
    let row = &run.row;
    let (waits_on, waits_job, waits_run, waits_since) = wait_columns(row.waits);
    conn.prepare_cached(
        "UPDATE runs SET state = ?2, reason = ?3, execution = ?4, execution_id = ?5,
                trigger = ?6, fence = ?7, admitted_at = ?8, start_deadline_ms = ?9,
                pending = ?10, leased = ?11, succeeded = ?12, needs_confirmation = ?13,
                cancelled = ?14, ended_at = ?15, asked_at = ?16, redo = ?17,
                waits_on = ?18, waits_job = ?19, waits_run = ?20, waits_since = ?21
             WHERE run_id = ?1",
    )?
    .execute(params![
        row.run_id.0,
        row.state.code(),
        row.reason,
        row.execution,
        row.execution_id.0,
        row.trigger.code(),
        row.fence,
        row.admitted_at.0,
        row.start_deadline.map(|length| length.0),
        run.tally.pending,
        run.tally.leased,
        run.tally.succeeded,
        run.tally.needs_confirmation,
        run.tally.cancelled,
        run.ended_at.map(|at| at.0),
        row.asked_at.map(|at| at.0),
        row.redo,
        waits_on,
        waits_job,
        waits_run,
        waits_since,
    ])?;
    Ok(())
}

impl Context<'_> {
    pub(crate) fn run(&self, run_id: RunId) -> Result<Run, Stop> {
        if let Some(run) = self.held.borrow().run(run_id) {
            return Ok(run.clone());
        }
        find_run(self.conn, run_id)?.ok_or_else(|| Refusal::NoSuchRun { run: run_id }.into())
    }

    /// The job's runs that are not final, oldest id first.
    pub(crate) fn open_runs(&self, job_id: JobId) -> Result<Vec<OpenRun>, Stop> {
        let mut statement = self.conn.prepare_cached(
            "SELECT run_id, state, execution_id, trigger, fire_time, waits_on, waits_job,
                waits_run, waits_since
             FROM runs INDEXED BY runs_open WHERE job_id = ?1 AND state < 4 ORDER BY run_id",
        )?;
        let rows = statement.query_map([job_id.0], |row| {
            Ok(OpenRun {
                run_id: RunId(row.get(0)?),
                state: coded(row, 1)?,
                execution_id: ExecutionId(row.get(2)?),
                trigger: coded(row, 3)?,
                fire_time: WallMs(row.get(4)?),
                waits_on: read_wait(row, 5)?.map(|wait| wait.on),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The run of an instant, if it has one.
    pub(crate) fn run_of_fire(&self, like: &RunRow) -> Result<Option<RunId>, Stop> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT run_id FROM runs WHERE job_id = ?1 AND namespace = ?2 AND fire_time = ?3",
            )?
            .query_row(
                params![like.job_id.0, like.namespace.code(), like.fire_time.0],
                |row| Ok(RunId(row.get(0)?)),
            )
            .optional()?)
    }

    /// Writes a new run, or refuses because its instant already has one.
    pub(crate) fn insert_run(&mut self, run: &Run) -> Result<(), Stop> {
        let row = &run.row;
        let (waits_on, waits_job, waits_run, waits_since) = wait_columns(row.waits);
        let inserted = self
            .conn
            .prepare_cached(
                "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
                    ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27,
                    ?28)",
            )?
            .execute(params![
                row.run_id.0,
                row.job_id.0,
                row.version,
                row.namespace.code(),
                row.fire_time.0,
                write_nominal(&row.nominal),
                row.state.code(),
                row.reason,
                row.execution,
                row.execution_id.0,
                row.trigger.code(),
                row.fence,
                row.admitted_at.0,
                row.start_deadline.map(|length| length.0),
                row.shards,
                run.tally.pending,
                run.tally.leased,
                run.tally.succeeded,
                run.tally.needs_confirmation,
                run.tally.cancelled,
                run.ended_at.map(|at| at.0),
                write_params(&row.params),
                row.asked_at.map(|at| at.0),
                row.redo,
                waits_on,
                waits_job,
                waits_run,
                waits_since,
            ]);
        if let Err(error) = inserted {
            return Err(self.why_not_inserted(row, error));
        }
        self.changes.run(row);
        Ok(())
    }

    fn why_not_inserted(&self, row: &RunRow, error: rusqlite::Error) -> Stop {
        if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) {
            return error.into();
        }
        match self.run_of_fire(row) {
            Ok(Some(run)) => Refusal::AlreadyHasRun {
                fire_time: row.fire_time,
                run,
            }
            .into(),
            Ok(None) => error.into(),
            Err(stop) => stop,
        }
    }

    /// Writes what may change of a run.
    pub(crate) fn update_run(&mut self, run: &Run) -> Result<(), Stop> {
        if !self.held.borrow_mut().hold_run(run) {
            write_run(self.conn, run)?;
        }
        self.changes.run(&run.row);
        Ok(())
    }

    /// Records the run's present execution, and who asked for it where a person did.
    pub(crate) fn insert_execution(
        &mut self,
        run: &RunRow,
        asked_by: Option<&str>,
        reason: Option<&str>,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("INSERT INTO executions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                run.run_id.0,
                run.execution,
                run.execution_id.0,
                run.trigger.code(),
                asked_by,
                reason,
                run.admitted_at.0,
            ])?;
        Ok(())
    }
}
