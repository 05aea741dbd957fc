//! What the tests share: an authority in a temporary directory, and two ends that have met.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::{ClusterId, DurationMs, WallMs};
use tempfile::TempDir;

use crate::ca::{self, CERTIFICATE_LIFETIME, Subject, Validity};
use crate::{
    ConnectError, Connection, Dialer, HandshakeError, Identity, Listener, PeerName, Role, Wanted,
};

pub(super) const LOOPBACK: &str = "127.0.0.1:0";

pub(super) fn loopback() -> SocketAddr {
    LOOPBACK.parse().unwrap()
}

pub(super) fn now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    WallMs(i64::try_from(since.as_millis()).unwrap())
}

pub(super) fn valid_from(now: WallMs) -> Validity {
    Validity {
        now,
        lifetime: CERTIFICATE_LIFETIME,
    }
}

/// An authority and the identities it issued, gone when dropped.
pub(super) struct Authority {
    pub(super) directory: TempDir,
}

impl Authority {
    pub(super) fn new(cluster: &str) -> Authority {
        let directory = tempfile::tempdir().unwrap();
        let cluster: ClusterId = cluster.parse().unwrap();
        ca::create(&directory.path().join("ca"), &cluster, valid_from(now())).unwrap();
        Authority { directory }
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.directory.path().join("ca")
    }

    /// Where the files of an identity are.
    pub(super) fn files(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn issue(&self, role: Role, name: &str) -> Identity {
        self.issue_at(role, name, now())
    }

    pub(super) fn issue_at(&self, role: Role, name: &str, now: WallMs) -> Identity {
        let out = self.files(name);
        ca::issue(
            &self.ca(),
            &Subject::new(role, &name.parse().unwrap()),
            &out,
            valid_from(now),
        )
        .unwrap();
        Identity::load(&out).unwrap()
    }

    pub(super) fn issue_node(&self, role: Role, name: &str, node: u64) -> Identity {
        let out = self.files(name);
        let subject = Subject::new(role, &name.parse().unwrap()).node(node);
        ca::issue(&self.ca(), &subject, &out, valid_from(now())).unwrap();
        Identity::load(&out).unwrap()
    }

    /// An identity whose certificate expired an hour ago.
    pub(super) fn issue_expired(&self, role: Role, name: &str) -> Identity {
        let issued = now() - CERTIFICATE_LIFETIME - DurationMs::from_secs(3600);
        self.issue_at(role, name, issued)
    }
}

/// Waits with a bound far above what any of this takes, so that a hang fails instead of lasting.
pub(super) async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the test hangs")
}

/// Both ends of a connection, and what each calls the other.
pub(super) struct Pair {
    pub(super) listener: Listener,
    pub(super) agent: Connection,
    pub(super) agent_sees: PeerName,
    pub(super) coordinator: Connection,
    pub(super) coordinator_sees: PeerName,
}

impl Pair {
    pub(super) async fn new() -> Pair {
        let authority = Authority::new("prod");
        let listener = Listener::bind(
            loopback(),
            &authority.issue(Role::Coordinator, "control-1"),
            Role::Agent,
        )
        .unwrap();
        let dialer = Dialer::new(&authority.issue(Role::Agent, "host-1")).unwrap();
        let (dialed, accepted) = meet(&listener, &dialer, Role::Coordinator).await;
        let (agent_sees, agent) = dialed.unwrap();
        let (coordinator_sees, coordinator) = accepted.unwrap();
        Pair {
            listener,
            agent,
            agent_sees,
            coordinator,
            coordinator_sees,
        }
    }
}

pub(super) type Dialed = Result<(PeerName, Connection), ConnectError>;
pub(super) type Accepted = Result<(PeerName, Connection), HandshakeError>;

/// One attempt to connect, seen from both sides.
pub(super) async fn meet(
    listener: &Listener,
    dialer: &Dialer,
    wanted: impl Into<Wanted>,
) -> (Dialed, Accepted) {
    bounded(async {
        tokio::join!(dialer.connect(listener.local_addr(), wanted), async {
            listener.accept().await.unwrap().handshake().await
        })
    })
    .await
}

/// An error as a person reads it: its message and those of its sources.
pub(super) fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
