//! People and programs that use a site while it is struck: they pause, cancel, run again, answer,
//! drain, look and go away in the middle of an answer. A coordinator that is away is no fault of
//! theirs; any other answer must be a yes or a refusal that explains itself.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use protocol::api::{Alert, ErrorBody, Run, Status};
use protocol::{RunId, RunState};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::load::{CHURN, churn_manifest};
use crate::client::{Answer, Ask, Client};
use crate::rng::Rng;
use crate::site::agent_name;

/// What was asked for, and how often it was granted, refused and not heard.
pub(crate) type Tallies = BTreeMap<&'static str, [u32; 3]>;

const GRANTED: usize = 0;
const REFUSED: usize = 1;
const UNHEARD: usize = 2;

pub(crate) struct People {
    client: Client,
    rng: Rng,
    hosts: u32,
    jobs: Vec<&'static str>,
    undo: Vec<(Instant, Undo)>,
    pub(crate) tallies: Tallies,
    /// How often somebody wished that a run, or a part of it, be done again.
    pub(crate) asked: BTreeMap<RunId, usize>,
}

enum Undo {
    Resume(&'static str),
    Uncordon(String),
}

/// Ends what others do when it is left, by whatever way.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What people do, as they see it.
#[derive(Clone, Copy)]
enum Deed {
    Run,
    Cancel,
    Rerun,
    Redo,
    Pause,
    /// A host is cordoned or drained.
    Withdraw,
    Churn,
    ClearAlert,
}

const DEEDS: &[Deed] = &[
    Deed::Run,
    Deed::Cancel,
    Deed::Cancel,
    Deed::Rerun,
    Deed::Redo,
    Deed::Pause,
    Deed::Withdraw,
    Deed::Withdraw,
    Deed::Churn,
    Deed::ClearAlert,
];

impl People {
    pub(crate) fn new(client: Client, rng: Rng, hosts: u32, jobs: Vec<&'static str>) -> People {
        People {
            client,
            rng,
            hosts,
            jobs,
            undo: Vec::new(),
            tallies: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// People meddle and programs read, with random moments of their own, while this is done. What
    /// programs got to read.
    pub(crate) fn while_in_use(
        &mut self,
        client: Client,
        rng: Rng,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<Tallies> {
        let over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let meddling = scope.spawn(move || self.meddle(over));
            let reading = scope.spawn(move || read_all(&client, rng, over));
            let acted = {
                let _over = Over(over);
                act()
            };
            let met = meddling.join().expect("it does not panic");
            let read = reading.join().expect("it does not panic");
            acted.and(met).and(read)
        })
    }

    /// Until it is said that it is over.
    pub(crate) fn meddle(&mut self, over: &AtomicBool) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(self.rng.between(300, 2_000) as u64));
            self.undo_due(Instant::now())?;
            let verdict = self.rng.pick(&["retry", "failed"]);
            self.confirm(verdict)?;
            self.do_something()?;
        }
        Ok(())
    }

    fn do_something(&mut self) -> Result<()> {
        let job = self.rng.pick(&self.jobs);
        let reason = json!({ "by": "soak", "reason": "test" });
        let until = Instant::now() + Duration::from_secs(self.rng.between(3, 12) as u64);
        match self.rng.pick(DEEDS) {
            Deed::Run => {
                self.post("run", &format!("jobs/{job}/runs"), &reason)?;
            }
            Deed::Cancel => self.pick_run("cancel", |run| run.ended_at.is_none())?,
            Deed::Rerun => self.pick_run("rerun", |run| {
                [RunState::Cancelled, RunState::Failed].contains(&run.state)
            })?,
            Deed::Redo => self.pick_run("redo", |run| run.state == RunState::Succeeded)?,
            Deed::Pause => {
                self.undo.push((until, Undo::Resume(job)));
                self.post("pause", &format!("jobs/{job}/pause"), &reason)?;
            }
            Deed::Withdraw if !self.undo.iter().any(|(_, undo)| undo.is_host()) => {
                let agent = agent_name(self.rng.between(1, self.hosts.into()) as u32);
                let now = self.rng.one_in(2);
                self.undo.push((until, Undo::Uncordon(agent.clone())));
                if self.rng.one_in(3) {
                    self.post("cordon", &format!("agents/{agent}/cordon"), &reason)?;
                } else {
                    let drain = json!({ "by": "soak", "reason": "test", "now": now });
                    self.post("drain", &format!("agents/{agent}/drain"), &drain)?;
                }
            }
            Deed::Withdraw => {}
            Deed::Churn => {
                let path = format!("/api/v1/jobs/{CHURN}");
                if self.rng.one_in(2) {
                    let put = json!({ "by": "soak", "manifest": churn_manifest() });
                    self.ask("put", &path, Ask::Put(&put))?;
                } else {
                    self.ask("delete", &path, Ask::Delete(&json!({ "by": "soak" })))?;
                }
            }
            Deed::ClearAlert => {
                let alerts: Vec<Alert> = self.look("alerts", "alerts")?;
                if !alerts.is_empty() {
                    let id = alerts[self.rng.index(alerts.len())].id;
                    self.post("clear", &format!("alerts/{id}/clear"), &reason)?;
                }
            }
        }
        Ok(())
    }

    /// Does this to one of the newest runs of which it makes sense.
    fn pick_run(&mut self, verb: &'static str, fits: impl Fn(&Run) -> bool) -> Result<()> {
        let mut runs: Vec<Run> = self.look("runs", "runs?limit=200")?;
        runs.retain(|run| fits(run));
        if runs.is_empty() {
            return Ok(());
        }
        let run = runs[self.rng.index(runs.len())].run;
        if verb != "cancel" {
            *self.asked.entry(run).or_default() += 1;
        }
        let reason = json!({ "by": "soak", "reason": "test" });
        self.post(verb, &format!("runs/{run}/{verb}"), &reason)?;
        Ok(())
    }

    /// Answers for every run that waits for a person.
    fn confirm(&mut self, verdict: &str) -> Result<usize> {
        let path = "runs?state=needs_confirmation&limit=100";
        let runs: Vec<Run> = self.look("runs", path)?;
        for run in &runs {
            if verdict == "retry" {
                *self.asked.entry(run.run).or_default() += 1;
            }
            let answer = json!({ "verdict": verdict, "by": "soak", "reason": "test" });
            self.post("confirm", &format!("runs/{}/confirm", run.run), &answer)?;
        }
        Ok(runs.len())
    }

    /// Takes back all that was only for a while, and leaves every job running or paused.
    pub(crate) fn leave(&mut self, paused: bool) -> Result<()> {
        let whatever = Instant::now() + Duration::from_secs(3_600);
        self.ask_until_granted("the end of what was for a while", |people| {
            people.undo_due(whatever)?;
            Ok(people.undo.is_empty())
        })?;
        let (verb, body) = if paused {
            ("pause", json!({ "by": "soak", "reason": "test" }))
        } else {
            ("resume", json!({ "by": "soak" }))
        };
        for job in self.jobs.clone() {
            self.ask_until_granted(verb, |people| {
                people.post(verb, &format!("jobs/{job}/{verb}"), &body)
            })?;
        }
        self.ask_until_granted("the end of the job that comes and goes", |people| {
            let delete = json!({ "by": "soak" });
            let path = format!("/api/v1/jobs/{CHURN}");
            let answer = people.ask("delete", &path, Ask::Delete(&delete))?;
            Ok(answer.is_some_and(|answer| answer.is_success() || answer.status == 404))
        })
    }

    /// Waits until no run is open, and answers for those that ask.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.ask_until_granted("every run to be final", |people| {
            people.confirm("failed")?;
            let status: Option<Status> = people.client.get("status").ok();
            Ok(status.is_some_and(|status| status.open_runs == 0))
        })
    }

    fn ask_until_granted(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut People) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        while !done(self)? {
            ensure!(
                begun.elapsed() < SETTLED_WITHIN,
                "waited in vain for {what}"
            );
            sleep(Duration::from_millis(250));
        }
        Ok(())
    }

    /// What was not heard is asked again next time.
    fn undo_due(&mut self, now: Instant) -> Result<()> {
        let by = json!({ "by": "soak" });
        for (at, undo) in std::mem::take(&mut self.undo) {
            let done = at <= now
                && match &undo {
                    Undo::Resume(job) => self.post("resume", &format!("jobs/{job}/resume"), &by)?,
                    Undo::Uncordon(agent) => {
                        self.post("uncordon", &format!("agents/{agent}/uncordon"), &by)?
                    }
                };
            if !done {
                self.undo.push((at, undo));
            }
        }
        Ok(())
    }

    fn post(&mut self, what: &'static str, path: &str, body: &serde_json::Value) -> Result<bool> {
        let answer = self.ask(what, &format!("/api/v1/{path}"), Ask::Post(body))?;
        Ok(answer.is_some_and(|answer| answer.is_success()))
    }

    fn look<T: DeserializeOwned + Default>(&mut self, what: &'static str, path: &str) -> Result<T> {
        read(self.ask(what, &format!("/api/v1/{path}"), Ask::Get)?)
    }

    fn ask(&mut self, what: &'static str, path: &str, ask: Ask<'_>) -> Result<Option<Answer>> {
        judge(&mut self.tallies, what, self.client.ask(path, ask))
    }
}

