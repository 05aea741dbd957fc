//! Where the ledger stands, in figures: run by `make bench`, quoted in docs/BENCHMARKS.md. Each
//! figure is the median of several rounds. Schedules and manifests are measured by
//! `matins bench next`.
#![allow(clippy::print_stdout)] // figures are its output

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use job::{manifest, success};
use ledger::command::{AttachAgent, BecomeActive, Decision, Finish, Fire, Grant, PutJob};
use ledger::{Command, Done, Proposal, RunState, Store};
use protocol::attempt::Trigger;
use protocol::message::Incarnation;
use protocol::{AgentId, BootMs, DurationMs, Epoch, JobId, Rules, RunId, SessionId, Token, WallMs};

mod job;

const ROUNDS: usize = 5;
const SHARDS: u32 = 32;

fn main() -> Result<()> {
    println!("{:<58} {:>12}", "what", "per second");
    let directory = tempfile::tempdir()?;
    report(
        "ledger: leases granted and finished, durable, batches of 32",
        || leases(directory.path(), 20_000),
    )
}

fn report(what: &str, round: impl Fn() -> Result<f64>) -> Result<()> {
    let mut figures = (0..ROUNDS).map(|_| round()).collect::<Result<Vec<f64>>>()?;
    figures.sort_by(f64::total_cmp);
    println!("{what:<58} {:>12.0}", figures[ROUNDS / 2]);
    Ok(())
}

fn per_second(count: usize, spent: Duration) -> f64 {
    count as f64 / spent.as_secs_f64()
}

/// A fire of 32 shards, each granted and finished, until `count` leases have ended.
fn leases(directory: &Path, count: usize) -> Result<f64> {
    let file = tempfile::Builder::new()
        .suffix(".db")
        .tempfile_in(directory)?;
    let mut bench = Bench::new(Store::open(file.path(), Rules::all())?)?;
    let begun = Instant::now();
    let mut ended = 0;
    while ended < count {
        let run_id = bench.fire()?;
        let tokens = bench.grant(run_id, SHARDS)?;
        bench.finish(&tokens)?;
        ended += tokens.len();
    }
    Ok(per_second(ended, begun.elapsed()))
}

struct Bench {
    store: Store,
    epoch: Option<Epoch>,
    job_id: JobId,
    agent: (AgentId, SessionId),
    fired_through: WallMs,
}

impl Bench {
    fn new(mut store: Store) -> Result<Bench> {
        let begin = BecomeActive {
            node: "bench".to_owned(),
            incarnation: Incarnation(1),
            boot_id: "boot".to_owned(),
            boot: BootMs(0),
            tzdata: jobs::tzdata_version().to_owned(),
            looked_at: None,
        };
        let attach = AttachAgent {
            name: "host-1".parse()?,
            boot_id: "boot".to_owned(),
            agent: Incarnation(1),
            supervisor: Incarnation(1),
            swept: true,
            slots: 1024,
            labels: Vec::new(),
            holds: Vec::new(),
        };
        let put = PutJob {
            shards: None,
            manifest: manifest("leases", "cron: \"@every 1s\"", SHARDS)?,
            cut_over: WallMs(0),
            settle: None,
            expected: None,
            by: "bench".to_owned(),
        };
        let commands = [
            Command::BecomeActive(begin),
            Command::AttachAgent(attach),
            Command::PutJob(Box::new(put)),
        ];
        let done = propose(&mut store, None, commands.into())?;
        let [
            Done::Active { epoch },
            Done::Attached {
                agent_id, session, ..
            },
            Done::JobPut { job_id, .. },
        ] = done[..]
        else {
            anyhow::bail!("unexpected outcomes {done:?}");
        };
        let agent = (agent_id, session);
        Ok(Bench {
            store,
            epoch: Some(epoch),
            job_id,
            agent,
            fired_through: WallMs(0),
        })
    }

    fn fire(&mut self) -> Result<RunId> {
        let through = self.fired_through + DurationMs(1000);
        let decision = Decision::Run {
            fire_time: through,
            nominal: vec!["1970-01-01T00:00:00".to_owned()],
            trigger: Trigger::Scheduled,
            start_deadline: None,
        };
        let fire = Fire {
            job_id: self.job_id,
            version: 1,
            from: self.fired_through,
            through,
            decisions: vec![decision],
        };
        self.fired_through = through;
        let done = self.propose(vec![Command::Fire(fire)])?;
        let Some(Done::Fired { runs }) = done.first() else {
            anyhow::bail!("{done:?}")
        };
        let &(run_id, state) = runs.first().context("one run")?;
        anyhow::ensure!(state == RunState::Ready, "{state:?}");
        Ok(run_id)
    }

    fn grant(&mut self, run_id: RunId, shards: u32) -> Result<Vec<Token>> {
        let session = self.agent.1;
        let grants = (0..shards)
            .map(|shard| {
                Command::Grant(Grant {
                    run_id,
                    shard,
                    session,
                    uses: Vec::new(),
                })
            })
            .collect();
        let granted = self.propose(grants)?.into_iter().map(|done| match done {
            Done::Granted { token, .. } => Ok(token),
            other => anyhow::bail!("{other:?}"),
        });
        granted.collect()
    }

    fn finish(&mut self, tokens: &[Token]) -> Result<()> {
        let end = success();
        let agent_id = self.agent.0;
        let finish = |&token| {
            Command::Finish(Finish {
                agent_id,
                token,
                end: end.clone(),
            })
        };
        self.propose(tokens.iter().map(finish).collect()).map(drop)
    }

    fn propose(&mut self, commands: Vec<Command>) -> Result<Vec<Done>> {
        propose(&mut self.store, self.epoch, commands)
    }
}

fn propose(store: &mut Store, epoch: Option<Epoch>, commands: Vec<Command>) -> Result<Vec<Done>> {
    let batch: Vec<Proposal> = commands
        .into_iter()
        .map(|command| Proposal {
            epoch,
            at: WallMs(0),
            source: None,
            command,
        })
        .collect();
    let outcomes = store.propose(&batch)?;
    outcomes
        .into_iter()
        .map(|outcome| Ok(outcome.result?))
        .collect()
}
