//! Which of the four failures it is, or none, and what to do: a pure function of the facts.

use std::fmt::Write;

use protocol::api::{Attempt, RunDetail, RunWaits, Shard};
use protocol::attempt::{AttemptOutcome, Exit};
use protocol::{DurationMs, RunId, RunState, WallMs};

use super::Facts;
use crate::amounts::rough;
use crate::commands::shards_done;
use crate::text::count;

/// The trigger decides what is due within moments; longer than this means that something is wrong.
const DECIDED_WITHIN: DurationMs = DurationMs(10_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    NeverRan,
    CutOff,
    RanTwice,
    HalfDone,
    UnderWay,
    NotYetDue,
    NotAnInstant,
    /// The job was not there.
    NotThere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// What it comes to, in a clause.
    pub(super) because: String,
    pub(super) advice: Vec<Advice>,
}

/// A command that can be pasted, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) command: String,
    pub(super) purpose: String,
}

impl Verdict {
    /// For programs.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::NeverRan => "never_ran",
            Verdict::CutOff => "cut_off",
            Verdict::RanTwice => "ran_twice",
            Verdict::HalfDone => "half_done",
            Verdict::UnderWay => "under_way",
            Verdict::NotYetDue => "not_yet_due",
            Verdict::NotAnInstant => "not_an_instant",
            Verdict::NotThere => "not_there",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::NeverRan => "never ran",
            Verdict::CutOff => "cut off",
            Verdict::RanTwice => "ran twice",
            Verdict::HalfDone => "half done",
            Verdict::UnderWay => "under way",
            Verdict::NotYetDue => "not yet due",
            Verdict::NotAnInstant => "not a fire time",
            Verdict::NotThere => "no such job then",
        }
    }
}

pub(super) fn judge(facts: &Facts) -> Finding {
    match &facts.run {
        Some(run) => of_run(facts, run),
        None => without_run(facts),
    }
}

fn without_run(facts: &Facts) -> Finding {
    let Some(version) = &facts.expectation.version else {
        return not_there(facts);
    };
    if facts.schedule.is_none() {
        let because = format!(
            "the manifest of version {} cannot be read by this program",
            version.version
        );
        let advice = vec![of_job(facts, "describe", "see what it says")];
        return finding(Verdict::NotAnInstant, because, advice);
    }
    if facts.instant.is_none() {
        return not_an_instant(facts);
    }
    if facts.at > facts.expectation.fired_through {
        return undecided(facts);
    }
    let because = match &facts.expectation.gap {
        Some(gap) => format!(
            "it lies in a gap of {} for `{}`",
            count(gap.count, "fire"),
            gap.reason
        ),
        None => "it is settled, and neither a run nor a gap says how: this must not happen; keep \
                 a copy of the ledger and report it"
            .to_owned(),
    };
    let command = format!(
        "matins run {} --at {} --reason \"it never ran\"",
        facts.job, facts.at
    );
    let advice = vec![advise(command, "run it after all")];
    finding(Verdict::NeverRan, because, advice)
}

fn not_there(facts: &Facts) -> Finding {
    let because = if facts.expectation.deleted {
        "the job is deleted and no version of it decides that time".to_owned()
    } else {
        "no version of the job was in force at that time".to_owned()
    };
    let advice = if facts.expectation.deleted {
        vec![advise(
            format!("matins get runs --job {}", facts.job),
            "see what ran of it",
        )]
    } else {
        vec![of_job(facts, "describe", "see since when it is there")]
    };
    finding(Verdict::NotThere, because, advice)
}

fn not_an_instant(facts: &Facts) -> Finding {
    let (before, after) = facts.neighbours();
    let neighbour = |at: Option<WallMs>, purpose: &str| {
        at.map(|at| advise(format!("matins why {}@{at}", facts.job), purpose))
    };
    let advice = [
        neighbour(before, "the fire before"),
        neighbour(after, "the fire after"),
    ];
    let because = match (before, after) {
        (None, None) => "the schedule of that time never fires".to_owned(),
        _ => "the schedule that was in force does not name it".to_owned(),
    };
    finding(
        Verdict::NotAnInstant,
        because,
        advice.into_iter().flatten().collect(),
    )
}

