//! The arithmetic of a lease, in one place because both ends must agree on it.
//!
//! The agent counts from when it *sent* a heartbeat, the leader from when it *received* it, so the
//! agent's deadline lies earlier by the network's delay. Each side then moves its own bound away
//! from the other's by 1 % of the takeover time (clocks that run at different speeds) and half a
//! second, and the agent takes off the time it needs to kill.

use crate::time::{BootMs, DurationMs};

/// Time between two heartbeats of an agent.
pub const HEARTBEAT: DurationMs = DurationMs(5_000);

/// Three missed beats: a host gets no new work after this long without one.
pub const QUIET_HOST: DurationMs = DurationMs(15_000);

/// Time from SIGTERM to SIGKILL when a lease runs out or a person cancels.
pub const KILL_GRACE: DurationMs = DurationMs(2_000);

/// Shortest and longest `takeover_after` a manifest may ask for, and the default.
pub const TAKEOVER_MIN: DurationMs = DurationMs(15_000);
pub const TAKEOVER_MAX: DurationMs = DurationMs(15 * 60_000);
pub const TAKEOVER_DEFAULT: DurationMs = DurationMs(60_000);

/// A session without contact for this long is dead for ever.
pub const SESSION_END: DurationMs = DurationMs(15 * 60_000);

/// How long the old connection of an identity may take to repeat the nonce.
pub const NONCE_ANSWER: DurationMs = DurationMs(2_000);

/// A leader's timer that fires later than this did not run while it should have: it counts as a
/// change of leader (the longest election time-out).
pub const STALLED_LEADER: DurationMs = DurationMs(600);

/// 1 % of the takeover time and half a second.
pub fn margin(takeover: DurationMs) -> DurationMs {
    DurationMs(takeover.0 / 100 + 500)
}

/// When an attempt must begin to die, on the agent's clock: `sent` is the send time of the last
/// acknowledged heartbeat that listed it.
pub fn agent_deadline(sent: BootMs, takeover: DurationMs) -> BootMs {
    sent + takeover - margin(takeover) - KILL_GRACE
}

/// When the leader may take a shard away, on its own clock: `arrived` is the arrival of the last
/// heartbeat of that agent that it acknowledged.
pub fn leader_expiry(arrived: BootMs, takeover: DurationMs) -> BootMs {
    arrived + takeover + margin(takeover)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_done_before_the_leader_begins_even_when_its_clock_is_one_percent_slow() {
        for takeover in [TAKEOVER_MIN, TAKEOVER_DEFAULT, TAKEOVER_MAX] {
            let dead_on_agent_clock = agent_deadline(BootMs(0), takeover) + KILL_GRACE;
            let dead_by_true_time = dead_on_agent_clock.0 * 101 / 100;
            assert!(dead_by_true_time < leader_expiry(BootMs(0), takeover).0);
        }
    }
}
