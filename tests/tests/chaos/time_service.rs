//! What chronyd says of a control machine's clock: a real one, which follows a time server that lies.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use protocol::api::{Alert, Clocks, Status};

use crate::cables::on_network;
use crate::grounds::possible;
use crate::site::Site;
use crate::timekeeping::{Chronyd, Server};

/// What the time service says is to be known and acted upon within so long; it is asked every second
/// here, and asks its server as often.
const WITHIN: Duration = Duration::from_secs(15);

/// The same where somebody must first be believed again.
const BELIEVED_AGAIN: Duration = Duration::from_secs(60);

struct Trial {
    site: Site,
    server: Server,
}

/// Runs a trial on a network with a time server of its own, where that can be had.
fn with_chronyd(
    trial: &'static str,
    site: fn() -> Result<Site>,
    run: fn(&mut Trial, Chronyd) -> Result<()>,
) -> Result<()> {
    if !possible(trial, &["chronyd"])? {
        return Ok(());
    }
    on_network(trial, move || {
        let server = Server::start()?;
        let mut site = site()?;
        let chronyd = Chronyd::start(site.directory())?;
        site.start(1, 2)?;
        let mut trial = Trial { site, server };
        run(&mut trial, chronyd)?;
        trial.site.close()
    })
}

impl Trial {
    fn clocks(site: &Site) -> Result<Clocks> {
        site.get("clock")
    }

    fn until(
        &mut self,
        limit: Duration,
        what: &str,
        holds: impl Fn(&Status, &[Alert]) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        let looked = self.site.wait_within(limit, what, |site| {
            let (status, alerts) = (site.get("status")?, site.get::<Vec<Alert>>("alerts")?);
            Ok(holds(&status, &alerts))
        });
        if let Err(error) = looked {
            let clocks = self.site.matins(&["clock", "--output", "wide"]);
            bail!(
                "{error:#}\n{}",
                clocks.unwrap_or_else(|error| error.to_string())
            );
        }
        println!("{what}: after {:.1} s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// The gate is so, and these are the open alerts about clocks.
    fn stands(&mut self, limit: Duration, clock: &str, kinds: &[&str]) -> Result<()> {
        let what = format!("a clock that is {clock}, with {kinds:?}");
        self.until(limit, &what, |status, alerts| {
            let mut open: Vec<&str> = alerts.iter().map(|alert| alert.kind.as_str()).collect();
            open.retain(|kind| kind.starts_with("clock_"));
            open.sort_unstable();
            status.clock == clock && open == kinds
        })
    }
}

#[test]
fn a_lone_coordinator_is_held_by_what_its_chronyd_says() -> Result<()> {
    with_chronyd(
        "a time server that lies",
        || Site::new(1),
        |trial, chronyd| {
            trial.stands(BELIEVED_AGAIN, "trusted", &[])?;
            trial.server.set(500);
            trial.stands(WITHIN, "warned", &["clock_differs"])?;
            trial.server.set(5_000);
            trial.stands(WITHIN, "held", &["clock_held"])?;
            // At first it says no more than that the clock may be wrong.
            trial.until(WITHIN, "who differs", |status, _| {
                let says = status.clock_says.as_deref().unwrap_or_default();
                says.contains("behind the time that its own time service takes for right")
            })?;
            println!("{}", trial.site.matins(&["clock"])?);
            trial.server.set(0);
            trial.stands(BELIEVED_AGAIN, "trusted", &[])?;
            trial.server.fall_silent();
            dead(trial)?;
            println!("{}", trial.site.matins(&["clock"])?);
            chronyd.end()?;
            absent(trial)?;
            println!("{}", trial.site.matins(&["clock"])?);
            trial.server.set(0);
            let _chronyd = Chronyd::start(trial.site.directory())?;
            trial.stands(BELIEVED_AGAIN, "trusted", &[])
        },
    )
}

/// The server is dead: nobody keeps the clock, which is told, and jobs fire all the same.
fn dead(trial: &mut Trial) -> Result<()> {
    trial.until(WITHIN, "a dead server to be told of", |status, alerts| {
        let told = alerts
            .iter()
            .find(|alert| alert.kind == "clock_unsynchronised");
        let told = told.is_some_and(|alert| alert.text.contains("runs freely"));
        status.clock == "no_reference" && told
    })?;
    let kept = Trial::clocks(&trial.site)?.clocks;
    let kept = kept.into_iter().find(|clock| clock.own);
    let kept = kept.and_then(|own| own.kept);
    let free = kept.is_some_and(|kept| kept.verdict == "free-running" && kept.source == "chronyd");
    ensure!(free, "it is said otherwise");
    Ok(())
}

/// chronyd is gone: the kernel is asked, and why is said.
fn absent(trial: &mut Trial) -> Result<()> {
    trial
        .site
        .wait_within(WITHIN, "chronyd to be missed", |site| {
            let own = Trial::clocks(site)?.clocks.into_iter().find(|it| it.own);
            let kept = own.and_then(|own| own.kept);
            Ok(kept.is_some_and(|kept| {
                let why = "chronyd is not there: nothing listens on 127.0.0.1:323";
                kept.source == "kernel" && kept.reason.contains(why)
            }))
        })
}

#[test]
fn a_server_whose_time_flaps_opens_and_shuts_no_gate_with_it() -> Result<()> {
    with_chronyd(
        "a time server that flaps",
        || Site::new(1),
        |trial, _chronyd| {
            trial.stands(BELIEVED_AGAIN, "trusted", &[])?;
            let begun = Instant::now();
            let (mut verdicts, mut held_at) = (Vec::new(), None);
            // Five seconds ahead and right again, every four seconds.
            while begun.elapsed() < Duration::from_secs(40) {
                let ahead = (begun.elapsed().as_secs() / 4).is_multiple_of(2);
                trial.server.set(if ahead { 5_000 } else { 0 });
                let clock = trial.site.get::<Status>("status")?.clock;
                if clock == "held" && held_at.is_none() {
                    held_at = Some(begun.elapsed());
                }
                if verdicts.last() != Some(&clock) {
                    verdicts.push(clock);
                }
                sleep(Duration::from_millis(200));
            }
            println!("held after {held_at:?}; in turn {verdicts:?}");
            ensure!(
                held_at.is_some_and(|after| after <= WITHIN),
                "a clock that may be five seconds wrong fires: {verdicts:?}"
            );
            let opened = verdicts.iter().skip_while(|clock| *clock != "held").count() > 1;
            ensure!(!opened, "it flaps with the server: {verdicts:?}");
            trial.server.set(0);
            trial.stands(BELIEVED_AGAIN, "trusted", &[])
        },
    )
}

#[test]
fn one_wrong_server_stops_no_group_whose_clocks_agree() -> Result<()> {
    with_chronyd(
        "a group that follows one wrong server",
        || Site::of_three(1),
        |trial, _chronyd| {
            trial.stands(BELIEVED_AGAIN, "trusted", &[])?;
            trial.server.set(5_000);
            trial.stands(WITHIN, "warned", &["clock_differs"])?;
            trial.server.set(0);
            trial.stands(BELIEVED_AGAIN, "trusted", &[])
        },
    )
}
