//! What fires and how it ends, told from what the coordinator answers.
//!
//! Runs are followed by their ids, which rise and survive the coordinator, so that a coordinator
//! that was killed in between costs no line. A run that has ended is watched for a while yet:
//! somebody may run it again.

use std::collections::BTreeMap;

use protocol::api::{Alert, Run};
use protocol::attempt::Trigger;
use protocol::{AlertId, DurationMs, RunId, RunState, WallMs};

use super::Line;
use crate::amounts::rough;
use crate::text::count;

/// Runs that ended and are watched all the same; with those that are open, so many are asked for
/// at once.
const ENDED_MAX: usize = 50;

/// A fire later than this is said to be late.
const LATE: DurationMs = DurationMs(1500);

pub(super) struct Story {
    after: RunId,
    alert_after: AlertId,
    followed: BTreeMap<RunId, Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    state: RunState,
    execution: u32,
}

impl Story {
    /// Begins with the newest runs and alerts. Runs of before `since` were told by an earlier
    /// story: only how they end is told yet. Answers with the lines of the others.
    pub(super) fn begin(runs: Vec<Run>, alerts: &[Alert], since: WallMs) -> (Story, Vec<Line>) {
        let mut story = Story {
            after: RunId(0),
            alert_after: AlertId(0),
            followed: BTreeMap::new(),
        };
        let (mut earlier, mut later): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| run.admitted_at < since);
        earlier.sort_by_key(|run| run.run);
        later.sort_by_key(|run| run.run);
        for run in earlier {
            story.after = story.after.max(run.run);
            story.followed.insert(run.run, Seen::of(&run));
        }
        story.forget_ended();
        let before = alerts.iter().filter(|alert| alert.at < since);
        story.alert_after = before.map(|alert| alert.id).max().unwrap_or(AlertId(0));
        let mut lines = story.handle_new(&later);
        lines.extend(story.handle_alerts(alerts));
        (story, lines)
    }

    /// Runs above this id are new.
    pub(super) fn poll_after(&self) -> RunId {
        self.after
    }

    /// Runs to be asked for again.
    pub(super) fn poll_followed(&self) -> impl Iterator<Item = RunId> {
        self.followed.keys().copied()
    }

    /// Runs that are new, oldest first.
    pub(super) fn handle_new(&mut self, runs: &[Run]) -> Vec<Line> {
        let mut lines = Vec::new();
        for run in runs.iter().filter(|run| run.run > self.after) {
            lines.push(fired(run));
            if is_settled(run.state) && !matches!(run.state, RunState::Skipped | RunState::Missed) {
                lines.push(ended(run));
            }
            self.followed.insert(run.run, Seen::of(run));
        }
        if let Some(newest) = runs.iter().map(|run| run.run).max() {
            self.after = self.after.max(newest);
        }
        self.forget_ended();
        lines
    }

    /// Runs that are followed, as they are now.
    pub(super) fn handle_followed(&mut self, runs: &[Run]) -> Vec<Line> {
        let mut lines = Vec::new();
        for run in runs {
            let Some(seen) = self.followed.get_mut(&run.run) else {
                continue;
            };
            let before = std::mem::replace(seen, Seen::of(run));
            if before.execution != run.execution {
                lines.push(again(run));
            } else if before.state == RunState::Waiting && run.state.is_live() {
                lines.push(starts(run));
            }
            let has_moved = before.state != run.state || before.execution != run.execution;
            if has_moved && is_settled(run.state) {
                lines.push(ended(run));
            }
        }
        self.forget_ended();
        lines
    }

    /// Alerts that no line of a run tells already.
    pub(super) fn handle_alerts(&mut self, alerts: &[Alert]) -> Vec<Line> {
        let mut new: Vec<&Alert> = alerts.iter().filter(|a| a.id > self.alert_after).collect();
        new.sort_by_key(|alert| alert.id);
        if let Some(newest) = new.last() {
            self.alert_after = newest.id;
        }
        new.into_iter()
            .filter(|alert| alert.run.is_none())
            .map(|alert| Line {
                at: alert.at,
                who: alert
                    .job
                    .as_ref()
                    .map_or_else(|| "matins".to_owned(), ToString::to_string),
                what: "alert",
                detail: alert.text.clone(),
                ended: None,
            })
            .collect()
    }

    fn forget_ended(&mut self) {
        let ended: Vec<RunId> = self
            .followed
            .iter()
            .filter(|(_, seen)| seen.state.is_final())
            .map(|(&run, _)| run)
            .collect();
        for run in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
            self.followed.remove(run);
        }
    }
}

