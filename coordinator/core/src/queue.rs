//! What waits, what is live, what is leased: indexes over the working set.
//!
//! Nothing here is a truth of its own. Every index can be rebuilt from the working set, and the
//! simulation compares the rebuilt with the one that was kept up step by step. The only thing
//! added is when: moments on this leader's boot clock, counted from when it learned of a row.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Change, RunRow, RunState, ShardRow, ShardState, WorkingSet};
use protocol::{AgentId, BootMs, DurationMs, JobId, Now, Rule, Rules, RunId, Token, WallMs};

use crate::trigger::START_DEADLINE_MAX;

/// One shard of one run.
pub(crate) type Key = (RunId, u32);

/// Oldest admission first, then run, then shard.
type Order = (WallMs, RunId, u32);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    rules: Rules,
    slots: BTreeMap<Key, Slot>,
    ready: BTreeSet<Order>,
    backing_off: BTreeSet<(BootMs, Key)>,
    unplaceable_at: BTreeSet<(BootMs, Key)>,
    leases: BTreeMap<AgentId, BTreeMap<Token, Key>>,
    waiting: BTreeMap<RunId, Waiting>,
    waiting_of: BTreeMap<JobId, BTreeSet<RunId>>,
    skip_at: BTreeSet<(BootMs, RunId)>,
    live: BTreeMap<RunId, JobId>,
    live_of: BTreeMap<JobId, BTreeSet<RunId>>,
}

/// Where a shard stands in the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    BackingOff {
        until: BootMs,
    },
    Ready {
        order: Order,
        unplaceable_at: BootMs,
    },
    Leased {
        agent: AgentId,
        token: Token,
    },
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    job_id: JobId,
    skip_at: Option<BootMs>,
}

/// The queue without its moments: what two ways of building it must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pending: BTreeSet<Key>,
    leases: BTreeMap<Token, (AgentId, Key)>,
    waiting: BTreeMap<RunId, JobId>,
    live: BTreeMap<RunId, JobId>,
}

impl Queue {
    pub(crate) fn build(set: &WorkingSet, now: Now, rules: Rules) -> Queue {
        let mut queue = Queue {
            rules,
            ..Queue::default()
        };
        for run in set.runs.values() {
            queue.note_run(run, now);
        }
        for shard in set.shards.values() {
            queue.note_shard(set, shard, now);
        }
        queue
    }

    /// Follows one change that `set` has already absorbed.
    pub(crate) fn follow(&mut self, set: &WorkingSet, change: &Change, now: Now) {
        match change {
            Change::Run(run) => {
                let was_live = self.live.contains_key(&run.run_id);
                self.note_run(run, now);
                if run.state.is_final() {
                    self.drop_shards(run.run_id);
                } else if was_live != run.state.is_live() {
                    for shard in set.shards_of(run.run_id) {
                        self.note_shard(set, shard, now);
                    }
                }
            }
            Change::Shard(shard) => self.note_shard(set, shard, now),
            Change::Epoch(_) | Change::Job(_) | Change::Version(_) | Change::Agent(_) => {}
        }
    }

    /// Moves shards whose backoff is over to the ready ones.
    pub(crate) fn wake(&mut self, set: &WorkingSet, now: Now) {
        let clock = self.backoff_clock(now);
        while let Some(&(until, key)) = self.backing_off.first() {
            if until > clock {
                break;
            }
            self.leave(key);
            if let Some(run) = set.runs.get(&key.0) {
                self.enter_ready(run, key, now);
            }
        }
    }

