//! From the leader's SIGKILL to the first lease that the next one grants.

use std::fs;
use std::thread;
use std::time::Duration;

use ledger::LeaseTimes;
use protocol::WallMs;
use serde_json::json;

use super::etcd::Etcd;
use super::site::Site;
use super::stream::{Found, Stream};
use super::takeover::{Takeovers, takeovers};
use super::{percentile, print_figures, show_ms};
use crate::args::{BenchRounds, Text};
use crate::clock;
use crate::failure::Failure;
use crate::output::{print_json, talk};

/// What a round takes at most on most machines, with the start of what was killed.
const ROUND_S: u32 = 8;

/// How long the next leader is left alone before the one before is started again.
const REIGN: Duration = Duration::from_millis(500);

/// Longer than an address of Matins lives that nobody refreshes.
pub(super) const KERNEL: Duration = Duration::from_millis(2_500);

/// Of the witness's log, where it had to help.
const WITNESS: usize = 2;
const WITNESS_ASKS: &str = "the witness asks for the lead";

/// One leader that was killed.
struct Round {
    /// Just before, and when it was dead.
    killed_at: WallMs,
    dead_at: WallMs,
    /// An entry was on the dead one and the witness alone, so that the witness had to lead first.
    trapped: bool,
    /// Which machine it was on, and whether the keeper of its address was killed as well.
    machine: usize,
    with_keeper: bool,
}

/// What others do in the same run, where they are installed.
#[derive(Default)]
struct Yardsticks {
    etcd_ms: Vec<i64>,
    keepalived: Option<Takeovers>,
}

pub(super) fn failover(options: &BenchRounds, beside_others: bool) -> Result<(), Failure> {
    let rounds = options.rounds;
    let mut stream = Stream::begin(options, rounds * ROUND_S)?;
    talk(&format!("killing the leader {rounds} times"));
    let mut killed = Vec::new();
    for round in 0..rounds {
        killed.push(kill(&mut stream, round)?);
    }
    let (found, site) = stream.end()?;
    let others = if beside_others {
        measure_others(site, rounds)?
    } else {
        Yardsticks::default()
    };
    report(options, &killed, &found, others)
}

fn measure_others(site: Site, rounds: u32) -> Result<Yardsticks, Failure> {
    let etcd_ms = match Etcd::start(site.root())? {
        Some(mut etcd) => etcd.failover(rounds)?,
        None => Vec::new(),
    };
    Ok(Yardsticks {
        etcd_ms,
        keepalived: takeovers(site, rounds)?,
    })
}

fn kill(stream: &mut Stream, round: u32) -> Result<Round, Failure> {
    let leader = stream.wait_until_settled()?;
    let site = &mut stream.site;
    // At another place between two heartbeats each time.
    thread::sleep(Duration::from_millis(u64::from(round * 37 % 100)));
    let asked = asked(site)?;
    // A keeper that is left takes the address away at once; without it, the kernel does in time.
    let with_keeper = round % 2 == 1;
    let killed_at = clock::now();
    if with_keeper {
        site.kill_keeper(leader)?;
    }
    site.kill_machine(leader)?;
    let dead_at = clock::now();
    site.wait_for_leader()?;
    let trapped = self::asked(site)? > asked;
    thread::sleep(REIGN);
    if with_keeper {
        // The address stays on its machine for longer than it took another to lead.
        thread::sleep(KERNEL);
        site.start_keeper(leader)?;
    }
    site.start_again(leader)?;
    Ok(Round {
        killed_at,
        dead_at,
        trapped,
        machine: leader,
        with_keeper,
    })
}

/// How often the witness has asked for the lead.
fn asked(site: &Site) -> Result<usize, Failure> {
    let log = site.log(site.machines[WITNESS].name);
    let said = fs::read_to_string(log)
        .map_err(|error| Failure::of_error("reading the witness's log", &error, "measure again"))?;
    Ok(said.matches(WITNESS_ASKS).count())
}

/// When the first lease of the next leader was told to its agent, after the kill.
fn next_lease(round: &Round, leases: &[LeaseTimes]) -> Option<i64> {
    let first = leases.partition_point(|lease| lease.granted_at <= round.dead_at);
    let told = leases[first..].iter().filter_map(|lease| lease.started_at);
    // By far more than the order of grants and starts differs.
    told.take(100).min().map(|at| (at - round.killed_at).0)
}

