//! `/metrics`, in the text format of Prometheus.
//!
//! What has happened is counted in [`Metrics`]; what is so now is asked of the scheduler, in one
//! short question. Neither costs more with more jobs, runs or hosts than there are open.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use coordinator_core::Core;
use protocol::Now;
use protocol::api::ClusterStanding;
use serde_json::json;

use super::Api;
use super::describe::{Answer, Draft};
use super::error::ApiError;
use super::fleet;
use crate::clock::read_now;
use crate::cluster;
use crate::files::read_disk;
use crate::metrics::{Histogram, Metrics};
use crate::process;

/// Version 0.0.4 is what every scraper reads.
const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const STANDINGS: [(&str, ClusterStanding); 6] = [
    ("leads", ClusterStanding::Leads),
    ("cut_off", ClusterStanding::CutOff),
    ("follows", ClusterStanding::Follows),
    ("searches", ClusterStanding::Searches),
    ("waits", ClusterStanding::Waits),
    ("removed", ClusterStanding::Removed),
];

/// The metrics as text.
pub(super) struct Text(String);

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, MEDIA_TYPE)], self.0).into_response()
    }
}

impl Answer for Text {
    fn describe(draft: &mut Draft) {
        draft.answers("text/plain", json!({ "type": "string" }));
    }
}

/// What is so at this moment.
struct Present {
    leads: bool,
    clock_trusted: bool,
    jobs: usize,
    runs: BTreeMap<&'static str, u64>,
    shards: BTreeMap<&'static str, u64>,
    agents: BTreeMap<&'static str, u64>,
}

/// `GET /metrics`
pub(super) async fn show(State(api): State<Api>) -> Result<Text, ApiError> {
    let what = "reading the metrics";
    let asked = api
        .engine
        .ask_either(|core, now| core.map(|core| Present::of(core, now)))
        .await;
    let present = asked.map_err(|error| ApiError::asking(what, &error))?;
    let mut page = Page::default();
    page.write_lead(present.as_ref().is_some_and(|present| present.leads));
    page.write_group(&api);
    if let Some(present) = &present {
        let read = ledger::Reader::open_alerts_by_kind;
        let alerts = api.readers.read(what, read).await?;
        page.write_present(present, &alerts);
    }
    page.write_counts(&api.metrics);
    page.write_process(&api);
    Ok(Text(page.text))
}

