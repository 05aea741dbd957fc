//! Hosts that say what they are, by themselves, with real processes.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, agent, coordinator, fits, wait_for};

/// A copy of what a kernel tells of a machine with two disks and a mirror of them.
fn write_machine(place: &Place) {
    for (name, content) in [
        ("proc/meminfo", "MemTotal: 67108864 kB\n"),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/block/sda/size", "2097152\n"),
        ("sys/block/sda/queue/rotational", "0\n"),
        ("sys/block/sdb/size", "2097152\n"),
        ("sys/block/sdb/queue/rotational", "0\n"),
        ("sys/block/md0/size", "2097152\n"),
        ("sys/block/md0/md/level", "raid1\n"),
        ("sys/block/md0/md/array_state", "clean\n"),
        ("sys/block/md0/md/raid_disks", "2\n"),
        ("sys/block/md0/md/degraded", "0\n"),
        ("sys/block/md0/md/sync_action", "idle\n"),
    ] {
        place.write(&format!("machine/{name}"), content);
    }
}

#[test]
fn a_host_registers_by_itself_and_tells_what_it_has_lost() {
    let place = Place::new();
    write_machine(&place);
    place.authority("ca", "prod");
    place.issue("ca", "coordinator", "c1", "c1");
    place.issue("ca", "agent", "h1", "h1");
    let arguments = [
        &coordinator("data", "127.0.0.1:0")[..],
        &["--identity", "c1"],
    ]
    .concat();
    let _coordinator = place.start_coordinator("coordinator", &arguments);
    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    let agents = wait_for("the coordinator to say where it listens", || {
        let log = place.read("coordinator.out");
        let (_, rest) = log.split_once("agents=")?;
        let (address, _) = rest.split_once(char::is_whitespace)?;
        Some(address.to_owned())
    });
    let _supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    let looks = ["--hardware-root", "machine", "--look-every", "200ms"];
    let begin = [&agent("a", "h1", &agents)[..], &looks[..]].concat();
    let running = place.start("agent", &begin);
    let host = || {
        let said = here(&["describe", "h1", "--output", "json"]);
        serde_json::from_str::<Value>(&said.stdout).ok()
    };
    let generation = |host: &Value| host["host"]["generation"].as_u64();

    let first = wait_for("the host to register", || {
        host().filter(|host| generation(host) == Some(1))
    });
    let fact = |name: &str| first["profile"]["facts"][name]["known"].clone();
    assert_eq!(fact("cpu.threads"), 4);
    assert_eq!(fact("memory.size_bytes"), 64_u64 << 30);
    let listed = here(&["get", "agents"]).done();
    assert!(
        listed.contains("HEALTH") && listed.contains("64"),
        "{listed}"
    );
    fits(&listed);

    // The same host, started anew, has nothing to tell.
    drop(running);
    let _again = place.start("agent-again", &begin);
    wait_for("the host to be there again", || {
        let log = place.read("agent-again.out");
        log.contains("attached").then_some(())
    });

    fs::remove_dir_all(place.path("machine/sys/block/sdb")).unwrap();
    place.write("machine/sys/block/md0/md/degraded", "1\n");
    let second = wait_for("what was lost to be told", || {
        host().filter(|host| generation(host) == Some(2))
    });
    let changes = second["profile"]["changes"].as_array().unwrap();
    let told = |turn: &str, about: &str| {
        let is = |change: &&Value| {
            change["turn"] == turn && change["about"].as_str().unwrap().contains(about)
        };
        changes.iter().find(is).is_some()
    };
    assert!(told("vanished", "drive"), "{changes:?}");
    assert!(told("worse", "md0"), "{changes:?}");
    // A beat tells it too, and may come later.
    wait_for("a beat to tell that it is degraded", || {
        host().filter(|host| host["profile"]["now"]["health"]["health"] == "degraded")
    });
    assert_eq!(second["host"]["health"], "degraded");

    let alerts = here(&["get", "alerts"]).done();
    assert!(alerts.contains("host_changed"), "{alerts}");
    let shown = here(&["describe", "h1"]).done();
    for word in ["generation 2", "vanished", "degraded", "md0"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    fits(&shown);
    let rows = here(&[
        "sql",
        "-o",
        "json",
        "SELECT count(*) AS n FROM host_profile_view",
    ])
    .done();
    assert!(rows.contains("\"n\": 1"), "{rows}");

    // All of it comes back, and nobody has to clear anything.
    write_machine(&place);
    wait_for("the alert to be over", || {
        let alerts = here(&["get", "alerts"]).done();
        (!alerts.contains("host_changed")).then_some(())
    });
    assert_eq!(generation(&host().unwrap()), Some(3));
}

/// The figures are the agent's own, which it keeps: what the coordinator shows must be these.
#[test]
fn what_was_measured_of_a_host_reaches_the_ledger() {
    let place = Place::new();
    place.authority("ca", "prod");
    place.issue("ca", "coordinator", "c1", "c1");
    place.issue("ca", "agent", "h1", "h1");
    let arguments = [
        &coordinator("data", "127.0.0.1:0")[..],
        &["--identity", "c1"],
    ]
    .concat();
    let _coordinator = place.start_coordinator("coordinator", &arguments);
    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    let agents = wait_for("the coordinator to say where it listens", || {
        let log = place.read("coordinator.out");
        let (_, rest) = log.split_once("agents=")?;
        let (address, _) = rest.split_once(char::is_whitespace)?;
        Some(address.to_owned())
    });
    let _supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    let off = agent("a", "h1", &agents);
    let begin = [
        &off[..off.len() - 2],
        &["--measure", "full", "--look-every", "100ms"],
    ]
    .concat();
    let _agent = place.start("agent", &begin);

    // It is written when all was measured, or could not be.
    let mut kept = wait_for("the host to be measured", || {
        serde_json::from_str::<Value>(&place.read("a/scores.json")).ok()
    });
    // On a busy machine there may be no figure at all: then one is put there.
    let memory = &mut kept["scores"]["memory"];
    if memory["known"].is_null() {
        *memory = json!({"known": {"bytes_per_s": 12_000_000_000_u64, "nodes": []}});
        place.write("a/scores.json", &kept.to_string());
    }
    let scores = &kept["scores"];
    let bandwidth = &scores["memory"]["known"]["bytes_per_s"];
    let host = wait_for("what was measured to be registered", || {
        let said = here(&["describe", "h1", "--output", "json"]);
        let host: Value = serde_json::from_str(&said.stdout).ok()?;
        let told = &host["profile"]["facts"]["memory.bandwidth_bytes_per_s"]["known"];
        (told == bandwidth).then_some(host)
    });
    // One of a busy host that is the worst says nothing of its disk.
    let fsync = &scores["fsync"]["known"];
    let is_busy = fsync["processors_busy_per_mille"].as_u64() > Some(500);
    let is_told = !(is_busy && fsync["grade"] == "D");
    for (fact, measured) in [
        ("cpu.score_single", &scores["cpu"]["known"]["score_single"]),
        ("cpu.score_all", &scores["cpu"]["known"]["score_all"]),
        (
            "memory.bandwidth_bytes_per_s",
            &scores["memory"]["known"]["bytes_per_s"],
        ),
        (
            "disk.random_write_iops",
            &scores["random_writes"]["known"]["durable"]["per_s"],
        ),
        (
            "disk.fsync_p99_us",
            fsync
                .get("p99_us")
                .filter(|_| is_told)
                .unwrap_or(&Value::Null),
        ),
        ("disk.probe_bytes_per_year", &scores["wear"]["bytes_a_year"]),
    ] {
        let told = &host["profile"]["facts"][fact];
        assert_eq!(&told["known"], measured, "{fact}");
        // What could not be measured says why.
        assert!(
            told["known"].is_u64() || told["unknown"].is_string(),
            "{fact}: {told}"
        );
    }
    // Of all that can be measured, syncs need nobody's leave but that of the disk.
    assert!(
        fsync["p99_us"].is_u64() || scores["fsync"]["unknown"].is_string(),
        "{scores}"
    );

    let listed = here(&["get", "agents", "--output", "wide"]).done();
    let shown = here(&["describe", "h1"]).done();
    fits(&shown);
    if let Some(bytes) = scores["wear"]["bytes_a_year"].as_u64() {
        assert!(bytes > 0 && listed.contains("/year"), "{listed}");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.contains("probe writes") && shown.contains("a year"),
            "{shown}"
        );
    }
    let gib_per_s = bandwidth.as_u64().unwrap() as f64 / f64::from(1 << 30);
    assert!(
        listed.contains(&format!("{gib_per_s:.1} GiB/s")),
        "{listed}"
    );
    if is_told && let Some(p99_us) = fsync["p99_us"].as_u64().filter(|us| *us < 1_000) {
        assert!(listed.contains(&format!("{p99_us}us")), "{listed}");
    }
}

