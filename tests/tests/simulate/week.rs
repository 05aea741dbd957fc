//! A week of a machine room: jobs of every policy under every zone and dialect, hosts that fail, drain
//! and come back, a coordinator that dies now and then, hours in which nothing works, and people
//! who change, pause, rename, delete and repeat all the while.
//!
//! The week is that of 2027 in which Berlin's clocks go forward and Lord Howe's go back. At its end the
//! ledger tiles every schedule, nothing is left live, and what the cores hold in memory has been
//! the same every evening: what is open, and nothing of what is over.

use ledger::command::Verdict;
use ledger::{JobRow, RunState};
use protocol::{Rules, RunId};

use crate::invariants;
use crate::invariants::p4_nothing_precious::heal;
use crate::transition::{
    Transition, any_instant, any_job, draw_for_coordinator, draw_for_host, draw_for_run,
};
use crate::world::people::{self, After, Job};
use crate::world::process::Plan;
use crate::world::{Held, World};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// 2027-03-27T20:00:00Z, five hours before clocks change in Berlin.
const BEGIN: i64 = 1_806_177_600_000;

struct Size {
    days: usize,
    jobs: usize,
    hosts: usize,
}

#[test]
fn two_days() {
    live(&Size {
        days: 2,
        jobs: 300,
        hosts: 7,
    });
}

#[test]
#[ignore = "make test-full: a week of two thousand jobs"]
fn a_week() {
    live(&Size {
        days: 7,
        jobs: 2_000,
        hosts: 14,
    });
}

fn live(size: &Size) {
    let mut world = World::new(1, Rules::all(), false);
    world.begin_at(BEGIN);
    let mut week = Week::default();
    let held = week.live_through(&mut world, size);
    println!("{}", week.told(&world));
    if let Err(violation) = held {
        panic!("{violation}");
    }
}

/// What the world does not know of its people.
#[derive(Default)]
struct Week {
    /// Names of jobs that were deleted, and may be handed over again.
    deleted: Vec<String>,
    /// Names that jobs were given instead of their first.
    renamed: usize,
    evenings: Vec<Evening>,
}

/// What was held at the end of a day, when people had answered what they were asked.
#[derive(Clone, Copy, Debug)]
struct Evening {
    jobs: usize,
    open_runs: usize,
    open_shards: usize,
    /// Entries of all indexes of the core that leads.
    indexed: usize,
}

impl Week {
    fn live_through(&mut self, world: &mut World, size: &Size) -> Held {
        begin(world, size)?;
        for day in 0..size.days {
            self.live_a_day(world, day)?;
            self.spend_an_evening(world)?;
        }
        self.require_flat(world);
        heal(world)
    }

    fn live_a_day(&mut self, world: &mut World, day: usize) -> Held {
        const WATCH_EVERY: i64 = 3 * HOUR;
        let ends = world.now + DAY;
        let mut outage_at = Some(world.now + world.rng.between(2, 12) * HOUR);
        let mut watch_at = world.now + WATCH_EVERY;
        while world.now < ends {
            let pause = world.rng.span(10 * SECOND, 20 * MINUTE);
            world.run_for(pause.min(ends - world.now))?;
            if outage_at.is_some_and(|at| world.now >= at) {
                outage_at = None;
                outage(world, day)?;
            }
            if world.now >= watch_at {
                watch_at = world.now + WATCH_EVERY;
                keep_watch(world);
            }
            match world.rng.between(0, 9) {
                0 => world.happen_by(draw_for_coordinator),
                1..=3 => world.happen_by(draw_for_host),
                4 | 5 => world.happen_by(draw_for_run),
                _ => {
                    let transition = self.draw_for_job(world);
                    world.happen(transition);
                }
            }
        }
        Ok(())
    }

    fn draw_for_job(&mut self, world: &mut World) -> Transition {
        let jobs: Vec<&JobRow> = world.truth.set.jobs.values().collect();
        let index = world.rng.index(jobs.len());
        let (name, paused) = (jobs[index].name.to_string(), jobs[index].is_paused());
        match world.rng.between(0, 11) {
            0..=3 => Transition::Put {
                job: job_of_a_week(world, &name, index),
            },
            4 => {
                self.renamed += 1;
                let mut job = job_of_a_week(world, &format!("renamed/job-{}", self.renamed), index);
                job.renamed_from = Some(name);
                Transition::Put { job }
            }
            5 => {
                self.deleted.push(name.clone());
                Transition::Delete { job: name }
            }
            6 | 7 if !self.deleted.is_empty() => {
                let deleted = world.rng.index(self.deleted.len());
                let name = self.deleted.swap_remove(deleted);
                Transition::Put {
                    job: job_of_a_week(world, &name, index),
                }
            }
            8 | 9 if paused => Transition::Resume { job: name },
            8 | 9 => Transition::Pause { job: name },
            _ => Transition::Run {
                instant: any_instant(world),
                job: name,
                given: world.rng.pick(&[None, Some(("who", "me"))]),
            },
        }
    }

