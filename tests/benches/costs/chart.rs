//! Two small charts, drawn as text.

use std::fmt::Write as _;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;

/// How many there are, microseconds in the core, microseconds in the ledger.
pub(crate) type Row = (u32, f64, f64);

pub(crate) fn draw(fires: &[Row], leases: &[Row]) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 280\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"820\" height=\"280\" fill=\"#ffffff\"/>\n",
    );
    panel(
        &mut svg,
        0.0,
        ("microseconds a fire, by jobs", "durable"),
        fires,
    );
    panel(
        &mut svg,
        410.0,
        ("microseconds a lease, by hosts", "in memory"),
        leases,
    );
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, at: f64, (title, ledger): (&str, &str), rows: &[Row]) {
    let figures = rows.iter().flat_map(|&(_, core, ledger)| [core, ledger]);
    let top = round_up(figures.fold(1.0, f64::max));
    let x = |index: usize| at + LEFT + WIDTH * index as f64 / (rows.len() - 1) as f64;
    let y = |figure: f64| TOP + HEIGHT * (1.0 - figure / top);
    let mut text = |x: f64, y: f64, anchor: &str, colour: &str, what: &str| {
        writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{what}</text>"
        )
        .expect("text grows");
    };
    text(at + LEFT, TOP - 18.0, "start", "#222222", title);
    for part in 0..=4 {
        let figure = top * f64::from(part) / 4.0;
        text(
            at + LEFT - 8.0,
            y(figure) + 4.0,
            "end",
            "#666666",
            &format!("{figure:.0}"),
        );
    }
    for (index, (count, ..)) in rows.iter().enumerate() {
        text(
            x(index),
            TOP + HEIGHT + 20.0,
            "middle",
            "#666666",
            &count.to_string(),
        );
    }
    let legend = TOP + HEIGHT + 42.0;
    text(at + LEFT, legend, "start", CORE, "core");
    text(
        at + LEFT + 60.0,
        legend,
        "start",
        LEDGER,
        &format!("ledger, {ledger}"),
    );
    for part in 0..=4 {
        let y = y(top * f64::from(part) / 4.0);
        let (from, to) = (at + LEFT, at + LEFT + WIDTH);
        writeln!(
            svg,
            "<path d=\"M{from:.0} {y:.1}H{to:.0}\" stroke=\"#dddddd\" fill=\"none\"/>"
        )
        .expect("text grows");
    }
    let of_core = |row: &Row| row.1;
    let of_ledger = |row: &Row| row.2;
    for (colour, figure) in [(CORE, of_core as fn(&Row) -> f64), (LEDGER, of_ledger)] {
        let points = rows.iter().enumerate();
        let points = points.map(|(index, row)| format!("{:.1},{:.1}", x(index), y(figure(row))));
        let points: Vec<String> = points.collect();
        writeln!(
            svg,
            "<polyline points=\"{}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>",
            points.join(" ")
        )
        .expect("text grows");
    }
}

const CORE: &str = "#1f5fa8";
const LEDGER: &str = "#b3541e";

/// To one, two or five of a power of ten.
fn round_up(figure: f64) -> f64 {
    let power = 10_f64.powf(figure.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|&step| step >= figure);
    step.unwrap_or(10.0 * power)
}
