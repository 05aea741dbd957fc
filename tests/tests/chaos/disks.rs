//! Disks of control machines that are full, damaged, wiped, or gone and restored from a backup.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use protocol::RunId;
use protocol::api::{Alert, JobDetail};

use crate::cables::{Wired, on_network};
use crate::end::settle;
use crate::evidence;
use crate::fires::check_fires;
use crate::journal::Journal;
use crate::ledgers;
use crate::room::Room;
use crate::site::{GROUP, PATIENCE, Site, agent_name};
use crate::writers::{Writer, living, successes_after, tokens_of, wait_for_successes};

fn each(name: &str) -> Writer<'_> {
    Writer::ticking(name, "@every 2s")
}

/// disk-full-leader: it ends rather than promise what it cannot keep, the other one leads, and with
/// room again it follows.
#[test]
#[ignore = "make test-full: a minute"]
fn a_leader_whose_disk_is_full_is_followed_and_comes_back() -> Result<()> {
    on_network("a full disk", || {
        let mut room = Room::prepare(2)?;
        let data = room.site.path("c1");
        fs::create_dir_all(&data)?;
        let small = ["-t", "tmpfs", "-o", "size=128m,mode=0700", "tmpfs", &data];
        room.machine("c1")?.run("mount", &small)?;
        room.site.start(2, 16)?;
        let journal = Journal::begin(&room.site)?;
        let each = each("disk-full/each");
        each.apply(&room.site)?;
        let long = Writer {
            seconds: 30.0,
            takeover: "60s",
            ..Writer::of("disk-full/long")
        };
        long.run(&mut room.site)?;
        ensure!(room.site.wait_for_leader()? == "c1", "the first one leads");
        let fill = format!("cat /dev/zero > {data}/filling 2>/dev/null; true");
        room.machine("c1")?.run("sh", &["-c", &fill])?;
        let status = room.site.wait_for_end("c1")?;
        ensure!(status.code() == Some(74), "it ended with {status}");
        let next = room.site.wait_for_leader()?;
        ensure!(next == "c2", "{next} leads");
        sleep(Duration::from_secs(3));
        let filling = format!("{data}/filling");
        room.machine("c1")?.run("rm", &[&filling])?;
        room.site.start_control("c1")?;
        room.site.wait_until_ready("c1")?;
        let ended = settle(&mut room.site, journal, &[&each], Duration::ZERO)?;
        ended.nobody_was_overtaken()?;
        ended.nothing_was_interrupted(&long)?;
        room.site.close()
    })
}

/// A file system on which every write and every fsync hangs, until this is dropped.
struct Hanging<'a> {
    machine: &'a Wired,
    at: &'a str,
}

impl Hanging<'_> {
    fn begin<'a>(machine: &'a Wired, at: &'a str) -> Result<Hanging<'a>> {
        machine.run("fsfreeze", &["--freeze", at])?;
        Ok(Hanging { machine, at })
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.machine.run("fsfreeze", &["--unfreeze", self.at]) {
            println!("{} stays frozen: {error:#}", self.at);
        }
    }
}

/// stuck-fsync-leader: its disk answers nobody for 20 s, while the process and its network are well.
/// The others do not wait for it, and nothing expires when it is back.
#[test]
#[ignore = "make test-full: a minute"]
fn a_leader_whose_disk_hangs_holds_nothing_up() -> Result<()> {
    on_network("a disk that hangs", || {
        let mut room = Room::prepare(2)?;
        let (data, image) = (room.site.path("c1"), room.site.path("c1.disk"));
        fs::create_dir_all(&data)?;
        fs::File::create(&image)?.set_len(256 << 20)?;
        let machine = room.machine("c1")?;
        machine.run("mkfs.ext4", &["-q", &image])?;
        machine.run("mount", &["-o", "loop", &image, &data])?;
        machine.run("chmod", &["0700", &data])?;
        room.site.start(2, 16)?;
        let journal = Journal::begin(&room.site)?;
        let each = each("disk-hangs/each");
        each.apply(&room.site)?;
        let long = Writer {
            seconds: 40.0,
            takeover: "60s",
            ..Writer::of("disk-hangs/long")
        };
        long.run(&mut room.site)?;
        ensure!(room.site.wait_for_leader()? == "c1", "the first one leads");
        let Room { site, machines } = &mut room;
        let hangs = Hanging::begin(&machines["c1"], &data)?;
        sleep(Duration::from_secs(5));
        let last = site.runs()?.last().context("they have fired")?.run;
        site.wait_within(Duration::from_secs(10), "others to fire and run", |site| {
            Ok(successes_after(site, &each, last)? >= 3)
        })?;
        sleep(Duration::from_secs(5));
        drop(hangs);
        room.site.wait_until_ready("c1")?;
        let ended = settle(&mut room.site, journal, &[&each], Duration::ZERO)?;
        ended.nobody_was_overtaken()?;
        ended.nothing_was_interrupted(&long)?;
        room.site.close()
    })
}

