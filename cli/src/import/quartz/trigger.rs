//! A trigger and the job it fires, in Quartz's words, and what they are in Matins's.

use std::collections::BTreeMap;

use chrono::{Datelike, NaiveDateTime, Timelike};
use jobs::Dialect;

use super::super::account::cut;
use super::super::draft::{
    Draft, Said, expected_duration_unsaid, literal, timeout_unsaid, user_unsaid,
};
use super::super::names::{Names, of_source};
use super::super::{Asked, Misses, Undecided, WRITE_HOURS};
use super::judged;

/// The group of what names none.
pub(super) const GROUP: &str = "DEFAULT";

/// The class that comes with Quartz and runs a command of the host.
const NATIVE_JOB: &str = "NativeJob";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) class: String,
    pub(super) description: String,
    pub(super) data: BTreeMap<String, String>,
    /// Whether Quartz runs it once at a time; nothing where only the class says so.
    pub(super) is_alone: Option<bool>,
    /// Its data is a serialized object.
    pub(super) has_object: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) group: String,
    pub(super) job: (String, String),
    pub(super) description: String,
    /// Overrules the job's.
    pub(super) data: BTreeMap<String, String>,
    pub(super) fires: Fires,
    /// As the XML names it, or the number of the tables.
    pub(super) misfire: String,
    pub(super) zone: Option<String>,
    /// Local time of the first fire, where it matters: `2010-02-09T10:15:00`.
    pub(super) start: Option<String>,
    pub(super) end: Option<String>,
    pub(super) calendar: Option<String>,
    pub(super) is_off: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fires {
    Cron(String),
    /// `repeat` is -1 for ever.
    Simple {
        repeat: i64,
        interval_ms: i64,
    },
    Calendar {
        interval: i64,
        unit: String,
    },
    /// Another kind of trigger, by its name.
    Other(String),
}

pub(super) fn draft(
    trigger: &Trigger,
    job: Option<&Job>,
    file: &str,
    asked: &Asked,
    names: &mut Names,
) -> Result<Draft, Misses> {
    let mut decide = Vec::new();
    let When {
        cron,
        timezone,
        dialect,
    } = when(trigger, file, asked, &mut decide)?;
    let (misfire, catch_up) = misfire(trigger);
    let (exec, exec_remark) = exec(trigger, job, &mut decide);
    if let Some(end) = &trigger.end {
        decide.push(format!(
            "It ends at {end}, and a job of Matins does not end: delete it then, or leave it paused."
        ));
    }
    if let Some(calendar) = &trigger.calendar {
        decide.push(format!(
            "The days that the calendar {calendar} leaves out are not left out here."
        ));
    }
    let whole = match trigger.group.as_str() {
        GROUP => trigger.name.clone(),
        group => format!("{group}-{}", trigger.name),
    };
    let name = of_source(&whole, &[&trigger.group, &trigger.name]);
    let described = [
        trigger.description.as_str(),
        job.map_or("", |job| &job.description),
    ]
    .into_iter()
    .find(|text| !text.trim().is_empty());
    let purpose = match (described, job) {
        (Some(text), _) => cut(text.trim(), 400),
        (None, Some(job)) if !job.class.is_empty() => format!("Runs {}", job.class),
        (None, _) => format!("Imported from the Quartz trigger {}", trigger.name),
    };
    Ok(Draft {
        name: names.take(asked.namespace.as_deref().unwrap_or("quartz"), &name),
        source: format!("quartz {file}"),
        line: trigger.line,
        original: format!("trigger {}.{}", trigger.group, trigger.name),
        purpose,
        owner: asked.owner(None),
        cron,
        timezone,
        dialect,
        misfire,
        catch_up,
        overlap: match job.and_then(|job| job.is_alone) {
            Some(true) => Said::new("queue", "it may not run beside itself: Quartz waits"),
            Some(false) => Said::new("allow", "it may run beside itself"),
            None => Said::new(
                "allow",
                "unless the class has @DisallowConcurrentExecution: then `queue`",
            ),
        },
        expected_duration: expected_duration_unsaid(),
        timeout: timeout_unsaid(),
        retry: Said::new("{ at_most: 0 }", "Quartz tries nothing again"),
        exec,
        exec_remark,
        user_remark: user_unsaid(),
        was_off: trigger.is_off,
        decide,
        ..Draft::default()
    })
}