/// A coordinator that was stopped for its longest goes on with a line of work.
const SETTLED_WITHIN: Duration = Duration::from_secs(240);

impl Undo {
    fn is_host(&self) -> bool {
        matches!(self, Undo::Uncordon(_))
    }
}

/// Nothing is heard of a coordinator that is away; one that is there never fails by itself.
fn judge(
    tallies: &mut Tallies,
    what: &'static str,
    answer: Result<Answer>,
) -> Result<Option<Answer>> {
    let tally = tallies.entry(what).or_default();
    let Ok(answer) = answer else {
        tally[UNHEARD] += 1;
        return Ok(None);
    };
    match answer.status {
        200..300 => tally[GRANTED] += 1,
        503 => tally[UNHEARD] += 1,
        400 | 404 | 409 => {
            let body: ErrorBody = serde_json::from_str(&answer.text)?;
            ensure!(!body.remedy.is_empty(), "{what}: no remedy: {body:?}");
            tally[REFUSED] += 1;
        }
        _ => bail!("{what}: {answer:?}"),
    }
    Ok(Some(answer))
}

/// What a yes says; nothing where there was none.
fn read<T: DeserializeOwned + Default>(answer: Option<Answer>) -> Result<T> {
    match answer {
        Some(answer) if answer.is_success() => Ok(serde_json::from_str(&answer.text)?),
        _ => Ok(T::default()),
    }
}

