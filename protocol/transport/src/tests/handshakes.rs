//! Who is let in, who is not, and what each side says about it.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use protocol::DurationMs;
use quinn::crypto::rustls::QuicClientConfig;
use tokio::sync::oneshot;

use super::pair::{Authority, Pair, bounded, loopback, meet, now, said, valid_from};
use crate::ca::{self, CERTIFICATE_LIFETIME, Subject};
use crate::settings::{self, End};
use crate::tls;
use crate::{CloseReason, Connection, Dialer, Identity, ListenError, Listener, Role, Wanted};

#[tokio::test]
async fn both_sides_learn_the_others_name() {
    let pair = Pair::new().await;
    assert_eq!(
        pair.agent_sees.to_string(),
        "control-1.coordinator.prod.matins"
    );
    assert_eq!(
        pair.coordinator_sees.to_string(),
        "host-1.agent.prod.matins"
    );
    assert_eq!(
        pair.agent.remote_address(),
        pair.listener.local_addr(),
        "the agent reached the listener"
    );
}

/// One attempt that must fail: the identities of both sides, the roles they want, and what each
/// side must say.
struct Refusal {
    case: &'static str,
    listener: Identity,
    admitted: Wanted,
    dialer: Identity,
    expected: Wanted,
    dialer_says: &'static str,
    listener_says: &'static str,
}

async fn check_refusal(refusal: Refusal) {
    let listener = Listener::bind_as_is(loopback(), &refusal.listener, refusal.admitted).unwrap();
    let dialer = Dialer::new(&refusal.dialer).unwrap();
    let (dialed, accepted) = meet(&listener, &dialer, refusal.expected).await;
    for (side, error, expected) in [
        (
            "dialer",
            dialed.err().map(|e| said(&e)),
            refusal.dialer_says,
        ),
        (
            "listener",
            accepted.err().map(|e| said(&e)),
            refusal.listener_says,
        ),
    ] {
        let case = refusal.case;
        let error = error.unwrap_or_else(|| panic!("{case}: the {side} was content"));
        assert!(error.contains(expected), "{case}: the {side} said: {error}");
    }
}

#[tokio::test]
async fn another_authority_is_refused() {
    // The same cluster's name, so that only the key tells them apart.
    let (ours, theirs) = (Authority::new("prod"), Authority::new("prod"));
    check_refusal(Refusal {
        case: "a coordinator of another authority",
        listener: theirs.issue(Role::Coordinator, "control-1"),
        admitted: Role::Agent.into(),
        dialer: ours.issue(Role::Agent, "host-1"),
        expected: Role::Coordinator.into(),
        dialer_says: "its certificate is not signed by an authority",
        listener_says: "this side's certificate is not signed by an authority",
    })
    .await;
}

/// An agent that trusts both authorities while the coordinator trusts its own alone.
#[tokio::test]
async fn an_agent_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new("prod"), Authority::new("prod"));
    let coordinator = ours.issue(Role::Coordinator, "control-1");
    theirs.issue(Role::Agent, "host-1");
    trust_also(&theirs, "host-1", &ours);
    check_refusal(Refusal {
        case: "an agent of another authority",
        listener: coordinator,
        admitted: Role::Agent.into(),
        dialer: Identity::load(&theirs.files("host-1")).unwrap(),
        expected: Role::Coordinator.into(),
        dialer_says: "this side's certificate is not signed by an authority",
        listener_says: "its certificate is not signed by an authority",
    })
    .await;
}

