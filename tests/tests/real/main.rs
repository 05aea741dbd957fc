//! Real processes, real QUIC, real SIGKILL: what the simulation says, seen on a machine.
//!
//! A [`site::Site`] here has one coordinator; the group of three has its trials in `chaos/`. Each
//! file of trials is one kind of misfortune.
#![allow(clippy::print_stdout)] // what a trial saw

#[path = "../machines/mod.rs"]
mod machines;

use machines::{
    cables, chance, client, control, evidence, faketime, fires, grounds, leftovers, misfortune,
    person, rng, site, usage, writers,
};

mod clocks;
mod coordinator;
mod coordinator_killed;
mod disk;
mod killed;
mod machine;
mod mix;
mod network;
mod people;
mod power;
mod restore;
mod soak;
mod steady;
mod stopped;

/// A job whose every process appends one line to `log`: job, fire time, shard, token, and what
/// `body` does after it.
fn job(name: &str, schedule: &str, shards: u32, log: &str, body: &str) -> String {
    let script = format!(
        "echo $MATINS_JOB $MATINS_FIRE_TIME $MATINS_SHARD $MATINS_TOKEN start >> {log}; {body} \
         echo $MATINS_JOB $MATINS_FIRE_TIME $MATINS_SHARD $MATINS_TOKEN end >> {log}"
    );
    format!(
        "---\nname: {name}\npurpose: test\nowner: test\n\
         repeatable: {{ safe: true, how: test }}\n\
         schedule: {{ cron: \"{schedule}\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: run_now, after: 10m }}\noverlap: queue\nstart_deadline: 10m\n\
         expected_duration: 5s\ntimeout: 2m\nshards: {shards}\ntakeover_after: 15s\n\
         retry: {{ at_most: 5, backoff: [1s] }}\n\
         run: {{ exec: [\"/bin/sh\", \"-c\", \"{script}\"] }}\n"
    )
}

/// One line that a job's process wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    job: String,
    fire_time: String,
    shard: u32,
    token: i64,
    ended: bool,
}

fn lines(log: &str) -> anyhow::Result<Vec<Line>> {
    let text = std::fs::read_to_string(log)?;
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let &[job, fire_time, shard, token, what] = words.as_slice() else {
                anyhow::bail!("`{line}` is torn");
            };
            Ok(Line {
                job: job.to_owned(),
                fire_time: fire_time.to_owned(),
                shard: shard.parse()?,
                token: token.parse()?,
                ended: what == "end",
            })
        })
        .collect()
}
