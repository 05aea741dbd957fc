//! What `matins hardware --probe` measures, beside what others measure of the same: pairs, one right after
//! the other, so that a machine that is busy is as busy for both. What is compared is the ratio of each
//! pair; two figures of different minutes would say more of the neighbours than of the tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use probes::measure::{
    Bandwidth, FsyncLatency, Measured, WRITE_BYTES, measure_cpu, measure_fsync, measure_memory,
    measure_random_writes,
};
use serde_json::{Value, json};

use super::yardstick::installed;
use crate::args::{BenchSite, Text};
use crate::failure::Failure;
use crate::output::{print, print_json, talk};
use crate::text::Table;

/// Compiled where it is measured, by the machine's own compiler.
const TRIAD: &str = include_str!("triad.c");

/// As many writes as ours makes.
const SYNCS: u64 = 500;

/// What is measured by both, and who the other is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    SyncP50,
    SyncP99,
    SyncMean,
    DurableWrites,
    DeepWritesThreads,
    DeepWritesQueue,
    Memory,
    ScalingSysbench,
    ScalingStress,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::SyncP50 => "fdatasync, p50",
            What::SyncP99 => "fdatasync, p99",
            What::SyncMean => "fdatasync, mean",
            What::DurableWrites => "durable random writes",
            What::DeepWritesThreads | What::DeepWritesQueue => "random writes, 32 at a time",
            What::Memory => "memory, triad",
            What::ScalingSysbench | What::ScalingStress => "all threads over one",
        }
    }

    fn yardstick(self) -> &'static str {
        match self {
            What::SyncP50
            | What::SyncP99
            | What::SyncMean
            | What::DurableWrites
            | What::DeepWritesThreads => "fio",
            What::DeepWritesQueue => "fio, libaio",
            What::Memory => "triad.c",
            What::ScalingSysbench => "sysbench",
            What::ScalingStress => "stress-ng",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            What::SyncP50 | What::SyncP99 | What::SyncMean => format!("{:.2} ms", value / 1000.0),
            What::DurableWrites | What::DeepWritesThreads | What::DeepWritesQueue => {
                format!("{value:.0}/s")
            }
            What::Memory => format!("{:.1} GB/s", value / 1e9),
            What::ScalingSysbench | What::ScalingStress => format!("{value:.2}"),
        }
    }
}

/// One of ours and one of theirs, measured one right after the other.
struct Pair {
    what: What,
    ours: f64,
    theirs: f64,
}

/// Programs that measure the same; those that are not installed are left out.
struct Yardsticks {
    fio: Option<PathBuf>,
    sysbench: Option<PathBuf>,
    stress: Option<PathBuf>,
    triad: Option<PathBuf>,
}

pub(super) fn hardware(options: &BenchSite, rounds: u32) -> Result<(), Failure> {
    let dir = options
        .dir
        .join(format!("matins-bench-{}", std::process::id()));
    fs::create_dir(&dir).map_err(|error| {
        Failure::of_error(
            format!("making {}", dir.display()),
            &error,
            "name a directory that can be written with --dir",
        )
    })?;
    let measured = measure_rounds(&dir, rounds);
    // What is left of a yardstick goes with it.
    let removed = fs::remove_dir_all(&dir);
    let pairs = measured?;
    removed.map_err(|error| {
        Failure::of_error(format!("removing {}", dir.display()), &error, "remove it")
    })?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    report(options.output, &pairs, rounds, &load)
}

fn measure_rounds(dir: &Path, rounds: u32) -> Result<Vec<Pair>, Failure> {
    let yardsticks = Yardsticks {
        fio: installed("fio"),
        sysbench: installed("sysbench"),
        stress: installed("stress-ng"),
        triad: match installed("gcc") {
            Some(gcc) => Some(compile(&gcc, dir)?),
            None => None,
        },
    };
    let mut pairs = Vec::new();
    let mut array_bytes = None;
    for round in 0..rounds {
        talk(&format!("round {} of {rounds}", round + 1));
        // Whoever is first meets another machine than who is second.
        let ours_first = round % 2 == 0;
        if let Some(fio) = &yardsticks.fio {
            syncs(&mut pairs, dir, fio, ours_first)?;
            random_writes(&mut pairs, dir, fio, ours_first)?;
        }
        if let Some(triad) = &yardsticks.triad {
            array_bytes = Some(memory(&mut pairs, triad, array_bytes, ours_first)?);
        }
        scaling(&mut pairs, dir, &yardsticks, ours_first)?;
    }
    Ok(pairs)
}

