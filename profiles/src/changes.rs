//! How one profile of a host differs from the one before, in what matters.
//!
//! A host is read every few minutes, and something of it is always another: what is free on a disk, how
//! warm a drive is. What matters is what somebody would have had to touch or what has broken: parts that
//! came and went, their health, and the few properties of each that do not move by themselves. Which
//! those are stands in two tables here, [`of_fact`] and [`of_part`]; a name that is in neither is
//! of a newer agent and says nothing.
//!
//! The order of health and of words is that of [`protocol::host`], so that "worse" means the same
//! everywhere. A clock and its sources are no parts here: they come and go, and are watched elsewhere.
//! File systems may come and go, and only how they fare is told. A drive is the one that has its
//! serial number, whatever the kernel calls it since the last boot.

use std::collections::{BTreeMap, BTreeSet};

use protocol::HostProfile;
use protocol::host::{
    DIFFERENCE_TEXT_BYTES_MAX, DIFFERENCES_MAX, Difference, Form, HEALTHS, HostFact, ProfileDigest,
    Turn, Value, fact_spec,
};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

/// How many parts a report leaves out, where it does: the host has more of them than are registered.
pub const LEFT_OUT: &str = "left_out";

/// What becomes of a value that is another one than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weigh {
    /// It is told, and that is all.
    Same,
    /// Less of it is worse.
    MoreIsBetter,
    MoreIsWorse,
    /// As [`Weigh::MoreIsBetter`], where it is another one by more than a fiftieth: kernels count what
    /// they keep for themselves in different ways.
    Roughly,
    /// Measuring it twice gives two values: it is told where it is another one by more than a fifth.
    Measured,
    /// As its words stand in order, the best first.
    InOrder(&'static [&'static str]),
}

/// How a fact is weighed; `None` for what moves by itself, or is told by the parts.
fn of_fact(name: &str) -> Option<Weigh> {
    Some(match name {
        "disk.free_bytes"
        | "disk.probe_bytes_per_year"
        | "clock.verdict"
        | "clock.bound_us"
        | "storage.health"
        | "storage.rebuilding"
        | "host.health" => return None,
        "cpu.packages"
        | "cpu.cores"
        | "cpu.threads"
        | "power.supplies"
        | "nic.speed_mbit_per_s"
        | "memory.ecc"
        | "storage.redundant" => Weigh::MoreIsBetter,
        "memory.size_bytes" | "disk.size_bytes" => Weigh::Roughly,
        "cpu.score_single"
        | "cpu.score_all"
        | "memory.bandwidth_bytes_per_s"
        | "disk.fsync_p99_us"
        | "disk.random_write_iops" => Weigh::Measured,
        _ => match fact_spec(name)?.form {
            Form::Word(words) => Weigh::InOrder(words),
            Form::Truth | Form::Number | Form::Text => Weigh::Same,
        },
    })
}

/// What of a part of this kind does not move by itself; `None` for parts that come and go.
fn of_part(kind: &str) -> Option<&'static [(&'static str, Weigh)]> {
    use Weigh::{MoreIsBetter, MoreIsWorse, Roughly, Same};
    Some(match kind {
        "clock" | "source" | "sensor" => return None,
        "filesystem" => &[("read_only", MoreIsWorse), ("barriers", MoreIsBetter)],
        "array" | "volume" => &[
            ("level", Same),
            ("members_required", Same),
            ("size_bytes", Same),
            ("cache_policy", Same),
            ("cache_protected", MoreIsBetter),
        ],
        "controller" => &[
            ("model", Same),
            ("mode", Same),
            ("write_back_without_battery", MoreIsWorse),
            ("drive_write_cache", Same),
        ],
        "battery" => &[("type", Same), ("model", Same), ("replace", MoreIsWorse)],
        "drive" => &[
            ("model", Same),
            ("size_bytes", Same),
            ("media_errors", MoreIsWorse),
            ("reallocated", MoreIsWorse),
            ("pending", MoreIsWorse),
            ("predictive_failures", MoreIsWorse),
            ("write_cache", Same),
            ("power_loss_capacitor", MoreIsBetter),
        ],
        "memory" => &[
            ("size_bytes", Roughly),
            ("modules", MoreIsBetter),
            ("slots", Same),
            ("ecc", MoreIsBetter),
            ("uncorrected_errors", MoreIsWorse),
        ],
        _ => &[],
    })
}

