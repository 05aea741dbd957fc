//! Cables between control machines, and between them and hosts, that carry nothing any more, or in
//! one direction only.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::kill;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use protocol::Token;

use crate::cables::on_network;
use crate::end::settle;
use crate::evidence;
use crate::journal::Journal;
use crate::room::Room;
use crate::site::{GROUP, PATIENCE, agent_name};
use crate::writers::{Writer, living, tokens_of};

/// Jobs of a room that is cut up: one that fires on, and one that runs through it.
fn jobs(name: &str) -> (String, String) {
    (format!("{name}/each"), format!("{name}/long"))
}

fn each(name: &str) -> Writer<'_> {
    Writer::ticking(name, "@every 3s")
}

/// The other two of the group.
fn others(name: &str) -> [&'static str; 2] {
    let mut others = GROUP.into_iter().filter(|other| *other != name);
    std::array::from_fn(|_| others.next().unwrap_or_default())
}

fn wall_ms() -> Result<i64> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)?;
    Ok(now.tv_sec() * 1_000 + now.tv_nsec() / 1_000_000)
}

/// cut-off-leader: it reaches neither voter and goes on reaching hosts, which reach nobody else. Its
/// acknowledgements must stop, and what runs on its side must be dead before the other side grants
/// any of it again: seen at the processes themselves, looked at every few milliseconds.
#[test]
fn what_a_cut_off_leader_s_hosts_run_is_dead_before_the_other_side_grants_it() -> Result<()> {
    on_network("a cut-off leader", || {
        let mut room = Room::start(3)?;
        let journal = Journal::begin(&room.site)?;
        let job = Writer {
            seconds: 20.0,
            shards: 6,
            ways: &["stubborn"],
            ..Writer::of("cut-off/long")
        };
        job.run(&mut room.site)?;
        let leader = room.site.wait_for_leader()?;
        let [one, two] = others(&leader);
        let other = if one == "w" { two } else { one };
        let sides = [agent_name(1), agent_name(2)];
        let mut tokens = Vec::new();
        for host in &sides {
            tokens.extend(tokens_of(&room.site, host)?);
        }
        ensure!(tokens.len() > 1, "its side has nothing: {tokens:?}");
        let each = each("cut-off/each");
        each.apply(&room.site)?;
        for host in &sides {
            room.part(host, other)?;
        }
        room.part(&leader, one)?;
        room.part(&leader, two)?;

        let mut seen_alive = watch_until_taken_over(&mut room, job.name, &tokens)?;
        ensure!(
            !room.site.leads(&leader),
            "the one that is cut off says that it acts"
        );
        ensure!(room.site.leads(other), "{other} does not lead");

        room.join(&leader, one)?;
        room.join(&leader, two)?;
        for host in &sides {
            room.join(host, other)?;
        }
        room.site.wait_for_agents(3)?;
        let ended = settle(&mut room.site, journal, &[&each], Duration::ZERO)?;
        ended.nobody_was_overtaken()?;
        for token in &tokens {
            let mut attempts = ended.evidence.attempts();
            let (piece, _) = attempts.find(|(_, a)| a.token == *token).context("it is")?;
            let successor = ended
                .evidence
                .attempts()
                .find(|(p, a)| *p == piece && a.token > *token);
            let (_, successor) = successor.context("it was taken over")?;
            let last = seen_alive.remove(token).context("it has lived")?;
            let granted = successor.granted_at.0;
            println!(
                "{token}: last seen alive {} ms before {} was granted",
                granted - last,
                successor.token
            );
            ensure!(last < granted, "{token} lived when it was granted again");
        }
        room.site.close()
    })
}