    /// Shards that may be granted, in the order in which they should be.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Key> + '_ {
        self.ready.iter().map(|&(_, run, shard)| (run, shard))
    }

    /// Shards that have waited for a place for longer than their start deadline.
    pub(crate) fn unplaceable(&self, now: Now) -> impl Iterator<Item = Key> + '_ {
        self.unplaceable_at
            .iter()
            .take_while(move |(at, _)| *at <= now.boot)
            .map(|&(_, key)| key)
    }

    /// Waiting runs that have passed their start deadline.
    pub(crate) fn overdue(&self, now: Now) -> impl Iterator<Item = RunId> + '_ {
        self.skip_at
            .iter()
            .take_while(move |(at, _)| *at <= now.boot)
            .map(|&(_, run)| run)
    }

    /// For every job with waiting runs and no live one, the run whose turn it is.
    pub(crate) fn admissible(&self) -> impl Iterator<Item = RunId> + '_ {
        self.waiting_of
            .iter()
            .filter(|(job, _)| !self.live_of.contains_key(job))
            .filter_map(|(_, runs)| runs.first().copied())
    }

    pub(crate) fn leases_of(&self, agent: AgentId) -> impl Iterator<Item = (Token, Key)> + '_ {
        self.leases
            .get(&agent)
            .into_iter()
            .flatten()
            .map(|(&token, &key)| (token, key))
    }

    pub(crate) fn lease_count(&self, agent: AgentId) -> u32 {
        self.leases
            .get(&agent)
            .map_or(0, |leases| leases.len() as u32)
    }

    pub(crate) fn lease_of(&self, key: Key) -> Option<(AgentId, Token)> {
        match self.slots.get(&key) {
            Some(&Slot::Leased { agent, token }) => Some((agent, token)),
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
            self.skip_at.first().map(|&(at, _)| at),
        ];
        firsts.into_iter().flatten().min()
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
            waiting: self
                .waiting
                .iter()
                .map(|(&run, w)| (run, w.job_id))
                .collect(),
            live: self.live.clone(),
        }
    }

    fn note_run(&mut self, run: &RunRow, now: Now) {
        self.forget_run(run.run_id);
        if run.state == RunState::Waiting {
            let skip_at = run.start_deadline.map(|deadline| {
                now.boot + (run.admitted_at + deadline - now.wall).clamp_to(deadline)
            });
            self.waiting.insert(
                run.run_id,
                Waiting {
                    job_id: run.job_id,
                    skip_at,
                },
            );
            self.waiting_of
                .entry(run.job_id)
                .or_default()
                .insert(run.run_id);
            self.skip_at.extend(skip_at.map(|at| (at, run.run_id)));
        } else if run.state.is_live() {
            self.live.insert(run.run_id, run.job_id);
            self.live_of
                .entry(run.job_id)
                .or_default()
                .insert(run.run_id);
        }
    }

    fn forget_run(&mut self, run_id: RunId) {
        if let Some(waiting) = self.waiting.remove(&run_id) {
            remove_from(&mut self.waiting_of, waiting.job_id, run_id);
            if let Some(at) = waiting.skip_at {
                self.skip_at.remove(&(at, run_id));
            }
        }
        if let Some(job_id) = self.live.remove(&run_id) {
            remove_from(&mut self.live_of, job_id, run_id);
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

    fn note_shard(&mut self, set: &WorkingSet, shard: &ShardRow, now: Now) {
        let key = (shard.run_id, shard.shard);
        self.leave(key);
        let Some(run) = set.runs.get(&shard.run_id) else {
            return;
        };
        match shard.state {
            ShardState::Leased(lease) => {
                let slot = Slot::Leased {
                    agent: lease.agent_id,
                    token: lease.token,
                };
                self.slots.insert(key, slot);
                self.leases
                    .entry(lease.agent_id)
                    .or_default()
                    .insert(lease.token, key);
            }
            ShardState::Pending { since, delay } if run.state.is_live() => {
                let until = self.backoff_until(since, delay, now);
                if until > self.backoff_clock(now) {
                    self.slots.insert(key, Slot::BackingOff { until });
                    self.backing_off.insert((until, key));
                } else {
                    self.enter_ready(run, key, now);
                }
            }
            ShardState::Pending { .. }
            | ShardState::Succeeded
            | ShardState::NeedsConfirmation
            | ShardState::Cancelled => {}
        }
    }

    fn enter_ready(&mut self, run: &RunRow, key: Key, now: Now) {
        let order = (run.admitted_at, key.0, key.1);
        let unplaceable_at = now.boot + run.start_deadline.unwrap_or(START_DEADLINE_MAX);
        self.slots.insert(
            key,
            Slot::Ready {
                order,
                unplaceable_at,
            },
        );
        self.ready.insert(order);
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
                unplaceable_at,
            }) => {
                self.ready.remove(&order);
                self.unplaceable_at.remove(&(unplaceable_at, key));
            }
            Some(Slot::Leased { agent, token }) => {
                if let Some(held) = self.leases.get_mut(&agent) {
                    held.remove(&token);
                    if held.is_empty() {
                        self.leases.remove(&agent);
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

fn remove_from(index: &mut BTreeMap<JobId, BTreeSet<RunId>>, job_id: JobId, run_id: RunId) {
    if let Some(runs) = index.get_mut(&job_id) {
        runs.remove(&run_id);
        if runs.is_empty() {
            index.remove(&job_id);
        }
    }
}
