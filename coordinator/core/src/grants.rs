//! Granting ready shards to hosts, and telling the hosts.
//!
//! A grant is proposed, committed, and only then told: where its host has gone meanwhile, the next
//! attach finds that it was never started. A shard whose grant is on its way is left alone until
//! the ledger has answered, and takes up its slot from the moment of the proposal.

use std::collections::BTreeMap;

use ledger::command::{Command, Grant, Unplaceable};
use ledger::{Done, Refusal, ShardRow, ShardState};
use protocol::attempt::Work;
use protocol::message::CoordinatorBody;
use protocol::{AgentId, Now, Rule, RunId};

use crate::core::{Core, Flight};
use crate::dispatch::{Host, Standing, place};
use crate::queue::Key;
use crate::setbacks::Matter;

#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Shards with a command of this core in flight, and for whom, if it is a grant.
    busy: BTreeMap<Key, Option<AgentId>>,
    /// Grants in flight.
    on_their_way: BTreeMap<AgentId, u32>,
    /// Where a shard of an open run last ended without success.
    failed_on: BTreeMap<Key, AgentId>,
    /// No host had a free slot, and nothing has happened since that could have opened one.
    full: bool,
}

impl Grants {
    /// A host may have a free slot again.
    pub(crate) fn note_place(&mut self) {
        self.full = false;
    }

    /// What became of a shard that `held_by` had until now. One that is pending again failed there.
    pub(crate) fn note_shard(&mut self, shard: &ShardRow, held_by: Option<AgentId>) {
        self.note_place();
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

    pub(crate) fn land_unplaceable(&mut self, key: Key) {
        self.busy.remove(&key);
    }
}

impl Core {
    pub(crate) fn dispatch(&mut self, now: Now) {
        if self.grants.full || self.grantable(now).next().is_none() {
            return;
        }
        let mut hosts = self.hosts(now);
        let mut free: u32 = hosts.iter().map(free_slots).sum();
        let ready: Vec<Key> = self.grantable(now).take(free as usize).collect();
        let mut run_counted = None;
        for key in ready {
            if run_counted != Some(key.0) {
                self.count_shards_of(key.0, &mut hosts);
                run_counted = Some(key.0);
            }
            let failed_on = self
                .grants
                .failed_on
                .get(&key)
                .filter(|_| self.rules.on(Rule::RetriedElsewhere));
            for host in &mut hosts {
                host.failed_there = failed_on == Some(&host.agent_id);
            }
            let Ok((agent_id, session)) = place(hosts.iter().copied()) else {
                break;
            };
            for host in hosts.iter_mut().filter(|host| host.agent_id == agent_id) {
                host.used += 1;
                host.of_this_run += 1;
            }
            free -= 1;
            self.grants.busy.insert(key, Some(agent_id));
            *self.grants.on_their_way.entry(agent_id).or_default() += 1;
            let grant = Grant {
                run_id: key.0,
                shard: key.1,
                session,
            };
            self.propose(Flight::Grant(key, agent_id), Command::Grant(grant), now);
        }
        self.grants.full = free == 0;
    }

    /// Every agent ever attached, as dispatch sees it now.
    pub fn hosts(&self, now: Now) -> Vec<Host> {
        self.set
            .agents
            .values()
            .map(|agent| Host {
                agent_id: agent.agent_id,
                standing: match agent.session {
                    _ if let Some(bar) = agent.barred => Standing::Barred(bar),
                    Some(session) if self.sessions.is_fresh(agent, now.boot) => {
                        Standing::Ready(session)
                    }
                    _ => Standing::Offline,
                },
                slots: agent.slots,
                used: self.queue.lease_count(agent.agent_id)
                    + self
                        .grants
                        .on_their_way
                        .get(&agent.agent_id)
                        .copied()
                        .unwrap_or(0),
                of_this_run: 0,
                failed_there: false,
            })
            .collect()
    }

    fn count_shards_of(&self, run_id: RunId, hosts: &mut [Host]) {
        let leased = self.set.shards_of(run_id).filter_map(|shard| {
            self.queue
                .lease_of((run_id, shard.shard))
                .map(|(agent, _)| agent)
        });
        let granting = self
            .grants
            .busy
            .range((run_id, 0)..=(run_id, u32::MAX))
            .filter_map(|(_, agent)| *agent);
        let mut counts: BTreeMap<AgentId, u32> = BTreeMap::new();
        for agent in leased.chain(granting) {
            *counts.entry(agent).or_default() += 1;
        }
        for host in hosts {
            host.of_this_run = counts.get(&host.agent_id).copied().unwrap_or(0);
        }
    }

    pub(crate) fn give_up_unplaceable(&mut self, now: Now) {
        if !self.rules.on(Rule::UnplaceableGoesToPerson) {
            return;
        }
        let stuck: Vec<Key> = self
            .queue
            .unplaceable(now)
            .filter(|key| !self.grants.busy.contains_key(key))
            .filter(|&key| !self.receipts.is_awaited(key))
            .filter(|&key| !self.setbacks.rests(Matter::shard(key), now))
            .collect();
        if stuck.is_empty() {
            return;
        }
        let no_place = match place(self.hosts(now)) {
            Err(report) => report.to_string(),
            Ok(_) => "every host was busy until the start deadline".to_owned(),
        };
        for key in stuck {
            let report = match self.unreadable(key.0) {
                Some(error) => format!("its manifest cannot be read: {error}"),
                None => no_place.clone(),
            };
            self.grants.busy.insert(key, None);
            let give_up = Unplaceable {
                run_id: key.0,
                shard: key.1,
                report,
            };
            self.propose(Flight::Shard(key), Command::Unplaceable(give_up), now);
        }
    }

    pub(crate) fn land_grant(
        &mut self,
        key: Key,
        agent_id: AgentId,
        result: Result<Done, Refusal>,
    ) {
        self.grants.busy.remove(&key);
        if let Some(count) = self.grants.on_their_way.get_mut(&agent_id) {
            *count -= 1;
        }
        let Ok(Done::Granted { token, attempt, .. }) = result else {
            return self.grants.note_place();
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

    /// Ready shards that are not in the ledger's hands, for which no receipt is on its way, and
    /// whose manifest says what to start.
    fn grantable(&self, now: Now) -> impl Iterator<Item = Key> + '_ {
        self.queue
            .ready()
            .filter(|key| !self.grants.busy.contains_key(key))
            .filter(|&key| !self.receipts.is_awaited(key))
            .filter(move |&key| !self.setbacks.rests(Matter::shard(key), now))
            .filter(|key| self.unreadable(key.0).is_none())
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

fn free_slots(host: &Host) -> u32 {
    match host.standing {
        Standing::Ready(_) => host.slots.saturating_sub(host.used),
        Standing::Offline | Standing::Barred(_) => 0,
    }
}
