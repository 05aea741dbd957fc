//! What is known of the host of an agent.

use std::fmt::Write;

use probes::measure::RATED_BYTES;
use protocol::WallMs;
use protocol::api::{HostChange, HostDetail, HostSummary};
use protocol::host::{FACTS, HostClock, HostFact, HostHealth, HostLoad, Value};
use serde_json::Value as Json;

use super::Facts;
use crate::amounts::{rough, rough_us, size};
use crate::clock::to_the_second;
use crate::commands::hardware::plain;
use crate::output::Room;
use crate::text::{Table, count};

/// Changes that are shown; `--output json` has them all.
const CHANGES_SHOWN: usize = 10;

/// Parts of a host that are not well and are shown.
const PARTS_SHOWN: usize = 20;

/// Adds what a person wants to know of a host, the newest first.
pub(super) fn add(facts: &mut Facts, host: &HostSummary, detail: &HostDetail, now: WallMs) {
    let beat = detail.now.as_ref();
    let health = beat.and_then(|beat| beat.health.as_ref());
    add_health(facts, host, health);
    if let Some(clock) = beat.and_then(|beat| beat.clock.as_ref()) {
        facts.add("clock", &clock_words(clock));
    }
    if let Some(load) = beat.and_then(|beat| beat.load.as_ref()) {
        facts.add("load", &load_words(load));
    }
    facts.add(
        "profile",
        &format!(
            "generation {}, so since {}; told {} ago",
            host.generation,
            to_the_second(host.since),
            rough(now - host.registered_at)
        ),
    );
    add_facts(facts, detail);
    add_problems(facts, &detail.report);
}

fn add_health(facts: &mut Facts, host: &HostSummary, beat: Option<&HostHealth>) {
    let word = host.health.as_deref().unwrap_or("unknown");
    let rebuilding = beat.is_some_and(|health| health.rebuilding) && word != "rebuilding";
    let more = if rebuilding { ", rebuilding" } else { "" };
    facts.add_state("health", &format!("{word}{more}"));
    for reason in beat.iter().flat_map(|health| &health.reasons) {
        facts.add("", reason);
    }
}

fn clock_words(clock: &HostClock) -> String {
    let mut said = clock.verdict.clone();
    if let Some(correction_us) = clock.correction_us {
        let way = if correction_us > 0 { "slow" } else { "fast" };
        let _ = write!(said, ", {} {way}", rough_us(correction_us.abs()));
    }
    if let Some(bound_us) = clock.bound_us {
        let _ = write!(said, ", wrong by {} at most", rough_us(bound_us));
    }
    if let Some(ppm) = clock.steered_ppm.filter(|&ppm| ppm != 0) {
        let _ = write!(said, ", steered by {ppm:+} ppm");
    }
    let _ = write!(said, ", says {}", clock.source);
    if clock.verdict != "synchronised" && !clock.reason.is_empty() {
        let _ = write!(said, " ({})", clock.reason);
    }
    if let Some(step) = &clock.step {
        let way = if step.by_us > 0 { "forward" } else { "back" };
        let by = rough_us(step.by_us.abs());
        let _ = write!(said, "; it was set {way} by {by} {} ago", rough(step.ago));
    }
    said
}

fn load_words(load: &HostLoad) -> String {
    let mut said = format!(
        "{} processors in use, {} of memory available",
        thousandths(load.cpu_used_milli.into()),
        size(load.memory_available_bytes)
    );
    for (what, milli) in [
        ("processors", load.cpu_pressure_milli),
        ("memory", load.memory_pressure_milli),
        ("disks", load.io_pressure_milli),
    ] {
        if let Some(milli) = milli.filter(|&milli| milli > 0) {
            let percent = f64::from(milli) / 10.0;
            let _ = write!(said, ", waits for {what} {percent:.1} % of the time");
        }
    }
    said
}

/// `1.5`, and no fraction where there is none.
pub(crate) fn thousandths(milli: i64) -> String {
    match milli % 1000 {
        0 => (milli / 1000).to_string(),
        _ => format!("{:.1}", milli as f64 / 1000.0),
    }
}

