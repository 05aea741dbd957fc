//! How fast the processors compute: one thread, and all that may be used.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::kernel::{ANSWER, KERNEL_VERSION, REFERENCE_ROUNDS_PER_S, round};
use super::processors::{Brakes, allowed, busy_per_mille, pin, read_brakes, read_ticks, shares};
use super::{Measured, Refusal, Skip};

const SINGLE: Duration = Duration::from_secs(1);
const ALL: Duration = Duration::from_secs(2);
/// The best of so many: a machine is disturbed at times, and never made faster.
const RUNS: usize = 3;
/// Above this the machine is not measured unless somebody insists.
pub const BUSY_PER_MILLE_MAX: u32 = 100;

/// Scores are rounds of a fixed work a second, of which 1,000 are one thread of the reference machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuScores {
    /// The best of three runs of a second, each of one thread that is held to one processor: the first, the
    /// middle and the last that may be used, for they need not be alike.
    pub score_single: u64,
    /// The best of three runs of two seconds of as many threads as there are processors, each held to one.
    pub score_all: u64,
    pub singles: Vec<u64>,
    pub alls: Vec<u64>,
    /// Processors that were measured.
    pub threads: u32,
    /// How busy they were before, in thousandths.
    pub busy_per_mille: u32,
    /// Busy beyond what is allowed, and measured all the same.
    pub forced: bool,
    /// Of the time of the best runs, the thousandths in which our threads had their processors. What a
    /// hypervisor took away is not seen here.
    pub had_single_per_mille: u32,
    pub had_all_per_mille: u32,
    /// What the hypervisor gave to others while all were measured, in thousandths.
    pub stolen_per_mille: Option<u32>,
    /// Frequency governors, each once; none where the kernel has none, as in most virtual machines.
    pub governors: Vec<String>,
    /// How often processors were throttled meanwhile, for heat and for the control group's quota;
    /// unset where that is not counted.
    pub heat_throttles: Option<u64>,
    pub quota_throttles: Option<u64>,
    /// Rounds that came to a wrong answer. Any at all means a processor that cannot be trusted.
    pub wrong_rounds: u64,
    /// Of the work; scores of two versions are not to be compared.
    pub kernel_version: u32,
}

