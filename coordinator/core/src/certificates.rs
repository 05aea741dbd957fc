//! Certificates that end soon, told of while there is time.
//!
//! The transport ends every connection with the certificates that it rests on. Hosts were often
//! issued theirs on one day, so on one day a whole fleet would fall silent: a person hears of each
//! a month before, and once a day until it is mended. Those of the control machines are a matter of the
//! group.

use std::collections::BTreeMap;

use ledger::command::{AlertKind, On, Over, RaiseAlert};
use protocol::{AgentId, AgentName, BootMs, DurationMs, Lifetime, Now};

use crate::alerts::REMIND_EVERY;
use crate::core::Core;

/// How often the certificates are looked through.
const LOOK: DurationMs = DurationMs(60_000);

#[derive(Debug)]
pub(crate) struct Certificates {
    agents: BTreeMap<AgentName, Known>,
    /// Nobody is told before this.
    look_at: BootMs,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    lifetime: Lifetime,
    told: Option<BootMs>,
    /// Its alert of before, if there was one, is still as it was.
    unsettled: bool,
}

impl Known {
    fn new(lifetime: Lifetime) -> Known {
        Known {
            lifetime,
            told: None,
            unsettled: true,
        }
    }

    /// Whether it has been found good for long, and nobody has said so yet; notes that it is said.
    fn settle(&mut self, now: Now) -> bool {
        let settles = self.unsettled && now.wall < self.lifetime.warns_from();
        self.unsettled &= !settles;
        settles
    }

    /// Whether a person is to be told now; notes that they were.
    fn tell(&mut self, now: Now) -> bool {
        let due = self.told.is_none_or(|told| now.boot - told >= REMIND_EVERY);
        let tells = due && now.wall >= self.lifetime.warns_from();
        if tells {
            self.told = Some(now.boot);
        }
        tells
    }
}

impl Certificates {
    pub(crate) fn new(now: BootMs) -> Certificates {
        Certificates {
            agents: BTreeMap::new(),
            look_at: now,
        }
    }

    /// What an agent has shown on a new connection.
    pub(crate) fn note(&mut self, name: &AgentName, lifetime: Lifetime) {
        let known = self
            .agents
            .entry(name.clone())
            .or_insert(Known::new(lifetime));
        if known.lifetime != lifetime {
            *known = Known::new(lifetime);
        }
    }
}

impl Core {
    /// An alert for every certificate of a host in use that will end soon.
    pub(crate) fn tell_of_certificates(&mut self, now: Now) {
        // A clock that was stepped says nothing of how long a certificate is still good.
        if now.boot < self.certificates.look_at || !self.clock_verdict(now).may_fire() {
            return;
        }
        self.certificates.look_at = now.boot + LOOK;
        let (ending, good) = self.look_through_certificates(now);
        let kind = AlertKind::CertificateEnds;
        if !good.is_empty() {
            self.settle_alerts(kind, Over::These(good), now);
        }
        for (on, name, lifetime) in ending {
            let text = format!(
                "the certificate of agent {name} ends at {}, and its connections with it; its own log says \
                 why it was not renewed: see that the coordinator that leads has ca.key, or issue it \
                 again under the same name (`matins ca issue`), copy it over and restart its process",
                lifetime.until
            );
            self.alert(RaiseAlert { kind, on, text }, now);
        }
    }

    /// Those that a person is to be told of, and whose matter, if there was one, is over.
    fn look_through_certificates(&mut self, now: Now) -> (Vec<(On, AgentName, Lifetime)>, Vec<On>) {
        let agents = self.set.agents.values();
        let ids: BTreeMap<&AgentName, AgentId> =
            agents.map(|agent| (&agent.name, agent.agent_id)).collect();
        let (mut ending, mut good) = (Vec::new(), Vec::new());
        for (name, known) in &mut self.certificates.agents {
            // One that has never attached has no part in anything yet.
            let Some(&agent_id) = ids.get(name) else {
                continue;
            };
            let on = On::Agent(agent_id);
            if self.sessions.is_connected(name) && known.tell(now) {
                ending.push((on, name.clone(), known.lifetime));
            }
            if known.settle(now) {
                good.push(on);
            }
        }
        (ending, good)
    }
}
