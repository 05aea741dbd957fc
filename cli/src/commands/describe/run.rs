use std::collections::BTreeSet;
use std::fmt::Write;

use chrono_tz::Tz;
use protocol::api::{Attempt, RunDetail, RunWaits, Shard};
use protocol::attempt::{AttemptOutcome, Exit, Usage};
use protocol::{DurationMs, RunState, WallMs};

use super::Facts;
use crate::amounts::{rough, size};
use crate::clock::time_of_day;
use crate::commands::shards_done;
use crate::output::Room;
use crate::text::{LINE_WIDTH, Table, count, printable, wrap};

/// Up to so many rows every attempt is listed; beyond, only those of shards that need a look.
const ROWS_MAX: usize = 60;

/// Reasons that are shown.
const REASONS_MAX: usize = 20;

/// Tails of output that are shown; more would hide the rest.
const TAILS_MAX: usize = 4;

/// Lines of each that are shown, the last ones: what to do must not scroll away above.
const TAIL_LINES_MAX: usize = 10;

/// A run for people.
pub(super) fn show(detail: &RunDetail, now: WallMs, room: Room) -> String {
    let mut text = facts(detail, now);
    text.push('\n');
    text.push_str(&executions(detail, room));
    text.push('\n');
    text.push_str(&shards(detail, now, room));
    reasons(detail, &mut text);
    tails(detail, room, &mut text);
    text
}

fn facts(detail: &RunDetail, now: WallMs) -> String {
    let run = &detail.run;
    let mut facts = Facts::under(&format!("{}  {}@{}", run.run, run.job, run.fire_time));
    let state = format!("{}, {} shards succeeded", run.state, shards_done(run));
    facts.add_state("state", &state);
    facts.add_some("reason", run.reason.as_deref());
    if let Some(waits) = &run.waits_for {
        facts.add("waits", &waiting(waits, now));
    }
    if run.namespace != "scheduled" {
        facts.add("namespace", &run.namespace);
    }
    if !run.params.is_empty() {
        let params: Vec<String> = run.params.iter().map(|(n, v)| format!("{n}={v}")).collect();
        facts.add("params", &params.join(", "));
    }
    if !run.nominal.is_empty() {
        facts.add("local time", &run.nominal.join(", "));
    }
    let late = run.admitted_at - run.fire_time;
    facts.add(
        "admitted",
        &if late > DurationMs::ZERO {
            format!("{}, {} after its fire time", run.admitted_at, rough(late))
        } else {
            run.admitted_at.to_rfc3339()
        },
    );
    let since = |t: WallMs| rough(t - run.admitted_at);
    match run.ended_at {
        Some(end) => facts.add("ended", &format!("{end}, after {}", since(end))),
        None => facts.add("ended", &format!("not yet, {} so far", since(now))),
    }
    facts.add("version", &run.version.to_string());
    facts.add_some("used", used(detail).as_deref());
    if run.state == RunState::NeedsConfirmation {
        facts.add("now", &what_to_do(detail));
    }
    facts.text
}

/// What all attempts together have used; `None` before the first has ended.
fn used(detail: &RunDetail) -> Option<String> {
    let attempts = || detail.shard_list.iter().flat_map(|shard| &shard.attempts);
    let ran = || attempts().filter(|a| a.started_at.is_some() && a.cpu_ms.is_some());
    let cpu_ms: i64 = ran().filter_map(|a| a.cpu_ms).fold(0, i64::saturating_add);
    let peak = ran().filter_map(|a| a.memory_bytes_peak).max()?;
    let mut text = format!(
        "{} of CPU time, at most {} of memory",
        rough(DurationMs(cpu_ms)),
        size(peak)
    );
    let sum = |of: fn(&Usage) -> Option<u64>| {
        let counted = ran().filter_map(|a| a.usage.as_ref().and_then(of));
        counted.reduce(u64::saturating_add)
    };
    if let (Some(read), Some(written)) = (sum(|u| u.read_bytes), sum(|u| u.write_bytes)) {
        let _ = write!(text, ", {} read, {} written", size(read), size(written));
    }
    if let Some(stalled) = sum(|u| u.stall_io_ms) {
        let stalled = i64::try_from(stalled).unwrap_or(i64::MAX);
        let _ = write!(text, ", waited {} for disks", rough(DurationMs(stalled)));
    }
    let exhausted = ran().filter(|a| a.out_of_memory).count();
    if exhausted > 0 {
        let _ = write!(
            text,
            "; {} ran out of memory",
            count(exhausted as u64, "attempt")
        );
    }
    Some(text)
}

