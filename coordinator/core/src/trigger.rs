//! What becomes of the instants between a job's watermark and now.
//!
//! The question is never "is it this minute now?": a clock that jumps over a minute would skip
//! it, one that jumps back would repeat it. Every instant in (watermark, now] is owed exactly one
//! decision, whatever path the clock took to get here.
//!
//! A fire that is late by no more than `misfire.after` is merely late and runs as planned. Of those
//! beyond it only the newest is judged by the misfire policy; the rest become one gap, so that
//! a scheduler that was down for a week does not come back with a week's herd.

use jobs::{Instant, Manifest, MisfirePolicy};
use ledger::command::{Decision, GapReason};
use protocol::attempt::Trigger;
use protocol::{DurationMs, Rule, Rules, WallMs};

/// Most fires of one job that are treated as merely late in one decision; older ones count as
/// missed. Keeps a one-second job with a long `misfire.after` from flooding the queue.
pub const LATE_AT_MOST: usize = 1_000;

/// Longest default start deadline.
pub const START_DEADLINE_MAX: DurationMs = DurationMs(24 * 3_600_000);

const ONE_MS: DurationMs = DurationMs(1);

/// A job as the trigger sees it.
#[derive(Clone, Copy, Debug)]
pub struct Owed<'a> {
    pub manifest: &'a Manifest,
    /// Start of the version in force.
    pub anchor: WallMs,
    /// The watermark.
    pub from: WallMs,
}

/// The next instant of the job after its watermark.
pub fn next_fire(owed: Owed<'_>) -> Option<Instant> {
    owed.manifest.schedule().next_after(owed.anchor, owed.from)
}

/// Decides every instant in (`owed.from`, `through`], oldest first. `through` is now.
pub fn decide(owed: Owed<'_>, through: WallMs, rules: Rules) -> Vec<Decision> {
    if through <= owed.from {
        return Vec::new();
    }
    let late_from = late_from(owed, through, rules);
    let mut decisions = decide_missed(owed, late_from, through, rules);
    let schedule = owed.manifest.schedule();
    decisions.extend(
        schedule
            .instants(owed.anchor, late_from, through)
            .map(|i| run(owed, i, Trigger::Scheduled)),
    );
    decisions
}

/// Where "missed" ends and "merely late" begins: instants after it are late.
fn late_from(owed: Owed<'_>, through: WallMs, rules: Rules) -> WallMs {
    if !rules.on(Rule::InstantsFromWatermark) {
        // The minute that it is now, and nothing else.
        return owed
            .from
            .max(WallMs(through.0 - through.0.rem_euclid(60_000)) - ONE_MS);
    }
    let after = if rules.on(Rule::LateIsNotMissed) {
        owed.manifest.misfire.after
    } else {
        DurationMs::ZERO
    };
    // Lateness of exactly `after` is still merely late.
    let by_policy = owed.from.max(through - after - ONE_MS);
    let newest = owed
        .manifest
        .schedule()
        .newest(owed.anchor, by_policy, through, LATE_AT_MOST + 1);
    // One more than allowed: the oldest of these is the newest that is given up.
    if newest.len() > LATE_AT_MOST {
        newest[0].at
    } else {
        by_policy
    }
}

fn decide_missed(owed: Owed<'_>, late_from: WallMs, now: WallMs, rules: Rules) -> Vec<Decision> {
    if !rules.on(Rule::InstantsFromWatermark) {
        return Vec::new();
    }
    let schedule = owed.manifest.schedule();
    if !rules.on(Rule::MissedFiresBecomeOneGap) {
        return schedule
            .instants(owed.anchor, owed.from, late_from)
            .map(|instant| run(owed, instant, Trigger::CatchUp))
            .collect();
    }
    let Some(newest) = schedule.newest(owed.anchor, owed.from, late_from, 1).pop() else {
        return Vec::new();
    };
    let before_newest = newest.at - ONE_MS;
    let given_up = schedule.count(owed.anchor, owed.from, before_newest);
    let mut decisions = Vec::new();
    if given_up > 0 {
        decisions.push(Decision::Gap {
            from: owed.from,
            through: before_newest,
            count: given_up,
            reason: GapReason::GivenUpAfterOutage,
        });
    }
    decisions.push(judge_newest_missed(owed, newest, now));
    decisions
}

/// The stretch that a version with an unreadable manifest leaves behind: how many instants it
/// named, nobody can say.
pub(crate) fn unreadable(from: WallMs, through: WallMs) -> Decision {
    Decision::Gap {
        from,
        through,
        count: 0,
        reason: GapReason::UnreadableManifest,
    }
}

fn judge_newest_missed(owed: Owed<'_>, instant: Instant, now: WallMs) -> Decision {
    let lateness = now - instant.at;
    let reason = match owed.manifest.misfire.policy {
        MisfirePolicy::RunNow => return run(owed, instant, Trigger::CatchUp),
        MisfirePolicy::Within(limit) if lateness <= limit => {
            return run(owed, instant, Trigger::CatchUp);
        }
        MisfirePolicy::Within(limit) => {
            format!("late by {lateness}, and misfire.policy allows {limit}")
        }
        MisfirePolicy::Skip => format!("late by {lateness}, and misfire.policy is skip"),
    };
    Decision::Missed {
        fire_time: instant.at,
        nominal: instant.nominal,
        reason,
    }
}

fn run(owed: Owed<'_>, instant: Instant, trigger: Trigger) -> Decision {
    let start_deadline = match trigger {
        // Its turn comes when it comes.
        Trigger::CatchUp => None,
        _ => Some(start_deadline(owed.manifest, owed.anchor, instant.at)),
    };
    Decision::Run {
        fire_time: instant.at,
        nominal: instant.nominal,
        trigger,
        start_deadline,
    }
}

/// How long a run may wait to start: what the manifest says, else one interval to the next fire
/// but no less than the lateness that the manifest calls harmless, and at most 24 h.
pub fn start_deadline(manifest: &Manifest, anchor: WallMs, fire_time: WallMs) -> DurationMs {
    manifest.start_deadline.unwrap_or_else(|| {
        let interval = manifest
            .schedule()
            .next_after(anchor, fire_time)
            .map_or(START_DEADLINE_MAX, |next| next.at - fire_time);
        interval.max(manifest.misfire.after).min(START_DEADLINE_MAX)
    })
}
