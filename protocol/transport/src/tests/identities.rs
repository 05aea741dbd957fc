//! Files of authorities and identities.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use protocol::{DurationMs, WallMs};

use super::pair::{Authority, loopback, meet, now, said, valid_from};
use crate::ca::{self, CaError, SigningRequest, Subject, Validity};
use crate::{Dialer, Identity, IdentityError, Listener, Role};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_their_owners_alone() {
    let authority = Authority::new("prod");
    authority.issue(Role::Agent, "host-1");
    for (path, expected) in [
        (authority.ca(), 0o700),
        (authority.ca().join("ca.key"), 0o600),
        (authority.ca().join("ca.pem"), 0o644),
        (authority.files("host-1"), 0o700),
        (authority.files("host-1").join("key.pem"), 0o600),
        (authority.files("host-1").join("cert.pem"), 0o644),
        (authority.files("host-1").join("ca.pem"), 0o644),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    // Where a directory of several is made, others may pass through it, as to a policy beside it.
    let home = tempfile::tempdir().unwrap();
    let cluster = "prod".parse().unwrap();
    ca::create(&home.path().join("etc/ca"), &cluster, valid_from(now())).unwrap();
    assert_eq!(mode(&home.path().join("etc")) & 0o055, 0o055);
    assert_eq!(mode(&home.path().join("etc/ca")), 0o700);
    let files = fs::read_dir(authority.files("host-1")).unwrap().count();
    assert_eq!(files, 3, "the authority's key stays where it is");
}

#[test]
fn an_identity_knows_its_name() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Coordinator, "control-1");
    assert_eq!(
        identity.name().to_string(),
        "control-1.coordinator.prod.matins"
    );
    assert_eq!(
        format!("{identity:?}"),
        "Identity(control-1.coordinator.prod.matins)"
    );
}

#[test]
fn the_longest_names_are_good_names() {
    let longest = "x".repeat(63);
    let authority = Authority::new(&longest);
    let identity = authority.issue(Role::Coordinator, &longest);
    assert_eq!(
        identity.name().to_string(),
        format!("{longest}.coordinator.{longest}.matins")
    );
}

#[test]
fn an_authority_is_not_overwritten() {
    let authority = Authority::new("prod");
    let before = fs::read(authority.ca().join("ca.key")).unwrap();
    let cluster = "prod".parse().unwrap();
    for remaining in ["ca.pem", "ca.key"] {
        let error = ca::create(&authority.ca(), &cluster, valid_from(now())).unwrap_err();
        assert!(matches!(error, CaError::Exists { .. }), "{}", said(&error));
        // Half an authority is not overwritten either.
        if remaining == "ca.pem" {
            fs::remove_file(authority.ca().join("ca.pem")).unwrap();
        }
    }
    assert_eq!(fs::read(authority.ca().join("ca.key")).unwrap(), before);
}

#[test]
fn issuing_again_renews() {
    let authority = Authority::new("prod");
    authority.issue_expired(Role::Agent, "host-1");
    let path = authority.files("host-1").join("cert.pem");
    let before = fs::read(&path).unwrap();
    authority.issue(Role::Agent, "host-1");
    assert_ne!(fs::read(&path).unwrap(), before);
}

