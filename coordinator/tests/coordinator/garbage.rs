//! What a peer with a good certificate may send that no agent sends, and who pays for it.

use std::time::Duration;

use protocol::message::{CoordinatorBody, FRAME_BYTES_MAX, Hello, PROTOCOL_VERSION};
use tokio::task::JoinSet;
use transport::{CloseReason, Connection, ControlSender, Dialer, Identity, Role};

use crate::agent::FakeAgent;
use crate::house::{House, PATIENCE, run};

/// One way to misbehave on a fresh connection, and what the coordinator says when it closes it.
#[derive(Clone, Copy, Debug)]
enum Hostility {
    Silence,
    RandomBytes,
    TruncatedJson,
    TooLong,
    LyingLength,
    ByteASecond,
    HalfFrame,
    StreamOfItsOwn,
    ControlEnds,
    OtherProtocol,
}

impl Hostility {
    const ALL: [Hostility; 10] = [
        Hostility::Silence,
        Hostility::RandomBytes,
        Hostility::TruncatedJson,
        Hostility::TooLong,
        Hostility::LyingLength,
        Hostility::ByteASecond,
        Hostility::HalfFrame,
        Hostility::StreamOfItsOwn,
        Hostility::ControlEnds,
        Hostility::OtherProtocol,
    ];

    const fn answer(self) -> &'static str {
        match self {
            Hostility::Silence => "it said nothing",
            Hostility::RandomBytes | Hostility::TooLong => "more than the 65536",
            Hostility::TruncatedJson | Hostility::LyingLength => "is not the message expected",
            Hostility::ByteASecond | Hostility::HalfFrame => " 10 s",
            Hostility::StreamOfItsOwn => "a stream that nobody asked for",
            Hostility::ControlEnds => "the agent ended it",
            Hostility::OtherProtocol => "the agent speaks protocol 99, this coordinator",
        }
    }

    /// Misbehaves until the coordinator has enough.
    async fn act(self, connection: &Connection, mut control: ControlSender) {
        let header = |bytes: u32| bytes.to_be_bytes();
        let bytes: Vec<u8> = match self {
            // Nothing is known of a stream until something is sent on it.
            Hostility::Silence => return std::future::pending().await,
            Hostility::RandomBytes => (0..2_000u32).map(|n| (n * 167 % 251) as u8 | 1).collect(),
            Hostility::TruncatedJson => {
                let json = br#"{"attach":{"boot_id":"#;
                [&header(json.len() as u32)[..], json].concat()
            }
            Hostility::OtherProtocol => {
                let json = br#"{"protocol_version":99,"and":"whatever comes with it"}"#;
                [&header(json.len() as u32)[..], json].concat()
            }
            Hostility::TooLong => header(FRAME_BYTES_MAX as u32 + 1).to_vec(),
            // The frame ends within the next one's header.
            Hostility::LyingLength => [&header(7)[..], b"\"abcdefghij\""].concat(),
            Hostility::ByteASecond => {
                for byte in header(100).iter().chain(&[b' '; 100]) {
                    if control.send_unframed(&[*byte]).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                return;
            }
            Hostility::HalfFrame => [&header(100)[..], b"{\"type\""].concat(),
            Hostility::StreamOfItsOwn => {
                let mut streams = Vec::new();
                let protocol_version = PROTOCOL_VERSION;
                control.send(&Hello { protocol_version }).await.unwrap();
                while let Ok((mut sender, receiver)) = connection.open_bulk().await {
                    let _ = sender.send(&"hello").await;
                    streams.push((sender, receiver));
                }
                return;
            }
            Hostility::ControlEnds => {
                let _ = control.finish().await;
                return;
            }
        };
        control.send_unframed(&bytes).await.unwrap();
        // Dropped, the control stream would end.
        std::future::pending::<()>().await;
        drop(control);
    }
}