    /// Until nothing is owed to the hours before.
    fn spend_an_evening(&mut self, world: &mut World) -> Held {
        for _ in 0..4 {
            keep_watch(world);
            world.run_for(15 * MINUTE)?;
        }
        invariants::indexes::compare(world);
        world.holds()?;
        let set = &world.truth.set;
        let leader = world.leader().and_then(|leader| leader.core.as_ref());
        let leader = leader.map(coordinator_core::Core::held);
        let evening = Evening {
            jobs: set.jobs.len(),
            open_runs: set.runs.len(),
            open_shards: set.shards.len(),
            indexed: leader.iter().flatten().map(|held| held.entries).sum(),
        };
        self.evenings.push(evening);
        let states: Vec<_> = set.tally().runs().collect();
        println!(
            "{} runs are over, {states:?}: {evening:?}",
            world.truth.ended.len()
        );
        Ok(())
    }

    /// However many runs are over, what is held is what is open, and that is no more than on the
    /// first evening, but for what misfortune does. After an outage a third of the jobs may have one
    /// that waits.
    fn require_flat(&self, world: &mut World) {
        let first = self.evenings[0];
        for evening in &self.evenings {
            let open = evening.open_runs + evening.open_shards;
            world.require(
                evening.indexed <= 5 * evening.jobs + 8 * open + 500,
                "P7",
                "what is held is what is open",
                || format!("{evening:?}"),
            );
            world.require(
                evening.open_runs <= evening.jobs / 2 && evening.open_runs <= 2 * first.open_runs,
                "P7",
                "what is open does not grow from day to day",
                || format!("{evening:?}, and on the first {first:?}"),
            );
        }
    }

    fn told(&self, world: &World) -> String {
        let tables = invariants::tables::Tables::of(world);
        let taken = world.truth.grants.values();
        let taken = taken.filter(|grant| grant.taken_at.is_some()).count();
        format!(
            "{} days: {} events, {} commands, {} runs, {} leases ({taken} taken away), {} gaps, {} alerts, {} jobs",
            self.evenings.len(),
            world.events_handled,
            world.log.len(),
            world.truth.runs.len(),
            world.truth.grants.len(),
            tables.rows("gaps").len(),
            tables.rows("alerts").len(),
            tables.rows("jobs").len(),
        )
    }
}

impl World {
    fn happen_by(&mut self, draw: fn(&mut World) -> Transition) {
        let transition = draw(self);
        self.happen(transition);
    }
}

fn begin(world: &mut World, size: &Size) -> Held {
    world.plan = Plan::Any;
    world.start_leader();
    world.add_standby();
    for host in 0..size.hosts {
        let labels: &[&str] = if host % 3 == 0 { &["ssd"] } else { &[] };
        let host = world.add_labelled_host(8, labels);
        let drift = world.rng.between(-500, 500);
        world.hosts[host].clock.set_rates(world.now, drift, drift);
    }
    world.run_for(5 * SECOND)?;
    world.request(people::put_resource("db", RESOURCE));
    for index in 0..size.jobs {
        let name = format!("week/job-{index}");
        let job = job_of_a_week(world, &name, index);
        world.request(people::put(&job));
        world.run_for(20)?;
    }
    world.run_until("every job is known", MINUTE, |w| {
        w.truth.set.jobs.len() == size.jobs
    })
}

const RESOURCE: u32 = 12;

/// Nothing works for hours: one thing or another.
fn outage(world: &mut World, day: usize) -> Held {
    let ms = world.rng.between(60, 300) * MINUTE;
    match day % 3 {
        0 => {
            for machine in 0..world.controls.len() {
                world.reboot_control(machine, false);
            }
            world.run_for(ms)?;
            for machine in 0..world.controls.len() {
                world.bring_back(machine);
            }
        }
        1 => {
            for host in 0..world.hosts.len() / 2 {
                world.happen(Transition::CutPower { host, down_ms: ms });
            }
            world.run_for(ms)?;
        }
        _ => {
            world.happen(Transition::CutAll { ms });
            world.run_for(ms)?;
        }
    }
    world.holds()
}

