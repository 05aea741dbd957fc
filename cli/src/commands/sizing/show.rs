//! The answer for people and for spreadsheets.

use std::fmt::Write;

use protocol::{DurationMs, JobName};
use sizing::report::{Dimension, JobReport, WindowFit};
use sizing::what_if::Outcome;

use super::Answer;
use crate::clock::rough;
use crate::text::{LINE_WIDTH, Table, wrap_prose};

pub(super) fn table(answer: &Answer) -> String {
    let mut text = String::new();
    let mut add = |title: &str, table: &Table| {
        if !table.is_empty() {
            let gap = if text.is_empty() { "" } else { "\n" };
            write!(text, "{gap}{title}\n{}", table.render()).expect("text takes text");
        }
    };
    let seen = format!("What was seen from {} to {}.", answer.from, answer.to);
    add(&seen, &jobs(answer));
    add("Windows and shards that stand out.", &windows(answer));
    add("Hosts at the busiest moment, by class.", &classes(answer));
    add("Control machines.", &control(answer));
    add("What to buy.", &purchases(answer));
    add(
        "How well the simulation tells what has been: each job's newest run, by those before it.",
        &predictions(answer),
    );
    let title = match &answer.what_if {
        None => "The night that follows, simulated.".to_owned(),
        Some(changed) => {
            let changes = changed.changes.join("; ");
            let title = format!("The night that follows, and with {changes}.");
            wrap_prose(&title, LINE_WIDTH).join("\n")
        }
    };
    add(&title, &night(answer));
    add("Its jobs, from fire to end.", &night_jobs(answer));
    let mut say = |jobs: &[JobName], what: &str| {
        if !jobs.is_empty() {
            let names: Vec<&str> = jobs.iter().map(JobName::as_str).collect();
            let line = format!("{what}: {}.", names.join(", "));
            let lines = wrap_prose(&line, LINE_WIDTH).join("\n");
            write!(text, "\n{lines}\n").expect("text takes text");
        }
    };
    say(
        &answer.unknown,
        "No run was seen of these, and each shard is taken to last what the manifest expects of a run",
    );
    say(
        &answer.nowhere,
        "No host in service could take these, were nothing else on it, and their runs wait: \
         `matins describe JOB` says what each host lacks",
    );
    text
}

