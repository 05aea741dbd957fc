//! TLS below the API: who is trusted, and by what.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use protocol::{ClusterId, DurationMs, WallMs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::Identity;
use crate::ca::{self, CA_LIFETIME, CERTIFICATE_LIFETIME, Subject, Validity};
use crate::https::{Fingerprint, HttpsClient, HttpsError, HttpsServer};
use crate::identity::{CA_FILE, Role};

fn validity(lifetime: DurationMs) -> Validity {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    Validity {
        now: WallMs(now.as_millis() as i64),
        lifetime,
    }
}

/// A cluster's authority with one identity of it.
fn cluster(parent: &Path, name: &str, cluster: &str, role: Role) -> PathBuf {
    let (ca, out) = (parent.join(format!("{name}-ca")), parent.join(name));
    ca::create(&ca, &cluster.parse().unwrap(), validity(CA_LIFETIME)).unwrap();
    let subject = Subject::new(role, &"c1".parse().unwrap());
    ca::issue(&ca, &subject, &out, validity(CERTIFICATE_LIFETIME)).unwrap();
    out
}

/// A server that answers each connection with what it was sent.
fn serve(identity: &Path) -> SocketAddr {
    let server = HttpsServer::new(&Identity::load(identity).unwrap()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = server.wrap(stream);
                let mut word = [0; 4];
                if stream.read_exact(&mut word).await.is_ok() {
                    stream.write_all(&word).await.unwrap();
                    stream.shutdown().await.unwrap();
                }
            }
        });
    });
    told.recv().unwrap()
}

fn ask(client: &HttpsClient, address: SocketAddr) -> Result<String, HttpsError> {
    let mut session = client.connect(TcpStream::connect(address).unwrap())?;
    session.write_all(b"ping").unwrap();
    let mut answer = String::new();
    session.read_to_string(&mut answer).unwrap();
    Ok(answer)
}

#[test]
fn a_coordinator_is_known_by_its_authority_or_by_the_fingerprint_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let own = cluster(at, "own", "prod", Role::Coordinator);
    let other = cluster(at, "other", "prod", Role::Coordinator);
    let agent = cluster(at, "agent", "prod", Role::Agent);
    let address = serve(&own);

    let client = HttpsClient::trusting(&own.join(CA_FILE)).unwrap();
    assert_eq!(ask(&client, address).unwrap(), "ping");
    let client = HttpsClient::trusting(&other.join(CA_FILE)).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(matches!(refused, HttpsError::Certificate(_)), "{refused}");

    let prod: ClusterId = "prod".parse().unwrap();
    let print = |identity: &Path| Fingerprint::of_identity(&Identity::load(identity).unwrap());
    let shown: Fingerprint = print(&own).to_string().parse().unwrap();
    let client = HttpsClient::pinned(&prod, shown).unwrap();
    assert_eq!(ask(&client, address).unwrap(), "ping");
    let client = HttpsClient::pinned(&"test".parse().unwrap(), shown).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(matches!(refused, HttpsError::Certificate(_)), "{refused}");
    let client = HttpsClient::pinned(&prod, print(&other)).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(
        matches!(refused, HttpsError::NoSuchAuthority(_)),
        "{refused}"
    );

    // Its authority is the cluster's, but it is an agent.
    let client = HttpsClient::trusting(&agent.join(CA_FILE)).unwrap();
    let refused = ask(&client, serve(&agent)).unwrap_err();
    assert!(matches!(refused, HttpsError::Certificate(_)), "{refused}");
}

#[test]
fn fingerprints_read_as_they_are_written() {
    for bad in ["", "ab", &"g".repeat(64), &"a".repeat(65), &"é".repeat(32)] {
        assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
    }
    let good = "0f".repeat(32);
    assert_eq!(good.parse::<Fingerprint>().unwrap().to_string(), good);
}
