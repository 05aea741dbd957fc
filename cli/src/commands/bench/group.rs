//! The control machines of a measurement: one coordinator, or two and a witness.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use protocol::api::{AddMemberRequest, Cluster, ClusterAnswer};
use serde_json::Value;
use transport::Role;

use super::net::{ADDRESS, INTERFACE, Net, enter};
use super::site::{Site, end};
use crate::args::Voters;
use crate::client::{API_FILE, Client};
use crate::failure::Failure;

const ONE: &[(&str, Role)] = &[("coordinator", Role::Coordinator)];
const THREE: &[(&str, Role)] = &[
    ("c1", Role::Coordinator),
    ("c2", Role::Coordinator),
    ("witness", Role::Witness),
];

/// A question that nobody answers is asked again.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// Entries of the log that a member may lack that takes part in everything: what is under way while
/// work goes on.
const BEHIND_MAX: u64 = 64;

/// A control machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) role: Role,
    pub(super) agents: SocketAddr,
    peers: SocketAddr,
    api: SocketAddr,
}

impl Machine {
    /// On loopback, or each with an address of its own.
    pub(super) fn all(voters: Voters, own: bool) -> io::Result<Vec<Machine>> {
        let machines = match voters {
            Voters::One => ONE,
            Voters::Three => THREE,
        };
        if own {
            let at = |n, port| SocketAddr::new(Net::address(n), port);
            let machines = machines.iter().enumerate();
            let machines = machines.map(|(n, (name, role))| Machine {
                name,
                role: *role,
                agents: at(n, 7411),
                peers: at(n, 7410),
                api: at(n, 7412),
            });
            return Ok(machines.collect());
        }
        // Taken by nobody now; whoever is to listen there says so should that change. Held until all
        // are known, so that they differ.
        let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let held = machines.iter().map(|machine| {
            let api = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            Ok((machine, udp()?, udp()?, api))
        });
        let held: Vec<_> = held.collect::<io::Result<_>>()?;
        held.iter()
            .map(|((name, role), agents, peers, api)| {
                Ok(Machine {
                    name,
                    role: *role,
                    agents: agents.local_addr()?,
                    peers: peers.local_addr()?,
                    api: api.local_addr()?,
                })
            })
            .collect()
    }
}

impl Site {
    /// Starts the first coordinator and waits until it leads; answers how long that took.
    pub(super) fn start_coordinator(&mut self) -> Result<Duration, Failure> {
        let begun = Instant::now();
        self.start_machine(0, false)?;
        self.wait_for("a coordinator that leads", |site| Ok(site.leads(0)))?;
        Ok(begun.elapsed())
    }

    /// Starts the first coordinator, and has it take the others into its group.
    pub(super) fn start_group(&mut self) -> Result<(), Failure> {
        self.start_coordinator()?;
        for machine in 1..self.machines.len() {
            self.start_machine(machine, true)?;
            let address = self.machines[machine].peers.to_string();
            let client = self.client(0)?;
            // It may not listen yet.
            self.wait_for("a machine that takes part", |_| {
                let request = AddMemberRequest {
                    address: address.clone(),
                    by: None,
                };
                let added = client.post::<ClusterAnswer>("/api/v1/cluster/add", &request);
                Ok(added.is_ok())
            })?;
        }
        self.wait_until_whole().map(drop)
    }

    fn start_machine(&mut self, machine: usize, join: bool) -> Result<(), Failure> {
        let keeper = self.keeper(machine);
        if keeper.is_some() && !self.runs(&keeper_of(self.machines[machine].name)) {
            self.start_keeper(machine)?;
        }
        let data = self.data(machine);
        let of = &self.machines[machine];
        let name = of.name;
        let mut arguments = vec![
            of.role.as_str().to_owned(),
            format!("--data={}", data.display()),
            format!("--identity={}", self.identity(name).display()),
            format!("--peers-listen={}", of.peers),
            format!("--timers={}", self.timers.as_str()),
        ];
        if of.role == Role::Coordinator {
            arguments.extend([
                format!("--agents-listen={}", of.agents),
                format!("--api-listen={}", of.api),
                format!("--node={name}"),
            ]);
            if join {
                arguments.push("--join".to_owned());
            }
            if let Some(socket) = keeper {
                arguments.push(format!("--address-keeper={}", socket.display()));
            }
        }
        self.start(name, &arguments)
    }

