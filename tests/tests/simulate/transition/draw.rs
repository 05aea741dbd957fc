//! How what happens next is drawn from a seed and the world as it is.

use ledger::command::{RerunScope, Verdict};
use ledger::{Cordon, RunState};
use protocol::host::{HostLoad, Value};
use protocol::{Health, HostFacts, RunId, WallMs};

use super::Transition;
use crate::rng::Rng;
use crate::world::World;
use crate::world::people::{After, Job, Misfire};
use crate::world::registration::machine;

/// Draws what happens next.
pub fn draw(world: &mut World) -> Transition {
    match world.rng.between(0, 99) {
        0..=17 => Transition::Wait,
        18..=35 => draw_for_coordinator(world),
        36..=76 => draw_for_host(world),
        77..=86 => draw_for_job(world),
        _ => draw_for_run(world),
    }
}

pub fn draw_for_coordinator(world: &mut World) -> Transition {
    let rng = &mut world.rng;
    match rng.between(0, 15) {
        15 => Transition::StepOtherClock {
            witness: rng.one_in(2),
            by_ms: rng.pick(&[-7_200_000, -1_500, 700, 300_000, 90_000_000]),
            back_after_ms: rng.span(500, 600_000),
        },
        11 => Transition::CrashStandby {
            down_ms: rng.span(50, 180_000),
        },
        12..=14 => Transition::HandOver,
        10 => Transition::RebootCoordinator {
            keep: rng.one_in(2),
            down_ms: rng.span(5_000, 1_200_000),
        },
        0..=2 => Transition::CrashCoordinator {
            keep: rng.one_in(2),
            down_ms: rng.span(50, 180_000),
        },
        3 => Transition::Replace {
            both_ms: rng.span(100, 120_000),
            error_ms: rng.pick(&[0, 0, 300_000, -300_000]),
        },
        4 => Transition::StallCoordinator {
            ms: rng.span(300, 90_000),
        },
        5 => Transition::SlowDisk {
            commit_ms: rng.span(50, 15_000),
            ms: rng.span(1_000, 60_000),
        },
        6 => Transition::WithholdQuorum {
            ms: rng.span(100, 90_000),
        },
        7 => Transition::StepClock {
            by_ms: rng.pick(&[-300, 300, 900, -900]),
            back_after_ms: None,
        },
        _ => Transition::StepClock {
            by_ms: {
                let by = rng.span(2_001, 3 * 3_600_000);
                if rng.one_in(2) { by } else { -by }
            },
            back_after_ms: (!rng.one_in(4)).then(|| rng.span(500, 50_000)),
        },
    }
}

pub fn draw_for_host(world: &mut World) -> Transition {
    let host = world.rng.index(world.hosts.len());
    let few_hosts = world.hosts.len() < 7;
    let machines = world.controls.len();
    let rng = &mut world.rng;
    match rng.between(0, 26) {
        19 => Transition::Cordon {
            host,
            cordon: rng.pick(&[Cordon::Cordoned, Cordon::Draining, Cordon::DrainingNow]),
        },
        20 => Transition::Uncordon { host },
        22 | 23 => Transition::LookAt {
            host,
            health: rng.pick(&[Health::Ok, Health::Degraded, Health::Failed, Health::Failed]),
            rebuilding: rng.one_in(3),
        },
        24 => Transition::Load {
            host,
            load: HostLoad {
                cpu_used_milli: rng.between(0, 40_000) as u32,
                memory_available_bytes: (rng.between(0, 64) << 30) as u64,
                memory_pressure_milli: rng.pick(&[None, Some(0), Some(200)]),
                ..HostLoad::default()
            },
        },
        25 | 26 if world.hosts[host].facts.is_some() => Transition::Refit {
            host,
            facts: any_facts(&mut world.rng),
        },
        21 => Transition::SetResource {
            capacity: rng.between(0, 6) as u32,
        },
        0 => Transition::KillAgent {
            host,
            down_ms: rng.span(100, 60_000),
        },
        1 => Transition::TermAgent {
            host,
            down_ms: rng.span(100, 60_000),
        },
        2 => Transition::KillSupervisor {
            host,
            down_ms: rng.span(200, 5_000),
        },
        3 => Transition::TermSupervisor { host },
        4 => Transition::KillBoth {
            host,
            down_ms: rng.span(200, 10_000),
        },
        5 => Transition::StopAgent {
            host,
            ms: rng.span(100, 180_000),
        },
        6 => Transition::StopSupervisor {
            host,
            ms: rng.span(100, 120_000),
        },
        7 | 8 => Transition::StallHost {
            host,
            ms: rng.span(100, 180_000),
        },
        9 => Transition::CutPower {
            host,
            down_ms: rng.span(1_000, 1_200_000),
        },
        10 => Transition::FillDisk {
            host,
            ms: rng.span(1_000, 30_000),
        },
        11 | 12 => {
            let (up, down) = rng.pick(&[(true, true), (true, false), (false, true)]);
            // Half of the time one coordinator is still in reach.
            let machine = rng.one_in(2).then(|| rng.index(machines));
            Transition::CutNetwork {
                host,
                machine,
                up,
                down,
                ms: rng.span(200, 1_200_000),
            }
        }
        13 => Transition::CutAll {
            ms: rng.span(200, 60_000),
        },
        14 => Transition::SlowNetwork {
            host,
            longest_ms: rng.span(20, 8_000),
            ms: rng.span(1_000, 60_000),
        },
        15 if few_hosts && rng.one_in(2) => Transition::CloneHost {
            host,
            ms: rng.span(1_000, 600_000),
        },
        15 | 16 => Transition::BreakConnections { host },
        17 if few_hosts && rng.one_in(2) => Transition::RevokeHost { host },
        _ => Transition::ChangePath { host },
    }
}