/// Misbehaves once; answers what the coordinator said when it closed the connection.
async fn misbehave(
    identity: Identity,
    address: std::net::SocketAddr,
    hostility: Hostility,
) -> CloseReason {
    let dialer = Dialer::new(&identity).unwrap();
    let (_, connection) = dialer.connect(address, Role::Coordinator).await.unwrap();
    let (control, _receiver) = connection.open_control().await.unwrap();
    tokio::select! {
        end = connection.closed() => end,
        () = async {
            hostility.act(&connection, control).await;
            std::future::pending::<()>().await;
        } => unreachable!("it never ends"),
    }
}

#[test]
fn garbage_costs_its_own_connection_and_nobody_elses_heartbeat() {
    let house = House::new();
    let coordinator = house.start();
    let good = FakeAgent::attach(&house, &coordinator, "good", 8);
    let address = coordinator.agents_address;
    let identities: Vec<(Hostility, Identity)> = Hostility::ALL
        .iter()
        .map(|&hostility| {
            let name = format!("bad-{}", hostility as u8);
            (hostility, house.agent_identity(&name))
        })
        .collect();
    let ends = std::thread::spawn(move || {
        run(async {
            let mut under_way = JoinSet::new();
            for (hostility, identity) in identities {
                under_way.spawn(async move {
                    let end = misbehave(identity, address, hostility);
                    let end = tokio::time::timeout(PATIENCE, end).await;
                    (hostility, end.expect("it is closed in time"))
                });
            }
            under_way.join_all().await
        })
    });
    let mut beat = 0;
    while !ends.is_finished() {
        beat += 1;
        good.beat(beat, Vec::new());
        good.hear("an acknowledgement", |body| match body {
            CoordinatorBody::HeartbeatAck { beat: acked, .. } if acked == beat => Some(()),
            _ => None,
        });
    }
    for (hostility, end) in ends.join().unwrap() {
        let CloseReason::ByPeer { reason } = &end else {
            panic!("{hostility:?}: {end:?}");
        };
        let expected = hostility.answer();
        assert!(reason.contains(expected), "{hostility:?}: {reason}");
    }
}

/// Resident memory of this process, in KiB: the coordinator's threads and the peers together.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1);
    kib.unwrap().parse().unwrap()
}

#[test]
#[ignore = "make test-full: two thousand hostile connections, about a minute"]
fn a_storm_of_garbage_leaves_memory_flat_and_heartbeats_answered() {
    const QUICK: [Hostility; 4] = [
        Hostility::RandomBytes,
        Hostility::TruncatedJson,
        Hostility::TooLong,
        Hostility::ControlEnds,
    ];
    let house = House::new();
    let coordinator = house.start();
    let good = FakeAgent::attach(&house, &coordinator, "good", 8);
    let address = coordinator.agents_address;
    let identity = house.agent_identity("bad");
    let round = |connections: usize| {
        let identity = identity.clone();
        let storm = std::thread::spawn(move || {
            run(async {
                for hostility in QUICK.iter().cycle().take(connections) {
                    let end = misbehave(identity.clone(), address, *hostility);
                    let end = tokio::time::timeout(PATIENCE, end).await;
                    assert!(end.is_ok(), "{hostility:?} is not ended");
                }
            });
        });
        let mut beat = 0;
        while !storm.is_finished() {
            beat += 1;
            good.beat(beat, Vec::new());
            good.hear("an acknowledgement", |body| match body {
                CoordinatorBody::HeartbeatAck { beat: acked, .. } if acked == beat => Some(()),
                _ => None,
            });
            std::thread::sleep(Duration::from_millis(50));
        }
        storm.join().unwrap();
    };
    // What is allocated once is allocated now.
    round(400);
    let before = resident_kib();
    for _ in 0..4 {
        round(400);
    }
    let after = resident_kib();
    assert!(
        after < before + 16 * 1024,
        "from {before} KiB to {after} KiB"
    );
}
