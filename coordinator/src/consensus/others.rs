//! What this node knows of the machines around it, by speaking to them.
//!
//! The log says who the members are; whether one is there, what it says of itself and how its clock stands
//! is known by its connections alone, is never older than this process, and differs from member to
//! member. Where a test models the network there are none.

use std::collections::BTreeMap;

use super::Group;
use super::network::{Condition, Network, NotRenewed, Peer, Stranger};

impl Group {
    /// The other members as this node knows them: whether it reaches them, what they say of
    /// themselves, and how their clocks stand.
    pub fn peers(&self) -> BTreeMap<u64, Peer> {
        let network = self.network.as_ref();
        network.map(Network::peers).unwrap_or_default()
    }

    /// What this node tells the others of itself.
    pub fn own_condition(&self) -> Condition {
        let network = self.network.as_ref();
        network.map(Network::own_condition).unwrap_or_default()
    }

    /// Changes what this node tells the others of itself.
    pub fn tell(&self, change: impl FnOnce(&mut Condition)) {
        if let Some(network) = &self.network {
            network.tell(change);
        }
    }

    /// Machines that are no members and would speak to this one, and why they were turned away.
    pub fn strangers(&self) -> Vec<Stranger> {
        let network = self.network.as_ref();
        network.map(Network::strangers).unwrap_or_default()
    }

    /// Whether this node was a member and is none any more: by the log, as far as it was sent that, or
    /// by the word of another member. For a moment it may seem so of one that has just been added.
    pub fn is_removed(&self) -> bool {
        self.network.as_ref().is_some_and(Network::is_removed)
    }

    /// Where the others are told to reach this node; empty where nobody has said it.
    pub fn reached_at(&self) -> &str {
        let network = self.network.as_ref();
        network.map_or("", |network| &network.facts().peers)
    }

    /// The next certificate of this machine's key, from a member that has the authority's.
    pub async fn ask_for_certificate(&self) -> Result<String, NotRenewed> {
        match &self.network {
            Some(network) => network.ask_for_certificate().await,
            None => Err(NotRenewed::Nobody),
        }
    }
}