/// Both sides trust both authorities, as if somebody had put them in one file: the cluster in the
/// names still keeps them apart.
#[tokio::test]
async fn another_cluster_is_refused_even_when_its_authority_is_trusted() {
    let (ours, theirs) = (Authority::new("prod"), Authority::new("test"));
    ours.issue(Role::Agent, "host-1");
    theirs.issue(Role::Coordinator, "control-1");
    trust_also(&ours, "host-1", &theirs);
    trust_also(&theirs, "control-1", &ours);
    check_refusal(Refusal {
        case: "a coordinator of another cluster",
        listener: Identity::load(&theirs.files("control-1")).unwrap(),
        admitted: Role::Agent.into(),
        dialer: Identity::load(&ours.files("host-1")).unwrap(),
        expected: Role::Coordinator.into(),
        dialer_says: "its certificate is for another cluster or another role (invalid peer certificate: certificate not valid for name \"coordinator.prod.matins\"",
        listener_says: "this side's certificate is for another cluster or another role",
    })
    .await;
}

/// Control machines dial each other by a name of their own, and learn each other's number.
#[tokio::test]
async fn control_machines_meet_and_nobody_else_is_let_in() {
    let authority = Authority::new("prod");
    let coordinator = authority.issue_node(Role::Coordinator, "c1", 1);
    let witness = authority.issue_node(Role::Witness, "w1", 3);
    let listener = Listener::bind(loopback(), &coordinator, Wanted::Control).unwrap();
    let dialer = Dialer::new(&witness).unwrap();
    let (dialed, accepted) = meet(&listener, &dialer, Wanted::Control).await;
    let ((sees, dialed), (seen, accepted)) = (dialed.unwrap(), accepted.unwrap());
    assert_eq!(sees.to_string(), "c1.coordinator.prod.matins");
    assert_eq!(seen.to_string(), "w1.witness.prod.matins");
    assert_eq!(
        (dialed.peer_node(), accepted.peer_node()),
        (Some(1), Some(3))
    );

    check_refusal(Refusal {
        case: "an agent on the control machines' port",
        listener: coordinator,
        admitted: Wanted::Control,
        dialer: authority.issue(Role::Agent, "host-1"),
        expected: Wanted::Control,
        dialer_says: "you are host-1.agent.prod.matins, and only coordinators and witnesses of cluster prod are wanted here",
        listener_says: "it is host-1.agent.prod.matins, and only coordinators and witnesses of",
    })
    .await;
    check_refusal(Refusal {
        case: "an agent that listens where a control machine should",
        listener: authority.issue(Role::Agent, "host-2"),
        admitted: Wanted::Control,
        dialer: witness,
        expected: Wanted::Control,
        dialer_says: "its certificate was issued for another role",
        listener_says: "this side's certificate was issued for another role",
    })
    .await;
}

/// The listener's own check: the dialer asks for the listener's cluster but is of another.
#[tokio::test]
async fn an_agent_of_another_cluster_is_refused_even_when_its_authority_is_trusted() {
    let (ours, theirs) = (Authority::new("prod"), Authority::new("test"));
    ours.issue(Role::Coordinator, "control-1");
    theirs.issue(Role::Agent, "host-1");
    trust_also(&ours, "control-1", &theirs);
    trust_also(&theirs, "host-1", &ours);
    let listener = Listener::bind(
        loopback(),
        &Identity::load(&ours.files("control-1")).unwrap(),
        Role::Agent,
    )
    .unwrap();
    let stranger = Identity::load(&theirs.files("host-1")).unwrap();
    let crypto = tls::client(&stranger).unwrap();
    let (dialed, accepted) = raw_meet(&listener, crypto).await;
    assert!(said(&accepted.unwrap_err()).ends_with(
        "it is host-1.agent.test.matins, and only agents of cluster prod are wanted here"
    ),);
    assert!(
        said(&dialed).contains("you are host-1.agent.test.matins"),
        "{}",
        said(&dialed)
    );
}

#[tokio::test]
async fn an_agent_cannot_pass_for_a_coordinator() {
    let authority = Authority::new("prod");
    check_refusal(Refusal {
        case: "an agent that listens",
        listener: authority.issue(Role::Agent, "host-2"),
        admitted: Role::Agent.into(),
        dialer: authority.issue(Role::Agent, "host-1"),
        expected: Role::Coordinator.into(),
        dialer_says: "its certificate was issued for another role (invalid peer certificate: certificate does not allow extended key usage for server authentication",
        listener_says: "this side's certificate was issued for another role",
    })
    .await;
}