    /// What tells an agent of all coordinators.
    pub(super) fn coordinators(&self) -> impl Iterator<Item = String> {
        self.coordinating()
            .map(|machine| format!("--coordinator={}", self.machines[machine].agents))
    }

    fn coordinating(&self) -> impl Iterator<Item = usize> {
        (0..self.machines.len()).filter(|&n| self.machines[n].role == Role::Coordinator)
    }

    /// Whether this coordinator acts, as it says itself once a quorum has confirmed it.
    pub(super) fn leads(&self, machine: usize) -> bool {
        self.hurried(machine)
            .is_ok_and(|client| client.get::<Value>("/leader", &[]).is_ok())
    }

    fn hurried(&self, machine: usize) -> Result<Client, Failure> {
        Ok(self.client(machine)?.within(ASK_LIMIT))
    }

    /// Waits until one coordinator leads, and answers which.
    pub(super) fn wait_for_leader(&mut self) -> Result<usize, Failure> {
        let leader = |site: &Site| site.coordinating().find(|&machine| site.leads(machine));
        self.wait_for(
            "a coordinator that leads",
            |site| Ok(leader(site).is_some()),
        )?;
        match leader(self) {
            Some(leader) => Ok(leader),
            None => self.wait_for_leader(),
        }
    }

    /// Waits until every control machine takes part and the group could lose any of them; answers
    /// which leads.
    pub(super) fn wait_until_whole(&mut self) -> Result<usize, Failure> {
        let leader = self.wait_for_leader()?;
        let (client, count) = (self.hurried(leader)?, self.machines.len());
        self.wait_for("all control machines", |site| {
            // Where the lead has moved, or nobody answers, it is asked again.
            let Ok(cluster) = client.get::<Cluster>("/api/v1/cluster", &[]) else {
                return Ok(false);
            };
            let others = site.coordinating().filter(|&n| n != leader);
            let ready = |n| {
                let client = site.hurried(n);
                client.is_ok_and(|client| client.get::<Value>("/readyz", &[]).is_ok())
            };
            Ok(is_whole(&cluster, count) && others.into_iter().all(ready))
        })?;
        Ok(leader)
    }

    /// Kills a control machine's process, as a power cut would.
    pub(super) fn kill_machine(&mut self, machine: usize) -> Result<(), Failure> {
        let name = self.machines[machine].name;
        let killed = self.take(name).map_or(Ok(()), kill);
        // Where it was reached stays written otherwise.
        let forgotten = fs::remove_file(self.data(machine).join(API_FILE));
        killed
            .and(forgotten)
            .map_err(|error| not_killed(name, &error))
    }

    /// Ends a control machine as its operator would.
    pub(super) fn end_machine(&mut self, machine: usize) {
        if let Some(mut child) = self.take(self.machines[machine].name) {
            end(&mut child);
        }
    }

    /// The socket of a machine's address keeper, where it has one.
    fn keeper(&self, machine: usize) -> Option<PathBuf> {
        let Machine { name, role, .. } = &self.machines[machine];
        let keeps = self.net.is_some() && *role == Role::Coordinator;
        keeps.then(|| self.root().join(format!("{name}.sock")))
    }

    pub(super) fn start_keeper(&mut self, machine: usize) -> Result<(), Failure> {
        let (Some(socket), Some(net)) = (self.keeper(machine), &self.net) else {
            return Ok(());
        };
        // Whoever was killed has left it.
        if socket.exists() {
            fs::remove_file(&socket).map_err(|error| not_started(&error))?;
        }
        let program = std::env::current_exe().map_err(|error| not_started(&error))?;
        let mut command = net.tied(machine);
        command
            .arg(program)
            .args(["address-keeper", "--interface", INTERFACE])
            .arg(format!("--address={ADDRESS}"))
            .arg(format!("--socket={}", socket.display()));
        let name = keeper_of(self.machines[machine].name);
        let child = self.spawn(&name, &mut command);
        self.add(&name, child)?;
        self.wait_for("a keeper of the address", |_| Ok(socket.exists()))
    }

    pub(super) fn kill_keeper(&mut self, machine: usize) -> Result<(), Failure> {
        self.kill(&keeper_of(self.machines[machine].name))
    }

    /// Kills a part, with whatever it has started.
    pub(super) fn kill(&mut self, name: &str) -> Result<(), Failure> {
        let killed = self.take(name).map_or(Ok(()), kill);
        killed.map_err(|error| not_killed(name, &error))
    }

