//! A steady stream of leases through a group that is struck meanwhile, a client who keeps a journal of
//! what was acknowledged to it, and what became of both.
//!
//! What was done is read from three places that do not know of each other: the ledger of whoever
//! leads in the end, the journals of the agents, where each attempt stands that was started, and the
//! client's. What was acknowledged and is not in the ledger, or did not come to its end, is lost;
//! what an agent started a second time is a duplicate.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jobs::{Manifest, Overlap};
use ledger::{LeaseTimes, RunState};
use protocol::api::{RunAnswer, RunRequest};
use protocol::{RunId, Token, WallMs};

use super::leases_ended_at;
use super::net::{ADDRESS, Net, Watch};
use super::site::{Site, Work, host};
use super::throughput::{Supply, on_demand};
use crate::args::{BenchRounds, Voters};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::talk;

pub(super) const AGENTS: u32 = 4;

/// Control machines, and how many of these, the first, are coordinators.
const MACHINES: usize = 3;
const COORDINATORS: usize = 2;

/// With these, some 500 leases a second: the next is never more than a few milliseconds away, and
/// the machine has room for those who elect a leader.
const SLOTS: u32 = 4;
const TAKES_MS: u32 = 20;

/// Runs that are live beside each other, and shards of each.
const SUPPLY: Supply = Supply {
    jobs: 8,
    shards: 128,
    per_s: 800,
};

/// The job that the client asks for.
const CLIENT: &str = "client";

const CLIENT_EVERY: Duration = Duration::from_millis(20);
const CLIENT_LIMIT: Duration = Duration::from_secs(5);

/// How long what was acknowledged may take to be done, after all is over.
const DONE_LIMIT: Duration = Duration::from_secs(60);

/// A group with work for so long, and a client.
pub(super) struct Stream {
    pub(super) site: Site,
    watch: Option<Watch>,
    /// Why no address is measured.
    no_address: Option<String>,
    client: JoinHandle<Vec<RunId>>,
    stop: Arc<AtomicBool>,
    begun: WallMs,
}

/// What a stream has left.
pub(super) struct Found {
    /// By when they were granted.
    pub(super) leases: Vec<LeaseTimes>,
    pub(super) acknowledged: usize,
    pub(super) lost: usize,
    pub(super) duplicates: usize,
    /// What was seen of the leader's address, or why nothing was.
    pub(super) watch: Option<Watch>,
    pub(super) no_address: Option<String>,
}

impl Stream {
    pub(super) fn begin(options: &BenchRounds, seconds: u32) -> Result<Stream, Failure> {
        talk("preparing a ledger full of work, and a group of three");
        let (net, no_address) = match Net::enter(MACHINES) {
            Ok(net) => (Some(net), None),
            Err(why) => {
                talk(&format!("no address is measured: {why}"));
                (None, Some(why))
            }
        };
        let (dir, voters) = (&options.site.dir, Voters::Three);
        let mut site = Site::prepare_group(dir, AGENTS, voters, options.timers, net)?;
        SUPPLY.fill(&site, seconds, manifest)?;
        site.fill(vec![asked_for()], 0)?;
        site.start_group()?;
        let work = Work::Pretend { takes_ms: TAKES_MS };
        site.start_agents(AGENTS, SLOTS, work)?;
        let net = site.net.as_ref();
        let watch = net.map(|net| Watch::begin(net, COORDINATORS, ADDRESS));
        let stop = Arc::new(AtomicBool::new(false));
        let clients = [site.client(0)?, site.client(1)?].map(|client| client.within(CLIENT_LIMIT));
        let until = Arc::clone(&stop);
        Ok(Stream {
            begun: crate::clock::now(),
            client: thread::spawn(move || ask(&clients, &until)),
            site,
            watch,
            no_address,
            stop,
        })
    }

    /// Waits until the group could lose any machine, every agent is connected everywhere, and the
    /// leader has its address; answers which leads.
    pub(super) fn wait_until_settled(&mut self) -> Result<usize, Failure> {
        self.site.wait_until_warm()?;
        let mut leader = self.site.wait_until_whole()?;
        if let Some(watch) = &self.watch {
            // Who cannot have the address gives the lead away.
            let has_it = |site: &Site| {
                (0..COORDINATORS).find(|&machine| watch.is_at(machine) && site.leads(machine))
            };
            let what = "the address to be where the leader is";
            self.site
                .wait_for(what, |site| Ok(has_it(site).is_some()))?;
            leader = has_it(&self.site).unwrap_or(leader);
        }
        Ok(leader)
    }

