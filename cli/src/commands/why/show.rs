//! The answer, for people and for programs.

use std::fmt::Write;

use protocol::api::RunDetail;
use protocol::{DurationMs, RunState, WallMs};
use serde_json::{Value, json};

use super::Facts;
use super::judge::Finding;
use crate::amounts::rough;
use crate::clock::{in_zone_unless_utc, to_the_second};
use crate::commands::describe::run::outcome;
use crate::commands::shards_done;
use crate::output::Room;
use crate::paint::{Tone, in_tone, toned};
use crate::text::{LINE_WIDTH, count, printable, wrap_prose};

/// Shards that are told of.
const SHARDS_MAX: usize = 5;

/// Width of a heading with the space after it.
const HEADING_WIDTH: usize = 11;

pub(super) fn data(facts: &Facts, finding: &Finding) -> Value {
    let (before, after) = facts.neighbours();
    let advice: Vec<Value> = finding
        .advice
        .iter()
        .map(|advice| json!({"command": advice.command, "purpose": advice.purpose}))
        .collect();
    json!({
        "job": facts.job,
        "at": facts.at.to_rfc3339(),
        "verdict": finding.verdict.code(),
        "because": finding.because,
        "is_fire_time": facts.instant.is_some(),
        "fire_before": before.map(WallMs::to_rfc3339),
        "fire_after": after.map(WallMs::to_rfc3339),
        "expectation": facts.expectation,
        "run": facts.run,
        "now": advice,
    })
}

pub(super) fn text(facts: &Facts, finding: &Finding, room: Room) -> String {
    let mut page = Sections {
        text: format!("{}@{}\n", facts.job, facts.at),
        width: match room {
            Room::Columns80 => LINE_WIDTH,
            Room::Endless => usize::MAX,
        },
    };
    let words = finding.verdict.words();
    page.put("", &[format!("{words}: {}", finding.because)], Some(words));
    page.put("expected", &expected(facts), None);
    page.put("triggered", &triggered(facts), None);
    page.put("executed", &executed(facts), None);
    page.put("result", &result(facts), None);
    page.advise(finding);
    page.text
}

struct Sections {
    text: String,
    width: usize,
}

impl Sections {
    /// Paragraphs beside a heading. `toned` is the part of the first that has a tone.
    fn put(&mut self, heading: &str, paragraphs: &[String], toned_part: Option<&str>) {
        self.text.push('\n');
        let indent = if heading.is_empty() { 0 } else { HEADING_WIDTH };
        for (i, paragraph) in paragraphs.iter().enumerate() {
            let room = self.width.saturating_sub(indent);
            for (j, line) in wrap_prose(&printable(paragraph), room).iter().enumerate() {
                if indent > 0 {
                    let heading = if i + j == 0 { heading } else { "" };
                    let blank = " ".repeat(indent - heading.len());
                    self.text.push_str(&toned(heading, Some(Tone::Faint)));
                    self.text.push_str(&blank);
                }
                match toned_part.filter(|part| i + j == 0 && line.starts_with(part)) {
                    Some(part) => {
                        self.text.push_str(&in_tone(part));
                        self.text.push_str(&line[part.len()..]);
                    }
                    None => self.text.push_str(line),
                }
                self.text.push('\n');
            }
        }
    }

    /// A command is never broken, so that it can be pasted.
    fn advise(&mut self, finding: &Finding) {
        for (i, advice) in finding.advice.iter().enumerate() {
            if i == 0 {
                self.text.push('\n');
            }
            let heading = if i == 0 { "now" } else { "" };
            let blank = " ".repeat(HEADING_WIDTH - heading.len());
            let indent = " ".repeat(HEADING_WIDTH);
            let _ = writeln!(
                self.text,
                "{}{blank}{}:\n{indent}{}",
                toned(heading, Some(Tone::Faint)),
                advice.purpose,
                advice.command
            );
        }
    }
}