/// What matters of a profile, in order.
#[derive(Debug, Default)]
struct Essence<'a> {
    facts: BTreeMap<&'a str, &'a HostFact>,
    parts: BTreeMap<(&'a str, &'a str), Part<'a>>,
    /// Where something was not understood, and what.
    problems: BTreeMap<&'a str, &'a str>,
    /// Parts that are not here may be there all the same.
    partial: bool,
}

#[derive(Debug, Default, Serialize)]
struct Part<'a> {
    health: &'a str,
    serial: Option<&'a str>,
    facts: BTreeMap<&'static str, &'a Json>,
    #[serde(skip)]
    asleep: bool,
}

/// What of a profile matters, as one number. Two profiles of one host with the same one say the same.
pub fn digest(profile: &HostProfile) -> ProfileDigest {
    let essence = Essence::of(profile);
    let mut written = Vec::new();
    // Pairs are no keys in JSON. Why something is not known may be said with numbers that move.
    let parts: Vec<_> = essence.parts.iter().collect();
    let known = |fact: &HostFact| match fact {
        HostFact::Known(value) => Some(value.clone()),
        HostFact::Unknown(_) => None,
    };
    let facts = essence.facts.iter();
    let facts: Vec<_> = facts.map(|(name, fact)| (name, known(fact))).collect();
    let problems: Vec<_> = essence.problems.keys().collect();
    let whole = (facts, parts, problems);
    serde_json::to_writer(&mut written, &whole).expect("texts and numbers are always JSON");
    let hash: [u8; 32] = Sha256::digest(&written).into();
    let (first, _) = hash.split_at(16);
    ProfileDigest(first.try_into().expect("it is split at 16"))
}

/// What is not as it was, the worst first; at most [`DIFFERENCES_MAX`].
pub fn differences(before: &HostProfile, after: &HostProfile) -> Vec<Difference> {
    let (before, after) = (Essence::of(before), Essence::of(after));
    let mut found = Vec::new();
    compare_parts(&before, &after, &mut found);
    compare_facts(&before, &after, &mut found);
    compare_problems(&before, &after, &mut found);
    found.sort_by_key(|difference| difference.turn);
    if found.len() > DIFFERENCES_MAX {
        let more = found.len() - (DIFFERENCES_MAX - 1);
        found.truncate(DIFFERENCES_MAX - 1);
        found.push(difference(
            Turn::Changed,
            &format!("{more} more things"),
            None,
            None,
        ));
    }
    found
}

impl<'a> Essence<'a> {
    fn of(profile: &'a HostProfile) -> Essence<'a> {
        let facts = profile.facts.0.iter();
        let facts = facts.filter(|(name, _)| of_fact(name).is_some());
        let mut essence = Essence {
            facts: facts.map(|(name, fact)| (name.as_str(), fact)).collect(),
            partial: profile.report.get(LEFT_OUT).is_some(),
            ..Essence::default()
        };
        let items = profile.report.get("items").and_then(Json::as_array);
        for item in items.into_iter().flatten().filter_map(Json::as_object) {
            essence.add(item);
        }
        let problems = profile.report.get("problems").and_then(Json::as_array);
        for problem in problems.into_iter().flatten() {
            essence
                .problems
                .insert(text_of(problem, "where"), text_of(problem, "what"));
        }
        essence
    }

    fn add(&mut self, item: &'a Map<String, Json>) {
        let word = |name| item.get(name).and_then(Json::as_str).unwrap_or("");
        let (kind, id, health) = (word("kind"), word("id"), word("health"));
        let Some(properties) = of_part(kind) else {
            return;
        };
        let known = |(name, _): &(&'static str, Weigh)| {
            let value = item.get(*name).filter(|value| !value.is_null())?;
            Some((*name, value))
        };
        let facts = properties.iter().filter_map(known).collect();
        let serial = Some(word("serial")).filter(|serial| !serial.is_empty());
        // Two of one name are one thing that two tools know of; the worse word counts.
        let part = self.parts.entry((kind, id)).or_default();
        if part.health.is_empty() || rank(HEALTHS, health) > rank(HEALTHS, part.health) {
            *part = Part {
                health,
                serial,
                facts,
                asleep: item.get("asleep").and_then(Json::as_bool) == Some(true),
            };
        }
    }
}

fn text_of<'a>(problem: &'a Json, name: &str) -> &'a str {
    problem.get(name).and_then(Json::as_str).unwrap_or("")
}

