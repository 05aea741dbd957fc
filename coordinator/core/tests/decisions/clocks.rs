//! Whose clock is held gives the lead to a coordinator with a better one.

use coordinator_core::clock::members::{MemberClock, Reading};
use ledger::command::{AlertKind, Command};
use protocol::{DurationMs, Now, Role};

use crate::bench::{BEGIN, Bench};

const HOUR: DurationMs = DurationMs(3_600_000);
const OTHER: u64 = 2;

/// The other coordinator's clock and the witness's, ahead of this machine's by so much.
fn clocks(ahead: DurationMs, read: Now) -> Vec<MemberClock> {
    let clock = |node, role| MemberClock {
        node,
        role,
        reading: Some(Reading::new(ahead, DurationMs(5), true, read)),
    };
    vec![clock(OTHER, Role::Coordinator), clock(3, Role::Witness)]
}

impl Bench {
    /// For so many seconds the others are heard every second.
    fn hears(&mut self, ahead: DurationMs, seconds: i64) {
        for _ in 0..seconds {
            let (now, clocks) = (self.now, clocks(ahead, self.now));
            self.core.handle_clocks(&clocks, now);
            self.pass(1_000);
        }
    }

    fn raised(&self) -> Vec<AlertKind> {
        self.logged(|command| match command {
            Command::RaiseAlert(alert) => Some(alert.kind),
            _ => None,
        })
    }
}

#[test]
fn a_reign_that_another_should_have_is_put_off_and_not_for_ever() {
    let mut bench = Bench::beginning_with(|config| config.members = clocks(HOUR, BEGIN));
    bench.commits = true;
    bench.settle();
    bench.hears(HOUR, 2);
    assert_eq!(bench.handed, [OTHER]);
    assert!(bench.log.is_empty() && bench.core.epoch().is_none());
    // The other one does not take it: it begins, holds, says so, and asks again after a while.
    bench.hears(HOUR, 2);
    assert!(bench.core.epoch().is_some());
    assert_eq!(bench.raised(), [AlertKind::ClockHeld]);
    bench.hears(HOUR, 25);
    assert_eq!(bench.handed, [OTHER]);
    bench.hears(HOUR, 2);
    assert_eq!(bench.handed, [OTHER, OTHER]);
}

#[test]
fn who_gave_the_lead_away_a_moment_ago_keeps_it_when_it_comes_back() {
    let mut bench = Bench::beginning_with(|config| {
        config.members = clocks(HOUR, BEGIN);
        config.yielded = Some(BEGIN.boot);
    });
    bench.commits = true;
    bench.settle();
    assert!(bench.core.epoch().is_some());
    bench.hears(HOUR, 29);
    assert_eq!(bench.handed, [0; 0]);
    bench.hears(HOUR, 2);
    assert_eq!(bench.handed, [OTHER]);
}

#[test]
fn a_leader_whose_clock_is_set_gives_the_lead_away_and_one_that_agrees_does_not() {
    let mut bench = Bench::beginning_with(|config| config.members = clocks(DurationMs(0), BEGIN));
    bench.commits = true;
    bench.settle();
    bench.hears(DurationMs(0), 10);
    assert_eq!(bench.handed, [0; 0]);
    bench.now.wall = bench.now.wall + HOUR;
    bench.pass(100);
    assert_eq!(bench.handed, [OTHER]);
}

#[test]
fn a_control_machine_with_a_wrong_clock_is_told_of_by_who_leads() {
    let mut bench = Bench::new();
    let now = bench.now;
    let mut wrong = clocks(DurationMs(0), now);
    wrong[0] = clocks(HOUR, now)[0];
    bench.core.handle_clocks(&wrong, now);
    bench.pass(1_000);
    assert_eq!(bench.raised(), [AlertKind::ClockDiffers]);
    bench.hears(DurationMs(0), 1);
    assert_eq!(bench.handed, [0; 0]);
    let settled = bench.logged(|command| match command {
        Command::SettleAlerts(settle) if settle.kind == AlertKind::ClockDiffers => Some(()),
        _ => None,
    });
    assert_eq!(settled.len(), 2, "at the beginning, and when it was over");
}
