//! Backups that grow old.

use coordinator_core::Request;
use ledger::Done;
use ledger::command::{AlertKind, Command, NoteBackup};
use protocol::DurationMs;

use crate::bench::Bench;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The leader's shell says what became of one; one is to be made every hour.
fn note(bench: &mut Bench, problem: Option<&str>) {
    let note = NoteBackup {
        node: "c1".to_owned(),
        every: DurationMs(HOUR),
        file: "/b/a.backup".to_owned(),
        bytes: 4096,
        problem: problem.map(str::to_owned),
    };
    let noted = bench.asked(Request::NoteBackup(note)).unwrap();
    assert_eq!(noted, Done::BackupNoted);
}

/// The texts of the alerts about old ones, oldest first.
fn told(bench: &Bench) -> Vec<String> {
    bench.logged(|command| match command {
        Command::RaiseAlert(alert) if alert.kind == AlertKind::BackupOverdue => {
            Some(alert.text.clone())
        }
        _ => None,
    })
}

#[test]
fn a_person_is_told_after_two_intervals_and_then_once_a_day() {
    let mut bench = Bench::new();
    note(&mut bench, None);
    let made = bench.now.wall;
    bench.stand_still(2 * HOUR);
    assert_eq!(told(&bench), [] as [&str; 0]);
    bench.stand_still(MINUTE);
    let text = format!(
        "the last good backup is of {made}, 2h1m ago, and one is to be made every 1h: see that the \
         coordinator that leads has a place for them (--backup-dir), and why it makes none"
    );
    assert_eq!(told(&bench), [text]);
    bench.stand_still(DAY - MINUTE);
    assert_eq!(told(&bench).len(), 1);
    bench.stand_still(MINUTE);
    assert_eq!(told(&bench).len(), 2);
    // Another leader says it at once: it does not know who has been told.
    bench.succeed();
    bench.stand_still(MINUTE);
    assert_eq!(told(&bench).len(), 3);
}

#[test]
fn the_next_good_one_ends_the_matter_and_that_may_grow_old_within_the_day() {
    let mut bench = Bench::new();
    note(&mut bench, None);
    bench.stand_still(3 * HOUR);
    assert_eq!(told(&bench).len(), 1);
    note(&mut bench, None);
    bench.stand_still(HOUR);
    assert_eq!(told(&bench).len(), 1);
    bench.stand_still(2 * HOUR);
    assert_eq!(told(&bench).len(), 2);
}

#[test]
fn a_clock_that_was_stepped_says_nothing_of_an_age() {
    let mut bench = Bench::new();
    note(&mut bench, None);
    bench.pass(MINUTE / 2);
    bench.now.wall = bench.now.wall + DurationMs(DAY);
    bench.pass(MINUTE - 5_000);
    assert_eq!(told(&bench), [] as [&str; 0]);
    bench.pass(10_000);
    assert_eq!(told(&bench).len(), 1, "it is believed by now");
}

#[test]
fn where_none_is_made_by_schedule_or_none_was_good_there_is_nothing_that_grows_old() {
    let mut bench = Bench::new();
    bench.stand_still(DAY);
    note(&mut bench, Some("no room"));
    bench.stand_still(DAY);
    assert_eq!(told(&bench), [] as [&str; 0]);
}
