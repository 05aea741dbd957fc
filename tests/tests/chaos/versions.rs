//! A group that runs two versions of the program side by side, as it does while it is upgraded
//! machine by machine: what the older one does not know is not proposed, and everything else goes on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use protocol::api::Cluster;

use crate::end::settle;
use crate::grounds::{Grounds, finish};
use crate::journal::Journal;
use crate::site::{GROUP, Site, binary};
use crate::writers::{Writer, wait_for_successes};

/// The same program, built as the version after this one; under the same target directory.
fn next_version() -> Result<PathBuf> {
    let built = binary()?;
    let target = built.parent().and_then(Path::parent);
    let target = target.context("the binary lies in target/<profile>")?;
    let target = target.join("next-version");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args([
            "build",
            "--package",
            "matins",
            "--features",
            "ledger/next-version",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    finish(&mut build)?;
    Ok(target.join("debug/matins"))
}

/// What the members say that they know.
fn spoken(site: &Site) -> Result<BTreeSet<u32>> {
    let cluster: Cluster = site.get("cluster")?;
    Ok(cluster.members.iter().map(|member| member.speaks).collect())
}

/// One machine that has ended comes back with the next version.
fn start_upgraded(site: &mut Site, name: &str, next: &Path) -> Result<()> {
    let grounds = Grounds {
        binary: Some(next.to_owned()),
        ..site.grounds(name)
    };
    site.put(name, grounds);
    site.start_control(name)
}

fn upgrade(site: &mut Site, name: &str, next: &Path) -> Result<()> {
    site.terminate(name)?;
    start_upgraded(site, name, next)
}

#[test]
#[ignore = "make test-full: builds the program once more"]
fn what_an_older_member_does_not_know_waits_for_its_upgrade() -> Result<()> {
    let next = next_version()?;
    let mut site = Site::of_three(1)?;
    site.start(1, 8)?;
    let journal = Journal::begin(&site)?;
    let each = Writer {
        schedule: "@every 2s",
        shards: 1,
        seconds: 0.5,
        ..Writer::of("versions/each")
    };
    each.apply(&site)?;
    wait_for_successes(&mut site, &each, 1)?;
    // All know this one.
    site.matins(&["resource", "set", "db", "1"])?;

    let first = site.wait_for_leader()?;
    let mut others = GROUP
        .into_iter()
        .filter(|&name| name != first && name != "w");
    let second = others.next().context("there are two coordinators")?;
    upgrade(&mut site, second, &next)?;
    site.wait_until_ready(second)?;
    site.wait_for("the newer one to be known as such", |site| {
        Ok(spoken(site)?.len() == 2)
    })?;
    // The older one leads, and proposes what it knows.
    site.matins(&["resource", "set", "db", "2"])?;

    // The newer one leads, and knows better than to propose what is new.
    site.terminate(&first)?;
    let leader = site.wait_for_leader_but(&first)?;
    ensure!(leader == second, "{leader} leads");
    let refused = site.matins(&["resource", "set", "db", "3"]);
    let refused = refused.err().context("the witness does not know this")?;
    println!("refused: {refused:#}");
    let why = refused
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    ensure!(why.contains("knows commands up to version"), "{why}");

    start_upgraded(&mut site, &first, &next)?;
    site.wait_until_ready(&first)?;
    let refused = site.matins(&["resource", "set", "db", "3"]);
    ensure!(refused.is_err(), "the witness does not know this yet");
    upgrade(&mut site, "w", &next)?;
    site.wait_for("all to be of the newer version", |site| {
        Ok(spoken(site)?.len() == 1)
    })?;
    site.matins(&["resource", "set", "db", "3"])?;

    let ended = settle(&mut site, journal, &[&each], Duration::ZERO)?;
    ended.nobody_was_overtaken()?;
    site.close()
}
