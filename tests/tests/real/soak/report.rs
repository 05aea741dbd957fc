//! What a soak has seen, for people: every value as CSV, who has grown by how much as a table, and the
//! curves as a drawing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::drawing::drawing;
use super::growth::{Curves, Point, Slack, Thing};
use crate::usage::people::Tallies;

/// Writes all three, and says where; the table is in the answer.
pub(super) fn write(
    curves: &Curves,
    length: Duration,
    slack: impl Fn(&Thing) -> Option<Slack>,
) -> Result<String> {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", length.as_secs()));
    fs::create_dir_all(&directory)?;
    let table = table(curves, slack)?;
    fs::write(directory.join("values.csv"), csv(curves)?)?;
    fs::write(directory.join("growth.md"), &table)?;
    fs::write(directory.join("curves.svg"), drawing(curves, length)?)?;
    Ok(format!("{table}\nall of it is in {}", directory.display()))
}

fn csv(curves: &Curves) -> Result<String> {
    let mut text = String::from("who,what,at_s,pid,value\n");
    for (thing, points) in &curves.0 {
        let what = thing.measure.as_str();
        for point in points {
            let Point {
                at_s,
                incarnation,
                value,
            } = point;
            writeln!(
                text,
                "{},{what},{at_s:.1},{incarnation},{value}",
                thing.name
            )?;
        }
    }
    Ok(text)
}

fn table(curves: &Curves, slack: impl Fn(&Thing) -> Option<Slack>) -> Result<String> {
    let mut text = String::from(
        "| what | lived, s | second fifth | last fifth | allowed |\n|---|---|---|---|---|\n",
    );
    for (thing, stretch) in curves.stretches() {
        let allowed = slack(thing).map_or("-".to_owned(), |slack| {
            format!("{:.0}", slack.most(stretch.second))
        });
        writeln!(
            text,
            "| {thing} | {:.0} | {:.0} | {:.0} | {allowed} |",
            stretch.through_s - stretch.from_s,
            stretch.second,
            stretch.last,
        )?;
    }
    Ok(text)
}

/// One line of each deed: granted, refused, not heard.
pub(super) fn tallies(all: &[&Tallies]) -> String {
    let deeds = all.iter().flat_map(|tallies| tallies.iter());
    let words: Vec<String> = deeds
        .map(|(what, [granted, refused, unheard])| format!("{what} {granted}/{refused}/{unheard}"))
        .collect();
    format!("granted/refused/unheard: {}", words.join(", "))
}
