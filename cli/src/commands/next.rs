//! `matins next`: when something fires, before it does.

use std::collections::BTreeMap;

use jobs::{Explanation, Schedule, ScheduleError, ScheduleSpec, Warning};
use protocol::api::JobDetail;
use protocol::{JobName, WallMs};
use serde_json::{Value, json};

use crate::args::{Next, Text};
use crate::clock::now;
use crate::commands::apply::read_all;
use crate::commands::{path_of, schedule_of};
use crate::failure::Failure;
use crate::output::{print, print_json, talk};
use crate::text::{LINE_WIDTH, Table, count, printable, wrap_prose};

/// A schedule and where it is from.
struct Asked {
    schedule: Schedule,
    job: Option<JobName>,
    /// What `@every` counts from.
    anchor: WallMs,
}

pub(crate) fn next(options: &Next) -> Result<(), Failure> {
    let after = options.after.unwrap_or_else(now);
    let asked = match &options.what {
        None => of_files(options, after)?,
        Some(what) => vec![match job_name(what) {
            Some(job) => of_job(options, &job, after)?,
            None => of_expression(options, what, after)?,
        }],
    };
    match options.output {
        Text::Json => show_json(options, &asked, after),
        Text::Text => {
            for (i, asked) in asked.iter().enumerate() {
                let gap = if i == 0 { "" } else { "\n" };
                print(&format!("{gap}{}", show_text(options, asked, after)))?;
            }
            Ok(())
        }
    }
}

/// The job meant. `5/15` could be one's name, but is a field whose writer left out the others:
/// what has no letter is never a job here.
fn job_name(what: &str) -> Option<JobName> {
    let job = what.parse().ok();
    job.filter(|_| what.contains(|c: char| c.is_ascii_alphabetic()))
}

fn of_expression(options: &Next, cron: &str, after: WallMs) -> Result<Asked, Failure> {
    let spec = ScheduleSpec {
        cron: cron.to_owned(),
        timezone: options.timezone.clone().unwrap_or_else(|| "UTC".to_owned()),
        dialect: options.dialect.map(Into::into).unwrap_or_default(),
    };
    let schedule = Schedule::parse_whole(&spec).map_err(|errors| {
        let lines = |line: &dyn Fn(&ScheduleError) -> String| {
            let lines: Vec<String> = errors.iter().map(|error| printable(&line(error))).collect();
            lines.join("\n")
        };
        Failure::bad_input(
            format!("reading the schedule in the dialect {}", spec.dialect),
            lines(&|error| format!("{} `{}` {}", error.field, error.text, error.reason)),
            lines(&|error| error.remedies(|name, value| format!("--{name} {value}"))),
        )
    })?;
    Ok(Asked {
        schedule,
        job: None,
        anchor: after,
    })
}

fn of_files(options: &Next, after: WallMs) -> Result<Vec<Asked>, Failure> {
    let manifests = read_all(&options.files, "computed")?;
    Ok(manifests
        .into_iter()
        .map(|manifest| Asked {
            schedule: manifest.schedule().clone(),
            job: Some(manifest.name),
            anchor: after,
        })
        .collect())
}

fn of_job(options: &Next, job: &JobName, after: WallMs) -> Result<Asked, Failure> {
    if options.dialect.is_some() || options.timezone.is_some() {
        return Err(Failure::bad_input(
            format!("asking when {job} fires"),
            "a job has its own dialect and its own zone",
            "leave --dialect and --timezone out, or ask with the expression itself",
        ));
    }
    let client = options.target.find()?;
    let detail: JobDetail = client.get(&path_of(job), &[])?;
    let schedule = schedule_of(job, &detail.manifest)?;
    let anchor = detail
        .job
        .next_fire
        .map_or(after, |fire| schedule.anchor_of(fire, after));
    Ok(Asked {
        schedule,
        job: Some(job.clone()),
        anchor,
    })
}

impl Asked {
    fn fires(&self, options: &Next, after: WallMs) -> Vec<jobs::Instant> {
        self.schedule
            .instants(self.anchor, after, WallMs(i64::MAX))
            .take(options.count as usize)
            .collect()
    }

    fn name(&self) -> String {
        match &self.job {
            Some(job) => format!("{job}: "),
            None => String::new(),
        }
    }

    /// What there is to say where the schedule has ended.
    fn shortage(&self, options: &Next, found: usize, after: WallMs) -> Option<String> {
        if found == options.count as usize {
            return None;
        }
        let last = self
            .schedule
            .newest(self.anchor, WallMs(-1), WallMs(i64::MAX), 1);
        let last = match last.first() {
            Some(last) => format!("its last is {}", last.at),
            None => "it has none at all".to_owned(),
        };
        Some(format!(
            "{}only {} after {after}: {last}",
            self.name(),
            count(found as u64, "fire")
        ))
    }
}