struct When {
    cron: String,
    timezone: Said,
    dialect: Dialect,
}

fn when(
    trigger: &Trigger,
    file: &str,
    asked: &Asked,
    decide: &mut Vec<String>,
) -> Result<When, Misses> {
    let zone = || -> Result<Said, Misses> {
        match (&trigger.zone, &asked.timezone) {
            (Some(zone), _) => Ok(Said::new(zone, "of the trigger")),
            (None, Some(zone)) => Ok(Said::new(zone, "--timezone: of the scheduler's JVM")),
            (None, None) => Err(Misses::Undecided(Undecided::timezone(
                file,
                trigger.line,
                "a trigger without a time zone is of the zone of the scheduler's JVM",
            ))),
        }
    };
    match &trigger.fires {
        Fires::Cron(cron) => {
            let timezone = zone()?;
            let cron = judged(cron.trim(), Dialect::Quartz, &timezone.value, decide)?;
            Ok(When {
                cron,
                timezone,
                dialect: Dialect::Quartz,
            })
        }
        Fires::Simple {
            repeat,
            interval_ms,
        } => {
            if *repeat >= 0 {
                return Err(Misses::not_carried_over(
                    format!(
                        "it fires {} times and then is over",
                        repeat.saturating_add(1)
                    ),
                    WRITE_HOURS,
                ));
            }
            every(*interval_ms, asked)
        }
        Fires::Calendar { interval, unit } => {
            let unit = unit.trim().to_ascii_uppercase();
            let ms = match unit.as_str() {
                "SECOND" => 1000,
                "MINUTE" => 60_000,
                "HOUR" => 3_600_000,
                _ => 0,
            };
            if ms > 0 {
                return every(interval.saturating_mul(ms), asked);
            }
            let Some(cron) = calendar(*interval, &unit, trigger.start.as_deref()) else {
                return Err(Misses::not_carried_over(
                    format!(
                        "it fires every {interval} {unit} from its start on, which no expression says"
                    ),
                    WRITE_HOURS,
                ));
            };
            let timezone = zone()?;
            let cron = judged(&cron, Dialect::Quartz, &timezone.value, decide)?;
            Ok(When {
                cron,
                timezone,
                dialect: Dialect::Quartz,
            })
        }
        Fires::Other(kind) => Err(Misses::not_carried_over(
            format!("it is a trigger of the kind {kind}, which no expression says"),
            WRITE_HOURS,
        )),
    }
}

/// An interval: it has no hour, and so the zone is no matter.
fn every(interval_ms: i64, asked: &Asked) -> Result<When, Misses> {
    if interval_ms < 1000 || interval_ms % 1000 != 0 {
        return Err(Misses::not_carried_over(
            format!("it fires every {interval_ms} ms, and Matins in whole seconds"),
            WRITE_HOURS,
        ));
    }
    let zone = asked.timezone.as_deref().unwrap_or("Etc/UTC");
    Ok(When {
        cron: format!("@every {}s", interval_ms / 1000),
        timezone: Said::new(
            zone,
            "no matter: an interval, counted from when this version is in force",
        ),
        dialect: Dialect::Vixie,
    })
}

