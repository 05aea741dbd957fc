//! The connections that are open now, and what is on its way to each.

use std::collections::{BTreeMap, BTreeSet};
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
    peers: Mutex<Peers>,
    last: AtomicU64,
}

/// By number, and the numbers of each agent: thousands come back at once, and none of them may be
/// looked for among all.
#[derive(Default)]
struct Peers {
    by_conn: BTreeMap<ConnId, Peer>,
    of_agent: BTreeMap<AgentName, BTreeSet<ConnId>>,
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
        let of_agent = peers.of_agent.get(name);
        if of_agent.is_some_and(|conns| conns.len() >= PER_AGENT_MAX) {
            return Err(TooMany);
        }
        let conn = ConnId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        peers.of_agent.entry(name.clone()).or_default().insert(conn);
        peers.by_conn.insert(
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
        let mut peers = self.peers();
        let Some(peer) = peers.by_conn.remove(&conn) else {
            return;
        };
        if let Some(conns) = peers.of_agent.get_mut(&peer.name) {
            conns.remove(&conn);
            if conns.is_empty() {
                peers.of_agent.remove(&peer.name);
            }
        }
    }

    /// How many connections there are.
    pub(crate) fn count(&self) -> usize {
        self.peers().by_conn.len()
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
        let newest = peers.of_agent.get(name)?.last()?;
        let peer = peers.by_conn.get(newest)?;
        Some(peer.connection.clone())
    }

    fn push(&self, conn: ConnId, outgoing: Outgoing) {
        let peers = self.peers();
        let Some(peer) = peers.by_conn.get(&conn) else {
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

    fn peers(&self) -> MutexGuard<'_, Peers> {
        // The maps are whole between any two of the calls above, whoever panicked.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