impl Part<'_> {
    /// Whether both say which one they are, and are not the same.
    fn is_another(&self, other: &Part<'_>) -> bool {
        self.serial.is_some() && other.serial.is_some() && self.serial != other.serial
    }

    /// How it is told where there is nothing to compare it with.
    fn shown(&self) -> String {
        match self.serial {
            Some(serial) => format!("{}, serial {serial}", self.health),
            None => self.health.to_owned(),
        }
    }
}

/// Whether only how it fares matters, and not that it is there.
fn comes_and_goes(kind: &str) -> bool {
    kind == "filesystem"
}

fn compare_parts(before: &Essence<'_>, after: &Essence<'_>, found: &mut Vec<Difference>) {
    let serials = after.parts.iter().filter_map(|(key, part)| {
        let serial = part.serial?;
        Some(((key.0, serial), *key))
    });
    let by_serial: BTreeMap<(&str, &str), (&str, &str)> = serials.collect();
    let mut met = BTreeSet::new();
    for (&(kind, id), was) in &before.parts {
        let about = named(kind, id);
        let here = Some((kind, id)).filter(|key| {
            let here = after.parts.get(key);
            here.is_some_and(|is| !was.is_another(is))
        });
        let elsewhere = || by_serial.get(&(kind, was.serial?)).copied();
        let Some(key) = here.or_else(elsewhere) else {
            if !comes_and_goes(kind) && !after.partial {
                let shown = was.shown();
                found.push(difference(Turn::Vanished, &about, Some(shown), None));
            }
            continue;
        };
        met.insert(key);
        let is = &after.parts[&key];
        // Of one that sleeps it is not known how it fares, and that is no news.
        let sleeps = is.asleep || (was.asleep && rank(HEALTHS, is.health) == Some(0));
        if was.health != is.health && !sleeps {
            let turn = in_order(HEALTHS, was.health, is.health);
            let (was, is) = (was.health.to_owned(), is.health.to_owned());
            found.push(difference(turn, &about, Some(was), Some(is)));
        }
        // What is not told any more, or told for the first time, is a matter of the tool.
        for (name, weigh) in of_part(kind).unwrap_or_default() {
            if let (Some(was), Some(is)) = (was.facts.get(name), is.facts.get(name)) {
                let about = format!("{about} {name}");
                weigh_values(*weigh, &about, &value_of(was), &value_of(is), found);
            }
        }
    }
    for (&(kind, id), is) in &after.parts {
        if !met.contains(&(kind, id)) && !comes_and_goes(kind) && !before.partial {
            let shown = is.shown();
            found.push(difference(Turn::Came, &named(kind, id), None, Some(shown)));
        }
    }
}

/// `drive /dev/sda`; a part that is the only one of its kind may be called by its kind alone.
fn named(kind: &str, id: &str) -> String {
    if id == kind || id.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} {id}")
    }
}

fn compare_facts(before: &Essence<'_>, after: &Essence<'_>, found: &mut Vec<Difference>) {
    for (&name, was) in &before.facts {
        let Some(weigh) = of_fact(name) else { continue };
        match (was, after.facts.get(name)) {
            (HostFact::Known(was), Some(HostFact::Known(is))) => {
                weigh_values(weigh, name, was, is, found);
            }
            (HostFact::Known(was), other) => {
                let why = match other {
                    Some(HostFact::Unknown(why)) => format!("unknown: {why}"),
                    _ => "it applies no more".to_owned(),
                };
                let was = written(name, was);
                found.push(difference(Turn::Changed, name, Some(was), Some(why)));
            }
            (HostFact::Unknown(why), Some(HostFact::Known(is))) => {
                let why = format!("unknown: {why}");
                let is = written(name, is);
                found.push(difference(Turn::Changed, name, Some(why), Some(is)));
            }
            // Of what was not known and is not, why is no news.
            (HostFact::Unknown(_), _) => {}
        }
    }
    for (&name, is) in &after.facts {
        if let (HostFact::Known(is), None) = (is, before.facts.get(name)) {
            let is = written(name, is);
            found.push(difference(Turn::Came, name, None, Some(is)));
        }
    }
}