/// When, by the wall clock, each of these was last seen alive, until others write for all of them.
fn watch_until_taken_over(
    room: &mut Room,
    job: &str,
    tokens: &[Token],
) -> Result<BTreeMap<Token, i64>> {
    let notes = evidence::notes(&room.site)?;
    let mut pids: BTreeMap<Token, i32> = BTreeMap::new();
    for note in &notes {
        pids.insert(Token(note.token), note.pid);
    }
    pids.retain(|token, _| tokens.contains(token));
    ensure!(pids.len() == tokens.len(), "not each has written: {pids:?}");
    let pieces: Vec<_> = notes
        .iter()
        .filter(|note| tokens.contains(&Token(note.token)))
        .map(|note| (note.piece.clone(), note.token))
        .collect();
    let mut seen = BTreeMap::new();
    let begun = Instant::now();
    let mut looked = Instant::now();
    loop {
        for (token, pid) in &pids {
            // A process that waits to be reaped is no more; the supervisor reaps at once.
            if kill(Pid::from_raw(*pid), None).is_ok() {
                seen.insert(*token, wall_ms()?);
            }
        }
        if looked.elapsed() > Duration::from_millis(500) {
            looked = Instant::now();
            let notes = evidence::notes(&room.site)?;
            let taken_over = pieces.iter().all(|(piece, token)| {
                let mut newer = notes.iter().filter(|note| note.piece == *piece);
                newer.any(|note| note.token > *token && note.word == "accepted")
            });
            if taken_over {
                break;
            }
            room.site.check_alive()?;
        }
        ensure!(begun.elapsed() < PATIENCE, "{job} is not taken over");
        sleep(Duration::from_millis(5));
    }
    ensure!(living(&room.site, tokens)?.is_empty(), "it outlived it");
    Ok(seen)
}

/// A room with both jobs; `wound` cuts it up and mends it. What runs must not notice, and who led
/// need not have lost the lead.
fn undisturbed(
    name: &'static str,
    seconds: f64,
    wound: impl FnOnce(&mut Room) -> Result<()> + Send + 'static,
) -> Result<()> {
    on_network("cut cables", move || {
        let mut room = Room::start(2)?;
        let journal = Journal::begin(&room.site)?;
        let (of_each, of_long) = jobs(name);
        let each = each(&of_each);
        each.apply(&room.site)?;
        let long = Writer {
            seconds,
            takeover: "60s",
            ..Writer::of(&of_long)
        };
        long.run(&mut room.site)?;
        wound(&mut room)?;
        room.site.wait_for_agents(2)?;
        let ended = settle(
            &mut room.site,
            journal,
            &[&each],
            Duration::from_secs_f64(seconds),
        )?;
        ended.nobody_was_overtaken()?;
        ended.nothing_was_interrupted(&long)?;
        room.site.close()
    })
}

/// The leader hears neither of the others, who hear it.
#[test]
#[ignore = "make test-full: a minute"]
fn a_leader_that_hears_nobody_is_followed() -> Result<()> {
    undisturbed("deaf", 25.0, |room| {
        let leader = room.site.wait_for_leader()?;
        for other in others(&leader) {
            room.machine(&leader)?.ignore(room.machine(other)?)?;
        }
        room.site.wait_for("another one to lead", |site| {
            Ok(site.leader().is_some_and(|now| now != leader))
        })?;
        sleep(Duration::from_secs(5));
        for other in others(&leader) {
            room.machine(&leader)?.heed(room.machine(other)?)?;
        }
        room.site.wait_until_ready(&leader)
    })
}

/// The others do not hear the leader, which hears them.
#[test]
#[ignore = "make test-full: a minute"]
fn a_leader_that_nobody_hears_is_followed() -> Result<()> {
    undisturbed("mute", 25.0, |room| {
        let leader = room.site.wait_for_leader()?;
        for other in others(&leader) {
            room.machine(other)?.ignore(room.machine(&leader)?)?;
        }
        room.site.wait_for("another one to lead", |site| {
            Ok(site.leader().is_some_and(|now| now != leader))
        })?;
        sleep(Duration::from_secs(5));
        for other in others(&leader) {
            room.machine(other)?.heed(room.machine(&leader)?)?;
        }
        room.site.wait_until_ready(&leader)
    })
}

/// Both coordinators reach the witness and the hosts, and not each other.
#[test]
#[ignore = "make test-full: a minute"]
fn coordinators_that_do_not_reach_each_other_have_one_leader() -> Result<()> {
    undisturbed("apart", 30.0, |room| {
        room.part("c1", "c2")?;
        sleep(Duration::from_secs(10));
        room.site.wait_for_leader()?;
        let leading = ["c1", "c2"].map(|name| room.site.leads(name));
        ensure!(leading != [true, true], "both say that they act");
        room.join("c1", "c2")?;
        room.site.wait_until_ready("c1")?;
        room.site.wait_until_ready("c2")
    })
}

