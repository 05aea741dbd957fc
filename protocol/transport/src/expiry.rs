//! A connection ends with the first of the two certificates that it rests on.
//!
//! TLS looks at the dates once, in the handshake, and a connection may last for months. So each side
//! watches both certificates by its own wall clock, which may be stepped at any time: it is read
//! again before long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::{Lifetime, WallMs};
use tokio::task::AbortHandle;

use crate::handshake::EXPIRED;
use crate::identity::PeerName;

/// The wall clock is read at least this often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The certificates that a connection rests on.
pub(crate) struct Certificates {
    pub(crate) own: (PeerName, Lifetime),
    pub(crate) peer: (PeerName, Lifetime),
}

impl Certificates {
    /// The one that ends first.
    pub(crate) fn first_to_end(&self) -> &(PeerName, Lifetime) {
        if self.own.1.until <= self.peer.1.until {
            &self.own
        } else {
            &self.peer
        }
    }
}

/// Watches a connection's certificates until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    task: AbortHandle,
}

impl Watch {
    pub(crate) fn begin(connection: quinn::Connection, certificates: Certificates) -> Watch {
        let task = tokio::spawn(async move {
            tokio::select! {
                _ = connection.closed() => {}
                () = end_with(&connection, &certificates) => {}
            }
        });
        Watch {
            task: task.abort_handle(),
        }
    }
}

impl Drop for Watch {
    /// The task holds the connection, which must be closed when nobody else does.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Closes the connection when one of its certificates has ended, and tells both sides whose.
async fn end_with(connection: &quinn::Connection, certificates: &Certificates) {
    let (name, lifetime) = certificates.first_to_end();
    while let Some(left) = left_until(lifetime.until, SystemTime::now()) {
        tokio::time::sleep(left.min(LOOK_AGAIN)).await;
    }
    let reason = format!(
        "the certificate of {name} ended at {}, and was not renewed: let it in again by a join token (`matins token join`), or issue it again (`matins ca issue`), copy it over and restart its process",
        lifetime.until
    );
    tracing::warn!(peer = %certificates.peer.0, reason, "a connection is closed");
    connection.close(EXPIRED, reason.as_bytes());
}

/// How long a certificate is still good; `None` where it is not.
fn left_until(until: WallMs, now: SystemTime) -> Option<Duration> {
    // A clock before 1970 is not one that a certificate could be judged by.
    let now = now.duration_since(UNIX_EPOCH).ok()?;
    let until = Duration::from_millis(u64::try_from(until.0).ok()?);
    until.checked_sub(now).filter(|left| !left.is_zero())
}
