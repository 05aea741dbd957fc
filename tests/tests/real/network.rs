//! Hosts on cables of their own, which can be cut, and lose packets in one direction or both. The
//! coordinator is at the switch.

use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use protocol::Token;
use protocol::attempt::AttemptOutcome;

use crate::cables::{SWITCH, Wired, on_network};
use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::{Writer, attempt, living, tokens_of, wait_for_successes, wait_for_successors};

/// A site whose hosts are on cables.
struct Fleet {
    site: Site,
    hosts: Vec<Wired>,
}

impl Fleet {
    fn start(hosts: u32) -> Result<Fleet> {
        let mut site = Site::at(SWITCH, hosts)?;
        let mut all = Vec::new();
        for n in 1..=hosts {
            let host = Wired::new(10 + n)?;
            let grounds = host.grounds();
            site.put(&agent_name(n), grounds.clone());
            site.put(&supervisor_name(n), grounds);
            all.push(host);
        }
        site.start(hosts, 8)?;
        Ok(Fleet { site, hosts: all })
    }

    fn host(&self, n: u32) -> &Wired {
        &self.hosts[n as usize - 1]
    }

    fn rule(&self, n: u32, rule: &str) -> Result<()> {
        self.host(n).rule(rule)
    }

    fn cut(&self, n: u32) -> Result<()> {
        self.host(n).cut()
    }

    fn mend(&self, n: u32) -> Result<()> {
        self.host(n).mend()
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        let hosts = 1..=self.hosts.len() as u32;
        let all: Result<Vec<_>> = hosts
            .map(|n| tokens_of(&self.site, &agent_name(n)))
            .collect();
        Ok(all?.concat())
    }

    /// Everything succeeds, with so many attempts.
    fn end(mut self, attempts: RangeInclusive<usize>) -> Result<()> {
        self.site.wait_until_succeeded(PATIENCE)?;
        let evidence = self.site.evidence()?;
        println!("{}", evidence.summary());
        evidence.check_without_overlap()?;
        let count = evidence.attempts().count();
        ensure!(
            attempts.contains(&count),
            "{count} attempts, not {attempts:?}"
        );
        self.site.close()
    }
}

/// blip-20s: all cables at once, and in one variant a coordinator that starts anew meanwhile.
fn blip(restart: bool) -> Result<()> {
    let mut fleet = Fleet::start(2)?;
    let job = Writer {
        seconds: 26.0,
        takeover: "60s",
        ..Writer::of("network/blip")
    };
    job.run(&mut fleet.site)?;
    fleet.cut(1)?;
    fleet.cut(2)?;
    if restart {
        fleet.site.kill(COORDINATOR)?;
        sleep(Duration::from_secs(5));
        fleet.site.start_coordinator()?;
        sleep(Duration::from_secs(15));
    } else {
        sleep(Duration::from_secs(20));
    }
    fleet.mend(1)?;
    fleet.mend(2)?;
    // One that was killed would have been granted again.
    fleet.end(4..=4)
}

#[test]
fn twenty_seconds_without_a_network_kill_nothing() -> Result<()> {
    on_network("a cut cable", || blip(false))
}

#[test]
fn a_coordinator_restarted_during_a_cut_kills_nothing() -> Result<()> {
    on_network("a cut cable", || blip(true))
}

/// short-lease-long-lease: one host, cut off for long enough for one of its leases.
fn cut_for(length: Duration, patient: &str) -> Result<()> {
    let mut fleet = Fleet::start(2)?;
    let seconds = 14.0 + length.as_secs_f64();
    let long = Writer {
        seconds,
        takeover: patient,
        shards: 2,
        ..Writer::of("network/long-lease")
    };
    let short = Writer {
        seconds,
        takeover: "15s",
        shards: 2,
        ..Writer::of("network/short-lease")
    };
    long.run(&mut fleet.site)?;
    let long_ones = tokens_of(&fleet.site, &agent_name(1))?;
    short.run(&mut fleet.site)?;
    let both = tokens_of(&fleet.site, &agent_name(1))?;
    let short_ones: Vec<Token> = both
        .into_iter()
        .filter(|t| !long_ones.contains(t))
        .collect();
    ensure!(
        !long_ones.is_empty() && !short_ones.is_empty(),
        "host 1 lacks one"
    );
    fleet.cut(1)?;
    let begun = Instant::now();
    wait_for_successors(&mut fleet.site, short.name, &short_ones)?;
    ensure!(
        living(&fleet.site, &short_ones)?.is_empty(),
        "it outlived its lease"
    );
    sleep(length.saturating_sub(begun.elapsed()));
    ensure!(
        !living(&fleet.site, &long_ones)?.is_empty(),
        "it was killed too early"
    );
    fleet.mend(1)?;
    let attempts = 4 + short_ones.len();
    fleet.end(attempts..=attempts)
}

#[test]
fn a_short_lease_is_taken_over_while_a_long_one_lasts() -> Result<()> {
    on_network("a cut cable", || cut_for(Duration::from_secs(25), "10m"))
}

#[test]
#[ignore = "make test-full: 5 minutes"]
fn a_cable_cut_for_four_minutes() -> Result<()> {
    on_network("a cut cable", || cut_for(Duration::from_secs(240), "10m"))
}

