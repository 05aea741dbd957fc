//! How good the places are that shards get, held against every way in which they could be placed.
//!
//! What is optimised, restated here without the code that does it: first that as many shards as
//! possible have a place, then that as few as possible of one run are together. Shards come one by one
//! and are placed for good, so that the best way, which knows all of them beforehand, is not always
//! found.

use jobs::Needs;
use protocol::host::Value;
use protocol::message::Incarnation;
use protocol::{AgentName, BootMs, HostFacts, SessionId};

use super::*;

/// Slots, processors, GiB of memory, places at the disk.
type Four = [u64; 4];

struct Instance {
    hosts: Vec<Four>,
    /// The run that each is of, and what it takes, in the order of the line.
    shards: Vec<(usize, Four)>,
}

/// How many shards have a place, and how many pairs of one run are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quality {
    placed: u64,
    together: u64,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        // xorshift64*, Vigna 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

fn instance(dice: &mut Dice) -> Instance {
    let kinds: [Four; 4] = [[6, 16, 16, 2], [4, 4, 64, 2], [4, 6, 16, 4], [5, 8, 32, 1]];
    let hosts = (0..3).map(|_| dice.one_of(&kinds)).collect();
    let shards = (0..8).map(|_| {
        let run = dice.below(4) as usize;
        let takes = [
            1,
            dice.one_of(&[0, 1, 2, 4, 8]),
            dice.one_of(&[0, 2, 4, 12, 24]),
            dice.one_of(&[0, 0, 1]),
        ];
        (run, takes)
    });
    Instance {
        hosts,
        shards: shards.collect(),
    }
}

/// The best of all ways to place them.
fn brute_force(instance: &Instance) -> Quality {
    fn deeper(
        instance: &Instance,
        at: usize,
        left: &mut Vec<Four>,
        on: &mut Vec<Option<usize>>,
        best: &mut Quality,
    ) {
        let placed = on.iter().flatten().count() as u64;
        if placed + ((instance.shards.len() - at) as u64) < best.placed {
            return;
        }
        if at == instance.shards.len() {
            let found = Quality {
                placed,
                together: together(instance, on),
            };
            let is_better = (found.placed, std::cmp::Reverse(found.together))
                > (best.placed, std::cmp::Reverse(best.together));
            if is_better {
                *best = found;
            }
            return;
        }
        let takes = instance.shards[at].1;
        for host in 0..left.len() {
            if (0..4).any(|i| takes[i] > left[host][i]) {
                continue;
            }
            for i in 0..4 {
                left[host][i] -= takes[i];
            }
            on.push(Some(host));
            deeper(instance, at + 1, left, on, best);
            on.pop();
            for i in 0..4 {
                left[host][i] += takes[i];
            }
        }
        on.push(None);
        deeper(instance, at + 1, left, on, best);
        on.pop();
    }
    let mut best = Quality {
        placed: 0,
        together: u64::MAX,
    };
    deeper(
        instance,
        0,
        &mut instance.hosts.clone(),
        &mut Vec::new(),
        &mut best,
    );
    best
}

fn together(instance: &Instance, on: &[Option<usize>]) -> u64 {
    let mut pairs = 0;
    for (i, a) in on.iter().enumerate() {
        for (j, b) in on.iter().enumerate().skip(i + 1) {
            let same_run = instance.shards[i].0 == instance.shards[j].0;
            pairs += u64::from(a.is_some() && a == b && same_run);
        }
    }
    pairs
}

fn agent(id: usize, offers: Four) -> AgentRow {
    agent_that_writes(id, offers, 0)
}

fn agent_that_writes(id: usize, [slots, cpu, memory_gib, io]: Four, iops: u64) -> AgentRow {
    let mut facts = HostFacts::default();
    let number = |amount: u64| Value::Number(i64::try_from(amount).unwrap());
    facts.know("cpu.usable_milli", number(cpu * 1000));
    // What is kept for the system comes on top.
    let kept = (memory_gib << 30) / 15;
    facts.know(
        "memory.usable_bytes",
        number((memory_gib << 30) + kept + 16),
    );
    facts.know("disk.random_write_iops", number(iops));
    let (medium, grade) = match io {
        1 => ("hdd", "A"),
        2 => ("ssd", "D"),
        _ => ("ssd", "A"),
    };
    facts.know("disk.medium", Value::Text(medium.to_owned()));
    facts.know("disk.fsync_grade", Value::Text(grade.to_owned()));
    let name: AgentName = format!("h{id}").parse().unwrap();
    AgentRow {
        agent_id: AgentId(id as i64),
        name,
        session: Some(SessionId(1)),
        boot_id: String::new(),
        supervisor: Incarnation(0),
        slots: u32::try_from(slots).unwrap(),
        labels: Arc::from([]),
        facts: Arc::new(facts),
        profile: None,
        barred: None,
        cordon: None,
        health: None,
        silent_reigns: 0,
    }
}

