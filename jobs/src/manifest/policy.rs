//! What becomes of a fire that meets something: lateness, a run before it, another job.
//!
//! Each policy here, what it is and how it is read, for half of reading it is whether it goes with the
//! others. What contradicts itself is refused: one of its two halves would not be acted on.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{ClassName, DurationMs, JobName, Label, ResourceName};
use serde::Serialize;

use super::form::{AFTER_EXAMPLE, SHARDS_MAX};
use super::problem::Problems;
use super::section::Section;
use super::values::{duration, integer, job_name, word};
use super::yaml::Value;

/// What becomes of a fire that comes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfire {
    pub policy: MisfirePolicy,
    /// A fire less late than this is merely late and runs under every policy.
    pub after: DurationMs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MisfirePolicy {
    RunNow,
    Skip,
    /// Run where it is at most this late, else skip.
    Within(DurationMs),
}

/// How many of the late fires run. Nothing is asked of it under [`MisfirePolicy::Skip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// The newest so many, 1 to 100; the rest becomes a gap.
    pub at_most: u32,
    /// A fire later than this does not run.
    pub window: DurationMs,
    /// So many at once, 1 to `at_most`.
    pub concurrency: u32,
}

/// What becomes of a fire while an earlier run of the job is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It starts beside it.
    Allow,
    /// It is skipped.
    Forbid,
    /// It waits for the earlier run's end.
    Queue,
    /// The earlier run is cancelled, and it starts when no lease of that lives.
    Replace,
}

/// Whether a run that waits for a person's word holds up those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Serial {
    #[default]
    Relaxed,
    /// A run in need of confirmation counts as live.
    Strict,
}

/// What the job's own fire before must have come to before a fire starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Previous {
    Succeeded,
    Ended,
}

/// Another job whose run must have succeeded before a fire starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// Never the job itself.
    pub job: JobName,
    pub which: Which,
}

/// Which of another job's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with the same fire time.
    SameFire,
    /// The one with the same nominal local date, each in its own zone.
    SameDate,
    /// The newest one with a fire time no longer than this before.
    LatestWithin(DurationMs),
}

/// Into how many pieces a run is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// 1 to 1024.
    Fixed(u32),
    /// As many as it takes for each to last about `target`, where the whole work is `of`.
    Sized { of: DurationMs, target: DurationMs },
}

/// What a host must have to be given a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub class: Option<ClassName>,
    /// All of them.
    pub labels: BTreeSet<Label>,
    /// Thousandths of a processor that one shard keeps busy.
    pub cpu_milli: Option<u32>,
    /// Memory that one shard takes.
    pub memory_bytes: Option<u64>,
    /// Units that one shard takes, at least 1 each.
    pub uses: BTreeMap<ResourceName, u32>,
}

/// How a job stands that this manifest creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Begins {
    #[default]
    Active,
    Paused,
}

impl Shards {
    /// Where hosts have no say in it: the number.
    pub fn fixed(self) -> Option<u32> {
        match self {
            Shards::Fixed(shards) => Some(shards),
            Shards::Sized { .. } => None,
        }
    }
}

pub(super) fn misfire(top: &Section, problems: &mut Problems) -> Option<Misfire> {
    let section = top.inner("misfire", problems)?;
    let after = section.read("after", problems, duration);
    let within = section.read_if_there("within", problems, duration);
    let policy = section.read_if_there("policy", problems, word);
    let policy = match (policy.ok()?, section.find("within")) {
        (Some("within") | None, Some(cell)) => {
            let within = within.ok()??;
            if let Some(after) = after
                && within < after
            {
                cell.refuse(
                    format!("is shorter than `after`, {after}, below which every fire runs"),
                    "write a longer `within` or a shorter `after`",
                    problems,
                );
            }
            MisfirePolicy::Within(within)
        }
        (Some("within"), None) => {
            let remedy = "write how late is not too late, for example `within: 2h`";
            section.miss_with("within", remedy, problems);
            return None;
        }
        (Some(policy), Some(cell)) => {
            cell.refuse(
                format!("does not go with `policy: {policy}`"),
                "leave it out, or write `policy: within`",
                problems,
            );
            return None;
        }
        (Some("skip"), None) => MisfirePolicy::Skip,
        (Some(_), None) => MisfirePolicy::RunNow,
        (None, None) => {
            let remedy = "write `policy: run_now`, `policy: skip` or `within: 2h`: only you know whether a late run still helps or does harm";
            section.miss_with("policy", remedy, problems);
            return None;
        }
    };
    Some(Misfire {
        policy,
        after: after?,
    })
}

