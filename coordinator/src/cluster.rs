//! The control group as people see and change it.
//!
//! Every change goes through the coordinator that leads. A machine is asked itself who it is before
//! it is added, follows without a vote until it has everything, and then gets one: so the group
//! never waits for a machine that has nothing. One change is made at a time; the group sees to that.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use protocol::api::{Cluster, ClusterMember, ClusterStanding, TurnedAway};
use protocol::{Epoch, Lifetime, Now, WallMs};
use tokio::time::timeout;

use crate::clock::read_now;
use crate::consensus::{Candidate, ChangeError, Group, MeetError, Member};
use crate::exit::causes;
use crate::renewal::OwnCertificate;
use crate::roll::{Found, Roll};
use crate::standing::Stands;

/// Where control machines listen for each other unless they are told otherwise.
const PEERS_PORT: u16 = 7410;

/// How long a quorum may take to agree to a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Why the group was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error(
        "nobody has said where others reach {name} (node {node}), which leads: start it with `--advertise HOST`, its name or address for the others"
    )]
    NoAddress { name: String, node: u64 },
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
pub(crate) fn describe(
    group: &Group,
    stands: Stands,
    reign: Option<(Epoch, WallMs)>,
    address_trouble: Option<String>,
    certificate: &OwnCertificate,
    now: Now,
) -> Cluster {
    let leadership = *group.leadership().borrow();
    let roll = Roll::call(group, now);
    let turned_away = group.strangers().into_iter().map(|stranger| TurnedAway {
        who: stranger.who,
        why: stranger.why,
        times: stranger.times,
    });
    let leader = match stands.standing {
        ClusterStanding::Leads => Some(group.node()),
        ClusterStanding::Follows => leadership.leader,
        ClusterStanding::CutOff
        | ClusterStanding::Searches
        | ClusterStanding::Waits
        | ClusterStanding::Removed => None,
    };
    Cluster {
        node: group.node(),
        reached_at: group.reached_at().to_owned(),
        standing: stands.standing,
        since: reign.map_or(stands.since, |(_, since)| since),
        quorum: roll.votes().decide(),
        term: leadership.term,
        leader,
        last_leader: stands.last_leader,
        epoch: reign.map(|(epoch, _)| epoch),
        members: roll
            .members()
            .map(|found| describe_member(found, certificate.lifetime, now))
            .collect(),
        address_trouble,
        certificate_trouble: certificate.trouble.clone(),
        turned_away: turned_away.collect(),
    }
}

fn describe_member(found: Found<'_>, own_certificate: Lifetime, now: Now) -> ClusterMember {
    let facts = found.member.facts.clone();
    let clock = found.peer.and_then(|peer| peer.clock);
    let heard = found.peer.and_then(|peer| peer.heard);
    let certificate = if found.own {
        Some(own_certificate)
    } else {
        found.peer.and_then(|peer| peer.certificate)
    };
    let ends_soon = |lifetime: &Lifetime| now.wall >= lifetime.warns_from();
    ClusterMember {
        node: found.node,
        name: facts.name,
        role: facts.role.to_string(),
        votes: found.votes,
        peers: facts.peers,
        agents: facts.agents,
        api: facts.api,
        reached: found.reached,
        heard_ms_ago: heard.map(|heard| (now.boot - heard).0),
        behind: found.behind,
        clock_ahead_ms: clock.map(|clock| clock.ahead.0),
        clock_unsure_ms: clock.map(|clock| clock.unsure.0),
        clock_steady: clock.map(|clock| clock.steady),
        speaks: facts.speaks,
        spare_bytes: found.spare_bytes,
        certificate_until: certificate.filter(ends_soon).map(|lifetime| lifetime.until),
        trouble: found.peer.and_then(|peer| peer.trouble.clone()),
    }
}

/// Asks the machine at an address who it is, to add it; `Err` of the node where it votes already.
pub(crate) async fn meet(
    group: &Group,
    address: &str,
) -> Result<Result<Candidate, u64>, ClusterError> {
    let (members, voters) = group.members();
    if let Some(own) = members.get(&group.node())
        && own.facts.peers.is_empty()
    {
        return Err(ClusterError::NoAddress {
            name: own.facts.name.clone(),
            node: group.node(),
        });
    }
    let met = group.meet(&with_port(address)).await?;
    let node = met.node;
    match members.get(&node) {
        Some(known) if known.store != met.member.store => Err(ClusterError::NumberTaken { node }),
        Some(_) if voters.contains(&node) => Ok(Err(node)),
        _ => Ok(Ok(met)),
    }
}

/// Adds a machine, and gives it a vote when it has everything.
pub(crate) async fn add(group: &Group, met: Candidate) -> Result<u64, ClusterError> {
    let node = met.node;
    if !group.add(node, met.member).await? {
        return Err(ClusterError::CatchingUp { node });
    }
    let (_, mut voters) = group.members();
    voters.insert(node);
    change_voters(group, voters).await?;
    tracing::info!(node, "a machine has a vote in the group");
    Ok(node)
}

/// An address as a person gives it, with the port where control machines listen if none is named.
fn with_port(address: &str) -> String {
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PEERS_PORT).to_string(),
        Err(_) if address.contains(':') => address.to_owned(),
        Err(_) => format!("{address}:{PEERS_PORT}"),
    }
}

/// The member that is to be removed, if the others could agree to that.
pub(crate) fn removable(group: &Group, node: u64) -> Result<Member, ClusterError> {
    let roll = Roll::call(group, read_now());
    let member = roll.member(node).ok_or(ClusterError::NoSuchNode { node })?;
    if node == group.node() {
        return Err(ClusterError::Leads { node });
    }
    let votes = roll.votes_without(node);
    if roll.has_vote(node) && !votes.decide() {
        return Err(ClusterError::NoQuorum {
            node,
            reached: votes.reached,
            voters: votes.voters,
            needed: votes.needed(),
        });
    }
    Ok(member.clone())
}

/// Takes a machine out of the group for ever.
pub(crate) async fn remove(group: &Group, node: u64) -> Result<u64, ClusterError> {
    let (_, mut voters) = group.members();
    if voters.remove(&node) {
        change_voters(group, voters).await?;
    } else {
        match timeout(CHANGE_LIMIT, group.forget(node)).await {
            Ok(forgotten) => forgotten?,
            Err(_) => return Err(ClusterError::Late),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_is_the_one_of_control_machines() {
        for (given, expected) in [
            ("c2", "c2:7410"),
            ("c2.example:7500", "c2.example:7500"),
            ("10.0.0.2", "10.0.0.2:7410"),
            ("10.0.0.2:7500", "10.0.0.2:7500"),
            ("fd00::2", "[fd00::2]:7410"),
            ("[fd00::2]", "[fd00::2]:7410"),
            ("[fd00::2]:7500", "[fd00::2]:7500"),
        ] {
            assert_eq!(with_port(given), expected);
        }
    }
}
