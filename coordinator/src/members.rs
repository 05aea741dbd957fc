//! How the members of the group are found, again and again, for a core to judge.

use std::sync::Weak;
use std::time::Duration;

use coordinator_core::SeenMember;
use coordinator_core::address::Trouble;
use protocol::Now;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock::read_now;
use crate::consensus::{Group, Room};
use crate::engine::{Engine, Input, Standing};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Tells whoever reigns here, until the group is stopped.
pub(crate) async fn tell(
    group: Weak<Group>,
    engine: Engine,
    address: watch::Receiver<Option<Trouble>>,
) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(group) = group.upgrade() else {
            return;
        };
        if matches!(engine.standing(), Standing::Reigning { .. }) {
            let trouble = address.borrow().as_ref().map(ToString::to_string);
            engine.send(Input::Members(look(&group, trouble, read_now())));
        }
    }
}

fn look(group: &Group, address_trouble: Option<String>, now: Now) -> Vec<SeenMember> {
    let (members, _) = group.members();
    let mut peers = group.peers();
    let found = members.into_iter().map(|(node, member)| {
        let own = node == group.node();
        let peer = peers.remove(&node).unwrap_or_default();
        SeenMember {
            node,
            name: member.facts.name,
            heard: if own { Some(now.boot) } else { peer.heard },
            // Of one that is away nothing newer is known than that.
            behind: group.behind(node).filter(|_| peer.connected.is_some()),
            spare_bytes: if own {
                short(*group.room().borrow())
            } else {
                peer.spare_bytes
            },
            address_trouble: address_trouble.clone().filter(|_| own),
        }
    });
    found.collect()
}

/// What is left where it is too little.
pub(crate) fn short(room: Room) -> Option<u64> {
    match room {
        Room::Enough => None,
        Room::Short { spare_bytes } => Some(spare_bytes),
    }
}
