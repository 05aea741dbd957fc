//! The members' network: QUIC on a port of its own, so that a herd of agents cannot delay a vote.
//!
//! ```text
//!  this member                                     another
//!  link ── dials ───────── hello ─────────────────▶ serve     control stream, both ways
//!       ── heartbeats, votes, hand-over, clock ───▶           control stream, first in every packet
//!  client ── entries of the log ──────────────────▶           a stream for each run of them
//!  transfer ── a snapshot ────────────────────────▶           a stream for each, last in every packet
//! ```
//!
//! Each member dials each other one and asks on its own connection ([`link`]); [`client`] is how
//! openraft asks, [`serve`] how it is asked. [`hello`] judges whether two machines belong together
//! before anything else is said, [`table`] is what is known of the others, and [`wire`] the form of
//! it all, which is ours.

mod client;
mod clocks;
mod hello;
mod link;
mod serve;
mod table;
mod transfer;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::{ChangeMembers, Raft};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use transport::{Dialer, Identity, ListenError, Listener, TlsError, Wanted};

use super::Leadership;
use super::reserve::Room;
use super::snapshots::Snapshots;
use super::state::State;
use super::types::{Facts, Member, StoreId, Types};
use crate::authority::Authority;
use link::Link;
use serve::Answers;
use table::Table;

pub use clocks::PeerClock;
pub use table::{Peer, Stranger};
pub use wire::Condition;

/// What a member says when it goes.
const GOODBYE: &str = "this member stops";

/// How often the leader looks whether the membership is out of date, beside when somebody has said
/// something new.
const KEEP_TRUE_EVERY: Duration = Duration::from_secs(5);

/// How long one member may take to sign for another.
const RENEWAL_LIMIT: Duration = Duration::from_secs(10);

/// Where a member speaks to the others.
#[derive(Clone, Debug)]
pub struct PeersAt {
    pub identity: Identity,
    /// Renews what other members have, where this machine has its key.
    pub authority: Option<Authority>,
    pub bind: SocketAddr,
}

/// A network that does not come about.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error(
        "this machine's certificate, {name}, states no number of a node: issue it again with `matins ca issue --node N`"
    )]
    NoNode { name: String },
    #[error(
        "this machine's certificate, {name}, says node {certified}, and its data directory is node {node}: give it the identity that belongs to it"
    )]
    OtherNode {
        name: String,
        certified: u64,
        node: u64,
    },
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("preparing to dial other members")]
    Dial(#[from] TlsError),
}

/// A machine that was asked who it is, so that it may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: u64,
    pub member: Member,
}

/// Why no other member has renewed this one's certificate.
#[derive(Debug, thiserror::Error)]
pub enum NotRenewed {
    #[error(
        "this machine does not have the key of the cluster's authority, and there is no other member that could be asked"
    )]
    Nobody,
    #[error("{}", tried.join("; "))]
    Asked { tried: Vec<String> },
}

/// Why a machine cannot be added.
#[derive(Debug, thiserror::Error)]
#[error("asking {address} who it is: {why}")]
pub struct MeetError {
    address: String,
    why: String,
}

impl MeetError {
    pub(super) fn no_network(address: &str) -> MeetError {
        MeetError {
            address: address.to_owned(),
            why: link::LinkError::NoNetwork.to_string(),
        }
    }
}

/// Everything that speaks to other members; clones share it.
#[derive(Clone)]
pub(super) struct Network {
    table: Arc<Table>,
    /// None where this machine can only be alone.
    ends: Option<Ends>,
}

/// The side that dials, and the side that is dialed.
#[derive(Clone)]
struct Ends {
    dialer: Dialer,
    listener: Arc<Listener>,
    authority: Option<Authority>,
}

