//! A cable that a test can cut, slow down and choke: a relay of packets in front of a member.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// What happens to packets now.
#[derive(Default)]
pub(super) struct Cable {
    /// Nothing arrives at the member.
    pub(super) cut_there: AtomicBool,
    /// Nothing comes back from it.
    pub(super) cut_back: AtomicBool,
    /// Of each packet to the member, so many microseconds; a packet waits for those before it.
    pub(super) slow_us: AtomicU64,
}

impl Cable {
    pub(super) fn cut(&self, cut: bool) {
        self.cut_there.store(cut, Ordering::Relaxed);
        self.cut_back.store(cut, Ordering::Relaxed);
    }
}

/// Relays packets between whoever sends to [`Relay::address`] and a member, until it is dropped.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    pub(super) cable: Arc<Cable>,
    task: tokio::task::AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(super) async fn to(member: SocketAddr) -> Relay {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let cable = Arc::new(Cable::default());
        let relaying = relay(Arc::new(front), member, Arc::clone(&cable));
        Relay {
            address,
            cable,
            task: tokio::spawn(relaying).abort_handle(),
        }
    }
}

async fn relay(front: Arc<UdpSocket>, member: SocketAddr, cable: Arc<Cable>) {
    let ways: Mutex<HashMap<SocketAddr, Arc<UdpSocket>>> = Mutex::default();
    let mut back = JoinSet::new();
    let mut packet = vec![0; 65_536];
    loop {
        let Ok((bytes, from)) = front.recv_from(&mut packet).await else {
            continue;
        };
        let known = ways.lock().unwrap().get(&from).cloned();
        let way = if let Some(way) = known {
            way
        } else {
            let way = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
            way.connect(member).await.unwrap();
            ways.lock().unwrap().insert(from, Arc::clone(&way));
            back.spawn(carry_back(
                Arc::clone(&way),
                Arc::clone(&front),
                from,
                Arc::clone(&cable),
            ));
            way
        };
        let slow = cable.slow_us.load(Ordering::Relaxed);
        if slow > 0 {
            tokio::time::sleep(Duration::from_micros(slow)).await;
        }
        if !cable.cut_there.load(Ordering::Relaxed) {
            let _ = way.send(&packet[..bytes]).await;
        }
    }
}

async fn carry_back(way: Arc<UdpSocket>, front: Arc<UdpSocket>, to: SocketAddr, cable: Arc<Cable>) {
    let mut packet = vec![0; 65_536];
    loop {
        // A member that is not there is no end of the cable.
        let Ok(bytes) = way.recv(&mut packet).await else {
            continue;
        };
        if !cable.cut_back.load(Ordering::Relaxed) {
            let _ = front.send_to(&packet[..bytes], to).await;
        }
    }
}
