//! What this machine knows of the other members, and what it tells them of itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use protocol::{BootMs, DurationMs, Lifetime, Now};
use tokio::sync::watch;
use transport::PeerName;

use super::super::reserve::Room;
use super::super::types::{Facts, Member, StoreId};
use super::clocks::{OwnClock, PeerClock, PeerClocks};
use super::hello::{self, Judge, Met, Refusal};
use super::link::Link;
use super::wire::{Clock, Condition, FORM, Hello, Knows};
use crate::clock::read_now;

/// Refusals of machines that are no members, as many as are kept.
const STRANGERS_MAX: usize = 16;

/// Whoever is turned away asks again within seconds. One that has not for so long does not want in any
/// more, or was let in.
const STRANGER_KEPT: DurationMs = DurationMs::from_secs(60);

/// Another member, as far as this machine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Since when this machine has been connected to it.
    pub connected: Option<BootMs>,
    /// When it last said anything, on whichever connection.
    pub heard: Option<BootMs>,
    /// What it says of itself, since this process started.
    pub facts: Option<Facts>,
    pub clock: Option<PeerClock>,
    /// When the certificate is good that it has shown last.
    pub certificate: Option<Lifetime>,
    /// Why it was last not spoken to, or what of the log did not pass, unless it has since.
    pub trouble: Option<String>,
    /// What is left of its disk, where it says that that is too little.
    pub spare_bytes: Option<u64>,
    /// What it has said of itself last.
    pub condition: Condition,
}

/// A machine that is no member, and that was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its name, or its address where the handshake did not come to a name.
    pub who: String,
    pub why: String,
    pub last: BootMs,
    pub times: u64,
}

/// Whether two reasons differ by numbers only, as by ports and seconds, which are others at each try.
fn says_the_same(one: &str, other: &str) -> bool {
    let words = |text: &str| -> String { text.split(|c: char| c.is_ascii_digit()).collect() };
    words(one) == words(other)
}

/// Shared by everything that speaks to the other members.
pub(super) struct Table {
    node: u64,
    facts: Facts,
    /// Known once the files are open, which is before anybody is spoken to.
    store: OnceLock<StoreId>,
    room: OnceLock<watch::Receiver<Room>>,
    inner: Mutex<Inner>,
    /// Raised when somebody says something new of itself, and when the members change.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    own_clock: OwnClock,
    own_condition: Condition,
    members: BTreeMap<u64, Member>,
    /// The entry of the log in which they stand.
    members_at: Option<u64>,
    /// This machine was a member at some time since the process began.
    was_member: bool,
    /// The newest membership of another of which it says that this machine is not in it: whoever is
    /// removed is sent no entry that would tell it.
    left_out_at: Option<u64>,
    peers: BTreeMap<u64, Known>,
    strangers: BTreeMap<String, Stranger>,
}

#[derive(Default)]
struct Known {
    peer: Peer,
    clocks: PeerClocks,
    link: Option<Link>,
    /// The term in which this node leads or last led, and through which entry the other has said in it
    /// that it holds the log. In another term it may have had to give entries up again.
    acknowledged: (u64, u64),
}

