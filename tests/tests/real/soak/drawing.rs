//! The curves of a soak as a drawing: a small picture for each measure, a colour for each host.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;

use super::growth::{Curves, Measure, Thing};

/// One small picture of the drawing: a measure of several processes or places.
struct Panel {
    title: &'static str,
    measure: Measure,
    /// Names that begin with one of these.
    of: &'static [&'static str],
    /// How many of what is measured are one of what is drawn.
    unit: f64,
}

const KIB: f64 = 1.0;
const MIB: f64 = 1_024.0;
const ONE: f64 = 1.0;

#[rustfmt::skip]
const PANELS: &[Panel] = &[
    Panel::of("coordinator: anonymous memory, MiB", Measure::AnonymousKib, &["coordinator"], MIB),
    Panel::of("ledger, MiB: grows with what there is to tell", Measure::Kib, &["ledger"], MIB),
    Panel::of("agents: anonymous memory, MiB", Measure::AnonymousKib, &["host"], MIB),
    Panel::of("supervisors: anonymous memory, KiB", Measure::AnonymousKib, &["supervisor"], KIB),
    Panel::of("coordinator: descriptors", Measure::Descriptors, &["coordinator"], ONE),
    Panel::of("coordinator and agents: threads", Measure::Threads, &["coordinator", "host"], ONE),
    Panel::of("agents: descriptors", Measure::Descriptors, &["host"], ONE),
    Panel::of("supervisors: descriptors", Measure::Descriptors, &["supervisor"], ONE),
    Panel::of("supervisors: children", Measure::Children, &["supervisor"], ONE),
    Panel::of("all processes", Measure::Processes, &["site"], ONE),
    Panel::of("kept output, MiB", Measure::Kib, &["output"], MIB),
    Panel::of("kept output, files", Measure::Files, &["output"], ONE),
    Panel::of("other files of hosts", Measure::Files, &["disk"], ONE),
    Panel::of("cgroups", Measure::Cgroups, &["site"], ONE),
];

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 130.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 60.0;
const BETWEEN: (f64, f64) = (64.0, 60.0);
const COLUMNS: usize = 2;

/// The coordinator's, or that of all together; then each host's.
const COLOURS: [&str; 5] = ["#333333", "#0b6e99", "#c4551a", "#3d8b40", "#8a4fa3"];

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

pub(super) fn drawing(curves: &Curves, length: Duration) -> Result<String> {
    let rows = PANELS.len().div_ceil(COLUMNS);
    let width = (WIDTH + BETWEEN.0) * COLUMNS as f64;
    let height = TOP + (HEIGHT + BETWEEN.1) * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (n, colour) in COLOURS.iter().enumerate() {
        let x = LEFT + 160.0 * n as f64;
        let who = match n {
            0 => "coordinator, or all".to_owned(),
            n => format!("host {n}"),
        };
        writeln!(
            svg,
            "<text x=\"{x}\" y=\"20\" fill=\"{colour}\">{who}</text>"
        )?;
    }
    for (n, panel) in PANELS.iter().enumerate() {
        let x = LEFT + (n % COLUMNS) as f64 * (WIDTH + BETWEEN.0);
        let y = TOP + (n / COLUMNS) as f64 * (HEIGHT + BETWEEN.1);
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
    for (thing, points) in &drawn {
        let host = thing.name.rsplit('-').next().and_then(|n| n.parse().ok());
        let colour = COLOURS[host.unwrap_or(0) % COLOURS.len()];
        // Where one process ends and another begins, so do the lines.
        for life in points.chunk_by(|a, b| a.incarnation == b.incarnation) {
            let mut line = String::new();
            for point in life {
                let x = WIDTH * (point.at_s / length_s).min(1.0);
                let y = HEIGHT * (1.0 - point.value / panel.unit / top);
                write!(line, "{x:.0},{y:.1} ")?;
            }
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
                line.trim_end()
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