fn show_json(options: &Next, asked: &[Asked], after: WallMs) -> Result<(), Failure> {
    let mut by_name = BTreeMap::new();
    for asked in asked {
        let fires = asked.fires(options, after);
        if let Some(shortage) = asked.shortage(options, fires.len(), after) {
            talk(&shortage);
        }
        if !options.explain {
            for warning in striking(&asked.schedule, after) {
                talk(&format!("{}warning: {warning}", asked.name()));
            }
        }
        let mut answer: Value = fires.iter().map(|fire| fire.at.to_rfc3339()).collect();
        if options.explain {
            answer = explained(asked.schedule.explain(after), answer);
        }
        match &asked.job {
            Some(job) if !options.files.is_empty() => by_name.insert(job.to_string(), answer),
            _ => return print_json(&answer),
        };
    }
    print_json(&by_name)
}

/// Explanation and fires in one object; each warning with its text beside its facts.
fn explained(explanation: Explanation, fires: Value) -> Value {
    let warnings: Vec<Value> = explanation
        .warnings
        .iter()
        .map(|warning| {
            let mut value = json!(warning);
            value["text"] = warning.to_string().into();
            value
        })
        .collect();
    json!({
        "sentence": explanation.sentence,
        "warnings": warnings,
        "fires": fires,
        "tzdata": jobs::tzdata_version(),
    })
}

fn show_text(options: &Next, asked: &Asked, after: WallMs) -> String {
    let spec = asked.schedule.spec();
    let tzdata = if options.explain {
        format!(", tzdata {}", jobs::tzdata_version())
    } else {
        String::new()
    };
    let mut text = format!(
        "{}{}  ({}, {}{tzdata})\n",
        asked.name(),
        printable(spec.cron.trim()),
        spec.dialect,
        spec.timezone
    );
    if options.explain {
        text.push_str(&words(&asked.schedule.explain(after)));
    } else {
        for line in striking(&asked.schedule, after).iter().flat_map(marked) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    let fires = asked.fires(options, after);
    let faces: Vec<_> = fires.iter().map(|fire| asked.schedule.face(fire)).collect();
    let noted = faces.iter().any(|face| face.note.is_some());
    let titles = ["UTC", "LOCAL TIME", "OFFSET", "~NOTE"];
    let mut table = Table::new(&titles[..if noted { 4 } else { 3 }]);
    for (fire, face) in fires.iter().zip(&faces) {
        let mut row = vec![
            fire.at.to_rfc3339(),
            face.local.format("%a %Y-%m-%d %H:%M:%S").to_string(),
            offset(face.offset_seconds),
        ];
        if noted {
            row.push(
                face.note
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
            );
        }
        table.row(row);
    }
    if !table.is_empty() {
        text.push_str(&table.render());
    }
    if let Some(shortage) = asked.shortage(options, fires.len(), after) {
        text.push_str(&shortage);
        text.push('\n');
    }
    text
}

/// What is said of a schedule without asking, because it does almost surely not what is meant.
pub(crate) fn striking(schedule: &Schedule, after: WallMs) -> Vec<Warning> {
    let mut warnings = schedule.explain(after).warnings;
    warnings.retain(Warning::is_striking);
    warnings
}

/// The sentence, the warnings, and an empty line.
fn words(explanation: &Explanation) -> String {
    let mut lines = wrap_prose(&explanation.sentence, LINE_WIDTH);
    lines.extend(explanation.warnings.iter().flat_map(marked));
    lines.join("\n") + "\n\n"
}

/// A warning set off by `!`.
fn marked(warning: &Warning) -> Vec<String> {
    let parts = wrap_prose(&warning.to_string(), LINE_WIDTH - 4);
    let lines = parts.iter().enumerate().map(|(i, part)| {
        let mark = if i == 0 { "  ! " } else { "    " };
        format!("{mark}{part}")
    });
    lines.collect()
}

/// `+08:00`, with seconds where an old zone has some.
fn offset(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes, rest) = (
        seconds.abs() / 3600,
        seconds.abs() / 60 % 60,
        seconds.abs() % 60,
    );
    match rest {
        0 => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        for (seconds, expected) in [
            (0, "+00:00"),
            (20_700, "+05:45"),
            (-12_600, "-03:30"),
            (-2_670, "-00:44:30"),
        ] {
            assert_eq!(offset(seconds), expected);
        }
    }
}
