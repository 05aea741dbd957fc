//! Tokens, and the API over TLS, as people use them.

use crate::place::{Place, Said, agent, coordinator, manifest, wait_for};

fn url_of(place: &Place) -> String {
    let file = place.read("data/api.json");
    let (_, rest) = file.split_once("\"url\":\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Where the coordinator listens for agents.
fn agents_of(place: &Place) -> String {
    wait_for("the coordinator to say so", || {
        let log = place.read("coordinator.out");
        let (_, rest) = log.split_once("agents=")?;
        rest.split_once(char::is_whitespace)
            .map(|(address, _)| address.to_owned())
    })
}

/// The coordinator of the identity `c1`, whose API is not on loopback alone.
fn everywhere() -> Vec<&'static str> {
    [&coordinator("data", "0.0.0.0:0")[..], &["--identity", "c1"]].concat()
}

#[test]
fn a_token_lets_in_over_tls_by_the_clusters_own_authority_alone() {
    let place = Place::new();
    for (ca, out) in [("ca", "c1"), ("other-ca", "other")] {
        place.authority(ca, "prod");
        place.issue(ca, "coordinator", "c1", out);
    }
    let mut coordinator = place.start_coordinator("coordinator", &everywhere());
    let url = url_of(&place);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");

    // On its machine nobody names anything.
    let here =
        |arguments: &[&str]| -> Said { place.matins(&[arguments, &["--data", "data"]].concat()) };
    assert_eq!(here(&["get", "jobs", "-o", "json"]).done(), "[]\n");
    let made = here(&[
        "token",
        "create",
        "ci",
        "--role",
        "viewer",
        "-n",
        "fin/*",
        "--expires",
        "1d",
    ]);
    assert!(
        made.stderr.contains("ci: viewer of fin/*, until "),
        "{made:?}"
    );
    place.write("ci.token", &made.done());
    let listed = here(&["token", "list"]).done();
    assert!(listed.contains("ci     viewer  fin/*"), "{listed}");
    here(&["token", "create", "ci", "--role", "admin"])
        .refused_with_remedy(1, &["there is a token `ci` already"]);
    here(&["token", "create", "x", "--role", "root"]).refused(2, &["viewer, operator, admin"]);
    here(&["token", "create", "x", "--role", "viewer", "-n", "a/b"]).refused(2, &["`a/b`"]);

    let elsewhere = |arguments: &[&str], ca: Option<&str>| -> Said {
        let mut command = place.command(arguments);
        command.env("MATINS_API", &url);
        command.env("MATINS_TOKEN_FILE", "ci.token");
        if let Some(ca) = ca {
            command.env("MATINS_CA", ca);
        }
        command.output().unwrap().into()
    };
    let get = ["get", "jobs", "-o", "json"];
    assert_eq!(elsewhere(&get, Some("c1/ca.pem")).done(), "[]\n");
    elsewhere(&get, Some("other/ca.pem"))
        .refused_with_remedy(3, &["is it a coordinator of this cluster"]);
    elsewhere(&get, None).refused_with_remedy(3, &["MATINS_CA"]);
    elsewhere(&get, Some("none.pem")).refused_with_remedy(1, &["none.pem", "MATINS_CA"]);
    elsewhere(&["cordon", "h1", "--reason", "a test"], Some("c1/ca.pem")).refused_with_remedy(
        1,
        &["for the role operator, and the token ci is viewer of fin/*"],
    );

    here(&["token", "revoke", "ci", "--reason", "a test"]).done();
    elsewhere(&get, Some("c1/ca.pem")).refused_with_remedy(1, &["the token ci was revoked at"]);
    let audit = here(&["get", "audit", "-o", "json"]).done();
    assert!(audit.contains("\"from\": \"127.0.0.1\""), "{audit}");

    coordinator.signal("TERM");
    assert_eq!(
        coordinator.wait(),
        Some(0),
        "{}",
        place.read("coordinator.out")
    );
}

#[test]
fn a_host_is_let_in_by_a_token_and_asks_again_with_the_same_key() {
    let place = Place::new();
    place.authority("ca", "prod");
    place.issue("ca", "coordinator", "c1", "c1");
    let start = || place.start_coordinator("coordinator", &everywhere());
    let join = |uses: &str, address: &str| -> Said {
        place.matins(&[
            "token",
            "join",
            "--data",
            "data",
            "--uses",
            uses,
            "--name-prefix",
            "h",
            "--address",
            address,
        ])
    };
    let mut coordinator = start();
    join("1", "127.0.0.1:1").refused_with_remedy(1, &["does not have the key", "ca.key"]);
    coordinator.signal("TERM");
    assert_eq!(
        coordinator.wait(),
        Some(0),
        "{}",
        place.read("coordinator.out")
    );

    std::fs::copy(place.path("ca/ca.key"), place.path("c1/ca.key")).unwrap();
    let _coordinator = start();
    let address = url_of(&place).replace("https://", "");
    let token = join("1", &address).done();
    let token = token.trim();
    let enrol = |token: &str, name: &str, out: &str| -> Said {
        place.matins(&[
            "agent",
            "enrol",
            "--token",
            token,
            "--name",
            name,
            "--identity",
            out,
        ])
    };
    enrol(token, "x1", "x1").refused_with_remedy(1, &["names that begin with `h`"]);
    // Its answer is lost: the key is there, and no certificate.
    enrol(token, "h1", "h1").done();
    std::fs::rename(place.path("h1/key.pem"), place.path("h1/key.pending.pem")).unwrap();
    std::fs::remove_file(place.path("h1/cert.pem")).unwrap();
    enrol(token, "h1", "h1").done();
    assert!(!place.path("h1/key.pending.pem").exists());
    let identity = transport_identity(&place, "h1");
    assert!(identity.contains("h1.agent.prod.matins"), "{identity}");
    enrol(token, "h1", "h1").refused_with_remedy(2, &["holds an identity already"]);

    enrol(token, "h1", "thief").refused_with_remedy(1, &["enrolled before, with another key"]);
    enrol(token, "h2", "h2").refused_with_remedy(1, &["used up"]);
    let other = token
        .replace(",matins_", ",matins_0")
        .replace("0,127", ",127");
    enrol(&other, "h2", "h2").refused_with_remedy(1, &["join token"]);
    let place_of = token.split(',').nth(2).unwrap();
    let pin = "0f".repeat(32);
    enrol(&token.replace(place_of, &pin), "h2", "h2")
        .refused_with_remedy(3, &["no authority of the fingerprint"]);
    enrol("nothing", "h2", "h2").refused(2, &["not a join token"]);

    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    let listed = here(&["token", "join", "list"]).done();
    assert!(
        listed.contains("join-1  agent  0 of 1  h*     used up"),
        "{listed}"
    );
    let spare = join("5", &address).done();
    let revoke = [
        "token",
        "join",
        "revoke",
        "join-2",
        "--reason",
        "it was mailed",
    ];
    assert_eq!(here(&revoke).done(), "join-2 is revoked\n");
    assert_eq!(here(&revoke).done(), "join-2 is revoked already\n");
    enrol(spare.trim(), "h2", "h2").refused_with_remedy(1, &["was revoked at", "token join"]);
    here(&["token", "join", "revoke", "join-9", "--reason", "x"])
        .refused_with_remedy(1, &["no join token join-9", "token join list"]);
    let join = ["cluster", "join", "--name", "c2", "--identity", "c2"];
    let as_control = [&join[..], &["--token", token]].concat();
    place
        .matins(&as_control)
        .refused_with_remedy(2, &["lets in as agent", "matins agent enrol"]);
}

#[test]
fn a_cluster_is_begun_and_control_machines_join_it_under_numbers_of_their_own() {
    let place = Place::new();
    let init = |cluster: &str| {
        place.matins(&[
            "cluster",
            "init",
            "--cluster",
            cluster,
            "--name",
            "c1",
            "--identity",
            "c1",
        ])
    };
    let begun = init("prod");
    assert!(
        begun.stderr.contains("c1.coordinator.prod.matins, node 1"),
        "{begun:?}"
    );
    // It was cut short before it had a certificate.
    std::fs::remove_file(place.path("c1/cert.pem")).unwrap();
    init("lab").refused_with_remedy(2, &["is of the cluster prod"]);
    init("prod").done();
    init("prod").refused_with_remedy(2, &["holds an identity already"]);

    let _coordinator = place.start_coordinator("coordinator", &everywhere());
    let address = url_of(&place).replace("https://", "");
    let token = |role: &str| -> String {
        let made = place.matins(&[
            "token",
            "join",
            "--data",
            "data",
            "--role",
            role,
            "--uses",
            "1",
            "--address",
            &address,
        ]);
        made.done().trim().to_owned()
    };
    let join = |token: &str, name: &str, out: &str| -> Said {
        place.matins(&[
            "cluster",
            "join",
            "--token",
            token,
            "--name",
            name,
            "--identity",
            out,
        ])
    };
    let (second, witness) = (token("coordinator"), token("witness"));
    let joined = join(&second, "c2", "c2");
    let words = |said: &Said| said.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&joined).contains("the coordinator c2, node 2 of the cluster prod"),
        "{joined:?}"
    );
    joined.done();
    // Its answer is lost.
    std::fs::rename(place.path("c2/key.pem"), place.path("c2/key.pending.pem")).unwrap();
    std::fs::remove_file(place.path("c2/cert.pem")).unwrap();
    let again = join(&second, "c2", "c2");
    assert!(words(&again).contains("c2, node 2"), "{again:?}");
    join(&second, "c3", "c3").refused_with_remedy(1, &["used up"]);
    let third = join(&witness, "w", "w");
    assert!(words(&third).contains("the witness w, node 3"), "{third:?}");
    let enrol = [
        "agent",
        "enrol",
        "--token",
        &witness,
        "--name",
        "h1",
        "--identity",
        "h1",
    ];
    place
        .matins(&enrol)
        .refused_with_remedy(2, &["lets in as witness", "matins cluster join"]);
    // Who says that it is another is refused there, too.
    let forged = witness.replace(",witness,", ",coordinator,");
    join(&forged, "c4", "c4").refused_with_remedy(
        1,
        &["lets in as witness, and not as coordinator", "cluster join"],
    );
    let select = "SELECT node, name, role FROM enrolment_view ORDER BY node";
    let known = place.matins(&["sql", "--data", "data", "-o", "json", select]);
    let known = known.done();
    for who in ["\"c2\"", "\"w\"", "\"witness\""] {
        assert!(known.contains(who), "{known}");
    }
}

