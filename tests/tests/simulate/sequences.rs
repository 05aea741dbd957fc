//! The named orders of events. Each holds with all rules, and breaks without the one it is about:
//! a scenario that cannot fail proves nothing, and a rule that nothing needs is none.

mod acks;
mod admission;
mod bounds;
mod classes;
mod clocks;
mod control_clocks;
mod fleet;
mod fleet_clocks;
mod fuses;
mod grants;
mod health;
mod hosts;
mod leaders;
mod pauses;
mod people;
mod receipts;
mod restore;
mod room;
mod schedules;

use std::collections::BTreeSet;
use std::path::Path;

use ledger::RunState;
use ledger::command::Command;
use protocol::attempt::Exit;
use protocol::{Rule, Rules, RunId};

use crate::invariants::tables::{Tables, number, text};
use crate::world::coordinator::Coordinator;
use crate::world::people::Job;
use crate::world::process::{Behaviour, Plan};
use crate::world::{Held, Violation, World};

/// One order of events, and the rule without which it breaks.
pub struct Sequence {
    pub name: &'static str,
    pub rule: Rule,
    pub scenario: fn(&mut World) -> Held,
}

/// Lists a file's sequences and makes a test of each.
macro_rules! sequences {
    ($($name:ident breaks without $rule:ident;)+) => {
        pub const SEQUENCES: &[$crate::sequences::Sequence] = &[$(
            $crate::sequences::Sequence {
                name: stringify!($name),
                rule: protocol::Rule::$rule,
                scenario: $name,
            },
        )+];

        mod proofs {
            $(
                #[test]
                fn $name() {
                    let name = stringify!($name);
                    let found = super::SEQUENCES.iter().find(|sequence| sequence.name == name);
                    $crate::sequences::prove(found.expect("listed above"));
                }
            )+
        }
    };
}
pub(crate) use sequences;

/// Runs the scenario with all rules, where it must hold, and without its own, where it must not.
pub fn prove(sequence: &Sequence) -> Violation {
    let Sequence {
        name,
        rule,
        scenario,
    } = sequence;
    let mut world = World::new(1, Rules::all(), true);
    if let Err(violation) = scenario(&mut world) {
        panic!("{name}: {violation}\n{}", world.journal().join("\n"));
    }
    let mut world = World::new(1, Rules::without(*rule), true);
    match scenario(&mut world) {
        Err(violation) => violation,
        Ok(()) => panic!(
            "{name} holds without {rule:?}: it does not meet the rule, or the rule does nothing\n{}",
            world.journal().join("\n")
        ),
    }
}

/// Prints which invariant notices that a rule is missing, as docs/PROOFS.md must have it, and
/// demands that every rule is proven.
#[test]
fn every_rule_is_proven() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/PROOFS.md");
    let page = std::fs::read_to_string(page).expect("docs/PROOFS.md can be read");
    let (mut proven, mut untold) = (BTreeSet::new(), Vec::new());
    for sequence in all() {
        let violation = prove(sequence);
        let row = format!(
            "| {} | `{:?}` | {} ({}) |",
            sequence.name.replace('_', "-"),
            sequence.rule,
            violation.promise,
            violation.invariant
        );
        println!("{row}");
        if !page.lines().any(|line| line == row) {
            untold.push(row);
        }
        proven.insert(sequence.rule as u8);
    }
    assert!(
        untold.is_empty(),
        "docs/PROOFS.md has not:\n{}",
        untold.join("\n")
    );
    let unproven: Vec<u8> = (0..=Rule::WaitingIsBounded as u8)
        .filter(|rule| !proven.contains(rule))
        .collect();
    assert!(
        unproven.is_empty(),
        "no sequence breaks without the rules numbered {unproven:?}"
    );
}

fn all() -> impl Iterator<Item = &'static Sequence> {
    [
        grants::SEQUENCES,
        hosts::SEQUENCES,
        acks::SEQUENCES,
        leaders::SEQUENCES,
        receipts::SEQUENCES,
        restore::SEQUENCES,
        people::SEQUENCES,
        pauses::SEQUENCES,
        schedules::SEQUENCES,
        clocks::SEQUENCES,
        fleet_clocks::SEQUENCES,
        control_clocks::SEQUENCES,
        fuses::SEQUENCES,
        bounds::SEQUENCES,
        fleet::SEQUENCES,
        health::SEQUENCES,
        room::SEQUENCES,
        admission::SEQUENCES,
    ]
    .into_iter()
    .flatten()
}

// -- what scenarios share ---------------------------------------------------------------------

/// Two hosts, by name, where a scenario has two.
const A: usize = 0;
const B: usize = 1;

/// The machines of a pair of coordinators; the first leads where a scenario begins.
const FIRST: usize = 0;
const OTHER: usize = 1;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;

fn works_for(seconds: i64) -> Behaviour {
    Behaviour::succeeds_after(seconds * SECOND)
}

fn fails_after(seconds: i64, exit: Exit) -> Behaviour {
    Behaviour {
        exit,
        ..works_for(seconds)
    }
}

fn is_fire(command: &Command) -> bool {
    matches!(command, Command::Fire(_))
}

impl World {
    /// A coordinator and this many hosts, all attached.
    fn begin(&mut self, hosts: usize) -> Held {
        self.start_leader();
        for _ in 0..hosts {
            self.add_host(4);
        }
        self.until_attached()
    }

