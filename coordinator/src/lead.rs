//! From having the lead of the group to acting on it.
//!
//! That this node leads is no licence to act: it may have been cut off for a while, or lack what
//! another leader has committed. So with every lead a quorum first confirms it, in a round begun
//! then, and by the end of it everything that was committed before is in the ledger here. Then the
//! ledger is looked at and a core is made from what was seen; its reign begins when its
//! `BecomeActive` is committed, and that is refused if the ledger has moved since the look.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use coordinator_core::clock::Thresholds;
use coordinator_core::clock::members::{MemberClock, Reading};
use coordinator_core::{Config, Core};
use ledger::{SeenClock, Store, StoreError, WorkingSet};
use profiles::classes::Classes;
use protocol::api::{ClusterStanding, LeaderAddress};
use protocol::message::Incarnation;
use protocol::{BootMs, Epoch, Role, Rules, WallMs};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock::{in_millis, read_now};
use crate::consensus::{Group, Leadership, PeerClock};
use crate::engine::{Accession, Engine, Input, ReignId, Standing};
use crate::exit::{self, LEDGER_FAILED};
use crate::memory;
use crate::standing::{self, Stands};
use crate::time_service::{self, Saying};
use crate::token::digest_of_machines;

/// How long a quorum may take to confirm the lead before it is asked again.
const CONFIRM_LIMIT: Duration = Duration::from_secs(1);

/// How long this node waits after a try that came to nothing.
const AGAIN: Duration = Duration::from_millis(20);

/// How often a core hears how the clocks of the other members stand: as often as they are read.
const CLOCKS_EVERY: Duration = Duration::from_secs(1);

/// What this coordinator is, in every reign.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) node: String,
    pub(crate) incarnation: Incarnation,
    pub(crate) boot_id: String,
    pub(crate) clock: Thresholds,
    pub(crate) classes: Arc<Classes>,
    pub(crate) time_service: Saying,
}

/// Follows who leads, and has the engine reign while this node does. Ends with the group.
pub(crate) async fn follow(group: Arc<Group>, engine: Engine, about: About) {
    let mut leadership = group.leadership();
    let mut post = engine.post();
    let mut reign = ReignId(0);
    loop {
        let Ok(leading) = leadership.wait_for(|now| now.leads).await.map(|now| *now) else {
            return;
        };
        let idle = |standing| standing == Standing::Standby { idle: true };
        let Ok(found) = post
            .wait_for(|post| idle(post.standing))
            .await
            .map(|it| *it)
        else {
            return;
        };
        if found.given_away == Some(leading.term) {
            left(&mut leadership, leading.term).await;
            continue;
        }
        let core = tokio::select! {
            core = prepare(&group, leading.term, &about, found.yielded) => core,
            () = left(&mut leadership, leading.term) => continue,
        };
        let Some(core) = core else {
            sleep(AGAIN).await;
            continue;
        };
        reign = ReignId(reign.0 + 1);
        let term = leading.term;
        engine.send(Input::Accede(Accession { reign, term, core }));
        // The rows that it was made from are gone; it acts already, and does not wait for this.
        drop(tokio::task::spawn_blocking(memory::give_back));
        tokio::select! {
            () = left(&mut leadership, term) => engine.send(Input::Lost { term }),
            () = tell_of_clocks(&group, &engine) => {}
            () = tell_of_time_service(about.time_service.clone(), &engine) => {}
            // It stepped down by itself, or gave the lead away and has it still.
            over = post.wait_for(|post| post.over >= reign) => match over {
                Ok(_) => {}
                Err(_) => return,
            },
        }
        sleep(AGAIN).await;
    }
}

/// Never ends.
async fn tell_of_clocks(group: &Group, engine: &Engine) {
    loop {
        sleep(CLOCKS_EVERY).await;
        engine.send(Input::Clocks(clocks_of_members(group)));
    }
}

/// Never ends.
async fn tell_of_time_service(mut saying: Saying, engine: &Engine) {
    while saying.changed().await.is_ok() {
        let said = saying.borrow_and_update().clone();
        if let Some(said) = said {
            engine.send(Input::TimeService(said.word));
        }
    }
    // Nobody is asked.
    pending::<()>().await;
}

/// How the clocks of all other members were read last.
fn clocks_of_members(group: &Group) -> Vec<MemberClock> {
    let (members, _) = group.members();
    let mut peers = group.peers();
    let others = members
        .into_iter()
        .filter(|&(node, _)| node != group.node());
    let clocks = others.map(|(node, member)| MemberClock {
        node,
        role: member.facts.role,
        reading: peers.remove(&node).and_then(|peer| peer.clock).map(reading),
    });
    clocks.collect()
}

fn reading(clock: PeerClock) -> Reading {
    Reading::new(clock.ahead, clock.unsure, clock.steady, clock.read)
}

/// Waits until this node leads no longer in this term.
async fn left(leadership: &mut watch::Receiver<Leadership>, term: u64) {
    // The sender's end is an end of the lead as well.
    let _ = leadership
        .wait_for(|now| !now.leads || now.term != term)
        .await;
}

