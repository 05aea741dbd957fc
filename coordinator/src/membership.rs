//! How a control machine takes part in its group: by which address, and whether it begins a group or
//! joins one.

use std::net::SocketAddr;

use transport::Identity;

use crate::authority::Authority;
use crate::consensus::{Begin, Facts, GroupOptions, PeersAt, Timers};
use crate::data_dir::{DataDir, DataDirError};

/// Number of a machine whose certificate states none: it is alone.
const ONLY_NODE: u64 = 1;

/// What a control machine must be told of its group.
#[derive(Clone, Debug)]
pub struct Membership {
    /// UDP address where the other members reach it; without, it stays alone.
    pub peers_addr: Option<SocketAddr>,
    /// Host name or address under which others reach this machine. Without, the addresses it listens
    /// on count, as far as they name a machine.
    pub advertise: Option<String>,
    /// Wait with an empty data directory until it is added to a group, instead of beginning one.
    pub join: bool,
    pub timers: Timers,
}

/// Where else this machine answers.
pub(crate) struct Reached {
    pub(crate) agents: Option<SocketAddr>,
    pub(crate) api: Option<SocketAddr>,
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
    ) -> Result<GroupOptions, DataDirError> {
        let node = identity.node().unwrap_or(ONLY_NODE);
        let begin = if self.join { Begin::Join } else { Begin::Alone };
        let mut group = data.group(node, begin)?;
        group.timers = self.timers;
        group.own = Facts {
            name: identity.name().name.to_string(),
            role: identity.name().role,
            peers: self.told(self.peers_addr),
            agents: self.told(reached.agents),
            api: self.told_of_api(reached.api),
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
        match (bound, &self.advertise) {
            (Some(bound), Some(host)) => format!("{host}:{}", bound.port()),
            (Some(bound), None) if !bound.ip().is_unspecified() => bound.to_string(),
            (None, _) | (Some(_), None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_are_told() {
        let listens = |address: &str| Some(address.parse().unwrap());
        for (bound, advertise, expected) in [
            (None, Some("c1.example"), ""),
            (
                listens("0.0.0.0:7410"),
                Some("c1.example"),
                "c1.example:7410",
            ),
            (
                listens("10.0.0.1:7410"),
                Some("c1.example"),
                "c1.example:7410",
            ),
            (listens("10.0.0.1:7410"), None, "10.0.0.1:7410"),
            (listens("[::]:7410"), None, ""),
        ] {
            let membership = Membership {
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
