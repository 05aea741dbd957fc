//! What this machine can do, measured: asked for, told of while it lasts, and shown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use probes::measure::{
    BUSY_PER_MILLE_MAX, CpuScores, FsyncLatency, Measured, RATED_BYTES, Scores, Writes, measure,
};

use crate::amounts::{rough_us, size};
use crate::failure::Failure;
use crate::output::{Room, talk};
use crate::progress::Progress;
use crate::text::Table;

/// Measures the machine, its disk in `directory`, until somebody asks to stop.
pub(super) fn measure_machine(directory: &Path, force: bool) -> Result<Scores, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    let is_caught = signals.thread_block().is_ok();
    if is_caught {
        stop_on(signals, &stop);
    }
    let mut progress = Progress::new();
    let scores = measure(directory, force, &stop, &mut |what| {
        progress.show(&format!("measuring {what}"));
    });
    drop(progress);
    // From here on they end the process again.
    if is_caught && signals.thread_unblock().is_err() {
        talk("Ctrl-C does nothing any more: the kernel does not give it back");
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::failed(
            "measuring this machine",
            "it was asked to stop",
            "measure again; nothing was left behind",
        ));
    }
    Ok(scores)
}

/// Ctrl-C and SIGTERM stop what is measured, so that no file of it is left. They are blocked in every thread
/// that is made from here on, but for the one that waits for them.
fn stop_on(signals: SigSet, stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        if signals.wait().is_ok() {
            stop.store(true, Ordering::Relaxed);
        }
    });
}

/// A figure a row, or why there is none.
pub(super) fn for_people(scores: &Scores, room: Room) -> String {
    let mut table = Table::new(&["MEASURED", "FIGURE", "~OF IT"]);
    let mut row = |what: &str, figure: String, of_it: String| {
        table.row(vec![what.to_owned(), figure, of_it]);
    };
    match &scores.cpu {
        Measured::Known(cpu) => {
            row("one thread", cpu.score_single.to_string(), of_single(cpu));
            let all = format!("{} threads", cpu.threads);
            row(&all, cpu.score_all.to_string(), of_all(cpu));
        }
        other => row("processors", String::new(), why(other)),
    }
    match &scores.memory {
        Measured::Known(memory) => {
            for node in &memory.nodes {
                let of_it = format!(
                    "{} in three arrays of {}; median of {} passes {}/s",
                    threads(node.threads),
                    size(node.array_bytes),
                    node.passes,
                    size(node.median_bytes_per_s)
                );
                let figure = format!("{}/s", size(node.bytes_per_s));
                row(&format!("memory, node {}", node.node), figure, of_it);
            }
        }
        other => row("memory", String::new(), why(other)),
    }
    match &scores.fsync {
        Measured::Known(fsync) => {
            row(
                "fdatasync",
                format!("grade {}", fsync.grade.as_str()),
                of_fsync(fsync),
            );
        }
        other => row("fdatasync", String::new(), why(other)),
    }
    match &scores.random_writes {
        Measured::Known(writes) => {
            for (what, of) in [
                ("durable writes", &writes.durable),
                ("writes", &writes.deep),
            ] {
                row(what, format!("{}/s", of.per_s), of_writes(of));
            }
            row(
                "one after the other",
                format!("{}/s", size(writes.sequential_bytes_per_s)),
                "a file of 128 MiB until it is durable".to_owned(),
            );
        }
        other => row("random writes", String::new(), why(other)),
    }
    if let Some(wear) = scores.wear {
        let figure = format!("{}/year", size(wear.bytes_a_year));
        let of_it = format!(
            "by an hourly probe; {:.2} ‰ of a drive rated for {} TB",
            wear.rated_per_mille,
            RATED_BYTES / 1_000_000_000_000
        );
        row("wear", figure, of_it);
    }
    table.render_in(room)
}

fn why<T>(measured: &Measured<T>) -> String {
    measured.why().unwrap_or_default()
}

fn of_single(cpu: &CpuScores) -> String {
    let runs: Vec<String> = cpu.singles.iter().map(u64::to_string).collect();
    let mut said = vec![
        "1000 is the reference machine".to_owned(),
        format!("runs {}", runs.join(", ")),
    ];
    if cpu.forced {
        said.push(format!(
            "the machine was {} % busy, so that this is too little",
            cpu.busy_per_mille / 10
        ));
    }
    if !cpu.governors.is_empty() {
        said.push(format!("governor {}", cpu.governors.join(", ")));
    }
    let throttles = [
        (cpu.heat_throttles, "heat"),
        (cpu.quota_throttles, "its quota"),
    ];
    for (count, what) in throttles {
        if let Some(count) = count.filter(|count| *count > 0) {
            said.push(format!("throttled {count} times for {what}"));
        }
    }
    if cpu.wrong_rounds > 0 {
        said.push(format!(
            "{} rounds came to a wrong answer: the processor cannot be trusted",
            cpu.wrong_rounds
        ));
    }
    said.join("; ")
}

fn of_all(cpu: &CpuScores) -> String {
    let times = cpu.score_all as f64 / cpu.score_single.max(1) as f64;
    let had = f64::from(cpu.had_all_per_mille) / 10.0;
    let stolen = cpu.stolen_per_mille.filter(|stolen| *stolen > 0);
    let stolen = stolen.map(|stolen| {
        let stolen = f64::from(stolen) / 10.0;
        format!(", and the hypervisor took {stolen:.1} %")
    });
    format!(
        "{times:.2} times one; they had {had:.0} % of their processors{}",
        stolen.unwrap_or_default()
    )
}