/// Nothing has decided about it yet.
fn undecided(facts: &Facts) -> Finding {
    let paused = facts.expectation.paused.as_ref();
    if facts.at > facts.now {
        let mut because = format!("in {}", rough(facts.at - facts.now));
        let mut advice = vec![of_job(facts, "next", "see when it fires")];
        if let Some(paused) = paused {
            because = format!(
                "{because}, and paused by {} since {}: {}",
                paused.by, paused.at, paused.reason
            );
            advice = vec![of_job(facts, "resume", "have it fire again from now on")];
        }
        return finding(Verdict::NotYetDue, because, advice);
    }
    let late = facts.now - facts.at;
    if let Some(paused) = paused {
        let because = format!(
            "the job is paused by {} since {}: {}",
            paused.by, paused.at, paused.reason
        );
        let run = format!(
            "matins run {} --at {} --reason \"it was due while paused\"",
            facts.job, facts.at
        );
        let advice = vec![
            of_job(
                facts,
                "resume",
                "have it fire again; what was due meanwhile does not run",
            ),
            advise(run, "then run this one, if it is wanted"),
        ];
        return finding(Verdict::NeverRan, because, advice);
    }
    let status = advise(
        "matins version".to_owned(),
        "see what the coordinator says of itself",
    );
    if facts.status.clock == "held" {
        let says = facts
            .status
            .clock_says
            .as_deref()
            .unwrap_or("it was stepped");
        let length = facts.status.clock_held_ms.map_or_else(String::new, |held| {
            format!(", for another {}", rough(DurationMs(held)))
        });
        let because =
            format!("the coordinator's clock is not believed{length} ({says}): nothing fires");
        return finding(Verdict::NeverRan, because, vec![status]);
    }
    if late < DECIDED_WITHIN {
        let because = format!("it was due {} ago and is being decided", rough(late));
        return finding(Verdict::UnderWay, because, Vec::new());
    }
    let because = format!(
        "it was due {} ago and the trigger has not decided about it",
        rough(late)
    );
    let describe = of_job(
        facts,
        "describe",
        "see whether the job stands still, and why",
    );
    finding(Verdict::NeverRan, because, vec![describe, status])
}

fn of_run(facts: &Facts, detail: &RunDetail) -> Finding {
    let run = &detail.run;
    if let Some(double) = doubled(detail) {
        return double;
    }
    match run.state {
        RunState::Succeeded => fine(detail),
        RunState::Waiting | RunState::Ready | RunState::Running => under_way(detail),
        RunState::Skipped | RunState::Missed => {
            let reason = run.reason.as_deref().unwrap_or("no reason was noted");
            let mut advice = Vec::new();
            if let Some(other) = named_run(reason).filter(|&other| other != run.run) {
                let command = format!("matins describe {other}");
                advice.push(advise(command, "see the run that it names"));
            }
            advice.push(again(
                detail,
                "",
                &format!("it was {}", run.state),
                "run it after all",
            ));
            finding(
                Verdict::NeverRan,
                format!("{}: {reason}", run.state),
                advice,
            )
        }
        _ => unsuccessful(facts, detail),
    }
}

fn fine(detail: &RunDetail) -> Finding {
    let run = &detail.run;
    let took = run.ended_at.map(|end| rough(end - run.admitted_at));
    let took = took.map_or_else(String::new, |took| format!(" in {took}"));
    let more = match detail.executions.len() {
        0 | 1 => String::new(),
        n => format!(", the last of {n} executions"),
    };
    let because = format!("{} shards succeeded{took}{more}", shards_done(run));
    finding(Verdict::Fine, because, Vec::new())
}

