//! `matins get`: lists.

use std::fmt::Write;

use protocol::api::{
    Agent, AgentDetail, Alert, AuditEntry, HostSummary, Job, JobDetail, Resource, Run,
};
use protocol::{AgentName, JobName, WallMs};

use crate::amounts::{rough, rough_us, size};
use crate::args::{Get, Limit, Listing};
use crate::client::Client;
use crate::clock::to_the_second;
use crate::commands::describe::host::thousandths;
use crate::commands::{agent_path, cut_off, path_of, shards_done, took};
use crate::failure::Failure;
use crate::output::{Page, Room};
use crate::paint::{Tone, toned};
use crate::text::{LINE_WIDTH, Table, printable, wrap};

pub(crate) fn get(what: &Get) -> Result<(), Failure> {
    match what {
        Get::Jobs {
            namespace,
            paused,
            limit,
            listing,
        } => {
            let mut query = Query::default();
            query.add("namespace", namespace.as_ref());
            query.add("paused", paused.then_some(true));
            show(listing, |client| jobs(client, listing, &query, *limit))
        }
        Get::Runs {
            job,
            namespace,
            agent,
            from,
            to,
            state,
            limit,
            listing,
        } => {
            let mut query = Query::default();
            query.add("job", job.as_ref());
            query.add("namespace", namespace.as_ref());
            query.add("agent", agent.as_ref());
            query.add("from", from.map(WallMs::to_rfc3339));
            query.add("to", to.map(WallMs::to_rfc3339));
            query.add("state", state.as_ref());
            show(listing, |client| {
                let rows = limit.rows as usize;
                let (runs, more) = client.list("/api/v1/runs", &query.0, rows)?;
                if runs.is_empty() {
                    see_that_they_exist(client, job.as_ref(), agent.as_ref())?;
                }
                let page = list(listing, &runs, runs_table, "no runs");
                Ok(say_where_cut_off(page, listing, runs.len(), more))
            })
        }
        Get::Agents { listing } => show(listing, |client| {
            let agents: Vec<Agent> = client.list_all("/api/v1/agents", &[])?;
            let none = "no agents: none has ever attached";
            Ok(list(listing, &agents, agents_table, none))
        }),
        Get::Alerts {
            job,
            namespace,
            kind,
            all,
            limit,
            listing,
        } => {
            let mut query = Query::default();
            query.add("job", job.as_ref());
            query.add("namespace", namespace.as_ref());
            query.add("kind", kind.as_ref());
            query.add("all", all.then_some(true));
            let none = if *all {
                "no alerts"
            } else {
                "no open alerts; --all shows those that are over too"
            };
            show(listing, |client| {
                let rows = limit.rows as usize;
                let (alerts, more) = client.list("/api/v1/alerts", &query.0, rows)?;
                if alerts.is_empty() {
                    see_that_they_exist(client, job.as_ref(), None)?;
                }
                let page = list(listing, &alerts, alerts_text, none);
                Ok(say_where_cut_off(page, listing, alerts.len(), more))
            })
        }
        Get::Audit {
            job,
            run,
            agent,
            by,
            limit,
            listing,
        } => {
            let mut query = Query::default();
            query.add("job", job.as_ref());
            query.add("run", *run);
            query.add("agent", agent.as_ref());
            query.add("by", by.as_ref());
            show(listing, |client| {
                let rows = limit.rows as usize;
                let (entries, more) = client.list("/api/v1/audit", &query.0, rows)?;
                if entries.is_empty() {
                    see_that_they_exist(client, job.as_ref(), agent.as_ref())?;
                }
                let none = "nothing: no person has done anything of this kind";
                let page = list(listing, &entries, audit_table, none);
                Ok(say_where_cut_off(page, listing, entries.len(), more))
            })
        }
        Get::Resources { listing } => show(listing, |client| {
            let resources: Vec<Resource> = client.list_all("/api/v1/resources", &[])?;
            let none = "no resources: make one with `matins resource set NAME CAPACITY`";
            Ok(list(listing, &resources, resources_table, none))
        }),
    }
}

