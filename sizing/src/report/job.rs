//! One job: into how many shards it should be cut, whether it fits between its fires, and which
//! piece of it is the long one.

use protocol::{DurationMs, JobName};
use serde::Serialize;

use crate::history::{History, SeenJob, SeenRun};
use crate::scenario::quantile;

/// Fewer runs than these say nothing.
pub(super) const RUNS_MIN: usize = 5;

/// What a shard should last: below, starting it costs too much; above, losing it does.
const SHORTEST: DurationMs = DurationMs::from_secs(2 * 60);
const LONGEST: DurationMs = DurationMs::from_secs(10 * 60);

/// Shards that each host should get, for slow ones to be made up for by the others.
const PER_HOST: std::ops::RangeInclusive<u64> = 3..=5;

/// The slowest shard this much longer than the median one is worth a word.
const SKEWED: f64 = 1.5;

const DAY_MS: f64 = 86_400_000.0;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    pub job: JobName,
    /// That succeeded.
    pub runs: usize,
    pub shards: ShardAdvice,
    pub window: Option<WindowFit>,
    pub skew: Option<Skew>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardAdvice {
    pub current: u32,
    /// As `current` where nothing speaks for another number.
    pub advised: u32,
    pub why: String,
}

/// How its runs stand to the time between two of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowFit {
    pub lasts_p50_ms: i64,
    pub lasts_p95_ms: i64,
    /// Shortest time between two fires that were seen.
    pub period_ms: Option<i64>,
    /// The 95th percentile against the period; above 1 the next one is due before it has ended.
    pub used: Option<f64>,
    /// What a run lasts longer every 30 days, against its mean.
    pub growth_30_days: Option<f64>,
    /// Days until the period is used up, if it goes on growing so.
    pub full_in_days: Option<i64>,
    /// Runs of the last and the first day of a month against all others.
    pub month_end: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Skew {
    /// The slowest shard against the median one, in the median run.
    pub slowest: f64,
    /// The shard that is slowest most of the time, if one is: its keys are to be looked at.
    pub hot_shard: Option<u32>,
}

pub fn report_job(job: &SeenJob, history: &History) -> JobReport {
    let done: Vec<&SeenRun> = job
        .runs
        .iter()
        .filter(|run| run.lasted().is_some())
        .collect();
    JobReport {
        job: job.manifest.name.clone(),
        runs: done.len(),
        shards: advise_shards(job, &done, hosts_for(job, history)),
        window: window_fit(&done),
        skew: skew(&done),
    }
}

/// Hosts that its shards may be placed on.
fn hosts_for(job: &SeenJob, history: &History) -> u64 {
    let needs = &job.manifest.needs;
    let fits = history.hosts.iter().filter(|host| {
        let has = |label| host.labels.contains(label);
        let class = needs.class.as_ref();
        let is_in = |class| history.classes.of(&host.facts).is_in(class);
        host.in_service && needs.labels.iter().all(has) && class.is_none_or(is_in)
    });
    fits.count() as u64
}

fn advise_shards(job: &SeenJob, done: &[&SeenRun], hosts: u64) -> ShardAdvice {
    let current = job.shards;
    let keep = |why: String| ShardAdvice {
        current,
        advised: current,
        why,
    };
    if done.len() < RUNS_MIN {
        return keep(format!("too few runs ({} of {RUNS_MIN})", done.len()));
    }
    let mut work: Vec<DurationMs> = done.iter().map(|run| run.work()).collect();
    work.sort_unstable();
    let work = quantile(&work, 0.5);
    let ms = |duration: DurationMs| duration.0.max(1).unsigned_abs();
    if ms(work) <= ms(LONGEST) {
        // What is short in one piece has no need of several, and whoever has cut it may have a reason.
        return match current {
            1 => keep(format!(
                "{} of work: short enough in one piece",
                rough(work)
            )),
            _ => keep(format!(
                "{} of work: even one shard would be short",
                rough(work)
            )),
        };
    }
    let (fewest, most) = (
        ms(work).div_ceil(ms(LONGEST)),
        (ms(work) / ms(SHORTEST)).max(1),
    );
    if hosts == 0 {
        return keep("no host in service could take it".to_owned());
    }
    let each = DurationMs((ms(work) / u64::from(current.max(1))) as i64);
    let spread = (PER_HOST.start() * hosts)..=(PER_HOST.end() * hosts);
    let now = u64::from(current);
    let lasts_well = (fewest..=most).contains(&now);
    if lasts_well && (spread.contains(&now) || !(fewest..=most).contains(spread.start())) {
        return keep(format!("{} a shard on {hosts} hosts", rough(each)));
    }
    // Four for each host, moved to where a shard lasts neither too short nor too long, and then to
    // a whole number for each host if there is one.
    let wanted = (4 * hosts).clamp(fewest, most);
    let whole = wanted.div_ceil(hosts) * hosts;
    let advised = if whole <= most { whole } else { wanted };
    let advised = u32::try_from(advised.min(1024)).unwrap_or(1024);
    let would = DurationMs(work.0 / i64::from(advised));
    ShardAdvice {
        current,
        advised,
        why: format!(
            "{} of work: {} a shard now, {} then, on {hosts} hosts",
            rough(work),
            rough(each),
            rough(would)
        ),
    }
}

