//! TLS below the API: who is trusted, and by what.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use protocol::ClusterId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::pair::Authority;
use crate::Identity;
use crate::https::{Fingerprint, HttpsClient, HttpsError, HttpsServer};
use crate::identity::{CA_FILE, Role};

/// A server that answers each connection with what it was sent.
fn serve(identity: &Identity) -> SocketAddr {
    let server = HttpsServer::new(identity).unwrap();
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
    let [own, other, strange] = [(); 3].map(|()| Authority::new("prod"));
    let coordinator = own.issue(Role::Coordinator, "c1");
    let address = serve(&coordinator);
    let trusting = |authority: &Authority| HttpsClient::trusting(&authority.ca().join(CA_FILE));

    let client = trusting(&own).unwrap();
    assert_eq!(ask(&client, address).unwrap(), "ping");
    let client = trusting(&other).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(matches!(refused, HttpsError::Certificate(_)), "{refused}");

    let prod: ClusterId = "prod".parse().unwrap();
    let shown = Fingerprint::of_identity(&coordinator).to_string();
    let shown: Fingerprint = shown.parse().unwrap();
    let client = HttpsClient::pinned(&prod, shown).unwrap();
    assert_eq!(ask(&client, address).unwrap(), "ping");
    let client = HttpsClient::pinned(&"test".parse().unwrap(), shown).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(matches!(refused, HttpsError::Certificate(_)), "{refused}");
    let another = Fingerprint::of_identity(&other.issue(Role::Coordinator, "c1"));
    let client = HttpsClient::pinned(&prod, another).unwrap();
    let refused = ask(&client, address).unwrap_err();
    assert!(
        matches!(refused, HttpsError::NoSuchAuthority(_)),
        "{refused}"
    );

    // Its authority is trusted, but it is an agent.
    let agent = serve(&strange.issue(Role::Agent, "c1"));
    let refused = ask(&trusting(&strange).unwrap(), agent).unwrap_err();
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
