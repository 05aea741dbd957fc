//! This node's part in its group, on a thread and a runtime of its own: votes and heartbeats must
//! not wait behind the requests of people and the streams of agents.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Outcome, Proposal};
use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::consensus::{Group, GroupError, GroupOptions, ProposeError};
use crate::exit::causes;
use crate::run::{CoordinatorError, Thread};

/// How long a leader waits that was not answered before it proposes again.
const AGAIN: Duration = Duration::from_millis(20);

/// How long those may take who still use the group when it is to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

const NAME: &str = "consensus";

/// Holds the group's thread.
pub(crate) struct Member {
    group: Arc<Group>,
    runtime: Handle,
    stop: oneshot::Sender<Arc<Group>>,
    given_up: watch::Sender<bool>,
    pub(crate) thread: Thread,
}

/// Puts batches into the group's log, from a thread that may wait.
pub(crate) struct Proposer {
    group: Arc<Group>,
    runtime: Handle,
    given_up: watch::Receiver<bool>,
}

impl Proposer {
    /// Proposes a batch in a term for as long as this node leads in it, or until that is given up. A
    /// leader that no quorum has answered for a while takes nothing, and may be answered again; what
    /// was not taken is not done.
    pub(crate) fn propose(
        &self,
        term: u64,
        batch: &Arc<[Proposal]>,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let leadership = self.group.leadership();
        let leads = || {
            let now = *leadership.borrow();
            now.leads && now.term == term
        };
        let proposed = async {
            loop {
                let proposed = self.group.propose_in(term, Arc::clone(batch)).await;
                match proposed {
                    Err(ProposeError::NotLeading { .. }) if leads() => sleep(AGAIN).await,
                    proposed => return proposed,
                }
            }
        };
        let mut given_up = self.given_up.clone();
        self.runtime.block_on(async {
            tokio::select! {
                proposed = proposed => proposed,
                // Or the member is gone altogether.
                _ = given_up.wait_for(|given_up| *given_up) => Err(ProposeError::Unknown),
            }
        })
    }
}

impl Member {
    pub(crate) async fn start(options: GroupOptions) -> Result<Member, CoordinatorError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| CoordinatorError::Thread { name: NAME, source })?;
        let handle = runtime.handle().clone();
        let (started, starting) = oneshot::channel();
        let (stop, stopping) = oneshot::channel();
        let thread = Thread::start(NAME, move || {
            runtime.block_on(live(options, started, stopping));
        })?;
        let group = starting
            .await
            .map_err(|_| CoordinatorError::Died { name: NAME })??;
        let (given_up, _) = watch::channel(false);
        Ok(Member {
            group,
            runtime: handle,
            stop,
            given_up,
            thread,
        })
    }

    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Where the group's own work is done.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn proposer(&self) -> Proposer {
        Proposer {
            group: Arc::clone(&self.group),
            runtime: self.runtime.clone(),
            given_up: self.given_up.subscribe(),
        }
    }

    /// Batches under way are waited for no longer: where the others are gone they never come back.
    pub(crate) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Closes the files. Whoever uses the group has been asked to end before.
    pub(crate) async fn stop(self) {
        // Where the thread has ended already, there is nothing to close.
        let _ = self.stop.send(self.group);
        let _ = self.thread.ended.await;
    }
}

async fn live(
    options: GroupOptions,
    started: oneshot::Sender<Result<Arc<Group>, GroupError>>,
    stopping: oneshot::Receiver<Arc<Group>>,
) {
    let group = Group::start(options).await.map(Arc::new);
    // Whoever started it may have gone, and then so has the other end of `stopping`.
    let _ = started.send(group);
    let Ok(group) = stopping.await else {
        return;
    };
    let Ok(group) = timeout(STOP_LIMIT, alone(group)).await else {
        tracing::warn!("the group is stopped while somebody still uses it");
        return;
    };
    if let Err(error) = group.stop().await {
        tracing::warn!(error = causes(&error), "the group did not stop in order");
    }
}

/// The group, when nobody else has it any more: a question to it may be under way.
async fn alone(mut group: Arc<Group>) -> Group {
    loop {
        match Arc::try_unwrap(group) {
            Ok(group) => return group,
            Err(shared) => group = shared,
        }
        sleep(Duration::from_millis(5)).await;
    }
}
