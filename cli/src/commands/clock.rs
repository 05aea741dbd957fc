//! `matins clock`: all clocks, the one furthest off on top.

use protocol::api::{ClockKept, ClockSeen, Clocks};
use protocol::{DurationMs, WallMs};

use crate::amounts::{rough, rough_us};
use crate::args::Clock;
use crate::failure::Failure;
use crate::output::Room;
use crate::text::{Table, count, printable, wrap_prose};

const PATH: &str = "/api/v1/clock";

/// Of so many clocks that are not well is told why.
const WHYS_MAX: usize = 5;

pub(crate) fn clock(options: &Clock) -> Result<(), Failure> {
    let limit = options.limit.map(|limit| ("limit", limit.to_string()));
    let query: Vec<(&str, String)> = limit.into_iter().collect();
    let asking = &options.asking;
    let seen: Clocks = asking.target.find()?.get(PATH, &query)?;
    asking.output.print(&seen, |room| for_people(&seen, room))
}

fn for_people(seen: &Clocks, room: Room) -> String {
    let mut text = String::new();
    let mut say = |prose: &str| {
        for line in wrap_prose(prose, 80) {
            text.push_str(&line);
            text.push('\n');
        }
    };
    say(&judged(seen));
    let wide = room == Room::Endless;
    let mut titles = vec!["~NAME", "ROLE", "OFFSET", "=KEPT", "BOUND", "SET"];
    if wide {
        titles.extend(["CORRECTION", "STEERED", "BY", "WHY"]);
    }
    let mut table = Table::new(&titles);
    for clock in &seen.clocks {
        table.row(row(clock, seen.now, wide));
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.render_in(room));
    }
    let mut say = |prose: &str| {
        text.push('\n');
        for line in wrap_prose(prose, 80) {
            text.push_str(&line);
            text.push('\n');
        }
    };
    if seen.left_out > 0 {
        let left_out = count(seen.left_out, "clock");
        say(&format!(
            "{left_out} less far off not shown; see `--limit`."
        ));
    }
    let unwell = seen.clocks.iter().filter_map(|clock| {
        let kept = clock.kept.as_ref()?;
        (kept.verdict != "synchronised").then(|| why(clock, kept))
    });
    for why in unwell.take(if wide { 0 } else { WHYS_MAX }) {
        say(&why);
    }
    text
}

/// Whether jobs fire by the clock against which the others are held.
fn judged(seen: &Clocks) -> String {
    let node = &seen.node;
    let fires = if seen.clock == "held" {
        "nothing fires"
    } else {
        "jobs fire by it"
    };
    let is = match (&seen.clock_says, seen.clock.as_str()) {
        (Some(says), word) => format!("is {word}: {}", printable(says)),
        (None, "no_reference") => "has nobody to be compared with".to_owned(),
        (None, word) => format!("is {word}"),
    };
    format!("The clock of {node}, which leads, {is}; {fires}. OFFSET is what each is ahead of it.")
}

fn row(clock: &ClockSeen, now: WallMs, wide: bool) -> Vec<String> {
    let kept = clock.kept.as_ref();
    let mut row = vec![
        clock.name.clone(),
        clock.role.clone(),
        offset(clock),
        kept.map_or("?", |kept| &kept.verdict).to_owned(),
        kept.and_then(|kept| kept.bound_us)
            .map_or_else(|| "?".to_owned(), rough_us),
        set(clock, now),
    ];
    if wide {
        let correction = kept.and_then(|kept| kept.correction_us);
        row.extend([
            correction.map_or_else(|| "?".to_owned(), signed),
            kept.and_then(|kept| kept.steered_ppm)
                .map_or_else(|| "?".to_owned(), |ppm| format!("{ppm:+} ppm")),
            kept.map_or("?", |kept| &kept.source).to_owned(),
            kept.map_or_else(String::new, |kept| printable(&kept.reason)),
        ]);
    }
    row
}

fn offset(clock: &ClockSeen) -> String {
    match (clock.ahead_ms, clock.unsure_ms) {
        _ if clock.own => "leads".to_owned(),
        (Some(ahead), Some(unsure)) => {
            let ahead = match ahead {
                -9_999..=9_999 => format!("{ahead:+} ms"),
                _ => signed(ahead.saturating_mul(1_000)),
            };
            format!("{ahead} ±{unsure}")
        }
        _ => "?".to_owned(),
    }
}

fn set(clock: &ClockSeen, now: WallMs) -> String {
    let kept = clock.kept.as_ref();
    let set = kept.and_then(|kept| kept.set_at.zip(kept.set_by_us));
    match (set, clock.steady) {
        (Some((at, by)), _) => {
            let ago = DurationMs((now - at).0.max(0));
            format!("{}, {} ago", signed(by), rough(ago))
        }
        (None, Some(false)) => "just now".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

fn why(clock: &ClockSeen, kept: &ClockKept) -> String {
    let (name, verdict, by) = (&clock.name, &kept.verdict, &kept.source);
    let reason = printable(&kept.reason);
    format!("{name} is {verdict}, says {by}: {reason}.")
}

fn signed(us: i64) -> String {
    let sign = if us < 0 { '-' } else { '+' };
    format!("{sign}{}", rough_us(us.saturating_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Clocks {
        let clock = |role: &str, name: &str, ahead_ms, kept| ClockSeen {
            role: role.to_owned(),
            name: name.to_owned(),
            own: false,
            ahead_ms,
            unsure_ms: ahead_ms.map(|_| 6),
            steady: Some(true),
            kept,
        };
        let kept = |verdict: &str, bound_us, reason: &str| ClockKept {
            verdict: verdict.to_owned(),
            correction_us: Some(-20),
            bound_us,
            steered_ppm: Some(-12),
            source: "chronyd".to_owned(),
            reason: reason.to_owned(),
            set_at: None,
            set_by_us: None,
        };
        let set = ClockKept {
            set_at: Some(WallMs(1_800_000_000_000)),
            set_by_us: Some(-5_000_000),
            ..kept("synchronised", Some(1_200), "it follows 10.0.0.1")
        };
        let alone = "its only source, 10.0.0.1, has not answered its last eight questions";
        Clocks {
            node: "c1".to_owned(),
            now: WallMs(1_800_000_240_000),
            clock: "trusted".to_owned(),
            clock_says: None,
            warn_ms: 100,
            stop_ms: 1_000,
            clocks: vec![
                clock(
                    "agent",
                    "batch-host-07.fra1.example",
                    Some(-5_012),
                    Some(set),
                ),
                clock(
                    "agent",
                    "b",
                    Some(3),
                    Some(kept("free-running", Some(20_000_000), alone)),
                ),
                ClockSeen {
                    own: true,
                    ..clock("coordinator", "c1", None, None)
                },
                clock("coordinator", "c2", Some(86_400_000), None),
                clock("witness", "w", None, None),
            ],
            left_out: 1,
        }
    }

    #[test]
    fn the_fleets_clocks_at_eighty_columns() {
        let text = for_people(&seen(), Room::Columns80);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for said in [
            "The clock of c1, which leads, is trusted; jobs fire by it.",
            "-5012 ms ±6",
            "-5.0s, 4m00s ago",
            "+1d0h ±6",
            "1 clock less far off not shown",
            "b is free-running, says chronyd: its only source",
        ] {
            assert!(text.contains(said), "{said:?} is not in\n{text}");
        }
    }
}
