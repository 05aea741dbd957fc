//! The lead changes hands while jobs run: nothing is missing, nothing comes twice, and nothing that
//! runs notices.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::end::settle;
use crate::journal::Journal;
use crate::site::Site;
use crate::writers::Writer;

#[test]
fn whoever_leads_next_goes_on_where_the_last_one_stopped() -> Result<()> {
    let mut site = Site::of_three(2)?;
    site.start(2, 8)?;
    let journal = Journal::begin(&site)?;
    let each = Writer {
        schedule: "@every 2s",
        shards: 2,
        seconds: 0.5,
        ..Writer::of("failover/each")
    };
    each.apply(&site)?;
    // Lives through all of it.
    let long = Writer {
        seconds: 25.0,
        shards: 4,
        takeover: "60s",
        ..Writer::of("failover/long")
    };
    long.run(&mut site)?;

    let mut leaders = vec![site.wait_for_leader()?];
    let last = |leaders: &[String]| leaders.last().cloned().context("somebody leads");

    // Asked to go.
    site.matins(&["cluster", "transfer"])?;
    let next = site.wait_for_leader_but(&last(&leaders)?)?;
    leaders.push(next);

    // Told to end.
    let gone = last(&leaders)?;
    site.terminate(&gone)?;
    let next = site.wait_for_leader_but(&gone)?;
    site.start_control(&gone)?;
    site.wait_until_ready(&gone)?;
    leaders.push(next);

    // Killed.
    let gone = last(&leaders)?;
    site.kill(&gone)?;
    let next = site.wait_for_leader_but(&gone)?;
    site.start_control(&gone)?;
    site.wait_until_ready(&gone)?;
    leaders.push(next);

    // Both are away at once, and the witness alone is no quorum.
    for name in ["c1", "c2"] {
        site.kill(name)?;
    }
    for name in ["c2", "c1"] {
        site.start_control(name)?;
    }
    leaders.push(site.wait_for_leader()?);
    println!("led: {leaders:?}");

    let ended = settle(&mut site, journal, &[&each], Duration::ZERO)?;
    ended.nobody_was_overtaken()?;
    ended.nothing_was_interrupted(&long)?;
    site.close()
}
