use protocol::HostFacts;
use protocol::host::{FACTS, Value};

use super::*;

fn facts(known: &[(&'static str, Value)], unknown: &[(&'static str, &str)]) -> HostFacts {
    let mut facts = HostFacts::default();
    for (name, value) in known {
        facts.know(name, value.clone());
    }
    for (name, why) in unknown {
        facts.miss(name, *why);
    }
    facts
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A class `x` of this body, and how a host of these facts stands to it, a line each finding.
fn check(body: &str, facts: &HostFacts, member: bool, expected: &[&str]) {
    let file = format!("[class.x]\nabout = \"a trial\"\n{body}\n");
    let classes = Classes::parse("t.toml", &file).unwrap();
    let membership = classes.of(facts);
    let standing = membership.standing(&"x".parse().unwrap()).unwrap();
    let says: Vec<String> = standing
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.kind.as_str(), finding.says))
        .collect();
    assert_eq!(says, expected, "{body}");
    assert_eq!(standing.member, member, "{body}");
}

#[test]
fn conditions_meet_facts() {
    let host = facts(
        &[
            ("cpu.usable_milli", Value::Number(8000)),
            ("memory.usable_bytes", Value::Number(32 << 30)),
            ("memory.ecc", Value::Truth(false)),
            ("disk.medium", text("hdd")),
            ("disk.fsync_grade", text("C")),
            ("clock.bound_us", Value::Number(1_000_001)),
            ("host.kernel", text("6.1.0")),
            ("clock.verdict", text("dreaming")),
        ],
        &[("power.supplies", "no tool tells")],
    );
    for (rule, met) in [
        ("memory.usable_bytes >= 32GiB", Ok(())),
        (
            "memory.usable_bytes > 32GiB",
            Err("failed: memory.usable_bytes is 32GiB and must be above 32GiB"),
        ),
        ("memory.usable_bytes < 33GiB", Ok(())),
        ("memory.usable_bytes per cpu >= 4GiB", Ok(())),
        (
            "memory.usable_bytes per cpu > 4GiB",
            Err("failed: memory.usable_bytes per cpu is 4GiB and must be above 4GiB"),
        ),
        (
            "memory.usable_bytes per cpu <= 3GiB",
            Err("failed: memory.usable_bytes per cpu is 4GiB and must be at most 3GiB"),
        ),
        (
            "cpu.usable_milli != 8000",
            Err("failed: cpu.usable_milli is 8000 and must be other than 8000"),
        ),
        (
            "clock.bound_us <= 1s",
            Err("failed: clock.bound_us is 1000001 and must be at most 1s"),
        ),
        ("memory.ecc = false", Ok(())),
        (
            "memory.ecc = true",
            Err("failed: memory.ecc is false and must be true"),
        ),
        ("disk.medium in ssd, hdd", Ok(())),
        (
            "disk.medium = ssd",
            Err("failed: disk.medium is hdd and must be ssd"),
        ),
        ("disk.fsync_grade better than D", Ok(())),
        (
            "disk.fsync_grade better than C",
            Err("failed: disk.fsync_grade is C and must be better than C"),
        ),
        ("disk.fsync_grade worse than B", Ok(())),
        ("disk.fsync_grade not in A, B", Ok(())),
        ("host.kernel = 6.1.0", Ok(())),
        (
            "host.kernel in 5.10, 6.6",
            Err("failed: host.kernel is 6.1.0 and must be 5.10 or 6.6"),
        ),
        (
            "power.supplies >= 2",
            Err("unjudged: power.supplies is unknown, no tool tells"),
        ),
        (
            "disk.free_bytes >= 1GiB",
            Err("failed: disk.free_bytes does not apply to it and must be at least 1GiB"),
        ),
        (
            "clock.verdict = synchronised",
            Err(
                "unjudged: clock.verdict is unknown, `dreaming` is not a value that this version knows",
            ),
        ),
    ] {
        let body = format!("require = [\"{rule}\"]");
        match met {
            Ok(()) => check(&body, &host, true, &[]),
            Err(says) => check(&body, &host, false, &[says]),
        }
    }
}

