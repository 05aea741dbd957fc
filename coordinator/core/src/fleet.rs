//! The hosts as dispatch sees them, and which of them could take a shard now.
//!
//! A grant must cost the same with ten hosts and with a thousand, so nobody walks over them for
//! one. For every set of labels that shards ask for there is a pool: the hosts that have them all and
//! a free slot, those with most free slots first. A host whose number of free slots changes moves
//! in the pools that it is in, and that is all that a grant or a receipt costs.
//!
//! A host leaves the pools when it has not been heard for three beats; that takes a look at the
//! one that was heard least recently, whenever anything happens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::AgentRow;
use protocol::{AgentId, BootMs, Label, SessionId};

use crate::line::has_all;

/// Pools beyond so many make room for each other: jobs come and go, and what they asked for is of
/// no use any more.
const POOLS_MAX: usize = 64;

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
    pools: BTreeMap<Arc<[Label]>, Pool>,
    /// Hosts that are heard, longest unheard first.
    by_silence: BTreeSet<(BootMs, AgentId)>,
    /// How often a pool was asked: tells which is of least use.
    asked: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    contact: Option<Contact>,
    /// Neither barred nor cordoned.
    open: bool,
    slots: u32,
    /// Leases, and grants on their way.
    used: u32,
    labels: Arc<[Label]>,
}

#[derive(Debug, Default)]
struct Pool {
    /// Hosts with a free slot: most of them first, then the lowest id.
    free: BTreeSet<(Reverse<u32>, AgentId)>,
    last_asked: u64,
}

impl Place {
    fn free(&self) -> u32 {
        if self.open && self.contact.is_some() {
            self.slots.saturating_sub(self.used)
        } else {
            0
        }
    }
}

impl Fleet {
    /// Takes over what is known of a host. Answers whether more room is on it than before.
    pub(crate) fn note(&mut self, agent: &AgentRow, contact: Option<Contact>, used: u32) -> bool {
        let place = Place {
            contact,
            open: agent.barred.is_none() && agent.cordon.is_none(),
            slots: agent.slots,
            used,
            labels: Arc::clone(&agent.labels),
        };
        let agent_id = agent.agent_id;
        let before = self.places.get(&agent_id);
        if before == Some(&place) {
            return false;
        }
        let (free_before, other_labels) = before.map_or((0, true), |before| {
            (before.free(), before.labels != place.labels)
        });
        if let Some(before) = self.places.remove(&agent_id) {
            self.move_in_pools(agent_id, &before, 0);
            if let Some(contact) = before.contact {
                self.by_silence.remove(&(contact.fresh_until, agent_id));
            }
        }
        if let Some(contact) = place.contact {
            self.by_silence.insert((contact.fresh_until, agent_id));
        }
        let free = place.free();
        let empty = Place {
            used: place.slots,
            ..place.clone()
        };
        self.move_in_pools(agent_id, &empty, free);
        self.places.insert(agent_id, place);
        free > free_before || free > 0 && other_labels
    }

    /// The same where only the number of leases has changed.
    pub(crate) fn note_used(&mut self, agent_id: AgentId, used: u32) -> bool {
        let Some(place) = self.places.get_mut(&agent_id) else {
            return false;
        };
        let before = place.clone();
        place.used = used;
        let free = place.free();
        self.move_in_pools(agent_id, &before, free);
        free > before.free()
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
            if let Some(place) = self.places.get_mut(&agent_id) {
                let before = place.clone();
                place.contact = None;
                self.move_in_pools(agent_id, &before, 0);
            }
        }
    }

    /// Hosts with these labels and a free slot: most free slots first, then the lowest id.
    pub(crate) fn with_room(
        &mut self,
        labels: &Arc<[Label]>,
    ) -> impl Iterator<Item = (AgentId, SessionId)> + '_ {
        self.asked += 1;
        if !self.pools.contains_key(labels) {
            self.make_pool(labels);
        }
        let asked = self.asked;
        let pool = self.pools.get_mut(labels).map(|pool| {
            pool.last_asked = asked;
            &*pool
        });
        let places = &self.places;
        let hosts = pool.into_iter().flat_map(|pool| pool.free.iter());
        hosts.filter_map(|&(_, agent_id)| {
            let contact = places.get(&agent_id)?.contact?;
            Some((agent_id, contact.session))
        })
    }

    /// The live session of a host that was heard lately.
    pub(crate) fn session_of(&self, agent_id: AgentId, now: BootMs) -> Option<SessionId> {
        let contact = self.places.get(&agent_id)?.contact;
        contact
            .filter(|contact| contact.fresh_until > now)
            .map(|contact| contact.session)
    }

    pub(crate) fn used(&self, agent_id: AgentId) -> u32 {
        self.places.get(&agent_id).map_or(0, |place| place.used)
    }

    /// Moves a host, as it was, in all pools that it is in to where it now has this many free slots.
    fn move_in_pools(&mut self, agent_id: AgentId, before: &Place, free: u32) {
        let free_before = before.free();
        if free == free_before {
            return;
        }
        for (wanted, pool) in &mut self.pools {
            if !has_all(&before.labels, wanted) {
                continue;
            }
            if free_before > 0 {
                pool.free.remove(&(Reverse(free_before), agent_id));
            }
            if free > 0 {
                pool.free.insert((Reverse(free), agent_id));
            }
        }
    }

    fn make_pool(&mut self, labels: &Arc<[Label]>) {
        if self.pools.len() >= POOLS_MAX {
            let idlest = self.pools.iter().min_by_key(|(_, pool)| pool.last_asked);
            if let Some(idlest) = idlest.map(|(labels, _)| Arc::clone(labels)) {
                self.pools.remove(&idlest);
            }
        }
        let pool = Pool {
            free: self.hosts_for(labels),
            last_asked: self.asked,
        };
        self.pools.insert(Arc::clone(labels), pool);
    }

    fn hosts_for(&self, labels: &[Label]) -> BTreeSet<(Reverse<u32>, AgentId)> {
        let fitting = self
            .places
            .iter()
            .filter(|(_, place)| place.free() > 0 && has_all(&place.labels, labels));
        fitting
            .map(|(&agent_id, place)| (Reverse(place.free()), agent_id))
            .collect()
    }

    /// How many hosts with these labels could be given work now or when a slot is free.
    pub(crate) fn in_service(&self, labels: &[Label], now: BootMs) -> u32 {
        let serves = |place: &&Place| {
            let heard = place
                .contact
                .is_some_and(|contact| contact.fresh_until > now);
            place.open && heard && has_all(&place.labels, labels)
        };
        self.places.values().filter(serves).count() as u32
    }

    /// Whether the pools are what the hosts make of them.
    pub(crate) fn check(&self, used: impl Fn(AgentId) -> u32) -> Result<(), String> {
        for (labels, pool) in &self.pools {
            let built = self.hosts_for(labels);
            if pool.free != built {
                return Err(format!(
                    "pool of {labels:?} kept up: {:?}\nbuilt afresh: {built:?}",
                    pool.free
                ));
            }
        }
        for (&agent_id, place) in &self.places {
            if place.used != used(agent_id) {
                return Err(format!(
                    "{agent_id} has {} leases, counted {}",
                    used(agent_id),
                    place.used
                ));
            }
        }
        Ok(())
    }
}
