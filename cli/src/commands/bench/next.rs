//! Next fires of usual schedules, and manifests parsed, on one core.

use std::time::{Duration, Instant};

use jobs::{Dialect, Schedule, ScheduleSpec, parse_manifests};
use nix::time::{ClockId, clock_gettime};
use protocol::WallMs;
use serde_json::json;

use super::usual;
use crate::args::Text;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::text::Table;

/// Schedules as sites have them: all dialects, zones with and without daylight saving time, some
/// that fire every minute and some that fire once a quarter.
const SCHEDULES: [(Dialect, &str, &str); 16] = [
    (Dialect::Vixie, "*/5 8-18 * * mon-fri", "Asia/Shanghai"),
    (Dialect::Vixie, "30 2 * * *", "America/New_York"),
    (Dialect::Vixie, "30 23 * * *", "Asia/Shanghai"),
    (Dialect::Vixie, "0 6 1,15 * *", "Europe/Berlin"),
    (Dialect::Vixie, "0 0 13 * 5", "Europe/London"),
    (Dialect::Vixie, "* * * * *", "Etc/UTC"),
    (Dialect::Vixie, "15 3 * * sun", "Australia/Sydney"),
    (Dialect::Vixie, "0 4 1 1,4,7,10 *", "America/Sao_Paulo"),
    (Dialect::Quartz, "0 30 2 * * ?", "Europe/Berlin"),
    (Dialect::Quartz, "0/15 * * * * ?", "America/New_York"),
    (Dialect::Quartz, "0 0 9 LW * ?", "Europe/Paris"),
    (Dialect::Quartz, "0 0 12 ? * 6#3", "Australia/Lord_Howe"),
    (Dialect::Quartz, "0 10 4 ? * MON-FRI", "Africa/Casablanca"),
    (Dialect::Kubernetes, "5/15 * * * *", "America/Los_Angeles"),
    (Dialect::Kubernetes, "0 3 * * ?", "Europe/Dublin"),
    (Dialect::Kubernetes, "@weekly", "Pacific/Auckland"),
];

const FIRES: usize = 1_000_000;

const MANIFESTS: usize = 100_000;

/// 2026-01-01T00:00:00Z.
const START: WallMs = WallMs(1_767_225_600_000);

pub(super) fn next(output: Text) -> Result<(), Failure> {
    let schedules = SCHEDULES.map(|(dialect, cron, timezone)| schedule(dialect, cron, timezone));
    let fires = measure(|| next_fires(&schedules))?;
    let manifests: Vec<String> = (0..MANIFESTS).map(manifest).collect();
    let parsed = measure(|| {
        for manifest in &manifests {
            let read = parse_manifests("bench", manifest);
            assert!(
                read.is_ok_and(|read| read.len() == 1),
                "it is a good manifest"
            );
        }
    })?;
    let per_s = FIRES as f64 / fires.cpu_s;
    let manifests_per_s = MANIFESTS as f64 / parsed.cpu_s;
    match output {
        Text::Json => print_json(&json!({
            "fires": FIRES,
            "fires_cpu_s": fires.cpu_s,
            "fires_wall_s": fires.wall_s,
            "per_s": per_s,
            "manifests": MANIFESTS,
            "manifests_cpu_s": parsed.cpu_s,
            "manifests_wall_s": parsed.wall_s,
            "manifests_per_s": manifests_per_s,
            "tzdata": jobs::tzdata_version(),
        })),
        Text::Text => {
            let mut table = Table::new(&["WHAT", "HOW MANY", "CORE", "WALL", "PER CORE SECOND"]);
            let rows = [
                ("next fires", FIRES, fires, per_s),
                ("manifests parsed", MANIFESTS, parsed, manifests_per_s),
            ];
            for (what, count, took, per_s) in rows {
                table.row(vec![
                    what.to_owned(),
                    count.to_string(),
                    format!("{:.2} s", took.cpu_s),
                    format!("{:.2} s", took.wall_s),
                    format!("{per_s:.0}"),
                ]);
            }
            print(&table.render())
        }
    }
}

/// Asks all schedules in turn, each for the fire after its last, as a trigger with many jobs does.
fn next_fires(schedules: &[Schedule]) {
    let mut last = vec![START; schedules.len()];
    for _ in 0..FIRES / schedules.len() {
        for (schedule, last) in schedules.iter().zip(&mut last) {
            // The rare ones come to the end of the years that schedules name, and begin again.
            *last = schedule
                .next_after(START, *last)
                .map_or(START, |fire| fire.at);
        }
    }
}

/// What some work took: of one core, and until it was done. On a busy machine the two differ.
#[derive(Clone, Copy)]
struct Took {
    cpu_s: f64,
    wall_s: f64,
}

fn measure(work: impl FnOnce()) -> Result<Took, Failure> {
    let (begun, cpu_s_begun) = (Instant::now(), cpu_s()?);
    work();
    Ok(Took {
        cpu_s: cpu_s()? - cpu_s_begun,
        wall_s: begun.elapsed().as_secs_f64(),
    })
}

/// Processor time that this thread has used.
fn cpu_s() -> Result<f64, Failure> {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_err(|error| {
        Failure::of_error(
            "reading this thread's processor time",
            &error,
            "measure on a Linux that keeps it",
        )
    })?;
    Ok(Duration::from(used).as_secs_f64())
}

fn schedule(dialect: Dialect, cron: &str, timezone: &str) -> Schedule {
    Schedule::parse(&ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    })
    .expect("the list above is read by a test")
}

/// A manifest of usual length, no two alike.
fn manifest(n: usize) -> String {
    let (dialect, cron, timezone) = SCHEDULES[n % SCHEDULES.len()];
    let schedule = format!("{{ cron: \"{cron}\", timezone: {timezone}, dialect: {dialect} }}");
    usual(&format!("job-{n}"), &schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_in_order() {
        for (n, (dialect, cron, timezone)) in SCHEDULES.into_iter().enumerate() {
            let schedule = schedule(dialect, cron, timezone);
            let read = parse_manifests("bench", manifest(n)).unwrap();
            assert_eq!(read[0].schedule(), &schedule);
        }
    }
}
