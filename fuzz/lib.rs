//! What the fuzz targets share: how long an answer may take, and what is asked of a schedule.

use jobs::{Dialect, FireContext, Manifest, Params, Schedule, ScheduleSpec};
use nix::time::{ClockId, clock_gettime};
use protocol::WallMs;

/// Processor time that one input may cost. More is a way to hold a coordinator up.
const LIMIT_MS: i64 = 50;

/// 2027-03-01T00:00:00Z, not far before clocks change.
const AFTER: WallMs = WallMs(1_803_859_200_000);

/// Gives the input to `try_it` if it is text, and panics if that was slow.
pub fn within_limit(input: &[u8], try_it: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(input) {
        bytes_within_limit(input, |_| try_it(text));
    }
}

/// Gives the input to `try_it`, and panics if that was slow.
pub fn bytes_within_limit(input: &[u8], try_it: impl FnOnce(&[u8])) {
    let begun = used_ms();
    try_it(input);
    let used = used_ms() - begun;
    let shown = String::from_utf8_lossy(input);
    assert!(used <= LIMIT_MS, "{used} ms for {shown:?}");
}

/// Of this thread, so that a busy machine makes nothing slow.
fn used_ms() -> i64 {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    used.tv_sec() * 1000 + used.tv_nsec() / 1_000_000
}

/// Parses an expression and asks all there is to ask.
pub fn ask(dialect: Dialect, cron: &str) {
    for timezone in ["Europe/Berlin", "Pacific/Apia"] {
        let spec = ScheduleSpec {
            cron: cron.to_owned(),
            timezone: timezone.to_owned(),
            dialect,
        };
        let schedule = match Schedule::parse(&spec) {
            Ok(schedule) => schedule,
            Err(error) => {
                assert!(!error.to_string().contains(['\n', '\r']), "{error}");
                return;
            }
        };
        if let Some(next) = schedule.next_after(AFTER, AFTER) {
            assert!(next.at > AFTER && !next.nominal.is_empty(), "{next:?}");
            assert_eq!(
                schedule.previous_before(AFTER, WallMs(next.at.0 + 1)),
                Some(next.clone())
            );
            assert_eq!(schedule.count(AFTER, AFTER, next.at), 1);
            let _ = schedule.face(&next);
        }
        let _ = schedule.previous_before(AFTER, AFTER);
        for warning in schedule.explain(AFTER).warnings {
            assert!(!warning.to_string().is_empty());
        }
    }
}

/// Fills the command line of a manifest as a scheduled and as a manual run would.
pub fn fill(manifest: &Manifest) {
    let nominal = ["2027-03-28T02:30:00".to_owned()];
    for nominal in [&nominal[..], &[]] {
        let fire = FireContext {
            fire_time: AFTER,
            nominal,
            shard: 0,
            shards: manifest.shards.fixed().unwrap_or(1024),
            params: &Params::new(),
        };
        let argv = manifest.argv(&fire);
        assert_eq!(argv.len(), manifest.exec().count());
        for (written, filled) in manifest.exec().zip(&argv) {
            assert!(written.contains(['{', '}']) || written == filled);
            assert!(!filled.contains('\0'));
        }
    }
}