impl Seen {
    fn of(run: &Run) -> Seen {
        Seen {
            state: run.state,
            execution: run.execution,
        }
    }
}

/// Whether nothing more happens to it by itself.
fn is_settled(state: RunState) -> bool {
    state.is_final() || state == RunState::NeedsConfirmation
}

fn who(run: &Run) -> String {
    format!("{}@{}", run.job, run.fire_time)
}

fn fired(run: &Run) -> Line {
    let late = run.admitted_at - run.fire_time;
    let (what, mut detail) = match run.state {
        RunState::Skipped => ("skipped", run.reason.clone().unwrap_or_default()),
        RunState::Missed => ("missed", run.reason.clone().unwrap_or_default()),
        RunState::Waiting => ("waits", run.reason.clone().unwrap_or_default()),
        _ => ("fired", count(u64::from(run.shards), "shard")),
    };
    match run.trigger {
        Trigger::Manual => detail.push_str(", by hand"),
        Trigger::CatchUp => detail.push_str(", caught up"),
        Trigger::Scheduled | Trigger::Rerun | Trigger::Redo => {}
    }
    if what == "fired" && run.namespace == "scheduled" && late > LATE {
        detail = format!("{detail}, {} late", rough(late));
    }
    Line {
        at: run.admitted_at,
        who: who(run),
        what,
        detail,
        ended: None,
    }
}

/// It has waited long enough.
fn starts(run: &Run) -> Line {
    Line {
        at: crate::clock::now(),
        who: who(run),
        what: "starts",
        detail: count(u64::from(run.shards), "shard"),
        ended: None,
    }
}

fn again(run: &Run) -> Line {
    Line {
        at: crate::clock::now(),
        who: who(run),
        what: "again",
        detail: format!("execution {} of {}", run.execution, run.run),
        ended: None,
    }
}

