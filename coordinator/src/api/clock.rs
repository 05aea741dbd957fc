//! All clocks, held against this machine's.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use coordinator_core::Core;
use coordinator_core::clock::HostClockSeen;
use ledger::ROWS_MAX;
use protocol::api::{ClockKept, ClockSeen, Clocks};
use protocol::host::{CLOCK_VERDICTS, HostClock};
use protocol::{AgentName, Now, WallMs};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Api;
use super::error::ApiError;
use super::fleet::clock_words;
use super::input::{Params, check_limit};
use crate::clock::read_now;
use crate::roll::Roll;

/// Query of `GET /api/v1/clock`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClockQuery {
    /// So many clocks, those that are furthest off.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

/// `GET /api/v1/clock`
pub(super) async fn clocks(
    State(api): State<Api>,
    Params(query): Params<ClockQuery>,
) -> Result<Json<Clocks>, ApiError> {
    let what = "comparing the clocks";
    let remedy = "ask for fewer: those that are furthest off come first";
    let limit = check_limit(what, query.limit.unwrap_or(ROWS_MAX), remedy)?;
    let node = api.node.to_string();
    let asked = api.engine.ask(move |core, now| look(core, now, node)).await;
    let mut seen = asked.map_err(|error| ApiError::asking(what, &error))?;
    seen.clocks.extend(control_machines(&api));
    let warn_us = seen.warn_ms * 1_000;
    seen.clocks
        .sort_by_cached_key(|clock| place(clock, warn_us));
    let shown = seen.clocks.len().min(limit as usize);
    seen.left_out = (seen.clocks.len() - shown) as u64;
    seen.clocks.truncate(shown);
    Ok(Json(seen))
}

fn look(core: &Core, now: Now, node: String) -> Clocks {
    let (clock, clock_says) = clock_words(core.clock_verdict(now));
    let thresholds = core.clock_thresholds();
    let agents = core.host_clocks(now).into_iter().filter_map(|seen| {
        let agent = core.working_set().agents.get(&seen.agent)?;
        Some(agent_clock(&agent.name, seen, now.wall))
    });
    Clocks {
        node,
        now: now.wall,
        clock: clock.to_owned(),
        clock_says,
        warn_ms: thresholds.warn.0,
        stop_ms: thresholds.stop.0,
        clocks: agents.collect(),
        left_out: 0,
    }
}

fn agent_clock(name: &AgentName, seen: HostClockSeen, now: WallMs) -> ClockSeen {
    ClockSeen {
        role: "agent".to_owned(),
        name: name.to_string(),
        own: false,
        ahead_ms: seen.ahead.map(|ahead| ahead.0),
        unsure_ms: seen.unsure.map(|unsure| unsure.0),
        steady: None,
        kept: seen.told.map(|told| kept(told, now)),
    }
}

/// This machine's own clock, and those of the rest of the group as they were read last.
fn control_machines(api: &Api) -> Vec<ClockSeen> {
    let Some(group) = api.lead.group() else {
        return Vec::new();
    };
    let now = read_now();
    let said = api.time_service.borrow().clone();
    let roll = Roll::call(&group, now);
    let machines = roll.members().map(|found| {
        let read = found.peer.and_then(|peer| peer.clock);
        ClockSeen {
            role: found.member.facts.role.to_string(),
            name: found.member.facts.name.clone(),
            own: found.own,
            ahead_ms: read.map(|clock| clock.ahead.0),
            unsure_ms: read.map(|clock| clock.unsure.0),
            steady: read.map(|clock| clock.steady),
            kept: if found.own {
                said.as_ref()
                    .map(|said| kept(said.clock.clone(), now.wall - (now.boot - said.at)))
            } else {
                let told = found.condition.and_then(|said| said.kept.clone());
                told.map(|told| kept(told, now.wall))
            },
        }
    });
    machines.collect()
}

/// `at`: when it was told.
fn kept(told: HostClock, at: WallMs) -> ClockKept {
    ClockKept {
        verdict: told.verdict,
        correction_us: told.correction_us,
        bound_us: told.bound_us,
        steered_ppm: told.steered_ppm,
        source: told.source,
        reason: told.reason,
        set_at: told.step.as_ref().map(|step| at - step.ago),
        set_by_us: told.step.map(|step| step.by_us),
    }
}

/// Whose clock is further off than a person is told of comes first, then who is kept worst; among those
/// the furthest.
fn place(clock: &ClockSeen, warn_us: i64) -> impl Ord + use<> {
    let ahead_us = clock.ahead_ms.map_or(0, i64::saturating_abs);
    let unsure = clock.unsure_ms.unwrap_or(0);
    let certain_us = ahead_us.saturating_sub(unsure).max(0).saturating_mul(1_000);
    let kept = clock.kept.as_ref();
    let correction_us = kept.and_then(|kept| kept.correction_us).unwrap_or(0);
    let off_us = certain_us.max(correction_us.saturating_abs());
    let best = |kept: &ClockKept| CLOCK_VERDICTS.iter().position(|word| *word == kept.verdict);
    // Who was not heard of is not known to be worse than others.
    let rank = kept.map_or(0, |kept| best(kept).unwrap_or(CLOCK_VERDICTS.len()));
    (
        Reverse(off_us > warn_us),
        Reverse(rank),
        Reverse(off_us),
        clock.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(name: &str, ahead_ms: i64, correction_us: i64, verdict: &str) -> ClockSeen {
        ClockSeen {
            role: "agent".to_owned(),
            name: name.to_owned(),
            own: false,
            ahead_ms: Some(ahead_ms),
            unsure_ms: Some(5),
            steady: None,
            kept: Some(ClockKept {
                verdict: verdict.to_owned(),
                correction_us: Some(correction_us),
                bound_us: None,
                steered_ppm: None,
                source: "chronyd".to_owned(),
                reason: String::new(),
                set_at: None,
                set_by_us: None,
            }),
        }
    }

    #[test]
    fn the_outlier_is_on_top() {
        let mut clocks = [
            clock("right", 1, 20, "synchronised"),
            clock("free", 3, 0, "free-running"),
            clock("behind", -1_200, 0, "synchronised"),
            clock("says-so-itself", 0, 5_000_000, "synchronised"),
            clock("unkept", 0, 0, "unsynchronised"),
            clock("almost", 104, 0, "synchronised"),
            clock("beyond", 106, 0, "unsynchronised"),
        ];
        clocks.sort_by_cached_key(|clock| place(clock, 100_000));
        let names = clocks.map(|clock| clock.name);
        assert_eq!(
            names,
            [
                "beyond",
                "says-so-itself",
                "behind",
                "unkept",
                "free",
                "almost",
                "right"
            ]
        );
    }
}
