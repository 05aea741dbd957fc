//! What becomes of the instants between a job's watermark and now.
//!
//! The question is never "is it this minute now?": a clock that jumps over a minute would skip
//! it, one that jumps back would repeat it. Every instant in (watermark, now] is owed exactly one
//! decision, whatever path the clock took to get here.
//!
//! A fire that is late by no more than `misfire.after` is merely late and runs as planned. Of those
//! beyond it the newest run, as many as `catch_up.at_most` allows and the misfire policy still wants;
//! the rest become one gap, so that a scheduler that was down for a week does not come back with
//! a week's herd.

use jobs::{Instant, Manifest, MisfirePolicy};
use ledger::command::{Decision, GapReason};
use protocol::attempt::Trigger;
use protocol::{DurationMs, Now, Rule, Rules, WallMs};

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

/// How far a decision made now settles a schedule: through the last whole second. Instants lie on
/// whole seconds, and so do then watermarks, cut-overs, and the anchors of `@every`.
pub fn settles_through(now: Now) -> WallMs {
    now.wall.whole_second()
}

/// The next instant of the job after its watermark.
pub fn next_fire(owed: Owed<'_>) -> Option<Instant> {
    owed.manifest.schedule().next_after(owed.anchor, owed.from)
}

/// Decides every instant in (`owed.from`, `through`], oldest first. `through` is now, as
/// [`settles_through`] says it.
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
    let at_most = owed.manifest.catch_up.at_most as usize;
    let mut kept = schedule.newest(owed.anchor, owed.from, late_from, at_most);
    let Some(newest) = kept.last().cloned() else {
        return Vec::new();
    };
    let why_not = |instant: &Instant| why_not_run(owed.manifest, now - instant.at);
    kept.retain(|instant| why_not(instant).is_none());
    let kept: Vec<Decision> = match (kept.is_empty(), why_not(&newest)) {
        (true, Some(reason)) => vec![Decision::Missed {
            fire_time: newest.at,
            nominal: newest.nominal,
            reason,
        }],
        _ => kept
            .into_iter()
            .map(|instant| run(owed, instant, Trigger::CatchUp))
            .collect(),
    };
    let before_kept = kept
        .first()
        .map_or(late_from, |decision| at(decision) - ONE_MS);
    let given_up = schedule.count(owed.anchor, owed.from, before_kept);
    let gap = (given_up > 0).then_some(Decision::Gap {
        from: owed.from,
        through: before_kept,
        count: given_up,
        reason: GapReason::GivenUpAfterOutage,
    });
    gap.into_iter().chain(kept).collect()
}

/// Why a fire that is this late is not run any more.
fn why_not_run(manifest: &Manifest, lateness: DurationMs) -> Option<String> {
    let window = manifest.catch_up.window;
    match manifest.misfire.policy {
        MisfirePolicy::Skip => Some(format!("late by {lateness}, and misfire.policy is skip")),
        MisfirePolicy::Within(limit) if lateness > limit => Some(format!(
            "late by {lateness}, and misfire.policy allows {limit}"
        )),
        _ if lateness > window => Some(format!(
            "late by {lateness}, and catch_up.window is {window}"
        )),
        MisfirePolicy::RunNow | MisfirePolicy::Within(_) => None,
    }
}

const fn at(decision: &Decision) -> WallMs {
    match decision {
        Decision::Run { fire_time, .. } | Decision::Missed { fire_time, .. } => *fire_time,
        Decision::Gap { through, .. } => *through,
    }
}

/// The stretch that a version with an unreadable manifest leaves behind: how many instants it
/// named, nobody can say.
pub(crate) fn unreadable(from: WallMs, through: WallMs) -> Vec<Decision> {
    if through <= from {
        return Vec::new();
    }
    vec![Decision::Gap {
        from,
        through,
        count: 0,
        reason: GapReason::UnreadableManifest,
    }]
}

/// What a pause has kept from firing up to `through`: one gap, however long it was.
pub(crate) fn paused(owed: Owed<'_>, through: WallMs) -> Vec<Decision> {
    one_gap(owed, through, GapReason::Paused)
}

