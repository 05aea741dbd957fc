use protocol::attempt::{Exit, Trigger};
use protocol::lease::{HEARTBEAT, KILL_GRACE, QUIET_HOST, TAKEOVER_DEFAULT, margin};
use protocol::supervisor::Held;
use protocol::{ExecutionId, RunId};

use super::*;

const TAKEOVER: DurationMs = TAKEOVER_DEFAULT;
const SESSION: SessionId = SessionId(500);
const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);

/// Restated from the design, not taken from the code: send time plus takeover time, minus 1 %
/// and half a second and the kill grace.
const LIFE: i64 = 60_000 - 600 - 500 - 2_000;

pub(in crate::agent) fn work() -> Work {
    Work {
        job: "settlement/reconcile".parse().unwrap(),
        run_id: RunId(12),
        execution_id: ExecutionId(9),
        fire_time: WallMs::parse_rfc3339("2026-11-29T15:30:00Z").unwrap(),
        nominal: vec!["2026-11-29T23:30:00".to_owned()],
        timezone: "Asia/Shanghai".to_owned(),
        shard: 3,
        shards: 32,
        attempt: 2,
        trigger: Trigger::Scheduled,
        fence: Some(41),
        exec: vec![
            "/opt/reconcile".to_owned(),
            "--shard".to_owned(),
            "3/32".to_owned(),
        ],
        timeout: DurationMs::from_secs(900),
        takeover: TAKEOVER,
    }
}
