//! Real attempts of `/bin/true` a second, beside what the bare machine spawns.

use std::process::Command;
use std::time::{Duration, Instant};

use jobs::Manifest;
use nix::unistd::{User, geteuid};
use serde_json::json;

use super::print_figures;
use super::site::{Site, Work};
use super::throughput::{Supply, measure, on_demand};
use crate::args::{BenchSite, Text};
use crate::failure::Failure;
use crate::output::{print_json, talk};

const PROGRAM: &str = "/bin/true";

/// Attempts at once: more than there are processors, and no crowd.
const SLOTS: u32 = 32;

/// Runs that are live beside each other, and shards of each.
const SUPPLY: Supply = Supply {
    jobs: 8,
    shards: 256,
    per_s: 5_000,
};

/// How long bare processes are spawned for, before and after.
const CEILING: Duration = Duration::from_secs(2);

/// Who attempts run as, where this process may choose.
const USER: &str = "nobody";

pub(super) fn spawn(options: &BenchSite, seconds: u32) -> Result<(), Failure> {
    let user = geteuid().is_root().then_some(USER);
    talk(&format!("preparing a ledger full of {PROGRAM}"));
    let mut site = Site::prepare(&options.dir, 1)?;
    site.open_to_all()?;
    SUPPLY.fill(&site, seconds, |n| manifest(n, user))?;

    talk("measuring bare processes");
    let before = ceiling(user)?;
    site.start_coordinator()?;
    site.start_agents(1, SLOTS, Work::Run)?;
    let found = measure(&mut site, seconds)?;
    let after = ceiling(user)?;

    // The quieter moment says more of what the machine can do.
    let ceiling_per_s = before.max(after);
    let share = 100.0 * found.per_s / ceiling_per_s;
    match options.output {
        Text::Json => print_json(&json!({
            "processes_per_s": found.per_s.round(),
            "ceiling_per_s": ceiling_per_s.round(),
            "percent_of_ceiling": share,
            "host_cpu_us_per_process": found.agents_us,
            "coordinator_cpu_us_per_process": found.coordinator_us,
            "user": user,
            "seconds": found.seconds,
        })),
        Text::Text => print_figures(&[
            (
                "attempts started and ended, a second",
                format!("{:.0}", found.per_s),
            ),
            ("bare processes, a second", format!("{ceiling_per_s:.0}")),
            ("of these", format!("{share:.0} %")),
            (
                "processor time of agent and supervisor, each",
                format!("{:.0} us", found.agents_us),
            ),
            (
                "processor time of the coordinator, each",
                format!("{:.0} us", found.coordinator_us),
            ),
        ]),
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
    let run = format!("{{ exec: [\"{PROGRAM}\"]{user} }}");
    on_demand(&format!("spawn-{n}"), SUPPLY.shards, &run)
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
