//! What keeps a witness from leading, and the group from being without a leader for ever.
//!
//! A witness has a full log and a vote and does no business, so it should never lead. But it must be
//! able to: an entry may be committed on a coordinator and the witness only, and when that
//! coordinator dies, the other one lacks the entry and cannot win, and a witness that may not
//! campaign leaves two of three alive without a leader. So it does not campaign by itself, but when
//! it has heard no leader for three times as long as a coordinator waits, it asks for the lead: by
//! then a coordinator that could win has won. As a leader it waits until a coordinator has
//! everything, hands over, and repeats that until somebody else leads.
//!
//! It always asks with a pre-vote, so that a witness that is merely cut off disturbs nobody.

use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::instant::Instant as _;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::{Raft, RaftState};
use tokio::time::Instant;
use transport::Role;

use super::Timers;
use super::state::State;
use super::types::Types;

/// A coordinator with a vote to which a witness could hand the lead, as its leader sees it.
#[derive(Clone, Copy, Debug)]
struct Heir {
    node: u64,
    /// Up to here its log is the leader's.
    matched: Option<u64>,
    /// When it last answered.
    answered: Option<Instant>,
}

/// What a witness knows of its group at some moment.
#[derive(Clone, Debug)]
enum Standing {
    /// Somebody else leads, or nobody does.
    Follows {
        /// When the leader was last heard that is the last known here; none where another is about to be
        /// elected.
        heard: Option<Instant>,
    },
    Leads {
        last: u64,
        heirs: Vec<Heir>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// To ask the others for the lead.
    Elect,
    Transfer {
        to: u64,
    },
}

#[derive(Debug)]
struct Watchdog {
    timers: Timers,
    /// When a leader was last heard; at first, when this began.
    heard: Instant,
    asked: Option<Instant>,
    transferred: Option<Instant>,
}

impl Watchdog {
    fn new(timers: Timers, now: Instant) -> Watchdog {
        Watchdog {
            timers,
            heard: now,
            asked: None,
            transferred: None,
        }
    }