/// A calendar interval of one day, week, month or year as an expression of Quartz, by its start.
fn calendar(interval: i64, unit: &str, start: Option<&str>) -> Option<String> {
    let start = NaiveDateTime::parse_from_str(start?, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    if interval != 1 {
        return None;
    }
    let time = format!("{} {} {}", start.second(), start.minute(), start.hour());
    let day = start.day();
    match unit {
        "DAY" => Some(format!("{time} * * ?")),
        "WEEK" => Some(format!(
            "{time} ? * {}",
            start.weekday().number_from_sunday()
        )),
        // Quartz goes to the last day of a shorter month.
        "MONTH" if day <= 28 => Some(format!("{time} {day} * ?")),
        "YEAR" if day <= 28 => Some(format!("{time} {day} {} ?", start.month())),
        _ => None,
    }
}

/// What becomes of a late instant, and how many run. Quartz counts an instant as late after 60 s.
fn misfire(trigger: &Trigger) -> (Said, Option<u32>) {
    let written = trigger.misfire.trim();
    let name = written
        .strip_prefix("MISFIRE_INSTRUCTION_")
        .unwrap_or(written);
    let is_simple = matches!(trigger.fires, Fires::Simple { .. });
    let code = match name {
        "" | "SMART_POLICY" => "0",
        "IGNORE_MISFIRE_POLICY" => "-1",
        "FIRE_NOW" | "FIRE_ONCE_NOW" => "1",
        // What the one is of cron triggers, the other is of simple ones.
        "DO_NOTHING" | "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT" => "2",
        "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT" => "3",
        "RESCHEDULE_NEXT_WITH_REMAINING_COUNT" => "4",
        "RESCHEDULE_NEXT_WITH_EXISTING_COUNT" => "5",
        number => number,
    };
    let said = |policy: &str| {
        let why = match written {
            "" | "0" => "the smart policy of Quartz".to_owned(),
            written => format!("misfire instruction {written}"),
        };
        Said::new(format!("{{ policy: {policy}, after: 60s }}"), why)
    };
    match (is_simple, code) {
        (_, "-1") => (said("run_now"), Some(100)),
        (_, "1") | (false, "0") | (true, "2" | "3") => (said("run_now"), None),
        _ => (said("skip"), None),
    }
}

fn exec(trigger: &Trigger, job: Option<&Job>, decide: &mut Vec<String>) -> (Vec<String>, String) {
    let mut data = job.map(|job| job.data.clone()).unwrap_or_default();
    data.extend(trigger.data.clone());
    let class = job.map_or("", |job| job.class.as_str());
    if class.ends_with(NATIVE_JOB)
        && let Some(command) = data.get("command")
    {
        let parameters = data
            .get("parameters")
            .map(String::as_str)
            .unwrap_or_default();
        let line = format!("{command} {parameters}");
        let exec = vec!["/bin/sh".to_owned(), "-c".to_owned(), literal(line.trim())];
        return (exec, "the command of Quartz's NativeJob".to_owned());
    }
    if job.is_some_and(|job| job.has_object) {
        decide.push("Its job data is a serialized object, and is not carried over.".to_owned());
    }
    let named = match class {
        "" => format!("{}.{}", trigger.job.1, trigger.job.0),
        class => class.to_owned(),
    };
    decide.push(format!(
        "It ran the Java class {named}: put in its place a program that does the work."
    ));
    let mut exec = vec!["/PUT-HERE/what-runs-the-class".to_owned(), literal(&named)];
    exec.extend(
        data.iter()
            .map(|(key, value)| literal(&format!("{key}={value}"))),
    );
    (exec, "a Java class, and its job data".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_intervals_that_an_expression_says() {
        let start = Some("2024-01-31T02:10:05.0");
        for (interval, unit, start, expected) in [
            (1, "DAY", start, Some("5 10 2 * * ?")),
            (1, "WEEK", start, Some("5 10 2 ? * 4")),
            (1, "MONTH", start, None),
            (
                1,
                "MONTH",
                Some("2024-01-28T02:10:05"),
                Some("5 10 2 28 * ?"),
            ),
            (1, "YEAR", Some("2024-03-01T00:00:00"), Some("0 0 0 1 3 ?")),
            (2, "DAY", start, None),
            (1, "DAY", None, None),
            (1, "DAY", Some("2024-01-31T02:10:05Z"), None),
        ] {
            assert_eq!(
                calendar(interval, unit, start).as_deref(),
                expected,
                "{interval} {unit}"
            );
        }
    }
}