/// Both of a pair, in this order or the other.
fn both<A, B>(
    ours_first: bool,
    ours: impl FnOnce() -> Result<A, Failure>,
    theirs: impl FnOnce() -> Result<B, Failure>,
) -> Result<(A, B), Failure> {
    if ours_first {
        let ours = ours()?;
        Ok((ours, theirs()?))
    } else {
        let theirs = theirs()?;
        Ok((ours()?, theirs))
    }
}

fn syncs(pairs: &mut Vec<Pair>, dir: &Path, fio: &Path, ours_first: bool) -> Result<(), Failure> {
    let ours = || known("fdatasync", measure_fsync(dir, &never()));
    let theirs = || {
        let size = format!("--size={}", SYNCS * WRITE_BYTES);
        let block = format!("--bs={WRITE_BYTES}");
        let arguments = [
            "--ioengine=sync",
            "--rw=write",
            "--fdatasync=1",
            &block,
            &size,
        ];
        run_fio(fio, dir, &arguments)
    };
    let (ours, theirs): (FsyncLatency, Value) = both(ours_first, ours, theirs)?;
    let of = |field: &str| {
        let latency = theirs.pointer("/sync/lat_ns")?;
        Some(latency.pointer(field)?.as_f64()? / 1000.0)
    };
    let mean_us = ours.latency.mean_us().unwrap_or_default();
    for (what, ours, field) in [
        (What::SyncP50, ours.p50_us, "/percentile/50.000000"),
        (What::SyncP99, ours.p99_us, "/percentile/99.000000"),
        (What::SyncMean, mean_us, "/mean"),
    ] {
        let theirs = of(field).ok_or_else(|| unclear("fio", field))?;
        pairs.push(Pair {
            what,
            ours: ours as f64,
            theirs,
        });
    }
    Ok(())
}

fn random_writes(
    pairs: &mut Vec<Pair>,
    dir: &Path,
    fio: &Path,
    ours_first: bool,
) -> Result<(), Failure> {
    let ours = || known("random writes", measure_random_writes(dir, &never()));
    let theirs = || {
        let same = [
            "--rw=randwrite",
            "--bs=4096",
            "--direct=1",
            "--size=128M",
            "--overwrite=1",
        ];
        let durable = [
            "--ioengine=psync",
            "--sync=dsync",
            "--io_size=32M",
            "--runtime=3",
        ];
        // As ours: a thread for each write, all in one file, and as many of them.
        let threads = [
            "--ioengine=psync",
            "--thread",
            "--numjobs=32",
            "--group_reporting",
            "--filename=deep",
            "--norandommap",
            "--io_size=3M",
            "--runtime=3",
        ];
        let queue = [
            "--ioengine=libaio",
            "--iodepth=32",
            "--io_size=96M",
            "--runtime=3",
        ];
        let run = |of: &[&str]| run_fio(fio, dir, &[&same[..], of].concat());
        Ok((run(&durable)?, run(&threads)?, run(&queue)?))
    };
    let (ours, (durable, threads, queue)) = both(ours_first, ours, theirs)?;
    for (what, ours, theirs) in [
        (What::DurableWrites, ours.durable.per_s, durable),
        (What::DeepWritesThreads, ours.deep.per_s, threads),
        (What::DeepWritesQueue, ours.deep.per_s, queue),
    ] {
        let theirs = theirs.pointer("/write/iops").and_then(Value::as_f64);
        pairs.push(Pair {
            what,
            ours: ours as f64,
            theirs: theirs.ok_or_else(|| unclear("fio", "/write/iops"))?,
        });
    }
    Ok(())
}

/// The first time ours goes first, for it says how large the arrays must be.
fn memory(
    pairs: &mut Vec<Pair>,
    triad: &Path,
    array_bytes: Option<u64>,
    ours_first: bool,
) -> Result<u64, Failure> {
    let ours = || known("memory", measure_memory(&never(), &mut |_| {}));
    let of = |ours: &Bandwidth| ours.nodes.iter().map(|node| node.array_bytes).sum();
    let theirs = |array_bytes: u64| {
        let mut command = Command::new(triad);
        // Its threads stay where they are and sleep while they wait for each other, as ours do: one that spins
        // uses up its turn on a busy machine.
        command
            .arg(array_bytes.to_string())
            .envs([("OMP_PROC_BIND", "true"), ("OMP_WAIT_POLICY", "passive")]);
        let said = run(command)?;
        let rate: Result<f64, _> = said.trim().parse();
        rate.map_err(|_| unclear("triad.c", &said))
    };
    let (ours, theirs) = if let Some(array_bytes) = array_bytes {
        both(ours_first, ours, || theirs(array_bytes))?
    } else {
        let ours = ours()?;
        let theirs = theirs(of(&ours))?;
        (ours, theirs)
    };
    pairs.push(Pair {
        what: What::Memory,
        ours: ours.bytes_per_s as f64,
        theirs,
    });
    Ok(of(&ours))
}