/// The certificates are good for seconds here, and for a month otherwise.
#[test]
fn a_certificate_is_renewed_while_its_host_works_and_a_revoked_host_gets_none() {
    let place = Place::new();
    let init = ["cluster", "init", "--cluster", "prod", "--name", "c1"];
    place
        .matins(&[&init[..], &["--identity", "c1"]].concat())
        .done();
    let arguments = [&everywhere()[..], &["--certificate-life", "12s"]].concat();
    let _coordinator = place.start_coordinator("coordinator", &arguments);
    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    let address = url_of(&place).replace("https://", "");
    let join = ["token", "join", "--uses", "1", "--address", &address];
    let token = here(&join).done();
    let enrol = ["agent", "enrol", "--name", "h1", "--identity", "h1"];
    place
        .matins(&[&enrol[..], &["--token", token.trim()]].concat())
        .done();
    let first = place.read("h1/cert.pem");

    let _supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    let agents = &agents_of(&place);
    let _agent = place.start("agent", &agent("a", "h1", agents));
    let job = manifest("team/long", "0 0 1 1 *", 1, "[sleep, \"14\"]");
    place.write("jobs/long.yaml", &job);
    here(&["apply", "-f", "jobs"]).done();
    here(&["run", "team/long", "--reason", "a test"]).done();
    let ask = |select: &str| here(&["sql", "-o", "json", select]).done();
    wait_for("the host to have another certificate", || {
        (place.read("h1/cert.pem") != first).then_some(())
    });
    wait_for("the run to end", || {
        let runs = ask("SELECT state FROM run_view");
        runs.contains("succeeded").then_some(())
    });
    // It began with the first certificate, ended after that had, and nothing came between.
    let shards = ask("SELECT attempts FROM shard_view");
    assert!(shards.contains("\"attempts\": 1"), "{shards}");
    let agents = here(&["get", "agents"]).done();
    assert!(agents.contains("ready"), "{agents}");

    here(&["agent", "revoke", "h1", "--reason", "sold"]).done();
    let last = place.read("h1/cert.pem");
    let ended = ask("SELECT certificate_until FROM enrolment_view");
    wait_for("its last certificate to have ended", || {
        let now = ask("SELECT strftime('%Y-%m-%dT%H:%M:%fZ') AS certificate_until");
        (now > ended).then_some(())
    });
    assert_eq!(place.read("h1/cert.pem"), last);
    assert_eq!(ask("SELECT certificate_until FROM enrolment_view"), ended);
}

