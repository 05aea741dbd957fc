//! The answer for people and for spreadsheets.

use std::fmt::Write;

use protocol::{DurationMs, JobName};
use sizing::Prediction;
use sizing::report::{Dimension, JobReport, WindowFit, bytes_in_words, in_words};
use sizing::what_if::Outcome;

use super::Answer;
use crate::amounts::rough;
use crate::text::{LINE_WIDTH, Table, wrap_prose};

pub(super) fn table(answer: &Answer) -> String {
    let mut text = String::new();
    let mut add = |title: &str, table: &Table| add_to(&mut text, title, table);
    let seen = format!("What was seen from {} to {}.", answer.from, answer.to);
    add(&seen, &jobs(answer));
    add("Windows and shards that stand out.", &windows(answer));
    add(
        "Hosts by class: how many leave a fifth, what binds, and what is left of it.",
        &classes(answer),
    );
    add(
        "Each of them at its own busiest moment.",
        &dimensions(answer),
    );
    add("Control machines.", &control(answer));
    add("What to buy.", &purchases(answer));
    add(
        "How well the simulation tells what has been: each job's newest run.",
        &predictions(answer),
    );
    for line in trust(answer) {
        writeln!(text, "{line}").expect("text takes text");
    }
    let mut add = |title: &str, table: &Table| add_to(&mut text, title, table);
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

fn add_to(text: &mut String, title: &str, table: &Table) {
    if !table.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n" };
        write!(text, "{gap}{title}\n{}", table.render()).expect("text takes text");
    }
}

fn length(ms: i64) -> String {
    rough(DurationMs(ms))
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
    let mut table = Table::new(&["~CLASS", "HOSTS", "NEEDED", "BINDS", "LEFT"]);
    for class in &answer.report.classes {
        let needed = class.hosts_needed.map(|needed| needed.to_string());
        table.row(vec![
            class_name(&class.class),
            class.hosts.to_string(),
            needed.unwrap_or_default(),
            class
                .binds
                .map_or_else(String::new, |it| in_words(it).to_owned()),
            class.headroom.map_or_else(String::new, percent),
        ]);
    }
    table
}

fn class_name(class: &str) -> String {
    match class {
        "-" => "none".to_owned(),
        name => name.to_owned(),
    }
}

fn dimensions(answer: &Answer) -> Table {
    let mut table = Table::new(&["~CLASS", "WHAT", "MOST", "OF", "USED", "AT"]);
    for class in &answer.report.classes {
        for dimension in &class.dimensions {
            // Nobody took any, and nobody offers any.
            if dimension.peak == Some(0.0) && dimension.capacity.is_none() {
                continue;
            }
            let unknown = || "unknown".to_owned();
            let most = |peak| match (amount(dimension, peak), dimension.partial) {
                (most, true) => format!("{most}+"),
                (most, false) => most,
            };
            table.row(vec![
                class_name(&class.class),
                in_words(dimension.name).to_owned(),
                dimension.peak.map_or_else(unknown, most),
                dimension
                    .capacity
                    .map_or_else(unknown, |of| amount(dimension, of)),
                dimension.used().map_or_else(String::new, percent),
                dimension
                    .peak_at
                    .map_or_else(String::new, |at| at.whole_second().to_rfc3339()),
            ]);
        }
    }
    table
}

