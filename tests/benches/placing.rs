//! What a lease costs the scheduler's core, by how many hosts there are and how many shards wait in
//! line: run by `make bench`, quoted in docs/BENCHMARKS.md. Only the time inside the core counts; the
//! ledger behind it is in memory and its time is left out.
#![allow(clippy::print_stdout)] // figures are its output

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use coordinator_core::clock::Thresholds;
use coordinator_core::{Config, ConnId, Core, Effect, Request, RequestId};
use ledger::{Proposal, Store};
use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit};
use protocol::message::{
    AgentMessage, Attach, CoordinatorBody, Incarnation, Nonce, PROTOCOL_VERSION, Receipt,
};
use protocol::{BootMs, DurationMs, Lifetime, Now, Rules, Token, WallMs};

/// Slots of all hosts together.
const SLOTS: u32 = 1_000;
const SHARDS: u32 = 500;
/// Leases that are measured.
const LEASES: u32 = 3_000;

fn main() -> Result<()> {
    println!(
        "{:>8} {:>14} {:>22}",
        "hosts", "shards in line", "us in the core a lease"
    );
    for (hosts, in_line) in [(10, 5_000), (100, 5_000), (1_000, 5_000), (100, 50_000)] {
        let spent = measure(hosts, in_line)?;
        let each = spent.as_secs_f64() * 1e6 / f64::from(LEASES);
        println!("{hosts:>8} {in_line:>14} {each:>22.1}");
    }
    Ok(())
}

/// With every slot taken, each receipt opens one, which the next in line gets.
fn measure(hosts: u32, in_line: u32) -> Result<Duration> {
    let mut bench = Bench::new()?;
    for host in 0..hosts {
        bench.attach(host, SLOTS / hosts)?;
    }
    let runs = (in_line + SLOTS + LEASES).div_ceil(SHARDS);
    for run in 0..runs {
        bench.run(run)?;
    }
    let mut leases: std::collections::VecDeque<(ConnId, Token)> = bench.started.drain(..).collect();
    ensure!(leases.len() == SLOTS as usize, "every slot is taken");
    bench.spent = Duration::ZERO;
    for _ in 0..LEASES {
        let (conn, token) = leases.pop_front().context("a lease")?;
        let receipt = Receipt {
            token,
            end: success(),
        };
        bench.says(conn, AgentMessage::Receipt(receipt))?;
        leases.extend(bench.started.drain(..));
        ensure!(leases.len() == SLOTS as usize, "the slot is taken again");
    }
    Ok(bench.spent)
}

struct Bench {
    store: Store,
    core: Core,
    now: Now,
    started: Vec<(ConnId, Token)>,
    requests: u64,
    spent: Duration,
}

impl Bench {
    fn new() -> Result<Bench> {
        let store = Store::open_in_memory(Rules::all())?;
        let now = Now {
            wall: WallMs(1_800_000_000_000),
            boot: BootMs(1_000_000),
        };
        let config = Config {
            node: "bench".to_owned(),
            incarnation: Incarnation(1),
            certificate: FOR_EVER,
            clock: Thresholds::default(),
        };
        let core = Core::new(config, store.working_set()?, now, Rules::all());
        let mut bench = Bench {
            store,
            core,
            now,
            started: Vec::new(),
            requests: 0,
            spent: Duration::ZERO,
        };
        bench.settle()?;
        Ok(bench)
    }

    fn attach(&mut self, host: u32, slots: u32) -> Result<()> {
        let conn = ConnId(u64::from(host) + 1);
        let name = format!("host-{host}").parse()?;
        self.core
            .handle_connected(conn, name, FOR_EVER, Nonce(conn.0), self.now);
        let attach = Attach {
            protocol_version: PROTOCOL_VERSION,
            boot_id: "boot".to_owned(),
            agent_incarnation: Incarnation(1),
            supervisor_incarnation: Incarnation(1),
            swept: true,
            slots,
            labels: Vec::new(),
            wall: WallMs(0),
            attempts: Vec::new(),
        };
        self.says(conn, AgentMessage::Attach(attach))
    }

    /// A job of its own for each run, so that all are live at once.
    fn run(&mut self, number: u32) -> Result<()> {
        let yaml = format!(
            "name: bench/j{number}\npurpose: bench\nowner: bench\n\
             repeatable: {{ safe: true, how: bench }}\n\
             schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}\n\
             misfire: {{ policy: skip, after: 60s }}\noverlap: queue\nexpected_duration: 1m\n\
             timeout: 1h\nshards: {SHARDS}\nretry: {{ at_most: 3, backoff: [1s] }}\n\
             run: {{ exec: [\"/bin/true\", \"{{shard}}\"] }}\n"
        );
        let manifest = jobs::parse_manifests("bench.yaml", &yaml)
            .map_err(|problems| anyhow::anyhow!("{problems:?}"))?
            .pop()
            .context("one manifest")?;
        let job = manifest.name.clone();
        self.asks(Request::PutJob {
            manifest: Arc::new(manifest),
            expected: None,
            by: "bench".to_owned(),
        })?;
        self.asks(Request::Run {
            job,
            instant: None,
            params: std::collections::BTreeMap::new(),
            by: "bench".to_owned(),
            reason: "to be measured".to_owned(),
        })
    }

    fn asks(&mut self, request: Request) -> Result<()> {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.timed(|core, now| core.handle_request(id, request, now));
        self.settle()
    }

    fn says(&mut self, conn: ConnId, message: AgentMessage) -> Result<()> {
        self.timed(|core, now| core.handle_message(conn, message, now));
        self.settle()
    }

    fn timed(&mut self, input: impl FnOnce(&mut Core, Now)) {
        let begun = Instant::now();
        input(&mut self.core, self.now);
        self.spent += begun.elapsed();
    }

    /// Commits what the core proposes until it wants nothing more.
    fn settle(&mut self) -> Result<()> {
        loop {
            while let Some(effect) = self.core.poll_effect() {
                match effect {
                    Effect::Send { conn, message } => {
                        if let CoordinatorBody::Start { token, .. } = message.body {
                            self.started.push((conn, token));
                        }
                    }
                    Effect::ConfirmQuorum { round } => {
                        self.timed(|core, now| core.handle_quorum(round, now));
                    }
                    Effect::Reply { answer, .. } => {
                        answer.context("a request of the benchmark's own")?;
                    }
                    Effect::Close { .. } | Effect::StepDown => anyhow::bail!("{effect:?}"),
                }
            }
            let (mut ids, mut batch): (Vec<_>, Vec<Proposal>) = (Vec::new(), Vec::new());
            while let Some((id, proposal)) = self.core.poll_proposal() {
                ids.push(id);
                batch.push(proposal);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let outcomes = self.store.propose(&batch)?;
            let landed = ids.into_iter().zip(outcomes).collect();
            self.timed(|core, now| core.handle_outcomes(landed, now));
        }
    }
}

const FOR_EVER: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(9_000_000_000_000),
};

fn success() -> AttemptEnd {
    AttemptEnd {
        outcome: AttemptOutcome::Succeeded,
        exit: Some(Exit::Code(0)),
        started_at: Some(WallMs(1)),
        ended_at: WallMs(2),
        cpu: DurationMs(1),
        memory_bytes_peak: 1 << 20,
        out_of_memory: false,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    }
}
