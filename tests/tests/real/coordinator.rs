//! The coordinator's own misfortunes, beside those of [`crate::coordinator_killed`].

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use protocol::api::{Alert, JobDetail};

use crate::site::{COORDINATOR, Site, binary};
use crate::writers::{Writer, wait_for_successes};

/// What a coordinator says that does not come up: standard error, as it is.
fn refusal(arguments: &[String]) -> Result<String> {
    let output = Command::new(binary()?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    ensure!(!output.status.success(), "it came up, and ended well");
    Ok(String::from_utf8(output.stderr)?)
}

fn demand(said: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.contains(word), "`{word}` is not in: {said}");
    }
    Ok(())
}

#[test]
fn a_second_one_on_the_same_directory_refuses_and_harms_nothing() -> Result<()> {
    let mut site = Site::new(1)?;
    site.start(1, 1)?;
    let pid = site.pid(COORDINATOR)?.to_string();
    let said = refusal(&site.coordinator_arguments())?;
    demand(&said, &["another coordinator", &pid, "stop it first"])?;
    site.check_alive()?;
    site.runs().context("the first one goes on answering")?;
    site.close()
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() -> Result<()> {
    let site = Site::new(0)?;
    let agents = UdpSocket::bind("127.0.0.1:0")?;
    let api = TcpListener::bind("127.0.0.1:0")?;
    let with = |option: &str, value: String| {
        let mut arguments = site.coordinator_arguments();
        let at = arguments.iter().position(|argument| argument == option);
        let at = at.context("the option is given")?;
        arguments[at + 1] = value;
        anyhow::Ok(arguments)
    };
    for (option, address) in [
        ("--agents-listen", agents.local_addr()?),
        ("--api-listen", api.local_addr()?),
    ] {
        let said = refusal(&with(option, address.to_string())?)?;
        demand(&said, &[&address.to_string(), "in use"])?;
    }
    site.close()
}

/// poison-row: one job's row cannot be read; it says so, and everything else fires.
#[test]
fn a_job_whose_row_is_damaged_stands_still_alone() -> Result<()> {
    let mut site = Site::new(1)?;
    site.start(1, 8)?;
    let of = |name| Writer {
        schedule: "@every 2s",
        shards: 1,
        seconds: 0.3,
        ..Writer::of(name)
    };
    let (damaged, sound) = (of("poison/damaged"), of("poison/sound"));
    damaged.apply(&site)?;
    sound.apply(&site)?;
    site.terminate(COORDINATOR)?;
    let ledger = rusqlite::Connection::open(site.path("coordinator/ledger.db"))?;
    let changed = ledger.execute(
        "UPDATE versions SET manifest = '{' WHERE job_id IN \
         (SELECT job_id FROM jobs WHERE name = ?1)",
        [damaged.name],
    )?;
    ensure!(changed == 1, "{changed} rows were damaged");
    drop(ledger);
    site.start_coordinator()?;
    wait_for_successes(&mut site, &sound, 3)?;
    let alerts: Vec<Alert> = site.get("alerts")?;
    let of_damaged = |alert: &Alert| {
        alert
            .job
            .as_ref()
            .is_some_and(|j| j.to_string() == damaged.name)
    };
    ensure!(alerts.iter().any(of_damaged), "nobody is told: {alerts:?}");
    let shown: JobDetail = site.get(&format!("jobs/{}", damaged.name))?;
    ensure!(shown.job.problem.is_some(), "it does not say so: {shown:?}");
    site.close()
}
