//! Jobs whose attempts write without a pause, and waiting for what they do.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use protocol::api;
use protocol::attempt::AttemptOutcome;
use protocol::{RunId, RunState, Token};

use crate::evidence::{self, Note, writer};
use crate::site::{PATIENCE, Site, agent_name};

/// A writer job; [`Writer::of`] is one that nothing is special about.
#[derive(Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) name: &'a str,
    /// By default only started by hand.
    pub(crate) schedule: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) misfire: &'a str,
    pub(crate) start_deadline: &'a str,
    pub(crate) shards: u32,
    /// How long one attempt writes.
    pub(crate) seconds: f64,
    pub(crate) takeover: &'a str,
    pub(crate) overlap: &'a str,
    /// Whether a second run does no harm.
    pub(crate) safe: bool,
    /// Ways of the writer that make it worse.
    pub(crate) ways: &'a [&'a str],
    /// Further lines of the manifest.
    pub(crate) further: &'a str,
}

impl<'a> Writer<'a> {
    pub(crate) fn of(name: &'a str) -> Writer<'a> {
        Writer {
            name,
            schedule: "0 0 1 1 *",
            dialect: "vixie",
            misfire: "{ policy: run_now, after: 10m }",
            start_deadline: "15m",
            shards: 4,
            seconds: 4.0,
            // The shortest that a manifest may ask for.
            takeover: "15s",
            overlap: "queue",
            safe: true,
            ways: &[],
            further: "",
        }
    }

    /// One that fires all through a trial: two short shards, whose leases outlive a change of leader.
    pub(crate) fn ticking(name: &'a str, schedule: &'a str) -> Writer<'a> {
        Writer {
            schedule,
            shards: 2,
            seconds: 0.5,
            takeover: "60s",
            ..Writer::of(name)
        }
    }

    /// How far its fires are apart, where it fires `@every` so many seconds.
    pub(crate) fn period_ms(&self) -> Result<i64> {
        let seconds = self.schedule.strip_prefix("@every ");
        let seconds = seconds.and_then(|rest| rest.strip_suffix('s'));
        let seconds: i64 = seconds.context("`@every` so many seconds")?.parse()?;
        Ok(seconds * 1_000)
    }

    pub(crate) fn manifest(&self, site: &Site) -> String {
        let repeatable = if self.safe {
            "{ safe: true, how: \"a newer attempt replaces what an older one wrote\" }"
        } else {
            "{ safe: false }"
        };
        let mut exec = vec![
            site.python.clone(),
            "-I".to_owned(),
            "-S".to_owned(),
            writer().to_string_lossy().into_owned(),
            site.path(""),
            self.seconds.to_string(),
        ];
        exec.extend(self.ways.iter().map(|&way| way.to_owned()));
        format!(
            "---\nname: {}\npurpose: test\nowner: test\nrepeatable: {repeatable}\n\
             schedule: {{ cron: \"{}\", timezone: Etc/UTC, dialect: {} }}\n\
             misfire: {}\noverlap: {}\nstart_deadline: {}\n\
             expected_duration: 5s\ntimeout: 10m\nshards: {}\ntakeover_after: {}\n\
             retry: {{ at_most: 5, backoff: [1s] }}\nrun: {{ exec: {exec:?} }}\n{}",
            self.name,
            self.schedule,
            self.dialect,
            self.misfire,
            self.overlap,
            self.start_deadline,
            self.shards,
            self.takeover,
            self.further,
        )
    }

    pub(crate) fn apply(&self, site: &Site) -> Result<()> {
        let file = format!("{}.yaml", self.name.replace('/', "-"));
        site.apply(&file, &self.manifest(site))
    }

    /// Puts it in force, starts a run by hand, and waits until every shard writes.
    pub(crate) fn run(&self, site: &mut Site) -> Result<()> {
        self.apply(site)?;
        site.matins(&["run", self.name, "--reason", "test"])?;
        let leaves_another = self
            .ways
            .iter()
            .any(|way| ["daemon", "hidden"].contains(way));
        let processes = 1 + usize::from(leaves_another);
        site.wait_for("every shard to write", |site| {
            let notes = evidence::notes(site)?;
            let writing = |shard| {
                let own = notes.iter().filter(|note| note.piece.job == self.name);
                own.filter(|n| n.piece.shard == shard && n.word == "accepted")
                    .map(|note| note.pid)
                    .collect::<BTreeSet<_>>()
            };
            Ok((0..self.shards).all(|shard| writing(shard).len() >= processes))
        })
    }
}