/// Host 1 is not heard, host 2 does not hear. Both must be dead before host 3 goes on.
#[test]
fn packets_lost_in_one_direction_cost_the_lease() -> Result<()> {
    on_network("a broken cable", || {
        let mut fleet = Fleet::start(3)?;
        let job = Writer {
            seconds: 30.0,
            shards: 6,
            ..Writer::of("network/one-way")
        };
        job.run(&mut fleet.site)?;
        let mut deaf = tokens_of(&fleet.site, &agent_name(1))?;
        deaf.extend(tokens_of(&fleet.site, &agent_name(2))?);
        fleet.rule(1, "-A OUTPUT -o eth0 -j DROP")?;
        fleet.rule(2, "-A INPUT -i eth0 -j DROP")?;
        wait_for_successors(&mut fleet.site, job.name, &deaf)?;
        ensure!(
            living(&fleet.site, &deaf)?.is_empty(),
            "it outlived its lease"
        );
        fleet.rule(1, "-D OUTPUT -o eth0 -j DROP")?;
        fleet.rule(2, "-D INPUT -i eth0 -j DROP")?;
        fleet.site.wait_for_agents(3)?;
        // The deaf one is still heard for a while, and may be given what the mute one has lost.
        let (each, again) = (6 + deaf.len(), deaf.len());
        fleet.end(each..=each + again)
    })
}

#[test]
fn a_third_of_all_packets_lost_costs_nothing_but_time() -> Result<()> {
    on_network("a bad cable", || {
        let mut fleet = Fleet::start(2)?;
        for n in 1..=2 {
            for chain in ["INPUT", "OUTPUT"] {
                let loss = "-m statistic --mode random --probability 0.3 -j DROP";
                fleet.rule(n, &format!("-A {chain} {loss}"))?;
            }
        }
        let job = Writer {
            schedule: "@every 4s",
            shards: 4,
            seconds: 2.0,
            takeover: "60s",
            ..Writer::of("network/loss")
        };
        job.apply(&fleet.site)?;
        wait_for_successes(&mut fleet.site, &job, 5)?;
        let evidence = fleet.site.evidence()?;
        println!("{}", evidence.summary());
        evidence.check_without_overlap()?;
        ensure!(
            evidence.count(AttemptOutcome::Lost) == 0,
            "a lease was lost"
        );
        fleet.site.close()
    })
}

/// late-receipt-before-regrant, late-receipt-races-attach: the only host is cut off, and its shard
/// ends in time. When it is back its lease is gone and the shard waits for a host, which it is.
#[test]
fn a_receipt_that_comes_late_counts_while_nobody_else_has_the_shard() -> Result<()> {
    on_network("a late receipt", || {
        let mut fleet = Fleet::start(1)?;
        let job = Writer {
            shards: 1,
            ..Writer::of("network/late-receipt")
        };
        job.run(&mut fleet.site)?;
        let token = fleet.tokens()?[0];
        fleet.cut(1)?;
        fleet.site.wait_for("the lease to run out", |site| {
            Ok(site.runs()?.iter().all(|run| run.leased == 0))
        })?;
        fleet.mend(1)?;
        fleet.site.wait_until_succeeded(PATIENCE)?;
        let late = attempt(&fleet.site, token)?;
        ensure!(late.outcome == Some(AttemptOutcome::Succeeded), "{late:?}");
        fleet.end(1..=1)
    })
}

/// late-receipt-after-regrant: the same, where another host has taken the shard over.
#[test]
fn a_receipt_that_comes_after_a_later_grant_changes_nothing() -> Result<()> {
    on_network("a late receipt", || {
        let mut fleet = Fleet::start(2)?;
        let job = Writer {
            seconds: 7.0,
            ..Writer::of("network/stale-receipt")
        };
        job.run(&mut fleet.site)?;
        let tokens = tokens_of(&fleet.site, &agent_name(1))?;
        fleet.cut(1)?;
        wait_for_successors(&mut fleet.site, job.name, &tokens)?;
        fleet.mend(1)?;
        for &token in &tokens {
            fleet.site.wait_for("the late receipt", |site| {
                Ok(attempt(site, token)?.stale_outcome == Some(AttemptOutcome::Succeeded))
            })?;
            let stale = attempt(&fleet.site, token)?;
            ensure!(stale.outcome == Some(AttemptOutcome::Lost), "{stale:?}");
        }
        let attempts = 4 + tokens.len();
        fleet.end(attempts..=attempts)
    })
}

/// reconnect-same-process: a host gets another address, and its agent another connection.
#[test]
fn a_host_with_another_address_is_the_same_host() -> Result<()> {
    on_network("another address", || {
        let mut fleet = Fleet::start(2)?;
        let job = Writer {
            seconds: 20.0,
            takeover: "60s",
            ..Writer::of("network/address")
        };
        job.run(&mut fleet.site)?;
        let host = &fleet.hosts[0];
        host.run("ip", &["addr", "del", "10.77.0.11/24", "dev", "eth0"])?;
        host.run("ip", &["addr", "add", "10.77.0.99/24", "dev", "eth0"])?;
        fleet.site.wait_until_succeeded(PATIENCE)?;
        fleet.site.wait_for_agents(2)?;
        fleet.end(4..=4)
    })
}