fn draw_for_job(world: &mut World) -> Transition {
    let names: Vec<String> = world
        .truth
        .set
        .jobs
        .values()
        .map(|job| job.name.to_string())
        .collect();
    let Some(name) = (!names.is_empty()).then(|| names[world.rng.index(names.len())].clone())
    else {
        return Transition::Put {
            job: any_job(world),
        };
    };
    let paused = world.job(&name).is_paused();
    match world.rng.between(0, 12) {
        0..=3 => {
            let mut job = any_job(world);
            job.after.retain(|(other, _)| *other != name);
            job.name = name;
            Transition::Put { job }
        }
        4 => {
            let mut job = any_job(world);
            job.after.retain(|(other, _)| *other != name);
            job.renamed_from = (job.name != name).then_some(name);
            Transition::Put { job }
        }
        5 => Transition::Delete { job: name },
        6 if names.len() < 5 => Transition::Put {
            job: any_job(world),
        },
        10 => Transition::Pause { job: name },
        11 => Transition::Resume { job: name },
        12 if paused => Transition::Resume { job: name },
        _ => Transition::Run {
            instant: any_instant(world),
            job: name,
            given: world
                .rng
                .pick(&[None, None, Some(("who", "me")), Some(("whom", "me"))]),
        },
    }
}

pub fn draw_for_run(world: &mut World) -> Transition {
    let waits: Vec<RunId> = world
        .truth
        .set
        .runs
        .values()
        .filter(|run| run.state == RunState::NeedsConfirmation)
        .map(|run| run.run_id)
        .collect();
    if !waits.is_empty() && !world.rng.one_in(3) {
        let run_id = waits[world.rng.index(waits.len())];
        let verdict = world
            .rng
            .pick(&[Verdict::Retry, Verdict::Succeeded, Verdict::Failed]);
        return Transition::Confirm { run_id, verdict };
    }
    let known = world.truth.runs.len();
    if known == 0 {
        return Transition::Wait;
    }
    // Mostly a run that is still open, sometimes any.
    let open: Vec<RunId> = world.truth.set.runs.keys().copied().collect();
    let run_id = if open.is_empty() || world.rng.one_in(3) {
        RunId(world.rng.between(1, known as i64))
    } else {
        open[world.rng.index(open.len())]
    };
    match world.rng.between(0, 6) {
        0..=2 => Transition::Cancel { run_id },
        3 | 4 => Transition::Rerun {
            run_id,
            scope: RerunScope::Run,
        },
        5 => Transition::Rerun {
            run_id,
            scope: world.rng.pick(&[
                RerunScope::Failed,
                RerunScope::Shard(0),
                RerunScope::Shard(1),
            ]),
        },
        _ => Transition::Redo {
            run_id,
            force: world.rng.one_in(2),
        },
    }
}

/// An instant that may be past, future, settled or not, or none.
pub fn any_instant(world: &mut World) -> Option<WallMs> {
    if world.rng.one_in(2) {
        return None;
    }
    let minute = world.coordinator_now().wall.0 / 60_000;
    Some(WallMs((minute + world.rng.between(-20, 3)) * 60_000))
}

