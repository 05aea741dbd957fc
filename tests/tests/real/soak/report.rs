//! What a soak has seen, for people: every value as CSV, who has grown by how much as a table, and the
//! curves as a drawing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::growth::{Curves, Measure, Point, Slack, Thing};
use super::people::Tallies;

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
            format!(
                "{:.0}",
                stretch.second * (1.0 + slack.share) + slack.absolute
            )
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

/// One small picture of the drawing: a measure of several processes or places.
struct Panel {
    title: &'static str,
    measure: Measure,
    /// Names that begin with one of these.
    of: &'static [&'static str],
    /// How many of what is measured are one of what is drawn.
    unit: f64,
}

const PANELS: &[Panel] = &[
    Panel::of(
        "coordinator: anonymous memory, MiB",
        Measure::AnonymousKib,
        &["coordinator"],
        1_024.0,
    ),
    Panel::of(
        "ledger, MiB: grows with what there is to tell",
        Measure::Kib,
        &["ledger"],
        1_024.0,
    ),
    Panel::of(
        "agents: anonymous memory, MiB",
        Measure::AnonymousKib,
        &["host"],
        1_024.0,
    ),
    Panel::of(
        "supervisors: anonymous memory, KiB",
        Measure::AnonymousKib,
        &["supervisor"],
        1.0,
    ),
    Panel::of(
        "coordinator: descriptors",
        Measure::Descriptors,
        &["coordinator"],
        1.0,
    ),
    Panel::of(
        "agents and supervisors: descriptors",
        Measure::Descriptors,
        &["host", "supervisor"],
        1.0,
    ),
    Panel::of(
        "coordinator and agents: threads",
        Measure::Threads,
        &["coordinator", "host"],
        1.0,
    ),
    Panel::of(
        "supervisors: children",
        Measure::Children,
        &["supervisor"],
        1.0,
    ),
    Panel::of(
        "all processes of the site",
        Measure::Processes,
        &["site"],
        1.0,
    ),
    Panel::of("cgroups", Measure::Cgroups, &["site"], 1.0),
    Panel::of(
        "kept output of each host, MiB",
        Measure::Kib,
        &["output"],
        1_024.0,
    ),
    Panel::of("other files of each host", Measure::Files, &["disk"], 1.0),
];

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 130.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 30.0;
const COLUMNS: usize = 2;
const COLOURS: &[&str] = &[
    "#0b6e99", "#c4551a", "#3d8b40", "#8a4fa3", "#b8860b", "#5b7083", "#d0407a", "#20807a",
];

impl Panel {
    const fn of(
        title: &'static str,
        measure: Measure,
        of: &'static [&'static str],
        unit: f64,
    ) -> Panel {
        Panel {
            title,
            measure,
            of,
            unit,
        }
    }

    fn holds(&self, thing: &Thing) -> bool {
        thing.measure == self.measure
            && self.of.iter().any(|begin| {
                // `coordinator-data` is a place and not the process.
                thing
                    .name
                    .strip_prefix(begin)
                    .is_some_and(|rest| !rest.ends_with("data"))
            })
    }
}

fn drawing(curves: &Curves, length: Duration) -> Result<String> {
    let rows = PANELS.len().div_ceil(COLUMNS);
    let width = (WIDTH + LEFT + 20.0) * COLUMNS as f64;
    let height = (HEIGHT + TOP + 30.0) * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (n, panel) in PANELS.iter().enumerate() {
        let x = LEFT + (n % COLUMNS) as f64 * (WIDTH + LEFT + 20.0);
        let y = TOP + (n / COLUMNS) as f64 * (HEIGHT + TOP + 30.0);
        writeln!(svg, "<g transform=\"translate({x} {y})\">")?;
        draw(&mut svg, panel, curves, length.as_secs_f64())?;
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn draw(svg: &mut String, panel: &Panel, curves: &Curves, length_s: f64) -> Result<()> {
    let drawn: BTreeMap<_, _> = curves.0.iter().filter(|(t, _)| panel.holds(t)).collect();
    let values = drawn.values().flat_map(|points| points.iter());
    let highest = values
        .map(|point| point.value / panel.unit)
        .fold(1.0, f64::max);
    let top = round_up(highest);
    writeln!(
        svg,
        "<text y=\"-10\" font-weight=\"bold\">{}</text>",
        panel.title
    )?;
    for share in [0.0, 0.5, 1.0] {
        let y = HEIGHT * (1.0 - share);
        let label = top * share;
        writeln!(
            svg,
            "<path d=\"M0 {y}H{WIDTH}\" stroke=\"#d8d8d8\"/>\
             <text x=\"-6\" y=\"{}\" text-anchor=\"end\" fill=\"#666666\">{label}</text>",
            y + 4.0
        )?;
    }
    for share in [0.0, 0.5, 1.0] {
        let (x, minutes) = (WIDTH * share, length_s * share / 60.0);
        writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" fill=\"#666666\">{minutes} min</text>",
            HEIGHT + 16.0
        )?;
    }
    for (n, (thing, points)) in drawn.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        // Where one process ends and another begins, so do the lines.
        for life in points.chunk_by(|a, b| a.incarnation == b.incarnation) {
            let mut line = String::new();
            for point in life {
                let x = WIDTH * (point.at_s / length_s).min(1.0);
                let y = HEIGHT * (1.0 - point.value / panel.unit / top);
                write!(line, "{x:.1},{y:.1} ")?;
            }
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"/>",
                line.trim_end()
            )?;
        }
        if drawn.len() > 1 {
            let x = WIDTH - 8.0 - 72.0 * (drawn.len() - 1 - n) as f64;
            writeln!(
                svg,
                "<text x=\"{x}\" y=\"-10\" text-anchor=\"end\" font-size=\"9\" fill=\"{colour}\">{}</text>",
                thing.name
            )?;
        }
    }
    Ok(())
}

/// To 1, 2, 4, 6 or 8 of the highest decimal place: halves of it are round too.
fn round_up(value: f64) -> f64 {
    let power = 10.0_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let step = steps.iter().find(|step| *step * power >= value);
    step.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        let check = |value, expected: &str| assert_eq!(round_up(value).to_string(), expected);
        check(1.0, "1");
        check(1.1, "2");
        check(37.0, "40");
        check(612.0, "800");
        check(999.0, "1000");
    }
}
