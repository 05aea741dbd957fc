//! The person who puts a new machine in the place of one that was lost: asks again until it is done.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::super::{ChangeError, Facts, Group, Member};
use super::world::Groups;

/// How long a change may take before it is asked for again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes `old` out of the group and makes `new` a voter.
pub(super) async fn replace(groups: Groups, old: u64, new: u64, facts: Facts) {
    loop {
        sleep(Duration::from_millis(500)).await;
        let Some((store, leader)) = groups.newcomer_and_leader(new) else {
            continue;
        };
        let member = Member {
            store,
            facts: facts.clone(),
        };
        // What was done without an answer is asked for once more, which does no harm.
        if let Ok(Ok(())) = timeout(PATIENCE, change(&leader, old, new, member)).await {
            return;
        }
    }
}

async fn change(leader: &Group, old: u64, new: u64, member: Member) -> Result<(), ChangeError> {
    leader.add(new, member).await?;
    let mut voters = leader.members().1;
    voters.remove(&old);
    voters.insert(new);
    leader.set_voters(voters).await
}
