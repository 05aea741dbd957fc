//! Granting ready shards to hosts, and telling the hosts.
//!
//! A grant is proposed, committed, and only then told: where its host has gone meanwhile, the next
//! attach finds that it was never started. A shard whose grant is on its way is out of the line until
//! the ledger has answered, and takes up its slot from the moment of the proposal.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::command::{Command, Grant, Unplaceable};
use ledger::{AgentRow, Done, Refusal, ShardRow, ShardState};
use profiles::matching::{Amounts, Ask, Filter};
use protocol::attempt::Work;
use protocol::message::CoordinatorBody;
use protocol::{AgentId, BootMs, HostNow, Now, ResourceName, Rule, Rules, RunId, SessionId};

use crate::core::{Core, Flight};
use crate::dispatch::{Exhausted, Host, Report, Standing, Waits, survey};
use crate::line::{Demand, Obstacle, Order};
use crate::queue::Key;
use crate::setbacks::Matter;

#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Shards with a command of this core in flight, and what they asked for, if it is a grant.
    busy: BTreeMap<Key, Option<Arc<Demand>>>,
    /// What grants in flight take of hosts.
    on_their_way: BTreeMap<AgentId, Amounts>,
    /// The same by run.
    of_run: BTreeMap<(RunId, AgentId), u32>,
    /// Units of resources that grants in flight take.
    taking: BTreeMap<ResourceName, u32>,
    /// Where a shard of an open run last ended without success.
    failed_on: BTreeMap<Key, AgentId>,
    /// Shards that are left alone for a while, after what was refused.
    resting: BTreeSet<(BootMs, Key)>,
}

impl Grants {
    /// What became of a shard that `held_by` had until now. One that is pending again failed there.
    pub(crate) fn note_shard(&mut self, shard: &ShardRow, held_by: Option<AgentId>) {
        if let (ShardState::Pending { .. }, Some(agent_id)) = (shard.state, held_by) {
            self.failed_on.insert((shard.run_id, shard.shard), agent_id);
        }
    }

    pub(crate) fn forget_failures(&mut self, run_id: RunId) {
        let of_run = self.failed_on.range((run_id, 0)..=(run_id, u32::MAX));
        let keys: Vec<Key> = of_run.map(|(&key, _)| key).collect();
        for key in keys {
            self.failed_on.remove(&key);
        }
    }

    fn begin(&mut self, key: Key, agent_id: AgentId, demand: &Arc<Demand>) {
        self.busy.insert(key, Some(Arc::clone(demand)));
        for (name, units) in &demand.uses {
            *self.taking.entry(name.clone()).or_default() += units;
        }
        let on_their_way = self.on_their_way.entry(agent_id).or_default();
        *on_their_way = on_their_way.plus(&demand.ask.takes);
        *self.of_run.entry((key.0, agent_id)).or_default() += 1;
    }

    /// What it had asked for.
    fn end(&mut self, key: Key, agent_id: AgentId) -> Arc<Demand> {
        let demand = self.busy.remove(&key).flatten().unwrap_or_default();
        for (name, units) in &demand.uses {
            count_down(self.taking.entry(name.clone()), *units);
        }
        if let Entry::Occupied(mut on_their_way) = self.on_their_way.entry(agent_id) {
            *on_their_way.get_mut() = on_their_way.get().less(&demand.ask.takes);
            if on_their_way.get().slots == 0 {
                on_their_way.remove();
            }
        }
        count_down(self.of_run.entry((key.0, agent_id)), 1);
        demand
    }

    pub(crate) fn len(&self) -> usize {
        let on_their_way = self.busy.len() + self.on_their_way.len() + self.of_run.len();
        on_their_way + self.taking.len() + self.failed_on.len() + self.resting.len()
    }

    /// Runs of which it is kept where they failed.
    pub(crate) fn failed_runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.failed_on.keys().map(|&(run_id, _)| run_id)
    }

    fn on_their_way_to(&self, agent_id: AgentId) -> Amounts {
        self.on_their_way
            .get(&agent_id)
            .copied()
            .unwrap_or_default()
    }
}