/// A job of the kind that finds faults: often due, several shards, short and long leases.
pub fn any_job(world: &mut World) -> Job {
    let rng = &mut world.rng;
    let letters = ["a", "b", "c", "d", "e", "f", "g"];
    let name = format!("sim/{}", letters[rng.index(letters.len())]);
    let cron = match rng.between(0, 7) {
        0..=2 => "* * * * *".to_owned(),
        3 => "*/2 * * * *".to_owned(),
        4 => format!("{},{} * * * *", rng.between(0, 29), rng.between(30, 59)),
        5 => format!("@every {}s", rng.between(5, 40)),
        6 => format!("@every {}s", rng.between(41, 400)),
        _ => "*/5 * * * *".to_owned(),
    };
    let after = any_predecessors(rng, &name);
    let overlap = rng.pick(&["forbid", "queue", "queue", "allow", "replace"]);
    Job {
        name,
        renamed_from: None,
        cron,
        dialect: "vixie",
        timezone: rng.pick(&["Etc/UTC", "Asia/Shanghai"]).to_owned(),
        safe: !rng.one_in(3),
        shards: rng.pick(&[1, 1, 2, 3, 5]),
        overlap,
        strict: overlap != "allow" && rng.one_in(5),
        // What would be waited for is cancelled under `replace`.
        previous: rng
            .pick(&[None, None, None, Some("succeeded"), Some("ended")])
            .filter(|previous| overlap != "replace" || *previous == "ended"),
        after,
        catch_up: rng.pick(&[(1, 1), (1, 1), (3, 1), (4, 2)]),
        misfire: match rng.between(0, 2) {
            0 => Misfire::RunNow,
            1 => Misfire::Skip,
            _ => Misfire::Within(rng.between(60, 1_200) as u32),
        },
        late_after_s: rng.pick(&[1, 15, 60]),
        retries: rng.between(0, 3) as u32,
        backoff_s: vec![rng.between(1, 5) as u32, rng.between(5, 40) as u32],
        timeout_s: rng.pick(&[20, 60, 300]),
        takeover_s: rng.pick(&[15, 15, 60, 60, 600]),
        start_deadline_s: rng.one_in(4).then(|| rng.between(5, 600) as u32),
        labels: if rng.one_in(6) {
            vec!["ssd"]
        } else {
            Vec::new()
        },
        // Every host is of the first, whatever is known of it; there may be none of the others.
        class: rng.pick(&[
            None,
            None,
            None,
            Some("general"),
            Some("general"),
            Some("cpu"),
            Some("memory"),
            Some("io"),
        ]),
        cpu: rng.pick(&[None, None, None, Some(1), Some(4)]),
        memory: rng.pick(&[None, None, None, Some("1GiB"), Some("12GiB"), Some("40GiB")]),
        uses: rng.one_in(5).then(|| rng.between(1, 3) as u32),
        priority: rng.pick(&[50, 50, 0, 90]),
        purpose: format!("drawn {}", rng.between(0, 3)),
    }
}

/// What a host may be found to be: of one class or another, or of none.
pub fn any_facts(rng: &mut Rng) -> HostFacts {
    let (cores, memory_gib) = rng.pick(&[(2, 8), (4, 128), (8, 32), (16, 64), (32, 512)]);
    let (medium, iops) = rng.pick(&[("ssd", 20_000), ("ssd", 150), ("hdd", 150)]);
    let mut facts = machine(cores, memory_gib, medium, iops);
    if rng.one_in(5) {
        facts.miss("memory.usable_bytes", "it could not be read");
    }
    if rng.one_in(3) {
        facts.know("disk.fsync_grade", Value::Text("C".to_owned()));
    }
    facts.know("storage.rebuilding", Value::Truth(rng.one_in(4)));
    facts
}

/// Jobs that may be there or not: who comes after one that is not there is refused.
fn any_predecessors(rng: &mut Rng, name: &str) -> Vec<(String, After)> {
    if !rng.one_in(4) {
        return Vec::new();
    }
    let job = format!("sim/{}", rng.pick(&["a", "b", "c", "d"]));
    let which = match rng.between(0, 3) {
        0 => After::SameFire,
        1 => After::SameDate,
        _ => After::LatestWithin(rng.between(60, 1_200) as u32),
    };
    if job == name {
        Vec::new()
    } else {
        vec![(job, which)]
    }
}