/// Scores of different works are in different units; how much more all threads do than one is the same
/// question to each.
fn scaling(
    pairs: &mut Vec<Pair>,
    dir: &Path,
    yardsticks: &Yardsticks,
    ours_first: bool,
) -> Result<(), Failure> {
    if yardsticks.sysbench.is_none() && yardsticks.stress.is_none() {
        return Ok(());
    }
    let threads = allowed_threads()?;
    let ours = || known("processors", measure_cpu(true, &never(), &mut |_| {}));
    let ratio = |measure: &dyn Fn(u32) -> Result<f64, Failure>| {
        let one = best_of_three(|| measure(1))?;
        Ok::<f64, Failure>(best_of_three(|| measure(threads))? / one)
    };
    let theirs = || {
        let mut told = Vec::new();
        if let Some(sysbench) = &yardsticks.sysbench {
            let found = ratio(&|threads| run_sysbench(sysbench, threads))?;
            told.push((What::ScalingSysbench, found));
        }
        if let Some(stress) = &yardsticks.stress {
            let found = ratio(&|threads| run_stress(stress, dir, threads))?;
            told.push((What::ScalingStress, found));
        }
        Ok(told)
    };
    let (ours, told) = both(ours_first, ours, theirs)?;
    let ours = ours.score_all as f64 / ours.score_single.max(1) as f64;
    for (what, theirs) in told {
        pairs.push(Pair { what, ours, theirs });
    }
    Ok(())
}

/// As many as ours uses.
fn allowed_threads() -> Result<u32, Failure> {
    let threads = std::thread::available_parallelism().map_err(|error| {
        Failure::of_error(
            "counting the processors that may be used",
            &error,
            "see that /proc and /sys are mounted",
        )
    })?;
    Ok(threads.get() as u32)
}

/// As ours is.
fn best_of_three(mut measure: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut best = measure()?;
    for _ in 1..3 {
        best = best.max(measure()?);
    }
    Ok(best)
}

fn run_fio(fio: &Path, dir: &Path, arguments: &[&str]) -> Result<Value, Failure> {
    let mut command = Command::new(fio);
    command
        .arg("--name=bench")
        .arg(format!("--directory={}", dir.display()))
        .args([
            "--percentile_list=50:99",
            "--output-format=json",
            "--unlink=1",
        ])
        .args(arguments);
    let said = run(command)?;
    // Notes may stand before it.
    let from = said.find('{').unwrap_or(0);
    let mut read: Value =
        serde_json::from_str(&said[from..]).map_err(|error| unclear("fio", &error.to_string()))?;
    let job = read.pointer_mut("/jobs/0").map(Value::take);
    job.ok_or_else(|| unclear("fio", "no job"))
}

fn run_sysbench(sysbench: &Path, threads: u32) -> Result<f64, Failure> {
    let mut command = Command::new(sysbench);
    let threads = format!("--threads={threads}");
    command.args(["cpu", &threads, "--time=1", "run"]);
    let said = run(command)?;
    parse_figure(&said, "events per second:").ok_or_else(|| unclear("sysbench", &said))
}

fn run_stress(stress: &Path, dir: &Path, threads: u32) -> Result<f64, Failure> {
    let file = dir.join("stress.yaml");
    let mut command = Command::new(stress);
    command
        .args(["--cpu", &threads.to_string(), "--cpu-method", "matrixprod"])
        .args(["--timeout", "1", "--metrics", "--yaml"])
        .arg(&file)
        .current_dir(dir);
    run(command)?;
    let said = fs::read_to_string(&file).unwrap_or_default();
    parse_figure(&said, "bogo-ops-per-second-real-time:").ok_or_else(|| unclear("stress-ng", &said))
}

fn compile(gcc: &Path, dir: &Path) -> Result<PathBuf, Failure> {
    let (source, program) = (dir.join("triad.c"), dir.join("triad"));
    fs::write(&source, TRIAD).map_err(|error| {
        Failure::of_error(
            format!("writing {}", source.display()),
            &error,
            "name another directory with --dir",
        )
    })?;
    let mut command = Command::new(gcc);
    command
        .args(["-O3", "-fopenmp", "-o"])
        .arg(&program)
        .arg(&source);
    run(command)?;
    Ok(program)
}

