//! The hosts as dispatch sees them, and which of them could take a shard now.
//!
//! A grant must cost the same with ten hosts and with a thousand, so nobody walks over them for
//! one. For every class and set of labels that shards ask for there is a pool: the hosts that are and
//! have all that. A host whose room changes is put anew into the pools that it is in, and that is all
//! that a grant, a receipt or a beat costs.
//!
//! A host leaves the pools when it has not been heard for three beats; that takes a look at the
//! one that was heard least recently, whenever anything happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::AgentRow;
use profiles::classes::Classes;
use profiles::matching::{Amounts, Ask, Cost, Filter, Offer, Strain, cost};
use protocol::{AgentId, BootMs, ClassName, HostFacts, HostNow, Label, SessionId};

use crate::pool::{Pool, Position};

/// Pools beyond so many make room for each other: jobs come and go, and what they asked for is of
/// no use any more.
const POOLS_MAX: usize = 64;

/// Among so many of the hosts with most free slots the one is sought that has fewest shards of the
/// same run. More than that would make a wide run on a large fleet pay for every shard of it.
const LOOKS_MAX: usize = 64;

/// On the line to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) session: SessionId,
    /// When it has been quiet for too long, if nothing more is heard.
    pub(crate) fresh_until: BootMs,
}

#[derive(Debug, Default)]
pub(crate) struct Fleet {
    places: BTreeMap<AgentId, Place>,
    /// By position.
    agents: Vec<AgentId>,
    pools: BTreeMap<Arc<Filter>, Asked>,
    /// Hosts that are heard, longest unheard first.
    by_silence: BTreeSet<(BootMs, AgentId)>,
    /// How often a pool was asked: tells which is of least use.
    asked: u64,
}

#[derive(Debug)]
struct Asked {
    pool: Pool,
    last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    position: Position,
    contact: Option<Contact>,
    /// Neither barred nor cordoned.
    open: bool,
    facts: Arc<HostFacts>,
    /// What the facts come to.
    pub(crate) classes: Arc<[ClassName]>,
    pub(crate) offer: Offer,
    labels: Arc<[Label]>,
    /// For leases, and for grants on their way.
    pub(crate) set_aside: Amounts,
    pub(crate) strain: Strain,
    /// Whether a beat has told of the strain, or only the facts.
    told: bool,
}

impl Place {
    fn new(position: Position, agent: &AgentRow, classes: &Classes) -> Place {
        let offer = Offer::of(agent.slots, &agent.facts);
        Place {
            position,
            contact: None,
            open: false,
            classes: classes.of(&agent.facts).classes().cloned().collect(),
            strain: Strain::of(&agent.facts, None, &offer, &Amounts::default()),
            offer,
            facts: Arc::clone(&agent.facts),
            labels: Arc::clone(&agent.labels),
            set_aside: Amounts::default(),
            told: false,
        }
    }

    /// What can be given of it now.
    fn room(&self) -> Amounts {
        if self.open && self.contact.is_some() {
            self.strain.room(&self.offer, &self.set_aside)
        } else {
            Amounts::default()
        }
    }

    fn is_for(&self, filter: &Filter) -> bool {
        filter.has_class(&self.classes) && filter.has_labels(&self.labels)
    }
}

impl Fleet {
    /// Takes over what is known of a host. Answers whether it may take something that it could not
    /// take before.
    pub(crate) fn note(
        &mut self,
        agent: &AgentRow,
        contact: Option<Contact>,
        set_aside: Amounts,
        classes: &Classes,
    ) -> bool {
        let agent_id = agent.agent_id;
        let before = self.places.get(&agent_id);
        let mut place = match before {
            Some(before) if is_same(&before.facts, &agent.facts) => before.clone(),
            Some(before) => {
                let fresh = Place::new(before.position, agent, classes);
                let strain = if before.told {
                    before.strain
                } else {
                    fresh.strain
                };
                Place {
                    strain,
                    told: before.told,
                    ..fresh
                }
            }
            None => Place::new(self.agents.len(), agent, classes),
        };
        place.contact = contact;
        place.open = agent.barred.is_none() && agent.cordon.is_none();
        place.offer.slots = agent.slots;
        if place.labels != agent.labels {
            place.labels = Arc::clone(&agent.labels);
        }
        place.set_aside = set_aside;
        if before == Some(&place) {
            return false;
        }
        let (had, was) = before.map_or_else(
            || (Amounts::default(), None),
            |before| {
                if let Some(contact) = before.contact {
                    self.by_silence.remove(&(contact.fresh_until, agent_id));
                }
                (before.room(), Some((&before.classes, &before.labels)))
            },
        );
        let is_another = was != Some((&place.classes, &place.labels));
        let has = place.room();
        if before.is_none() {
            self.agents.push(agent_id);
        }
        if let Some(contact) = place.contact {
            self.by_silence.insert((contact.fresh_until, agent_id));
        }
        self.places.insert(agent_id, place);
        if is_another || had != has {
            self.put_into_pools(agent_id);
        }
        has.slots > 0 && (is_another || !had.holds(&has))
    }

    /// The same where only what is set aside has changed.
    pub(crate) fn note_set_aside(&mut self, agent_id: AgentId, set_aside: Amounts) -> bool {
        self.change(agent_id, |place| place.set_aside = set_aside)
    }

    /// The same where a beat has told how the host fares.
    pub(crate) fn note_now(&mut self, agent_id: AgentId, now: Option<&HostNow>) -> bool {
        self.change(agent_id, |place| {
            place.strain = Strain::of(&place.facts, now, &place.offer, &place.set_aside);
            place.told = now.is_some();
        })
    }