#[tokio::test]
async fn a_peer_of_another_role_is_told_who_is_wanted() {
    let authority = Authority::new("prod");
    check_refusal(Refusal {
        case: "a coordinator on the agents' port",
        listener: authority.issue(Role::Coordinator, "control-1"),
        admitted: Role::Agent.into(),
        dialer: authority.issue(Role::Coordinator, "control-2"),
        expected: Role::Coordinator.into(),
        dialer_says: "you are control-2.coordinator.prod.matins, and only agents of cluster prod are wanted here",
        listener_says: "it is control-2.coordinator.prod.matins, and only agents of cluster prod are wanted here",
    })
    .await;
}

#[tokio::test]
async fn a_certificate_of_the_future_is_refused_on_either_side() {
    let authority = Authority::new("prod");
    let tomorrow = now() + DurationMs::from_secs(86_400);
    check_refusal(Refusal {
        case: "an agent from the future",
        listener: authority.issue(Role::Coordinator, "control-1"),
        admitted: Role::Agent.into(),
        dialer: authority.issue_at(Role::Agent, "host-1", tomorrow),
        expected: Role::Coordinator.into(),
        dialer_says: "this side's certificate is expired or not valid yet",
        listener_says: "look at the clocks of both machines",
    })
    .await;
    check_refusal(Refusal {
        case: "a coordinator from the future",
        listener: authority.issue_at(Role::Coordinator, "control-2", tomorrow),
        admitted: Role::Agent.into(),
        dialer: authority.issue(Role::Agent, "host-2"),
        expected: Role::Coordinator.into(),
        dialer_says: "its certificate is expired or not valid yet",
        listener_says: "this side's certificate is expired or not valid yet",
    })
    .await;
}