/// Since when it waits, and for how long yet.
fn waiting(waits: &RunWaits, now: WallMs) -> String {
    let since = format!("since {}, for {}", waits.since, rough(now - waits.since));
    match waits.until {
        Some(until) => format!("{since}; skipped unless it starts by {until}"),
        None => since,
    }
}

/// Where nothing ever began there is nothing to find out.
fn what_to_do(detail: &RunDetail) -> String {
    let run = detail.run.run;
    let open = detail
        .shard_list
        .iter()
        .filter(|shard| shard.state != "succeeded");
    let mut attempts = open.flat_map(|shard| &shard.attempts);
    let first = if attempts.any(|attempt| attempt.started_at.is_some()) {
        format!("find out what the shards below did (`matins why {run}`), then")
    } else {
        "the shards below did nothing: mend what kept them from starting, then".to_owned()
    };
    format!(
        "{first}\nmatins rerun {run} --failed --reason TEXT, or\n\
         matins confirm {run} --as succeeded|retry|failed --reason TEXT"
    )
}

fn executions(detail: &RunDetail, room: Room) -> String {
    let mut table = Table::new(&["EXECUTION", "TRIGGER", "ADMITTED", "BY", "~REASON"]);
    for execution in &detail.executions {
        table.row(vec![
            format!("{} ({})", execution.execution, execution.id),
            execution.trigger.as_str().to_owned(),
            execution.admitted_at.to_rfc3339(),
            execution.by.clone().unwrap_or_default(),
            execution.reason.clone().unwrap_or_default(),
        ]);
    }
    table.render_in(room)
}

/// A row for every attempt, and one for every shard that had none.
fn shards(detail: &RunDetail, now: WallMs, room: Room) -> String {
    let rows: usize = detail
        .shard_list
        .iter()
        .map(|s| s.attempts.len().max(1))
        .sum();
    let all = rows <= ROWS_MAX;
    let mut table = Table::new(&[
        "SHARD",
        "=STATE",
        "TRY",
        "~TOKEN",
        "~AGENT",
        "STARTED",
        "TOOK",
        "=~OUTCOME",
    ]);
    let mut left_out = 0;
    for shard in &detail.shard_list {
        if !all && is_plain(shard) {
            left_out += 1;
        } else if shard.attempts.is_empty() {
            table.row(without_attempt(shard));
        } else {
            for i in 0..shard.attempts.len() {
                table.row(attempt_row(shard, i, now, detail.executions.len()));
            }
        }
    }
    let mut text = if table.is_empty() {
        String::new()
    } else {
        table.render_in(room)
    };
    if left_out > 0 {
        let _ = writeln!(
            text,
            "and {} that succeeded at the first attempt",
            count(left_out, "shard")
        );
    }
    text
}

fn is_plain(shard: &Shard) -> bool {
    shard.state == "succeeded" && shard.attempts.len() <= 1
}

fn without_attempt(shard: &Shard) -> Vec<String> {
    let mut row = vec![String::new(); 8];
    row[0] = shard.shard.to_string();
    row[1] = state(shard);
    row
}

/// The longest word takes two lines, so that the other columns keep their room.
fn state(shard: &Shard) -> String {
    shard
        .state
        .replace("needs_confirmation", "needs_\nconfirmation")
}

