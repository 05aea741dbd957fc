//! Nothing on a host is precious: its files vanish, or there is no room for new ones.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use protocol::RunState;
use protocol::attempt::AttemptOutcome;

use crate::chance::{chance, seed};
use crate::grounds::{Grounds, Namespaces, possible};
use crate::site::{COORDINATOR, PATIENCE, Site, agent_name, supervisor_name};
use crate::writers::Writer;

/// Files of both hosts are deleted at random moments while they work; now and then the process
/// whose files they were is killed with them.
fn state_deleted(rounds: u32) -> Result<()> {
    let mut rng = chance(seed());
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    let job = Writer {
        schedule: "@every 3s",
        shards: 3,
        seconds: 1.5,
        ..Writer::of("disk/deleted")
    };
    job.apply(&site)?;
    let paths = [
        "data",
        "data",
        "supervisor",
        "supervisor",
        "data/output",
        "supervisor/work",
        "supervisor/trash",
        "supervisor/socket",
        "supervisor/lock",
    ];
    for round in 0..rounds {
        sleep(Duration::from_millis(rng.between(100, 2_500) as u64));
        let n = rng.between(1, 2) as u32;
        let path = rng.pick(&paths);
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let path = site.path(&format!("{first}-{n}/{rest}"));
        let victim = match first {
            "data" => agent_name(n),
            _ => supervisor_name(n),
        };
        let killed = rng.one_in(3);
        println!("round {round}: {path} deleted, {victim} killed: {killed}");
        if killed {
            site.kill(&victim)?;
        }
        delete(Path::new(path.trim_end_matches('/')))?;
        if killed {
            sleep(Duration::from_millis(rng.between(0, 800) as u64));
            match first {
                "data" => site.start_agent(n)?,
                _ => site.start_supervisor(n)?,
            }
        }
        site.check_alive()?;
    }
    let last = site.runs()?.last().context("the job has fired")?.run;
    site.wait_for("every run up to now to succeed", |site| {
        let runs = site.runs()?;
        let mut until = runs.iter().filter(|run| run.run <= last);
        Ok(until.all(|run| run.state == RunState::Succeeded))
    })?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    site.wait_for_agents(2)?;
    site.close()
}

