//! `matins get`: lists.

use std::fmt::Write;

use clap::ValueEnum;
use protocol::WallMs;
use protocol::api::{Agent, Alert, Job, Run};

use crate::args::{Asking, Get, RunState};
use crate::commands::{shards_done, took};
use crate::failure::Failure;
use crate::output::{Format, print, print_json, talk};
use crate::text::{LINE_WIDTH, Table, printable, wrap};

/// Most alerts that can be asked for.
const ALERTS_MAX: u32 = 1000;

pub(crate) fn get(what: &Get) -> Result<(), Failure> {
    match what {
        Get::Jobs { asking } => jobs(asking),
        Get::Runs {
            job,
            state,
            limit,
            asking,
        } => {
            let mut query = vec![("limit", limit.to_string())];
            if let Some(job) = job {
                query.push(("job", job.to_string()));
            }
            if let Some(state) = state {
                query.push(("state", state_word(*state)));
            }
            let runs: Vec<Run> = asking.target.find()?.get("/api/v1/runs", &query)?;
            match asking.output {
                Format::Json => print_json(&runs),
                Format::Table => show(&runs_table(&runs), "no runs"),
            }
        }
        Get::Agents { asking } => agents(asking),
        Get::Alerts { job, limit, asking } => {
            // Those of one job are chosen here, from as many as there are to have.
            let asked = if job.is_some() { ALERTS_MAX } else { *limit };
            let query = [("limit", asked.to_string())];
            let mut alerts: Vec<Alert> = asking.target.find()?.get("/api/v1/alerts", &query)?;
            alerts.retain(|alert| job.is_none() || alert.job == *job);
            alerts.truncate(*limit as usize);
            match asking.output {
                Format::Json => print_json(&alerts),
                Format::Table if alerts.is_empty() => {
                    talk("no alerts");
                    Ok(())
                }
                Format::Table => print(&alerts_text(&alerts)),
            }
        }
    }
}

fn state_word(state: RunState) -> String {
    let value = state.to_possible_value();
    value
        .expect("no state is left out of the values")
        .get_name()
        .to_owned()
}

fn jobs(asking: &Asking) -> Result<(), Failure> {
    let jobs: Vec<Job> = asking.target.find()?.get("/api/v1/jobs", &[])?;
    if asking.output == Format::Json {
        return print_json(&jobs);
    }
    let mut table = Table::new(&["~JOB", "~SCHEDULE", "NEXT FIRE", "LAST RUN"]);
    for job in &jobs {
        table.row(vec![
            job.job.to_string(),
            job.schedule.clone(),
            job.next_fire.map_or_else(String::new, WallMs::to_rfc3339),
            job.last_run.as_ref().map_or_else(String::new, |run| {
                format!("{} {}", run.state, shards_done(run))
            }),
        ]);
    }
    show(
        &table,
        "no jobs: apply some with `matins apply -f FILE|DIR`",
    )?;
    for job in &jobs {
        if let Some(problem) = &job.problem {
            talk(&format!("{}: {problem}", job.job));
        }
    }
    Ok(())
}

fn agents(asking: &Asking) -> Result<(), Failure> {
    let agents: Vec<Agent> = asking.target.find()?.get("/api/v1/agents", &[])?;
    if asking.output == Format::Json {
        return print_json(&agents);
    }
    let mut table = Table::new(&["~AGENT", "STATE", "SLOTS", "IN USE"]);
    for agent in &agents {
        table.row(vec![
            agent.agent.to_string(),
            agent.state.clone(),
            agent.slots.to_string(),
            agent.leased.to_string(),
        ]);
    }
    show(&table, "no agents: none has ever attached")
}

fn runs_table(runs: &[Run]) -> Table {
    let mut table = Table::new(&["RUN", "FIRE TIME", "STATE", "DONE", "TOOK", "~JOB"]);
    for run in runs {
        table.row(vec![
            run.run.to_string(),
            run.fire_time.to_rfc3339(),
            run.state.clone(),
            shards_done(run),
            took(run),
            run.job.to_string(),
        ]);
    }
    table
}

/// An alert is a sentence: it gets lines of its own below what it is about.
fn alerts_text(alerts: &[Alert]) -> String {
    let mut text = String::new();
    for alert in alerts {
        let run = alert.run.map(|run| run.to_string());
        let job = alert.job.as_ref().map(ToString::to_string);
        let about: Vec<String> = [Some(alert.kind.clone()), run, job]
            .into_iter()
            .flatten()
            .collect();
        let _ = writeln!(text, "{}  {}", alert.at, about.join("  "));
        for line in wrap(&printable(&alert.text), LINE_WIDTH - 2) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn show(table: &Table, none: &str) -> Result<(), Failure> {
    if table.is_empty() {
        talk(none);
        return Ok(());
    }
    print(&table.render())
}