fn amount(dimension: &Dimension, amount: f64) -> String {
    match dimension.name {
        "memory" => bytes_in_words(amount),
        "cpu" => format!("{amount:.1}"),
        "io" => format!("{amount:.0}/s"),
        _ => format!("{amount:.0}"),
    }
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
        "as many as were seen, of each job since its first",
    );
    row(
        "leases a year",
        format!("{:.0}", control.leases_per_year),
        "the same",
    );
    let text = bytes_in_words(control.text_gib_per_year * f64::from(1 << 30));
    row(
        "ledger a year, at least",
        control.bytes_in_words(),
        &format!(
            "rows and indexes as measured, {text} of it reasons and tails of attempts; alerts, audit and \
             profiles of hosts come on top"
        ),
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
    let mut table = Table::new(&[
        "~JOB",
        "BESIDE",
        "PREDICTED",
        "BETWEEN",
        "REPLAYED",
        "MEASURED",
        "APART",
    ]);
    let mut told: Vec<&JobName> = Vec::new();
    for line in &answer.predictions {
        // The newest of a job comes first.
        if told.contains(&&line.job) {
            continue;
        }
        told.push(&line.job);
        table.row(vec![
            line.job.to_string(),
            line.beside.to_string(),
            length(line.predicted_ms),
            between(line),
            length(line.replayed_ms),
            length(line.measured_ms),
            format!("{:+.0} %", line.error() * 100.0),
        ]);
    }
    table
}

fn between(line: &Prediction) -> String {
    let (least, most) = (line.predicted_ms_least, line.predicted_ms_most);
    format!("{}..{}", length(least), length(most))
}

/// What made a run other than it was told.
fn why_off(told: &Prediction) -> &'static str {
    if told.replay_error().abs() > told.error().abs() / 2.0 {
        return "it waited for or lost what is not simulated";
    }
    match (told.cpu, told.error() > 0.0) {
        (Some(cpu), false) if cpu > 1.1 => "it had more to compute than those before it",
        (Some(cpu), true) if cpu < 0.9 => "it had less to compute than those before it",
        (Some(_), false) => {
            "with no more to compute than those before it, its shards waited for longer: look at what else its \
             hosts did"
        }
        (Some(_), true) => {
            "with no less to compute than those before it, its shards waited less: its hosts had less else to do"
        }
        (None, _) => "its shards took other times than those before it",
    }
}

/// All predictions in a few sentences: what to make of the night that follows.
fn trust(answer: &Answer) -> Vec<String> {
    let accuracy = &answer.accuracy;
    let (Some(predicted), Some(replayed)) = (accuracy.predicted_median, accuracy.replayed_median)
    else {
        return Vec::new();
    };
    let mut words = format!(
        "Of {} the median prediction is {} off, and {} ended between its bounds. With what its shards did \
         take, the median one is {} off.",
        match accuracy.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        },
        percent(predicted),
        accuracy.within,
        percent(replayed),
    );
    if let Some(worst) = accuracy.worst.map(|at| &answer.predictions[at]) {
        let why = why_off(worst);
        let error = format!("{:+.0} %", worst.error() * 100.0);
        let (job, at) = (&worst.job, worst.fire_time);
        write!(
            words,
            " The worst is `{job}@{at}`: {} predicted, {} replayed, {} measured, {error}: {why}.",
            length(worst.predicted_ms),
            length(worst.replayed_ms),
            length(worst.measured_ms),
        )
        .expect("text takes text");
    }
    wrap_prose(&words, LINE_WIDTH)
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
        ("prediction", "/predictions", "run"),
        ("accuracy", "/accuracy", ""),
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
    use protocol::{RunId, WallMs};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told_wrong_is_told_why() {
        let check = |(predicted_ms, replayed_ms), cpu, expected: &str| {
            let told = Prediction {
                job: "a/b".parse().unwrap(),
                run: RunId(1),
                fire_time: WallMs(0),
                beside: 0,
                predicted_ms,
                predicted_ms_least: 0,
                predicted_ms_most: 0,
                replayed_ms,
                measured_ms: 100,
                cpu,
            };
            assert!(why_off(&told).contains(expected), "{told:?}");
        };
        check((50, 60), Some(1.5), "not simulated");
        check((50, 99), Some(1.5), "more to compute");
        check((50, 99), Some(1.0), "waited for longer");
        check((150, 101), Some(0.5), "less to compute");
        check((150, 101), Some(1.0), "waited less");
        check((150, 101), None, "took other times");
    }

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
