//! What the engine's thread asks of the group: that a quorum confirm the lead, and that another
//! take it. Asked in tasks on the group's own runtime; the answers come back as inputs.

use std::sync::Arc;
use std::time::Duration;

use coordinator_core::Candidate;
use protocol::DurationMs;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};
use transport::Role;

use crate::clock::in_millis;
use crate::consensus::Group;
use crate::engine::{Engine, HandOver, HandOverError, Input, ReignId};
use crate::exit::causes;

/// Rounds begin no closer together than this: one serves every heartbeat that waits by then.
const ROUNDS_APART: Duration = Duration::from_millis(20);

/// How long one try of a round may take; a message that is lost is sent again by then.
const ROUND_LIMIT: Duration = Duration::from_secs(1);

/// A successor that has not begun to lead by then is told again.
const TOLD_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct Quorum {
    group: Arc<Group>,
    runtime: Handle,
    engine: Engine,
    last_round: Option<Instant>,
}

impl Quorum {
    pub(crate) fn new(group: Arc<Group>, runtime: Handle, engine: Engine) -> Quorum {
        Quorum {
            group,
            runtime,
            engine,
            last_round: None,
        }
    }

    /// Asks the quorum whether this node leads in this term, from now on until it says so or the
    /// reign is over; the answer is an [`Input::Quorum`].
    pub(crate) fn begin_round(&mut self, reign: ReignId, term: u64, round: u64) {
        let now = Instant::now();
        let begin = self
            .last_round
            .map_or(now, |last| now.max(last + ROUNDS_APART));
        self.last_round = Some(begin);
        let (group, engine) = (Arc::clone(&self.group), self.engine.clone());
        let post = engine.post();
        self.runtime.spawn(async move {
            sleep_until(begin).await;
            loop {
                let begun = Instant::now();
                if group.confirm(ROUND_LIMIT).await == Ok(term) {
                    engine.send(Input::Quorum { reign, round });
                    return;
                }
                if post.borrow().over >= reign || post.has_changed().is_err() {
                    return;
                }
                sleep_until(begun + ROUNDS_APART).await;
            }
        });
    }

    /// Who could be given the lead: the coordinators that vote, or this one of them.
    pub(crate) fn candidates(&self, wanted: Option<u64>) -> Vec<Candidate> {
        let (members, voters) = self.group.members();
        let leads =
            |node: &u64| members.get(node).map(|it| it.facts.role) == Some(Role::Coordinator);
        let others = voters.into_iter().filter(|&node| node != self.group.node());
        others
            .filter(leads)
            .filter(|&node| wanted.is_none_or(|wanted| wanted == node))
            .filter_map(|node| {
                let behind = self.group.behind(node)?;
                Some(Candidate { node, behind })
            })
            .collect()
    }

    /// For how long this machine's disk has not answered.
    pub(crate) fn disk_hangs(&self) -> DurationMs {
        in_millis(self.group.log_waits())
    }

    pub(crate) fn has_everything(&self, successor: u64) -> bool {
        self.group.behind(successor) == Some(0)
    }

    /// How long a successor may take to catch up, and how long to lead then.
    pub(crate) fn patience(&self) -> DurationMs {
        in_millis(self.limit())
    }

    fn limit(&self) -> Duration {
        2 * self.group.timers().election_max
    }

    /// Gives the lead away, and tells whoever asked for it whether it was taken.
    pub(crate) fn transfer(&self, to: u64, hand_over: HandOver) {
        let group = Arc::clone(&self.group);
        let limit = self.limit();
        self.runtime.spawn(async move {
            let mut leadership = group.leadership();
            let given = async {
                // What was lost on its way, or came before the successor had the very last entry,
                // is said again.
                loop {
                    if let Err(error) = group.transfer(to).await {
                        let error = causes(&error);
                        tracing::warn!(to, error, "the lead cannot be given away");
                        return false;
                    }
                    let taken = leadership.wait_for(|now| now.leader == Some(to));
                    if let Ok(taken) = timeout(TOLD_AGAIN, taken).await {
                        return taken.is_ok();
                    }
                }
            };
            hand_over.tell(match timeout(limit, given).await {
                Ok(true) => Ok(to),
                Ok(false) | Err(_) => Err(HandOverError::NotTaken { to }),
            });
        });
    }
}