fn expected(facts: &Facts) -> Vec<String> {
    let Some(version) = &facts.expectation.version else {
        return vec!["nothing: no version of the job decides this time".to_owned()];
    };
    let text = |pointer: &str| version.manifest.pointer(pointer).and_then(Value::as_str);
    let put_at = to_the_second(version.put_at);
    let put = format!("put by {} at {put_at}", version.put_by);
    let cron = text("/schedule/cron").unwrap_or("a schedule that cannot be read");
    let zone = text("/schedule/timezone").unwrap_or("UTC");
    let source = format!("version {}: {cron} in {zone}, {put}", version.version);
    if facts.instant.is_none() {
        return vec![not_named(facts), source];
    }
    let mut lines = vec![in_both_zones(facts.at, zone), source];
    let face = facts.schedule.as_ref().zip(facts.instant.as_ref());
    if let Some(note) = face.and_then(|(schedule, instant)| schedule.face(instant).note) {
        lines.push(note.to_string());
    }
    if let Some(expected) = text("/expected_duration") {
        let timeout = text("/timeout").unwrap_or_default();
        lines.push(format!(
            "it takes {expected}; an attempt is ended after {timeout}"
        ));
    }
    lines
}

fn not_named(facts: &Facts) -> String {
    let by_hand = facts.run.as_ref();
    if by_hand.is_some_and(|detail| detail.run.namespace != "scheduled") {
        return "nothing: it is a run by hand, of no fire time".to_owned();
    }
    let (before, after) = facts.neighbours();
    let said = |at: Option<WallMs>| at.map_or_else(|| "none".to_owned(), WallMs::to_rfc3339);
    format!(
        "nothing at this time; the fire before it is {}, the one after it {}",
        said(before),
        said(after)
    )
}

fn in_both_zones(at: WallMs, zone: &str) -> String {
    match zone
        .parse()
        .ok()
        .and_then(|zone| in_zone_unless_utc(at, zone))
    {
        Some(local) => format!("at {at}, which is {local} in {zone}"),
        None => format!("at {at}"),
    }
}

fn triggered(facts: &Facts) -> Vec<String> {
    let Some(detail) = &facts.run else {
        return vec![untriggered(facts)];
    };
    let run = &detail.run;
    // What was run again since was triggered only once.
    let first = detail.executions.first();
    let at = first.map_or(run.admitted_at, |execution| execution.admitted_at);
    let late = at - run.fire_time;
    let mut line = format!("{} at {at}", run.run);
    if late > DurationMs::ZERO && run.namespace == "scheduled" {
        let _ = write!(line, ", {} after its time", rough(late));
    }
    if matches!(run.state, RunState::Skipped | RunState::Missed) {
        let _ = write!(line, ", and {}", run.state);
    }
    vec![line]
}

fn untriggered(facts: &Facts) -> String {
    if let Some(gap) = &facts.expectation.gap
        && facts.instant.is_some()
    {
        return format!(
            "no: {} after {} up to {} lie in a gap, `{}`",
            count(gap.count, "fire"),
            gap.from,
            gap.through,
            gap.reason
        );
    }
    if facts.instant.is_none() {
        return "no: nothing was due".to_owned();
    }
    if facts.at > facts.now {
        return "not yet".to_owned();
    }
    format!(
        "no: what is due is decided up to {}",
        facts.expectation.fired_through
    )
}

fn executed(facts: &Facts) -> Vec<String> {
    let Some(detail) = &facts.run else {
        return vec!["no".to_owned()];
    };
    let mut lines: Vec<String> = detail
        .executions
        .iter()
        .map(|execution| {
            let mut line = format!(
                "{} {} at {}",
                execution.execution,
                execution.trigger.as_str(),
                execution.admitted_at
            );
            if let Some(by) = &execution.by {
                let reason = execution.reason.as_deref().unwrap_or_default();
                let _ = write!(line, ", by {by}: {reason}");
            }
            line
        })
        .collect();
    lines.push(totals(detail));
    lines.extend(of_shards(detail));
    lines
}

