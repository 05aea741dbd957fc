//! The connections that are open now, and what is on its way to each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coordinator_core::ConnId;
use protocol::AgentName;
use protocol::message::{CoordinatorMessage, SLOTS_MAX};
use tokio::sync::mpsc::{self, error::TrySendError};
use transport::Connection;

/// Messages that may wait for an agent to read them. A start, its cancel and the acknowledgement
/// of its receipt for every slot, and one more for the rest; who is further behind does not read.
const OUTGOING_MAX: usize = 4 * SLOTS_MAX as usize;

/// Connections of one agent at a time: the old one, the new one, and some that have not noticed
/// their end yet.
const PER_AGENT_MAX: usize = 8;

pub(crate) enum Outgoing {
    Message(Box<CoordinatorMessage>),
    /// The last words: close when everything before has been received.
    Close {
        reason: String,
    },
}

struct Peer {
    name: AgentName,
    connection: Connection,
    outgoing: mpsc::Sender<Outgoing>,
}

#[derive(Default)]
pub(crate) struct Roster {
    peers: Mutex<BTreeMap<ConnId, Peer>>,
    last: AtomicU64,
}

/// An agent that has too many connections already.
#[derive(Debug, thiserror::Error)]
#[error("this agent has {PER_AGENT_MAX} connections already")]
pub(crate) struct TooMany;

impl Roster {
    /// Gives a connection its number; what is to be said on it comes out of the receiver.
    pub(crate) fn admit(
        &self,
        name: &AgentName,
        connection: &Connection,
    ) -> Result<(ConnId, mpsc::Receiver<Outgoing>), TooMany> {
        let mut peers = self.peers();
        if peers.values().filter(|peer| peer.name == *name).count() >= PER_AGENT_MAX {
            return Err(TooMany);
        }
        let conn = ConnId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        peers.insert(
            conn,
            Peer {
                name: name.clone(),
                connection: connection.clone(),
                outgoing,
            },
        );
        Ok((conn, queue))
    }

    pub(crate) fn remove(&self, conn: ConnId) {
        self.peers().remove(&conn);
    }

    /// Never waits. An agent that has not read what is in its queue is cut off: it attaches anew
    /// and is told what it must know.
    pub(crate) fn send(&self, conn: ConnId, message: CoordinatorMessage) {
        self.push(conn, Outgoing::Message(Box::new(message)));
    }

    pub(crate) fn close(&self, conn: ConnId, reason: String) {
        self.push(conn, Outgoing::Close { reason });
    }

    /// The agent's newest connection.
    pub(crate) fn newest_of(&self, name: &AgentName) -> Option<Connection> {
        let peers = self.peers();
        let mut newest_first = peers.values().rev();
        newest_first
            .find(|peer| peer.name == *name)
            .map(|peer| peer.connection.clone())
    }

    fn push(&self, conn: ConnId, outgoing: Outgoing) {
        let peers = self.peers();
        let Some(peer) = peers.get(&conn) else {
            return;
        };
        match peer.outgoing.try_send(outgoing) {
            // Closed: the connection is ending, and its end is on the way to the core.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => {
                tracing::warn!(
                    agent = %peer.name,
                    waiting = OUTGOING_MAX,
                    "an agent does not read what it is sent; its connection is closed"
                );
                peer.connection
                    .close("this agent does not read what it is sent");
            }
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<ConnId, Peer>> {
        // A map is whole between any two of the calls above, whoever panicked.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
