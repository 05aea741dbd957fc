//! The scheduler's core with its ledger, and hosts that take what they are given.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use coordinator_core::clock::Thresholds;
use coordinator_core::{Config, ConnId, Core, Effect, Request, RequestId};
use jobs::Manifest;
use ledger::command::PutJob;
use ledger::{Command, Proposal, Store};
use profiles::classes::Classes;
use protocol::message::{AgentMessage, Attach, CoordinatorBody, Incarnation, Nonce, Receipt};
use protocol::{BootMs, DurationMs, JobName, Lifetime, Now, Rules, Token, WallMs};

use crate::job::success;

/// When the scheduler begins: a midnight.
pub(crate) const BEGIN: WallMs = WallMs(1_800_057_600_000);

/// Jobs are written so many in a transaction.
const JOBS_AT_ONCE: usize = 10_000;

/// What has been spent since it was last set to nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) core: Duration,
    /// Commits and their fsync included, where the ledger is a file.
    pub(crate) ledger: Duration,
}

pub(crate) struct Scheduler {
    store: Store,
    core: Core,
    now: Now,
    /// Attempts that hosts were told to start, and have not been taken from here.
    pub(crate) started: Vec<(ConnId, Token)>,
    pub(crate) spent: Spent,
    requests: u64,
}

impl Scheduler {
    /// With a ledger in memory, without jobs.
    pub(crate) fn in_memory() -> Result<Scheduler> {
        Scheduler::of(Store::open_in_memory(Rules::all())?)
    }

    /// With a ledger in this file that has these jobs, as after a restart.
    pub(crate) fn with_jobs(
        ledger: &Path,
        manifests: impl Iterator<Item = Result<Manifest>>,
    ) -> Result<Scheduler> {
        let mut store = Store::open(ledger, Rules::all())?;
        let mut batch = Vec::new();
        for manifest in manifests {
            let put = PutJob {
                shards: None,
                manifest: manifest?,
                cut_over: BEGIN,
                settle: None,
                expected: None,
                by: "bench".to_owned(),
            };
            batch.push(Proposal {
                epoch: None,
                at: BEGIN,
                source: None,
                command: Command::PutJob(Box::new(put)),
            });
            if batch.len() == JOBS_AT_ONCE {
                commit(&mut store, &mut batch)?;
            }
        }
        commit(&mut store, &mut batch)?;
        Scheduler::of(store)
    }

    fn of(store: Store) -> Result<Scheduler> {
        let now = Now {
            wall: BEGIN,
            boot: BootMs(1_000_000),
        };
        let config = Config {
            node: "bench".to_owned(),
            incarnation: Incarnation(1),
            boot_id: "boot".to_owned(),
            looked_at: store.last_applied()?,
            last_clock: None,
            clock: Thresholds::default(),
            classes: Arc::new(Classes::built_in()),
            members: Vec::new(),
            time_service: None,
            yielded: None,
        };
        let core = Core::new(config, store.working_set()?, now, Rules::all());
        let mut scheduler = Scheduler {
            store,
            core,
            now,
            started: Vec::new(),
            spent: Spent::default(),
            requests: 0,
        };
        scheduler.settle()?;
        Ok(scheduler)
    }

    pub(crate) fn attach(&mut self, host: u32, slots: u32) -> Result<()> {
        let conn = ConnId(u64::from(host) + 1);
        let name = format!("host-{host}").parse()?;
        self.core
            .handle_connected(conn, name, FOR_EVER, Nonce(conn.0), self.now);
        let attach = Attach {
            epoch: self.core.epoch().expect("it leads"),
            nonce: Nonce(conn.0),
            boot_id: "boot".to_owned(),
            agent_incarnation: Incarnation(1),
            supervisor_incarnation: Incarnation(1),
            swept: true,
            slots,
            labels: Vec::new(),
            wall: WallMs(0),
            attempts: Vec::new(),
        };
        let attach = AgentMessage::Attach(attach);
        self.timed(|core, now| core.handle_message(conn, attach, now));
        self.settle()
    }

    /// A run by hand of this job, which is put first.
    pub(crate) fn run(&mut self, manifest: Manifest) -> Result<()> {
        let job: JobName = manifest.name.clone();
        self.asks(Request::PutJob {
            manifest: Arc::new(manifest),
            expected: None,
            by: "bench".to_owned(),
        })?;
        self.asks(Request::Run {
            job,
            instant: None,
            params: BTreeMap::new(),
            by: "bench".to_owned(),
            reason: "to be measured".to_owned(),
        })
    }

    pub(crate) fn wall(&self) -> WallMs {
        self.now.wall
    }

    /// Lets time pass to what is due next, at most `limit`, and does that.
    pub(crate) fn go_on(&mut self, limit: DurationMs) -> Result<()> {
        let until = self.core.poll_timeout(self.now);
        let passed = (until - self.now.boot).clamp_to(limit);
        self.now.boot = self.now.boot + passed;
        self.now.wall = self.now.wall + passed;
        self.timed(Core::handle_tick);
        self.settle()
    }

    /// Their hosts say that these attempts have succeeded.
    pub(crate) fn finish(&mut self, attempts: &[(ConnId, Token)]) -> Result<()> {
        for &(conn, token) in attempts {
            let receipt = AgentMessage::Receipt(Receipt {
                token,
                end: success(),
            });
            self.timed(|core, now| core.handle_message(conn, receipt, now));
        }
        self.settle()
    }

    fn asks(&mut self, request: Request) -> Result<()> {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.timed(|core, now| core.handle_request(id, request, now));
        self.settle()
    }

    fn timed(&mut self, input: impl FnOnce(&mut Core, Now)) {
        let begun = Instant::now();
        input(&mut self.core, self.now);
        self.spent.core += begun.elapsed();
    }

    /// Commits what the core proposes until it wants nothing more.
    fn settle(&mut self) -> Result<()> {
        loop {
            // The core concludes from what it has heard when it is polled.
            let begun = Instant::now();
            let effects: Vec<Effect> = std::iter::from_fn(|| self.core.poll_effect()).collect();
            self.spent.core += begun.elapsed();
            for effect in effects {
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
                    Effect::Close { .. } | Effect::HandOver { .. } | Effect::StepDown => {
                        anyhow::bail!("{effect:?}")
                    }
                }
            }
            let begun = Instant::now();
            let proposals = std::iter::from_fn(|| self.core.poll_proposal());
            let (ids, batch): (Vec<_>, Vec<Proposal>) = proposals.unzip();
            self.spent.core += begun.elapsed();
            if batch.is_empty() {
                return Ok(());
            }
            let begun = Instant::now();
            let outcomes = self.store.propose(&batch)?;
            self.spent.ledger += begun.elapsed();
            let landed = ids.into_iter().zip(outcomes).collect();
            self.timed(|core, now| core.handle_outcomes(landed, now));
        }
    }
}

fn commit(store: &mut Store, batch: &mut Vec<Proposal>) -> Result<()> {
    for outcome in store.propose(batch)? {
        outcome.result?;
    }
    batch.clear();
    Ok(())
}

const FOR_EVER: Lifetime = Lifetime {
    from: WallMs(0),
    until: WallMs(9_000_000_000_000),
};