/// What is the shard's own stands on the row of its first attempt.
fn attempt_row(shard: &Shard, i: usize, now: WallMs, executions: usize) -> Vec<String> {
    let attempt = &shard.attempts[i];
    let (number, state) = match i {
        0 => (shard.shard.to_string(), state(shard)),
        _ => (" ".to_owned(), " ".to_owned()),
    };
    let started = attempt.started_at;
    vec![
        number,
        state,
        match executions {
            ..=1 => attempt.attempt.to_string(),
            _ => format!("{}.{}", attempt.execution, attempt.attempt),
        },
        attempt.token.to_string(),
        attempt.agent.to_string(),
        started.map_or_else(String::new, clock_time),
        started.map_or_else(String::new, |start| {
            rough(attempt.ended_at.unwrap_or(now) - start)
        }),
        outcome(attempt),
    ]
}

/// The time of day in UTC: the date is the run's.
fn clock_time(at: WallMs) -> String {
    format!("{}Z", time_of_day(at, Tz::UTC))
}

pub(crate) fn outcome(attempt: &Attempt) -> String {
    let mut text = match attempt.outcome {
        None if attempt.started_at.is_some() => "running".to_owned(),
        None => "granted".to_owned(),
        Some(outcome) => outcome.as_str().to_owned(),
    };
    match attempt.exit {
        Some(Exit::Code(0)) if attempt.outcome == Some(AttemptOutcome::Succeeded) => {}
        Some(Exit::Code(code)) => {
            let _ = write!(text, ", status {code}");
        }
        Some(Exit::Signal(signal)) => {
            let _ = write!(text, ", signal {signal}");
        }
        None => {}
    }
    text
}

/// What pending shards wait for now. A thousand that wait for the same say it once.
fn what_is_waited_for(detail: &RunDetail) -> Vec<String> {
    let mut by_text: Vec<(&str, Vec<u32>)> = Vec::new();
    for shard in &detail.shard_list {
        let Some(waits) = &shard.waits_for else {
            continue;
        };
        let known = by_text.iter_mut().find(|(text, _)| *text == waits.text);
        match known {
            Some((_, shards)) => shards.push(shard.shard),
            None => by_text.push((&waits.text, vec![shard.shard])),
        }
    }
    let said = by_text.into_iter().map(|(text, shards)| match shards[..] {
        [only] => format!("shard {only} waits: {text}"),
        _ => format!(
            "{} shards wait, the first is {}: {text}",
            shards.len(),
            shards[0]
        ),
    });
    said.collect()
}

/// Why shards stand as they do and attempts ended as they did, where the words above do not say.
fn reasons(detail: &RunDetail, text: &mut String) {
    let mut said = Vec::new();
    // What stands at the top already is not repeated.
    let of_run = detail.run.reason.as_deref().unwrap_or_default();
    for shard in &detail.shard_list {
        let number = shard.shard;
        if let Some(reason) = &shard.reason
            && !of_run.contains(reason)
        {
            said.push(format!("shard {number}: {reason}"));
        }
        for attempt in &shard.attempts {
            let token = attempt.token;
            if let Some(reason) = &attempt.reason
                && !says_only_the_status(attempt, reason)
            {
                said.push(format!("shard {number}, {token}: {reason}"));
            }
            if let Some(stale) = attempt.stale_outcome {
                said.push(format!(
                    "shard {number}, {token}: reported `{}` after a later grant, which counts no \
                     more",
                    stale.as_str()
                ));
            }
        }
    }
    said.extend(not_enforced(detail));
    said.extend(what_is_waited_for(detail));
    let left_out = said.len().saturating_sub(REASONS_MAX);
    said.truncate(REASONS_MAX);
    if left_out > 0 {
        said.push(format!("and {left_out} more: see --output json"));
    }
    for (i, reason) in said.iter().enumerate() {
        if i == 0 {
            text.push('\n');
        }
        for (j, line) in wrap(&printable(reason), LINE_WIDTH - 2).iter().enumerate() {
            let indent = if j == 0 { "" } else { "  " };
            let _ = writeln!(text, "{indent}{line}");
        }
    }
}