    /// To be called every heartbeat.
    fn plan(&mut self, now: Instant, standing: &Standing) -> Plan {
        let waits =
            |since: Option<Instant>, wait: Duration| since.is_some_and(|at| now < at + wait);
        let election = self.timers.election_max;
        match standing {
            Standing::Follows { heard } => {
                // While somebody else is being elected, nobody leads who could be heard, and what was
                // heard before still counts.
                self.heard = heard.map_or(self.heard, |heard| heard.max(self.heard));
                if waits(Some(self.heard), 3 * election) || waits(self.asked, election) {
                    return Plan::Nothing;
                }
                self.asked = Some(now);
                Plan::Elect
            }
            Standing::Leads { last, heirs } => {
                // As long as an election takes, during which nothing is heard of it here.
                if waits(self.transferred, 2 * election) {
                    return Plan::Nothing;
                }
                let heir = heirs
                    .iter()
                    .filter(|heir| heir.matched >= Some(*last) && waits(heir.answered, election))
                    .max_by_key(|heir| heir.answered);
                let Some(heir) = heir else {
                    return Plan::Nothing;
                };
                self.transferred = Some(now);
                Plan::Transfer { to: heir.node }
            }
        }
    }
}

/// Watches over the group for as long as this node is in it.
pub(super) async fn watch(raft: Raft<Types, State>, timers: Timers) {
    let mut watchdog = Watchdog::new(timers, Instant::now());
    let mut interval = tokio::time::interval(timers.heartbeat);
    loop {
        interval.tick().await;
        let Some(standing) = look(&raft).await else {
            // The group has ended.
            return;
        };
        let done = match watchdog.plan(Instant::now(), &standing) {
            Plan::Nothing => Ok(()),
            Plan::Elect => {
                tracing::warn!("no leader is heard: the witness asks for the lead");
                raft.trigger().elect(true).await
            }
            Plan::Transfer { to } => {
                tracing::info!(to, "the witness hands the lead over");
                raft.trigger().transfer_leader(to).await
            }
        };
        if done.is_err() {
            return;
        }
    }
}

async fn look(raft: &Raft<Types, State>) -> Option<Standing> {
    let metrics = raft.metrics().borrow_watched().clone();
    let mut voters = metrics.membership_config.voter_ids();
    if voters.all(|voter| voter != metrics.id) {
        // It has no part in an election.
        return Some(Standing::Follows {
            heard: Some(Instant::now()),
        });
    }
    if metrics.state != ServerState::Leader {
        let heard = raft.with_raft_state(heard).await.ok()?;
        return Some(Standing::Follows { heard });
    }
    let members = &metrics.membership_config;
    let is_coordinator = |node: &u64| {
        let member = members.get_node(node);
        member.is_some_and(|member| member.facts.role == Role::Coordinator)
    };
    let heirs = members.voter_ids().filter(is_coordinator);
    let heirs = heirs.map(|node| Heir {
        node,
        matched: metrics
            .replication
            .as_ref()
            .and_then(|of| of.get(&node)?.map(|matched| matched.index)),
        answered: metrics
            .heartbeat
            .as_ref()
            .and_then(|of| of.get(&node)?.map(|at| Instant::now() - at.elapsed())),
    });
    Some(Standing::Leads {
        last: metrics.last_log_index.unwrap_or(0),
        heirs: heirs.collect(),
    })
}

/// When a leader was last heard: each of its messages touches the vote that it holds.
fn heard(state: &RaftState<Types>) -> Option<Instant> {
    let at = state.vote_last_modified()?;
    state
        .vote_ref()
        .is_committed()
        .then(|| Instant::now() - at.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELECTION: Duration = Duration::from_millis(600);

    fn watchdog() -> (Watchdog, Instant) {
        let begin = Instant::now();
        (Watchdog::new(Timers::default(), begin), begin)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn it_asks_for_the_lead_after_three_times_an_election_without_a_leader() {
        // When a leader was last heard, and when it first asks, from the beginning of the watch on.
        for (heard, asks) in [(None, 1800), (Some(1000), 2800), (Some(1700), 3500)] {
            let (mut watchdog, begin) = watchdog();
            let mut asked = Vec::new();
            for at in (0..6000).step_by(100) {
                let heard = heard.filter(|heard| *heard <= at);
                let standing = Standing::Follows {
                    heard: heard.map(|heard| begin + ms(heard)),
                };
                if watchdog.plan(begin + ms(at), &standing) == Plan::Elect {
                    asked.push(at);
                }
            }
            assert_eq!(asked[..2], [asks, asks + 600], "{heard:?}");
        }
    }

    /// As when the lead is handed over: the vote that is cast for the next one says nothing of who led.
    #[test]
    fn while_another_is_elected_what_was_heard_before_counts() {
        let (mut watchdog, begin) = watchdog();
        let mut plan = |at, heard: Option<u64>| {
            let heard = heard.map(|heard| begin + ms(heard));
            watchdog.plan(begin + ms(at), &Standing::Follows { heard })
        };
        assert_eq!(plan(60_000, Some(60_000)), Plan::Nothing);
        for at in (60_100..61_800).step_by(100) {
            assert_eq!(plan(at, None), Plan::Nothing, "{at}");
        }
        assert_eq!(plan(61_800, None), Plan::Elect);
    }

    #[test]
    fn one_that_hears_a_leader_never_asks() {
        let (mut watchdog, begin) = watchdog();
        for at in (0..60_000).step_by(100) {
            let standing = Standing::Follows {
                heard: Some(begin + ms(at / 1700 * 1700)),
            };
            assert_eq!(watchdog.plan(begin + ms(at), &standing), Plan::Nothing);
        }
    }

    #[test]
    fn it_hands_over_to_who_has_everything_and_answers() {
        let heir = |node, matched, ago| {
            move |now: Instant| Heir {
                node,
                matched,
                answered: Some(now - ms(ago)),
            }
        };
        let full = heir(1, Some(9), 100);
        let behind = heir(2, Some(8), 10);
        let empty = heir(2, None, 10);
        let silent = heir(2, Some(9), 600);
        let fresher = heir(2, Some(9), 50);
        type Cases<'a> = [(&'a [&'a dyn Fn(Instant) -> Heir], Plan); 6];
        let cases: Cases = [
            (&[], Plan::Nothing),
            (&[&behind], Plan::Nothing),
            (&[&empty, &silent], Plan::Nothing),
            (&[&full, &behind], Plan::Transfer { to: 1 }),
            (&[&full, &silent], Plan::Transfer { to: 1 }),
            (&[&full, &fresher], Plan::Transfer { to: 2 }),
        ];
        for (number, (heirs, expected)) in cases.into_iter().enumerate() {
            let (mut watchdog, begin) = watchdog();
            let now = begin + ms(5000);
            let standing = Standing::Leads {
                last: 9,
                heirs: heirs.iter().map(|heir| heir(now)).collect(),
            };
            assert_eq!(watchdog.plan(now, &standing), expected, "{number}");
        }
    }

    #[test]
    fn what_did_not_help_is_repeated_and_not_at_once() {
        let (mut watchdog, begin) = watchdog();
        let mut handed = Vec::new();
        for at in (0..4000).step_by(100) {
            let now = begin + ms(at);
            let heir = Heir {
                node: 1,
                matched: Some(9),
                answered: Some(now),
            };
            let standing = Standing::Leads {
                last: 9,
                heirs: vec![heir],
            };
            if watchdog.plan(now, &standing) != Plan::Nothing {
                handed.push(at);
            }
        }
        assert_eq!(handed, [0, 1200, 2400, 3600]);
        assert_eq!(Timers::default().election_max, ELECTION);
    }
}