/// What dispatch makes of it, shard by shard.
fn dispatched(instance: &Instance) -> Quality {
    let classes = Classes::built_in();
    let contact = Contact {
        session: SessionId(1),
        fresh_until: BootMs(1),
    };
    let mut fleet = Fleet::default();
    for (id, host) in instance.hosts.iter().enumerate() {
        fleet.note(
            &agent(id, *host),
            Some(contact),
            Amounts::default(),
            &classes,
        );
    }
    let mut on = Vec::new();
    for &(run, [slots, cpu, memory_gib, io]) in &instance.shards {
        let ask = Ask {
            takes: Amounts {
                slots: slots as u32,
                cpu_milli: cpu as u32 * 1000,
                memory_bytes: memory_gib << 30,
                io_slots: io as u32,
            },
            ..Ask::default()
        };
        let of_run = |agent_id: AgentId| {
            let is_there = |&(shard, host): &(usize, &Option<usize>)| {
                instance.shards[shard].0 == run && *host == Some(agent_id.0 as usize)
            };
            on.iter().enumerate().filter(is_there).count() as u32
        };
        let chosen = fleet.choose(&ask, None, of_run);
        if let Some((agent_id, _)) = chosen {
            let set_aside = fleet.place(agent_id).unwrap().set_aside;
            fleet.note_set_aside(agent_id, set_aside.plus(&ask.takes));
        }
        on.push(chosen.map(|(agent_id, _)| agent_id.0 as usize));
    }
    Quality {
        placed: on.iter().flatten().count() as u64,
        together: together(instance, &on),
    }
}

#[test]
fn as_many_get_a_place_as_could_but_for_one_in_twenty() {
    let mut dice = Dice(20_261_130);
    let (mut ours, mut best) = ((0, 0), (0, 0));
    for _ in 0..300 {
        let instance = instance(&mut dice);
        let (found, perfect) = (dispatched(&instance), brute_force(&instance));
        assert!(found.placed <= perfect.placed, "the best is the best");
        ours = (ours.0 + found.placed, ours.1 + found.together);
        best = (best.0 + perfect.placed, best.1 + perfect.together);
    }
    println!(
        "placed {} of {}, together {} of {}",
        ours.0, best.0, ours.1, best.1
    );
    assert!(ours.0 * 100 >= best.0 * 95, "{ours:?} of {best:?}");
    // Who comes last finds other hosts full; the best way has left room there.
    assert!(ours.1 * 3 <= best.1 * 4, "{ours:?} of {best:?}");
}

/// A fleet of three kinds of hosts and a night's jobs: what each asks for, and the kind of host where
/// somebody would put it who knows all hosts and all jobs.
#[test]
fn each_job_of_a_night_goes_where_a_planner_would_put_it() {
    let kinds = [
        ("cpu", 3, [32, 32, 60, 2], 200),
        ("memory", 2, [16, 8, 252, 2], 200),
        ("io", 2, [16, 8, 30, 4], 20_000),
    ];
    let contact = Contact {
        session: SessionId(1),
        fresh_until: BootMs(1),
    };
    let classes = Classes::built_in();
    let mut fleet = Fleet::default();
    let mut kind_of = Vec::new();
    for (kind, hosts, offers, iops) in kinds {
        for _ in 0..hosts {
            let agent = agent_that_writes(kind_of.len(), offers, iops);
            fleet.note(&agent, Some(contact), Amounts::default(), &classes);
            kind_of.push(kind);
        }
    }
    // The class it names, thousandths of a processor, GiB of memory; 0 is left out.
    let jobs = [
        ("ratings", "cpu", 0, 0, "cpu"),
        ("risk", "cpu", 8_000, 0, "cpu"),
        ("pricing", "cpu", 4_000, 8, "cpu"),
        ("cube", "memory", 0, 0, "memory"),
        ("join-all", "memory", 1_000, 64, "memory"),
        ("graph", "memory", 2_000, 32, "memory"),
        ("reindex", "io", 0, 0, "io"),
        ("vacuum", "io", 1_000, 0, "io"),
        ("export", "io", 2_000, 4, "io"),
        ("restore-test", "io", 0, 8, "io"),
        ("simulate", "", 16_000, 4, "cpu"),
        ("encode", "", 12_000, 0, "cpu"),
        ("train", "", 10_000, 16, "cpu"),
        ("load-image", "", 0, 100, "memory"),
        ("sort-large", "", 1_000, 48, "memory"),
        ("dedupe", "", 2_000, 70, "memory"),
        ("aggregate", "", 1_000, 32, "memory"),
        ("compress", "", 4_000, 1, "cpu"),
        ("hash-files", "", 6_000, 2, "cpu"),
        ("render", "", 4_000, 2, "cpu"),
        ("mail", "", 0, 0, "cpu"),
        ("ping", "", 0, 0, "cpu"),
        ("cache-warm", "", 500, 20, "memory"),
        ("matrix", "", 1_000, 40, "memory"),
        ("optimise", "", 8_000, 1, "cpu"),
        ("sign", "", 3_000, 1, "cpu"),
        ("log-rotate", "io", 500, 0, "io"),
        ("copy", "io", 0, 1, "io"),
        ("compile", "cpu", 2_000, 0, "cpu"),
        ("lookup", "memory", 250, 16, "memory"),
    ];
    let mut elsewhere = Vec::new();
    for (job, class, cpu_milli, memory_gib, expected) in jobs {
        let ask = Ask::of(&Needs {
            class: (!class.is_empty()).then(|| class.parse().unwrap()),
            cpu_milli: (cpu_milli > 0).then_some(cpu_milli),
            memory_bytes: (memory_gib > 0).then_some(memory_gib << 30),
            ..Needs::default()
        });
        let chosen = fleet
            .choose(&ask, None, |_| 0)
            .map(|(agent_id, _)| agent_id);
        if let Some(agent_id) = chosen {
            let set_aside = fleet.place(agent_id).unwrap().set_aside;
            fleet.note_set_aside(agent_id, set_aside.plus(&ask.takes));
        }
        let kind = chosen.map(|agent_id| kind_of[agent_id.0 as usize]);
        if kind != Some(expected) {
            elsewhere.push((job, kind));
        }
    }
    assert_eq!(elsewhere, []);
    fleet
        .check(|agent_id| fleet.place(agent_id).unwrap().set_aside)
        .unwrap();
}
