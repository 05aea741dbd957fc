//! Traces of others, read and replayed. They lie outside of the repository (`MATINS_CORPUS`, or
//! `../shared/corpus` beside it).

use std::path::PathBuf;

use ledger::RunState;
use sizing::trace::{SECOND, TraceJob, parse_machines, parse_swf, plan_replay};

/// A trace and its machines, if the corpus is here.
#[allow(clippy::disallowed_methods)] // a test may be told where the corpus lies
fn read_trace(name: &str) -> Option<(String, String)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus");
    let corpus =
        std::env::var_os("MATINS_CORPUS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = corpus.join("traces").join(name);
    let Ok(trace) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    };
    let machines = path.with_file_name(format!("{name}.machines"));
    Some((trace, std::fs::read_to_string(machines).unwrap()))
}

#[test]
fn every_line_of_the_traces_is_understood() {
    for (name, jobs, never_ran) in [
        ("HPC2N-head.swf", 3_145, 25),
        ("metacentrum-wagap-2013.swf", 17_898, 2),
    ] {
        let Some((text, machines)) = read_trace(name) else {
            return;
        };
        let trace = parse_swf(&text);
        assert_eq!(trace.problems, []);
        assert_eq!(
            (trace.jobs.len(), trace.never_ran),
            (jobs, never_ran),
            "{name}"
        );
        parse_machines(&machines).unwrap();
    }
}

/// Half a year of somebody's work ends: all of it, each run once, and no host has more than it can hold.
#[test]
fn a_trace_comes_to_its_end() {
    let Some((text, machines)) = read_trace("HPC2N-head.swf") else {
        return;
    };
    let mut trace = parse_swf(&text);
    trace.jobs.truncate(600);
    let replay = plan_replay(&trace, &parse_machines(&machines).unwrap(), 1).unwrap();
    let night = sizing::simulate(&replay.scenario).unwrap();
    assert_eq!(night.refused, Vec::<String>::new());
    assert_eq!(night.count(RunState::Succeeded), trace.jobs.len());
    // Nodes of it have two processors, and a job without a number of nodes has as few as hold it.
    let shards = |job: &TraceJob| job.processors_per_node.div_ceil(2);
    let all: u32 = trace.jobs.iter().map(shards).sum();
    assert_eq!(night.spans.len(), all as usize);
    assert!(night.hosts.iter().all(|host| host.peak <= host.slots));
    let work = |job: &TraceJob| i64::from(shards(job)) * job.run_s;
    let busy: i64 = night.hosts.iter().map(|host| host.busy.0).sum();
    assert_eq!(busy, trace.jobs.iter().map(work).sum::<i64>() * SECOND.0);
    assert_eq!(replay.waits_here_s(&night).len(), trace.jobs.len());
}
