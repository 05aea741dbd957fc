//! This node's part in its group, on a thread and a runtime of its own: votes and heartbeats must
//! not wait behind the requests of people and the streams of agents.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Outcome, Proposal};
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

use crate::consensus::{Group, GroupError, GroupOptions, ProposeError};
use crate::exit::causes;
use crate::run::{CoordinatorError, Thread};

/// How long a quorum may take to confirm the first time.
const CONFIRM_LIMIT: Duration = Duration::from_secs(30);

const NAME: &str = "consensus";

/// Holds the group's thread.
pub(crate) struct Member {
    group: Arc<Group>,
    runtime: Handle,
    stop: oneshot::Sender<Arc<Group>>,
    pub(crate) thread: Thread,
}

/// Puts batches into the group's log, from a thread that may wait.
pub(crate) struct Proposer {
    group: Arc<Group>,
    runtime: Handle,
}

impl Proposer {
    pub(crate) fn propose(&self, batch: Arc<[Proposal]>) -> Result<Vec<Outcome>, ProposeError> {
        self.runtime.block_on(self.group.propose(batch))
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
        Ok(Member {
            group,
            runtime: handle,
            stop,
            thread,
        })
    }

    /// Waits until this node leads and has applied everything there is.
    pub(crate) async fn lead(&self) -> Result<(), CoordinatorError> {
        let mut leadership = self.group.leadership();
        let leads = leadership.wait_for(|now| now.leads).await.is_ok();
        if leads && self.group.confirm(CONFIRM_LIMIT).await.is_ok() {
            return Ok(());
        }
        Err(CoordinatorError::NoLead)
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    pub(crate) fn proposer(&self) -> Proposer {
        Proposer {
            group: Arc::clone(&self.group),
            runtime: self.runtime.clone(),
        }
    }

    /// Closes the files. Every [`Proposer`] has been dropped before.
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
    let Some(group) = Arc::into_inner(group) else {
        tracing::warn!("the group is stopped while somebody still proposes");
        return;
    };
    if let Err(error) = group.stop().await {
        tracing::warn!(error = causes(&error), "the group did not stop in order");
    }
}
