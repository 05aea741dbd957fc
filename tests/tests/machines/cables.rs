//! Machines on cables of their own, which can be cut, and lose packets in one direction or both.
//!
//! The trial's thread moves into a network namespace with a switch; each machine has another, with
//! one cable to it. All of it vanishes with the processes in it.

use std::rc::Rc;

use anyhow::{Result, anyhow};
use nix::sched::{CloneFlags, unshare};

use crate::grounds::{Grounds, Namespaces, finish, possible};

const PROGRAMS: [&str; 4] = ["unshare", "nsenter", "ip", "iptables"];

/// Where the trial itself is.
pub(crate) const SWITCH: &str = "10.77.0.1";

/// Runs a trial on a network of its own.
pub(crate) fn on_network(
    trial: &str,
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<()> {
    if !possible(trial, &PROGRAMS)? {
        return Ok(());
    }
    // A thread of its own: what moves into a namespace does not come back.
    let moved = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        ip("link set lo up")?;
        ip("link add br0 type bridge")?;
        ip("link set br0 up")?;
        ip(&format!("addr add {SWITCH}/24 dev br0"))?;
        run()
    });
    moved.join().map_err(|_| anyhow!("the trial panicked"))?
}

fn ip(arguments: &str) -> Result<()> {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    finish(std::process::Command::new("ip").args(arguments))
}

/// A machine with its cable to the switch.
pub(crate) struct Wired {
    pub(crate) machine: Rc<Namespaces>,
    pub(crate) address: String,
    cable: String,
}

impl Wired {
    /// Number n, at 10.77.0.n.
    pub(crate) fn new(n: u32) -> Result<Wired> {
        let wired = Wired {
            machine: Namespaces::mount_and_net()?,
            address: format!("10.77.0.{n}"),
            cable: format!("cable{n}"),
        };
        let (cable, pid) = (&wired.cable, wired.machine.pid());
        ip(&format!(
            "link add {cable} type veth peer name eth0 netns {pid}"
        ))?;
        ip(&format!("link set {cable} master br0 up"))?;
        let own = format!("{}/24", wired.address);
        wired.run("ip", &["addr", "add", &own, "dev", "eth0"])?;
        wired.run("ip", &["link", "set", "eth0", "up"])?;
        wired.run("ip", &["link", "set", "lo", "up"])?;
        Ok(wired)
    }

    /// Where its processes run.
    pub(crate) fn grounds(&self) -> Grounds {
        Grounds {
            namespaces: Some(Rc::clone(&self.machine)),
            ..Grounds::default()
        }
    }

    /// Runs a short program on it to its end.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        self.machine.run(program, arguments)
    }

    pub(crate) fn cut(&self) -> Result<()> {
        ip(&format!("link set {} down", self.cable))
    }

    pub(crate) fn mend(&self) -> Result<()> {
        ip(&format!("link set {} up", self.cable))
    }

    /// Adds (`-A`) or removes (`-D`) a rule of its packet filter.
    pub(crate) fn rule(&self, rule: &str) -> Result<()> {
        let rule: Vec<&str> = rule.split(' ').collect();
        self.run("iptables", &[&["-w"], rule.as_slice()].concat())
    }

    /// From now on it hears nothing of this machine; what it says itself goes through.
    pub(crate) fn ignore(&self, from: &Wired) -> Result<()> {
        self.rule(&format!("-A INPUT -s {} -j DROP", from.address))
    }

    pub(crate) fn heed(&self, from: &Wired) -> Result<()> {
        self.rule(&format!("-D INPUT -s {} -j DROP", from.address))
    }

    /// Nothing goes between the two, in neither direction.
    pub(crate) fn part(&self, other: &Wired) -> Result<()> {
        self.ignore(other)?;
        other.ignore(self)
    }

    pub(crate) fn join(&self, other: &Wired) -> Result<()> {
        self.heed(other)?;
        other.heed(self)
    }
}
