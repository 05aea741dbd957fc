//! Certificates that end soon, told of while there is time.
//!
//! The transport ends every connection with the certificates that it rests on. Hosts were often
//! issued theirs on one day, so on one day a whole fleet would fall silent: a person hears of each
//! a month before, and once a day until it is mended.

use std::collections::BTreeMap;

use ledger::command::{AlertKind, RaiseAlert};
use protocol::{AgentName, BootMs, DurationMs, Lifetime, Now};

use crate::clock::Verdict;
use crate::core::Core;

/// How often the certificates are looked through.
const LOOK: DurationMs = DurationMs(60_000);

/// A person is reminded this often.
const REMIND: DurationMs = DurationMs(86_400_000);

#[derive(Debug)]
pub(crate) struct Certificates {
    own: Known,
    agents: BTreeMap<AgentName, Known>,
    /// Nobody is told before this.
    look_at: BootMs,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    lifetime: Lifetime,
    told: Option<BootMs>,
}

impl Known {
    fn new(lifetime: Lifetime) -> Known {
        Known {
            lifetime,
            told: None,
        }
    }

    /// Whether a person is to be told now; notes that they were.
    fn tell(&mut self, now: Now) -> bool {
        let due = self.told.is_none_or(|told| now.boot - told >= REMIND);
        let tells = due && now.wall >= self.lifetime.warns_from();
        if tells {
            self.told = Some(now.boot);
        }
        tells
    }
}

impl Certificates {
    pub(crate) fn new(own: Lifetime, now: BootMs) -> Certificates {
        Certificates {
            own: Known::new(own),
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
    /// An alert for every certificate in use that will end soon.
    pub(crate) fn tell_of_certificates(&mut self, now: Now) {
        // A clock that was stepped says nothing of how long a certificate is still good.
        if now.boot < self.certificates.look_at || self.clock_verdict(now) != Verdict::Trusted {
            return;
        }
        self.certificates.look_at = now.boot + LOOK;
        let mut ending = Vec::new();
        let own = &mut self.certificates.own;
        if own.tell(now) {
            ending.push((format!("coordinator {}", self.node), own.lifetime));
        }
        for (name, known) in &mut self.certificates.agents {
            if self.sessions.is_connected(name) && known.tell(now) {
                ending.push((format!("agent {name}"), known.lifetime));
            }
        }
        for (whose, lifetime) in ending {
            let text = format!(
                "the certificate of {whose} ends at {}, and its connections with it: issue it \
                 again under the same name (`matins ca issue`), copy it over and restart its process",
                lifetime.until
            );
            let kind = AlertKind::CertificateEnds;
            let job_id = None;
            self.alert(RaiseAlert { kind, job_id, text }, now);
        }
    }
}