/// poison-row: one job's row cannot be read on the machine that is to lead next. It leads all the
/// same, says so, and everything else fires.
#[test]
#[ignore = "make test-full: a minute"]
fn a_damaged_row_keeps_nobody_from_leading() -> Result<()> {
    let mut site = Site::of_three(1)?;
    site.start(1, 8)?;
    let (damaged, sound) = (each("poison/damaged"), each("poison/sound"));
    damaged.apply(&site)?;
    sound.apply(&site)?;
    ensure!(site.wait_for_leader()? == "c1", "the first one leads");
    for job in [&damaged, &sound] {
        wait_for_successes(&mut site, job, 1)?;
    }
    site.terminate("c2")?;
    let ledger = rusqlite::Connection::open(site.path("c2/ledger.db"))?;
    let changed = ledger.execute(
        "UPDATE versions SET manifest = '{' WHERE job_id IN \
         (SELECT job_id FROM jobs WHERE name = ?1)",
        [damaged.name],
    )?;
    ensure!(changed == 1, "{changed} rows were damaged");
    drop(ledger);
    site.start_control("c2")?;
    site.wait_until_ready("c2")?;
    site.kill("c1")?;
    ensure!(site.wait_for_leader()? == "c2", "the other one leads");
    let last = site.runs()?.last().context("they have fired")?.run;
    site.wait_for("the other to fire on", |site| {
        Ok(successes_after(site, &sound, last)? >= 3)
    })?;
    let shown: JobDetail = site.get(&format!("jobs/{}", damaged.name))?;
    ensure!(shown.job.problem.is_some(), "it does not say so: {shown:?}");
    let alerts: Vec<Alert> = site.get("alerts")?;
    let of_damaged = |alert: &Alert| {
        let job = alert.job.as_ref();
        job.is_some_and(|job| job.to_string() == damaged.name)
    };
    ensure!(alerts.iter().any(of_damaged), "nobody is told: {alerts:?}");
    // Where the row is whole, the job has missed nothing.
    site.start_control("c1")?;
    site.wait_until_ready("c1")?;
    site.kill("c2")?;
    ensure!(site.wait_for_leader()? == "c1", "the first one leads again");
    let made_up = |site: &Site| successes_after(site, &damaged, RunId(0));
    let before = made_up(&site)?;
    site.wait_for("the damaged one to fire on", |site| {
        Ok(made_up(site)? > before + 5)
    })?;
    for job in [&damaged, &sound] {
        check_fires(&site, job.name, 2_000)?;
    }
    site.start_control("c2")?;
    site.wait_until_ready("c2")?;
    let told = ledgers::check_equal(&site).err().context("they are not")?;
    ensure!(told.to_string().contains("versions of"), "{told:#}");
    site.close()
}

/// wiped-disk: a machine that has forgotten for whom it voted is kept out under its old number, also
/// where its vote would be wanted, and comes back under a new one.
#[test]
#[ignore = "make test-full: a minute"]
fn a_wiped_disk_does_not_vote_and_comes_back_under_a_new_number() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = each("wiped/each");
    each.apply(&site)?;
    ensure!(site.wait_for_leader()? == "c1", "the first one leads");
    site.kill("c2")?;
    fs::remove_dir_all(site.path("c2"))?;
    site.start_control("c2")?;
    site.wait_for("somebody to say who is kept out", |site| {
        let status = site.matins(&["cluster", "status"])?;
        Ok(status.contains("Node 2 is not spoken to"))
    })?;
    // Its vote would be the second of three.
    site.kill("w")?;
    site.wait_for("nobody to act", |site| Ok(site.leader().is_none()))?;
    sleep(Duration::from_secs(4));
    ensure!(site.leader().is_none(), "a wiped disk has voted");
    site.start_control("w")?;
    site.wait_for_leader()?;
    site.kill("c2")?;
    replace(&mut site, "c2", 2, 4)?;
    // It is worth a vote again.
    site.kill("c1")?;
    ensure!(site.wait_for_leader()? == "c2", "the new one leads");
    site.start_control("c1")?;
    site.wait_until_ready("c1")?;
    let ended = settle(&mut site, journal, &[&each], PATIENCE)?;
    ended.nobody_was_overtaken()?;
    site.close()
}