/// Every third packet between control machines is lost.
#[test]
#[ignore = "make test-full: a minute"]
fn a_bad_network_between_control_machines_costs_nothing_but_time() -> Result<()> {
    undisturbed("loss", 25.0, |room| {
        let rules = |room: &Room, what: &str| -> Result<()> {
            for name in GROUP {
                for other in others(name) {
                    let from = &room.machine(other)?.address;
                    room.machine(name)?.rule(&format!(
                        "{what} INPUT -s {from} -m statistic --mode random --probability 0.3 -j DROP"
                    ))?;
                }
            }
            Ok(())
        };
        rules(room, "-A")?;
        let before = room.site.runs()?.len();
        sleep(Duration::from_secs(15));
        room.site.wait_for("fires all the same", |site| {
            Ok(site.runs()?.len() > before + 3)
        })?;
        rules(room, "-D")
    })
}

/// The witness is away, then a coordinator falls out as well: nothing is decided until one is back.
#[test]
#[ignore = "make test-full: a minute"]
fn without_the_witness_the_two_go_on_and_one_alone_does_not() -> Result<()> {
    undisturbed("no-witness", 35.0, |room| {
        room.part("w", "c1")?;
        room.part("w", "c2")?;
        let leader = room.site.wait_for_leader()?;
        let before = room.site.runs()?.len();
        room.site.wait_for("fires without a witness", |site| {
            Ok(site.runs()?.len() > before + 3)
        })?;
        let [one, two] = others(&leader);
        let other = if one == "w" { two } else { one };
        room.part(&leader, other)?;
        room.site
            .wait_for("nobody to act", |site| Ok(site.leader().is_none()))?;
        sleep(Duration::from_secs(3));
        ensure!(room.site.leader().is_none(), "one alone acts");
        room.join(&leader, other)?;
        room.site.wait_for_leader()?;
        room.join("w", "c1")?;
        room.join("w", "c2")
    })
}

/// Hosts are without a network for less than their leases last.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn hosts_without_a_network_for_thirty_seconds_lose_nothing() -> Result<()> {
    undisturbed("hosts-30s", 45.0, |room| {
        room.cut_hosts(Duration::from_secs(30))
    })
}

/// A cable that comes and goes: the leader's, twenty times.
#[test]
#[ignore = "make test-full: two minutes"]
fn a_leader_cut_off_twenty_times() -> Result<()> {
    undisturbed("flapping", 90.0, |room| {
        for round in 0..20 {
            let leader = room.site.wait_for_leader()?;
            for other in others(&leader) {
                room.part(&leader, other)?;
            }
            // Now the lead is lost, now it is not.
            sleep(Duration::from_millis(400 + 150 * (round % 10)));
            for other in others(&leader) {
                room.join(&leader, other)?;
            }
            sleep(Duration::from_millis(700));
        }
        Ok(())
    })
}

/// Hosts are without a network for longer than their leases last: all of it is dead long before,
/// and runs again when they are back.
#[test]
#[ignore = "make test-full: seven minutes"]
fn hosts_without_a_network_for_five_minutes_run_it_again() -> Result<()> {
    on_network("cut cables", || {
        let mut room = Room::start(2)?;
        let journal = Journal::begin(&room.site)?;
        let long = Writer {
            seconds: 20.0,
            takeover: "60s",
            ..Writer::of("hosts-5m/long")
        };
        long.run(&mut room.site)?;
        let mut tokens = tokens_of(&room.site, &agent_name(1))?;
        tokens.extend(tokens_of(&room.site, &agent_name(2))?);
        let each = each("hosts-5m/each");
        each.apply(&room.site)?;
        room.cut_hosts(Duration::from_secs(300))?;
        room.site.wait_for_agents(2)?;
        ensure!(
            living(&room.site, &tokens)?.is_empty(),
            "it outlived its lease"
        );
        let limit = Duration::from_secs(300);
        let ended = settle(&mut room.site, journal, &[&each], limit)?;
        ended.nobody_was_overtaken()?;
        room.site.close()
    })
}