/// `misfire` is what was read of that, if it could be.
pub(super) fn catch_up(
    top: &Section,
    misfire: Option<Misfire>,
    problems: &mut Problems,
) -> Option<CatchUp> {
    let section = top.inner("catch_up", problems)?;
    if let (Some(MisfirePolicy::Skip), Some(cell)) =
        (misfire.map(|misfire| misfire.policy), top.find("catch_up"))
    {
        cell.refuse(
            "does not go with `misfire: { policy: skip }`, under which no late fire runs",
            "leave it out, or write `policy: run_now` or `within: 2h`",
            problems,
        );
        return None;
    }
    let at_most = section.read("at_most", problems, integer);
    let window = section.read("window", problems, duration);
    let concurrency = section.read("concurrency", problems, integer);
    if let (Some(at_most), Some(concurrency), Some(cell)) =
        (at_most, concurrency, section.find("concurrency"))
        && concurrency > at_most
    {
        cell.refuse(
            format!("is more than `at_most`, {at_most}: no more than that run"),
            format!("write at most {at_most}, or a larger `at_most`"),
            problems,
        );
    }
    Some(CatchUp {
        at_most: at_most?,
        window: window?,
        concurrency: concurrency?,
    })
}

/// What stands between a fire and the runs of its own job.
pub(super) fn overlap(
    top: &Section,
    problems: &mut Problems,
) -> Option<(Overlap, Serial, Option<Previous>)> {
    let overlap = top.read("overlap", problems, word).map(|word| match word {
        "allow" => Overlap::Allow,
        "replace" => Overlap::Replace,
        "queue" => Overlap::Queue,
        _ => Overlap::Forbid,
    });
    let serial = top.read("serial", problems, word).map(|word| match word {
        "strict" => Serial::Strict,
        _ => Serial::Relaxed,
    });
    let previous = top.read_if_there("previous", problems, word);
    let previous = previous.map(|word| {
        word.map(|word| match word {
            "ended" => Previous::Ended,
            _ => Previous::Succeeded,
        })
    });
    if let (Some(Overlap::Allow), Some(Serial::Strict), Ok(None), Some(cell)) =
        (overlap, serial, previous, top.find("serial"))
    {
        cell.refuse(
            "`strict` does not go with `overlap: allow`, under which no run waits for another",
            "leave it out, or write `overlap: queue` or `previous: succeeded`",
            problems,
        );
    }
    if let (Some(Overlap::Replace), Ok(Some(Previous::Succeeded)), Some(cell)) =
        (overlap, previous, top.find("previous"))
    {
        cell.refuse(
            "`succeeded` does not go with `overlap: replace`, which cancels the run that would be waited for",
            "write `previous: ended`, or `overlap: queue`",
            problems,
        );
    }
    Some((overlap?, serial?, previous.ok()?))
}

pub(super) fn after(top: &Section, problems: &mut Problems) -> Option<Vec<After>> {
    let own = ["name", "renamed_from"].map(|name| match &top.find(name)?.node.value {
        Value::Scalar { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let sections = top.list("after", problems).ok()?;
    let mut seen: Vec<JobName> = Vec::new();
    let read = sections.iter().map(|section| {
        let after = after_one(section, problems);
        let (name, cell) = (&after.as_ref()?.job, section.find("job")?);
        if own.contains(&Some(name.as_str())) {
            cell.refuse(
                format!("`{name}` is the job itself"),
                "to wait for its own fire before, write `previous: succeeded`",
                problems,
            );
        } else if seen.contains(name) {
            cell.refuse(
                format!("`{name}` is in the list already"),
                "leave one of the two out",
                problems,
            );
        }
        seen.push(name.clone());
        after
    });
    let read: Vec<Option<After>> = read.collect();
    read.into_iter().collect()
}

fn after_one(section: &Section, problems: &mut Problems) -> Option<After> {
    let job = section.read("job", problems, job_name);
    let word = section.read_if_there("match", problems, word);
    let latest_within = section.read_if_there("latest_within", problems, duration);
    let which = match (word.ok()?, latest_within.ok()?) {
        (Some("same_date"), None) => Which::SameDate,
        (Some(_), None) => Which::SameFire,
        (None, Some(within)) => Which::LatestWithin(within),
        (Some(word), Some(_)) => {
            let what = format!("does not go with `match: {word}`");
            section.find("latest_within")?.refuse(
                what,
                "leave one of the two out: either says which run is waited for",
                problems,
            );
            return None;
        }
        (None, None) => {
            let remedy = format!("write which of its runs is waited for, as in {AFTER_EXAMPLE}");
            section.miss_with("match", &remedy, problems);
            return None;
        }
    };
    Some(After { job: job?, which })
}

pub(super) fn shards(top: &Section, problems: &mut Problems) -> Option<Shards> {
    let is_sized = |node: &Value| matches!(node, Value::Map(_));
    if !top
        .find("shards")
        .is_some_and(|cell| is_sized(&cell.node.value))
    {
        return top.read("shards", problems, integer).map(Shards::Fixed);
    }
    let section = top.inner("shards", problems)?;
    let of = section.read("of", problems, duration);
    let target = section.read("target", problems, duration);
    let (of, target) = (of?, target?);
    let most = DurationMs(target.0.saturating_mul(i64::from(SHARDS_MAX)));
    if of > most {
        let least = DurationMs((of.0 + i64::from(SHARDS_MAX) - 1) / i64::from(SHARDS_MAX));
        section.find("target")?.refuse(
            format!("makes more than {SHARDS_MAX} shards of {of}"),
            format!("write a `target` of at least {least}"),
            problems,
        );
        return None;
    }
    Some(Shards::Sized { of, target })
}
