//! What hosts are: found out on them, told to whoever leads, and compared there with what was known.
//!
//! A host of which nobody has found out anything registers nothing, as one without the tools would.

use coordinator_core::{Request, RequestError, RequestId};
use ledger::command::RegisterHost;
use ledger::{Done, Refusal};
use profiles::changes::{differences, digest};
use protocol::host::{HostHealth, HostLoad, ProfileDigest, Value};
use protocol::{Health, HostFacts, HostProfile};

use agent_core::agent::{Occasion, Registered};

use super::coordinator::Input;
use super::{Event, World};

/// What a registration takes on its way, and the answer on its way back.
const WAY_MS: i64 = 5;

/// A profile on its way, or the answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    pub host: usize,
    /// The agent's process.
    pub agent: u64,
    pub connection: u64,
    pub digest: ProfileDigest,
}

/// A machine of so many cores, each of two threads, whose disk writes durably so often a second.
pub fn machine(cores: i64, memory_gib: i64, medium: &str, iops: i64) -> HostFacts {
    let mut facts = HostFacts::default();
    facts.know("cpu.cores", Value::Number(cores));
    facts.know("cpu.threads", Value::Number(2 * cores));
    facts.know("cpu.usable_milli", Value::Number(2000 * cores));
    facts.know("memory.size_bytes", Value::Number(memory_gib << 30));
    facts.know("memory.usable_bytes", Value::Number(memory_gib << 30));
    facts.know("disk.medium", Value::Text(medium.to_owned()));
    facts.know("disk.fsync_grade", Value::Text("A".to_owned()));
    facts.know("disk.random_write_iops", Value::Number(iops));
    facts.know("storage.rebuilding", Value::Truth(false));
    facts
}

impl World {
    /// From now on this is what the host is, and its agent has just found it out.
    pub fn set_facts(&mut self, host: usize, facts: HostFacts) {
        self.note(|_| format!("host {host}: is found to be {facts:?}"));
        self.hosts[host].facts = Some(facts);
        self.find_profile(host);
    }

    /// Its agent has found out what its host is.
    pub fn find_profile(&mut self, host: usize) {
        let now = self.host_now(host);
        let Some(profile) = self.profile_of(host) else {
            return;
        };
        let digest = digest(&profile);
        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|a| !a.stopped) {
            agent.core.handle_profile(digest, Occasion::Look, now);
            self.drain_agent(host);
        }
    }

    fn profile_of(&self, host: usize) -> Option<HostProfile> {
        Some(HostProfile {
            facts: self.hosts[host].facts.clone()?,
            report: serde_json::Value::Null,
        })
    }

    /// Its agent finds that the host fares so: told with every beat from now on.
    pub fn look_at_host(&mut self, host: usize, health: Health, rebuilding: bool) {
        let machine = &mut self.hosts[host];
        machine.looks += 1;
        machine.fares.health = Some(HostHealth {
            look: machine.looks,
            health: health.as_str().to_owned(),
            reasons: Vec::new(),
            rebuilding,
        });
        self.tell_how_it_fares(host);
    }

    /// So busy is the host from now on.
    pub fn load_host(&mut self, host: usize, load: Option<HostLoad>) {
        self.hosts[host].fares.load = load;
        self.tell_how_it_fares(host);
    }

    pub fn tell_how_it_fares(&mut self, host: usize) {
        let now = self.host_now(host);
        let fares = self.hosts[host].fares.clone();
        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|a| !a.stopped) {
            agent.core.handle_host(fares, now);
            self.drain_agent(host);
        }
    }

    // -- on its way -----------------------------------------------------------------------------

    pub(super) fn send_profile(&mut self, host: usize, connection: u64, digest: ProfileDigest) {
        let Some(agent) = self.hosts[host].agent.as_ref() else {
            return;
        };
        let registration = Registration {
            host,
            agent: agent.generation,
            connection,
            digest,
        };
        self.after(WAY_MS, Event::ProfileArrives(registration));
    }

    /// The profile has come whole to the other end of the connection, if that is still there.
    pub(super) fn profile_arrives(&mut self, registration: Registration) {
        let Registration {
            host, connection, ..
        } = registration;
        let leader = self.connections.get(&connection);
        let leader = leader.filter(|c| c.leader_open).map(|c| c.leader);
        let leads = |leader: &u64| {
            self.coordinators
                .get(leader)
                .is_some_and(|l| l.core.is_some())
        };
        let profile = self.profile_of(host);
        let (Some(leader), Some(profile)) = (leader.filter(leads), profile) else {
            return self.registration_ends(registration, Registered::Failed);
        };
        let id = RequestId(self.fresh_id());
        let request = Request::RegisterHost(Box::new(self.compare(host, &profile)));
        self.registrations.insert(id, registration);
        self.feed(leader, Input::Request(id, request));
    }

    /// What is to be proposed of a profile, by what the ledger has.
    fn compare(&self, host: usize, profile: &HostProfile) -> RegisterHost {
        let name = self.hosts[host].identity.clone();
        let agent_id = self.truth.agent_named(&name);
        let agent = agent_id.and_then(|agent_id| self.truth.set.agents.get(&agent_id));
        let known = agent.and_then(|agent| Some((agent, agent.profile?)));
        let differences = known.map(|(agent, _)| {
            let before = HostProfile {
                facts: (*agent.facts).clone(),
                report: serde_json::Value::Null,
            };
            differences(&before, profile)
        });
        RegisterHost {
            name,
            against: known.map_or(0, |(_, kept)| kept.generation),
            digest: digest(profile),
            facts: profile.facts.clone(),
            report: profile.report.to_string(),
            differences: differences.unwrap_or_default(),
        }
    }

    /// Whether this was the answer to a registration.
    pub(super) fn registration_answered(
        &mut self,
        request: RequestId,
        answer: &Result<Done, RequestError>,
    ) -> bool {
        let Some(registration) = self.registrations.remove(&request) else {
            return false;
        };
        let end = match answer {
            Ok(Done::HostRegistered { .. }) => Registered::Taken,
            Err(RequestError::Refused(refusal))
                if !matches!(refusal, Refusal::ProfileMoved { .. }) =>
            {
                Registered::Refused
            }
            _ => Registered::Failed,
        };
        self.registration_ends(registration, end);
        true
    }

    fn registration_ends(&mut self, registration: Registration, end: Registered) {
        self.after(WAY_MS, Event::ProfileAnswered(registration, end));
    }
}