impl Network {
    /// Binds the socket, where there is to be one. Nobody is answered before [`Network::serve`].
    pub(super) fn bind(
        node: u64,
        facts: Facts,
        peers: Option<&PeersAt>,
    ) -> Result<Network, NetworkError> {
        let table = Table::new(node, facts);
        let Some(PeersAt {
            identity,
            authority,
            bind,
        }) = peers
        else {
            return Ok(Network { table, ends: None });
        };
        let name = || identity.name().to_string();
        match identity.node() {
            Some(certified) if certified == node => {}
            Some(certified) => {
                let name = name();
                return Err(NetworkError::OtherNode {
                    name,
                    certified,
                    node,
                });
            }
            None => return Err(NetworkError::NoNode { name: name() }),
        }
        let ends = Some(Ends {
            listener: Arc::new(Listener::bind(*bind, identity, Wanted::Control)?),
            dialer: Dialer::new(identity)?,
            authority: authority.clone(),
        });
        Ok(Network { table, ends })
    }

    /// The files are open, and of this store.
    pub(super) fn set_store(&self, store: StoreId) {
        self.table.set_store(store);
    }

    /// A member is spoken of before the membership has been looked at.
    fn learn(&self, node: u64, member: &Member) {
        self.table.learn(node, member);
    }

    fn link(&self, node: u64) -> Link {
        let dialer = self.ends.as_ref().map(|ends| &ends.dialer);
        self.table
            .link(node, || Link::keep(node, &self.table, dialer))
    }

    /// Begins to answer, to follow who the members are, and to keep what they say of themselves in
    /// the membership.
    pub(super) fn serve(
        &self,
        raft: &Raft<Types, State>,
        snapshots: &Snapshots,
        leadership: watch::Receiver<Leadership>,
        room: watch::Receiver<Room>,
    ) -> Vec<AbortHandle> {
        self.table.set_room(room);
        let followed = tokio::spawn(follow_members(self.clone(), raft.clone()));
        let kept = tokio::spawn(keep_true(self.table.clone(), raft.clone(), leadership));
        let mut tasks = vec![followed.abort_handle(), kept.abort_handle()];
        if let Some(ends) = &self.ends {
            let answers = Answers {
                table: Arc::clone(&self.table),
                raft: raft.clone(),
                snapshots: snapshots.clone(),
                arriving: Arc::new(Semaphore::new(1)),
                authority: ends.authority.clone(),
            };
            let listening = serve::listen(Arc::clone(&ends.listener), answers);
            tasks.push(tokio::spawn(listening).abort_handle());
        }
        tasks
    }

    /// Asks the machine at an address who it is, and whether it may join a group that speaks commands
    /// of this version.
    pub(super) async fn meet(&self, address: &str, speaks: u32) -> Result<Candidate, MeetError> {
        let refused = |why: String| MeetError {
            address: address.to_owned(),
            why,
        };
        let Some(ends) = &self.ends else {
            return Err(MeetError::no_network(address));
        };
        let dialed = link::dial(&self.table, &ends.dialer, address, None).await;
        let (met, connection, _streams) =
            dialed.map_err(|error| refused(crate::exit::causes(&error)))?;
        connection.close("that was all");
        let facts = met.facts;
        if met.knows_us == wire::Knows::Others {
            let why = format!(
                "{} (node {}) is a member of another group: clear its data directory first, if it is to join this one",
                facts.name, met.node
            );
            return Err(refused(why));
        }
        if facts.speaks < speaks {
            let why = format!(
                "{} (node {}) knows commands up to version {} only, and the group uses those of version {speaks}: upgrade it first",
                facts.name, met.node, facts.speaks
            );
            return Err(refused(why));
        }
        if facts.peers.is_empty() {
            let why = format!(
                "{} (node {}) does not say where it is reached: it listens on all of its addresses. Start it with `--advertise HOST`, its name or address for the others",
                facts.name, met.node
            );
            return Err(refused(why));
        }
        if facts.peers != address {
            self.meet_where_it_says(ends, &facts, met.node).await?;
        }
        Ok(Candidate {
            node: met.node,
            member: Member {
                store: met.store,
                facts,
            },
        })
    }