    /// To whoever leads now: an agent may not have heard yet that its session of before is over.
    fn until_attached(&mut self) -> Held {
        self.run_until("every agent attaches", 20 * SECOND, |w| {
            let epoch = w.leader().and_then(Coordinator::epoch);
            w.hosts.iter().all(|host| {
                let session = host.agent.as_ref().and_then(|agent| agent.core.session());
                // Both are positions of one counter.
                session
                    .zip(epoch)
                    .is_some_and(|(session, epoch)| session.0 > epoch.0)
            })
        })
    }

    fn plan(&mut self, script: &[Behaviour]) {
        self.plan = Plan::Script(script.to_vec());
    }

    /// Runs until the next whole minute and then for so long.
    fn run_past_minute(&mut self, ms: i64) -> Held {
        let left = MINUTE - self.now.rem_euclid(MINUTE);
        self.run_for(left + ms)
    }

    /// A process that works for ten minutes under a short lease is under way on host A.
    fn put_to_work(&mut self) -> Result<RunId, Violation> {
        self.plan(&[works_for(600)]);
        let mut job = Job::on_demand("a/works");
        job.takeover_s = 15;
        job.timeout_s = 900;
        self.put(&job)?;
        let run_id = self.run_now("a/works")?;
        self.until_process_on(A)?;
        Ok(run_id)
    }

    fn until_process_on(&mut self, host: usize) -> Held {
        self.run_until("a process starts", 3 * MINUTE, |w| {
            !w.alive_on(host).is_empty()
        })
    }

    fn until_on_its_way(&mut self, kind: fn(&Command) -> bool) -> Held {
        self.run_until("a command is on its way", 3 * MINUTE, |w| {
            w.leader().is_some_and(|leader| leader.has_on_its_way(kind))
        })
    }

    fn until_state(&mut self, run_id: RunId, state: RunState, bound_ms: i64) -> Held {
        let what = format!("{run_id} is {}", state.as_str());
        self.run_until(&what, bound_ms, |w| w.state_of(run_id) == Some(state))
    }

    /// State of a run, final ones included.
    fn state_of(&self, run_id: RunId) -> Option<RunState> {
        match self.open_run(run_id) {
            Some(run) => Some(run.state),
            None => self.truth.ended.get(&run_id).copied(),
        }
    }

    fn processes_of(&self, run_id: RunId) -> usize {
        self.processes
            .values()
            .filter(|process| process.run_id == run_id)
            .count()
    }

    fn tables(&self) -> Tables {
        Tables::of(self)
    }

    /// How many alerts of this code have been raised.
    fn alerts(&self, kind: i64) -> usize {
        let tables = self.tables();
        tables
            .rows("alerts")
            .iter()
            .filter(|alert| number(alert, "kind") == kind)
            .count()
    }

    /// Fire times and states of the scheduled runs of a job, in order.
    fn fires_of(&self, job: &str) -> Vec<(i64, RunState)> {
        let job_id = self.job(job).job_id;
        let of_job = self
            .truth
            .runs
            .iter()
            .filter(|(_, facts)| facts.job_id == job_id);
        let mut fires: Vec<(i64, RunState)> = of_job
            .filter(|(_, facts)| facts.namespace == ledger::Namespace::Scheduled)
            .filter_map(|(run_id, facts)| Some((facts.fire_time.0, self.state_of(*run_id)?)))
            .collect();
        fires.sort_unstable_by_key(|&(at, _)| at);
        fires
    }

    fn restart_leader_after(&mut self, ms: i64, keep: bool) -> Held {
        self.crash_leader(self.front, keep);
        self.run_for(ms)?;
        self.start_leader();
        self.holds()
    }

    /// A pair of coordinators and this many hosts, all attached to the first.
    fn begin_as_pair(&mut self, hosts: usize) -> Held {
        self.add_standby();
        self.begin(hosts)?;
        self.run_until("every agent is connected to both", 20 * SECOND, |w| {
            w.is_connected_to_all()
        })
    }

    fn is_connected_to_all(&self) -> bool {
        let mut hosts = 0..self.hosts.len();
        hosts.all(|host| {
            let open = self.connections_of(host);
            let open = open.filter(|id| self.connections[id].agent_open);
            open.count() >= self.controls.len()
        })
    }

    /// The leader dies, and after so long the other one leads; the dead one is back a second later.
    fn fail_over_after(&mut self, ms: i64, keep: bool) -> Held {
        let (dead, other) = (self.front_machine, self.other_machine());
        self.crash_leader(self.front, keep);
        self.call_off_election();
        self.run_for(ms)?;
        self.elect(other);
        self.run_for(SECOND)?;
        self.start_coordinator(dead);
        self.holds()
    }

    fn until_led_by(&mut self, machine: usize, bound_ms: i64) -> Held {
        let what = format!("machine {machine} leads");
        self.run_until(&what, bound_ms, |w| {
            let leads = w.leader().is_some_and(|leader| leader.epoch().is_some());
            leads && w.front_machine == machine
        })
    }
}

/// The first alert whose text contains this.
fn alert_with<'a>(tables: &'a Tables, words: &str) -> Option<&'a str> {
    let mut texts = tables
        .rows("alerts")
        .iter()
        .map(|alert| text(alert, "text"));
    texts.find(|text| text.contains(words))
}