fn ended(run: &Run) -> Line {
    let done = format!("{}/{}", run.succeeded, run.shards);
    let took = run.ended_at.map(|end| rough(end - run.admitted_at));
    let took = took.map_or_else(String::new, |took| format!(" in {took}"));
    let (what, detail) = match run.state {
        RunState::Succeeded => ("succeeded", format!("{done}{took}")),
        RunState::NeedsConfirmation => ("stands", format!("{done}: matins why {}", run.run)),
        RunState::Failed => ("failed", format!("{done}{took}, see {}", run.run)),
        RunState::Cancelled => ("cancelled", format!("{done}{took}")),
        RunState::Skipped => ("skipped", run.reason.clone().unwrap_or_default()),
        _ => ("missed", run.reason.clone().unwrap_or_default()),
    };
    Line {
        at: run.ended_at.unwrap_or_else(crate::clock::now),
        who: who(run),
        what,
        detail,
        ended: Some(run.run),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of `demo/hello` as the coordinator tells it.
    pub(in crate::dev) fn run(id: i64, state: &str) -> Run {
        let mut run: Run = serde_json::from_value(serde_json::json!({
            "run": format!("run-{id}"),
            "job": "demo/hello",
            "version": 1,
            "namespace": "scheduled",
            "fire_time": "2026-11-29T02:10:00Z",
            "nominal": [],
            "state": state,
            "reason": null,
            "execution": 1,
            "execution_id": "exec-1",
            "trigger": "scheduled",
            "shards": 3,
            "pending": 0,
            "leased": 0,
            "succeeded": 3,
            "needs_confirmation": 0,
            "cancelled": 0,
            "admitted_at": "2026-11-29T02:10:00Z",
            "ended_at": null,
        }))
        .unwrap();
        if run.state.is_final() {
            run.ended_at = Some(run.admitted_at + DurationMs(1250));
        }
        run
    }

    fn told(lines: Vec<Line>) -> Vec<(String, String)> {
        let pairs = lines.into_iter();
        pairs
            .map(|line| (line.what.to_owned(), line.detail))
            .collect()
    }

    fn pairs(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |&(what, detail): &(&str, &str)| (what.to_owned(), detail.to_owned());
        lines.iter().map(owned).collect()
    }

    fn begun() -> Story {
        let since = WallMs::parse_rfc3339("2026-11-29T02:00:00Z").unwrap();
        let (story, lines) = Story::begin(Vec::new(), &[], since);
        assert_eq!(lines, Vec::new());
        story
    }

    #[test]
    fn a_run_is_told_when_it_fires_and_when_it_ends_and_not_in_between() {
        let mut story = begun();
        let fired = story.handle_new(&[run(1, "ready")]);
        assert_eq!(told(fired), pairs(&[("fired", "3 shards")]));
        assert_eq!(story.poll_after(), RunId(1));
        assert_eq!(
            story.handle_new(&[run(1, "running")]),
            Vec::new(),
            "it is not new twice"
        );
        assert_eq!(story.handle_followed(&[run(1, "running")]), Vec::new());
        let ended = story.handle_followed(&[run(1, "succeeded")]);
        assert_eq!(ended[0].ended, Some(RunId(1)));
        assert_eq!(told(ended), pairs(&[("succeeded", "3/3 in 1.2s")]));
        assert_eq!(story.handle_followed(&[run(1, "succeeded")]), Vec::new());
    }

    #[test]
    fn what_happened_between_two_looks_is_told_whole() {
        for (state, expected) in [
            (
                "succeeded",
                vec![("fired", "3 shards"), ("succeeded", "3/3 in 1.2s")],
            ),
            (
                "failed",
                vec![("fired", "3 shards"), ("failed", "3/3 in 1.2s, see run-1")],
            ),
            ("skipped", vec![("skipped", "")]),
            ("waiting", vec![("waits", "")]),
            (
                "needs_confirmation",
                vec![("fired", "3 shards"), ("stands", "3/3: matins why run-1")],
            ),
        ] {
            let lines = begun().handle_new(&[run(1, state)]);
            assert_eq!(told(lines), pairs(&expected), "{state}");
        }
    }

    #[test]
    fn one_that_waited_starts_and_one_that_ended_can_come_again() {
        let mut story = begun();
        story.handle_new(&[run(1, "waiting")]);
        let lines = story.handle_followed(&[run(1, "running")]);
        assert_eq!(told(lines), pairs(&[("starts", "3 shards")]));
        story.handle_followed(&[run(1, "failed")]);
        let mut again = run(1, "running");
        again.execution = 2;
        let lines = story.handle_followed(&[again.clone()]);
        assert_eq!(told(lines), pairs(&[("again", "execution 2 of run-1")]));
        again.state = RunState::Succeeded;
        assert_eq!(story.handle_followed(&[again]).len(), 1);
    }

    #[test]
    fn runs_of_an_earlier_story_are_told_when_they_end_only() {
        let since = WallMs::parse_rfc3339("2026-11-29T02:10:01Z").unwrap();
        let mut new = run(4, "running");
        new.admitted_at = since;
        // Newest first, as the coordinator lists them.
        let listed = vec![new, run(3, "running"), run(2, "succeeded")];
        let (mut story, lines) = Story::begin(listed, &[], since);
        assert_eq!(told(lines), pairs(&[("fired", "3 shards")]));
        assert_eq!(story.poll_after(), RunId(4));
        assert_eq!(story.handle_followed(&[run(3, "succeeded")]).len(), 1);
        assert_eq!(story.handle_followed(&[run(2, "succeeded")]), Vec::new());
    }

    #[test]
    fn only_so_many_that_ended_are_watched_and_all_that_did_not() {
        let mut story = begun();
        for id in 1..=500 {
            let state = if id % 100 == 0 {
                "running"
            } else {
                "succeeded"
            };
            story.handle_new(&[run(id, state)]);
        }
        assert_eq!(story.poll_followed().count(), ENDED_MAX + 5);
        assert!(story.poll_followed().any(|run| run == RunId(100)));
    }

    #[test]
    fn alerts_are_told_once_and_only_where_no_run_tells_them() {
        let mut story = begun();
        let alert = |id, run| Alert {
            agent: None,
            count: 1,
            last_at: None,
            cleared_at: None,
            cleared_by: None,
            id: AlertId(id),
            at: WallMs::parse_rfc3339("2026-11-29T02:10:00Z").unwrap(),
            kind: "given_up".to_owned(),
            job: None,
            run,
            text: format!("alert {id}"),
        };
        let alerts = [alert(2, None), alert(1, Some(RunId(7)))];
        assert_eq!(
            told(story.handle_alerts(&alerts)),
            pairs(&[("alert", "alert 2")])
        );
        assert_eq!(story.handle_alerts(&alerts), Vec::new());
    }
}