fn under_way(detail: &RunDetail) -> Finding {
    let run = &detail.run;
    let describe = advise(format!("matins describe {} --watch", run.run), "watch it");
    if run.state == RunState::Waiting {
        let reason = run.reason.as_deref().unwrap_or("no reason was noted");
        let mut because = format!("it waits: {reason}");
        let mut advice = vec![describe];
        if let Some(waits) = &run.waits_for {
            if let Some(until) = waits.until {
                let _ = write!(because, "; it is skipped unless it starts by {until}");
            }
            advice.insert(0, look_at_other(waits));
        }
        return finding(Verdict::UnderWay, because, advice);
    }
    let mut parts = vec![format!("{} shards succeeded", shards_done(run))];
    for (n, one, several, what) in [
        (run.leased, "runs", "run", "on a host"),
        (
            run.pending,
            "waits",
            "wait",
            "for its place or its next attempt",
        ),
        (run.needs_confirmation, "needs", "need", "a person's word"),
    ] {
        if n > 0 {
            let verb = if n == 1 { one } else { several };
            parts.push(format!("{n} {verb} {what}"));
        }
    }
    let follow = advise(
        format!("matins logs {} --follow", run.run),
        "read what it prints",
    );
    finding(Verdict::UnderWay, parts.join(", "), vec![describe, follow])
}

fn look_at_other(waits: &RunWaits) -> Advice {
    match waits.run {
        Some(run) => advise(
            format!("matins describe {run}"),
            "see the run that it waits for",
        ),
        None => advise(
            format!("matins describe {}", waits.job),
            "see the job whose run it waits for",
        ),
    }
}

/// It has ended without success, or waits for a person.
fn unsuccessful(facts: &Facts, detail: &RunDetail) -> Finding {
    let run = &detail.run;
    let bad: Vec<&Shard> = detail
        .shard_list
        .iter()
        .filter(|shard| shard.state != "succeeded")
        .collect();
    let started = detail
        .shard_list
        .iter()
        .flat_map(|shard| &shard.attempts)
        .any(|attempt| attempt.started_at.is_some());
    let verdict = if !started {
        Verdict::NeverRan
    } else if run.state == RunState::Cancelled || bad.iter().any(|shard| was_cut_off(shard)) {
        Verdict::CutOff
    } else {
        Verdict::HalfDone
    };
    let cause = match bad
        .iter()
        .find_map(|shard| Some((shard, last_words(shard)?)))
    {
        Some((shard, words)) => format!("shard {} {words}", shard.shard),
        None => run.reason.clone().unwrap_or_else(|| run.state.to_string()),
    };
    let because = format!("{} shards succeeded; {cause}", shards_done(run));
    finding(verdict, because, what_to_do(facts, detail, &bad, &cause))
}

fn what_to_do(facts: &Facts, detail: &RunDetail, bad: &[&Shard], cause: &str) -> Vec<Advice> {
    let run = &detail.run;
    let mut advice = Vec::new();
    let spoke = bad
        .iter()
        .find(|shard| shard.attempts.iter().any(|a| a.started_at.is_some()));
    if let Some(shard) = spoke {
        let command = format!("matins logs {} --shard {}", run.run, shard.shard);
        advice.push(advise(command, "read what it printed"));
    }
    if run.state == RunState::Cancelled {
        advice.push(again(
            detail,
            "",
            "it was cancelled",
            "run what was cancelled after all",
        ));
    } else if is_safe(facts) || spoke.is_none() {
        let purpose = "run what failed once more";
        advice.push(again(detail, " --failed", cause, purpose));
    } else {
        let asking: Vec<_> = bad
            .iter()
            .filter(|shard| shard.state == "needs_confirmation")
            .collect();
        for (verdict, purpose) in [
            ("succeeded", "where you have seen that its work is done"),
            (
                "retry",
                "where you have seen that it did nothing, or undone it",
            ),
        ] {
            let which = match asking.as_slice() {
                [one] => format!(" --shard {}", one.shard),
                _ => String::new(),
            };
            let command = format!(
                "matins confirm {}{which} --as {verdict} --reason \"looked at its data\"",
                run.run
            );
            advice.push(advise(command, purpose));
        }
    }
    advice
}

fn is_safe(facts: &Facts) -> bool {
    let version = facts.expectation.version.as_ref();
    version.is_some_and(|version| {
        version.manifest.pointer("/repeatable/safe") == Some(&serde_json::Value::Bool(true))
    })
}

/// Whether somebody or something ended its last attempt, so that nobody saw how far it came.
fn was_cut_off(shard: &Shard) -> bool {
    shard.attempts.last().is_some_and(|attempt| {
        matches!(attempt.exit, Some(Exit::Signal(_)))
            || matches!(
                attempt.outcome,
                Some(
                    AttemptOutcome::TimedOut
                        | AttemptOutcome::Lost
                        | AttemptOutcome::Interrupted
                        | AttemptOutcome::Cancelled
                )
            )
    })
}