fn of_fsync(fsync: &FsyncLatency) -> String {
    let device = fsync.device.as_ref().map(|device| format!(" on {device}"));
    let mut said = vec![format!(
        "p50 {}, p99 {}, longest {} of {}{}",
        lasts(fsync.p50_us),
        lasts(fsync.p99_us),
        lasts(fsync.max_us),
        fsync.latency.len(),
        device.unwrap_or_default()
    )];
    if let Some(bytes) = fsync.device_written_bytes {
        said.push(format!(
            "it wrote {} for {}",
            size(bytes),
            size(fsync.written_bytes)
        ));
    }
    if let Some(us) = fsync.device_flush_mean_us {
        said.push(format!("its own flushes took {} on average", lasts(us)));
    }
    let busy = fsync.processors_busy_per_mille;
    if let Some(busy) = busy.filter(|busy| *busy > BUSY_PER_MILLE_MAX) {
        said.push(format!(
            "the processors were {} % busy, so that this is too much",
            busy / 10
        ));
    }
    if fsync.cut_short {
        said.push("time was up before all were made".to_owned());
    }
    if fsync.slow_syncs > 0 {
        said.push(format!("{} took longer than a second", fsync.slow_syncs));
    }
    said.join("; ")
}

fn of_writes(of: &Writes) -> String {
    let at_a_time = if of.depth == 1 {
        "4 KiB at random places, one at a time".to_owned()
    } else {
        format!("the same, {} at a time, perhaps in its cache", of.depth)
    };
    format!(
        "{at_a_time}; p50 {}, p99 {}",
        lasts(of.p50_us),
        lasts(of.p99_us)
    )
}

fn lasts(us: u64) -> String {
    rough_us(i64::try_from(us).unwrap_or(i64::MAX))
}

fn threads(count: u32) -> String {
    crate::text::count(u64::from(count), "thread")
}

#[cfg(test)]
mod tests {
    use probes::measure::{Bandwidth, Histogram, NodeBandwidth, RandomWrites, Skip, Wear};
    use probes::measure::{Grade, KERNEL_VERSION};

    use super::*;

    fn writes(depth: u64, per_s: u64) -> Writes {
        Writes {
            per_s,
            count: per_s * 3,
            depth,
            p50_us: 400,
            p99_us: 2_300,
            max_us: 9_000,
            elapsed_ms: 3_000,
        }
    }

    fn measured() -> Scores {
        let mut latency = Histogram::default();
        for us in [600, 700, 5_500] {
            latency.count_one(us);
        }
        Scores {
            cpu: Measured::Known(CpuScores {
                score_single: 1_004,
                score_all: 1_907,
                singles: vec![998, 1_004, 990],
                alls: vec![1_907, 1_850, 1_900],
                threads: 2,
                busy_per_mille: 420,
                forced: true,
                had_single_per_mille: 990,
                had_all_per_mille: 952,
                stolen_per_mille: Some(12),
                governors: vec!["powersave".to_owned()],
                heat_throttles: Some(3),
                quota_throttles: None,
                wrong_rounds: 0,
                kernel_version: KERNEL_VERSION,
            }),
            memory: Measured::Known(Bandwidth {
                bytes_per_s: 30 << 30,
                nodes: vec![NodeBandwidth {
                    node: 0,
                    bytes_per_s: 30 << 30,
                    median_bytes_per_s: 28 << 30,
                    passes: 41,
                    threads: 2,
                    array_bytes: 128 << 20,
                    cache_bytes: Some(32 << 20),
                }],
            }),
            random_writes: Measured::Known(RandomWrites {
                durable: writes(1, 1_230),
                deep: writes(32, 14_100),
                sequential_bytes_per_s: 800 << 20,
                written_bytes: 256 << 20,
                device_written_bytes: Some(257 << 20),
                device: Some("vda".to_owned()),
            }),
            fsync: Measured::Known(FsyncLatency {
                p50_us: 700,
                p99_us: 5_500,
                max_us: 5_500,
                grade: Grade::B,
                slow_syncs: 0,
                cut_short: false,
                elapsed_ms: 7,
                written_bytes: 6_900,
                device_written_bytes: Some(31_000),
                device: Some("vda".to_owned()),
                device_busy_per_mille: Some(900),
                device_flush_mean_us: Some(80),
                processors_busy_per_mille: Some(1_000),
                latency,
            }),
            wear: Some(Wear {
                bytes_a_year: 9_000_000_000,
                rated_per_mille: 0.03,
            }),
        }
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(
            for_people(&measured(), Room::Columns80),
            include_str!("sample_scores.txt")
        );
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let scores = Scores {
            cpu: Measured::Skipped(Skip::ProcessorsBusy {
                busy_per_mille: 420,
            }),
            memory: Measured::Unknown("there is too little memory".to_owned()),
            random_writes: Measured::Unknown("its file system takes no direct writes".to_owned()),
            fsync: Measured::Skipped(Skip::SpaceShort { free_per_mille: 31 }),
            wear: None,
        };
        let text = for_people(&scores, Room::Endless);
        for said in [
            "the processors were 42 % busy",
            "there is too little memory",
            "no direct writes",
            "only 3.1 % of the file system is free",
        ] {
            assert!(text.contains(said), "{text}");
        }
    }
}