#[test]
fn validity_that_makes_no_sense_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = "prod".parse().unwrap();
    let day = DurationMs::from_secs(86_400);
    for (now, lifetime) in [
        (now(), DurationMs::ZERO),
        (now(), DurationMs(-1)),
        (now(), DurationMs(i64::MAX)),
        (WallMs(0), day),
        (WallMs(i64::MIN), day),
        (WallMs(i64::MAX), day),
    ] {
        let result = ca::create(directory.path(), &cluster, Validity { now, lifetime });
        assert!(
            matches!(
                result,
                Err(CaError::Lifetime { .. } | CaError::Clock { .. })
            ),
            "{now} {lifetime}"
        );
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_key_of_another_authority_signs_nothing() {
    let authority = Authority::new("prod");
    let other = Authority::new("prod");
    fs::copy(other.ca().join("ca.key"), authority.ca().join("ca.key")).unwrap();
    let out = authority.files("host-1");
    let error = ca::issue(
        &authority.ca(),
        &Subject::new(Role::Agent, &"host-1".parse().unwrap()),
        &out,
        valid_from(now()),
    )
    .unwrap_err();
    assert!(
        matches!(error, CaError::Mismatch { .. }),
        "{}",
        said(&error)
    );
    assert!(!out.exists());
}

/// What an identity's directory can look like when something went wrong, and what is said then.
#[test]
fn files_that_do_not_belong_together_are_refused() {
    type Spoil = fn(&Path, &Path);
    let cases: [(&str, Spoil, &str); 7] = [
        (
            "key missing",
            |own, _| fs::remove_file(own.join("key.pem")).unwrap(),
            "reading ",
        ),
        (
            "key open to everybody",
            |own, _| {
                let mode = fs::Permissions::from_mode(0o644);
                fs::set_permissions(own.join("key.pem"), mode).unwrap();
            },
            "is open to everybody (mode 644); make it private: chmod 600",
        ),
        (
            "key of somebody else",
            |own, other| copy(other, own, "key.pem"),
            "does not belong to",
        ),
        (
            "authority of another cluster",
            |own, other| copy(other, own, "ca.pem"),
            "is not signed by an authority in",
        ),
        (
            "certificate empty",
            |own, _| fs::write(own.join("cert.pem"), "").unwrap(),
            "holds no certificate",
        ),
        (
            "certificate garbage",
            |own, _| {
                let garbage = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
                fs::write(own.join("cert.pem"), garbage).unwrap();
            },
            "reading PEM from",
        ),
        (
            "an authority's certificate for the own one",
            |own, _| {
                fs::copy(own.join("ca.pem"), own.join("cert.pem")).unwrap();
            },
            "does not state exactly one name of the form <name>.<role>.<cluster>.matins; its names: [prod.matins]",
        ),
    ];
    fn copy(from: &Path, to: &Path, file: &str) {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    for (case, spoil, expected) in cases {
        let (authority, other) = (Authority::new("prod"), Authority::new("prod"));
        authority.issue(Role::Agent, "host-1");
        other.issue(Role::Agent, "host-1");
        spoil(&authority.files("host-1"), &other.files("host-1"));
        let error: IdentityError = Identity::load(&authority.files("host-1")).unwrap_err();
        assert!(said(&error).contains(expected), "{case}: {}", said(&error));
    }
}

#[test]
fn a_control_machine_knows_its_number() {
    let authority = Authority::new("prod");
    let issue = |subject: Subject, files: &str| {
        let out = authority.files(files);
        ca::issue(&authority.ca(), &subject, &out, valid_from(now())).unwrap();
        Identity::load(&out).unwrap().node()
    };
    let name = "c1".parse().unwrap();
    for (role, given, expected) in [
        (Role::Coordinator, None, Some(1)),
        (Role::Coordinator, Some(7), Some(7)),
        (Role::Witness, Some(3), Some(3)),
        (Role::Agent, None, None),
    ] {
        let subject = Subject::new(role, &name).node(given);
        assert_eq!(issue(subject, role.as_str()), expected, "{role} {given:?}");
    }
}

/// A certificate of the identity's own key, for so many days from now.
fn next(authority: &Authority, identity: &Identity, subject: &Subject, days: i64) -> String {
    let validity = Validity {
        now: now(),
        lifetime: DurationMs::from_secs(days * 86_400),
    };
    issue(authority, identity, subject, validity)
}

fn issue(
    authority: &Authority,
    identity: &Identity,
    subject: &Subject,
    validity: Validity,
) -> String {
    let request = SigningRequest::of_own(identity).unwrap();
    let issued = request.sign(&authority.ca(), subject, validity).unwrap();
    issued.certificate
}

#[test]
fn an_identity_goes_on_with_the_next_certificate_of_its_key_and_with_no_other() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Agent, "host-1");
    let subject = |role, name: &str| Subject::new(role, &name.parse().unwrap());
    let own = subject(Role::Agent, "host-1");
    let stranger = authority.issue(Role::Agent, "host-2");
    let before = identity.lifetime();
    let file = authority.files("host-1").join("cert.pem");
    let written = fs::read(&file).unwrap();
    let elsewhere = Authority::new("prod");
    let ended = Validity {
        now: now() - DurationMs::from_secs(2 * 86_400),
        lifetime: DurationMs::from_secs(86_400),
    };
    for (certificate, why) in [
        (
            next(&authority, &identity, &subject(Role::Agent, "h2"), 900),
            "it is for h2.agent.prod.matins",
        ),
        (
            next(
                &authority,
                &identity,
                &subject(Role::Witness, "host-1"),
                900,
            ),
            "it is for host-1.witness.prod.matins",
        ),
        (
            next(&authority, &stranger, &own, 900),
            "not of the key that is here: ",
        ),
        (
            next(&elsewhere, &identity, &own, 900),
            "not good by ca.pem at this moment: UnknownIssuer",
        ),
        (
            issue(&authority, &identity, &own, ended),
            "not good by ca.pem at this moment: CertExpired",
        ),
        (
            next(&authority, &identity, &own, 1),
            "no later than the one",
        ),
        ("nothing".to_owned(), "no certificate"),
    ] {
        let error = identity.take_renewed(&certificate).unwrap_err();
        assert!(said(&error).contains(why), "{why}: {}", said(&error));
        assert_eq!(identity.lifetime(), before);
        assert_eq!(fs::read(&file).unwrap(), written);
    }
    let control = authority.issue(Role::Coordinator, "control-1");
    let other = subject(Role::Coordinator, "control-1").node(7);
    let other = next(&authority, &control, &other, 900);
    let error = said(&control.take_renewed(&other).unwrap_err());
    let why = "it is for control-1.coordinator.prod.matins (node 7)";
    assert!(error.contains(why), "{error}");

    let clone = identity.clone();
    let renewed = identity
        .take_renewed(&next(&authority, &identity, &own, 900))
        .unwrap();
    assert!(renewed.until > before.until);
    assert_eq!(clone.lifetime(), renewed);
    let again = Identity::load(&authority.files("host-1")).unwrap();
    assert_eq!(again.lifetime(), renewed);
}