fn totals(detail: &RunDetail) -> String {
    let attempts = detail.shard_list.iter().flat_map(|shard| &shard.attempts);
    let hosts: std::collections::BTreeSet<&str> =
        attempts.clone().map(|a| a.agent.as_str()).collect();
    let attempts = count(attempts.count() as u64, "attempt");
    let shards = count(u64::from(detail.run.shards), "shard");
    if hosts.is_empty() {
        return format!("{shards}, no attempt yet");
    }
    let named: Vec<&str> = hosts.iter().copied().take(SHARDS_MAX).collect();
    let more = hosts.len() - named.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{shards}, {attempts} on {}{more}", named.join(", "))
}

/// Shards that are not done, with how their attempts ended and where they stand.
fn of_shards(detail: &RunDetail) -> Vec<String> {
    let open: Vec<_> = detail
        .shard_list
        .iter()
        .filter(|shard| shard.state != "succeeded")
        .collect();
    let mut lines: Vec<String> = open
        .iter()
        .take(SHARDS_MAX)
        .map(|shard| {
            let ends: Vec<String> = shard
                .attempts
                .iter()
                .map(|attempt| format!("{} on {}", outcome(attempt), attempt.agent))
                .collect();
            let ends = if ends.is_empty() {
                "no attempt".to_owned()
            } else {
                ends.join("; ")
            };
            // What the run says too is said once, as its result.
            let of_run = detail.run.reason.as_deref().unwrap_or_default();
            let reason = shard
                .reason
                .as_ref()
                .filter(|reason| !of_run.contains(*reason));
            let reason = reason.map_or_else(String::new, |reason| format!(", {reason}"));
            format!("shard {}: {ends}; now {}{reason}", shard.shard, shard.state)
        })
        .collect();
    if open.len() > SHARDS_MAX {
        lines.push(format!(
            "and {} more",
            count((open.len() - SHARDS_MAX) as u64, "shard")
        ));
    }
    lines
}

fn result(facts: &Facts) -> Vec<String> {
    let Some(detail) = &facts.run else {
        return vec!["none".to_owned()];
    };
    let run = &detail.run;
    let since = match run.ended_at {
        Some(end) => format!("ended {end} after {}", rough(end - run.admitted_at)),
        None => format!("not ended, {} so far", rough(facts.now - run.admitted_at)),
    };
    let mut lines = vec![format!(
        "{}, {} shards, {since}",
        run.state,
        shards_done(run)
    )];
    lines.extend(run.reason.clone());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::judge::judge;
    use super::super::judge::tests::{facts, with_run};
    use super::*;

    /// Only commands, which are to be pasted, may be longer than a line.
    #[test]
    fn an_answer_fits_80_columns() {
        let mut long = facts();
        long.expectation.fired_through = WallMs(0);
        for facts in [with_run(|_| {}), facts(), long] {
            let finding = judge(&facts);
            let text = text(&facts, &finding, Room::Columns80);
            for line in text.lines() {
                let is_command = line.trim_start().starts_with("matins ");
                assert!(is_command || line.chars().count() <= LINE_WIDTH, "{line}");
            }
            for heading in ["expected   ", "triggered  ", "executed   ", "result     "] {
                assert!(text.contains(&format!("\n{heading}")), "{text}");
            }
            let data = data(&facts, &finding);
            assert_eq!(data["is_fire_time"], true);
            assert_eq!(data["fire_before"], "2026-11-28T02:10:00Z");
        }
    }

    #[test]
    fn a_run_that_was_cut_off() {
        let facts = with_run(|_| {});
        let text = text(&facts, &judge(&facts), Room::Columns80);
        assert_eq!(text, include_str!("sample.txt"), "{text}");
    }
}
