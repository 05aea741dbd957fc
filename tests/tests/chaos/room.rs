//! A machine room: a control group and hosts, each machine on a cable of its own.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cables::Wired;
use crate::control::Control;
use crate::site::{GROUP, Site, agent_name, supervisor_name};

/// Where the control machines are; hosts begin at ten beyond.
const FIRST: u32 = 2;

pub(crate) struct Room {
    pub(crate) site: Site,
    pub(crate) machines: BTreeMap<String, Wired>,
}

impl Room {
    /// A group and so many hosts, all of them attached.
    pub(crate) fn start(hosts: u32) -> Result<Room> {
        let mut room = Room::prepare(hosts)?;
        room.site.start(hosts, 16)?;
        Ok(room)
    }

    /// The same; nothing runs yet.
    pub(crate) fn prepare(hosts: u32) -> Result<Room> {
        let mut machines = BTreeMap::new();
        let mut control = Vec::new();
        for (node, name) in (1..).zip(GROUP) {
            let machine = Wired::new(FIRST - 1 + node)?;
            control.push(Control::at(name, node, &machine.address));
            machines.insert(name.to_owned(), machine);
        }
        let mut site = Site::of(control, hosts)?;
        for name in GROUP {
            site.put(name, machines[name].grounds());
        }
        for n in 1..=hosts {
            let machine = Wired::new(FIRST + 10 + n)?;
            site.put(&agent_name(n), machine.grounds());
            site.put(&supervisor_name(n), machine.grounds());
            machines.insert(agent_name(n), machine);
        }
        Ok(Room { site, machines })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.machines.keys().cloned().collect()
    }

    pub(crate) fn machine(&self, name: &str) -> Result<&Wired> {
        let machine = self.machines.get(name);
        machine.with_context(|| format!("there is no machine {name}"))
    }

    /// Nothing goes between these two.
    pub(crate) fn part(&self, one: &str, other: &str) -> Result<()> {
        self.machine(one)?.part(self.machine(other)?)
    }

    pub(crate) fn join(&self, one: &str, other: &str) -> Result<()> {
        self.machine(one)?.join(self.machine(other)?)
    }

    /// The cables of all hosts, for so long.
    pub(crate) fn cut_hosts(&self, length: Duration) -> Result<()> {
        let hosts = || self.machines.iter().filter(|(name, _)| is_host(name));
        for (_, host) in hosts() {
            host.cut()?;
        }
        sleep(length);
        for (_, host) in hosts() {
            host.mend()?;
        }
        Ok(())
    }
}

fn is_host(name: &str) -> bool {
    name.starts_with("host")
}