    fn change(&mut self, agent_id: AgentId, change: impl FnOnce(&mut Place)) -> bool {
        let Some(place) = self.places.get_mut(&agent_id) else {
            return false;
        };
        let (had, was_pressed) = (place.room(), place.strain.pressed);
        change(place);
        let has = place.room();
        if had != has || was_pressed != place.strain.pressed {
            self.put_into_pools(agent_id);
        }
        !had.holds(&has)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() + self.by_silence.len()
    }

    /// Lets go of hosts that have not been heard for too long.
    pub(crate) fn forget_quiet(&mut self, now: BootMs) {
        while let Some(&(until, agent_id)) = self.by_silence.first()
            && until <= now
        {
            self.by_silence.pop_first();
            self.change(agent_id, |place| place.contact = None);
        }
    }

    /// A host for a shard of which `of_run` tells how many of the same run a host has. One on which
    /// it has not just failed (a sick one that fails at once is always free, and would swallow every
    /// retry); of these one where nothing waits for memory, then the one with fewest shards of the same
    /// run, then the one that it costs least, then the most free slots, then the lowest id.
    pub(crate) fn choose(
        &mut self,
        ask: &Ask,
        failed_on: Option<AgentId>,
        of_run: impl Fn(AgentId) -> u32,
    ) -> Option<(AgentId, SessionId)> {
        self.asked += 1;
        if !self.pools.contains_key(&ask.filter) {
            self.make_pool(&ask.filter);
        }
        let asked = self.pools.get_mut(&ask.filter)?;
        asked.last = self.asked;
        let mut best = None;
        for position in asked.pool.with_room(ask.takes).take(LOOKS_MAX) {
            let agent_id = self.agents[position];
            let Some(place) = self.places.get(&agent_id) else {
                continue;
            };
            let Some(contact) = place.contact else {
                continue;
            };
            let failed_here = failed_on == Some(agent_id);
            let rank = (
                failed_here,
                place.strain.pressed,
                of_run(agent_id),
                cost(&place.offer, &place.room(), &ask.takes),
            );
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, (agent_id, contact.session)));
            }
            if rank == (false, false, 0, Cost::default()) {
                break;
            }
        }
        best.map(|(_, place)| place)
    }

    /// Whether a host could take this now.
    pub(crate) fn could_take(&self, agent_id: AgentId, ask: &Ask) -> bool {
        let place = self.places.get(&agent_id);
        place.is_some_and(|place| place.is_for(&ask.filter) && place.room().holds(&ask.takes))
    }

    /// The live session of a host that was heard lately.
    pub(crate) fn session_of(&self, agent_id: AgentId, now: BootMs) -> Option<SessionId> {
        let contact = self.places.get(&agent_id)?.contact;
        contact
            .filter(|contact| contact.fresh_until > now)
            .map(|contact| contact.session)
    }

    pub(crate) fn place(&self, agent_id: AgentId) -> Option<&Place> {
        self.places.get(&agent_id)
    }

    fn put_into_pools(&mut self, agent_id: AgentId) {
        let Some(place) = self.places.get(&agent_id) else {
            return;
        };
        let room = place.room();
        for (filter, asked) in &mut self.pools {
            let room = if place.is_for(filter) {
                room
            } else {
                Amounts::default()
            };
            asked.pool.put(place.position, &room, place.strain.pressed);
        }
    }

    fn make_pool(&mut self, filter: &Arc<Filter>) {
        if self.pools.len() >= POOLS_MAX {
            let idlest = self.pools.iter().min_by_key(|(_, asked)| asked.last);
            if let Some(idlest) = idlest.map(|(filter, _)| Arc::clone(filter)) {
                self.pools.remove(&idlest);
            }
        }
        let asked = Asked {
            pool: self.pool_for(filter),
            last: self.asked,
        };
        self.pools.insert(Arc::clone(filter), asked);
    }

    fn pool_for(&self, filter: &Filter) -> Pool {
        let mut pool = Pool::default();
        for place in self.places.values().filter(|place| place.is_for(filter)) {
            pool.put(place.position, &place.room(), place.strain.pressed);
        }
        pool
    }

    /// How many hosts of this kind could be given work now or when there is room.
    pub(crate) fn in_service(&self, filter: &Filter, now: BootMs) -> u32 {
        let serves = |place: &&Place| {
            let heard = place
                .contact
                .is_some_and(|contact| contact.fresh_until > now);
            place.open && heard && place.is_for(filter)
        };
        self.places.values().filter(serves).count() as u32
    }

    /// Whether the pools are what the hosts make of them.
    pub(crate) fn check(&self, set_aside: impl Fn(AgentId) -> Amounts) -> Result<(), String> {
        for (filter, asked) in &self.pools {
            let built = self.pool_for(filter);
            if !asked.pool.is_as(&built) {
                return Err(format!(
                    "pool of {filter:?} kept up: {:?}\nbuilt afresh: {built:?}",
                    asked.pool
                ));
            }
        }
        for (&agent_id, place) in &self.places {
            let counted = set_aside(agent_id);
            if place.set_aside != counted {
                return Err(format!(
                    "{counted:?} is set aside on {agent_id}, kept up {:?}",
                    place.set_aside
                ));
            }
        }
        Ok(())
    }
}

/// Facts are held by whoever has read the row, and read anew when it has changed.
fn is_same(known: &Arc<HostFacts>, facts: &Arc<HostFacts>) -> bool {
    Arc::ptr_eq(known, facts) || known == facts
}

#[cfg(test)]
mod quality;