/// A machine that is dead for good is taken out under its old number, and comes back, with nothing,
/// under a new one.
fn replace(site: &mut Site, name: &str, old: u32, new: u32) -> Result<()> {
    site.wait_for("the old number to be out", |site| {
        let old = old.to_string();
        site.matins(&["cluster", "remove", &old]).map(|_| true)
    })?;
    site.renumber(name, new)?;
    site.start_control(name)?;
    let peers = site.control(name)?.peers.clone();
    site.wait_for("the new number to be in", |site| {
        site.matins(&["cluster", "add", &peers]).map(|_| true)
    })?;
    if site.control(name)?.is_coordinator() {
        site.wait_until_ready(name)?;
    }
    Ok(())
}

/// Each of the three dies for good and is replaced, one after the other, under load: in the end
/// nobody is left of those who began.
#[test]
#[ignore = "make test-full: a minute"]
fn every_machine_is_replaced_in_turn() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = each("replaced/each");
    each.apply(&site)?;
    let long = Writer {
        seconds: 40.0,
        takeover: "60s",
        ..Writer::of("replaced/long")
    };
    long.run(&mut site)?;
    for (name, old, new) in [("c2", 2, 4), ("w", 3, 5), ("c1", 1, 6)] {
        site.kill(name)?;
        site.wait_for_leader_but(name)?;
        replace(&mut site, name, old, new)?;
    }
    // All three votes count.
    for name in GROUP {
        site.kill(name)?;
        site.wait_for_leader_but(name)?;
        site.start_control(name)?;
        for name in ["c1", "c2"] {
            site.wait_until_ready(name)?;
        }
    }
    let ended = settle(&mut site, journal, &[&each], PATIENCE)?;
    ended.nobody_was_overtaken()?;
    ended.nothing_was_interrupted(&long)?;
    site.close()
}

/// The whole group is lost, and goes on from a backup that is older than what its hosts hold.
#[test]
#[ignore = "make test-full: a minute and a half"]
fn a_group_restored_from_a_backup_gives_out_nothing_twice() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 16)?;
    let each = each("restored/each");
    each.apply(&site)?;
    let backup = site.path("group.backup");
    wait_for_successes(&mut site, &each, 3)?;
    site.matins(&["backup", "--to", &backup])?;
    // What the backup has never heard of.
    let later = Writer {
        seconds: 300.0,
        takeover: "10m",
        ..Writer::of("restored/later")
    };
    later.run(&mut site)?;
    let mut held = tokens_of(&site, &agent_name(1))?;
    held.extend(tokens_of(&site, &agent_name(2))?);
    for name in GROUP {
        site.kill(name)?;
        fs::remove_dir_all(site.path(name))?;
    }
    let before = evidence::notes(&site)?;
    let (data, reason) = (site.path("c1"), "a drill");
    site.matins(&["restore", &backup, "--data", &data, "--reason", reason])?;
    site.start_control("c1")?;
    ensure!(site.wait_for_leader()? == "c1", "who was restored leads");
    for (name, node) in [("c2", 4), ("w", 5)] {
        site.renumber(name, node)?;
        site.start_control(name)?;
        let peers = site.control(name)?.peers.clone();
        site.wait_for("the others to be added", |site| {
            site.matins(&["cluster", "add", &peers]).map(|_| true)
        })?;
    }
    site.wait_for_agents(2)?;
    site.wait_for("what the new ledger does not know to be ended", |site| {
        Ok(living(site, &held)?.is_empty())
    })?;
    // A failover meanwhile does not shorten the hold.
    site.kill("c1")?;
    ensure!(site.wait_for_leader()? == "c2", "the new one leads");
    site.start_control("c1")?;
    site.wait_until_ready("c1")?;
    sleep(Duration::from_secs(5));
    let tokens: BTreeSet<i64> = before.iter().map(|note| note.token).collect();
    let known: BTreeSet<_> = before
        .iter()
        .map(|note| (&note.piece, note.token))
        .collect();
    for note in evidence::notes(&site)? {
        ensure!(
            known.contains(&(&note.piece, note.token)) || !tokens.contains(&note.token),
            "a token was given out twice: {note:?}"
        );
        ensure!(
            known.iter().any(|(piece, _)| **piece == note.piece),
            "it began while nothing may be granted: {note:?}"
        );
    }
    ledgers::check_equal(&site)?;
    site.close()
}
