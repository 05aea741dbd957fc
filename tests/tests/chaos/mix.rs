//! Everything at once, to a whole machine room: processes are killed, stopped, told to end or robbed
//! of their files, cables are cut, and packets vanish in one direction, between any two machines.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::cables::on_network;
use crate::chance::{chance, seed};
use crate::end::settle;
use crate::journal::Journal;
use crate::misfortune::Misfortune;
use crate::rng::Rng;
use crate::room::Room;
use crate::writers::Writer;

const HOSTS: u32 = 3;

/// A second run of it may do harm: a person is asked first.
const UNSAFE: &str = "mix/unsafe";

/// What is wrong with the network.
enum Fault {
    /// The cable of this machine is cut.
    Cut(String),
    /// The first hears nothing of the second.
    Deaf(String, String),
}

/// Faults of the network, each until its time is over.
struct Network {
    rng: Rng,
    faults: Vec<(Instant, Fault)>,
}

impl Network {
    /// Something happens to the network, if nothing of its kind has happened there already.
    fn strike(&mut self, room: &Room) -> Result<()> {
        let names = room.names();
        let name = names[self.rng.index(names.len())].clone();
        let other = names[self.rng.index(names.len())].clone();
        let length = self.rng.between(300, 9_000);
        let until = Instant::now() + Duration::from_millis(length as u64);
        let same = |fault: &Fault| match fault {
            Fault::Cut(cut) => *cut == name,
            Fault::Deaf(deaf, mute) => *deaf == name && *mute == other,
        };
        if name == other || self.faults.iter().any(|(_, fault)| same(fault)) {
            return Ok(());
        }
        if self.rng.one_in(2) {
            println!("{name} is cut off for {length} ms");
            room.machine(&name)?.cut()?;
            self.faults.push((until, Fault::Cut(name)));
        } else {
            println!("{name} hears nothing of {other} for {length} ms");
            room.machine(&name)?.ignore(room.machine(&other)?)?;
            self.faults.push((until, Fault::Deaf(name, other)));
        }
        Ok(())
    }

    /// Mends what has lasted its time by then.
    fn mend_until(&mut self, room: &Room, now: Instant) -> Result<()> {
        for (_, fault) in self.faults.extract_if(.., |(until, _)| *until <= now) {
            match fault {
                Fault::Cut(name) => room.machine(&name)?.mend()?,
                Fault::Deaf(name, other) => {
                    room.machine(&name)?.heed(room.machine(&other)?)?;
                }
            }
        }
        Ok(())
    }
}

fn jobs() -> [Writer<'static>; 6] {
    let of = |name, schedule, shards, seconds, overlap, ways| Writer {
        schedule,
        shards,
        seconds,
        overlap,
        ways,
        ..Writer::of(name)
    };
    [
        of("mix/queue", "@every 6s", 4, 2.0, "queue", &[]),
        of("mix/forbid", "@every 8s", 2, 3.0, "forbid", &[]),
        of("mix/wide", "@every 15s", 6, 2.0, "queue", &["stubborn"]),
        of("mix/daemon", "@every 9s", 1, 2.0, "queue", &["daemon"]),
        Writer {
            safe: false,
            ..of(UNSAFE, "@every 10s", 2, 2.0, "forbid", &[])
        },
        Writer {
            takeover: "60s",
            ..of("mix/patient", "@every 20s", 2, 12.0, "queue", &[])
        },
    ]
}

fn mix(length: Duration) -> Result<()> {
    let mut rng = chance(seed());
    let mut network = Network {
        rng: Rng::new(rng.next()),
        faults: Vec::new(),
    };
    let mut misfortune = Misfortune::new(rng, HOSTS, Duration::from_secs(8));
    let mut room = Room::start(HOSTS)?;
    let journal = Journal::begin(&room.site)?;
    let jobs = jobs();
    for job in &jobs {
        job.apply(&room.site)?;
    }
    let begun = Instant::now();
    let mut strikes = 0;
    while begun.elapsed() < length {
        let next = misfortune.moment(200, 1_500);
        sleep(next.saturating_duration_since(Instant::now()));
        misfortune.heal(&mut room.site)?;
        network.mend_until(&room, Instant::now())?;
        room.site.check_alive()?;
        strikes += 1;
        if network.rng.one_in(3) {
            network.strike(&room)?;
        } else {
            misfortune.strike(&mut room.site)?;
        }
    }
    misfortune.heal_all(&mut room.site)?;
    let all = Instant::now() + Duration::from_secs(3_600);
    network.mend_until(&room, all)?;
    room.site.wait_for_agents(HOSTS)?;
    let stalls = misfortune.stalls.len();
    println!("{strikes} strikes, {stalls} stalls");
    let ended = settle(&mut room.site, journal, &jobs.each_ref(), length)?;
    let mut overlaps = ended.evidence.overlaps();
    overlaps.retain(|overlap| !misfortune.excuses(overlap, &ended.evidence));
    ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
    ended.evidence.check_unsafe(UNSAFE, &ended.asked)?;
    room.site.close()
}

#[test]
#[ignore = "make test-full: three minutes"]
fn two_minutes_of_everything() -> Result<()> {
    on_network("a machine room", || mix(Duration::from_secs(120)))
}

#[test]
#[ignore = "make test-full: twenty minutes"]
fn a_quarter_of_an_hour_of_everything() -> Result<()> {
    on_network("a machine room", || mix(Duration::from_secs(900)))
}
