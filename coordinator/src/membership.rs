//! How a control machine takes part in its group: by which address, and whether it begins a group or
//! joins one.

use std::net::SocketAddr;

use transport::Identity;

use crate::authority::Authority;
use crate::consensus::{Begin, Facts, GroupOptions, PeersAt, Timers};
use crate::data_dir::DataDir;
use crate::run::CoordinatorError;

/// Number of a machine whose certificate states none: it is alone.
const ONLY_NODE: u64 = 1;

/// What a control machine must be told of its group.
#[derive(Clone, Debug)]
pub struct Membership {
    /// UDP address where the other members reach it; without, it stays alone.
    pub peers_addr: Option<SocketAddr>,
    /// Host name or address under which others reach this machine. Without, each address that it
    /// listens on counts where it names a machine, and `peers_addr` where another does not.
    pub advertise: Option<String>,
    /// Wait with an empty data directory until it is added to a group, instead of beginning one.
    pub join: bool,
    pub timers: Timers,
}

/// Where else this machine answers.
pub(crate) struct Reached {
    pub(crate) agents: Option<SocketAddr>,
    pub(crate) api: Option<SocketAddr>,
    /// Of the token that lets in there.
    pub(crate) token: Option<String>,
}

/// Whether the API is spoken in the clear where it listens: on loopback, where only this machine
/// reaches it. Everywhere else it is over TLS.
pub(crate) fn is_in_the_clear(api: SocketAddr) -> bool {
    api.ip().is_loopback()
}

impl Membership {
    /// On its own, with nobody who could be added.
    pub fn alone() -> Membership {
        Membership {
            peers_addr: None,
            advertise: None,
            join: false,
            timers: Timers::default(),
        }
    }

    /// The files and the facts with which this machine takes part.
    pub(crate) fn group(
        &self,
        data: &DataDir,
        identity: &Identity,
        authority: Option<Authority>,
        reached: Reached,
    ) -> Result<GroupOptions, CoordinatorError> {
        let peers = self.told(self.peers_addr);
        if self.join && peers.is_empty() {
            return Err(CoordinatorError::NoAddress {
                name: identity.name().to_string(),
            });
        }
        let node = identity.node().unwrap_or(ONLY_NODE);
        let begin = if self.join { Begin::Join } else { Begin::Alone };
        let mut group = data.group(node, begin)?;
        group.timers = self.timers;
        group.own = Facts {
            name: identity.name().name.to_string(),
            role: identity.name().role,
            peers,
            agents: self.told(reached.agents),
            api: self.told_of_api(reached.api),
            token: reached.token.unwrap_or_default(),
            speaks: group.own.speaks,
        };
        group.peers = match (self.peers_addr, identity.node()) {
            (Some(bind), Some(_)) => Some(PeersAt {
                identity: identity.clone(),
                authority,
                bind,
            }),
            (Some(_), None) => {
                tracing::info!(
                    "this machine's certificate states no number of a node: nobody can be added"
                );
                None
            }
            (None, _) => None,
        };
        Ok(group)
    }

    fn told_of_api(&self, bound: Option<SocketAddr>) -> String {
        match bound {
            Some(bound) if is_in_the_clear(bound) => format!("http://{bound}"),
            _ => match self.told(bound) {
                host if host.is_empty() => host,
                host => format!("https://{host}"),
            },
        }
    }

    /// `host:port` for others; empty where nobody has said by which name they reach this machine.
    fn told(&self, bound: Option<SocketAddr>) -> String {
        let Some(bound) = bound else {
            return String::new();
        };
        let names_a_machine = |address: &SocketAddr| !address.ip().is_unspecified();
        match &self.advertise {
            Some(host) => format!("{host}:{}", bound.port()),
            None if names_a_machine(&bound) => bound.to_string(),
            None => self
                .peers_addr
                .filter(names_a_machine)
                .map_or_else(String::new, |peers| {
                    SocketAddr::new(peers.ip(), bound.port()).to_string()
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use transport::Role;
    use transport::ca::{self, CA_LIFETIME, CERTIFICATE_LIFETIME, Subject, Validity};

    use super::*;
    use crate::clock::read_now;

    #[test]
    fn who_waits_to_be_added_says_where_it_is_reached() {
        let directory = tempfile::tempdir().unwrap();
        let lifetime = |lifetime| Validity {
            now: read_now().wall,
            lifetime,
        };
        let (ca, own) = (directory.path().join("ca"), directory.path().join("own"));
        ca::create(&ca, &"lab".parse().unwrap(), lifetime(CA_LIFETIME)).unwrap();
        let subject = Subject::new(Role::Witness, &"w".parse().unwrap()).node(3);
        ca::issue(&ca, &subject, &own, lifetime(CERTIFICATE_LIFETIME)).unwrap();
        let identity = Identity::load(&own).unwrap();
        let data = DataDir::open(&directory.path().join("data")).unwrap();
        for (listens, advertise, join, refused) in [
            ("0.0.0.0:7410", None, true, true),
            ("[::]:7410", None, true, true),
            // Who begins a group may go on alone for ever.
            ("0.0.0.0:7410", None, false, false),
            ("0.0.0.0:7410", Some("w.example"), true, false),
            ("10.0.0.3:7410", None, true, false),
        ] {
            let membership = Membership {
                peers_addr: Some(listens.parse().unwrap()),
                advertise: advertise.map(str::to_owned),
                join,
                ..Membership::alone()
            };
            let reached = Reached {
                agents: None,
                api: None,
                token: None,
            };
            let begun = membership.group(&data, &identity, None, reached);
            assert_eq!(begun.is_err(), refused, "{listens} {advertise:?} {join}");
            if let Err(error) = begun {
                let told = error.to_string();
                assert!(told.contains("w.witness.lab.matins"), "{told}");
                assert!(told.contains("--advertise"), "{told}");
            }
        }
    }

    #[test]
    fn what_others_are_told() {
        let listens = |address: &str| Some(address.parse().unwrap());
        for (peers, bound, advertise, expected) in [
            ("0.0.0.0:7410", None, Some("c1.example"), ""),
            (
                "0.0.0.0:7410",
                listens("0.0.0.0:7411"),
                Some("c1.example"),
                "c1.example:7411",
            ),
            (
                "10.0.0.1:7410",
                listens("10.0.0.1:7411"),
                Some("c1.example"),
                "c1.example:7411",
            ),
            (
                "10.0.0.1:7410",
                listens("10.0.0.2:7411"),
                None,
                "10.0.0.2:7411",
            ),
            ("10.0.0.1:7410", listens("[::]:7411"), None, "10.0.0.1:7411"),
            (
                "[fd00::1]:7410",
                listens("0.0.0.0:7411"),
                None,
                "[fd00::1]:7411",
            ),
            ("[::]:7410", listens("[::]:7410"), None, ""),
        ] {
            let membership = Membership {
                peers_addr: Some(peers.parse().unwrap()),
                advertise: advertise.map(str::to_owned),
                ..Membership::alone()
            };
            assert_eq!(membership.told(bound), expected);
            let https = match expected {
                "" => String::new(),
                host => format!("https://{host}"),
            };
            assert_eq!(membership.told_of_api(bound), https);
            let loopback = listens("127.0.0.1:7412");
            assert_eq!(membership.told_of_api(loopback), "http://127.0.0.1:7412");
        }
    }
}