/// What is asked for beside the path.
#[derive(Default)]
struct Query(Vec<(&'static str, String)>);

impl Query {
    fn add(&mut self, name: &'static str, value: Option<impl ToString>) {
        self.0.extend(value.map(|value| (name, value.to_string())));
    }
}

fn show(listing: &Listing, look: impl Fn(&Client) -> Result<Page, Failure>) -> Result<(), Failure> {
    let target = &listing.asking.target;
    // Found anew each time: a coordinator that was started again has another address.
    listing.watching.show(|| look(&target.find()?))
}

/// Where nothing was found: that there is no such job or agent at all is no answer of "none". A job
/// that was deleted is still known by its runs.
fn see_that_they_exist(
    client: &Client,
    job: Option<&JobName>,
    agent: Option<&AgentName>,
) -> Result<(), Failure> {
    if let Some(job) = job {
        let query = [("job", job.to_string())];
        let (runs, _) = client.list::<Run>("/api/v1/runs", &query, 1)?;
        if runs.is_empty() {
            client.get::<JobDetail>(&path_of(job), &[])?;
        }
    }
    if let Some(agent) = agent {
        client.get::<AgentDetail>(&agent_path(agent), &[])?;
    }
    Ok(())
}

fn list<T: serde::Serialize>(
    listing: &Listing,
    rows: &[T],
    for_people: impl FnOnce(&[T], Room) -> String,
    none: &str,
) -> Page {
    let format = listing.asking.output;
    let page = format.page(&rows, |room| match rows {
        [] => String::new(),
        rows => for_people(rows, room),
    });
    if rows.is_empty() {
        page.saying(format, none)
    } else {
        page
    }
}

fn say_where_cut_off(page: Page, listing: &Listing, rows: usize, more: bool) -> Page {
    if !more {
        return page;
    }
    page.saying(listing.asking.output, cut_off(rows))
}

fn jobs(client: &Client, listing: &Listing, query: &Query, limit: Limit) -> Result<Page, Failure> {
    let (jobs, more) = client.list::<Job>("/api/v1/jobs", &query.0, limit.rows as usize)?;
    let format = listing.asking.output;
    let none = if query.0.is_empty() {
        "no jobs: apply some with `matins apply -f FILE|DIR`"
    } else {
        "no such jobs"
    };
    let mut page = list(listing, &jobs, jobs_table, none);
    for job in &jobs {
        if let Some(problem) = &job.problem {
            page = page.saying(format, format!("{}: {problem}", job.job));
        }
    }
    Ok(say_where_cut_off(page, listing, jobs.len(), more))
}

fn jobs_table(jobs: &[Job], room: Room) -> String {
    let mut table = match room {
        Room::Columns80 => Table::new(&["~JOB", "~SCHEDULE", "NEXT FIRE", "=LAST RUN"]),
        Room::Endless => Table::new(&[
            "JOB",
            "SCHEDULE",
            "NEXT FIRE",
            "=LAST RUN",
            "ZONE",
            "VERSION",
            "OWNER",
            "PAUSED",
            "PURPOSE",
        ]),
    };
    for job in jobs {
        let next = match (&job.paused, job.next_fire) {
            (Some(_), _) => "paused".to_owned(),
            (None, next) => next.map_or_else(String::new, WallMs::to_rfc3339),
        };
        let last = job.last_run.as_ref().map_or_else(String::new, |run| {
            format!("{} {}", run.state, shards_done(run))
        });
        let mut row = vec![job.job.to_string(), job.schedule.clone(), next, last];
        if room == Room::Endless {
            let paused = job.paused.as_ref();
            row.extend([
                job.timezone.clone(),
                job.version.to_string(),
                job.owner.clone(),
                paused.map_or_else(String::new, |paused| {
                    format!("{} by {}: {}", paused.at, paused.by, paused.reason)
                }),
                job.purpose.clone(),
            ]);
        }
        table.row(row);
    }
    table.render_in(room)
}

fn memory(bytes: i64) -> String {
    size(bytes.unsigned_abs())
}

/// What it stores on, and how well it keeps its word: `ssd A`.
fn disk_of(host: &HostSummary) -> Option<String> {
    let disk = host.disk.clone()?;
    Some(match &host.fsync_grade {
        Some(grade) => format!("{disk} {grade}"),
        None => disk,
    })
}

/// Of one thread and of all: `1000, all 1890`.
fn score_of(host: &HostSummary) -> Option<String> {
    let (single, all) = (host.cpu_score_single?, host.cpu_score_all?);
    Some(format!("{single}, all {all}"))
}

fn agents_table(agents: &[Agent], room: Room) -> String {
    let mut table = match room {
        Room::Columns80 => Table::new(&[
            "~AGENT", "=STATE", "=HEALTH", "IN USE", "CPU", "MEMORY", "DISK", "~LABELS",
        ]),
        Room::Endless => Table::new(&[
            "AGENT",
            "=STATE",
            "=HEALTH",
            "IN USE",
            "CPU",
            "MEMORY",
            "DISK",
            "LABELS",
            "ID",
            "PROFILE",
            "REGISTERED",
            "SCORE",
            "BANDWIDTH",
            "SYNC P99",
            "WRITES/S",
            "PROBES WRITE",
            "WHY",
        ]),
    };
    for agent in agents {
        let host = agent.host.as_ref();
        let cell = |of: fn(&HostSummary) -> Option<String>| host.and_then(of).unwrap_or_default();
        let mut row = vec![
            agent.agent.to_string(),
            agent.state.clone(),
            cell(|host| host.health.clone()),
            format!("{}/{}", agent.leased, agent.slots),
            cell(|host| host.cpu_usable_milli.map(thousandths)),
            cell(|host| host.memory_usable_bytes.map(memory)),
            cell(disk_of),
            agent.labels.join(", "),
        ];
        if room == Room::Endless {
            row.extend([
                agent.id.to_string(),
                cell(|host| Some(host.generation.to_string())),
                cell(|host| Some(to_the_second(host.registered_at).to_string())),
                cell(score_of),
                cell(|host| Some(format!("{}/s", memory(host.memory_bandwidth_bytes_per_s?)))),
                cell(|host| host.fsync_p99_us.map(rough_us)),
                cell(|host| host.random_write_iops.map(|iops| iops.to_string())),
                cell(|host| Some(format!("{}/year", memory(host.probe_bytes_per_year?)))),
                agent.reason.clone().unwrap_or_default(),
            ]);
        }
        table.row(row);
    }
    table.render_in(room)
}

fn runs_table(runs: &[Run], room: Room) -> String {
    let mut table = match room {
        Room::Columns80 => Table::new(&["RUN", "FIRE TIME", "=STATE", "DONE", "TOOK", "~JOB"]),
        Room::Endless => Table::new(&[
            "RUN",
            "FIRE TIME",
            "=STATE",
            "DONE",
            "TOOK",
            "JOB",
            "TRIGGER",
            "VERSION",
            "LATE",
            "ENDED",
            "REASON",
        ]),
    };
    for run in runs {
        let mut row = vec![
            run.run.to_string(),
            run.fire_time.to_rfc3339(),
            run.state.to_string(),
            shards_done(run),
            took(run),
            run.job.to_string(),
        ];
        if room == Room::Endless {
            row.extend([
                run.trigger.as_str().to_owned(),
                run.version.to_string(),
                rough(run.admitted_at - run.fire_time),
                run.ended_at.map_or_else(String::new, WallMs::to_rfc3339),
                run.reason.clone().unwrap_or_default(),
            ]);
        }
        table.row(row);
    }
    table.render_in(room)
}

fn audit_table(entries: &[AuditEntry], room: Room) -> String {
    let mut table = match room {
        Room::Columns80 => Table::new(&["AT", "BY", "~WHAT", "~TO", "~WHY"]),
        Room::Endless => Table::new(&["AT", "BY", "WHAT", "TO", "WHY", "FROM"]),
    };
    for entry in entries {
        let to = [
            entry.job.as_ref().map(ToString::to_string),
            entry.run.map(|run| run.to_string()),
            entry.agent.as_ref().map(ToString::to_string),
        ];
        let to: Vec<String> = to.into_iter().flatten().collect();
        let mut row = vec![
            to_the_second(entry.at).to_rfc3339(),
            entry.by.clone(),
            entry.action.clone(),
            to.join(" "),
            entry.reason.clone().unwrap_or_default(),
        ];
        if room == Room::Endless {
            row.push(entry.from.clone().unwrap_or_default());
        }
        table.row(row);
    }
    table.render_in(room)
}

pub(crate) fn resources_table(resources: &[Resource], room: Room) -> String {
    let mut table = Table::new(&["~RESOURCE", "CAPACITY", "IN USE", "FREE"]);
    for resource in resources {
        table.row(vec![
            resource.resource.clone(),
            resource.capacity.to_string(),
            resource.in_use.to_string(),
            // Nothing is taken away where the capacity was lowered below what is held.
            resource
                .capacity
                .saturating_sub(resource.in_use)
                .to_string(),
        ]);
    }
    table.render_in(room)
}

/// An alert is a sentence: it gets lines of its own below what it is about.
fn alerts_text(alerts: &[Alert], room: Room) -> String {
    let width = match room {
        Room::Columns80 => LINE_WIDTH - 2,
        Room::Endless => usize::MAX,
    };
    let mut text = String::new();
    for alert in alerts {
        let tone = match alert.cleared_at {
            None => Tone::Bad,
            Some(_) => Tone::Faint,
        };
        let about = [
            Some(toned(&alert.kind, Some(tone))),
            alert.run.map(|run| run.to_string()),
            alert.job.as_ref().map(ToString::to_string),
            alert.agent.as_ref().map(ToString::to_string),
        ];
        let about: Vec<String> = about.into_iter().flatten().collect();
        let _ = writeln!(text, "{}  {}  {}", alert.at, alert.id, about.join("  "));
        for line in wrap(&printable(&alert.text), width) {
            let _ = writeln!(text, "  {line}");
        }
        for line in history(alert) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// How often it was raised, and when it was over.
fn history(alert: &Alert) -> Vec<String> {
    let again = match (alert.count, alert.last_at) {
        (2.., Some(last)) => Some(format!("raised {} times, last at {last}", alert.count)),
        _ => None,
    };
    let over = alert.cleared_at.map(|at| match &alert.cleared_by {
        Some(by) => format!("cleared by {} at {at}", printable(by)),
        None => format!("over at {at}"),
    });
    [again, over].into_iter().flatten().collect()
}