fn window_fit(done: &[&SeenRun]) -> Option<WindowFit> {
    let mut sorted: Vec<DurationMs> = done.iter().filter_map(|run| run.lasted()).collect();
    if sorted.len() < RUNS_MIN {
        return None;
    }
    sorted.sort_unstable();
    let (p50, p95) = (quantile(&sorted, 0.5), quantile(&sorted, 0.95));
    let fires = done
        .iter()
        .filter(|run| run.nominal.is_some())
        .map(|run| run.fire_time);
    let fires: Vec<_> = fires.collect();
    let period = fires
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).0)
        .filter(|&ms| ms > 0)
        .min();
    let growth = growth(done);
    let used = period.map(|period| p95.0 as f64 / period as f64);
    let full_in_days = growth.zip(used).and_then(|(growth, used)| {
        let a_day = growth * p50.0 as f64 / 30.0 / period.unwrap_or(1) as f64;
        (used < 1.0 && a_day > 1e-6).then(|| ((1.0 - used) / a_day).ceil() as i64)
    });
    Some(WindowFit {
        lasts_p50_ms: p50.0,
        lasts_p95_ms: p95.0,
        period_ms: period,
        used,
        growth_30_days: growth,
        full_in_days,
        month_end: month_end(done),
    })
}

/// Slope of a straight line through what runs lasted, by least squares; of a week at least.
fn growth(done: &[&SeenRun]) -> Option<f64> {
    let first = done.first()?.fire_time;
    let points: Vec<(f64, f64)> = done
        .iter()
        .filter_map(|run| {
            Some((
                (run.fire_time - first).0 as f64 / DAY_MS,
                run.lasted()?.0 as f64,
            ))
        })
        .collect();
    let last = points.last()?.0;
    if points.len() < RUNS_MIN || last < 7.0 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (day, lasts) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(x, y)| (x - day) * (y - lasts)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - day).powi(2)).sum();
    (variance > 0.0 && lasts > 0.0).then(|| covariance / variance * 30.0 / lasts)
}

fn month_end(done: &[&SeenRun]) -> Option<f64> {
    let (mut ends, mut others) = (Vec::new(), Vec::new());
    for run in done {
        if let (Some(nominal), Some(lasted)) = (&run.nominal, run.lasted()) {
            let of = if is_month_end(nominal)? {
                &mut ends
            } else {
                &mut others
            };
            of.push(lasted);
        }
    }
    if ends.is_empty() || others.len() < RUNS_MIN {
        return None;
    }
    ends.sort_unstable();
    others.sort_unstable();
    let usual = quantile(&others, 0.5).0;
    (usual > 0).then(|| quantile(&ends, 0.5).0 as f64 / usual as f64)
}

/// Whether a local time, `2026-11-30T02:30:00`, is of the last or the first day of a month.
fn is_month_end(nominal: &str) -> Option<bool> {
    let mut parts = nominal.get(..10)?.split('-').map(str::parse::<u32>);
    let mut part = || parts.next()?.ok();
    let (year, month, day) = (part()?, part()?, part()?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    };
    Some(day == 1 || day == days)
}

fn skew(done: &[&SeenRun]) -> Option<Skew> {
    let (mut ratios, mut slowest) = (Vec::new(), Vec::new());
    for run in done.iter().filter(|run| run.shards >= 3) {
        let mut lasted: Vec<(DurationMs, u32)> = run
            .done()
            .map(|attempt| (attempt.lasted(), attempt.shard))
            .collect();
        lasted.sort_unstable();
        let durations: Vec<DurationMs> = lasted.iter().map(|(lasted, _)| *lasted).collect();
        let median = quantile(&durations, 0.5).0;
        if let Some((longest, shard)) = lasted.last().filter(|_| median > 0) {
            ratios.push(longest.0 as f64 / median as f64);
            slowest.push(*shard);
        }
    }
    if ratios.len() < RUNS_MIN {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios[ratios.len() / 2];
    let often = |shard: &&u32| slowest.iter().filter(|other| other == shard).count();
    let most = slowest.iter().max_by_key(often);
    let hot = most.filter(|shard| middle >= SKEWED && often(shard) * 5 >= slowest.len() * 3);
    Some(Skew {
        slowest: middle,
        hot_shard: hot.copied(),
    })
}

/// A length to the second, or to the minute where it is of hours.
pub(crate) fn rough(duration: DurationMs) -> DurationMs {
    let unit = match duration.0 {
        ..=9_999 => 100,
        10_000..=3_599_999 => 1_000,
        _ => 60_000,
    };
    DurationMs(duration.0 / unit * unit)
}

#[cfg(test)]
mod tests;
