//! Writing what was decided about owed instants: the common part of `Fire`, `PutJob` and
//! `DeleteJob`.

use std::collections::BTreeMap;

use protocol::attempt::Trigger;
use protocol::{DurationMs, JobId, Rule, RunId, WallMs};

use crate::apply::{Context, Stop, clip, malformed};
use crate::command::{AlertKind, Decision, GapReason};
use crate::outcome::Refusal;
use crate::rows::{JobRow, Namespace, RunRow, RunState};
use crate::tables::job::{Policy, name_of};
use crate::tables::record::{NewGap, On};
use crate::tables::run::{Run, Tally};

/// Most decisions that one command may carry. A proposer that owes more settles them in several.
pub(crate) const DECISIONS_MAX: usize = 10_000;

/// Most shards a run may have.
pub(crate) const SHARDS_MAX: u32 = 10_000;

/// A fire of the schedule has the manifest's own.
static NO_PARAMS: BTreeMap<String, String> = BTreeMap::new();

/// The stretch of a version's schedule that a command settles: (`from`, `through`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) job_id: JobId,
    pub(crate) version: u32,
    pub(crate) from: WallMs,
    pub(crate) through: WallMs,
}

/// What a run is written from.
pub(crate) struct NewRun<'a> {
    pub(crate) job_id: JobId,
    pub(crate) version: u32,
    pub(crate) namespace: Namespace,
    pub(crate) fire_time: WallMs,
    pub(crate) nominal: &'a [String],
    pub(crate) trigger: Trigger,
    pub(crate) start_deadline: Option<DurationMs>,
    pub(crate) shards: u32,
    pub(crate) params: &'a BTreeMap<String, String>,
    /// Who asked for it and why, where a person did.
    pub(crate) asked: Option<(&'a str, &'a str)>,
}

/// Refuses a settlement that was computed from another state than the one it meets.
pub(crate) fn compare(
    context: &Context<'_>,
    job: &JobRow,
    version: u32,
    from: WallMs,
) -> Result<(), Stop> {
    let same = job.version == version && job.fired_through == from;
    if same || !context.rules.on(Rule::FireComparesAndSwaps) {
        return Ok(());
    }
    Err(Refusal::WatermarkMoved {
        expected_version: version,
        expected_through: from,
        version: job.version,
        fired_through: job.fired_through,
    }
    .into())
}

/// Refuses decisions that are out of order, outside the stretch, or absurd.
fn check(stretch: Stretch, decisions: &[Decision]) -> Result<(), Stop> {
    if stretch.through < stretch.from {
        return Err(malformed(format!(
            "it settles from {} back to {}",
            stretch.from, stretch.through
        )));
    }
    if decisions.len() > DECISIONS_MAX {
        return Err(malformed(format!(
            "{} decisions, more than {DECISIONS_MAX}",
            decisions.len()
        )));
    }
    let mut last = stretch.from;
    for decision in decisions {
        let end = match decision {
            Decision::Run { fire_time, .. } | Decision::Missed { fire_time, .. } => *fire_time,
            Decision::Gap {
                from,
                through,
                count,
                reason,
            } => {
                check_gap(last, *from, *through, *count, *reason)?;
                *through
            }
        };
        if end <= last || end > stretch.through {
            return Err(malformed(format!(
                "a decision about {end} does not lie after {last} and up to {}",
                stretch.through
            )));
        }
        last = end;
    }
    Ok(())
}

fn check_gap(
    last: WallMs,
    from: WallMs,
    through: WallMs,
    count: u64,
    reason: GapReason,
) -> Result<(), Stop> {
    // No schedule names two instants within one millisecond.
    let room = u64::try_from(through.0.saturating_sub(from.0)).unwrap_or(0);
    let unknown = count == 0 && reason == GapReason::UnreadableManifest;
    if from < last || count > room || (count == 0 && !unknown) {
        return Err(malformed(format!(
            "a gap of {count} instants from {from} through {through}, after {last}"
        )));
    }
    Ok(())
}

impl JobRow {
    /// Of what a restored ledger does not know nothing is run, and nothing called missed.
    pub(crate) fn judge_doubt(&self, decisions: &[Decision]) -> Result<(), Refusal> {
        let admits = |decision: &Decision| match decision {
            Decision::Gap { reason, .. } => {
                matches!(reason, GapReason::Unknown | GapReason::UnreadableManifest)
            }
            Decision::Run { .. } | Decision::Missed { .. } => false,
        };
        if decisions.iter().all(admits) {
            return Ok(());
        }
        Err(Refusal::InDoubt {
            job: self.name.to_string(),
        })
    }
}

