//! The ledger from outside: what holds whatever it is told, and whatever becomes of the process.

// The pure crate's ban on clocks, files and processes is for the ledger; here is the world.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
// Clippy knows the tests of a file such as this, but not the functions beside them.
#![allow(clippy::unwrap_used)]

mod backup;
mod durability;
mod generate;
mod log;
mod pages;
mod properties;
mod reading;
mod replica;

use std::path::{Path, PathBuf};

use ledger::command::{Decision, Fire, PutJob};
use ledger::{Command, Done, Proposal, Store};
use protocol::attempt::Trigger;
use protocol::{JobId, JobName, WallMs};

const MINUTE: i64 = 60_000;

fn manifest(name: &str, shards: u32, overlap: &str, safe: bool) -> jobs::Manifest {
    let repeatable = if safe {
        "{ safe: true, how: replaces }"
    } else {
        "{ safe: false }"
    };
    let yaml = format!(
        "name: {name}\n\
         purpose: a test\n\
         owner: ada\n\
         repeatable: {repeatable}\n\
         schedule: {{ cron: '* * * * *', timezone: UTC }}\n\
         misfire: {{ policy: run_now, after: 60s }}\n\
         overlap: {overlap}\n\
         expected_duration: 1m\n\
         timeout: 1m\n\
         shards: {shards}\n\
         retry: {{ at_most: 1, backoff: [1s] }}\n\
         run: {{ exec: ['/bin/true'] }}\n"
    );
    jobs::parse_manifests("test.yaml", &yaml).unwrap().remove(0)
}

fn name(text: &str) -> JobName {
    text.parse().unwrap()
}

fn at(minute: i64, command: Command) -> Proposal {
    Proposal {
        epoch: None,
        at: WallMs(minute * MINUTE),
        source: None,
        command,
    }
}

fn put(manifest: jobs::Manifest) -> Proposal {
    at(
        0,
        Command::PutJob(Box::new(PutJob {
            shards: None,
            manifest,
            cut_over: WallMs(0),
            settle: None,
            expected: None,
            by: "ada".to_owned(),
        })),
    )
}

/// A fire of one instant: the minute after `minute - 1`.
fn fire(job_id: JobId, minute: i64) -> Proposal {
    at(
        minute,
        Command::Fire(Fire {
            job_id,
            version: 1,
            from: WallMs((minute - 1) * MINUTE),
            through: WallMs(minute * MINUTE),
            decisions: vec![Decision::Run {
                fire_time: WallMs(minute * MINUTE),
                nominal: Vec::new(),
                trigger: Trigger::Scheduled,
                start_deadline: None,
            }],
        }),
    )
}

/// The write-ahead log beside a file.
fn wal(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn ok(store: &mut Store, proposal: Proposal) -> Done {
    store
        .propose(&[proposal])
        .unwrap()
        .remove(0)
        .result
        .unwrap()
}
