//! The coordinator's own misfortunes, beside those of [`crate::coordinator_killed`].

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::site::{COORDINATOR, Site, binary};

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
