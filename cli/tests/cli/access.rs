//! Tokens, and the API over TLS, as people use them.

use crate::place::{Place, Said, coordinator};

fn url_of(place: &Place) -> String {
    let file = place.read("data/api.json");
    let (_, rest) = file.split_once("\"url\":\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
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
        command.env("MATINS_URL", &url);
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
}

/// What an agent says of the identity that it would run with.
fn transport_identity(place: &Place, name: &str) -> String {
    let said = place.matins(&[
        "agent",
        "--data",
        "a",
        "--identity",
        name,
        "--coordinator",
        "127.0.0.1:1",
        "--supervisor",
        "s",
        "--slots",
        "1",
        "--name",
        "somebody",
    ]);
    said.stderr
}
