//! What is told of a job when it is put: that it would find no place however long it waited.

use coordinator_core::{Doubt, Request};
use ledger::Cordon;
use protocol::host::Value;

use crate::bench::{Bench, agent_name, manifest};

const GIB: i64 = 1 << 30;

/// What is told of a job that needs this.
fn doubt(bench: &Bench, needs: &str) -> Option<Doubt> {
    let manifest = manifest("t/j", &format!("needs: {needs}"));
    bench.core.doubt(&manifest, bench.now)
}

fn memory(gib: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("memory.usable_bytes", Value::Number(gib * GIB)),
        ("cpu.usable_milli", Value::Number(8000)),
    ]
}

#[test]
fn what_no_host_is_and_nothing_has_enough_of_is_told() {
    let mut bench = Bench::new();
    for (host, gib) in [("h1", 8), ("h2", 32)] {
        bench.attach(host);
        bench.registers(host, &memory(gib));
    }
    for (needs, expected) in [
        ("{ cpu: 8, memory: 28GiB }", None),
        (
            "{ class: ledger }",
            Some((
                "no_such_class",
                "needs.class",
                "there is no class `ledger`: `matins classes` lists those there are",
            )),
        ),
        (
            "{ memory: 64GiB }",
            Some((
                "no_host",
                "needs",
                "no host is what it asks for: 2 hosts considered: 2 too small for 64GiB of memory \
                 (the largest offers 28.2GiB)",
            )),
        ),
        (
            "{ class: general, labels: [gpu] }",
            Some((
                "no_host",
                "needs",
                "no host is what it asks for: 2 hosts considered: 2 without label `gpu`",
            )),
        ),
    ] {
        let told = doubt(&bench, needs);
        let says = told.as_ref().map(ToString::to_string);
        let told = told
            .as_ref()
            .zip(says.as_deref())
            .map(|(doubt, says)| (doubt.kind(), doubt.field(), says));
        assert_eq!(told, expected, "{needs}");
    }
}

#[test]
fn what_passes_is_no_reason_to_warn() {
    let mut bench = Bench::new();
    let wants = "{ memory: 7GiB }";
    let told = |bench: &Bench| doubt(bench, wants).is_some();
    assert!(!told(&bench), "no host is known");

    let host = bench.attach("h1");
    assert!(!told(&bench), "it has not told what it is");
    bench.registers("h1", &memory(4));
    assert!(told(&bench));
    bench.registers("h1", &memory(8));
    assert!(!told(&bench));

    // Full, cordoned, and gone for the moment.
    bench.job("t/full", &format!("needs: {wants}"));
    bench.run("t/full");
    assert_eq!(bench.starts(host).len(), 1);
    assert!(!told(&bench));
    bench
        .asked(Request::Cordon {
            agent: agent_name("h1"),
            cordon: Cordon::Cordoned,
            by: "ada".to_owned(),
            reason: "a disk".to_owned(),
        })
        .unwrap();
    assert!(!told(&bench));
    bench.pass(60_000);
    assert!(!told(&bench));

    // One that is revoked is no host any more.
    bench.attach("h2");
    bench.registers("h2", &memory(4));
    bench
        .asked(Request::RevokeAgent {
            agent: agent_name("h1"),
            by: "ada".to_owned(),
            reason: "sold".to_owned(),
        })
        .unwrap();
    assert_eq!(
        doubt(&bench, wants).unwrap().to_string(),
        "no host is what it asks for: 1 host considered: 1 too small for 7GiB of memory (the largest \
         offers 3.5GiB)"
    );
}