/// A host's own word against any coordinator's.
#[test]
fn what_the_policy_of_a_host_forbids_is_refused_with_the_reason() {
    let place = Place::new();
    place.authority("ca", "prod");
    for (role, name) in [("coordinator", "c1"), ("agent", "h1")] {
        place.issue("ca", role, name, name);
    }
    let local = [
        &coordinator("data", "127.0.0.1:0")[..],
        &["--identity", "c1"],
    ];
    let _coordinator = place.start_coordinator("coordinator", &local.concat());
    let agents = &agents_of(&place);
    let policy = ["--policy", "policy.toml"];
    let agent = [&agent("a", "h1", agents)[..], &policy].concat();
    place
        .matins(&agent)
        .refused_with_remedy(1, &["reading the policy policy.toml"]);
    place.write(
        "policy.toml",
        "exec = [\"/usr/bin\", \"bin\"]\nclasses = [\"io\"]\n",
    );
    place.matins(&agent).refused_with_remedy(
        1,
        &[
            "line 1: `bin` is not a whole path",
            "line 2: `classes` is no field",
        ],
    );
    place.write("policy.toml", "exec = [\"/usr/bin/true\"]\n");
    let _supervisor = place.start("supervisor", &["supervisor", "--dir", "s"]);
    let _agent = place.start("agent", &agent);
    for (name, exec) in [("good", "/usr/bin/true"), ("bad", "/usr/bin/false")] {
        let job = manifest(
            &format!("team/{name}"),
            "0 0 1 1 *",
            1,
            &format!("[{exec}]"),
        );
        place.write(&format!("jobs/{name}.yaml"), &job);
    }
    let here = |arguments: &[&str]| place.matins(&[arguments, &["--data", "data"]].concat());
    here(&["apply", "-f", "jobs"]).done();
    for name in ["team/good", "team/bad"] {
        here(&["run", name, "--reason", "a test"]).done();
    }
    let ask = |select: &str| here(&["sql", "-o", "json", select]).done();
    wait_for("the good one to succeed", || {
        let runs = ask("SELECT state FROM run_view WHERE name = 'team/good'");
        runs.contains("succeeded").then_some(())
    });
    wait_for("the other to be refused", || {
        let refused = "SELECT outcome, reason FROM attempt_view WHERE name = 'team/bad'";
        let ended = ask(refused);
        let why = "the policy of this host forbids it: `/usr/bin/false` is none of the programs";
        (ended.contains("refused") && ended.contains(why)).then_some(())
    });
}

/// What an agent says of the identity that it would run with.
fn transport_identity(place: &Place, name: &str) -> String {
    let arguments = agent("a", name, "127.0.0.1:1");
    let said = place.matins(&[&arguments[..], &["--name", "somebody"]].concat());
    said.stderr
}
