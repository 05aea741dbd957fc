//! One look at the whole host, in a process of its own.
//!
//! Reading a machine takes some memory, tools that are asked take their time, and what touches disks may
//! hang for good. So it is done by a short-lived child of the agent: what it used is gone with it, and
//! one that hangs holds up itself. It writes what it found to its standard output: a line of JSON that
//! the agent reads, and the profile, which the agent only hands on.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use hardware::Root;
use probes::read_profile;
use profiles::changes::{LEFT_OUT, digest};
use protocol::host::{Health, PROFILE_BYTES_MAX, ProfileDigest};
use protocol::{HostFacts, HostProfile};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::scores::{Due, Measuring, read_scores};
use crate::supervisor::yield_to_attempts;

/// What is not well and is told with a beat.
pub(crate) const REASONS_MAX: usize = 8;

/// Longest of these, in bytes.
const REASON_BYTES_MAX: usize = 160;

/// What of a written profile is neither a fact nor an item.
const FRAME_BYTES_MAX: usize = 1024;

/// The first line of what a look writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Headline {
    pub(crate) digest: ProfileDigest,
    /// The worst of all that is judged, a word of [`Health`].
    pub(crate) health: String,
    /// What is not well, the worst first.
    pub(crate) reasons: Vec<String>,
    pub(crate) rebuilding: bool,
    /// It has controllers, whose tools hold them up while they are asked.
    pub(crate) has_controllers: bool,
    /// Size of the file system with the agent's files, and what is free of it, in bytes.
    pub(crate) space: Option<(u64, u64)>,
    /// What is to be measured, now that it was looked at.
    pub(crate) due: Option<Due>,
}

/// Stands back for whatever runs on this host, for the rest of this process: it is a look and nothing else.
pub fn stand_back() {
    yield_to_attempts();
}

/// Reads the host below `root` and writes what was found, with what was measured before.
pub fn write_look(
    root: &Path,
    data_directory: &Path,
    measuring: Measuring,
    out: &mut impl Write,
) -> io::Result<()> {
    let (scores, due) = read_scores(root, data_directory, measuring);
    let profile = read_profile(&Root::directory(root), data_directory, scores.as_ref());
    let reasons = reasons(&profile.report);
    let profile = within_bounds(profile);
    let headline = headline(&profile, reasons, due);
    serde_json::to_writer(&mut *out, &headline)?;
    out.write_all(b"\n")?;
    serde_json::to_writer(&mut *out, &profile)?;
    out.flush()
}

/// A machine with more parts than a coordinator takes registers what is decided by, the parts that are
/// not well, and of the others as many as there is room for, those of which there are few first. That
/// some are left out, it says.
fn within_bounds(profile: HostProfile) -> HostProfile {
    let bytes = written_bytes(&profile);
    if bytes <= PROFILE_BYTES_MAX {
        return profile;
    }
    let HostProfile { facts, mut report } = profile;
    let mut items = match report["items"].take() {
        Json::Array(items) => items,
        _ => Vec::new(),
    };
    let all = items.len();
    let word = |item: &Json, name: &str| item[name].as_str().unwrap_or("").to_owned();
    let mut of_kind: BTreeMap<String, usize> = BTreeMap::new();
    for item in &items {
        *of_kind.entry(word(item, "kind")).or_default() += 1;
    }
    items.sort_by_cached_key(|item| {
        let health = Health::of_word(&word(item, "health"));
        (Reverse(health), of_kind[&word(item, "kind")])
    });
    let mut room = PROFILE_BYTES_MAX.saturating_sub(written_bytes(&facts) + FRAME_BYTES_MAX);
    let kept = items.iter().take_while(|item| {
        let left = room.checked_sub(written_bytes(item) + 1);
        room = left.unwrap_or(room);
        left.is_some()
    });
    items.truncate(kept.count());
    let left_out = all - items.len();
    let what = format!(
        "it has {bytes} bytes, more than the {PROFILE_BYTES_MAX} that a coordinator takes, so \
         {left_out} of its {all} parts are left out: see `matins hardware` on the host"
    );
    let report = json!({
        "items": items,
        "problems": [{"where": "the report of this host", "what": what}],
        LEFT_OUT: left_out,
    });
    HostProfile { facts, report }
}

fn written_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |written| written.len())
}

fn headline(profile: &HostProfile, reasons: Vec<String>, due: Option<Due>) -> Headline {
    let health = profile.facts.text("host.health").unwrap_or("unknown");
    Headline {
        digest: digest(profile),
        health: health.to_owned(),
        reasons,
        rebuilding: profile.facts.truth("storage.rebuilding") == Some(true),
        has_controllers: has_controllers(&profile.report),
        space: space(&profile.facts),
        due,
    }
}