fn length(ms: i64) -> String {
    match ms {
        0 => "0s".to_owned(),
        1..1_000 => DurationMs(ms).to_string(),
        _ => rough(DurationMs(ms)),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn jobs(answer: &Answer) -> Table {
    let mut table = Table::new(&["~JOB", "RUNS", "LASTS", "P95", "SHARDS", "ADVISED", "~WHY"]);
    for job in &answer.report.jobs {
        let window = job.window.as_ref();
        table.row(vec![
            job.job.to_string(),
            job.runs.to_string(),
            window.map_or_else(String::new, |window| length(window.lasts_p50_ms)),
            window.map_or_else(String::new, |window| length(window.lasts_p95_ms)),
            job.shards.current.to_string(),
            job.shards.advised.to_string(),
            job.shards.why.clone(),
        ]);
    }
    table
}

fn windows(answer: &Answer) -> Table {
    let mut table = Table::new(&["~JOB", "~WHAT STANDS OUT"]);
    for job in &answer.report.jobs {
        for word in stands_out(job) {
            table.row(vec![job.job.to_string(), word]);
        }
    }
    table
}

/// What a planner should know of a job.
fn stands_out(job: &JobReport) -> Vec<String> {
    let mut words = job.window.as_ref().map_or_else(Vec::new, of_window);
    if let Some(skew) = &job.skew {
        let slowest = format!(
            "the slowest shard takes {:.1} times the median one",
            skew.slowest
        );
        match skew.hot_shard {
            Some(shard) => words.push(format!(
                "{slowest}, and it is most often shard {shard}: look for a key that has most of the work"
            )),
            None if skew.slowest >= 2.0 => words.push(format!("{slowest}, each time another")),
            None => {}
        }
    }
    words
}

fn of_window(window: &WindowFit) -> Vec<String> {
    let mut words = Vec::new();
    if let (Some(used), Some(period)) = (window.used, window.period_ms) {
        if used >= 0.5 {
            let period = length(period);
            words.push(format!(
                "{} of the {period} between two fires are used",
                percent(used)
            ));
        }
        if let Some(days) = window.full_in_days.filter(|days| *days <= 365) {
            words.push(format!(
                "at this growth the next fire is due before it ends in {days} days"
            ));
        }
    }
    if let Some(growth) = window.growth_30_days.filter(|growth| growth.abs() >= 0.05) {
        let way = if growth > 0.0 { "longer" } else { "shorter" };
        words.push(format!(
            "it gets {} {way} every 30 days",
            percent(growth.abs())
        ));
    }
    if let Some(peak) = window.month_end.filter(|peak| *peak >= 1.2) {
        words.push(format!(
            "at the end of a month it lasts {peak:.1} times as long"
        ));
    }
    words
}

fn classes(answer: &Answer) -> Table {
    let mut table = Table::new(&[
        "CLASS", "HOSTS", "NEEDED", "SLOTS", "CPU", "MEMORY", "=BINDS", "LEFT", "~PEAK AT",
    ]);
    for class in &answer.report.classes {
        let dimension = |name: &str| {
            let found = class
                .dimensions
                .iter()
                .find(|dimension| dimension.name == name);
            found.map_or_else(String::new, of_dimension)
        };
        let number = |number: Option<usize>| number.map_or_else(String::new, |n| n.to_string());
        table.row(vec![
            match class.class.as_str() {
                "-" => "none".to_owned(),
                name => name.to_owned(),
            },
            class.hosts.to_string(),
            number(class.hosts_needed),
            dimension("slots"),
            dimension("cpu"),
            dimension("memory"),
            class.binds.unwrap_or_default().to_owned(),
            class.headroom.map_or_else(String::new, percent),
            class
                .peak_at
                .map_or_else(String::new, |at| at.whole_second().to_rfc3339()),
        ]);
    }
    table
}

/// `6/8`: so much of it at the peak.
fn of_dimension(dimension: &Dimension) -> String {
    let amount = |amount: f64| match dimension.name {
        "memory" => format!("{:.1}G", amount / f64::from(1 << 30)),
        "cpu" => format!("{amount:.1}"),
        _ => format!("{amount:.0}"),
    };
    let capacity = dimension.capacity.map_or_else(|| "?".to_owned(), amount);
    format!("{}/{capacity}", amount(dimension.peak))
}

fn control(answer: &Answer) -> Table {
    let control = &answer.report.control;
    let mut table = Table::new(&["WHAT", "FIGURE", "~BY"]);
    let mut row = |what: &str, figure: String, by: &str| {
        table.row(vec![what.to_owned(), figure, by.to_owned()]);
    };
    row(
        "runs a year",
        format!("{:.0}", control.runs_per_year),
        "as many as were seen",
    );
    row(
        "leases a year",
        format!("{:.0}", control.leases_per_year),
        "as many as were seen",
    );
    row(
        "ledger a year",
        format!("{:.2} GiB", control.gib_per_year),
        "rows and indexes as measured of a filled ledger",
    );
    row(
        "commits a second",
        format!("{:.0}", control.commits_per_s_peak),
        "busiest second, if none shared a batch",
    );
    row(
        "synced writes a second",
        control.iops.to_string(),
        "five times the commits, at least 500",
    );
    table
}

fn purchases(answer: &Answer) -> Table {
    let mut table = Table::new(&["~ROLE", "COUNT", "~WHAT", "~WHY"]);
    for line in &answer.report.purchases {
        let cells = [&line.role, &line.count.to_string(), &line.what, &line.why];
        table.row(cells.map(String::clone).to_vec());
    }
    table
}

fn predictions(answer: &Answer) -> Table {
    let mut table = Table::new(&["~JOB", "PREDICTED", "MEASURED", "APART"]);
    for line in &answer.predictions {
        let apart = line.predicted_ms as f64 / line.measured_ms.max(1) as f64 - 1.0;
        table.row(vec![
            line.job.to_string(),
            length(line.predicted_ms),
            length(line.measured_ms),
            format!("{:+.0} %", apart * 100.0),
        ]);
    }
    table
}

/// Name of each figure of a night, and its cell.
fn figures(night: &Outcome) -> Vec<(&'static str, String)> {
    vec![
        ("runs", night.runs.to_string()),
        ("succeeded", night.succeeded.to_string()),
        ("began late", night.late.to_string()),
        ("not ended at the next fire", night.overran.to_string()),
        ("given up or with a person", night.given_up.to_string()),
        ("first process to last", length(night.worked_ms)),
        ("longest wait for a place", length(night.wait_ms_max)),
        (
            "fullest at its peak",
            night.binds.as_ref().map_or_else(
                || "nothing".to_owned(),
                |(name, used)| format!("{name}, {}", percent(*used)),
            ),
        ),
        ("attempts lost with a host", night.lost_attempts.to_string()),
        ("attempts timed out", night.timed_out.to_string()),
    ]
}

fn night(answer: &Answer) -> Table {
    let before = figures(&answer.night);
    match &answer.what_if {
        None => {
            let mut table = Table::new(&["WHAT", "THEN"]);
            for (what, figure) in before {
                table.row(vec![what.to_owned(), figure]);
            }
            table
        }
        Some(changed) => {
            let mut table = Table::new(&["WHAT", "AS IT IS", "IF"]);
            for ((what, figure), (_, then)) in before.into_iter().zip(figures(&changed.night)) {
                table.row(vec![what.to_owned(), figure, then]);
            }
            table
        }
    }
}

fn night_jobs(answer: &Answer) -> Table {
    let some = |ms: Option<i64>| ms.map_or_else(String::new, length);
    let mut table = match answer.what_if {
        None => Table::new(&["~JOB", "RUNS", "SUCCEEDED", "MEDIAN", "LONGEST"]),
        Some(_) => Table::new(&[
            "~JOB",
            "RUNS",
            "SUCCEEDED",
            "MEDIAN",
            "LONGEST",
            "IF: SUCCEEDED",
            "MEDIAN",
            "LONGEST",
        ]),
    };
    for job in &answer.night.jobs {
        let mut cells = vec![
            job.job.to_string(),
            job.runs.to_string(),
            job.succeeded.to_string(),
            some(job.makespan_ms_p50),
            some(job.makespan_ms_max),
        ];
        if let Some(changed) = &answer.what_if {
            let then = changed.night.jobs.iter().find(|other| other.job == job.job);
            cells.push(then.map_or(0, |job| job.succeeded).to_string());
            cells.push(some(then.and_then(|job| job.makespan_ms_p50)));
            cells.push(some(then.and_then(|job| job.makespan_ms_max)));
        }
        table.row(cells);
    }
    table
}

/// A figure a line, `section,subject,figure,value`: nothing has to be split again.
pub(super) fn csv(answer: &Answer) -> String {
    let mut text = "section,subject,figure,value\n".to_owned();
    let value = serde_json::to_value(answer).expect("the answer is JSON");
    let sections = [
        ("job", "/jobs", "job"),
        ("class", "/classes", "class"),
        ("control", "/control", ""),
        ("purchase", "/purchases", "role"),
        ("prediction", "/predictions", "job"),
        ("night", "/night", ""),
        ("what_if", "/what_if/night", ""),
    ];
    for (section, at, subject) in sections {
        match value.pointer(at) {
            Some(serde_json::Value::Array(rows)) => {
                for row in rows {
                    let of = row.get(subject).and_then(serde_json::Value::as_str);
                    flatten(&mut text, section, of.unwrap_or_default(), "", row);
                }
            }
            Some(row) => flatten(&mut text, section, "", "", row),
            None => {}
        }
    }
    text
}

fn flatten(text: &mut String, section: &str, subject: &str, at: &str, value: &serde_json::Value) {
    use serde_json::Value;
    let below = |key: &str| match at {
        "" => key.to_owned(),
        at => format!("{at}.{key}"),
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(text, section, subject, &below(key), value);
            }
        }
        Value::Array(rows) => {
            for (number, value) in rows.iter().enumerate() {
                // A row that has a name goes by it.
                let name = ["job", "name"]
                    .iter()
                    .find_map(|key| value.get(key)?.as_str());
                let key = name.map_or_else(|| number.to_string(), str::to_owned);
                flatten(text, section, subject, &below(&key), value);
            }
        }
        Value::Null => {}
        value => {
            let plain = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            let cells = [section, subject, at, &plain].map(quoted);
            writeln!(text, "{}", cells.join(",")).expect("text takes text");
        }
    }
}

/// A cell as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_a_line() {
        let mut text = String::new();
        let row = json!({
            "job": "a/b", "runs": 3, "skew": null, "shards": { "why": "few, \"too\" few" },
            "binds": ["slots", 0.5],
        });
        flatten(&mut text, "job", "a/b", "", &row);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "job,a/b,binds.0,slots",
                "job,a/b,binds.1,0.5",
                "job,a/b,job,a/b",
                "job,a/b,runs,3",
                "job,a/b,shards.why,\"few, \"\"too\"\" few\"",
            ]
        );
    }
}
