//! What a core holds of a job that waits for its night: the design lets an idle leader have 300 MiB with
//! a hundred thousand of them, of which some 60 are the program itself, the ledger's pages, and sockets.
#![allow(unsafe_code)] // the allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coordinator_core::clock::Thresholds;
use coordinator_core::{Config, Core};
use ledger::Store;
use ledger::command::{Command, Proposal, PutJob};
use profiles::classes::Classes;
use protocol::message::Incarnation;
use protocol::{BootMs, Now, Rules, WallMs};

const JOBS: usize = 2_000;

/// Of a job with 32 shards, a purpose of a line and a command line of five words.
const BYTES_PER_JOB_MAX: usize = 1_800;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

/// With what the system's allocator lays before each piece, in its steps.
fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: each call is the system allocator's own; what is counted beside it is no part of that.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn manifest(n: usize) -> jobs::Manifest {
    let (minute, hour) = (n % 60, n / 60 % 24);
    let yaml = format!(
        "name: bench/idle-{n}\n\
         purpose: Match yesterday's ledger with the bank files and write the settlement table.\n\
         owner: finance-oncall\n\
         repeatable: {{ safe: true, how: \"full recompute, replaces the day\" }}\n\
         schedule: {{ cron: \"{minute} {hour} 29 2 *\", timezone: Asia/Shanghai }}\n\
         misfire: {{ policy: run_now, after: 60s }}\n\
         overlap: queue\n\
         expected_duration: 40m\n\
         timeout: 15m\n\
         shards: 32\n\
         retry: {{ at_most: 3, backoff: [1m, 5m, 30m] }}\n\
         run:\n  exec: [\"/opt/jobs/reconcile\", \"--date\", \"{{fire_date-1d}}\", \"--shard\", \"{{shard}}/{{shards}}\"]\n"
    );
    let read = jobs::parse_manifests("t.yaml", &yaml);
    read.expect("a good manifest").remove(0)
}

/// Alone in its process: others would be counted too.
#[test]
fn a_job_that_waits_takes_little() {
    let mut store = Store::open_in_memory(Rules::all()).unwrap();
    let at = WallMs(1_800_000_000_000);
    let puts = (0..JOBS).map(|n| {
        let put = PutJob {
            shards: None,
            manifest: manifest(n),
            cut_over: at,
            settle: None,
            expected: None,
            by: "test".to_owned(),
        };
        Proposal {
            epoch: None,
            at,
            source: None,
            command: Command::PutJob(Box::new(put)),
        }
    });
    let outcomes = store.propose(&puts.collect::<Vec<_>>()).unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
    drop(outcomes);
    let config = Config {
        node: "test".to_owned(),
        incarnation: Incarnation(1),
        boot_id: "boot".to_owned(),
        looked_at: store.last_applied().unwrap(),
        last_clock: None,
        clock: Thresholds::default(),
        classes: Arc::new(Classes::built_in()),
        members: Vec::new(),
        time_service: None,
        yielded: None,
    };
    let now = Now {
        wall: at,
        boot: BootMs(1_000_000),
    };
    // Whatever the ledger keeps for having been read is there before.
    drop(store.working_set().unwrap());

    let before = HELD_BYTES.load(Ordering::Relaxed);
    let core = Core::new(config, store.working_set().unwrap(), now, Rules::all());
    let held = HELD_BYTES.load(Ordering::Relaxed).saturating_sub(before);

    assert_eq!(core.working_set().jobs.len(), JOBS);
    let each = held / JOBS;
    println!("{each} bytes a job");
    assert!(each > 500, "{each} bytes a job: they are not counted");
    assert!(each <= BYTES_PER_JOB_MAX, "{each} bytes a job");
}
