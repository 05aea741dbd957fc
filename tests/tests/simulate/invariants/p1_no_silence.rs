//! P1: runs and gaps tile every job's schedule exactly.

use std::collections::{BTreeMap, BTreeSet};

use ledger::command::Decision;
use ledger::{Command, Outcome, Proposal};

use super::tables::{Row, Tables, number, number_or_null, text};
use super::{oracle, p6_clocks};
use crate::world::World;

/// Codes of the ledger's tables.
const SCHEDULED: i64 = 0;
const MANUAL_TRIGGER: i64 = 2;
const FLAPPING_ALERT: i64 = 1;
const NEEDS_CONFIRMATION_ALERT: i64 = 5;
const NEEDS_CONFIRMATION: i64 = 3;

/// Changes of leader after which a silent host with leases must have been told of.
const SEVERAL: u32 = 4;

/// Nothing of a paused job fires.
pub fn before_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    let Command::Fire(fire) = &proposal.command else {
        return;
    };
    let job = world.truth.set.jobs.get(&fire.job_id);
    let paused = job.is_some_and(ledger::JobRow::is_paused);
    world.require(
        !paused || outcome.result.is_err(),
        "P1",
        "a paused job does not fire",
        || format!("{fire:?}"),
    );
}

/// A fire that is less late than its job says is harmless is run, and not recorded as missed.
pub fn on_propose(world: &mut World, leader: u64, proposal: &Proposal) {
    let (job_id, version) = match &proposal.command {
        Command::Fire(fire) => (fire.job_id, fire.version),
        _ => return,
    };
    let manifest = world.truth.manifests.get(&(job_id, version));
    let Some(harmless) = manifest.map(|manifest| manifest.misfire.after) else {
        return;
    };
    let wall = world.leader_now(leader).wall;
    let decisions = p6_clocks::decisions(&proposal.command).unwrap_or_default();
    let given_up = decisions.iter().find_map(|decision| match decision {
        Decision::Missed { fire_time, .. } => Some(*fire_time),
        _ => None,
    });
    // Of a thousand late fires the oldest are given up all the same.
    let few = decisions.len() < 1_000;
    world.require(
        !few || given_up.is_none_or(|at| wall - at > harmless),
        "P1",
        "a fire that is merely late runs",
        || format!("{given_up:?} is given up at {wall}, and {harmless} are harmless"),
    );
}

pub fn audit(world: &mut World, tables: &Tables) {
    let books = Books::of(tables);
    for job in tables.rows("jobs") {
        audit_job(world, &books, job);
    }
    audit_reasons(world, tables);
    audit_pleas(world, tables);
    audit_flapping(world, tables);
}

/// The rows that speak of a job's schedule, by job.
struct Books<'a> {
    versions: BTreeMap<i64, Vec<&'a Row>>,
    runs: BTreeMap<i64, BTreeMap<i64, &'a Row>>,
    gaps: BTreeMap<i64, Vec<&'a Row>>,
    /// Runs whose first execution was a person's wish.
    asked_for: BTreeSet<i64>,
}

