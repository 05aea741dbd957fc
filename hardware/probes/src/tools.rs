//! Tools of vendors, started for what the machine has: which, by the drivers of its controllers, is a plan
//! that is made from a report; running them is bounded in time, output and number.
//!
//! A tool that is not there, or fails, costs what it would have told, and that says so. Callers ask at most
//! every five minutes: some of these tools hold up a controller while they look.

mod plan;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hardware::{Facts, Report, Tool, join, parse_supplies};

use crate::process::{Limits, Output, run};
use plan::{Answer, Ask, Way, plan_asks};

/// Of one start of a tool.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(20),
    output_bytes: 16 << 20,
};
/// Of all starts of one look. A shelf whose every drive hangs would hold up for many minutes whoever wants to
/// know of the others; an agent tells after three that its host cannot be looked at.
const ALL_MAX: Duration = Duration::from_secs(100);
/// Drives that are asked one by one.
const DRIVES_MAX: usize = 64;

/// Where vendors put what is in no path.
const PLACES: &[&str] = &[
    "/usr/sbin",
    "/sbin",
    "/usr/local/sbin",
    "/usr/bin",
    "/bin",
    "/usr/local/bin",
    "/opt/MegaRAID/storcli",
    "/opt/MegaRAID/storcli2",
    "/opt/MegaRAID/perccli",
    "/opt/MegaRAID/MegaCli",
    "/opt/smartstorageadmin/ssacli/bin",
    "/opt/hp/hpssacli/bld",
    "/usr/Arcconf",
    "/usr/StorMan",
    "/opt/3ware/CLI",
    "/opt/lsi/sas2ircu",
];

/// Directories in which tools are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<PathBuf>);

impl Places {
    /// Those of a path such as `PATH` holds, and those of vendors.
    pub(crate) fn of_path(path: Option<&OsStr>) -> Self {
        let path = path.map(std::env::split_paths).into_iter().flatten();
        // What stands for the directory that somebody happens to be in is no place for programs of root.
        let path = path.filter(|place| place.is_absolute());
        Self(path.chain(PLACES.iter().map(PathBuf::from)).collect())
    }

    #[cfg(test)]
    fn only(place: &std::path::Path) -> Self {
        Self(vec![place.to_owned()])
    }

    fn find(&self, programs: &[&str]) -> Option<PathBuf> {
        programs.iter().find_map(|program| {
            let mut files = self.0.iter().map(|place| place.join(program));
            files.find(|file| file.is_file())
        })
    }
}

/// The time that is left to all tools together.
#[derive(Clone, Copy, Debug)]
struct Patience {
    until: Instant,
}

impl Patience {
    fn new(time: Duration) -> Self {
        Self {
            until: Instant::now() + time,
        }
    }

    /// Starts a tool for as long as one may take, and all may.
    fn run(self, program: &Path, args: &[String]) -> Result<Output, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let name = program.file_name().unwrap_or(program.as_os_str());
            return Err(format!(
                "{} was not asked: those asked before it took too long; ask it by hand",
                name.to_string_lossy()
            ));
        }
        let limits = Limits {
            time: left.min(LIMITS.time),
            ..LIMITS
        };
        run(program, args, limits).map_err(|error| error.said())
    }
}

/// Asks the tools that `report` calls for, and writes into it what they tell.
pub(crate) fn ask_tools(report: &mut Report, places: &Places, has_ipmi: bool) {
    ask_within(report, places, has_ipmi, ALL_MAX);
}

fn ask_within(report: &mut Report, places: &Places, has_ipmi: bool, time: Duration) {
    let patience = Patience::new(time);
    for ask in plan_asks(report, has_ipmi) {
        match ask_one(&ask, places, patience) {
            Ok(told) => join(report, told, ask.driver),
            Err(why) => say_why(report, &ask, &why),
        }
    }
    ask_drives(report, places, patience);
}

