//! How the members of the group are found, again and again, for a core to judge.

use std::sync::Weak;
use std::time::Duration;

use coordinator_core::SeenMember;
use coordinator_core::address::Trouble;
use protocol::Lifetime;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock::read_now;
use crate::consensus::Group;
use crate::engine::{Engine, Input, Standing};
use crate::renewal::OwnCertificate;
use crate::roll::Roll;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Tells whoever reigns here, until the group is stopped.
pub(crate) async fn tell(
    group: Weak<Group>,
    engine: Engine,
    address: watch::Receiver<Option<Trouble>>,
    certificate: watch::Receiver<OwnCertificate>,
) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(group) = group.upgrade() else {
            return;
        };
        if matches!(engine.standing(), Standing::Reigning { .. }) {
            let trouble = address.borrow().as_ref().map(ToString::to_string);
            let roll = Roll::call(&group, read_now());
            let lifetime = certificate.borrow().lifetime;
            engine.send(Input::Members(look(&roll, trouble.as_deref(), lifetime)));
        }
    }
}

fn look(roll: &Roll, address_trouble: Option<&str>, certificate: Lifetime) -> Vec<SeenMember> {
    let classes = roll.own_condition().classes.as_ref();
    let found = roll.members().map(|found| {
        let peer = found.peer;
        let connected = peer.is_some_and(|peer| peer.connected.is_some());
        SeenMember {
            node: found.node,
            name: found.member.facts.name.clone(),
            heard: if found.own {
                Some(roll.now().boot)
            } else {
                peer.and_then(|peer| peer.heard)
            },
            // Of one that is away nothing newer is known than that.
            behind: found.behind.filter(|_| connected),
            spare_bytes: found.spare_bytes,
            address_trouble: address_trouble.filter(|_| found.own).map(str::to_owned),
            certificate: if found.own {
                Some(certificate)
            } else {
                peer.and_then(|peer| peer.certificate)
            },
            // A witness goes by none, and an older program does not say.
            other_classes: found
                .condition
                .and_then(|condition| condition.classes.clone())
                .filter(|theirs| classes.is_some_and(|own| own != theirs)),
            unfit: found
                .condition
                .and_then(|condition| condition.unfit.clone()),
        }
    });
    found.collect()
}
