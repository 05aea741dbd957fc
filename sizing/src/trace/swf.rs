//! The Standard Workload Format: a line a job, eighteen numbers, `-1` for what is not known, and
//! comments after `;` (Feitelson, "The Standard Workload Format", version 2.2).
//!
//! MetaCentrum's variant has three columns more (node list, queue, and what was asked for in PBS's
//! words, `8:ppn=8:cl_zegox`), and memory in bytes of the whole job instead of kilobytes a processor.
//! Archives have blank lines, numbers with a fraction, and run times below zero where a job never ran.

use super::Problem;

/// Columns of the format, and of MetaCentrum's.
const COLUMNS: usize = 18;
const COLUMNS_PBS: usize = 21;

/// More lines are wrong than anybody reads.
const PROBLEMS_MAX: usize = 50;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// In the order of their submission.
    pub jobs: Vec<TraceJob>,
    /// Jobs that never ran: cancelled, or with a run time that is a placeholder.
    pub never_ran: usize,
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    pub submit_s: i64,
    /// As it was on the machine of the trace.
    pub wait_s: Option<i64>,
    pub run_s: i64,
    /// Machines that it was spread over.
    pub nodes: u32,
    pub processors_per_node: u32,
    pub memory_bytes_per_node: Option<u64>,
    /// The one cluster that it may run on.
    pub cluster: Option<String>,
}

/// Every line that can be understood, and what is wrong with the others.
pub fn parse_swf(text: &str) -> Trace {
    let mut trace = Trace::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        match parse_job(line) {
            Ok(Some(job)) => trace.jobs.push(job),
            Ok(None) => trace.never_ran += 1,
            Err(what) if trace.problems.len() < PROBLEMS_MAX => {
                trace.problems.push(Problem { line: at + 1, what });
            }
            Err(_) => {}
        }
    }
    trace.jobs.sort_by_key(|job| job.submit_s);
    trace
}

fn parse_job(line: &str) -> Result<Option<TraceJob>, String> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    if columns.len() != COLUMNS && columns.len() != COLUMNS_PBS {
        return Err(format!(
            "{} columns, where the format has {COLUMNS}, or {COLUMNS_PBS} with node list, queue and what was asked for",
            columns.len()
        ));
    }
    let submit_s = number(&columns, 2, "submit time")?.ok_or("no submit time")?;
    let wait_s = number(&columns, 3, "wait time")?;
    let Some(run_s) = number(&columns, 4, "run time")?.filter(|&run_s| run_s > 0) else {
        return Ok(None);
    };
    let allocated = number(&columns, 5, "processors")?;
    let requested = number(&columns, 8, "requested processors")?;
    let processors = allocated.filter(|&n| n > 0).or(requested);
    let processors = processors
        .and_then(|n| u32::try_from(n).ok())
        .filter(|&n| n > 0);
    let processors = processors.ok_or("no number of processors")?;
    let memory = number(&columns, 10, "requested memory")?;
    let memory = memory
        .and_then(|n| u64::try_from(n).ok())
        .filter(|&n| n > 0);
    let asked = columns
        .get(20)
        .map_or_else(Asked::default, |text| parse_asked(text));
    let nodes = asked.nodes.unwrap_or(1).clamp(1, processors);
    let memory_bytes = match columns.len() {
        COLUMNS => memory.map(|kilobytes| kilobytes.saturating_mul(1024 * u64::from(processors))),
        _ => memory,
    };
    Ok(Some(TraceJob {
        submit_s,
        wait_s,
        run_s,
        nodes,
        processors_per_node: processors.div_ceil(nodes),
        memory_bytes_per_node: memory_bytes.map(|bytes| bytes / u64::from(nodes)),
        cluster: asked.cluster,
    }))
}

/// A column, counted from 1, in whole units; `None` for what is not known.
fn number(columns: &[&str], column: usize, name: &str) -> Result<Option<i64>, String> {
    let text = columns[column - 1];
    let value: f64 = text
        .parse()
        .map_err(|_| format!("column {column}, {name}: `{text}` is not a number"))?;
    if !value.is_finite() {
        return Err(format!("column {column}, {name}: `{text}` is not a number"));
    }
    Ok((value >= 0.0).then_some(value.round() as i64))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    nodes: Option<u32>,
    cluster: Option<String>,
}

/// `8:ppn=8:x86_64:cl_zegox#excl`; parts after `+` ask for more nodes of another kind.
fn parse_asked(text: &str) -> Asked {
    let mut asked = Asked::default();
    for part in text.split('+') {
        let mut words = part.split([':', '#']);
        let count: Option<u32> = words.next().and_then(|count| count.parse().ok());
        asked.nodes = match (asked.nodes, count) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (before, more) => before.or(more),
        };
        for word in words {
            if let Some(name) = word.strip_prefix("cl_") {
                asked.cluster = Some(name.to_owned());
            }
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STANDARD: &str = "1 10 5 100 4 100 -1 4 200 2048 1 1 1 1 -1 1 -1 -1";

    #[test]
    fn lines_of_both_kinds() {
        let check = |line: &str, expected: Option<TraceJob>| {
            assert_eq!(parse_job(line).unwrap(), expected, "{line}");
        };
        let job = TraceJob {
            submit_s: 10,
            wait_s: Some(5),
            run_s: 100,
            nodes: 1,
            processors_per_node: 4,
            memory_bytes_per_node: Some(4 * 2048 * 1024),
            cluster: None,
        };
        check(STANDARD, Some(job.clone()));
        check(
            "1 10 -1 99.6 -1 100 -1 4 200 -1 1 1 1 1 -1 1 -1 -1",
            Some(TraceJob {
                wait_s: None,
                memory_bytes_per_node: None,
                ..job.clone()
            }),
        );
        check(
            "0 10 5 100 64 1 1024 64 86400 8388608 1 62 1 1 -1 1 1 1 {1,1} q_1d 8:ppn=8:x86_64:cl_zegox#excl",
            Some(TraceJob {
                nodes: 8,
                processors_per_node: 8,
                memory_bytes_per_node: Some(1 << 20),
                cluster: Some("zegox".to_owned()),
                ..job
            }),
        );
        check(
            "4185 1359980916 1 -1359980917 1 1 1024 1 0 419430400 1 1229 1 1 -1 1 1 1 {1284} q_4d 1:ppn=1",
            None,
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let text = format!(
            "; Version: 2.2\n\n{STANDARD}\n1 2 3\n{}\n",
            STANDARD.replace("100", "soon")
        );
        let trace = parse_swf(&text);
        assert_eq!(trace.jobs.len(), 1);
        let said: Vec<String> = trace.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            said,
            [
                "line 4: 3 columns, where the format has 18, or 21 with node list, queue and what was asked for",
                "line 5: column 4, run time: `soon` is not a number",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([0-9a-z.:;{} -]{0,8} ?){0,40}\n?|.*") {
            parse_swf(&text);
        }
    }
}