    /// Lets what was acknowledged be done, stops the group, and looks at what is there. The site is
    /// handed back for whoever measures something else in its directory.
    pub(super) fn end(mut self) -> Result<(Found, Site), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let acknowledged = self.client.join().expect("the client does not panic");
        let leader = self.site.wait_for_leader()?;
        let begun = Instant::now();
        let mut lost = acknowledged.clone();
        while !lost.is_empty() && begun.elapsed() < DONE_LIMIT {
            let reader = self.site.read_of(leader)?;
            let mut left = Vec::new();
            for run in lost {
                let found = reader.run(run).map_err(|error| unread(&error))?;
                if found.is_none_or(|found| found.run.state != RunState::Succeeded) {
                    left.push(run);
                }
            }
            lost = left;
            thread::sleep(Duration::from_millis(100));
        }
        if let Some(watch) = &mut self.watch {
            watch.end()?;
        }
        self.site.check_alive()?;
        self.site.stop();
        let reader = self.site.read_of(leader)?;
        let mut leases = leases_ended_at(&reader, self.begun, WallMs(i64::MAX))?;
        leases.sort_unstable_by_key(|lease| lease.granted_at);
        let duplicates = started_again(&leases, &started(&self.site)?);
        let found = Found {
            leases,
            acknowledged: acknowledged.len(),
            lost: lost.len(),
            duplicates,
            watch: self.watch,
            no_address: self.no_address,
        };
        Ok((found, self.site))
    }
}

/// What the agents say that they started, each start.
fn started(site: &Site) -> Result<Vec<Token>, Failure> {
    let mut started = Vec::new();
    for host in (1..=AGENTS).map(host) {
        let journal = site.root().join(host).join(agent::PRETENDED_FILE);
        let journal = fs::read_to_string(journal).map_err(|error| unread(&error))?;
        for line in journal.lines() {
            started.push(Token(line.parse().map_err(|error| unread(&error))?));
        }
    }
    Ok(started)
}

fn unread(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::of_error(
        "reading what became of the stream",
        error,
        "see the error, and measure again",
    )
}

/// Asks for runs, of whichever coordinator answers; those that were acknowledged.
fn ask(clients: &[Client], stop: &AtomicBool) -> Vec<RunId> {
    let path = format!("/api/v1/jobs/bench/{CLIENT}/runs");
    let mut acknowledged = Vec::new();
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let request = RunRequest {
            fire_time: None,
            params: std::collections::BTreeMap::new(),
            by: Some("bench".to_owned()),
            reason: "to be measured".to_owned(),
        };
        // One that is refused, or not answered, may have been done or not: it is no promise.
        match clients[asked].post::<RunAnswer>(&path, &request) {
            Ok(answer) => acknowledged.push(answer.run),
            Err(_) => asked = (asked + 1) % clients.len(),
        }
        thread::sleep(CLIENT_EVERY);
    }
    acknowledged
}

/// Starts beyond the first of each shard.
fn started_again(leases: &[LeaseTimes], started: &[Token]) -> usize {
    let shards: std::collections::BTreeMap<_, _> = leases
        .iter()
        .map(|lease| (lease.token, (lease.run_id, lease.shard)))
        .collect();
    let mut seen = BTreeSet::new();
    let known = started.iter().filter_map(|token| shards.get(token));
    known.filter(|shard| !seen.insert(**shard)).count()
}

const RUN: &str = "{ exec: [\"/bin/true\"] }";

fn manifest(n: u32) -> Manifest {
    on_demand(&format!("stream-{n}"), SUPPLY.shards, RUN)
}

/// What the client asks for: before the stream, and beside each other.
fn asked_for() -> Manifest {
    let mut manifest = on_demand(CLIENT, 1, RUN);
    manifest.overlap = Overlap::Allow;
    manifest.priority = 100;
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_are_good() {
        assert_eq!(manifest(7).shards, jobs::Shards::Fixed(SUPPLY.shards));
        assert_eq!(asked_for().shards, jobs::Shards::Fixed(1));
    }

    #[test]
    fn a_shard_that_was_started_twice_is_counted_whichever_way() {
        let lease = |token, shard| LeaseTimes {
            token: Token(token),
            run_id: RunId(1),
            shard,
            granted_at: WallMs(0),
            started_at: None,
            ended_at: WallMs(0),
        };
        let leases = [lease(1, 0), lease(2, 1), lease(3, 1)];
        for (started, expected) in [
            (&[1, 2][..], 0),
            (&[1, 3], 0),
            (&[1, 2, 3], 1),
            (&[1, 1, 2, 2, 3], 3),
            // Of what has not ended, nothing is known.
            (&[1, 9, 9], 0),
        ] {
            let started: Vec<Token> = started.iter().copied().map(Token).collect();
            assert_eq!(started_again(&leases, &started), expected, "{started:?}");
        }
    }
}