/// The certificate of one side is good for a few more seconds when the two meet.
#[tokio::test]
async fn a_connection_ends_with_the_first_of_its_certificates() {
    for (coordinator_left, agent_left, whose) in [
        (
            3_600,
            3,
            "the certificate of host-1.agent.prod.matins ended at",
        ),
        (
            3,
            3_600,
            "the certificate of control-1.coordinator.prod.matins ended at",
        ),
    ] {
        let authority = Authority::new("prod");
        let left = |seconds| now() - CERTIFICATE_LIFETIME + DurationMs::from_secs(seconds);
        let coordinator =
            authority.issue_at(Role::Coordinator, "control-1", left(coordinator_left));
        let agent = authority.issue_at(Role::Agent, "host-1", left(agent_left));
        let listener = Listener::bind(loopback(), &coordinator, Role::Agent).unwrap();
        let dialer = Dialer::new(&agent).unwrap();
        let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
        let (dialed, accepted) = (dialed.unwrap().1, accepted.unwrap().1);
        assert_eq!(accepted.peer_lifetime(), agent.lifetime());
        let ends = bounded(async { [dialed.closed().await, accepted.closed().await] }).await;
        // One side closes, the other is told; on one machine both may close at once.
        let told = |end: &CloseReason| match end {
            CloseReason::ByPeer { reason } => reason.starts_with(whose),
            other => *other == CloseReason::Here,
        };
        assert!(ends.iter().all(told), "{ends:?}");
        // Nobody is let in with it any more.
        let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
        for error in [said(&dialed.unwrap_err()), said(&accepted.unwrap_err())] {
            assert!(error.contains("is expired or not valid yet"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused_on_either_side() {
    let authority = Authority::new("prod");
    check_refusal(Refusal {
        case: "an expired agent",
        listener: authority.issue(Role::Coordinator, "control-1"),
        admitted: Role::Agent.into(),
        dialer: authority.issue_expired(Role::Agent, "host-1"),
        expected: Role::Coordinator.into(),
        dialer_says: "this side's certificate is expired or not valid yet",
        listener_says: "its certificate is expired or not valid yet: let it in again",
    })
    .await;
    check_refusal(Refusal {
        case: "an expired coordinator",
        listener: authority.issue_expired(Role::Coordinator, "control-2"),
        admitted: Role::Agent.into(),
        dialer: authority.issue(Role::Agent, "host-2"),
        expected: Role::Coordinator.into(),
        dialer_says: "its certificate is expired or not valid yet: let it in again",
        listener_says: "this side's certificate is expired or not valid yet",
    })
    .await;
}

#[tokio::test]
async fn a_certificate_from_a_clock_half_an_hour_ahead_is_good() {
    let authority = Authority::new("prod");
    let ahead = now() + protocol::DurationMs::from_secs(1800);
    let listener = Listener::bind(
        loopback(),
        &authority.issue_at(Role::Coordinator, "control-1", ahead),
        Role::Agent,
    )
    .unwrap();
    let dialer = Dialer::new(&authority.issue_at(Role::Agent, "host-1", ahead)).unwrap();
    let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
    dialed.unwrap();
    accepted.unwrap();
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Coordinator, "control-1");
    let listener = Listener::bind(loopback(), &identity, Role::Agent).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(identity.roots())
        .with_no_client_auth();
    config.alpn_protocols = vec![tls::ALPN.to_vec()];
    let (_, accepted) = raw_meet(&listener, QuicClientConfig::try_from(config).unwrap()).await;
    let error = said(&accepted.unwrap_err());
    assert!(error.contains("its certificate was not shown"), "{error}");
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Coordinator, "control-1");
    let agent = authority.issue(Role::Agent, "host-1");
    let listener = Listener::bind(loopback(), &identity, Role::Agent).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(identity.roots())
        .with_client_auth_cert(agent.chain(), agent.key().clone_key())
        .unwrap();
    config.alpn_protocols = vec![b"matins/0".to_vec()];
    let (_, accepted) = raw_meet(&listener, QuicClientConfig::try_from(config).unwrap()).await;
    let error = said(&accepted.unwrap_err());
    assert!(error.contains("does not speak this version"), "{error}");
}

#[tokio::test]
async fn an_agents_certificate_does_not_listen() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Agent, "host-1");
    let error = Listener::bind(loopback(), &identity, Role::Agent).unwrap_err();
    assert!(matches!(error, ListenError::NotControl { .. }));
}

#[tokio::test]
async fn a_slow_handshake_keeps_nobody_waiting() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Coordinator, "control-1");
    let listener = Listener::bind(loopback(), &identity, Role::Agent).unwrap();
    let slow = Dialer::new(&authority.issue(Role::Agent, "slow")).unwrap();
    let quick = Dialer::new(&authority.issue(Role::Agent, "quick")).unwrap();
    let address = listener.local_addr();
    let slow = tokio::spawn(async move { slow.connect(address, Role::Coordinator).await });
    // Held and not awaited: as long as it lasts, this handshake does not move.
    let held = bounded(listener.accept()).await.unwrap();
    let (dialed, accepted) = meet(&listener, &quick, Role::Coordinator).await;
    dialed.unwrap();
    assert_eq!(accepted.unwrap().0.name.as_str(), "quick");
    let (name, _connection) = bounded(held.handshake()).await.unwrap();
    assert_eq!(name.name.as_str(), "slow");
    bounded(slow).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_reason_of_a_close_reaches_the_other_side() {
    let pair = Pair::new().await;
    bounded(pair.agent.shutdown("upgrading")).await;
    assert_eq!(
        bounded(pair.coordinator.closed()).await,
        CloseReason::ByPeer {
            reason: "upgrading".to_owned()
        }
    );
    assert_eq!(bounded(pair.agent.closed()).await, CloseReason::Here);

    let pair = Pair::new().await;
    bounded(pair.listener.shutdown("handing over")).await;
    assert_eq!(
        bounded(pair.agent.closed()).await.to_string(),
        "closed by the peer: handing over"
    );
    assert!(bounded(pair.listener.accept()).await.is_none());
}