/// The table of attempts says so too.
fn says_only_the_status(attempt: &Attempt, reason: &str) -> bool {
    matches!(attempt.exit, Some(Exit::Code(code)) if reason == format!("exited with status {code}"))
}

/// Which limits of the manifest held nothing back, told once for each host.
fn not_enforced(detail: &RunDetail) -> BTreeSet<String> {
    let attempts = detail.shard_list.iter().flat_map(|shard| &shard.attempts);
    attempts
        .filter_map(|attempt| {
            let limits = attempt.limits_not_enforced.as_ref()?;
            Some(format!(
                "limits not enforced on {}: {limits}",
                attempt.agent
            ))
        })
        .collect()
}

/// The last words of shards that did not succeed.
fn tails(detail: &RunDetail, room: Room, text: &mut String) {
    let said = |attempt: &&Attempt| attempt.tail.as_ref().is_some_and(|t| !t.trim().is_empty());
    let failed = detail
        .shard_list
        .iter()
        .filter(|shard| shard.state != "succeeded")
        .filter_map(|shard| Some((shard, shard.attempts.iter().rev().find(said)?)));
    let run = detail.run.run;
    for (i, (shard, attempt)) in failed.enumerate() {
        if i == TAILS_MAX {
            let _ = write!(text, "\nmore: matins logs {run} --shard K\n");
            return;
        }
        let _ = write!(
            text,
            "\nlast output of shard {}, {} on {}:\n",
            shard.shard, attempt.token, attempt.agent
        );
        let tail = attempt.tail.as_deref().unwrap_or_default().trim_end();
        let lines: Vec<String> = tail
            .lines()
            .flat_map(|line| wrap(&printable(line), LINE_WIDTH - 2))
            .collect();
        let skipped = match room {
            Room::Columns80 => lines.len().saturating_sub(TAIL_LINES_MAX),
            Room::Endless => 0,
        };
        if skipped > 0 {
            let _ = writeln!(
                text,
                "  ({} before: matins logs {run} --shard {})",
                count(skipped as u64, "line"),
                shard.shard
            );
        }
        for line in &lines[skipped..] {
            let _ = writeln!(text, "  {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::api::RunWaitKind;

    use super::*;

    #[test]
    fn a_run_is_told_with_its_attempts_and_last_words_at_80_columns() {
        let detail: RunDetail = serde_json::from_str(include_str!("sample_run.json")).unwrap();
        let now = WallMs::parse_rfc3339("2026-11-29T02:12:00Z").unwrap();
        let text = show(&detail, now, Room::Columns80);
        assert_eq!(text, include_str!("sample_run.txt"));
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_run_that_waits_says_for_how_long_yet() {
        let at = |text: &str| WallMs::parse_rfc3339(text).unwrap();
        let mut detail: RunDetail = serde_json::from_str(include_str!("sample_run.json")).unwrap();
        let mut waits = RunWaits {
            kind: RunWaitKind::Previous,
            job: detail.run.job.clone(),
            run: None,
            state: None,
            since: at("2026-11-29T02:10:00Z"),
            until: Some(at("2026-11-29T02:25:00Z")),
        };
        let now = at("2026-11-29T02:12:00Z");
        let since = "since 2026-11-29T02:10:00Z, for 2m00s";
        assert_eq!(
            waiting(&waits, now),
            format!("{since}; skipped unless it starts by 2026-11-29T02:25:00Z")
        );
        waits.until = None;
        assert_eq!(waiting(&waits, now), since);
        detail.run.waits_for = Some(waits);
        assert!(show(&detail, now, Room::Columns80).contains(since));
    }
}
