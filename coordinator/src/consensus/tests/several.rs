//! Several members in one process, however they are connected.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::{Group, ProposeError, Timers};
use super::group::{LIMIT, batch, content, epoch};

/// The machine that tests may be busy; nobody is to be taken for dead for that.
pub(super) const PATIENT: Timers = Timers {
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_millis(1500),
    election_max: Duration::from_secs(3),
};

/// Those that run, by their numbers.
#[derive(Default)]
pub(super) struct Groups(BTreeMap<u64, Group>);

impl Deref for Groups {
    type Target = BTreeMap<u64, Group>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Groups {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Groups {
    /// Who leads among `nodes`, once one of them does.
    pub(super) async fn leader(&self, nodes: &[u64]) -> u64 {
        let some = async {
            loop {
                for node in nodes {
                    let group = &self[node];
                    if group.leadership().borrow().leads && group.confirm(LIMIT).await.is_ok() {
                        return *node;
                    }
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LIMIT, some).await.unwrap()
    }

    /// Proposes to whoever of `nodes` leads; answers who that was, and the epoch.
    pub(super) async fn propose(&self, nodes: &[u64]) -> (u64, i64) {
        loop {
            let leader = self.leader(nodes).await;
            match self[&leader].propose(batch()).await {
                Ok(outcomes) => return (leader, epoch(&outcomes)),
                // It led a moment ago.
                Err(ProposeError::NotLeading { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until all that are there hold the same.
    pub(super) async fn agree(&self, leader: u64) {
        let expected = content(&self[&leader]).await;
        for group in self.values() {
            until("the members hold the same", async || {
                content(group).await == expected
            })
            .await;
        }
    }
}

/// Waits for something that is to come true by itself.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = async {
        while !holds().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, held)
        .await
        .unwrap_or_else(|_| panic!("it does not come true that {what}"));
}