/// What a yardstick printed.
fn run(mut command: Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| {
        Failure::failed(
            format!("measuring with {program} as a yardstick"),
            why,
            format!("mend that, or take {program} out of PATH to measure without it"),
        )
    };
    let output = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it said nothing").to_owned();
    Err(failed(format!("it ended with {}: {last}", output.status)))
}

/// The number behind a name.
fn parse_figure(said: &str, name: &str) -> Option<f64> {
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix(name))?;
    line.trim().parse().ok()
}

fn unclear(program: &str, said: &str) -> Failure {
    Failure::failed(
        format!("measuring with {program} as a yardstick"),
        format!("it does not say what is asked for: {said}"),
        format!("try another version of {program}, or take it out of PATH to measure without it"),
    )
}

fn known<T>(what: &str, measured: Measured<T>) -> Result<T, Failure> {
    let why = measured.why().unwrap_or_default();
    match measured {
        Measured::Known(found) => Ok(found),
        _ => Err(Failure::failed(
            format!("measuring {what}"),
            why,
            "mend that, or name another directory with --dir",
        )),
    }
}

fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

fn report(output: Text, pairs: &[Pair], rounds: u32, load: &str) -> Result<(), Failure> {
    let mut kinds: Vec<What> = pairs.iter().map(|pair| pair.what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let found: Vec<(What, Ratios)> = kinds
        .into_iter()
        .map(|what| (what, Ratios::of(pairs, what)))
        .collect();
    match output {
        Text::Json => {
            let one = |(what, of): &(What, Ratios)| {
                json!({
                    "what": what.name(),
                    "yardstick": what.yardstick(),
                    "ours": of.ours,
                    "theirs": of.theirs,
                    "ratio": of.median,
                    "ratio_min": of.min,
                    "ratio_max": of.max,
                })
            };
            let pairs: Vec<Value> = found.iter().map(one).collect();
            print_json(&json!({"rounds": rounds, "load": load, "pairs": pairs}))
        }
        Text::Text => {
            let mut table =
                Table::new(&["~WHAT", "OURS", "YARDSTICK", "THEIRS", "RATIO", "SPREAD"]);
            for (what, of) in &found {
                table.row(vec![
                    what.name().to_owned(),
                    what.show(of.ours),
                    what.yardstick().to_owned(),
                    what.show(of.theirs),
                    format!("{:.2}", of.median),
                    format!("{:.2}-{:.2}", of.min, of.max),
                ]);
            }
            talk(&format!("medians of {rounds} pairs; load {load}"));
            print(&table.render())
        }
    }
}

/// Of all pairs of a kind, medians of each side and of the ratios of ours to theirs.
struct Ratios {
    ours: f64,
    theirs: f64,
    median: f64,
    min: f64,
    max: f64,
}

impl Ratios {
    /// There is at least one pair of this kind.
    fn of(pairs: &[Pair], what: What) -> Ratios {
        let of = || pairs.iter().filter(move |pair| pair.what == what);
        let sorted = |values: Vec<f64>| {
            let mut values = values;
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let middle = |values: Vec<f64>| sorted(values.clone())[values.len() / 2];
        let ratios = sorted(of().map(|pair| pair.ours / pair.theirs).collect());
        Ratios {
            ours: middle(of().map(|pair| pair.ours).collect()),
            theirs: middle(of().map(|pair| pair.theirs).collect()),
            median: ratios[ratios.len() / 2],
            min: ratios[0],
            max: ratios[ratios.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs_and_not_of_medians() {
        let pair = |ours, theirs| Pair {
            what: What::Memory,
            ours,
            theirs,
        };
        let other = Pair {
            what: What::SyncP50,
            ours: 1.0,
            theirs: 9.0,
        };
        let pairs = [pair(10.0, 10.0), pair(2.0, 1.0), other, pair(30.0, 60.0)];
        let of = Ratios::of(&pairs, What::Memory);
        assert_eq!((of.ours, of.theirs), (10.0, 10.0));
        assert_eq!((of.min, of.median, of.max), (0.5, 1.0, 2.0));
    }

    #[test]
    fn what_yardsticks_say_is_understood() {
        let sysbench = "CPU speed:\n    events per second:   384.47\n\nGeneral statistics:\n";
        assert_eq!(parse_figure(sysbench, "events per second:"), Some(384.47));
        let stress = "metrics:\n    - stressor: cpu\n      bogo-ops-per-second-real-time: 271.3\n";
        let name = "bogo-ops-per-second-real-time:";
        assert_eq!(parse_figure(stress, name), Some(271.3));
        assert_eq!(parse_figure("nothing", name), None);
    }
}
