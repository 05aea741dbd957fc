//! Whose clock is held gives the lead to a coordinator with a better one.

use coordinator_core::clock::members::{Amiss, MemberClock, Reading};
use coordinator_core::{Afterwards, Candidate, Chosen, NoSuccessor};
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

/// Nodes 2 and 4 stand by, node 3 is a witness: how far each coordinator's clock is ahead and whether it
/// has stood still; and which of them could lead, with the entries that it lacks.
fn chosen(
    clocks: [Option<(DurationMs, bool)>; 2],
    candidates: &[(u64, u64)],
    afterwards: Afterwards,
) -> Result<Chosen, NoSuccessor> {
    let mut bench = Bench::new();
    let now = bench.now;
    let clock = |node, role, clock: Option<(DurationMs, bool)>| MemberClock {
        node,
        role,
        reading: clock.map(|(ahead, steady)| Reading::new(ahead, DurationMs(5), steady, now)),
    };
    let heard = [
        clock(2, Role::Coordinator, clocks[0]),
        clock(3, Role::Witness, Some((DurationMs(0), true))),
        clock(4, Role::Coordinator, clocks[1]),
    ];
    bench.core.handle_clocks(&heard, now);
    let candidates: Vec<Candidate> = candidates
        .iter()
        .map(|&(node, behind)| Candidate { node, behind })
        .collect();
    bench.core.choose_successor(&candidates, afterwards, now)
}

#[test]
fn the_lead_is_given_to_a_good_clock_first_and_then_to_who_lacks_least() {
    let good = Some((DurationMs(20), true));
    let was_set = Some((DurationMs(20), false));
    let apart = Some((HOUR, true));
    for (clocks, behind, expected) in [
        ([good, good], [0, 0], 2),
        ([good, good], [3, 0], 4),
        ([apart, good], [0, 3], 4),
        ([was_set, good], [0, 3], 4),
        ([None, good], [0, 3], 4),
        ([good, apart], [3, 0], 2),
        ([apart, None], [0, 3], 4),
        ([None, None], [3, 0], 4),
    ] {
        for afterwards in [Afterwards::Stays, Afterwards::Ends] {
            let (node, amiss) = (expected, None);
            let chosen = chosen(clocks, &[(2, behind[0]), (4, behind[1])], afterwards);
            assert_eq!(chosen, Ok(Chosen { node, amiss }), "{clocks:?} {behind:?}");
        }
    }
}

#[test]
fn a_wrong_clock_leads_only_where_there_is_no_other_and_this_coordinator_ends() {
    let ahead = HOUR + HOUR - DurationMs(5);
    for (clock, amiss, words) in [
        (
            (DurationMs(0), false),
            Amiss::WasSet,
            "the clock of node 2 was set within the last minute: nothing would fire there",
        ),
        (
            (HOUR + HOUR, true),
            Amiss::Apart { ahead },
            "the clock of node 2 is 2h ahead of this coordinator's: nothing would fire there",
        ),
    ] {
        // The other one's is good, and it has no vote.
        let clocks = [Some(clock), Some((DurationMs(0), true))];
        let only = [(2, 0)];
        let refused = chosen(clocks, &only, Afterwards::Stays).unwrap_err();
        assert_eq!(refused, NoSuccessor::Amiss { node: 2, amiss });
        assert!(refused.to_string().starts_with(words), "{refused}");
        let chosen = chosen(clocks, &only, Afterwards::Ends).unwrap();
        assert_eq!((chosen.node, chosen.amiss), (2, Some(amiss)));
    }
}

#[test]
fn a_clock_that_is_not_believed_says_nothing_of_others() {
    let mut bench = Bench::new();
    bench.hears(DurationMs(0), 1);
    bench.now.wall = bench.now.wall + HOUR;
    bench.pass(100);
    // By its own clock the other one is an hour behind.
    let candidate = |node| Candidate { node, behind: 0 };
    let now = bench.now;
    for (candidates, expected) in [
        (&[candidate(OTHER)][..], Ok(OTHER)),
        (&[candidate(1), candidate(OTHER)], Ok(OTHER)),
        (&[], Err(NoSuccessor::Nobody)),
    ] {
        let chosen = bench
            .core
            .choose_successor(candidates, Afterwards::Stays, now);
        assert_eq!(chosen.map(|chosen| chosen.node), expected);
    }
}