/// Reads everything there is to read, and leaves in the middle of what goes on, until it is over.
pub(crate) fn read_all(client: &Client, mut rng: Rng, over: &AtomicBool) -> Result<Tallies> {
    let mut tallies = Tallies::new();
    while !over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(rng.between(50, 400) as u64));
        for (what, path) in [
            ("metrics", "/metrics"),
            ("ready", "/readyz"),
            ("jobs", "/api/v1/jobs"),
            ("agents", "/api/v1/agents"),
            ("audit", "/api/v1/audit?limit=20"),
        ] {
            judge(&mut tallies, what, client.ask(path, Ask::Get))?;
        }
        let newest = client.ask("/api/v1/runs?limit=30", Ask::Get);
        let newest: Vec<Run> = read(judge(&mut tallies, "runs", newest)?)?;
        let Some(run) = newest.get(rng.index(newest.len().max(1))) else {
            continue;
        };
        let path = format!("/api/v1/runs/{}/shards/0/log", run.run);
        if rng.one_in(2) {
            // An output may be gone, and a host away.
            let log = client.ask(&path, Ask::Get);
            let heard = log.is_ok_and(|answer| answer.is_success());
            tallies.entry("log").or_default()[if heard { GRANTED } else { UNHEARD }] += 1;
        } else {
            let heard = leave_in_the_middle(client, &format!("{path}?follow=true")).is_ok();
            tallies.entry("follow").or_default()[if heard { GRANTED } else { UNHEARD }] += 1;
        }
    }
    Ok(tallies)
}

/// Begins to follow an output, and goes away after its first words.
fn leave_in_the_middle(client: &Client, path: &str) -> Result<()> {
    let mut answer = client.begin(path, Ask::Get)?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    let mut some = [0; 512];
    let read = answer.body_mut().as_reader().read(&mut some)?;
    ensure!(read > 0, "nothing was written");
    Ok(())
}
