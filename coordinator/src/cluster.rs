//! The control group as people see and change it.
//!
//! Every change goes through the coordinator that leads. A machine is asked itself who it is before
//! it is added, follows without a vote until it has everything, and then gets one: so the group
//! never waits for a machine that has nothing. One change is made at a time; the group sees to that.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::api::{Cluster, ClusterMember, TurnedAway};
use protocol::{Epoch, Now, WallMs};
use tokio::time::timeout;

use crate::clock::{in_millis, read_now};
use crate::consensus::{ChangeError, Group, MeetError, Member, Peer};
use crate::exit::causes;

/// How long a machine may take to catch up while whoever adds it waits.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(20);

/// How long a quorum may take to agree to a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Why the group was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error(transparent)]
    Meet(#[from] MeetError),
    #[error(
        "node {node} is a member already, under another address or with another data directory; a machine that lost its disk is added under a new number"
    )]
    NumberTaken { node: u64 },
    #[error(
        "node {node} is added, and is still catching up; it gets its vote when the same is asked again later"
    )]
    CatchingUp { node: u64 },
    #[error("there is no node {node} in this group")]
    NoSuchNode { node: u64 },
    #[error("node {node} leads; hand over first: `matins cluster transfer`")]
    Leads { node: u64 },
    #[error(
        "without node {node} there would be {reached} of {voters} voters that can be reached, and {needed} are needed"
    )]
    NoQuorum {
        node: u64,
        reached: usize,
        voters: usize,
        needed: usize,
    },
    #[error("the voters do not agree in time; whether it is done says `matins cluster status`")]
    Late,
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// How the group stands, as this machine sees it. `reign` is its own, while it acts, and since when.
pub(crate) fn describe(group: &Group, reign: Option<(Epoch, WallMs)>, now: Now) -> Cluster {
    let leadership = *group.leadership().borrow();
    let (members, voters) = group.members();
    let mut peers = group.peers();
    let members = members.into_iter().map(|(node, member)| {
        let peer = peers.remove(&node).unwrap_or_default();
        describe_member(group, node, member, peer, voters.contains(&node), now)
    });
    let turned_away = group.strangers().into_iter().map(|stranger| TurnedAway {
        who: stranger.who,
        why: stranger.why,
        times: stranger.times,
    });
    Cluster {
        node: group.node(),
        term: leadership.term,
        leader: leadership.leader,
        epoch: reign.map(|(epoch, _)| epoch),
        since: reign.map(|(_, since)| since),
        members: members.collect(),
        turned_away: turned_away.collect(),
    }
}

fn describe_member(
    group: &Group,
    node: u64,
    member: Member,
    peer: Peer,
    votes: bool,
    now: Now,
) -> ClusterMember {
    let own = node == group.node();
    let facts = member.facts;
    ClusterMember {
        node,
        name: facts.name,
        role: facts.role.to_string(),
        votes,
        peers: facts.peers,
        agents: facts.agents,
        api: facts.api,
        reached: own || is_reached(group, &peer, now),
        heard_ms_ago: peer.heard.map(|heard| (now.boot - heard).0),
        behind: if own { None } else { group.behind(node) },
        clock_ahead_ms: peer.clock.map(|clock| clock.ahead.0),
        clock_unsure_ms: peer.clock.map(|clock| clock.unsure.0),
        clock_steady: peer.clock.map(|clock| clock.steady),
        speaks: facts.speaks,
        trouble: peer.trouble,
    }
}

fn is_reached(group: &Group, peer: &Peer, now: Now) -> bool {
    let limit = in_millis(group.timers().election_max);
    peer.heard.is_some_and(|heard| now.boot - heard <= limit)
}

/// Adds the machine at an address, and gives it a vote when it has everything.
pub(crate) async fn add(group: &Group, address: &str) -> Result<u64, ClusterError> {
    let met = group.meet(address).await?;
    let node = met.node;
    let (members, mut voters) = group.members();
    match members.get(&node) {
        Some(known) if known.store != met.member.store => {
            return Err(ClusterError::NumberTaken { node });
        }
        Some(_) if voters.contains(&node) => return Ok(node),
        _ => {}
    }
    tracing::info!(node, address, "a machine is added to the group");
    match timeout(CATCH_UP_LIMIT, group.add(node, met.member)).await {
        Ok(added) => added?,
        Err(_) => return Err(ClusterError::CatchingUp { node }),
    }
    voters.insert(node);
    change_voters(group, voters).await?;
    tracing::info!(node, "a machine has a vote in the group");
    Ok(node)
}

/// Takes a machine out of the group for ever.
pub(crate) async fn remove(group: &Group, node: u64) -> Result<u64, ClusterError> {
    let (members, mut voters) = group.members();
    if !members.contains_key(&node) {
        return Err(ClusterError::NoSuchNode { node });
    }
    if node == group.node() {
        return Err(ClusterError::Leads { node });
    }
    if voters.remove(&node) {
        let peers = group.peers();
        let now = read_now();
        let reached = voters.iter().filter(|&voter| {
            let peer = peers.get(voter);
            *voter == group.node() || peer.is_some_and(|peer| is_reached(group, peer, now))
        });
        let (reached, needed) = (reached.count(), voters.len() / 2 + 1);
        if reached < needed {
            let voters = voters.len();
            return Err(ClusterError::NoQuorum {
                node,
                reached,
                voters,
                needed,
            });
        }
        change_voters(group, voters).await?;
    } else {
        group.forget(node).await?;
    }
    tracing::info!(node, "a machine is no member of the group any more");
    Ok(node)
}

async fn change_voters(group: &Group, voters: BTreeSet<u64>) -> Result<(), ClusterError> {
    match timeout(CHANGE_LIMIT, group.set_voters(voters)).await {
        Ok(changed) => {
            if let Err(error) = &changed {
                let error = causes(error);
                tracing::warn!(error, "the voters of the group are not changed");
            }
            Ok(changed?)
        }
        Err(_) => Err(ClusterError::Late),
    }
}