/// Measures all processors that this process may use, in ten seconds.
pub fn measure_cpu(
    force: bool,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Measured<CpuScores> {
    measure(force, stop, tell).into()
}

fn measure(
    force: bool,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<CpuScores, Refusal> {
    let processors = allowed().map_err(Refusal::because)?;
    tell("processors: looking whether they are quiet");
    let looked = busy_per_mille(&processors, stop).map_err(Refusal::because)?;
    let busy_per_mille = looked.ok_or(Skip::Stopped)?;
    let forced = busy_per_mille > BUSY_PER_MILLE_MAX;
    if forced && !force {
        return Err(Skip::ProcessorsBusy { busy_per_mille }.into());
    }
    let before = read_brakes(&processors);
    let mut singles = Vec::new();
    for run in 0..RUNS {
        tell(&format!("processors: one thread, {} of {RUNS}", run + 1));
        let one = processors[run * (processors.len() - 1) / (RUNS - 1)];
        singles.push(run_on(&[one], SINGLE, stop)?);
    }
    let ticks = read_ticks().map_err(Refusal::because)?;
    let mut alls = Vec::new();
    for run in 0..RUNS {
        let threads = processors.len();
        tell(&format!(
            "processors: {threads} threads, {} of {RUNS}",
            run + 1
        ));
        alls.push(run_on(&processors, ALL, stop)?);
    }
    let ticks_after = read_ticks().map_err(Refusal::because)?;
    let stolen = shares(&processors, &ticks, &ticks_after);
    let after = read_brakes(&processors);
    let (single, all) = (best(&singles), best(&alls));
    let scores = |runs: &[Run]| runs.iter().map(Run::score).collect();
    Ok(CpuScores {
        score_single: single.score(),
        score_all: all.score(),
        singles: scores(&singles),
        alls: scores(&alls),
        threads: processors.len() as u32,
        busy_per_mille,
        forced,
        had_single_per_mille: single.had_per_mille,
        had_all_per_mille: all.had_per_mille,
        stolen_per_mille: stolen.map(|shares| shares.stolen_per_mille),
        heat_throttles: since(before.heat_throttles, after.heat_throttles),
        quota_throttles: since(before.quota_throttles, after.quota_throttles),
        governors: governors(after, before),
        wrong_rounds: singles.iter().chain(&alls).map(|run| run.wrong).sum(),
        kernel_version: KERNEL_VERSION,
    })
}

fn since(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Those before and those after, should somebody have changed them.
fn governors(after: Brakes, before: Brakes) -> Vec<String> {
    let mut governors = [after.governors, before.governors].concat();
    governors.sort();
    governors.dedup();
    governors
}

fn best(runs: &[Run]) -> &Run {
    runs.iter()
        .max_by(|a, b| a.rounds_per_s.total_cmp(&b.rounds_per_s))
        .expect("there were several runs")
}

/// What threads got done side by side.
struct Run {
    rounds_per_s: f64,
    had_per_mille: u32,
    wrong: u64,
}

impl Run {
    fn score(&self) -> u64 {
        (self.rounds_per_s * 1000.0 / REFERENCE_ROUNDS_PER_S).round() as u64
    }
}

/// A thread on each of these processors for so long.
fn run_on(processors: &[usize], time: Duration, stop: &AtomicBool) -> Result<Run, Refusal> {
    let start = Barrier::new(processors.len());
    let runs: Vec<Result<Run, String>> = thread::scope(|scope| {
        let work = |processor: usize| {
            let start = &start;
            move || {
                let pinned = pin(processor);
                // Also where it failed: the others wait.
                start.wait();
                pinned.and_then(|()| compute(time, stop))
            }
        };
        let threads: Vec<_> = processors
            .iter()
            .map(|processor| scope.spawn(work(*processor)))
            .collect();
        let ended = threads.into_iter().map(ScopedJoinHandle::join);
        ended
            .map(|ended| {
                ended.unwrap_or_else(|_| Err("a thread that computed panicked".to_owned()))
            })
            .collect()
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Skip::Stopped.into());
    }
    let runs = runs.into_iter().collect::<Result<Vec<Run>, String>>();
    let runs = runs.map_err(Refusal::because)?;
    let had: u64 = runs.iter().map(|run| u64::from(run.had_per_mille)).sum();
    Ok(Run {
        rounds_per_s: runs.iter().map(|run| run.rounds_per_s).sum(),
        had_per_mille: (had / runs.len() as u64) as u32,
        wrong: runs.iter().map(|run| run.wrong).sum(),
    })
}

fn compute(time: Duration, stop: &AtomicBool) -> Result<Run, String> {
    let cpu_begun = thread_time()?;
    let begun = Instant::now();
    let (mut rounds, mut wrong) = (0_u64, 0);
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        wrong += u64::from(round() != ANSWER);
        rounds += 1;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let had = thread_time()?.saturating_sub(cpu_begun).as_secs_f64() / elapsed;
    Ok(Run {
        rounds_per_s: rounds as f64 / elapsed,
        had_per_mille: (had * 1000.0).clamp(0.0, 1000.0) as u32,
        wrong,
    })
}

/// Processor time that this thread has used.
fn thread_time() -> Result<Duration, String> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .map_err(|errno| format!("the kernel does not tell a thread's processor time: {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_counted_on_every_processor() {
        let never = AtomicBool::new(false);
        let processors = allowed().unwrap();
        let Ok(found) = run_on(&processors, Duration::from_millis(30), &never) else {
            panic!("it was not stopped")
        };
        assert!(found.rounds_per_s > 0.0 && found.wrong == 0);
    }

    #[test]
    fn a_stop_is_obeyed_and_told() {
        let stopped = AtomicBool::new(true);
        let found = measure_cpu(true, &stopped, &mut |_| {});
        assert_eq!(found, Measured::Skipped(Skip::Stopped));
    }
}