/// A tool that is asked says how it was started: as the look that started it.
#[test]
fn who_looks_at_a_host_stands_behind_its_attempts() {
    let place = Place::new();
    let script = "#!/bin/sh\nionice -p $$ >> \"$TOLD\" 2> /dev/null\n\
                  cat /proc/self/stat /proc/self/oom_score_adj >> \"$TOLD\"\n";
    place.write("a/empty", "");
    // One is asked about drives, the other where no chronyd answers.
    for tool in ["bin/smartctl", "bin/chronyc"] {
        place.write(tool, script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(place.path(tool), mode).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", place.path("bin").display());
    // A tool that got no processor in time was killed before it had told.
    for _ in 0..5 {
        let asked = place
            .command(&["look", "--root=/", "--data=a", "--measure=off"])
            .env("PATH", &path)
            .env("TOLD", place.path("told"))
            .output()
            .unwrap();
        assert!(asked.status.success(), "{asked:?}");
        let told = place.read("told");
        let Some((before, oom_score)) = told.trim().rsplit_once('\n') else {
            continue;
        };
        let (_, stat) = before.rsplit_once(')').unwrap();
        // proc_pid_stat(5): the 19th field, of which the first two are gone.
        let niceness: i32 = stat.split_whitespace().nth(16).unwrap().parse().unwrap();
        assert!(niceness >= 10, "{told}");
        assert!(oom_score.parse::<i32>().unwrap() >= 300, "{told}");
        assert!(told.contains("idle") || !told.contains("prio"), "{told}");
        return;
    }
    eprintln!("left out: chronyd answers here, and no drive is asked");
}