impl<'a> Books<'a> {
    fn of(tables: &'a Tables) -> Books<'a> {
        let by_job = |table: &str| {
            let mut rows: BTreeMap<i64, Vec<&Row>> = BTreeMap::new();
            for row in tables.rows(table) {
                rows.entry(number(row, "job_id")).or_default().push(row);
            }
            rows
        };
        let mut runs: BTreeMap<i64, BTreeMap<i64, &Row>> = BTreeMap::new();
        let scheduled = |run: &&Row| number(run, "namespace") == SCHEDULED;
        for run in tables.rows("runs").iter().filter(scheduled) {
            let of_job = runs.entry(number(run, "job_id")).or_default();
            of_job.insert(number(run, "fire_time"), run);
        }
        let asked_for = tables.rows("executions").iter().filter(|execution| {
            number(execution, "execution") == 1 && number(execution, "trigger") == MANUAL_TRIGGER
        });
        Books {
            versions: by_job("versions"),
            runs,
            gaps: by_job("gaps"),
            asked_for: asked_for.map(|row| number(row, "run_id")).collect(),
        }
    }

    fn is_asked_for(&self, run: &Row) -> bool {
        self.asked_for.contains(&number(run, "run_id"))
    }
}

fn audit_job(world: &mut World, books: &Books<'_>, job: &Row) {
    let job_id = number(job, "job_id");
    let name = text(job, "name");
    let fired_through = number(job, "fired_through");
    let (no_runs, no_rows) = (BTreeMap::new(), Vec::new());
    let runs = books.runs.get(&job_id).unwrap_or(&no_runs);
    let gaps = books.gaps.get(&job_id).unwrap_or(&no_rows);
    let mut named = BTreeSet::new();
    let mut readable = true;
    for version in books.versions.get(&job_id).unwrap_or(&no_rows) {
        let starts = number(version, "starts");
        let ends = number_or_null(version, "ends").unwrap_or(fired_through);
        let through = ends.min(fired_through);
        let Some(instants) = oracle::instants(text(version, "manifest"), starts, through) else {
            readable = false;
            continue;
        };
        for &instant in &instants {
            audit_instant(world, books, name, instant, runs, gaps);
        }
        audit_gaps(world, name, version, &instants, gaps);
        named.extend(instants);
    }
    for (fire_time, run) in runs {
        // A person may ask for a date that lies before the job's first.
        world.require(
            named.contains(fire_time) || !readable || books.is_asked_for(run),
            "P1",
            "every run is of an instant of the version in force",
            || format!("{name} at {fire_time}: {run:?} (settled through {fired_through})"),
        );
    }
}

fn audit_instant(
    world: &mut World,
    books: &Books<'_>,
    name: &str,
    instant: i64,
    runs: &BTreeMap<i64, &Row>,
    gaps: &[&Row],
) {
    let covered = gaps
        .iter()
        .filter(|gap| number(gap, "after") < instant && instant <= number(gap, "through"))
        .count();
    let run = runs.get(&instant);
    let by_person = run.is_some_and(|run| books.is_asked_for(run));
    let records = covered + usize::from(run.is_some());
    world.require(
        records == 1 || (records == 2 && covered == 1 && by_person),
        "P1",
        "every instant is one run or lies in one gap",
        || {
            format!(
                "{name} at {}: {records} records ({covered} gaps; {run:?})",
                protocol::WallMs(instant)
            )
        },
    );
}

fn audit_gaps(world: &mut World, name: &str, version: &Row, instants: &[i64], gaps: &[&Row]) {
    let of_version = |gap: &&&Row| number(gap, "version") == number(version, "version");
    for gap in gaps.iter().filter(of_version) {
        let (after, through) = (number(gap, "after"), number(gap, "through"));
        let inside = instants
            .iter()
            .filter(|&&at| after < at && at <= through)
            .count();
        world.require(
            number(gap, "count") == inside as i64,
            "P1",
            "a gap says how many instants it holds",
            || format!("{name}: {gap:?} holds {inside}"),
        );
    }
}

/// What waits for a person, or was not run, says why.
fn audit_reasons(world: &mut World, tables: &Tables) {
    const SKIPPED: i64 = 7;
    const MISSED: i64 = 8;
    for run in tables.rows("runs") {
        let state = number(run, "state");
        let owes_reason = [NEEDS_CONFIRMATION, SKIPPED, MISSED].contains(&state);
        world.require(
            !owes_reason || !text(run, "reason").is_empty(),
            "P1",
            "what was not run says why",
            || format!("{run:?}"),
        );
    }
}

/// Who is needed is told, and nobody is told of what is over.
fn audit_pleas(world: &mut World, tables: &Tables) {
    let told: BTreeSet<i64> = tables
        .rows("alerts")
        .iter()
        .filter(|alert| number(alert, "kind") == NEEDS_CONFIRMATION_ALERT)
        .filter(|alert| number_or_null(alert, "cleared_at").is_none())
        .map(|alert| number(alert, "about"))
        .collect();
    for run in tables.rows("runs") {
        const FIRST_FINAL: i64 = 4;
        let state = number(run, "state");
        let is_told = told.contains(&number(run, "run_id"));
        let asks = number(run, "needs_confirmation") > 0 && state < FIRST_FINAL;
        world.require(
            is_told || state != NEEDS_CONFIRMATION,
            "P1",
            "who must confirm a run is told",
            || format!("{run:?}"),
        );
        world.require(
            !is_told || asks,
            "P1",
            "an alert ends with what it is about",
            || format!("{run:?}"),
        );
    }
}

/// A silent host whose leases every new leader gives their full time is told of.
fn audit_flapping(world: &mut World, tables: &Tables) {
    let set = &world.truth.set;
    let silent: Vec<String> = set
        .agents
        .values()
        .filter(|agent| agent.silent_reigns >= SEVERAL)
        .filter(|agent| {
            set.shards.values().any(|shard| {
                matches!(shard.state, ledger::ShardState::Leased(lease) if lease.agent_id == agent.agent_id)
            })
        })
        .map(|agent| agent.name.to_string())
        .collect();
    for name in silent {
        let told = tables.rows("alerts").iter().any(|alert| {
            number(alert, "kind") == FLAPPING_ALERT && text(alert, "text").contains(&name)
        });
        world.require(
            told,
            "P1",
            "a host silent through several leaders is told of",
            || format!("{name} holds leases through {SEVERAL} leaders and nobody was told"),
        );
    }
}

/// Instants up to now that nothing has settled, for jobs in force. To be asked when everything
/// has had time.
pub fn audit_watermarks(world: &mut World) {
    const TIME_MS: i64 = 5_000;
    let through = world.coordinator_now().wall.0 - TIME_MS;
    let set = &world.truth.set;
    let mut owed = Vec::new();
    for job in set.jobs.values().filter(|job| !job.is_paused()) {
        let Some(version) = set.versions.get(&(job.job_id, job.version)) else {
            continue;
        };
        let named = oracle::instants(&version.manifest, version.starts.0, through);
        let first = named
            .unwrap_or_default()
            .into_iter()
            .find(|&at| at > job.fired_through.0);
        if let Some(first) = first {
            owed.push(format!("{} at {}", job.name, protocol::WallMs(first)));
        }
    }
    world.require(owed.is_empty(), "P1", "what is due is settled", || {
        format!("unsettled: {}", owed.join(", "))
    });
}