/// A core made from the state as of now; `None` where no quorum confirms the lead.
async fn prepare(
    group: &Group,
    term: u64,
    about: &About,
    yielded: Option<BootMs>,
) -> Option<Box<Core>> {
    let time_service = time_service::first_word(&about.time_service).await;
    if group.confirm(CONFIRM_LIMIT).await != Ok(term) {
        return None;
    }
    let node = about.node.clone();
    let seen = group.look(move |store| look(store, &node)).await;
    let (looked_at, last_clock, set) = match seen {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => exit::now(LEDGER_FAILED, "the ledger cannot be read", Some(&error)),
        // The group is being stopped.
        Err(_) => return None,
    };
    let config = Config {
        node: about.node.clone(),
        incarnation: about.incarnation,
        boot_id: about.boot_id.clone(),
        looked_at,
        last_clock,
        clock: about.clock,
        classes: Arc::clone(&about.classes),
        members: clocks_of_members(group),
        time_service,
        yielded,
    };
    // With many jobs this takes a while, and others want the thread.
    let made = tokio::task::spawn_blocking(move || {
        Box::new(Core::new(config, set, read_now(), Rules::all()))
    });
    match made.await {
        Ok(core) => Some(core),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is going down.
            Err(_) => None,
        },
    }
}

/// How many commands there have been, how the clocks stood at this node's last reign, and all that
/// is open.
fn look(store: &Store, node: &str) -> Result<(i64, Option<SeenClock>, WorkingSet), StoreError> {
    Ok((
        store.last_applied()?,
        store.last_clock(node)?,
        store.working_set()?,
    ))
}

/// What those may know of the lead who speak with the outside.
#[derive(Clone)]
pub(crate) struct Lead {
    /// Gone once the group is stopped.
    group: Weak<Group>,
    engine: Engine,
    stands: watch::Receiver<Stands>,
}

impl Lead {
    /// From then on it is looked at how this machine stands, in a task of its own.
    pub(crate) fn new(group: &Arc<Group>, engine: Engine) -> Lead {
        let (say, stands) = watch::channel(standing::at_first(group));
        tokio::spawn(standing::watch(Arc::downgrade(group), say));
        Lead {
            group: Arc::downgrade(group),
            engine,
            stands,
        }
    }

    /// Whether this coordinator is the one that acts: its reign has begun, it is not giving the lead
    /// away, and a quorum confirms it, in a round that begins now. What holds by it holds for no
    /// longer than a voter waits for its leader, by a clock that goes on while the machine sleeps.
    pub(crate) async fn acts(&self) -> bool {
        let standing = self.engine.standing();
        let Standing::Reigning { term, .. } = standing else {
            return false;
        };
        let Some(group) = self.group.upgrade() else {
            return false;
        };
        let limit = group.timers().election_max;
        let begun = read_now().boot;
        let confirmed = group.confirm(limit).await == Ok(term);
        let took = read_now().boot - begun;
        confirmed && took < in_millis(limit) && self.engine.standing() == standing
    }

    /// Waits until this coordinator acts, or is found to be one that does not; `limit` is for one that
    /// finds nobody. `None` where its thread or its group has ended first.
    pub(crate) async fn settled(&self, limit: Duration) -> Option<ClusterStanding> {
        let mut stands = self.stands.clone();
        let mut post = self.engine.post();
        let acts = |standing| matches!(standing, Standing::Reigning { .. });
        let settles = |standing| match standing {
            // It is about to act.
            ClusterStanding::Leads | ClusterStanding::CutOff | ClusterStanding::Searches => false,
            ClusterStanding::Follows | ClusterStanding::Waits | ClusterStanding::Removed => true,
        };
        tokio::select! {
            acts = post.wait_for(|post| acts(post.standing)) => acts.ok().map(|_| ClusterStanding::Leads),
            other = stands.wait_for(|stands| settles(stands.standing)) => {
                other.ok().map(|stands| stands.standing)
            }
            () = sleep(limit) => Some(self.stands().standing),
        }
    }

    /// How this machine takes part in its group.
    pub(crate) fn stands(&self) -> Stands {
        *self.stands.borrow()
    }

    /// Whether there is a reign that has begun. What is asked of its core is answered, though it
    /// may be over the next moment.
    pub(crate) fn reigns(&self) -> bool {
        matches!(
            self.engine.standing(),
            Standing::Reigning { .. } | Standing::Leaving
        )
    }

    /// Where the coordinator is that leads, if this one hears it and does not lead itself.
    pub(crate) fn address(&self) -> Option<LeaderAddress> {
        let group = self.group.upgrade()?;
        let leader = group.leadership().borrow().leader?;
        let hears = self.stands().standing == ClusterStanding::Follows;
        let (mut members, _) = group.members();
        let facts = members.remove(&leader)?.facts;
        (hears && facts.role == Role::Coordinator).then_some(LeaderAddress {
            name: facts.name,
            api: facts.api,
        })
    }

    /// Whether it is the own token of another coordinator of the group, or of this one.
    pub(crate) fn is_of_a_member(&self, offered: &[u8]) -> bool {
        let (Some(digest), Some(group)) = (digest_of_machines(offered), self.group.upgrade())
        else {
            return false;
        };
        let (members, _) = group.members();
        let mut coordinators = members
            .values()
            .filter(|member| member.facts.role == Role::Coordinator);
        coordinators.any(|member| member.facts.token == digest)
    }

    /// The group, until it is stopped.
    pub(crate) fn group(&self) -> Option<Arc<Group>> {
        self.group.upgrade()
    }

    /// The reign of this coordinator while it acts, and since when.
    pub(crate) fn reign(&self) -> Option<(Epoch, WallMs)> {
        match self.engine.standing() {
            Standing::Reigning { epoch, since, .. } => Some((epoch, since)),
            _ => None,
        }
    }
}