impl Context<'_> {
    /// Writes the decisions about a stretch: runs, missed instants, gaps and their alert. The
    /// watermark is the caller's.
    pub(crate) fn write_decisions(
        &mut self,
        stretch: Stretch,
        decisions: &[Decision],
    ) -> Result<Vec<(RunId, RunState)>, Stop> {
        check(stretch, decisions)?;
        let policy = self.policy(stretch.job_id, stretch.version)?;
        let mut runs = Vec::new();
        let (mut given_up, mut unknown) = (Stretches::default(), Stretches::default());
        for decision in decisions {
            match decision {
                Decision::Run {
                    fire_time,
                    nominal,
                    trigger,
                    start_deadline,
                } => {
                    let new = NewRun {
                        start_deadline: *start_deadline,
                        ..scheduled(stretch, &policy, *fire_time, nominal, *trigger)
                    };
                    runs.push(self.write_admitted(&new)?);
                }
                Decision::Missed {
                    fire_time,
                    nominal,
                    reason,
                } => {
                    let trigger = Trigger::Scheduled;
                    let new = scheduled(stretch, &policy, *fire_time, nominal, trigger);
                    let reason = Some(clip(reason).to_owned());
                    let run = self.write_run(&new, RunState::Missed, reason)?;
                    runs.push((run.row.run_id, RunState::Missed));
                }
                Decision::Gap {
                    from,
                    through,
                    count,
                    reason,
                } => {
                    let gap = NewGap {
                        job_id: stretch.job_id,
                        version: stretch.version,
                        after: *from,
                        through: *through,
                        count: i64::try_from(*count).map_err(|_| malformed("a gap too large"))?,
                        reason: *reason,
                    };
                    self.insert_gap(gap)?;
                    match gap.reason {
                        // Of a pause its person knows.
                        GapReason::Paused => {}
                        GapReason::Unknown => unknown.add(gap),
                        GapReason::GivenUpAfterOutage | GapReason::UnreadableManifest => {
                            given_up.add(gap);
                        }
                    }
                }
            }
        }
        self.tell_of_gaps(stretch.job_id, &given_up, &unknown)?;
        Ok(runs)
    }

    fn tell_of_gaps(
        &mut self,
        job_id: JobId,
        given_up: &Stretches,
        unknown: &Stretches,
    ) -> Result<(), Stop> {
        let name = name_of(self.conn, job_id)?;
        let run = format!("`matins run {name} --at TIME --reason WHY`");
        if let Some(which) = given_up.words() {
            let text = format!("{name}: {which} were given up. To run one of them: {run}");
            self.raise(AlertKind::GivenUp, On::Job(job_id), &text)?;
        }
        if let Some(which) = unknown.words() {
            let text = format!(
                "{name}: {which} lie between a backup and its restore, and whether they ran nobody \
                 knows. Look at what the job has written; to run one that did not: {run}. When all \
                 are seen to, clear this alert and say how you know"
            );
            self.raise(AlertKind::UnknownSinceBackup, On::Job(job_id), &text)?;
        }
        Ok(())
    }

    /// Writes a run that starts, waits or is skipped, as its job's policies have it.
    pub(crate) fn write_admitted(&mut self, new: &NewRun<'_>) -> Result<(RunId, RunState), Stop> {
        let mut run = self.write_run(new, RunState::Waiting, None)?;
        self.admit(&mut run)?;
        self.update_run(&run)?;
        Ok((run.row.run_id, run.row.state))
    }

    /// Writes a new run with its first execution.
    fn write_run(
        &mut self,
        new: &NewRun<'_>,
        state: RunState,
        reason: Option<String>,
    ) -> Result<Run, Stop> {
        let run = Run {
            row: RunRow {
                run_id: self.meta.mint_run(),
                job_id: new.job_id,
                version: new.version,
                namespace: new.namespace,
                fire_time: new.fire_time,
                nominal: new.nominal.to_vec(),
                state,
                reason,
                waits: None,
                execution: 1,
                execution_id: self.meta.mint_execution(),
                trigger: new.trigger,
                fence: None,
                admitted_at: self.at,
                start_deadline: new.start_deadline,
                shards: new.shards,
                params: new.params.clone(),
                asked_at: None,
                redo: None,
            },
            tally: Tally::default(),
            ended_at: state.is_final().then_some(self.at),
        };
        self.insert_run(&run)?;
        let (by, why) = new.asked.unzip();
        self.insert_execution(&run.row, by, why)?;
        Ok(run)
    }
}

/// A run of the schedule.
fn scheduled<'a>(
    stretch: Stretch,
    policy: &Policy,
    fire_time: WallMs,
    nominal: &'a [String],
    trigger: Trigger,
) -> NewRun<'a> {
    NewRun {
        job_id: stretch.job_id,
        version: stretch.version,
        namespace: Namespace::Scheduled,
        fire_time,
        nominal,
        trigger,
        start_deadline: None,
        shards: policy.shards,
        params: &NO_PARAMS,
        asked: None,
    }
}

/// All gaps of a kind in one command, for the one alert about them.
#[derive(Default)]
struct Stretches {
    count: i64,
    stretch: Option<(WallMs, WallMs)>,
    /// A gap among them does not know its count.
    at_least: bool,
}

impl Stretches {
    fn add(&mut self, gap: NewGap) {
        self.count = self.count.saturating_add(gap.count);
        let after = self.stretch.map_or(gap.after, |(after, _)| after);
        self.stretch = Some((after, gap.through));
        self.at_least |= gap.count == 0;
    }

    fn words(&self) -> Option<String> {
        let (after, through) = self.stretch?;
        let count = match (self.count, self.at_least) {
            (0, true) => "an unknown number of".to_owned(),
            (count, true) => format!("at least {count}"),
            (count, false) => count.to_string(),
        };
        Some(format!("{count} instants after {after} through {through}"))
    }
}
