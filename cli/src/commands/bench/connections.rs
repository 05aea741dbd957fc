//! What many agents take of the leader that have nothing to do, and how soon all are back at the next
//! when it is killed.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use protocol::WallMs;
use serde_json::json;

use super::site::Site;
use super::{cost, of_ledger, print_figures, show_ms};
use crate::args::{BenchSite, Text, Timers, Voters};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print_json, talk};

/// In one process, by what a process may have open.
const IN_ONE_PROCESS: u32 = 1_250;

/// What starting has stirred up is left to settle.
const SETTLE: Duration = Duration::from_secs(10);

pub(super) fn connections(options: &BenchSite, agents: u32, seconds: u32) -> Result<(), Failure> {
    talk(&format!("issuing {agents} identities"));
    let mut site = Site::prepare_group(&options.dir, agents, Voters::Three, Timers::Default, None)?;
    site.start_group()?;
    talk("starting a group of three, and the agents");
    site.start_fleet(agents, IN_ONE_PROCESS)?;
    let leader = site.wait_until_whole()?;
    site.wait_until_warm_with(agents)?;
    talk(&format!("measuring for {seconds} s"));
    thread::sleep(SETTLE);
    let process = site.process_of(leader);
    let (begun, cpu_begun) = (Instant::now(), cost::cpu_s_with_children(process));
    thread::sleep(Duration::from_secs(seconds.into()));
    let cpu_s = cost::cpu_s_with_children(process) - cpu_begun;
    let cpu_percent = 100.0 * cpu_s / begun.elapsed().as_secs_f64();
    let rss_bytes = cost::resident_bytes_with_children(&[process]);
    site.check_alive()?;

    talk("killing the leader");
    let killed_at = clock::now();
    site.kill_machine(leader)?;
    let next = site.wait_for_leader()?;
    site.wait_until_attached(next, agents)?;
    let reconnect_ms = all_attached(&site, next, killed_at, agents)?;
    talk("starting it again, for every agent to dial");
    let dialled = Instant::now();
    site.start_again(leader)?;
    site.wait_until_warm_with(agents)?;
    let dialled_ms = i64::try_from(dialled.elapsed().as_millis()).unwrap_or(i64::MAX);
    site.stop();

    match options.output {
        Text::Json => print_json(&json!({
            "rss_bytes": rss_bytes,
            "cpu_percent": cpu_percent,
            "reconnect_all_ms": reconnect_ms,
            "dialled_all_ms": dialled_ms,
            "agents": agents,
            "seconds": seconds,
        })),
        Text::Text => {
            let mib = rss_bytes as f64 / f64::from(1 << 20);
            print_figures(&[
                ("agents with nothing to do", agents.to_string()),
                ("leader, memory", format!("{mib:.1} MiB")),
                ("leader, of one core", format!("{cpu_percent:.1} %")),
                (
                    "from its kill until all are attached to the next",
                    show_ms(Some(reconnect_ms)),
                ),
                (
                    "from its start until all have connected again",
                    show_ms(Some(dialled_ms)),
                ),
            ])
        }
    }
}

/// From the kill to the attach of the last agent.
fn all_attached(
    site: &Site,
    leader: usize,
    killed_at: WallMs,
    agents: u32,
) -> Result<i64, Failure> {
    let attached = site.read_of(leader)?.attached(killed_at);
    let attached = attached.map_err(|error| of_ledger(&error))?;
    let mut first = BTreeMap::new();
    for (agent, at) in attached {
        let first = first.entry(agent).or_insert(at);
        *first = at.min(*first);
    }
    let last = first.values().max();
    match last {
        Some(&last) if first.len() == agents as usize => Ok((last - killed_at).0),
        _ => Err(Failure::failed(
            "looking when every agent attached",
            format!("{} of {agents} did", first.len()),
            "measure again when this machine has less to do",
        )),
    }
}