/// Every attempt that the ledger has not heard the end of, with its job and shard.
pub(crate) fn open_attempts(site: &Site) -> Result<Vec<(String, u32, api::Attempt)>> {
    let mut open = Vec::new();
    for run in site.runs()? {
        if run.ended_at.is_some() {
            continue;
        }
        let run: api::RunDetail = site.get(&format!("runs/{}", run.run))?;
        for shard in run.shard_list {
            let living = shard.attempts.into_iter().filter(|a| a.ended_at.is_none());
            open.extend(living.map(|a| (run.run.job.to_string(), shard.shard, a)));
        }
    }
    Ok(open)
}

/// Tokens that this agent holds now.
pub(crate) fn tokens_of(site: &Site, agent: &str) -> Result<Vec<Token>> {
    let open = open_attempts(site)?;
    let own = open
        .into_iter()
        .filter(|(.., a)| a.agent.to_string() == agent);
    Ok(own.map(|(.., attempt)| attempt.token).collect())
}

/// Processes that have written under one of these tokens and are alive.
pub(crate) fn living(site: &Site, tokens: &[Token]) -> Result<Vec<i32>> {
    let mut pids: Vec<i32> = evidence::notes(site)?
        .iter()
        .filter(|note| tokens.contains(&Token(note.token)))
        .map(|note| note.pid)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|&pid| is_writer(site, pid));
    Ok(pids)
}

/// Whether this pid is a writer of the site, and not by now somebody else.
fn is_writer(site: &Site, pid: i32) -> bool {
    crate::leftovers::processes(site.directory()).contains(&pid)
}

/// How many runs of a job have succeeded, of those after this one.
pub(crate) fn successes_after(site: &Site, job: &Writer, after: RunId) -> Result<usize> {
    let runs = site.runs()?;
    let own = runs.iter().filter(|run| run.job.to_string() == job.name);
    let done = own.filter(|run| run.run > after && run.state == RunState::Succeeded);
    Ok(done.count())
}

/// Waits until so many runs of a job that fires have succeeded.
pub(crate) fn wait_for_successes(site: &mut Site, job: &Writer, count: usize) -> Result<()> {
    site.wait_for("some of its runs to succeed", |site| {
        Ok(successes_after(site, job, RunId(0))? >= count)
    })
}

/// Two hosts, and on each of them two shards of a job that write. The tokens are host 1's.
pub(crate) fn two_hosts(job: &Writer) -> Result<(Site, Vec<Token>)> {
    let mut site = Site::new(2)?;
    site.start(2, 8)?;
    job.run(&mut site)?;
    let tokens = tokens_of(&site, &agent_name(1))?;
    ensure!(!tokens.is_empty(), "host 1 has no shard");
    Ok((site, tokens))
}

/// Everything succeeds, and no attempt was needed but the first.
pub(crate) fn ends_undisturbed(mut site: Site) -> Result<()> {
    site.wait_until_succeeded(PATIENCE)?;
    let evidence = site.evidence()?;
    println!("{}", evidence.summary());
    evidence.check_without_overlap()?;
    let attempts = evidence.attempts().count();
    ensure!(attempts == 4, "{attempts} attempts of 4 shards");
    site.close()
}

/// Waits until somebody writes under a token that is none of these, for each of their shards.
pub(crate) fn wait_for_successors(site: &mut Site, job: &str, tokens: &[Token]) -> Result<()> {
    site.wait_for("every shard to be taken over", |site| {
        let notes = evidence::notes(site)?;
        let of_job = |note: &&Note| note.piece.job == job;
        Ok(tokens.iter().all(|token| {
            let old = notes.iter().filter(of_job).find(|n| n.token == token.0);
            old.is_some_and(|old| {
                let mut newer = notes.iter().filter(|n| n.piece == old.piece);
                newer.any(|n| n.token > token.0 && n.word == "accepted")
            })
        }))
    })
}

/// What the ledger says of the attempt with this token.
pub(crate) fn attempt(site: &Site, token: Token) -> Result<api::Attempt> {
    let evidence = site.evidence()?;
    let mut all = evidence.attempts();
    let found = all.find(|(_, attempt)| attempt.token == token);
    let (_, attempt) = found.with_context(|| format!("no attempt {token}"))?;
    Ok(attempt.clone())
}

/// Waits until the ledger calls the attempt ended like this.
pub(crate) fn wait_for_outcome(
    site: &mut Site,
    token: Token,
    outcome: AttemptOutcome,
) -> Result<()> {
    let what = format!("{token} to be {}", outcome.as_str());
    site.wait_within(Duration::from_secs(60), &what, |site| {
        Ok(attempt(site, token)?.outcome == Some(outcome))
    })
}