/// How the last attempt of a shard ended, or why it had none.
fn last_words(shard: &Shard) -> Option<String> {
    let Some(attempt) = shard.attempts.last() else {
        return shard
            .reason
            .as_ref()
            .map(|reason| format!("had no attempt: {reason}"));
    };
    let mut words = match attempt.outcome? {
        AttemptOutcome::TimedOut => "timed out".to_owned(),
        AttemptOutcome::Lost => "was lost with its host".to_owned(),
        AttemptOutcome::Interrupted => "was interrupted".to_owned(),
        AttemptOutcome::Cancelled => "was cancelled".to_owned(),
        AttemptOutcome::NeverStarted => "never started".to_owned(),
        AttemptOutcome::Refused => "was refused by its host".to_owned(),
        AttemptOutcome::Succeeded => "succeeded".to_owned(),
        AttemptOutcome::Failed => match attempt.exit {
            Some(Exit::Code(code)) => format!("failed with status {code}"),
            Some(Exit::Signal(signal)) => format!("was killed by signal {signal}"),
            None => "failed".to_owned(),
        },
    };
    if attempt.out_of_memory {
        words.push_str(" for want of memory");
    }
    let _ = write!(words, " on {}", attempt.agent);
    let tries = shard.attempts.len();
    if tries > 1 {
        let _ = write!(words, ", the last of {tries} attempts");
    }
    if attempt.started_at.is_none()
        && let Some(reason) = &attempt.reason
    {
        let _ = write!(words, ": {reason}");
    }
    Some(words)
}

/// Where two processes of one shard may have been alive at once.
fn doubled(detail: &RunDetail) -> Option<Finding> {
    let (shard, first, second) = detail.shard_list.iter().find_map(|shard| {
        let (first, second) = overlapping(&shard.attempts)?;
        Some((shard.shard, first, second))
    })?;
    let because = format!(
        "shard {shard}: {} on {} was still at work when {} on {} had begun; its report counts no \
         more, and a guard refuses its writes",
        first.token, first.agent, second.token, second.agent
    );
    let run = detail.run.run;
    let logs = |token: protocol::Token, purpose: &str| {
        advise(
            format!("matins logs {run} --shard {shard} --token {token}"),
            purpose,
        )
    };
    Some(finding(
        Verdict::RanTwice,
        because,
        vec![
            logs(first.token, "what the older one printed"),
            logs(second.token, "what the newer one printed"),
        ],
    ))
}

/// Two attempts, the older of which reported after the newer had been granted.
fn overlapping(attempts: &[Attempt]) -> Option<(&Attempt, &Attempt)> {
    attempts.windows(2).find_map(|pair| {
        let [first, second] = pair else { return None };
        let both_began = first.started_at.is_some() && second.started_at.is_some();
        (both_began && first.stale_outcome.is_some()).then_some((first, second))
    })
}

/// The first run that a text names.
fn named_run(text: &str) -> Option<RunId> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .find_map(|word| word.parse().ok())
}

/// A rerun, for a reason that a shell takes as it stands.
fn again(detail: &RunDetail, options: &str, reason: &str, purpose: &str) -> Advice {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .,:;/_-'".contains(c);
    // On which host, and after how many attempts, the ledger knows without being told.
    let reason = reason.split(" on ").next().unwrap_or_default();
    let reason: String = reason.chars().filter(|&c| plain(c)).take(60).collect();
    let command = format!(
        "matins rerun {}{options} --reason \"{}\"",
        detail.run.run,
        reason.trim()
    );
    advise(command, purpose)
}

fn of_job(facts: &Facts, verb: &str, purpose: &str) -> Advice {
    advise(format!("matins {verb} {}", facts.job), purpose)
}

fn advise(command: String, purpose: impl Into<String>) -> Advice {
    Advice {
        command,
        purpose: purpose.into(),
    }
}

fn finding(verdict: Verdict, because: impl Into<String>, advice: Vec<Advice>) -> Finding {
    Finding {
        verdict,
        because: because.into(),
        advice,
    }
}

#[cfg(test)]
pub(super) mod tests;