impl Present {
    fn of(core: &Core, now: Now) -> Present {
        let set = core.working_set();
        let mut agents: BTreeMap<_, _> = fleet::STATES.iter().map(|state| (*state, 0)).collect();
        for host in core.hosts(now) {
            *agents.entry(fleet::word(host.standing)).or_default() += 1;
        }
        Present {
            leads: core.epoch().is_some(),
            clock_trusted: core.clock_verdict(now).may_fire(),
            jobs: set.jobs.len(),
            runs: set.tally().runs().collect(),
            shards: set.tally().shards().collect(),
            agents,
        }
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn write_lead(&mut self, leads: bool) {
        let name = "matins_leader";
        self.family(name, "gauge", "Whether this coordinator leads.");
        self.sample(name, &[], u64::from(leads));
    }

    /// How this machine takes part, and how it finds the others.
    fn write_group(&mut self, api: &Api) {
        let stands = api.lead.stands().standing;
        let name = "matins_standing";
        let help = "How this machine takes part in its control group: 1 for what it does.";
        self.family(name, "gauge", help);
        for (word, standing) in STANDINGS {
            let is_so = u64::from(standing == stands);
            self.sample(name, &[("standing", word)], is_so);
        }
        let Some(group) = api.lead.group() else {
            return;
        };
        let now = read_now();
        let certificate = api.certificate.borrow().clone();
        let seen = cluster::describe(&group, api.lead.stands(), None, None, &certificate, now);
        let voters = seen.members.iter().filter(|member| member.votes);
        let heard = voters.clone().filter(|member| member.reached).count();
        let behind = seen.members.iter().filter_map(|member| member.behind).max();
        let trouble = api.address_trouble.borrow().is_some();
        for (name, help, value) in [
            (
                "matins_voters",
                "Machines that vote in the control group.",
                voters.count() as u64,
            ),
            (
                "matins_voters_heard",
                "Those that this machine hears, itself among them.",
                heard as u64,
            ),
            (
                "matins_member_behind_entries",
                "Entries that the member lacks that lacks most, of those of which it is known.",
                behind.unwrap_or(0),
            ),
            (
                "matins_address_trouble",
                "Whether something keeps the leader's address from this machine.",
                u64::from(trouble),
            ),
            (
                "matins_certificate_until_seconds",
                "When this machine's certificate ends, in seconds since 1970.",
                (certificate.lifetime.until.0 / 1000).unsigned_abs(),
            ),
            (
                "matins_certificate_trouble",
                "Whether this machine's certificate was not renewed when that was tried last.",
                u64::from(certificate.trouble.is_some()),
            ),
        ] {
            self.family(name, "gauge", help);
            self.sample(name, &[], value);
        }
        if let Ok(disk) = read_disk(api.readers.directory()) {
            let name = "matins_disk_spare_bytes";
            let help = "What is left of the disk of the ledger.";
            self.family(name, "gauge", help);
            self.sample(name, &[], disk.spare_bytes);
        }
    }

    /// What only the coordinator that leads knows.
    fn write_present(&mut self, present: &Present, alerts: &BTreeMap<&'static str, u64>) {
        let gauges = [
            (
                "matins_clock_trusted",
                "Whether the wall clock is believed; nothing fires while it is not.",
                u64::from(present.clock_trusted),
            ),
            ("matins_jobs", "Jobs in force.", present.jobs as u64),
        ];
        for (name, help, value) in gauges {
            self.family(name, "gauge", help);
            self.sample(name, &[], value);
        }
        for (name, label, help, counts) in [
            (
                "matins_runs_open",
                "state",
                "Runs that are not final.",
                &present.runs,
            ),
            (
                "matins_shards_open",
                "state",
                "Shards of open runs: pending ones wait for a place, leased ones run.",
                &present.shards,
            ),
            (
                "matins_agents",
                "state",
                "Agents that ever attached.",
                &present.agents,
            ),
            (
                "matins_alerts_open",
                "kind",
                "Matters that somebody should see to.",
                alerts,
            ),
        ] {
            self.family(name, "gauge", help);
            for (value, count) in counts {
                self.sample(name, &[(label, value)], count);
            }
        }
    }

    fn write_counts(&mut self, metrics: &Metrics) {
        let name = "matins_commands_total";
        self.family(name, "counter", "Commands that the ledger has judged.");
        for (result, count) in [
            ("done", &metrics.commands_done),
            ("refused", &metrics.commands_refused),
        ] {
            self.sample(name, &[("result", result)], count.load(Ordering::Relaxed));
        }
        let name = "matins_executions_total";
        self.family(name, "counter", "Executions of runs that were admitted.");
        for (trigger, count) in metrics.executions.counts() {
            self.sample(name, &[("trigger", trigger.as_str())], count);
        }
        let name = "matins_runs_ended_total";
        self.family(name, "counter", "Runs that came to rest, by how.");
        for (state, count) in metrics.runs_ended.counts() {
            self.sample(name, &[("state", state.as_str())], count);
        }
        let name = "matins_attempts_ended_total";
        self.family(name, "counter", "Attempts that ended, by how.");
        for (outcome, count) in metrics.attempts_ended.counts() {
            self.sample(name, &[("outcome", outcome.as_str())], count);
        }
        for (name, help, count) in [
            (
                "matins_leases_granted_total",
                "Shards that were given to agents.",
                &metrics.leases_granted,
            ),
            (
                "matins_clock_steps_total",
                "Steps of the wall clock that were seen.",
                &metrics.clock_steps,
            ),
        ] {
            self.family(name, "counter", help);
            self.sample(name, &[], count.load(Ordering::Relaxed));
        }
        self.histogram(
            "matins_fire_lateness_seconds",
            "From a fire's time to the first lease of each of its shards.",
            &metrics.lateness,
        );
        self.histogram(
            "matins_commit_seconds",
            "Time to write a batch of commands to the disk.",
            &metrics.commit,
        );
        self.histogram(
            "matins_commit_batch_commands",
            "Commands in a batch.",
            &metrics.batch,
        );
    }

    fn write_process(&mut self, api: &Api) {
        let name = "matins_build_info";
        self.family(name, "gauge", "Which Matins this is; always 1.");
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("tzdata", jobs::tzdata_version()),
        ];
        self.sample(name, &labels, 1);
        let name = "matins_agent_connections";
        let help = "Connections of agents that are open here, whoever leads.";
        self.family(name, "gauge", help);
        self.sample(name, &[], api.roster.count());
        let name = "matins_ledger_bytes";
        self.family(name, "gauge", "Size of the ledger's files.");
        for (file, bytes) in api.readers.file_bytes() {
            self.sample(name, &[("file", file)], bytes);
        }
        for (name, kind, help, value) in process::read() {
            self.family(name, kind, help);
            self.sample(name, &[], value);
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Labels hold words of Matins' own: nothing in them needs to be escaped.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (i, (label, word)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{word}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let cumulative = histogram.cumulative();
        let bounds = histogram.bounds.iter().map(ToString::to_string);
        let bounds = bounds.chain(std::iter::once("+Inf".to_owned()));
        let bucket = format!("{name}_bucket");
        for (bound, count) in bounds.zip(&cumulative) {
            self.sample(&bucket, &[("le", &bound)], count);
        }
        self.sample(&format!("{name}_sum"), &[], histogram.sum());
        let count = cumulative.last().copied().unwrap_or_default();
        self.sample(&format!("{name}_count"), &[], count);
    }
}
