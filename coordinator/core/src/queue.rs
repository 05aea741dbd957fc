//! What is live, what may be granted, what is leased: indexes over the working set.
//!
//! Nothing here is a truth of its own. Every index can be rebuilt from the working set, and the
//! simulation compares the rebuilt with the one that was kept up step by step. The only thing
//! added is when: moments on this leader's boot clock, counted from when it learned of a row.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::{Change, RunRow, ShardRow, ShardState, WorkingSet};
use profiles::matching::Amounts;
use protocol::attempt::Trigger;
use protocol::{AgentId, BootMs, DurationMs, Now, Rule, Rules, RunId, Token, WallMs};

use crate::catalogue::Catalogue;
use crate::line::{Demand, Line, Order};
use crate::trigger::START_DEADLINE_MAX;

/// One shard of one run.
pub(crate) type Key = (RunId, u32);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    rules: Rules,
    slots: BTreeMap<Key, Slot>,
    pub(crate) line: Line,
    backing_off: BTreeSet<(BootMs, Key)>,
    unplaceable_at: BTreeSet<(BootMs, Key)>,
    leases: BTreeMap<AgentId, BTreeMap<Token, Key>>,
    /// What leases take of each host that has some.
    set_aside: BTreeMap<AgentId, Amounts>,
    /// How many shards of a run a host holds.
    held: BTreeMap<(RunId, AgentId), u32>,
    /// Hosts whose number of leases has changed since it was asked.
    touched: BTreeSet<AgentId>,
    live: BTreeSet<RunId>,
}

/// Where a shard stands in the indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    BackingOff {
        until: BootMs,
    },
    Ready {
        order: Order,
        /// `None` where the manifest cannot be read.
        demand: Option<Arc<Demand>>,
        unplaceable_at: BootMs,
    },
    Leased {
        agent: AgentId,
        token: Token,
        takes: Amounts,
    },
}

/// The queue without its moments: what two ways of building it must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pending: BTreeSet<Key>,
    leases: BTreeMap<Token, (AgentId, Key)>,
    set_aside: BTreeMap<AgentId, Amounts>,
    live: BTreeSet<RunId>,
}

impl Queue {
    pub(crate) fn build(set: &WorkingSet, catalogue: &Catalogue, now: Now, rules: Rules) -> Queue {
        let mut queue = Queue {
            rules,
            ..Queue::default()
        };
        for run in set.runs.values() {
            queue.note_run(run);
        }
        for shard in set.shards.values() {
            queue.note_shard(set, catalogue, shard, now);
        }
        queue
    }

    /// Follows one change that `set` has already absorbed.
    pub(crate) fn follow(
        &mut self,
        set: &WorkingSet,
        catalogue: &Catalogue,
        change: &Change,
        now: Now,
    ) {
        match change {
            Change::Run(run) => {
                let was_live = self.live.contains(&run.run_id);
                self.note_run(run);
                if run.state.is_final() {
                    self.drop_shards(run.run_id);
                } else if was_live != run.state.is_live() {
                    for shard in set.shards_of(run.run_id) {
                        self.note_shard(set, catalogue, shard, now);
                    }
                }
            }
            Change::Shard(shard) => self.note_shard(set, catalogue, shard, now),
            Change::Epoch(_)
            | Change::Held(_)
            | Change::Backup(_)
            | Change::Job(_)
            | Change::Version(_)
            | Change::Agent(_)
            | Change::Resource(_)
            | Change::NoResource(_) => {}
        }
    }

    /// Moves shards whose backoff is over to the ready ones.
    pub(crate) fn wake(&mut self, set: &WorkingSet, catalogue: &Catalogue, now: Now) {
        let clock = self.backoff_clock(now);
        while let Some(&(until, key)) = self.backing_off.first() {
            if until > clock {
                break;
            }
            self.leave(key);
            if let Some(run) = set.runs.get(&key.0) {
                self.enter_ready(catalogue, run, key, now);
            }
        }
    }

    /// Takes a shard out of the line, while something is in hand that concerns it.
    pub(crate) fn step_aside(&mut self, key: Key) {
        if let Some(Slot::Ready {
            order,
            demand: Some(demand),
            ..
        }) = self.slots.get(&key)
        {
            self.line.leave(*order, demand);
        }
    }

    /// Puts it back, if it still waits for a place.
    pub(crate) fn step_back(&mut self, key: Key) {
        if let Some(Slot::Ready {
            order,
            demand: Some(demand),
            ..
        }) = self.slots.get(&key)
        {
            self.line.enter(*order, demand);
        }
    }