/// The first way that there is a program for.
fn ask_one(ask: &Ask, places: &Places, patience: Patience) -> Result<Report, String> {
    let found = ask
        .ways
        .iter()
        .find_map(|way| Some((way, places.find(way.programs)?)));
    let Some((way, program)) = found else {
        return Err(not_installed(ask.ways));
    };
    let mut text = Vec::new();
    let mut first = Vec::new();
    let mut failed = None;
    for args in way.starts(ask.controllers) {
        match patience.run(&program, &args) {
            // Their exit statuses mean many things; what they printed tells.
            Ok(output) if !output.stdout.is_empty() => {
                if first.is_empty() {
                    first.clone_from(&output.stdout);
                }
                text.extend(output.stdout);
                text.push(b'\n');
            }
            Ok(output) => {
                let said = match (output.stderr.lines().next(), output.status) {
                    (Some(line), _) => line.to_owned(),
                    (None, Some(status)) => format!("exit status {status}"),
                    (None, None) => "a signal ended it".to_owned(),
                };
                failed = Some(format!("{} printed nothing: {said}", way.programs[0]));
            }
            Err(why) => {
                failed = Some(why);
                break;
            }
        }
    }
    if text.is_empty() {
        return Err(failed.unwrap_or_else(|| "nothing was asked".to_owned()));
    }
    let mut told = parse(way, &text);
    if way.calls.len() > 1 {
        forgive_refusals(&mut told, &parse(way, &first));
    }
    if let Some(why) = failed {
        told.problem(way.programs[0], why);
    }
    if told.items.is_empty() {
        let what = told
            .problems
            .first()
            .map_or("", |problem| problem.what.as_str());
        return Err(format!(
            "{} told nothing that is understood: {what}",
            way.programs[0]
        ));
    }
    Ok(told)
}

/// A controller without volumes, or with a capacitor for a battery, refuses to tell of what it does not have.
/// Only what it refused at the first question, which each can answer, is a problem.
fn forgive_refusals(told: &mut Report, first: &Report) {
    told.problems.retain(|problem| {
        !problem.r#where.starts_with("controller ") || first.problems.contains(problem)
    });
}

fn parse(way: &Way, text: &[u8]) -> Report {
    match way.answer {
        Answer::Of(tool) => tool.parse(text),
        Answer::Supplies => parse_supplies(&String::from_utf8_lossy(text)),
    }
}

fn not_installed(ways: &[Way]) -> String {
    let programs: Vec<&str> = ways.iter().map(|way| way.programs[0]).collect();
    match programs.as_slice() {
        [one] => format!("{one} is not installed"),
        several => format!("none of {} is installed", several.join(", ")),
    }
}

/// Says at what a tool would have told of why it did not; where that is nothing, as a problem.
fn say_why(report: &mut Report, ask: &Ask, why: &str) {
    let mut said = false;
    for item in &mut report.items {
        if let Facts::Controller(facts) = &item.facts
            && facts.driver.known().map(String::as_str) == ask.driver
            && ask.driver.is_some()
        {
            item.reason = format!("{}: {why}", item.reason);
            said = true;
        }
    }
    if !said {
        report.problem(ask.what, why.to_owned());
    }
}

/// Asks the drives themselves, those behind controllers too, which only a scan names. Of drives that
/// already told of themselves nothing more is wanted.
fn ask_drives(report: &mut Report, places: &Places, patience: Patience) {
    let wants = |report: &Report| {
        let drives = report.items.iter().filter_map(|item| match &item.facts {
            Facts::Drive(facts) if item.id.starts_with("/dev/") => Some(facts),
            _ => None,
        });
        drives
            .filter(|drive| drive.passed.known().is_none() && !is_virtual(drive))
            .count()
    };
    let has_controllers = report
        .items
        .iter()
        .any(|item| matches!(item.facts, Facts::Controller(_)));
    if wants(report) == 0 && !has_controllers {
        return;
    }
    let Some(program) = places.find(&["smartctl"]) else {
        for item in &mut report.items {
            if let Facts::Drive(facts) = &item.facts
                && item.id.starts_with("/dev/")
                && facts.passed.known().is_none()
                && !is_virtual(facts)
            {
                item.reason = format!("{}: smartctl is not installed", item.reason);
            }
        }
        return;
    };
    let args =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let scanned = match patience.run(&program, &args(&["--scan-open", "-j"])) {
        Ok(output) => Tool::Smartctl.parse(&output.stdout),
        Err(why) => return report.problem("drives", why),
    };
    for drive in scanned.items.iter().take(DRIVES_MAX) {
        let Facts::Drive(facts) = &drive.facts else {
            continue;
        };
        let answered = report.items.iter().any(|item| {
            item.id == drive.id
                && matches!(&item.facts, Facts::Drive(facts) if facts.passed.known().is_some())
        });
        if answered {
            continue;
        }
        let device = drive.id.split('[').next().unwrap_or(&drive.id);
        // One that sleeps is left asleep.
        let mut words = args(&["-j", "-x", "-n", "standby", device]);
        if let Some(kind) = facts.smartctl_type.known() {
            words.extend(["-d".to_owned(), kind.clone()]);
        }
        match patience.run(&program, &words) {
            Ok(output) => join(report, Tool::Smartctl.parse(&output.stdout), None),
            Err(why) => report.problem(drive.id.clone(), why),
        }
    }
}

fn is_virtual(drive: &hardware::facts::DriveFacts) -> bool {
    let transport = drive.transport.known().map(String::as_str);
    matches!(transport, Some("virtio" | "virtual"))
}

#[cfg(test)]
mod tests;
