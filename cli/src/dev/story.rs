//! What fires and how it ends, told from what the coordinator answers.
//!
//! Runs are followed by their ids, which rise and survive the coordinator, so that a coordinator
//! that was killed in between costs no line. A run that has ended is watched for a while yet:
//! somebody may run it again.

use std::collections::BTreeMap;

use protocol::api::{Alert, Run};
use protocol::attempt::Trigger;
use protocol::{AlertId, DurationMs, RunId, WallMs};

use super::Line;
use crate::clock::rough;
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
    state: String,
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
            if is_settled(&run.state) && run.state != "skipped" && run.state != "missed" {
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
            } else if before.state == "waiting" && matches!(&*run.state, "ready" | "running") {
                lines.push(starts(run));
            }
            let has_moved = before.state != run.state || before.execution != run.execution;
            if has_moved && is_settled(&run.state) {
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
            .filter(|(_, seen)| is_final(&seen.state))
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
            state: run.state.clone(),
            execution: run.execution,
        }
    }
}

fn is_final(state: &str) -> bool {
    matches!(
        state,
        "succeeded" | "failed" | "cancelled" | "skipped" | "missed"
    )
}

/// Whether nothing more happens to it by itself.
fn is_settled(state: &str) -> bool {
    is_final(state) || state == "needs_confirmation"
}

fn who(run: &Run) -> String {
    format!("{}@{}", run.job, run.fire_time)
}

fn fired(run: &Run) -> Line {
    let late = run.admitted_at - run.fire_time;
    let (what, mut detail) = match run.state.as_str() {
        "skipped" => ("skipped", run.reason.clone().unwrap_or_default()),
        "missed" => ("missed", run.reason.clone().unwrap_or_default()),
        "waiting" => ("waits", run.reason.clone().unwrap_or_default()),
        _ => ("fired", count(u64::from(run.shards), "shard")),
    };
    match run.trigger {
        Trigger::Manual => detail.push_str(", by hand"),
        Trigger::CatchUp => detail.push_str(", caught up"),
        Trigger::Scheduled | Trigger::Rerun => {}
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
    let (what, detail) = match run.state.as_str() {
        "succeeded" => ("succeeded", format!("{done}{took}")),
        "needs_confirmation" => ("stands", format!("{done}, confirm {}", run.run)),
        "failed" => ("failed", format!("{done}{took}, see {}", run.run)),
        "cancelled" => ("cancelled", format!("{done}{took}")),
        "skipped" => ("skipped", run.reason.clone().unwrap_or_default()),
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