fn count_down<K: Ord>(entry: Entry<'_, K, u32>, by: u32) {
    if let Entry::Occupied(mut count) = entry {
        *count.get_mut() -= by;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// What is asked for, as the rules have it that are on.
fn as_judged(ask: &Ask, rules: Rules) -> Cow<'_, Ask> {
    let (class, labels, room) = (
        rules.on(Rule::ClassMatched),
        rules.on(Rule::LabelsMatched),
        rules.on(Rule::RoomSetAside),
    );
    if class && labels && room {
        return Cow::Borrowed(ask);
    }
    let filter = Filter {
        class: ask.filter.class.clone().filter(|_| class),
        labels: if labels {
            ask.filter.labels.clone()
        } else {
            Vec::new()
        },
    };
    Cow::Owned(Ask {
        filter: Arc::new(filter),
        takes: if room { ask.takes } else { Amounts::SLOT },
    })
}

impl Core {
    pub(crate) fn dispatch(&mut self, now: Now) {
        self.fleet.forget_quiet(now.boot);
        if self.is_held() {
            return;
        }
        while let Some(&(until, key)) = self.grants.resting.first()
            && until <= now.boot
        {
            self.grants.resting.pop_first();
            self.queue.step_back(key);
        }
        while let Some((order, demand)) = self.queue.line.first() {
            let key = order.key();
            if let Some(waits) = self.in_hand(key, now) {
                if let Waits::Rests(left) = waits {
                    self.grants.resting.insert((now.boot + left, key));
                }
                self.queue.step_aside(key);
                continue;
            }
            match self.find_place(order, &demand) {
                Ok((agent_id, session)) => self.propose_grant(key, agent_id, session, &demand, now),
                Err(obstacle) => self.queue.line.block(&demand, obstacle),
            }
        }
    }

    fn propose_grant(
        &mut self,
        key: Key,
        agent_id: AgentId,
        session: SessionId,
        demand: &Arc<Demand>,
        now: Now,
    ) {
        self.queue.step_aside(key);
        self.grants.begin(key, agent_id, demand);
        self.note_set_aside(agent_id);
        let grant = Grant {
            run_id: key.0,
            shard: key.1,
            session,
            uses: demand.uses.clone(),
        };
        self.propose(Flight::Grant(key, agent_id), Command::Grant(grant), now);
    }

    /// What must be waited for before anything is decided about the shard, if something is under
    /// way.
    fn in_hand(&self, key: Key, now: Now) -> Option<Waits> {
        if self.grants.busy.contains_key(&key) {
            return Some(Waits::InHand);
        }
        if self.receipts.is_awaited(key) {
            return Some(Waits::Receipt);
        }
        let rests_until = self.setbacks.rests_until(Matter::shard(key), now)?;
        Some(Waits::Rests(rests_until - now.boot))
    }

    /// A host for it, if there is enough of what all share too.
    fn find_place(
        &mut self,
        order: Order,
        demand: &Demand,
    ) -> Result<(AgentId, SessionId), Obstacle> {
        let key = order.key();
        let failed_on = self.grants.failed_on.get(&key).copied();
        let failed_on = failed_on.filter(|_| self.rules.on(Rule::RetriedElsewhere));
        let ask = as_judged(&demand.ask, self.rules);
        let (queue, grants) = (&self.queue, &self.grants);
        let of_run = |agent_id| {
            let granting = grants.of_run.get(&(key.0, agent_id));
            queue.held_of(key.0, agent_id) + granting.copied().unwrap_or(0)
        };
        let chosen = self.fleet.choose(&ask, failed_on, of_run);
        let place = chosen.ok_or(Obstacle::NoHost)?;
        match self.want_of_resources(order, demand) {
            Some(exhausted) if exhausted.is_beyond_capacity() => Err(Obstacle::BeyondCapacity),
            Some(exhausted) => Err(Obstacle::Exhausted(exhausted.resource)),
            None => Ok(place),
        }
    }

    /// What it needs of which too little is left for it: first of all that of which there is too
    /// little altogether, since no end of another shard helps there.
    fn want_of_resources(&self, order: Order, demand: &Demand) -> Option<Exhausted> {
        if demand.uses.is_empty() || !self.rules.on(Rule::ResourcesBounded) {
            return None;
        }
        let wants = demand.uses.iter().filter_map(|(name, wanted)| {
            let row = self.set.resources.get(name);
            let taking = self.grants.taking.get(name).copied().unwrap_or(0);
            let in_use = row.map_or(0, |row| row.in_use) + taking;
            let capacity = row.map(|row| row.capacity);
            let fits = in_use.saturating_add(*wanted) <= capacity.unwrap_or(0);
            let behind_another = fits && self.queue.line.is_behind(order, name);
            (!fits || behind_another).then(|| Exhausted {
                resource: name.clone(),
                wanted: *wanted,
                in_use,
                capacity,
                behind_another,
            })
        });
        let wants: Vec<Exhausted> = wants.collect();
        let beyond = wants.iter().find(|want| want.is_beyond_capacity());
        beyond.or_else(|| wants.first()).cloned()
    }

    /// More of a resource may be left than before.
    pub(crate) fn note_resource(&mut self, name: &ResourceName) {
        self.queue.line.open_for_resource(name);
    }

    /// Takes over what is known of a host: whatever waits for room that has opened is tried again.
    pub(crate) fn note_host(&mut self, agent_id: AgentId) {
        let Some(agent) = self.set.agents.get(&agent_id) else {
            return;
        };
        let contact = self.sessions.line_to(agent);
        let set_aside = self.set_aside_on(agent_id);
        if self.fleet.note(agent, contact, set_aside, &self.classes) {
            self.open_for_host(agent_id);
        }
    }

    /// Takes over how a host fares by its last beat.
    pub(crate) fn note_host_now(&mut self, agent_id: AgentId, now: Option<&HostNow>) {
        if self.fleet.note_now(agent_id, now) {
            self.open_for_host(agent_id);
        }
    }

    /// There is more room on a host than before.
    fn open_for_host(&mut self, agent_id: AgentId) {
        let (fleet, rules) = (&self.fleet, self.rules);
        let line = &mut self.queue.line;
        line.open_for_host(|ask| fleet.could_take(agent_id, &as_judged(ask, rules)));
    }

    /// Takes over how many leases hosts have, where that has changed.
    pub(crate) fn note_touched(&mut self) {
        for agent_id in self.queue.take_touched() {
            self.note_set_aside(agent_id);
        }
    }

    fn note_set_aside(&mut self, agent_id: AgentId) {
        let set_aside = self.set_aside_on(agent_id);
        if self.fleet.note_set_aside(agent_id, set_aside) {
            self.open_for_host(agent_id);
        }
    }

    /// For leases that it holds, and for those on their way to it.
    fn set_aside_on(&self, agent_id: AgentId) -> Amounts {
        let on_their_way = self.grants.on_their_way_to(agent_id);
        self.queue.set_aside(agent_id).plus(&on_their_way)
    }

    /// Every agent ever known, as dispatch sees it now.
    pub fn hosts(&self, now: Now) -> impl Iterator<Item = Host> + '_ {
        self.set.agents.values().filter_map(move |agent| {
            let place = self.fleet.place(agent.agent_id)?;
            Some(Host {
                agent_id: agent.agent_id,
                standing: self.standing(agent, now),
                labels: Arc::clone(&agent.labels),
                facts: Arc::clone(&agent.facts),
                classes: Arc::clone(&place.classes),
                offer: place.offer,
                set_aside: place.set_aside,
                strain: place.strain,
            })
        })
    }

    /// How dispatch sees one agent now, if it is known here.
    pub fn standing_of(&self, agent_id: AgentId, now: Now) -> Option<Standing> {
        let agent = self.set.agents.get(&agent_id)?;
        Some(self.standing(agent, now))
    }

    fn standing(&self, agent: &AgentRow, now: Now) -> Standing {
        match (agent.barred, agent.cordon) {
            (Some(bar), _) => Standing::Barred(bar),
            (None, Some(cordon)) => Standing::Cordoned(cordon),
            (None, None) => self
                .fleet
                .session_of(agent.agent_id, now.boot)
                .map_or(Standing::Offline, Standing::Ready),
        }
    }

    /// Why nothing that asks for this is placed now. Walks over all hosts: for people only.
    fn report(&self, order: Order, demand: &Demand, now: Now) -> Report {
        let mut report = survey(self.hosts(now), &demand.ask, &self.classes);
        report
            .exhausted
            .extend(self.want_of_resources(order, demand));
        report
    }

    /// What each pending shard of an open run waits for now.
    pub fn waits_of(&self, run_id: RunId, now: Now) -> BTreeMap<u32, Waits> {
        let mut reports: BTreeMap<Arc<Demand>, Report> = BTreeMap::new();
        let mut waits = BTreeMap::new();
        let pending = |shard: &&ShardRow| matches!(shard.state, ShardState::Pending { .. });
        for shard in self.set.shards_of(run_id).filter(pending) {
            let key = (run_id, shard.shard);
            let found = if self.is_held() {
                Some(Waits::Restored(self.hold.left(now.boot)))
            } else if let Some(until) = self.queue.backs_off_until(key) {
                Some(Waits::BacksOff(until - now.boot))
            } else if let Some(waits) = self.in_hand(key, now) {
                Some(waits)
            } else if let Some((order, demand)) = self.queue.demand_of(key) {
                let known = reports.entry(Arc::clone(&demand));
                let report = known.or_insert_with(|| self.report(order, &demand, now));
                Some(Waits::Place(report.clone()))
            } else {
                self.unreadable(run_id)
                    .map(|error| Waits::Unreadable(error.to_owned()))
            };
            waits.extend(found.map(|found| (shard.shard, found)));
        }
        waits
    }

    pub(crate) fn give_up_unplaceable(&mut self, now: Now) {
        if !self.rules.on(Rule::UnplaceableGoesToPerson) || self.is_held() {
            return;
        }
        let stuck: Vec<Key> = self
            .queue
            .unplaceable(now)
            .filter(|&key| self.in_hand(key, now).is_none())
            .collect();
        let mut reports: BTreeMap<Arc<Demand>, String> = BTreeMap::new();
        for key in stuck {
            let report = if let Some((order, demand)) = self.queue.demand_of(key) {
                let known = reports.entry(Arc::clone(&demand));
                let report = || self.report(order, &demand, now).to_string();
                known.or_insert_with(report).clone()
            } else {
                let error = self.unreadable(key.0).unwrap_or("it is not there");
                format!("its manifest cannot be read: {error}")
            };
            self.queue.step_aside(key);
            self.grants.busy.insert(key, None);
            let give_up = Unplaceable {
                run_id: key.0,
                shard: key.1,
                report,
            };
            self.propose(Flight::Shard(key), Command::Unplaceable(give_up), now);
        }
    }

    pub(crate) fn land_unplaceable(&mut self, key: Key) {
        self.grants.busy.remove(&key);
        self.queue.step_back(key);
    }

    /// Whether nobody is forgotten: whoever waits for a place is in line or in hand, and a lane is
    /// blocked only where there is no room.
    pub(crate) fn check_dispatch(&self, now: Now) -> Result<(), String> {
        self.fleet.check(|agent_id| self.set_aside_on(agent_id))?;
        let in_line: BTreeSet<Key> = self.queue.line.all().collect();
        for key in self.queue.ready() {
            let in_hand = self.grants.busy.contains_key(&key)
                || self.receipts.is_awaited(key)
                || self
                    .grants
                    .resting
                    .iter()
                    .any(|&(_, resting)| resting == key);
            if !in_hand && !in_line.contains(&key) {
                return Err(format!("{key:?} waits for a place and is not in line"));
            }
        }
        for name in self.queue.line.kept() {
            let in_use = self.set.resources.get(name).map_or(0, |row| row.in_use);
            if in_use == 0 && !self.grants.taking.contains_key(name) {
                let name = name.as_str();
                return Err(format!(
                    "`{name}` is kept for a shard, and nobody has any of it"
                ));
            }
        }
        for demand in self.queue.line.blocked().filter(|d| d.uses.is_empty()) {
            let report = survey(self.hosts(now), &demand.ask, &self.classes);
            if report.free > 0 {
                return Err(format!(
                    "{demand:?} is blocked, and there is room: {report}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn land_grant(
        &mut self,
        key: Key,
        agent_id: AgentId,
        result: Result<Done, Refusal>,
    ) {
        let demand = self.grants.end(key, agent_id);
        self.note_set_aside(agent_id);
        let Ok(Done::Granted { token, attempt, .. }) = result else {
            for (name, _) in &demand.uses {
                self.note_resource(name);
            }
            return self.queue.step_back(key);
        };
        let Some((conn, session, rests_on)) = self.sessions.live_of(&self.set, agent_id) else {
            return;
        };
        if let Some(work) = self.work(key, attempt) {
            let work = Box::new(work);
            self.send(
                conn,
                CoordinatorBody::Start {
                    session,
                    token,
                    rests_on,
                    work,
                },
            );
        }
    }

    /// Why nobody can tell what a run is to do.
    fn unreadable(&self, run_id: RunId) -> Option<&str> {
        let run = self.set.runs.get(&run_id)?;
        match self.catalogue.get(run.job_id, run.version) {
            None => Some("its version is not there"),
            Some(entry) => entry.manifest.as_ref().err().map(String::as_str),
        }
    }

    /// What the agent is told to run. `None` where the manifest cannot be read.
    fn work(&self, key: Key, attempt: u32) -> Option<Work> {
        let run = self.set.runs.get(&key.0)?;
        let manifest = self.catalogue.readable(run.job_id, run.version)?;
        let fire = jobs::FireContext {
            fire_time: run.fire_time,
            nominal: &run.nominal,
            shard: key.1,
            shards: run.shards,
            params: &run.params,
        };
        // Its name may have changed since the version that is run.
        let job = self.set.jobs.get(&run.job_id);
        Some(Work {
            job: manifest.name.clone(),
            first_name: job.and_then(|job| job.first_name.clone()),
            run_id: run.run_id,
            execution_id: run.execution_id,
            fire_time: run.fire_time,
            nominal: run.nominal.clone(),
            timezone: manifest.schedule().timezone().to_owned(),
            shard: key.1,
            shards: run.shards,
            attempt,
            trigger: run.trigger,
            fence: run.fence,
            redo: run.redo,
            exec: manifest.argv(&fire),
            timeout: manifest.timeout,
            takeover: manifest.takeover_after,
            user: manifest.user.clone(),
            limits: manifest.limits,
        })
    }
}