/// The facts by what they are of, and those that are not known with why.
fn add_facts(facts: &mut Facts, detail: &HostDetail) {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    let mut unknown: Vec<(&str, Vec<&str>)> = Vec::new();
    let of_list = FACTS.iter().map(|spec| spec.name);
    let known = |name: &str| FACTS.iter().any(|spec| spec.name == name);
    let others = detail.facts.0.keys().map(String::as_str);
    // What a newer agent told is shown as well, at the end.
    for name in of_list.chain(others.filter(|name| !known(name))) {
        let (group, rest) = name.split_once('.').unwrap_or((name, name));
        match detail.facts.fact(name) {
            Some(HostFact::Known(value)) => {
                let said = said(rest, value);
                match groups.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, all)) => all.push(said),
                    None => groups.push((group, vec![said])),
                }
            }
            Some(HostFact::Unknown(why)) => {
                match unknown.iter_mut().find(|(known, _)| known == why) {
                    Some((_, all)) => all.push(name),
                    None => unknown.push((why, vec![name])),
                }
            }
            None => {}
        }
    }
    for (group, all) in groups {
        facts.add(group, &all.join(", "));
    }
    for (place, (why, names)) in unknown.into_iter().enumerate() {
        let label = if place == 0 { "unknown" } else { "" };
        facts.add(label, &format!("{}: {why}", names.join(", ")));
    }
}

/// A fact with its unit, which is the end of its name.
fn said(name: &str, value: &Value) -> String {
    let number = match value {
        Value::Truth(true) => return plain(name),
        Value::Truth(false) => return format!("not {}", plain(name)),
        Value::Text(text) => return format!("{} {text}", plain(name)),
        Value::Number(number) => *number,
    };
    if let Some(name) = name.strip_suffix("_bytes") {
        return format!("{} {}", plain(name), size(number.unsigned_abs()));
    }
    if let Some(name) = name.strip_suffix("_bytes_per_s") {
        return format!("{} {}/s", plain(name), size(number.unsigned_abs()));
    }
    if let Some(name) = name.strip_suffix("_bytes_per_year") {
        let rated = number as f64 * 1000.0 / RATED_BYTES as f64;
        return format!(
            "{} writes {} a year, {rated:.2} ‰ of what {} TB are",
            plain(name),
            size(number.unsigned_abs()),
            RATED_BYTES / 1_000_000_000_000
        );
    }
    if let Some(name) = name.strip_suffix("_milli") {
        return format!("{} {}", plain(name), thousandths(number));
    }
    if let Some(name) = name.strip_suffix("_us") {
        return format!("{} {}", plain(name), rough_us(number));
    }
    if let Some(name) = name.strip_suffix("_mbit_per_s") {
        return format!("{} {number} Mbit/s", plain(name));
    }
    format!("{} {number}", plain(name))
}

/// Parts that are not well, and what was not understood.
fn add_problems(facts: &mut Facts, report: &Json) {
    let items = report.get("items").and_then(Json::as_array);
    let mut parts: Vec<(String, String)> = Vec::new();
    for item in items.into_iter().flatten() {
        let word = |name| item.get(name).and_then(Json::as_str).unwrap_or("");
        if !matches!(word("health"), "ok" | "unknown" | "") {
            let line = format!("{}, {}", word("health"), word("reason"));
            parts.push((format!("{} {}", word("kind"), word("id")), line));
        }
    }
    let more = parts.len().saturating_sub(PARTS_SHOWN);
    for (part, line) in parts.into_iter().take(PARTS_SHOWN) {
        facts.add("not well", &format!("{part}: {line}"));
    }
    if more > 0 {
        facts.add("", &format!("and {}", count(more as u64, "other part")));
    }
    let problems = report.get("problems").and_then(Json::as_array);
    for problem in problems.into_iter().flatten() {
        let word = |name| problem.get(name).and_then(Json::as_str).unwrap_or("");
        let line = format!("{}: {}", word("where"), word("what"));
        facts.add("not read", &line);
    }
}