/// What has been made of an identity shows the new certificate, too.
#[tokio::test]
async fn the_next_handshakes_show_the_renewed_certificates_and_open_connections_stay() {
    let authority = Authority::new("prod");
    let control = authority.issue(Role::Coordinator, "control-1");
    let host = authority.issue(Role::Agent, "host-1");
    let listener = Listener::bind(loopback(), &control, Role::Agent).unwrap();
    let dialer = Dialer::new(&host).unwrap();
    let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
    let (old, old_accepted) = (dialed.unwrap().1, accepted.unwrap().1);
    assert_eq!(old.peer_lifetime(), control.lifetime());

    for (identity, role, name) in [
        (&control, Role::Coordinator, "control-1"),
        (&host, Role::Agent, "host-1"),
    ] {
        let subject = Subject::new(role, &name.parse().unwrap());
        let certificate = next(&authority, identity, &subject, 900);
        identity.take_renewed(&certificate).unwrap();
    }
    let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
    let (new, new_accepted) = (dialed.unwrap().1, accepted.unwrap().1);
    assert_eq!(new.peer_lifetime(), control.lifetime());
    assert_eq!(new_accepted.peer_lifetime(), host.lifetime());
    assert!(new.lifetime().until > old.lifetime().until);
    // Whoever is asked for it by the connection alone signs for the same key.
    let request = new_accepted.renewal_of_peer().unwrap();
    let own = SigningRequest::of_own(&host).unwrap();
    assert_eq!(request.key_digest(), own.key_digest());
    // Nothing has ended.
    for open in [&old, &old_accepted] {
        let closed = tokio::time::timeout(Duration::ZERO, open.closed()).await;
        assert!(closed.is_err(), "{closed:?}");
    }
}
