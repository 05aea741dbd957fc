//! Many agents in one process: each the real one, with its own identity, connections and directory, on
//! one thread of a runtime. What stands in for their supervisors runs nothing.

use std::time::Duration;

use protocol::DurationMs;
use tokio::task::JoinSet;

use super::site::{host, identity_in};
use crate::args::BenchFleet;
use crate::failure::Failure;
use crate::serve::{begin, block_on};

/// Between the starts of two agents: what is measured is not how a fleet is switched on.
const APART: Duration = Duration::from_millis(8);

const SLOTS: u32 = 4;

const TAKES: DurationMs = DurationMs(20);

pub(super) fn fleet(options: &BenchFleet) -> Result<(), Failure> {
    begin(&options.child, std::io::stderr)?;
    let what = format!("running {} agents", options.agents);
    block_on(&what, async {
        let mut agents = JoinSet::new();
        let last = options.first + options.agents;
        for host in (options.first..last).map(host) {
            agents.spawn(agent::run(agent_options(options, &host)));
            tokio::time::sleep(APART).await;
        }
        while let Some(ended) = agents.join_next().await {
            // Whoever asked for them counts them, and sees that one is missing.
            if let Ok(Err(error)) = ended {
                tracing::error!(error = &error as &dyn std::error::Error, "an agent ended");
            }
        }
        Ok::<(), agent::Error>(())
    })
}

fn agent_options(options: &BenchFleet, host: &str) -> agent::Options {
    agent::Options {
        identity_directory: identity_in(&options.dir, host),
        coordinators: options.coordinators.clone(),
        supervisor_directory: options.dir.join(format!("{host}-supervisor")),
        data_directory: options.dir.join(host),
        slots: SLOTS,
        labels: Vec::new(),
        output_bytes_max: 1 << 20,
        output_age: DurationMs::from_secs(60),
        output_of_each_job: 1,
        output_bytes_total: Some(1 << 20),
        policy: None,
        looking: None,
        work: agent::Work::Pretend { takes: TAKES },
    }
}
