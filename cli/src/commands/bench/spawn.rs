//! Real attempts of `/bin/true` a second, beside what the bare machine spawns.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use jobs::{Manifest, parse_manifests};
use nix::unistd::{User, geteuid};
use serde_json::json;

use super::site::{Site, Work};
use super::{leases_ended, us_each};
use crate::args::{BenchSite, Text};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print, print_json, talk};
use crate::text::Table;

const PROGRAM: &str = "/bin/true";

/// Attempts at once: more than there are processors, and no crowd.
const SLOTS: u32 = 32;

/// Runs that are live beside each other, and shards of each.
const JOBS: u32 = 8;
const SHARDS: u32 = 256;

/// There is work for so many a second.
const SUPPLY_PER_S: u32 = 5_000;

const WARM_UP: Duration = Duration::from_secs(2);

/// How long bare processes are spawned for, before and after.
const CEILING: Duration = Duration::from_secs(2);

/// Who attempts run as, where this process may choose.
const USER: &str = "nobody";

pub(super) fn spawn(options: &BenchSite, seconds: u32) -> Result<(), Failure> {
    let user = geteuid().is_root().then_some(USER);
    talk(&format!("preparing a ledger full of {PROGRAM}"));
    let mut site = Site::prepare(&options.dir, 1)?;
    site.open_to_all()?;
    let supply = SUPPLY_PER_S * (seconds + WARM_UP.as_secs() as u32);
    let manifests = (0..JOBS).map(|n| manifest(n, user)).collect();
    site.fill(manifests, supply.div_ceil(JOBS * SHARDS))?;

    talk("measuring bare processes");
    let before = ceiling(user)?;
    site.start_coordinator()?;
    site.start_agents(1, SLOTS, Work::Run)?;
    talk(&format!("measuring for {seconds} s"));
    thread::sleep(WARM_UP);
    let (begun, cpu_begun, from) = (Instant::now(), site.cpu(), clock::now());
    thread::sleep(Duration::from_secs(seconds.into()));
    let (measured, cpu, until) = (begun.elapsed(), site.cpu(), clock::now());
    site.check_alive()?;
    site.stop();
    let after = ceiling(user)?;

    let count = leases_ended(&site, from, until)?.len() as f64;
    let per_s = count / measured.as_secs_f64();
    // The quieter moment says more of what the machine can do.
    let ceiling_per_s = before.max(after);
    let share = 100.0 * per_s / ceiling_per_s;
    let host_us = us_each(cpu.agents_s - cpu_begun.agents_s, count);
    let coordinator_us = us_each(cpu.coordinator_s - cpu_begun.coordinator_s, count);
    match options.output {
        Text::Json => print_json(&json!({
            "processes_per_s": per_s.round(),
            "ceiling_per_s": ceiling_per_s.round(),
            "percent_of_ceiling": share,
            "host_cpu_us_per_process": host_us,
            "coordinator_cpu_us_per_process": coordinator_us,
            "user": user,
            "seconds": measured.as_secs_f64(),
        })),
        Text::Text => {
            let mut table = Table::new(&["WHAT", "FIGURE"]);
            for (what, figure) in [
                (
                    "attempts started and ended, a second",
                    format!("{per_s:.0}"),
                ),
                ("bare processes, a second", format!("{ceiling_per_s:.0}")),
                ("of these", format!("{share:.0} %")),
                (
                    "processor time of agent and supervisor, each",
                    format!("{host_us:.0} us"),
                ),
                (
                    "processor time of the coordinator, each",
                    format!("{coordinator_us:.0} us"),
                ),
            ] {
                table.row(vec![what.to_owned(), figure]);
            }
            print(&table.render())
        }
    }
}

/// Processes a second that one loop spawns and waits for, one after the other.
fn ceiling(user: Option<&str>) -> Result<f64, Failure> {
    use std::os::unix::process::CommandExt;
    let failed = |error: &dyn std::error::Error| {
        Failure::of_error(
            format!("spawning {PROGRAM}"),
            error,
            "see the limits of this machine on processes",
        )
    };
    let known = user.map(User::from_name).transpose();
    let known = known.map_err(|errno| failed(&errno))?.flatten();
    let begun = Instant::now();
    let mut count = 0u32;
    while begun.elapsed() < CEILING {
        let mut command = Command::new(PROGRAM);
        if let Some(user) = &known {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command.status().map_err(|error| failed(&error))?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn manifest(n: u32, user: Option<&str>) -> Manifest {
    let user = user.map_or_else(String::new, |user| format!(", user: {user}"));
    let yaml = format!(
        "name: bench/spawn-{n}\n\
         purpose: To be measured.\n\
         owner: bench\n\
         repeatable: {{ safe: true, how: it does nothing }}\n\
         schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip }}\n\
         overlap: queue\n\
         expected_duration: 1s\n\
         timeout: 1m\n\
         shards: {SHARDS}\n\
         run: {{ exec: [\"{PROGRAM}\"]{user} }}\n"
    );
    parse_manifests("bench", &yaml)
        .ok()
        .and_then(|mut read| read.pop())
        .expect("a test reads this manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_good_with_a_user_and_without() {
        assert_eq!(manifest(7, None).user, None);
        assert_eq!(manifest(7, Some(USER)).user.as_deref(), Some(USER));
    }

    #[test]
    fn bare_processes_can_be_counted() {
        assert!(ceiling(None).unwrap() > 0.0);
    }
}