/// What nobody knows of since the backup that the ledger was restored from.
pub(crate) fn unknown(owed: Owed<'_>, through: WallMs) -> Vec<Decision> {
    one_gap(owed, through, GapReason::Unknown)
}

fn one_gap(owed: Owed<'_>, through: WallMs, reason: GapReason) -> Vec<Decision> {
    if through <= owed.from {
        return Vec::new();
    }
    let schedule = owed.manifest.schedule();
    match schedule.count(owed.anchor, owed.from, through) {
        0 => Vec::new(),
        count => vec![Decision::Gap {
            from: owed.from,
            through,
            count,
            reason,
        }],
    }
}

fn run(owed: Owed<'_>, instant: Instant, trigger: Trigger) -> Decision {
    let start_deadline = Some(start_deadline(owed.manifest, owed.anchor, instant.at));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: WallMs = WallMs(1_800_000_000_000);

    fn manifest(cron: &str, misfire: &str) -> Manifest {
        let yaml = format!(
            "name: test/trigger\npurpose: test\nowner: test\n\
             repeatable: {{ safe: true, how: test }}\n\
             schedule: {{ cron: \"{cron}\", timezone: Etc/UTC }}\n\
             misfire: {misfire}\noverlap: forbid\nexpected_duration: 1m\ntimeout: 5m\n\
             run: {{ exec: [\"/bin/true\"] }}\n"
        );
        let mut manifests = jobs::parse_manifests("test.yaml", &yaml).expect("a good manifest");
        manifests.remove(0)
    }

    /// Decides over the `seconds` after START, where the job's watermark stands.
    fn decided(manifest: &Manifest, seconds: i64) -> Vec<Decision> {
        let owed = Owed {
            manifest,
            anchor: START,
            from: START,
        };
        decide(owed, START + DurationMs::from_secs(seconds), Rules::all())
    }

    /// One word a decision: the second it is for, and what becomes of it.
    fn words(decisions: &[Decision]) -> Vec<String> {
        let second = |at: &WallMs| (at.0 - START.0) / 1000;
        decisions
            .iter()
            .map(|decision| match decision {
                Decision::Run {
                    fire_time, trigger, ..
                } => {
                    format!("{}:{}", second(fire_time), trigger.as_str())
                }
                Decision::Missed { fire_time, .. } => format!("{}:missed", second(fire_time)),
                Decision::Gap { count, .. } => format!("gap of {count}"),
            })
            .collect()
    }

    #[test]
    fn late_fires_run_and_of_the_missed_only_the_newest_is_judged() {
        let check = |misfire: &str, seconds: i64, expected: &[&str]| {
            let manifest = manifest("@every 10s", misfire);
            assert_eq!(
                words(&decided(&manifest, seconds)),
                expected,
                "{misfire} {seconds}"
            );
        };
        check("{ policy: run_now, after: 15s }", 9, &[]);
        check("{ policy: run_now, after: 15s }", 10, &["10:scheduled"]);
        check(
            "{ policy: skip, after: 15s }",
            25,
            &["10:scheduled", "20:scheduled"],
        );
        check(
            "{ policy: skip, after: 15s }",
            26,
            &["10:missed", "20:scheduled"],
        );
        check(
            "{ policy: run_now, after: 15s }",
            26,
            &["10:catch_up", "20:scheduled"],
        );
        check(
            "{ policy: run_now, after: 15s }",
            58,
            &["gap of 3", "40:catch_up", "50:scheduled"],
        );
        check(
            "{ within: 20s, after: 15s }",
            59,
            &["gap of 3", "40:catch_up", "50:scheduled"],
        );
        check(
            "{ within: 15s, after: 5s }",
            58,
            &["gap of 4", "50:catch_up"],
        );
        check(
            "{ within: 15s, after: 1s }",
            56,
            &["gap of 4", "50:catch_up"],
        );
    }

    #[test]
    fn the_newest_of_the_missed_run_oldest_first_as_many_as_may() {
        let check = |policies: &str, seconds: i64, expected: &[&str]| {
            let manifest = manifest("@every 10s", policies);
            assert_eq!(words(&decided(&manifest, seconds)), expected, "{policies}");
        };
        let late =
            |catch_up: &str| format!("{{ policy: run_now, after: 15s }}\ncatch_up: {catch_up}");
        check(
            &late("{ at_most: 3 }"),
            78,
            &[
                "gap of 3",
                "40:catch_up",
                "50:catch_up",
                "60:catch_up",
                "70:scheduled",
            ],
        );
        check(
            &late("{ at_most: 9 }"),
            38,
            &["10:catch_up", "20:catch_up", "30:scheduled"],
        );
        // What is later than the window is not run, however few there are.
        check(
            &late("{ at_most: 9, window: 30s }"),
            78,
            &["gap of 4", "50:catch_up", "60:catch_up", "70:scheduled"],
        );
        check(
            &late("{ at_most: 9, window: 16s }"),
            78,
            &["gap of 5", "60:missed", "70:scheduled"],
        );
        check(
            "{ within: 40s, after: 15s }\ncatch_up: { at_most: 9 }",
            78,
            &[
                "gap of 3",
                "40:catch_up",
                "50:catch_up",
                "60:catch_up",
                "70:scheduled",
            ],
        );
    }

    #[test]
    fn a_year_of_missed_seconds_is_one_gap_and_a_bounded_number_of_runs() {
        let manifest = manifest("@every 1s", "{ policy: run_now, after: 1h }");
        let year = 365 * 86_400;
        let decisions = decided(&manifest, year);
        assert_eq!(decisions.len(), LATE_AT_MOST + 2);
        let Decision::Gap { count, .. } = decisions[0] else {
            panic!("{:?}", decisions[0])
        };
        assert_eq!(count, year as u64 - LATE_AT_MOST as u64 - 1);
    }

    #[test]
    fn a_clock_that_went_back_decides_nothing() {
        let manifest = manifest("@every 1s", "{ policy: run_now, after: 1h }");
        let owed = Owed {
            manifest: &manifest,
            anchor: START,
            from: START,
        };
        assert_eq!(
            decide(owed, START - DurationMs(7_200_000), Rules::all()),
            []
        );
        assert_eq!(decide(owed, START, Rules::all()), []);
    }

    #[test]
    fn the_default_start_deadline_is_an_interval_but_not_less_than_harmless_lateness() {
        let check = |cron: &str, expected_s: i64| {
            let manifest = manifest(cron, "{ policy: skip, after: 60s }");
            assert_eq!(
                start_deadline(&manifest, START, START).0,
                expected_s * 1000,
                "{cron}"
            );
        };
        check("@every 10s", 60);
        check("@every 10m", 600);
        check("@every 3d", 86_400);
    }

    proptest! {
        /// However the time from the watermark to now is cut into decisions, every instant gets
        /// exactly one: the schedule is tiled.
        #[test]
        fn any_cut_tiles_the_schedule(
            period in 1i64..200,
            after in 1i64..300,
            policy in prop_oneof![Just("run_now"), Just("skip")],
            cuts in proptest::collection::vec(1i64..2_000_000, 1..12),
        ) {
            let misfire = format!("{{ policy: {policy}, after: {after}s }}");
            let manifest = manifest(&format!("@every {period}s"), &misfire);
            let mut from = START;
            let mut covered = 0u64;
            let mut last = START;
            for cut in cuts {
                let through = from + DurationMs(cut);
                let owed = Owed { manifest: &manifest, anchor: START, from };
                for decision in decide(owed, through, Rules::all()) {
                    let (at, count) = match decision {
                        Decision::Run { fire_time, .. } | Decision::Missed { fire_time, .. } => {
                            prop_assert_eq!((fire_time.0 - START.0) % (period * 1000), 0);
                            (fire_time, 1)
                        }
                        Decision::Gap { through, count, .. } => (through, count),
                    };
                    prop_assert!(at > last && at <= through, "{at:?} after {last:?}");
                    last = at;
                    covered += count;
                }
                from = through;
            }
            prop_assert_eq!(covered, ((from.0 - START.0) / (period * 1000)) as u64);
        }
    }
}
