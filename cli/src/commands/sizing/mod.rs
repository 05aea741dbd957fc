//! `matins sizing`: what the fleet carries, what to buy, and what a night would come to.

mod gather;
mod show;

use std::path::Path;

use protocol::{DurationMs, JobName};
use serde::Serialize;
use sizing::report::{Report, report};
use sizing::scenario::Scenario;
use sizing::simulate::SimulateError;
use sizing::what_if::{Outcome, WhatIf, outcome, parse_what_if};
use sizing::{Accuracy, Prediction, check_predictions, plan_night, simulate};

use crate::args::{Sheet, Sizing};
use crate::clock::now;
use crate::failure::Failure;
use crate::import::source::read_source;
use crate::output::{print, print_json, talk};

/// What is looked back on where nobody says.
const LOOK_BACK: DurationMs = DurationMs(30 * 86_400_000);

/// Every fire of a night is simulated; longer than a month none is needed.
const NIGHT_MAX: DurationMs = DurationMs(35 * 86_400_000);

/// A file of changes has no need of more.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Everything that is said.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    #[serde(with = "protocol::api::Rfc3339")]
    from: protocol::WallMs,
    #[serde(with = "protocol::api::Rfc3339")]
    to: protocol::WallMs,
    #[serde(flatten)]
    report: Report,
    /// How well the simulation tells what has been.
    predictions: Vec<Prediction>,
    accuracy: Accuracy,
    night: Outcome,
    what_if: Option<Changed>,
    /// Jobs of which nothing was seen: their shards are taken to last what the manifest expects of a run.
    unknown: Vec<JobName>,
    /// Jobs that no host in service could take, were nothing else on it.
    nowhere: Vec<JobName>,
}

#[derive(Debug, Serialize)]
struct Changed {
    changes: Vec<String>,
    night: Outcome,
}

pub(crate) fn sizing(options: &Sizing) -> Result<(), Failure> {
    let to = options.to.unwrap_or_else(now);
    let from = options.from.unwrap_or(to - LOOK_BACK);
    if from >= to {
        return Err(Failure::bad_input(
            "choosing what to look back on",
            format!("--from {from} is not before --to {to}"),
            "name an earlier --from",
        ));
    }
    if options.night > NIGHT_MAX {
        return Err(Failure::bad_input(
            "simulating the night",
            format!("--night {} is longer than {NIGHT_MAX}", options.night),
            "name a shorter one; 35d has the end of every month",
        ));
    }
    let what_if = match &options.what_if {
        Some(file) => Some((file.as_path(), read_what_if(file)?)),
        None => None,
    };
    let client = options.target.find()?;
    let (history, notes) = gather::gather(&client, from, to)?;
    let planned = plan_night(&history, options.night, options.seed);
    let changed = match &what_if {
        Some((file, what_if)) => {
            let name = file.display().to_string();
            let scenario = what_if.apply(&name, &planned.scenario);
            let scenario = scenario.map_err(|problems| of_problems(file, &problems))?;
            let lines = what_if
                .changes
                .iter()
                .map(|planned| planned.change.to_string());
            Some((lines.collect(), scenario))
        }
        None => None,
    };
    let predictions = check_predictions(&history, options.seed);
    let predictions = predictions.map_err(|error| of_simulation(&error))?;
    let answer = Answer {
        from,
        to,
        accuracy: Accuracy::of(&predictions),
        predictions,
        report: report(&history),
        night: night_of(&planned.scenario)?,
        what_if: match changed {
            Some((changes, scenario)) => Some(Changed {
                changes,
                night: night_of(&scenario)?,
            }),
            None => None,
        },
        unknown: planned.unknown,
        nowhere: planned.nowhere,
    };
    match options.output {
        Sheet::Table => print(&show::table(&answer))?,
        Sheet::Json => print_json(&answer)?,
        Sheet::Csv => print(&show::csv(&answer))?,
    }
    for note in notes {
        talk(&note);
    }
    Ok(())
}

fn night_of(scenario: &Scenario) -> Result<Outcome, Failure> {
    let night = simulate(scenario).map_err(|error| of_simulation(&error))?;
    Ok(outcome(scenario, &night))
}

fn of_simulation(error: &SimulateError) -> Failure {
    Failure::of_error(
        "simulating the night",
        error,
        "look at what it names; a job that the coordinator took may come after one that was deleted",
    )
}

fn read_what_if(file: &Path) -> Result<WhatIf, Failure> {
    let source = read_source(file, FILE_BYTES_MAX).map_err(|error| {
        Failure::bad_input(
            format!("reading {}", file.display()),
            error.to_string(),
            "name a file that can be read, or `-` for standard input",
        )
    })?;
    let text = String::from_utf8_lossy(&source.bytes);
    parse_what_if(&source.name, &text).map_err(|problems| of_problems(file, &problems))
}

fn of_problems(file: &Path, problems: &[sizing::what_if::Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::bad_input(
        format!("reading what is to be otherwise from {}", file.display()),
        lines.join("\n"),
        "correct these lines; docs/SIZING.md shows a whole file",
    )
}