    /// What a shard that waits for a place asks for; `None` where its manifest cannot be read.
    pub(crate) fn demand_of(&self, key: Key) -> Option<(Order, Arc<Demand>)> {
        match self.slots.get(&key) {
            Some(Slot::Ready { order, demand, .. }) => Some((*order, Arc::clone(demand.as_ref()?))),
            _ => None,
        }
    }

    /// Shards that wait for a place and could be tried. Walks over all that are pending or leased.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Key> + '_ {
        let ready = |slot: &Slot| {
            matches!(
                slot,
                Slot::Ready {
                    demand: Some(_),
                    ..
                }
            )
        };
        let slots = self.slots.iter().filter(move |(_, slot)| ready(slot));
        slots.map(|(&key, _)| key)
    }

    /// When a backoff is over, for a shard that is backing off.
    pub(crate) fn backs_off_until(&self, key: Key) -> Option<BootMs> {
        match self.slots.get(&key) {
            Some(&Slot::BackingOff { until }) => Some(until),
            _ => None,
        }
    }

    /// How many shards of a run a host holds.
    pub(crate) fn held_of(&self, run_id: RunId, agent: AgentId) -> u32 {
        self.held.get(&(run_id, agent)).copied().unwrap_or(0)
    }

    pub(crate) fn take_touched(&mut self) -> BTreeSet<AgentId> {
        std::mem::take(&mut self.touched)
    }

    /// The shard that has been ready for longest, and since when. Walks over all of them.
    pub(crate) fn oldest_ready(&self, set: &WorkingSet) -> Option<(BootMs, Key)> {
        let since = |&(at, key): &(BootMs, Key)| {
            let run = set.runs.get(&key.0)?;
            Some((at - placed_within(run), key))
        };
        self.unplaceable_at.iter().filter_map(since).min()
    }

    /// Shards that have waited for a place for longer than their start deadline.
    pub(crate) fn unplaceable(&self, now: Now) -> impl Iterator<Item = Key> + '_ {
        self.unplaceable_at
            .iter()
            .take_while(move |(at, _)| *at <= now.boot)
            .map(|&(_, key)| key)
    }

    pub(crate) fn leases_of(&self, agent: AgentId) -> impl Iterator<Item = (Token, Key)> + '_ {
        self.leases
            .get(&agent)
            .into_iter()
            .flatten()
            .map(|(&token, &key)| (token, key))
    }

    /// What leases take of a host.
    pub(crate) fn set_aside(&self, agent: AgentId) -> Amounts {
        self.set_aside.get(&agent).copied().unwrap_or_default()
    }

    pub(crate) fn lease_of(&self, key: Key) -> Option<(AgentId, Token)> {
        match self.slots.get(&key) {
            Some(&Slot::Leased { agent, token, .. }) => Some((agent, token)),
            _ => None,
        }
    }

    /// The next moment at which something here changes by itself.
    pub(crate) fn next_wake(&self) -> Option<BootMs> {
        let firsts = [
            self.backing_off
                .first()
                .map(|&(at, _)| at)
                .filter(|_| self.backs_off_on_boot()),
            self.unplaceable_at.first().map(|&(at, _)| at),
        ];
        firsts.into_iter().flatten().min()
    }

    pub(crate) fn len(&self) -> usize {
        let leases: usize = self.leases.values().map(BTreeMap::len).sum();
        let in_line = self.line.all().count();
        let by_time = self.backing_off.len() + self.unplaceable_at.len();
        let by_host = leases + self.set_aside.len() + self.held.len() + self.touched.len();
        self.slots.len() + in_line + by_time + by_host + self.live.len()
    }

    pub(crate) fn shape(&self) -> Shape {
        let is_leased = |slot: &Slot| matches!(slot, Slot::Leased { .. });
        Shape {
            pending: self
                .slots
                .iter()
                .filter(|(_, slot)| !is_leased(slot))
                .map(|(&key, _)| key)
                .collect(),
            leases: self
                .leases
                .iter()
                .flat_map(|(&agent, held)| held.iter().map(move |(&t, &key)| (t, (agent, key))))
                .collect(),
            set_aside: self.set_aside.clone(),
            live: self.live.clone(),
        }
    }

    fn note_run(&mut self, run: &RunRow) {
        if run.state.is_live() {
            self.live.insert(run.run_id);
        } else {
            self.live.remove(&run.run_id);
        }
    }

    fn drop_shards(&mut self, run_id: RunId) {
        let keys: Vec<Key> = self
            .slots
            .range((run_id, 0)..=(run_id, u32::MAX))
            .map(|(&key, _)| key)
            .collect();
        for key in keys {
            self.leave(key);
        }
    }

    fn note_shard(&mut self, set: &WorkingSet, catalogue: &Catalogue, shard: &ShardRow, now: Now) {
        let key = (shard.run_id, shard.shard);
        self.leave(key);
        let Some(run) = set.runs.get(&shard.run_id) else {
            return;
        };
        match shard.state {
            ShardState::Leased(lease) => {
                // Of what cannot be read, nobody knows more than that it runs.
                let entry = catalogue.get(run.job_id, run.version);
                let takes = entry.map_or(Amounts::SLOT, |entry| entry.demand.ask.takes);
                let slot = Slot::Leased {
                    agent: lease.agent_id,
                    token: lease.token,
                    takes,
                };
                self.slots.insert(key, slot);
                let set_aside = self.set_aside.entry(lease.agent_id).or_default();
                *set_aside = set_aside.plus(&takes);
                self.leases
                    .entry(lease.agent_id)
                    .or_default()
                    .insert(lease.token, key);
                *self.held.entry((key.0, lease.agent_id)).or_default() += 1;
                self.touched.insert(lease.agent_id);
            }
            ShardState::Pending { since, delay } if run.state.is_live() => {
                let until = self.backoff_until(since, delay, now);
                if until > self.backoff_clock(now) {
                    self.slots.insert(key, Slot::BackingOff { until });
                    self.backing_off.insert((until, key));
                } else {
                    self.enter_ready(catalogue, run, key, now);
                }
            }
            ShardState::Pending { .. }
            | ShardState::Succeeded
            | ShardState::NeedsConfirmation
            | ShardState::Cancelled => {}
        }
    }

    fn enter_ready(&mut self, catalogue: &Catalogue, run: &RunRow, key: Key, now: Now) {
        let entry = catalogue
            .get(run.job_id, run.version)
            .filter(|entry| entry.manifest.is_ok());
        let demand = entry.map(|entry| Arc::clone(&entry.demand));
        let priority = entry
            .filter(|_| self.rules.on(Rule::PriorityFirst))
            .map_or(0, |entry| entry.priority);
        let order = Order::new(priority, run.admitted_at, key);
        let unplaceable_at = now.boot + placed_within(run);
        if let Some(demand) = &demand {
            self.line.enter(order, demand);
        }
        self.slots.insert(
            key,
            Slot::Ready {
                order,
                demand,
                unplaceable_at,
            },
        );
        self.unplaceable_at.insert((unplaceable_at, key));
    }

    fn leave(&mut self, key: Key) {
        match self.slots.remove(&key) {
            None => {}
            Some(Slot::BackingOff { until }) => {
                self.backing_off.remove(&(until, key));
            }
            Some(Slot::Ready {
                order,
                demand,
                unplaceable_at,
            }) => {
                if let Some(demand) = &demand {
                    self.line.leave(order, demand);
                }
                self.unplaceable_at.remove(&(unplaceable_at, key));
            }
            Some(Slot::Leased {
                agent,
                token,
                takes,
            }) => {
                if let Entry::Occupied(mut set_aside) = self.set_aside.entry(agent) {
                    *set_aside.get_mut() = set_aside.get().less(&takes);
                    if set_aside.get().slots == 0 {
                        set_aside.remove();
                    }
                }
                if let Some(held) = self.leases.get_mut(&agent) {
                    held.remove(&token);
                    if held.is_empty() {
                        self.leases.remove(&agent);
                    }
                }
                self.touched.insert(agent);
                if let Entry::Occupied(mut held) = self.held.entry((key.0, agent)) {
                    *held.get_mut() -= 1;
                    if *held.get() == 0 {
                        held.remove();
                    }
                }
            }
        }
    }

    fn backs_off_on_boot(&self) -> bool {
        self.rules.on(Rule::BackoffOnBootClock)
    }

    /// When a backoff of `delay` from wall time `since` is over. The wall clock only says how much
    /// of it is left, which is never more than all of it; the rest is waited out on the boot clock.
    fn backoff_until(&self, since: WallMs, delay: DurationMs, now: Now) -> BootMs {
        if self.backs_off_on_boot() {
            now.boot + (since + delay - now.wall).clamp_to(delay)
        } else {
            BootMs((since + delay).0)
        }
    }

    fn backoff_clock(&self, now: Now) -> BootMs {
        if self.backs_off_on_boot() {
            now.boot
        } else {
            BootMs(now.wall.0)
        }
    }
}

/// How long a shard may be ready before it goes to a person.
fn placed_within(run: &RunRow) -> DurationMs {
    match run.trigger {
        // After an outage many catch up at once, and get their places when they get them.
        Trigger::CatchUp => START_DEADLINE_MAX,
        _ => run.start_deadline.unwrap_or(START_DEADLINE_MAX),
    }
}