fn compare_problems(before: &Essence<'_>, after: &Essence<'_>, found: &mut Vec<Difference>) {
    for (place, what) in &after.problems {
        if !before.problems.contains_key(place) {
            let about = format!("reading of {place}");
            let what = (*what).to_owned();
            found.push(difference(Turn::Worse, &about, None, Some(what)));
        }
    }
    for (place, what) in &before.problems {
        if !after.problems.contains_key(place) {
            let about = format!("reading of {place}");
            let what = (*what).to_owned();
            found.push(difference(Turn::Better, &about, Some(what), None));
        }
    }
}

/// Tells of two values, if they differ in what matters.
fn weigh_values(weigh: Weigh, about: &str, was: &Value, is: &Value, found: &mut Vec<Difference>) {
    let turn = match (weigh, was, is) {
        _ if was == is => return,
        (Weigh::MoreIsWorse, ..) => by_size(is, was),
        (Weigh::Roughly, Value::Number(was), Value::Number(is)) if close(*was, *is, 50) => return,
        (Weigh::Measured, Value::Number(was), Value::Number(is)) if close(*was, *is, 5) => return,
        (Weigh::MoreIsBetter | Weigh::Roughly, ..) => by_size(was, is),
        (Weigh::InOrder(words), Value::Text(was), Value::Text(is)) => in_order(words, was, is),
        (Weigh::Same | Weigh::Measured | Weigh::InOrder(_), ..) => Turn::Changed,
    };
    let (was, is) = (written(about, was), written(about, is));
    found.push(difference(turn, about, Some(was), Some(is)));
}

/// Better where there is more of it.
fn by_size(was: &Value, is: &Value) -> Turn {
    let size = |value: &Value| match value {
        Value::Truth(truth) => Some(i64::from(*truth)),
        Value::Number(number) => Some(*number),
        Value::Text(_) => None,
    };
    match (size(was), size(is)) {
        (Some(was), Some(is)) if is < was => Turn::Worse,
        (Some(was), Some(is)) if is > was => Turn::Better,
        _ => Turn::Changed,
    }
}

/// Whether two numbers differ by at most one part in so many of the larger.
fn close(was: i64, is: i64, parts: u64) -> bool {
    was.abs_diff(is) <= was.unsigned_abs().max(is.unsigned_abs()) / parts
}

/// Worse where the second word stands behind the first. A word that nobody knows is on neither side.
fn in_order(words: &[&str], was: &str, is: &str) -> Turn {
    match (rank(words, was), rank(words, is)) {
        (Some(was), Some(is)) if is > was => Turn::Worse,
        (Some(was), Some(is)) if is < was => Turn::Better,
        _ => Turn::Changed,
    }
}

fn rank(words: &[&str], word: &str) -> Option<usize> {
    words.iter().position(|known| *known == word)
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Bool(truth) => Value::Truth(*truth),
        Json::Number(number) => number
            .as_i64()
            .map_or_else(|| Value::Text(number.to_string()), Value::Number),
        Json::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    }
}

fn written(name: &str, value: &Value) -> String {
    match value {
        Value::Truth(true) => "yes".to_owned(),
        Value::Truth(false) => "no".to_owned(),
        Value::Number(bytes) if name.ends_with("_bytes") => size(*bytes),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    }
}

/// To a hundredth, since what differs by little must be seen to differ.
fn size(bytes: i64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        let one = 1_u128 << shift;
        let hundredths = u128::from(bytes.unsigned_abs()) * 100 / one;
        if hundredths >= 100 {
            let sign = if bytes < 0 { "-" } else { "" };
            let (whole, part) = (hundredths / 100, hundredths % 100);
            return format!("{sign}{whole}.{part:02} {unit}");
        }
    }
    format!("{bytes} bytes")
}

fn difference(
    turn: Turn,
    about: &str,
    before: Option<String>,
    after: Option<String>,
) -> Difference {
    let clipped = |text: String| clip(&text).to_owned();
    Difference {
        turn,
        about: clip(about).to_owned(),
        before: before.map(clipped),
        after: after.map(clipped),
    }
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(DIFFERENCE_TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests;