    /// Asks one other member after the other for the next certificate of this machine's key.
    pub(super) async fn ask_for_certificate(&self) -> Result<String, NotRenewed> {
        let mut tried = Vec::new();
        for node in self.table.others() {
            let link = self.link(node);
            let why = match timeout(RENEWAL_LIMIT, link.ask_for_certificate()).await {
                Ok(Ok(certificate)) => return Ok(certificate),
                Ok(Err(why)) => why,
                Err(_) => "it has not answered in time".to_owned(),
            };
            tried.push(format!("node {node}: {why}"));
        }
        Err(if tried.is_empty() {
            NotRenewed::Nobody
        } else {
            NotRenewed::Asked { tried }
        })
    }

    /// The others will look for it where it says that it is reached, and not where it was found.
    async fn meet_where_it_says(
        &self,
        ends: &Ends,
        facts: &Facts,
        node: u64,
    ) -> Result<(), MeetError> {
        let dialed = link::dial(&self.table, &ends.dialer, &facts.peers, Some(node)).await;
        let (_, connection, _streams) = dialed.map_err(|error| {
            let why = crate::exit::causes(&error);
            MeetError {
                address: facts.peers.clone(),
                why: format!(
                    "{} (node {node}) says that it is reached there, and it is not: {why}. Start it with another `--advertise`",
                    facts.name
                ),
            }
        })?;
        connection.close("that was all");
        Ok(())
    }

    pub(super) fn peers(&self) -> BTreeMap<u64, Peer> {
        self.table.peers()
    }

    pub(super) fn own_condition(&self) -> Condition {
        self.table.own_condition()
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Condition)) {
        self.table.tell(change);
    }

    pub(super) fn facts(&self) -> &Facts {
        self.table.facts()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.table.is_removed()
    }

    pub(super) fn strangers(&self) -> Vec<Stranger> {
        self.table.strangers()
    }

    /// Gives up the connections to everybody, and says so.
    pub(super) async fn close(&self) {
        self.table.close(GOODBYE);
        if let Some(ends) = &self.ends {
            ends.listener.shutdown(GOODBYE).await;
        }
    }
}

/// Connects to whoever is a member, and to nobody else.
async fn follow_members(network: Network, raft: Raft<Types, State>) {
    let mut metrics = raft.server_metrics();
    loop {
        let (members, at) = {
            let metrics = metrics.borrow_watched();
            let membership = &metrics.membership_config;
            let nodes = membership.nodes();
            let nodes = nodes.map(|(node, it)| (*node, it.clone()));
            let at = membership.log_id().as_ref().map(|at| at.index);
            (nodes.collect(), at)
        };
        network.table.set_members(members, at);
        for node in network.table.others() {
            network.link(node);
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// While this node leads, has the membership say what the members say of themselves.
async fn keep_true(
    table: Arc<Table>,
    raft: Raft<Types, State>,
    mut leadership: watch::Receiver<Leadership>,
) {
    let mut news = table.news();
    loop {
        let leads = leadership.borrow_and_update().leads;
        news.borrow_and_update();
        let changed = if leads {
            table.out_of_date()
        } else {
            BTreeMap::new()
        };
        if !changed.is_empty() {
            let nodes: Vec<u64> = changed.keys().copied().collect();
            let written = raft.change_membership(ChangeMembers::SetNodes(changed), true);
            match written.await {
                Ok(_) => tracing::info!(
                    ?nodes,
                    "the membership says anew what members say of themselves"
                ),
                // Another change is under way, or the lead is lost: later, or somebody else.
                Err(error) => {
                    tracing::debug!(error = %error, "the membership is not brought up to date");
                }
            }
        }
        let changed = async {
            tokio::select! {
                changed = leadership.changed() => changed.is_ok(),
                _ = news.changed() => true,
            }
        };
        if timeout(KEEP_TRUE_EVERY, changed).await == Ok(false) {
            return;
        }
    }
}
