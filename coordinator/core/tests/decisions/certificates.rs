//! Certificates that end soon.

use ledger::command::{AlertKind, Command, On, Over};
use protocol::AgentId;

use crate::bench::{Bench, attach};

const DAY: i64 = 86_400_000;

/// The texts of the alerts about certificates, oldest first.
fn told(bench: &Bench) -> Vec<String> {
    bench.logged(|command| match command {
        Command::RaiseAlert(alert) if alert.kind == AlertKind::CertificateEnds => {
            Some(alert.text.clone())
        }
        _ => None,
    })
}

#[test]
fn a_person_is_told_a_month_before_and_then_once_a_day() {
    let mut bench = Bench::new();
    let soon = bench.certificate(365, 20);
    let conn = bench.connect_with("h1", soon);
    bench.attaches(conn, attach(&[]));
    let later = bench.certificate(365, 31);
    let other = bench.connect_with("h2", later);
    bench.attaches(other, attach(&[]));
    bench.pass(61_000);
    let texts = told(&bench);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("agent h1 ends at"), "{texts:?}");
    bench.stand_still(DAY - 120_000);
    assert_eq!(told(&bench).len(), 1);
    bench.stand_still(120_000);
    bench.stand_still(61_000);
    let texts = told(&bench);
    // By now the other's last month has begun too.
    assert_eq!(texts.len(), 3, "{texts:?}");
}

#[test]
fn who_is_not_there_is_not_told_of_and_a_new_certificate_ends_the_matter() {
    let mut bench = Bench::new();
    let soon = bench.certificate(365, 20);
    let conn = bench.connect_with("h1", soon);
    bench.disconnect(conn);
    bench.pass(61_000);
    assert!(told(&bench).is_empty());
    let conn = bench.connect_with("h1", soon);
    bench.attaches(conn, attach(&[]));
    bench.pass(61_000);
    assert_eq!(told(&bench).len(), 1);
    bench.disconnect(conn);
    let renewed = bench.certificate(365, 300);
    let conn = bench.connect_with("h1", renewed);
    bench.attaches(conn, attach(&[]));
    bench.pass(61_000);
    assert_eq!(told(&bench).len(), 1);
    let agents: Vec<AgentId> = bench.core.working_set().agents.keys().copied().collect();
    let over = bench.logged(|command| match command {
        Command::SettleAlerts(settle) if settle.kind == AlertKind::CertificateEnds => {
            Some(settle.over.clone())
        }
        _ => None,
    });
    let of_agent = Over::These(vec![On::Agent(agents[0])]);
    assert_eq!(over, [of_agent]);
}