#[test]
fn what_is_refused_and_what_is_warned_of() {
    let host = facts(
        &[("storage.redundant", Value::Truth(false))],
        &[("disk.fsync_grade", "it was not measured")],
    );
    for (list, rule, member, says) in [
        (
            "refuse",
            "storage.redundant = false",
            false,
            "failed: storage.redundant is false: alone",
        ),
        (
            "warn",
            "storage.redundant = false",
            true,
            "warning: storage.redundant is false: alone",
        ),
        (
            "refuse",
            "disk.fsync_grade worse than C",
            false,
            "unjudged: disk.fsync_grade is unknown, it was not measured",
        ),
        (
            "warn",
            "disk.fsync_grade worse than C",
            true,
            "unwarned: disk.fsync_grade is unknown, it was not measured",
        ),
    ] {
        let body = format!("{list} = [{{ rule = \"{rule}\", because = \"alone\" }}]");
        check(&body, &host, member, &[says]);
    }
    // What does not apply is neither refused nor warned of.
    check(
        "refuse = [\"power.supplies <= 1\"]\nwarn = [\"power.supplies <= 1\"]",
        &host,
        true,
        &[],
    );
}

#[test]
fn any_holds_whatever_is_unknown_of_the_others() {
    let host = facts(
        &[
            ("cpu.cores", Value::Number(4)),
            ("disk.medium", text("ssd")),
        ],
        &[("disk.fsync_grade", "not measured")],
    );
    let [yes, no, unknown] = ["cpu.cores = 4", "disk.medium = hdd", "disk.fsync_grade = A"];
    let failed = "failed: disk.medium is ssd and must be hdd";
    let unjudged = "unjudged: disk.fsync_grade is unknown, not measured";
    for (kind, parts, says) in [
        ("any", vec![yes, no, unknown], None),
        ("any", vec![no, unknown], Some(unjudged)),
        ("any", vec![no, no], Some(failed)),
        ("all", vec![yes, yes], None),
        ("all", vec![yes, unknown], Some(unjudged)),
        ("all", vec![yes, no, unknown], Some(failed)),
    ] {
        let parts: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
        let body = format!("require = [{{ {kind} = [{}] }}]", parts.join(", "));
        match says {
            None => check(&body, &host, true, &[]),
            Some(says) => check(&body, &host, false, &[says]),
        }
    }
    let nested = "require = [{ any = [\"disk.medium = hdd\", { all = [\"cpu.cores = 4\", \"disk.medium = ssd\"] }] }]";
    check(nested, &host, true, &[]);
}

#[test]
fn a_host_that_has_told_nothing_cannot_be_judged() {
    let nothing = HostFacts::default();
    let membership = Classes::built_in().of(&nothing);
    let classes: Vec<&str> = membership.classes().map(ClassName::as_str).collect();
    assert_eq!(classes, ["general"]);
    let standing = membership.standing(&"io".parse().unwrap()).unwrap();
    assert!(standing.cannot_be_judged());
    assert_eq!(
        standing.findings[0].says,
        "disk.random_write_iops is unknown, the host has not told what it is"
    );
}

fn machine(cores: i64, gib: i64, iops: i64) -> HostFacts {
    facts(
        &[
            ("cpu.usable_milli", Value::Number(cores * 1000)),
            (
                "memory.usable_bytes",
                Value::Number((gib << 30) - (gib << 24)),
            ),
            ("disk.random_write_iops", Value::Number(iops)),
        ],
        &[],
    )
}