/// What of the host was not as before; empty where nothing was.
pub(super) fn changes(changes: &[HostChange], room: Room) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["CHANGED AT", "=HOW", "~WHAT", "~BEFORE", "~AFTER"]);
    for change in changes.iter().take(CHANGES_SHOWN) {
        table.row(vec![
            to_the_second(change.at).to_string(),
            change.turn.as_str().to_owned(),
            change.about.clone(),
            change.before.clone().unwrap_or_default(),
            change.after.clone().unwrap_or_default(),
        ]);
    }
    let mut text = format!("\n{}", table.render_in(room));
    if let Some(more) = changes.len().checked_sub(CHANGES_SHOWN + 1) {
        let _ = writeln!(text, "and {} before", count(more as u64 + 1, "change"));
    }
    text
}

#[cfg(test)]
mod tests {
    use protocol::api::HostChange;
    use protocol::host::{ClockStep, Turn};
    use protocol::{DurationMs, HostFacts, HostNow};
    use serde_json::json;

    use super::*;

    fn detail() -> (HostSummary, HostDetail) {
        let mut facts = HostFacts::default();
        facts.know("cpu.cores", Value::Number(8));
        facts.know("cpu.usable_milli", Value::Number(1500));
        facts.know("memory.size_bytes", Value::Number(64 << 30));
        facts.know("memory.ecc", Value::Truth(false));
        facts.know("disk.probe_bytes_per_year", Value::Number(9 << 30));
        facts.miss("disk.medium", "a hypervisor hides it");
        facts.miss("disk.size_bytes", "a hypervisor hides it");
        let summary = HostSummary {
            generation: 3,
            since: WallMs(0),
            registered_at: WallMs(60_000),
            cpu_usable_milli: Some(1500),
            memory_usable_bytes: None,
            disk: None,
            fsync_grade: None,
            cpu_score_single: None,
            cpu_score_all: None,
            memory_bandwidth_bytes_per_s: None,
            fsync_p99_us: None,
            random_write_iops: None,
            probe_bytes_per_year: None,
            health: Some("degraded".to_owned()),
        };
        let now = HostNow {
            clock: Some(HostClock {
                verdict: "synchronised".to_owned(),
                correction_us: Some(-1200),
                bound_us: Some(25_000),
                steered_ppm: Some(-500),
                source: "chronyd".to_owned(),
                reason: String::new(),
                step: Some(ClockStep {
                    by_us: 5_000_000,
                    ago: DurationMs(120_000),
                }),
            }),
            health: Some(HostHealth {
                look: 4,
                health: "degraded".to_owned(),
                reasons: vec!["array md0: 1 of 2 members".to_owned()],
                rebuilding: true,
            }),
            load: None,
        };
        let report = json!({
            "items": [{"kind": "array", "id": "md0", "health": "degraded", "reason": "1 of 2"}],
            "problems": [{"where": "storcli64", "what": "it hangs"}],
        });
        let changes = vec![HostChange {
            at: WallMs(0),
            generation: 3,
            turn: Turn::Vanished,
            about: "drive /dev/sdb".to_owned(),
            before: Some("ok".to_owned()),
            after: None,
        }];
        let detail = HostDetail {
            facts,
            report,
            now: Some(now),
            changes,
        };
        (summary, detail)
    }

    #[test]
    fn a_host_is_shown_with_what_is_wrong_first() {
        let (summary, detail) = detail();
        let mut facts = Facts::under("h1");
        add(&mut facts, &summary, &detail, WallMs(180_000));
        let expected = "\
h1
  health       degraded, rebuilding
               array md0: 1 of 2 members
  clock        synchronised, 1.2ms fast, wrong by 25ms at most, steered by -500
               ppm, says chronyd; it was set forward by 5.0s 2m00s ago
  profile      generation 3, so since 1970-01-01T00:00:00Z; told 2m00s ago
  cpu          cores 8, usable 1.5
  memory       size 64.0 GiB, not ecc
  disk         probe writes 9.0 GiB a year, 0.03 ‰ of what 300 TB are
  unknown      disk.medium, disk.size_bytes: a hypervisor hides it
  not well     array md0: degraded, 1 of 2
  not read     storcli64: it hangs
";
        assert_eq!(facts.text, expected);
        let expected = "
CHANGED AT            HOW       WHAT            BEFORE  AFTER
1970-01-01T00:00:00Z  vanished  drive /dev/sdb  ok      -
";
        assert_eq!(changes(&detail.changes, Room::Columns80), expected);
    }
}