fn space(facts: &HostFacts) -> Option<(u64, u64)> {
    let bytes = |name| u64::try_from(facts.number(name)?).ok();
    Some((bytes("disk.size_bytes")?, bytes("disk.free_bytes")?))
}

fn has_controllers(report: &Json) -> bool {
    let items = report.get("items").and_then(Json::as_array);
    let mut kinds = items.into_iter().flatten().map(|item| item.get("kind"));
    kinds.any(|kind| kind.and_then(Json::as_str) == Some("controller"))
}

/// What is known to be wrong, a line each.
fn reasons(report: &Json) -> Vec<String> {
    let items = report.get("items").and_then(Json::as_array);
    let told = |item: &Json| {
        let word = |name| item.get(name).and_then(Json::as_str).unwrap_or("");
        let line = format!("{} {}: {}", word("kind"), word("id"), word("reason"));
        (Health::of_word(word("health")), clip(line))
    };
    let mut bad: Vec<_> = items.into_iter().flatten().map(told).collect();
    bad.retain(|(health, _)| health.is_bad());
    bad.sort_by(|(one, _), (other, _)| other.cmp(one));
    bad.truncate(REASONS_MAX);
    bad.into_iter().map(|(_, line)| line).collect()
}

fn clip(mut line: String) -> String {
    line.truncate(line.floor_char_boundary(REASON_BYTES_MAX));
    line
}

#[cfg(test)]
mod tests {
    use protocol::host::Value;

    use super::*;

    #[test]
    fn the_worst_is_told_first_and_what_is_unknown_is_no_reason() {
        let item = |id: &str, health: &str| json!({"kind": "drive", "id": id, "health": health, "reason": "so"});
        let report = json!({"items": [
            item("a", "degraded"), item("b", "unknown"), item("c", "failed"), item("d", "ok"),
            item("e", "rebuilding"), item("f", "degraded"),
        ]});
        assert_eq!(
            reasons(&report),
            ["drive c: so", "drive a: so", "drive f: so", "drive e: so"]
        );
        let many = vec![item(&"ä".repeat(300), "failed"); 20];
        let told = reasons(&json!({ "items": many }));
        assert_eq!(told.len(), REASONS_MAX);
        assert!(told[0].len() <= REASON_BYTES_MAX);
    }

    #[test]
    fn whoever_holds_up_controllers_says_so() {
        let report = |kind: &str| json!({"items": [{"kind": "drive"}, {"kind": kind}]});
        assert!(has_controllers(&report("controller")));
        assert!(!has_controllers(&report("array")) && !has_controllers(&json!({})));
    }

    #[test]
    fn a_host_with_too_much_registers_what_is_decided_by_and_what_is_ill() {
        let mut facts = HostFacts::default();
        facts.know("host.health", Value::Text("failed".to_owned()));
        let item = |kind: &str, id: String, health: &str| json!({"kind": kind, "id": id, "health": health, "reason": "x".repeat(500)});
        let mut items: Vec<Json> = (0..3000)
            .map(|number| item("drive", format!("sd{number}"), "ok"))
            .collect();
        items.push(item("drive", "sdz".to_owned(), "failed"));
        items.push(item("cpu", "cpu".to_owned(), "ok"));
        let report = json!({"items": items, "problems": []});
        let bounded = within_bounds(HostProfile { facts, report });
        assert_eq!(bounded.facts.text("host.health"), Some("failed"));
        let kept = bounded.report["items"].as_array().unwrap();
        assert_eq!(kept[0]["id"], "sdz");
        assert_eq!(kept[1]["id"], "cpu");
        assert_eq!(bounded.report[LEFT_OUT], 3002 - kept.len());
        assert_eq!(bounded.report["problems"].as_array().unwrap().len(), 1);
        let written = written_bytes(&bounded);
        assert!((PROFILE_BYTES_MAX - 2048..=PROFILE_BYTES_MAX).contains(&written));
    }

    #[test]
    fn a_look_is_a_line_and_a_profile() {
        let root = tempfile::tempdir().unwrap();
        let mut written = Vec::new();
        write_look(root.path(), root.path(), Measuring::Full, &mut written).unwrap();
        let end = written.iter().position(|&byte| byte == b'\n').unwrap();
        let headline: Headline = serde_json::from_slice(&written[..end]).unwrap();
        let profile: HostProfile = serde_json::from_slice(&written[end + 1..]).unwrap();
        assert_eq!(headline.digest, digest(&profile));
        assert_eq!(headline.health, "unknown");
        // It is a copy of another machine.
        assert_eq!(headline.due, None);
    }
}
