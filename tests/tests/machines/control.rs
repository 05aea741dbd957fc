//! Control machines: what each is called, where it is reached, and how it is started.

use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Ports of machines that have an address of their own.
const PEERS_PORT: u16 = 7410;
const AGENTS_PORT: u16 = 7411;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Coordinator,
    Witness,
}

/// One machine of the control group.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// Of its process, its log and its data directory.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What its certificate calls it.
    pub(crate) identity: String,
    /// Its number in the group.
    pub(crate) node: u32,
    /// Where the others reach it.
    pub(crate) peers: String,
    /// Where agents reach it.
    pub(crate) agents: String,
    /// Whether it is to be added by another one.
    pub(crate) joins: bool,
}

impl Control {
    /// A coordinator that has no others.
    pub(crate) fn alone(name: &str, address: &str) -> Result<Control> {
        Ok(Control {
            name: name.to_owned(),
            role: Role::Coordinator,
            identity: "c1".to_owned(),
            node: 1,
            peers: "127.0.0.1:0".to_owned(),
            agents: free(address)?,
            joins: false,
        })
    }

    /// One of a group on this machine, on ports that are free.
    pub(crate) fn on_loopback(name: &str, node: u32) -> Result<Control> {
        let (peers, agents) = (free("127.0.0.1")?, free("127.0.0.1")?);
        Ok(Control::of_group(name, node, peers, agents))
    }

    /// One of a group, at an address of its own.
    pub(crate) fn at(name: &str, node: u32, address: &str) -> Control {
        let (peers, agents) = (
            format!("{address}:{PEERS_PORT}"),
            format!("{address}:{AGENTS_PORT}"),
        );
        Control::of_group(name, node, peers, agents)
    }

    fn of_group(name: &str, node: u32, peers: String, agents: String) -> Control {
        Control {
            name: name.to_owned(),
            role: if name.starts_with('w') {
                Role::Witness
            } else {
                Role::Coordinator
            },
            identity: name.to_owned(),
            node,
            peers,
            agents,
            joins: node > 1,
        }
    }

    pub(crate) fn is_coordinator(&self) -> bool {
        self.role == Role::Coordinator
    }

    /// Arguments that start it, with its files in these directories.
    pub(crate) fn arguments(&self, data: &str, identity: &str) -> Vec<String> {
        let mut arguments = vec![
            match self.role {
                Role::Coordinator => "coordinator",
                Role::Witness => "witness",
            },
            "--data",
            data,
            "--identity",
            identity,
            "--peers-listen",
            &self.peers,
        ];
        if self.is_coordinator() {
            arguments.extend(["--agents-listen", &self.agents]);
            arguments.extend(["--api-listen", "127.0.0.1:0", "--node", &self.identity]);
            if self.joins {
                arguments.push("--join");
            }
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// Below what the system gives to those who ask for any port: nobody is given one of these while the
/// machine that has it is dead.
const PORTS: Range<u32> = 10_000..32_000;

/// So many ports belong to a process of tests before it comes to those of the next one.
const PORTS_APART: u32 = 97;

/// A port that nobody has, remembered: who is started anew comes back under the same address.
fn free(address: &str) -> Result<String> {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let room = PORTS.end - PORTS.start;
    let first = std::process::id().wrapping_mul(PORTS_APART);
    for _ in 0..room {
        let drawn = first.wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + drawn % room)?;
        if UdpSocket::bind((address, port)).is_ok() {
            return Ok(format!("{address}:{port}"));
        }
    }
    bail!("{address} has no port that is free in {PORTS:?}")
}
