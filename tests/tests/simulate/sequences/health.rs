//! Hosts that do not fare well: what a rule does about them, and what it leaves to people.

use ledger::{Cordon, RunState};
use protocol::Health;

use super::{A, B, MINUTE, SECOND, sequences};
use crate::invariants::p4_nothing_precious::heal;
use crate::world::people::{Job, uncordon};
use crate::world::{Held, World};

sequences! {
    one_bad_look breaks without HealthNeedsTwoLooks;
    recovered_stays_out breaks without HealthCordonStays;
    operator_over_health breaks without OperatorOverHealth;
    all_called_failed breaks without HealthSparesTheFleet;
}

impl World {
    /// Looks at a host, and lets its beats tell of it, more than once.
    fn find(&mut self, host: usize, health: Health) -> Held {
        self.look_at_host(host, health, false);
        self.run_for(15 * SECOND)
    }

    fn is_out(&self, host: usize) -> bool {
        let name = &self.hosts[host].identity;
        let mut agents = self.truth.set.agents.values();
        let agent = agents.find(|agent| agent.name == *name);
        agent.is_some_and(|agent| agent.cordon == Some(Cordon::Unwell))
    }

    fn require_out(&mut self, host: usize, out: bool, invariant: &'static str) -> Held {
        let is_out = self.is_out(host);
        self.require(is_out == out, "P4", invariant, || {
            format!("host {host}: cordoned by its health: {is_out}")
        });
        self.holds()
    }

    /// A job of three shards runs to its end.
    fn runs_work(&mut self) -> Held {
        let run_id = self.run_now("a/works")?;
        self.until_state(run_id, RunState::Succeeded, 2 * MINUTE)
    }

    fn put_works(&mut self) -> Held {
        let mut job = Job::on_demand("a/works");
        job.shards = 3;
        self.put(&job)
    }
}

/// A tool ran into its time limit once.
fn one_bad_look(world: &mut World) -> Held {
    world.begin(2)?;
    for health in [
        Health::Ok,
        Health::Ok,
        Health::Failed,
        Health::Ok,
        Health::Failed,
    ] {
        world.find(A, health)?;
        world.require_out(A, false, "no host is cordoned by one bad look")?;
    }
    world.find(A, Health::Failed)?;
    world.require_out(A, true, "a host that has failed is cordoned")?;
    heal(world)
}

/// A host fails, is well again, and its coordinator is replaced: until a person says so, it gets nothing.
fn recovered_stays_out(world: &mut World) -> Held {
    world.begin(2)?;
    world.put_works()?;
    for health in [Health::Failed, Health::Failed, Health::Ok, Health::Ok] {
        world.find(A, health)?;
    }
    world.runs_work()?;
    world.restart_leader_after(SECOND, true)?;
    world.run_for(5 * SECOND)?;
    world.until_attached()?;
    for _ in 0..2 {
        world.find(A, Health::Ok)?;
    }
    world.runs_work()?;
    world.require_out(A, true, "a host that has recovered stays cordoned")?;
    let name = world.hosts[A].identity.clone();
    world.must(uncordon(&name))?;
    world.runs_work()?;
    let served = world.processes.values().any(|process| process.host == A);
    world.require(served, "P4", "an uncordoned host is given work", || {
        "nothing ran there".to_owned()
    });
    heal(world)
}

/// An operator knows that a host serves well enough, whatever its array says.
fn operator_over_health(world: &mut World) -> Held {
    const WINS: &str = "a host that an operator has put into service stays so";
    world.begin(2)?;
    for _ in 0..2 {
        world.find(A, Health::Failed)?;
    }
    world.require_out(A, true, "a host that has failed is cordoned")?;
    let name = world.hosts[A].identity.clone();
    world.must(uncordon(&name))?;
    for _ in 0..2 {
        world.find(A, Health::Failed)?;
        world.require_out(A, false, WINS)?;
    }
    world.restart_leader_after(SECOND, true)?;
    world.run_for(5 * SECOND)?;
    world.until_attached()?;
    for _ in 0..3 {
        world.find(A, Health::Failed)?;
        world.require_out(A, false, WINS)?;
    }
    for health in [Health::Ok, Health::Ok, Health::Failed, Health::Failed] {
        world.find(A, health)?;
    }
    world.require_out(A, true, "a host that fails anew is cordoned anew")?;
    heal(world)
}

/// A new version of a tool calls everything failed.
fn all_called_failed(world: &mut World) -> Held {
    world.begin(4)?;
    world.put_works()?;
    for _ in 0..3 {
        for host in 0..4 {
            world.look_at_host(host, Health::Failed, false);
        }
        world.run_for(30 * SECOND)?;
    }
    let out = (0..4).filter(|&host| world.is_out(host)).count();
    world.require(out == 1, "P4", "most hosts stay in service", || {
        format!("{out} of 4 are cordoned")
    });
    world.holds()?;
    world.runs_work()?;
    let served = world.processes.values().any(|process| process.host >= B);
    world.require(served, "P4", "most hosts stay in service", || {
        "nothing ran on the others".to_owned()
    });
    heal(world)
}