fn report(
    options: &BenchRounds,
    killed: &[Round],
    found: &Found,
    mut others: Yardsticks,
) -> Result<(), Failure> {
    let times = |trapped| -> Result<Vec<i64>, Failure> {
        let of = killed.iter().filter(|round| round.trapped == trapped);
        of.map(|round| next_lease(round, &found.leases).ok_or_else(no_lease))
            .collect()
    };
    let (mut usual, mut trapped) = (times(false)?, times(true)?);
    let [p50, max] = [50, 100].map(|percent| percentile(&mut usual, percent));
    let trap_max = percentile(&mut trapped, 100);
    let gone = |with_keeper| -> Result<Vec<i64>, Failure> {
        let Some(watch) = &found.watch else {
            return Ok(Vec::new());
        };
        let of = killed
            .iter()
            .filter(|round| round.with_keeper == with_keeper);
        of.map(|round| {
            let gone = watch.gone_after(round.machine, round.killed_at);
            gone.ok_or_else(address_stayed)
        })
        .collect()
    };
    let (mut gone_alone, mut gone_with_keeper) = (gone(false)?, gone(true)?);
    let mut gone: Vec<i64> = gone_alone
        .iter()
        .chain(&gone_with_keeper)
        .copied()
        .collect();
    let gone_max = percentile(&mut gone, 100);
    let gone_alone_max = percentile(&mut gone_alone, 100);
    let gone_with_keeper_max = percentile(&mut gone_with_keeper, 100);
    let etcd = &mut others.etcd_ms;
    let [etcd_p50, etcd_max] = [50, 100].map(|percent| percentile(etcd, percent));
    let stayed = others.keepalived.as_ref().map(|found| found.stayed);
    let mut taken = others
        .keepalived
        .map_or_else(Vec::new, |found| found.took_ms);
    let [taken_p50, taken_max] = [50, 100].map(|percent| percentile(&mut taken, percent));
    match options.site.output {
        Text::Json => print_json(&json!({
            "p50_ms": p50,
            "max_ms": max,
            "lost": found.lost,
            "duplicates": found.duplicates,
            "address_gone_max_ms": gone_max,
            "address_why": found.no_address,
            "address_gone_keeper_left_max_ms": gone_alone_max,
            "address_gone_keeper_killed_max_ms": gone_with_keeper_max,
            "address_rounds": gone.len(),
            "rounds_ms": usual,
            "trap_rounds_ms": trapped,
            "trap_max_ms": trap_max,
            "etcd_p50_ms": etcd_p50,
            "etcd_max_ms": etcd_max,
            "keepalived_p50_ms": taken_p50,
            "keepalived_max_ms": taken_max,
            "keepalived_rounds": taken.len(),
            "keepalived_stayed": stayed,
            "acknowledged": found.acknowledged,
            "leases": found.leases.len(),
            "timers": options.timers.as_str(),
            "rounds": killed.len(),
        })),
        Text::Text => print_figures(&[
            ("leaders killed", killed.len().to_string()),
            ("from the kill to the next lease, median", show_ms(p50)),
            ("the longest", show_ms(max)),
            (
                "where the witness had to lead first",
                format!("{} times, {}", trapped.len(), show_ms(trap_max)),
            ),
            (
                "until its address is gone, its keeper left, longest",
                show_ms(gone_alone_max),
            ),
            (
                "its keeper killed as well, longest",
                show_ms(gone_with_keeper_max),
            ),
            (
                "runs acknowledged to a client, and lost",
                format!("{}, {}", found.acknowledged, found.lost),
            ),
            (
                "leases, and shards started twice",
                format!("{}, {}", found.leases.len(), found.duplicates),
            ),
            (
                "etcd, from the kill to the next write, median",
                show_ms(etcd_p50),
            ),
            ("the longest", show_ms(etcd_max)),
            (
                "keepalived, from the kill to the other's answer, median",
                show_ms(taken_p50),
            ),
            ("the longest", show_ms(taken_max)),
            (
                "and the dead one's machine has the address still",
                stayed.map_or_else(String::new, |stayed| format!("{stayed} of {}", taken.len())),
            ),
        ]),
    }
}

fn address_stayed() -> Failure {
    Failure::failed(
        "looking when the leader's address went",
        "a leader that was killed did not have it, or has it still",
        "measure again; where it stays, see the log of its address keeper",
    )
}

fn no_lease() -> Failure {
    Failure::failed(
        "looking for the first lease of a leader",
        "there is none, or the work that had been prepared was done before the last round",
        "measure again with fewer rounds, or when this machine has less to do",
    )
}

#[cfg(test)]
mod tests {
    use protocol::{RunId, Token};

    use super::*;

    #[test]
    fn the_next_lease_is_the_one_first_told_of_those_granted_after_the_end() {
        let lease = |granted, started: Option<i64>| LeaseTimes {
            token: Token(granted),
            run_id: RunId(1),
            shard: 0,
            granted_at: WallMs(granted),
            started_at: started.map(WallMs),
            ended_at: WallMs(9_000),
        };
        let round = Round {
            killed_at: WallMs(1_000),
            dead_at: WallMs(1_003),
            trapped: false,
            machine: 0,
            with_keeper: false,
        };
        let before = [lease(990, Some(1_010)), lease(1_003, Some(1_020))];
        assert_eq!(next_lease(&round, &before), None);
        let all = [
            before[0],
            before[1],
            lease(1_800, None),
            lease(1_801, Some(1_820)),
            lease(1_802, Some(1_815)),
        ];
        assert_eq!(next_lease(&round, &all), Some(815));
    }
}