    fn runs(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.name == name)
    }

    fn take(&mut self, name: &str) -> Option<Child> {
        let place = self.parts.iter().position(|part| part.name == name)?;
        Some(self.parts.remove(place).child)
    }

    /// The beginning of a command of a part, where that part is.
    pub(super) fn command(&self, name: &str) -> io::Result<Command> {
        let program = std::env::current_exe()?;
        let machine = self.machines.iter().position(|it| it.name == name);
        Ok(match (&self.net, machine) {
            (Some(net), Some(machine)) => {
                let mut command = enter(&net.path(machine));
                command.arg(program);
                command
            }
            _ => Command::new(program),
        })
    }

    pub(super) fn start_again(&mut self, machine: usize) -> Result<(), Failure> {
        self.start_machine(machine, false)
    }
}

impl Site {
    /// Starts agents that run nothing, so many in one process, and waits until all have attached.
    pub(super) fn start_fleet(&mut self, agents: u32, in_one: u32) -> Result<(), Failure> {
        for first in (1..=agents).step_by(in_one as usize) {
            let count = in_one.min(agents + 1 - first);
            let mut arguments = vec![
                "bench".to_owned(),
                "fleet".to_owned(),
                format!("--dir={}", self.root().display()),
                format!("--first={first}"),
                format!("--agents={count}"),
            ];
            arguments.extend(self.coordinators());
            self.start(&format!("fleet-{first}"), &arguments)?;
        }
        let leader = self.wait_for_leader()?;
        self.wait_until_attached(leader, agents)
    }

    /// Waits until so many agents have attached to this leader.
    pub(super) fn wait_until_attached(
        &mut self,
        leader: usize,
        agents: u32,
    ) -> Result<(), Failure> {
        let ready = "matins_agents{state=\"ready\"}";
        self.wait_long_for("agents that have attached", |site| {
            Ok(site.metric(leader, ready) == Some(agents.into()))
        })
    }

    /// Waits until every agent is connected to every coordinator.
    pub(super) fn wait_until_warm(&mut self) -> Result<(), Failure> {
        self.wait_until_warm_with(super::stream::AGENTS)
    }

    pub(super) fn wait_until_warm_with(&mut self, agents: u32) -> Result<(), Failure> {
        self.wait_long_for("agents that are connected to all coordinators", |site| {
            let of = |n| site.metric(n, "matins_agent_connections");
            Ok(site.coordinating().all(|n| of(n) == Some(agents.into())))
        })
    }

    /// A figure of a coordinator's metrics, by its name and labels; `None` where it cannot be asked.
    fn metric(&self, machine: usize, name: &str) -> Option<u64> {
        let mut page = Vec::new();
        let take = |piece: &[u8]| {
            page.extend_from_slice(piece);
            Ok(())
        };
        let client = self.hurried(machine).ok()?;
        client.stream("/metrics", &[], Some(ASK_LIMIT), take).ok()?;
        figure(&String::from_utf8(page).ok()?, name)
    }

    pub(super) fn process_of(&self, machine: usize) -> u32 {
        let name = self.machines[machine].name;
        let part = self.parts.iter().find(|part| part.name == name);
        part.map_or(0, |part| part.child.id())
    }
}

/// Of a page of metrics.
fn figure(page: &str, name: &str) -> Option<u64> {
    let mut lines = page.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

fn keeper_of(machine: &str) -> String {
    format!("{machine}-keeper")
}

fn kill(mut child: Child) -> io::Result<()> {
    // Each part is a group of its own.
    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL)?;
    child.wait().map(drop)
}

fn not_killed(name: &str, error: &io::Error) -> Failure {
    Failure::of_error(
        format!("killing {name}"),
        error,
        "see the error, and measure again",
    )
}

fn not_started(error: &io::Error) -> Failure {
    Failure::of_error(
        "starting a keeper of the address",
        error,
        "see the error, and measure again",
    )
}

fn is_whole(cluster: &Cluster, machines: usize) -> bool {
    let has_all = |behind: Option<u64>| behind.is_none_or(|behind| behind <= BEHIND_MAX);
    cluster.members.len() == machines
        && cluster
            .members
            .iter()
            .all(|member| member.votes && member.reached && has_all(member.behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_whole_name() {
        let page = "# TYPE a gauge\na_b 7\na{state=\"ready\"} 5\na 3\n";
        for (name, expected) in [
            ("a", Some(3)),
            ("a_b", Some(7)),
            ("a{state=\"ready\"}", Some(5)),
            ("b", None),
        ] {
            assert_eq!(figure(page, name), expected, "{name}");
        }
    }
}