/// A coordinator that dies without a word: its thread and everything in it is gone.
struct Doomed {
    address: SocketAddr,
    die: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Doomed {
    fn start(identity: Identity) -> Doomed {
        let (die, died) = oneshot::channel();
        let (address_out, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            // What this task holds is dropped with the runtime, when nothing runs any more that
            // could tell the peer.
            runtime.spawn(async move {
                let listener = Listener::bind(loopback(), &identity, Role::Agent).unwrap();
                address_out.send(listener.local_addr()).unwrap();
                let _peer = listener.accept().await.unwrap().handshake().await.unwrap();
                std::future::pending::<()>().await;
            });
            runtime.block_on(died).unwrap();
        });
        Doomed {
            address: address.recv().unwrap(),
            die,
            thread,
        }
    }

    async fn meet_and_die(self, authority: &Authority) -> (SocketAddr, Connection) {
        let dialer = Dialer::new(&authority.issue(Role::Agent, "host-1")).unwrap();
        let (_, connection) = bounded(dialer.connect(self.address, Role::Coordinator))
            .await
            .unwrap();
        self.die.send(()).unwrap();
        self.thread.join().unwrap();
        (self.address, connection)
    }
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_noticed() {
    let authority = Authority::new("prod");
    let doomed = Doomed::start(authority.issue(Role::Coordinator, "control-1"));
    let (_, connection) = doomed.meet_and_die(&authority).await;
    assert_eq!(bounded(connection.closed()).await, CloseReason::Silence);
}

/// The time that passes is the matter here: longer than the idle time-out, and nobody says a word.
#[tokio::test]
async fn a_quiet_connection_is_kept() {
    let pair = Pair::new().await;
    tokio::select! {
        reason = pair.coordinator.closed() => panic!("{reason}"),
        reason = pair.agent.closed() => panic!("{reason}"),
        () = tokio::time::sleep(settings::IDLE_TIMEOUT + settings::KEEP_ALIVE) => {}
    }
}

/// Told apart from silence by the reason, which the agent has at its next keep-alive.
#[tokio::test]
async fn a_listener_that_restarted_says_so() {
    let authority = Authority::new("prod");
    let identity = authority.issue(Role::Coordinator, "control-1");
    let doomed = Doomed::start(identity.clone());
    let (address, connection) = doomed.meet_and_die(&authority).await;
    let _restarted = Listener::bind(address, &identity, Role::Agent).unwrap();
    assert_eq!(
        bounded(connection.closed()).await,
        CloseReason::PeerRestarted
    );
}

/// Adds another authority to those that an identity trusts.
fn trust_also(own: &Authority, name: &str, other: &Authority) {
    let path = own.files(name).join("ca.pem");
    let mut both = fs::read(&path).unwrap();
    both.extend(fs::read(other.ca().join("ca.pem")).unwrap());
    fs::write(&path, both).unwrap();
}

/// Dials with any TLS configuration, by the name of a coordinator of `prod`, and waits for the
/// refusal.
async fn raw_meet(
    listener: &Listener,
    crypto: QuicClientConfig,
) -> (quinn::ConnectionError, super::pair::Accepted) {
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(settings::transport(End::Dialer, Role::Coordinator.into()));
    let endpoint = quinn::Endpoint::client(loopback()).unwrap();
    let connecting = endpoint
        .connect_with(config, listener.local_addr(), "coordinator.prod.matins")
        .unwrap();
    bounded(async {
        tokio::join!(
            async {
                match connecting.await {
                    Ok(connection) => connection.closed().await,
                    Err(error) => error,
                }
            },
            async { listener.accept().await.unwrap().handshake().await }
        )
    })
    .await
}

#[tokio::test]
async fn an_authority_speaks_for_its_own_cluster_alone() {
    // The authority of `test` is made to believe that it is that of `prod`: its key signs a
    // certificate for `prod`, and everybody trusts it.
    let authority = Authority::new("test");
    let ca_pem = fs::read_to_string(authority.ca().join("ca.pem")).unwrap();
    let ca_key = fs::read_to_string(authority.ca().join("ca.key")).unwrap();
    let issuer =
        rcgen::Issuer::from_ca_cert_pem(&ca_pem, rcgen::KeyPair::from_pem(&ca_key).unwrap())
            .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let names = ["host-1.agent.prod.matins".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let forged = params.signed_by(&key, &issuer).unwrap();

    let out = authority.files("forged");
    ca::issue(
        &authority.ca(),
        &Subject::new(Role::Agent, &"host-1".parse().unwrap()),
        &out,
        valid_from(now()),
    )
    .unwrap();
    fs::write(out.join("cert.pem"), forged.pem()).unwrap();
    fs::write(out.join("key.pem"), key.serialize_pem()).unwrap();
    let error = said(&Identity::load(&out).unwrap_err());
    assert!(error.contains("NameConstraintViolation"), "{error}");
}

/// What anybody on the network can send: noise, and first packets that were overheard, many times.
#[tokio::test]
async fn noise_and_replayed_first_packets_keep_nobody_out() {
    let authority = Authority::new("prod");
    let coordinator = authority.issue(Role::Coordinator, "control-1");
    let listener = Listener::bind(loopback(), &coordinator, Role::Agent).unwrap();
    let dialer = Dialer::new(&authority.issue(Role::Agent, "host-1")).unwrap();

    let tap = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let overheard = tap.local_addr().unwrap();
    let mut first = vec![0; 2_000];
    let dialing = dialer.connect(overheard, Role::Coordinator);
    let bytes = bounded(async {
        tokio::select! {
            _ = dialing => panic!("nobody answered"),
            received = tap.recv_from(&mut first) => received.unwrap().0,
        }
    })
    .await;
    first.truncate(bytes);

    let mut noise = 1u32;
    for n in 0..2_000usize {
        let mut packet: Vec<u8> = (0..n % 1_400)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            })
            .collect();
        if n % 4 == 0 {
            packet.clone_from(&first);
        } else if n % 4 == 1 && n < first.len() {
            packet.clone_from(&first);
            packet[n] ^= 0xff;
        }
        tap.send_to(&packet, listener.local_addr()).await.unwrap();
    }
    // Somebody accepts whatever of that is a beginning, and waits for none of it.
    let listener = Arc::new(listener);
    let door = Arc::clone(&listener);
    let let_in = tokio::spawn(async move {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        loop {
            tokio::select! {
                incoming = door.accept() => {
                    let tell = tell.clone();
                    tokio::spawn(async move {
                        if let Ok(known) = incoming.unwrap().handshake().await {
                            let _ = tell.send(known);
                        }
                    });
                }
                Some(known) = told.recv() => return known,
            }
        }
    });
    let dialed = bounded(dialer.connect(listener.local_addr(), Role::Coordinator)).await;
    let (name, _connection) = bounded(let_in).await.unwrap();
    assert_eq!(name.to_string(), "host-1.agent.prod.matins");
    assert!(dialed.is_ok(), "{dialed:?}");
}

/// An agent dials anew all its life: what is over must be gone.
#[tokio::test]
async fn connections_that_are_over_leave_nothing_behind() {
    let authority = Authority::new("prod");
    let coordinator = authority.issue(Role::Coordinator, "control-1");
    let listener = Listener::bind(loopback(), &coordinator, Role::Agent).unwrap();
    let dialer = Dialer::new(&authority.issue(Role::Agent, "host-1")).unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for by_dialer in [true, false, true, false] {
        let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
        let (dialed, accepted) = (dialed.unwrap().1, accepted.unwrap().1);
        let (closing, told) = if by_dialer {
            (dialed, accepted)
        } else {
            (accepted, dialed)
        };
        closing.close("enough");
        bounded(told.closed()).await;
    }
    bounded(async {
        while tasks() > before {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}