fn delete(path: &Path) -> Result<()> {
    let deleted = if path.is_dir() {
        // What is being made anew meanwhile may make this fail half-way: that is deleted enough.
        fs::remove_dir_all(path).or(Ok(()))
    } else {
        fs::remove_file(path)
    };
    match deleted {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[test]
fn state_of_agents_deleted_at_random_moments() -> Result<()> {
    state_deleted(12)
}

#[test]
#[ignore = "make test-full: 5 minutes"]
fn state_of_agents_deleted_two_hundred_times() -> Result<()> {
    state_deleted(200)
}

/// A small disk of its own for these directories of a site, which nobody else sees.
fn small_disk(site: &Site, directories: &[String], size: &str) -> Result<Rc<Namespaces>> {
    let namespaces = Namespaces::mount()?;
    let size = format!("size={size},nr_inodes=300,mode=0700");
    for directory in directories {
        let directory = site.path(directory);
        fs::create_dir_all(&directory)?;
        let mount = ["-t", "tmpfs", "-o", &size, "tmpfs", &directory];
        namespaces.run("mount", &mount)?;
    }
    Ok(namespaces)
}

/// Writes until there is no room left, for bytes or for names.
fn fill(namespaces: &Namespaces, directory: &str) -> Result<()> {
    let script = "mkdir filling; cat /dev/zero > filling/bytes; \
                  while touch filling/$((i += 1)); do :; done";
    namespaces.run(
        "sh",
        &[
            "-c",
            &format!("cd {directory} && {{ {script}; }} 2>&1 | tail -1"),
        ],
    )
}

fn make_room(namespaces: &Namespaces, directory: &str) -> Result<()> {
    namespaces.run("rm", &["-r", &format!("{directory}/filling")])
}

/// disk-full-agent
#[test]
fn a_host_with_a_full_disk_takes_nothing_and_loses_nothing() -> Result<()> {
    if !possible("a full disk", &["unshare", "nsenter", "mount"])? {
        return Ok(());
    }
    let mut site = Site::new(2)?;
    let directories = ["data-1".to_owned(), supervisor_name(1)];
    let disk = small_disk(&site, &directories, "1m")?;
    let grounds = Grounds {
        namespaces: Some(Rc::clone(&disk)),
        ..Grounds::default()
    };
    site.put(&agent_name(1), grounds.clone());
    site.put(&supervisor_name(1), grounds);
    site.start(2, 8)?;
    // It runs through all of this.
    let before = Writer {
        seconds: 8.0,
        ..Writer::of("disk/before")
    };
    before.run(&mut site)?;
    let directories = directories.map(|directory| site.path(&directory));
    for directory in &directories {
        fill(&disk, directory)?;
    }
    let during = Writer {
        seconds: 1.0,
        ..Writer::of("disk/during")
    };
    during.run(&mut site)?;
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    let on_first = |a: &protocol::api::Attempt| a.agent.to_string() == agent_name(1);
    let undisturbed = evidence.attempts().filter(|(p, _)| p.job == before.name);
    ensure!(undisturbed.count() == 4, "what ran before was disturbed");
    for (piece, attempt) in evidence.attempts().filter(|(p, _)| p.job == during.name) {
        let refused = attempt.outcome == Some(AttemptOutcome::Refused);
        ensure!(on_first(attempt) == refused, "{piece:?}: {attempt:?}");
    }
    ensure!(
        evidence.count(AttemptOutcome::Refused) > 0,
        "it was not asked"
    );
    for directory in &directories {
        make_room(&disk, directory)?;
    }
    // It looks at its disk now and then, and is given work again.
    let after = Writer {
        schedule: "@every 3s",
        seconds: 0.5,
        ..Writer::of("disk/after")
    };
    after.apply(&site)?;
    site.wait_for("the host with room again to do a shard", |site| {
        let evidence = site.evidence()?;
        let mut done = evidence.attempts().filter(|(p, _)| p.job == after.name);
        let succeeded = Some(AttemptOutcome::Succeeded);
        Ok(done.any(|(_, a)| on_first(a) && a.outcome == succeeded))
    })?;
    site.evidence()?.check_without_overlap()?;
    site.close()
}

/// disk-full-leader, as far as one coordinator goes: it ends rather than promise what it cannot
/// keep, and has kept what it promised.
#[test]
fn a_coordinator_with_a_full_disk_ends_and_has_lost_nothing() -> Result<()> {
    if !possible("a full disk", &["unshare", "nsenter", "mount"])? {
        return Ok(());
    }
    let mut site = Site::new(1)?;
    let disk = small_disk(&site, &["coordinator".to_owned()], "8m")?;
    let grounds = Grounds {
        namespaces: Some(Rc::clone(&disk)),
        ..Grounds::default()
    };
    site.put(COORDINATOR, grounds);
    site.start(1, 8)?;
    let job = Writer {
        shards: 2,
        seconds: 30.0,
        takeover: "60s",
        ..Writer::of("disk/leader")
    };
    job.run(&mut site)?;
    let data = site.path("coordinator");
    fill(&disk, &data)?;
    // Asks for runs until the ledger takes no more; those that were answered are promised.
    let mut promised = 1;
    while site.matins(&["run", job.name, "--reason", "test"]).is_ok() {
        promised += 1;
        ensure!(promised < 10_000, "a full disk takes everything");
    }
    let status = site.wait_for_end(COORDINATOR)?;
    ensure!(status.code() == Some(74), "it ended with {status}");
    // As long as there is no room, it says so and ends.
    site.start_coordinator()?;
    let status = site.wait_for_end(COORDINATOR)?;
    ensure!(!status.success());
    make_room(&disk, &data)?;
    site.start_coordinator()?;
    site.wait_for_agents(1)?;
    let kept = site.runs()?.len();
    ensure!(
        kept >= promised,
        "{kept} runs of {promised} that were promised"
    );
    let evidence = site.evidence()?;
    println!("{promised} promised, {}", evidence.summary());
    evidence.check_without_overlap()?;
    let open = evidence.attempts().filter(|(_, a)| a.ended_at.is_none());
    ensure!(open.count() == 2, "what ran was disturbed");
    site.close()
}