impl Table {
    pub(super) fn new(node: u64, facts: Facts) -> Arc<Table> {
        Arc::new(Table {
            node,
            facts,
            store: OnceLock::new(),
            room: OnceLock::new(),
            inner: Mutex::default(),
            news: watch::channel(()).0,
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding it")
    }

    pub(super) fn set_store(&self, store: StoreId) {
        self.store.set(store).expect("files are opened once");
    }

    pub(super) fn set_room(&self, room: watch::Receiver<Room>) {
        self.room.set(room).expect("it is watched once");
    }

    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// What this machine says to a node.
    pub(super) fn hello(&self, to: Option<u64>) -> Hello {
        let store = self.store.get();
        let store = store.expect("the files are open before anybody is spoken to");
        let inner = self.inner();
        let knows_you = match to {
            _ if inner.members.is_empty() => Knows::Nobody,
            Some(node) if inner.members.contains_key(&node) => Knows::You,
            Some(_) | None => Knows::Others,
        };
        Hello {
            form: FORM,
            node: self.node,
            store: store.to_string(),
            knows_you,
            members_at: inner.members_at,
            facts: self.facts.clone(),
        }
    }

    pub(super) fn clock(&self) -> Clock {
        let room = self.room.get();
        Clock {
            spare_bytes: room.and_then(|room| room.borrow().short()),
            condition: self.own_condition(),
            ..self.inner().own_clock.look(read_now())
        }
    }

    /// What this machine tells the others of itself.
    pub(super) fn own_condition(&self) -> Condition {
        self.inner().own_condition.clone()
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Condition)) {
        change(&mut self.inner().own_condition);
    }

    /// Judges the first words of another machine by what is known of it.
    pub(super) fn judge(
        &self,
        name: &PeerName,
        certified: Option<u64>,
        expected: Option<u64>,
        hello: &Hello,
    ) -> Result<Met, Refusal> {
        let inner = self.inner();
        let judge = Judge {
            own_node: self.node,
            known: certified.and_then(|node| inner.members.get(&node)),
            member: !inner.members.is_empty(),
            expected,
        };
        hello::judge(name, certified, hello, &judge)
    }

    pub(super) fn member(&self, node: u64) -> Option<Member> {
        self.inner().members.get(&node).cloned()
    }

    pub(super) fn learn(&self, node: u64, member: &Member) {
        let mut inner = self.inner();
        inner.members.entry(node).or_insert_with(|| member.clone());
    }

    /// The members are these now, by this entry. Who is none any more is not spoken to.
    pub(super) fn set_members(&self, members: BTreeMap<u64, Member>, at: Option<u64>) {
        let mut inner = self.inner();
        inner.peers.retain(|node, _| members.contains_key(node));
        inner.was_member |= members.contains_key(&self.node);
        inner.members = members;
        inner.members_at = at;
        drop(inner);
        self.news.send_replace(());
    }

    /// Ready when a node is a member no longer that was one, or is one at some time from now on.
    pub(super) async fn removed(&self, node: u64, mut was_member: bool) {
        let mut news = self.news();
        loop {
            news.borrow_and_update();
            let is_member = self.member(node).is_some();
            if was_member && !is_member {
                return;
            }
            was_member = is_member;
            news.changed()
                .await
                .expect("the table itself has the sender");
        }
    }

    /// Whether this machine was a member and is none any more, as far as it can know. Of one that has
    /// just been added it may seem so for a moment, until the entry that adds it has come.
    pub(super) fn is_removed(&self) -> bool {
        let inner = self.inner();
        if inner.members.contains_key(&self.node) {
            return inner.left_out_at > inner.members_at;
        }
        let told = inner.left_out_at.is_some() && inner.left_out_at >= inner.members_at;
        !inner.members.is_empty() && (inner.was_member || told)
    }

    /// Nodes that are to be connected to.
    pub(super) fn others(&self) -> Vec<u64> {
        let inner = self.inner();
        let nodes = inner.members.keys();
        nodes.copied().filter(|node| *node != self.node).collect()
    }

    /// The link to a node, made where there is none yet.
    pub(super) fn link(&self, node: u64, make: impl FnOnce() -> Link) -> Link {
        let mut inner = self.inner();
        let known = inner.peers.entry(node).or_default();
        known.link.get_or_insert_with(make).clone()
    }

    /// A machine was found to be a member, or to become one, and has shown a certificate that is good then.
    pub(super) fn met(&self, met: &Met, certificate: Lifetime) {
        let mut inner = self.inner();
        match met.knows_us {
            Knows::Others => inner.left_out_at = inner.left_out_at.max(met.members_at),
            Knows::You if met.members_at >= inner.left_out_at => inner.left_out_at = None,
            Knows::You | Knows::Nobody => {}
        }
        let known = inner.peers.entry(met.node).or_default();
        known.peer.heard = Some(read_now().boot);
        known.peer.facts = Some(met.facts.clone());
        known.peer.certificate = Some(certificate);
        if let Some(link) = &known.link {
            link.hurry();
        }
        drop(inner);
        self.news.send_replace(());
    }

    pub(super) fn connected(&self, node: u64) {
        self.change(node, |known| {
            known.peer.connected = Some(read_now().boot);
            known.peer.trouble = None;
            known.clocks.forget();
        });
    }

    pub(super) fn heard(&self, node: u64) {
        self.change(node, |known| known.peer.heard = Some(read_now().boot));
    }

    pub(super) fn heard_clock(&self, node: u64, asked: Now, clock: Clock) {
        let answered = read_now();
        self.change(node, |known| {
            known.clocks.heard(asked, answered, &clock);
            known.peer.spare_bytes = clock.spare_bytes;
            known.peer.condition = clock.condition;
        });
    }

    /// A node cannot be spoken to. Tells whether that is something new.
    pub(super) fn trouble(&self, node: u64, why: &str) -> bool {
        self.change(node, |known| known.peer.connected = None);
        self.log_trouble(node, why)
    }

    /// A node is spoken to, and entries of the log do not pass. Tells whether that is something new.
    pub(super) fn log_trouble(&self, node: u64, why: &str) -> bool {
        let mut new = false;
        self.change(node, |known| {
            let told = known.peer.trouble.as_deref();
            new = !told.is_some_and(|told| says_the_same(told, why));
            known.peer.trouble = Some(why.to_owned());
        });
        new
    }

    /// It holds the log through this entry, and says so to the leader of this term.
    pub(super) fn acknowledges(&self, node: u64, term: u64, through: u64) {
        if let Some(known) = self.inner().peers.get_mut(&node) {
            let (of_term, held) = known.acknowledged;
            let held = if of_term == term { held } else { 0 };
            known.acknowledged = (term, held.max(through));
        }
    }

    /// Through which entry it has acknowledged the log to the leader of this term.
    pub(super) fn acknowledged(&self, node: u64, term: u64) -> u64 {
        let inner = self.inner();
        let known = inner.peers.get(&node).map(|known| known.acknowledged);
        known
            .filter(|&(of_term, _)| of_term == term)
            .map_or(0, |(_, through)| through)
    }

    pub(super) fn log_passes(&self, node: u64) {
        self.change(node, |known| {
            if known.peer.connected.is_some() {
                known.peer.trouble = None;
            }
        });
    }

    /// Only what is a member, or becomes one, is written down.
    fn change(&self, node: u64, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.inner().peers.get_mut(&node) {
            change(known);
        }
    }

    /// A machine was turned away at the door. Tells whether that is something new.
    pub(super) fn turned_away(&self, who: String, why: &str) -> bool {
        let mut inner = self.inner();
        let last = read_now().boot;
        if let Some(stranger) = inner.strangers.get_mut(&who) {
            let new = !says_the_same(&stranger.why, why);
            *stranger = Stranger {
                who,
                why: why.to_owned(),
                last,
                times: stranger.times + 1,
            };
            return new;
        }
        if inner.strangers.len() == STRANGERS_MAX {
            let oldest = inner.strangers.values().min_by_key(|it| it.last);
            if let Some(oldest) = oldest.map(|it| it.who.clone()) {
                inner.strangers.remove(&oldest);
            }
        }
        let stranger = Stranger {
            who: who.clone(),
            why: why.to_owned(),
            last,
            times: 1,
        };
        inner.strangers.insert(who, stranger);
        true
    }

    /// Gives up the links to everybody.
    pub(super) fn close(&self, why: &str) {
        let peers = std::mem::take(&mut self.inner().peers);
        for link in peers.into_values().filter_map(|known| known.link) {
            link.close(why);
        }
    }

    pub(super) fn peers(&self) -> BTreeMap<u64, Peer> {
        let inner = self.inner();
        let others = inner.peers.iter().map(|(node, known)| {
            let clock = known.clocks.best();
            let peer = Peer {
                clock,
                ..known.peer.clone()
            };
            (*node, peer)
        });
        others.collect()
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(super) fn strangers(&self) -> Vec<Stranger> {
        let now = read_now().boot;
        let mut inner = self.inner();
        inner
            .strangers
            .retain(|_, it| now - it.last <= STRANGER_KEPT);
        inner.strangers.values().cloned().collect()
    }

    /// What the membership should say of nodes of which it says something else.
    pub(super) fn out_of_date(&self) -> BTreeMap<u64, Member> {
        let inner = self.inner();
        let said = inner.peers.iter().filter_map(|(node, known)| {
            let facts = known.peer.facts.as_ref()?;
            Some((*node, facts))
        });
        said.chain([(self.node, &self.facts)])
            .filter_map(|(node, facts)| {
                let member = inner.members.get(&node)?;
                let changed = member.facts != *facts;
                changed.then(|| {
                    let facts = facts.clone();
                    let store = member.store;
                    (node, Member { store, facts })
                })
            })
            .collect()
    }
}