#[test]
fn machines_are_in_the_classes_that_a_planner_would_put_them_in() {
    for (host, expected) in [
        (machine(2, 4, 300), "general"),
        (machine(32, 64, 200), "cpu general"),
        (machine(8, 128, 200), "general memory"),
        (machine(64, 256, 200), "cpu general"),
        (machine(64, 1024, 200), "cpu general memory"),
        (machine(8, 32, 20_000), "general io"),
        (machine(64, 512, 50_000), "cpu general io memory"),
    ] {
        let membership = Classes::built_in().of(&host);
        let classes: Vec<&str> = membership.classes().map(ClassName::as_str).collect();
        assert_eq!(classes.join(" "), expected, "{host:?}");
    }
}

#[test]
fn a_site_replaces_what_it_names_and_keeps_the_rest() {
    let file = "[class.io]\nabout = \"ours\"\nrequire = [\"disk.medium = ssd\"]\n[class.big]\nabout = \"many\"\n[health]\ncordon = \"never\"\n";
    let classes = Classes::parse("t.toml", file).unwrap();
    let names: Vec<(&str, bool)> = classes
        .iter()
        .map(|(name, class)| (name.as_str(), class.built_in))
        .collect();
    assert_eq!(
        names,
        [
            ("big", false),
            ("coordinator", true),
            ("cpu", true),
            ("general", true),
            ("io", false),
            ("memory", true)
        ]
    );
    let io = classes.class(&"io".parse().unwrap()).unwrap();
    assert_eq!(io.require[0].written(), "disk.medium = ssd");
    assert!(io.warn.is_empty(), "nothing of the built-in one is left");
    assert_eq!(classes.health.cordon, None);
    assert_eq!(classes.health.alarm, Some(protocol::Health::Degraded));
    assert_eq!(Classes::parse("t.toml", "").unwrap(), Classes::built_in());
}

#[test]
fn every_rule_is_written_as_it_reads_back() {
    for (_, class) in Classes::built_in().iter() {
        for rule in class.require.iter().chain(&class.refuse).chain(&class.warn) {
            let written = rule.written();
            if let Ok(read) = condition::parse(&written) {
                assert_eq!(read.written(), written);
            } else {
                assert!(written.starts_with("any of"), "{written}");
            }
        }
    }
}

#[test]
fn classes_are_read_back_from_what_is_shown_of_them() {
    let file = "[class.io]\nabout = \"ours\"\nrequire = [\"disk.medium not in hdd\", \
                { any = [\"cpu.usable_milli >= 4000\", { all = [\"memory.ecc = true\", \"clock.bound_us <= 5ms\"] }], \
                because = \"so; (so)\" }]\nrefuse = [\"host.kernel = 5.4 (old)\"]\n[health]\ncordon = \"never\"\n";
    for classes in [Classes::built_in(), Classes::parse("t.toml", file).unwrap()] {
        let shown = classes.show(None, []);
        assert_eq!(Classes::read_shown(&shown), Ok(classes));
    }
    let check = |change: &dyn Fn(&mut protocol::api::Classes), expected: &str| {
        let mut shown = Classes::built_in().show(None, []);
        change(&mut shown);
        let refused = Classes::read_shown(&shown).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    };
    check(&|shown| shown.classes[0].require.clear(), "digest");
    check(
        &|shown| shown.classes[1].require[0].rule = "cpu.colour = red".to_owned(),
        "`cpu.colour",
    );
    check(
        &|shown| shown.health.alarm = Some("poorly".to_owned()),
        "`poorly` is not a health",
    );
    check(
        &|shown| {
            let deep = ["any of (", "all of (", "any of (", "all of (", "))))"].concat();
            shown.classes[1].require[0].rule = deep;
        },
        "too deep",
    );
}

#[test]
fn every_fact_can_be_asked_for() {
    use protocol::host::Form;
    for spec in FACTS {
        let value = match spec.form {
            Form::Truth => "true",
            Form::Number => "1",
            Form::Word(words) => words[0],
            Form::Text => "x",
        };
        let written = format!("{} = {value}", spec.name);
        let read = condition::parse(&written);
        assert!(read.is_ok(), "{written}: {read:?}");
    }
}
mod wrong;