/// Whoever is on call looks at everything that asks for a person.
fn keep_watch(world: &mut World) {
    world.set_clock_right();
    let asked = world.truth.set.runs.values();
    let asked = asked.filter(|run| run.state == RunState::NeedsConfirmation);
    let asked: Vec<RunId> = asked.map(|run| run.run_id).collect();
    for run_id in asked {
        let verdict = world
            .rng
            .pick(&[Verdict::Retry, Verdict::Succeeded, Verdict::Failed]);
        world.request(people::confirm(run_id, verdict));
    }
    for name in world.truth.cordoned.clone() {
        world.request(people::uncordon(&name));
    }
    world.request(people::put_resource("db", RESOURCE));
    let paused = world.truth.set.jobs.values().filter(|job| job.is_paused());
    let paused: Vec<String> = paused.map(|job| job.name.to_string()).collect();
    for name in paused {
        if world.rng.one_in(3) {
            world.request(people::resume(&name));
        }
    }
}

/// A job as a machine room has them: most are due once a day, some each hour, and a few each minute.
/// It comes after jobs before the one at `index` only.
fn job_of_a_week(world: &mut World, name: &str, index: usize) -> Job {
    let mut job = any_job(world);
    name.clone_into(&mut job.name);
    job.after.clear();
    // Hosts have slots and labels here; what else of them is asked for, `random` and `room` try.
    (job.class, job.cpu, job.memory) = (None, None, None);
    job.timezone = world.rng.pick(&ZONES).to_owned();
    job.start_deadline_s = world
        .rng
        .one_in(4)
        .then(|| world.rng.span(60, 7_200) as u32);
    (job.dialect, job.cron) = any_schedule(world);
    if index > 0 && world.rng.one_in(6) {
        let other = world
            .rng
            .index(index.min(world.truth.set.jobs.len()).max(1));
        come_after(world, &mut job, other);
    }
    job
}

const ZONES: [&str; 6] = [
    "Etc/UTC",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
];

fn come_after(world: &mut World, job: &mut Job, other: usize) {
    let set = &world.truth.set;
    let Some(other) = set.jobs.values().nth(other) else {
        return;
    };
    if other.name.as_str() == job.name {
        return;
    }
    let manifest = world.truth.manifests[&(other.job_id, other.version)].clone();
    let after = match world.rng.between(0, 2) {
        0 => After::SameFire,
        1 => After::SameDate,
        _ => After::LatestWithin(world.rng.between(600, 86_400) as u32),
    };
    if after == After::SameFire {
        // Otherwise it would wait for what never is.
        let spec = manifest.schedule().spec();
        spec.cron.clone_into(&mut job.cron);
        job.dialect = spec.dialect.name();
        spec.timezone.clone_into(&mut job.timezone);
    }
    job.after.push((other.name.to_string(), after));
}

fn any_schedule(world: &mut World) -> (&'static str, String) {
    let rng = &mut world.rng;
    let dialect = rng.pick(&["vixie", "vixie", "quartz", "kubernetes"]);
    let minute = rng.between(0, 59);
    // The hours in which clocks change come up more often than others.
    let hour = if rng.one_in(3) {
        rng.between(1, 3)
    } else {
        rng.between(0, 23)
    };
    let five = match rng.between(0, 199) {
        0 => return ("vixie", "* * * * *".to_owned()),
        1 | 2 => "*/5 * * * *".to_owned(),
        3..=7 => format!("{}/20 * * * *", minute / 3),
        8..=15 => return ("vixie", format!("@every {}s", rng.between(900, 9_000))),
        16..=35 => format!("{minute} * * * *"),
        36..=45 => format!("{minute} */4 * * *"),
        46..=60 => format!("{minute},{} {hour} * * *", (minute + 17) % 60),
        61..=70 => format!("{minute} {hour},{} * * *", (hour + 9) % 24),
        71..=85 => format!("{minute} {hour} * * {}", rng.between(0, 6)),
        86..=95 => format!("{minute} {hour} 1,28,30 * {}", rng.between(0, 6)),
        _ => format!("{minute} {hour} * * *"),
    };
    match dialect {
        // An open step is for others.
        "vixie" => (
            "vixie",
            five.replacen(&format!("{}/20", minute / 3), "*/20", 1),
        ),
        "quartz" => ("quartz", quartz(&five, rng.between(0, 59))),
        _ => ("kubernetes", five),
    }
}

/// Five fields as Quartz has them: a second first, one day field, and 1 for Sunday.
fn quartz(five: &str, second: i64) -> String {
    let fields: Vec<&str> = five.split(' ').collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        unreachable!("five fields");
    };
    match weekday.parse::<i64>() {
        Ok(weekday) => format!("{second} {minute} {hour} ? {month} {}", weekday + 1),
        Err(_) => format!("{second} {minute} {hour} {day} {month} ?"),
    }
}
