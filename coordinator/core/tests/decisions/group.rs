//! What is told of the machines of the control group.

use coordinator_core::SeenMember;
use ledger::command::{AlertKind, Command};
use protocol::{BootMs, DurationMs};

use crate::bench::Bench;

const SECOND: i64 = 1_000;
const DAY: i64 = 86_400 * SECOND;

/// For so many seconds the shell finds the members so, every second.
fn find(bench: &mut Bench, seconds: i64, seen: impl Fn(BootMs) -> SeenMember) {
    for _ in 0..seconds {
        bench.stand_still(SECOND);
        let now = bench.now;
        bench.core.handle_group(&[seen(now.boot)], now);
        bench.settle();
    }
}

fn witness(now: BootMs) -> SeenMember {
    SeenMember {
        node: 3,
        name: "w".to_owned(),
        heard: Some(now),
        behind: Some(0),
        ..SeenMember::default()
    }
}

/// What was said of a kind: the texts of its alerts, and `over`.
fn said(bench: &Bench, kind: AlertKind) -> Vec<String> {
    bench.logged(|command| match command {
        Command::RaiseAlert(alert) if alert.kind == kind => Some(alert.text.clone()),
        Command::SettleAlerts(settled) if settled.kind == kind => Some("over".to_owned()),
        _ => None,
    })
}

#[test]
fn a_machine_that_is_away_for_a_minute_is_told_of_once_until_it_is_back() {
    let kind = AlertKind::MemberMissing;
    let mut bench = Bench::new();
    let gone = bench.now.boot;
    let away = |_| SeenMember {
        heard: Some(gone),
        ..witness(gone)
    };
    find(&mut bench, 60, away);
    assert_eq!(said(&bench, kind), [] as [&str; 0]);
    find(&mut bench, 10, away);
    let told = said(&bench, kind);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("w (node 3) is not heard any more: start it again"),
        "{told:?}"
    );
    find(&mut bench, 60, away);
    assert_eq!(said(&bench, kind).len(), 1);
    find(&mut bench, 1, witness);
    assert_eq!(said(&bench, kind)[1..], ["over"]);
    find(&mut bench, 60, witness);
    assert_eq!(said(&bench, kind).len(), 2);

    // It is reminded of once a day.
    find(&mut bench, 70, away);
    assert_eq!(said(&bench, kind).len(), 3);
    bench.stand_still(DAY);
    find(&mut bench, 1, away);
    assert_eq!(said(&bench, kind).len(), 4);
}

/// What the leader before has found may be so still.
#[test]
fn a_new_leader_says_that_it_is_over_when_it_has_looked_itself() {
    let kind = AlertKind::MemberMissing;
    let mut bench = Bench::new();
    find(&mut bench, 50, witness);
    assert_eq!(said(&bench, kind), [] as [&str; 0]);
    find(&mut bench, 10, witness);
    assert_eq!(said(&bench, kind), ["over"]);
}

#[test]
fn each_other_trouble_is_told_after_its_time() {
    for (kind, ails, seconds, text) in [
        (
            AlertKind::MemberBehind,
            SeenMember {
                behind: Some(1_000),
                ..SeenMember::default()
            },
            120,
            "w (node 3) is heard, and lacks 1000 entries",
        ),
        (
            AlertKind::RoomShort,
            SeenMember {
                spare_bytes: Some(512 << 20),
                ..SeenMember::default()
            },
            0,
            "the ledger's disk of w (node 3) has 512 MiB left: make room",
        ),
        (
            AlertKind::AddressAway,
            SeenMember {
                address_trouble: Some("eth0 has no carrier".to_owned()),
                ..SeenMember::default()
            },
            15,
            "the leader's address cannot be on w (node 3): eth0 has no carrier",
        ),
        (
            AlertKind::ClassesDiffer,
            SeenMember {
                other_classes: Some("1d8adde6".to_owned()),
                ..SeenMember::default()
            },
            300,
            "w (node 3) goes by other classes of hosts (digest 1d8adde6) than",
        ),
        (
            AlertKind::MemberUnfit,
            SeenMember {
                unfit: Some("disk.fsync_grade is D".to_owned()),
                ..SeenMember::default()
            },
            60,
            "w (node 3) is not of class coordinator: disk.fsync_grade is D: it takes part",
        ),
    ] {
        let mut bench = Bench::new();
        let ailing = |now| SeenMember {
            heard: Some(now),
            node: 3,
            name: "w".to_owned(),
            ..ails.clone()
        };
        find(&mut bench, seconds, ailing);
        assert_eq!(said(&bench, kind), [] as [&str; 0], "{kind:?}");
        find(&mut bench, 1, ailing);
        let told = said(&bench, kind);
        assert_eq!(told.len(), 1, "{kind:?}");
        assert!(told[0].starts_with(text), "{told:?}");
        find(&mut bench, 1, witness);
        assert_eq!(said(&bench, kind)[1..], ["over"], "{kind:?}");
    }
}

#[test]
fn a_control_machine_that_does_not_renew_its_certificate_is_told_of_before_it_ends() {
    let kind = AlertKind::CertificateEnds;
    let mut bench = Bench::new();
    let with = |certificate| {
        move |now| SeenMember {
            certificate: Some(certificate),
            ..witness(now)
        }
    };
    let (long, short) = (bench.certificate(30, 5), bench.certificate(30, 2));
    find(&mut bench, 70, with(long));
    // What the leader before has told of may be over.
    assert_eq!(said(&bench, kind), ["over"]);
    find(&mut bench, 70, with(short));
    let told = said(&bench, kind);
    assert_eq!(told.len(), 2, "{told:?}");
    let text = format!("the certificate of w (node 3) ends at {}", short.until);
    assert!(told[1].starts_with(&text), "{told:?}");
    find(&mut bench, 10, with(long));
    assert_eq!(said(&bench, kind)[2..], ["over"]);
}

#[test]
fn by_a_clock_that_is_not_believed_no_certificate_ends_and_none_is_renewed() {
    let kind = AlertKind::CertificateEnds;
    let mut bench = Bench::new();
    let certificate = bench.certificate(30, 20);
    let seen = move |now| SeenMember {
        certificate: Some(certificate),
        ..witness(now)
    };
    find(&mut bench, 70, seen);
    let before = said(&bench, kind);
    bench.now.wall = bench.now.wall + DurationMs(19 * DAY);
    find(&mut bench, 50, seen);
    bench.now.wall = bench.now.wall - DurationMs(19 * DAY);
    find(&mut bench, 70, seen);
    assert_eq!(said(&bench, kind), before);
}
