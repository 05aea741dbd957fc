//! A trace of 89 days, replayed through the coordinator's core: `cargo bench -p sizing`.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)] // it measures time, and says so

use std::path::PathBuf;
use std::time::Instant;

use sizing::trace::{parse_machines, parse_swf, plan_replay};

const TRACE: &str = "metacentrum-wagap-2013.swf";

fn main() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus");
    let corpus =
        std::env::var_os("MATINS_CORPUS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = corpus.join("traces").join(TRACE);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is not there", path.display());
        return;
    };
    let machines = std::fs::read_to_string(path.with_file_name(format!("{TRACE}.machines")));
    let began = Instant::now();
    let trace = parse_swf(&text);
    let machines = parse_machines(&machines.unwrap()).unwrap();
    let replay = plan_replay(&trace, &machines, 1).unwrap();
    let read = began.elapsed();
    let began = Instant::now();
    let night = sizing::simulate(&replay.scenario).unwrap();
    let replayed = began.elapsed();
    let (from, until) = night.worked().unwrap();
    let at = |sorted: &[i64], part: usize| sorted[(sorted.len() - 1) * part / 100];
    let here = replay.waits_here_s(&night);
    let then = replay.waits_then_s();
    println!(
        "read {} jobs in {read:.1?}, replayed in {:.2?}",
        trace.jobs.len(),
        replayed
    );
    println!(
        "{} attempts over {:.1} days, {:.1} % of all processors, {} refused",
        night.spans.len(),
        (replay.second_of(until) - replay.second_of(from)) as f64 / 86_400.0,
        replay.utilisation(&night) * 100.0,
        night.refused.len(),
    );
    for part in [50, 90, 99] {
        println!(
            "waits, p{part}: here {} s, then {} s",
            at(&here, part),
            at(then, part)
        );
    }
}
