//! A manifest: what a job's owner hands over.
//!
//! It is read strictly. Some fields have no default, because the default is where incidents come
//! from; an unknown field is refused, because what nobody acts on looks like a promise. Every
//! problem is reported at once, with its place and with what to write instead.
//!
//! The same reader serves the ledger: a manifest's canonical JSON has the manifest's own form
//! with every default written out, and reading it back judges it again.

mod canonical;
mod changes;
mod command;
mod elsewhere;
mod form;
mod named;
mod needs;
mod params;
mod placeholder;
mod policy;
mod problem;
mod quoting;
mod read;
mod schema;
mod section;
mod source;
mod syntax;
mod values;
mod yaml;

use std::fmt;

use protocol::attempt::Limits;
use protocol::{DurationMs, JobName, WallMs};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::schedule::{Schedule, parse_local};
pub use changes::{FieldChange, manifest_changes};
pub use needs::show_milli;
pub use params::{ParamError, Params};
use placeholder::{Argument, Filling};
pub use policy::{
    After, Begins, CatchUp, Misfire, MisfirePolicy, Needs, Overlap, Previous, Serial, Shards, Which,
};
pub use problem::Problem;
use problem::Problems;
pub use schema::manifest_schema;
pub use source::FILE_BYTES_MAX;

/// A job as its owner describes it. Made only by [`parse_manifests`] and [`Manifest::from_json`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub name: JobName,
    /// The job's name until now; it keeps its identity and its past.
    pub renamed_from: Option<JobName>,
    pub purpose: String,
    /// Who is called when it needs a person.
    pub owner: String,
    /// Whether a second run does no harm.
    pub safe: bool,
    /// Why not; always there where `safe` is.
    pub how: Option<String>,
    schedule: Schedule,
    pub misfire: Misfire,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub serial: Serial,
    pub previous: Option<Previous>,
    /// Each job once.
    pub after: Vec<After>,
    pub expected_duration: DurationMs,
    /// Of one attempt of one shard.
    pub timeout: DurationMs,
    pub start_deadline: Option<DurationMs>,
    pub shards: Shards,
    /// Retries of each shard, at most 5.
    pub retry_at_most: u32,
    /// Wait before each retry, the last repeated; never empty.
    pub backoff: Vec<DurationMs>,
    /// Silence of a host after which its shards are started elsewhere.
    pub takeover_after: DurationMs,
    pub needs: Needs,
    /// 0 to 100; the higher one goes first.
    pub priority: u8,
    /// What one attempt may use of its host.
    pub limits: Limits,
    /// Values for the command line, which a run by hand may replace.
    pub params: Params,
    pub begins: Begins,
    /// The host's user as whom the program runs; `None` is the one whom the agent runs as.
    pub user: Option<String>,
    exec: Vec<Argument>,
}

/// What the placeholders of one shard's command line are filled with.
#[derive(Clone, Copy, Debug)]
pub struct FireContext<'a> {
    pub fire_time: WallMs,
    /// Nominal local times the fire stands for, as [`crate::Instant::nominal`]; empty for a
    /// manual run, which then counts as of the local time of `fire_time`.
    pub nominal: &'a [String],
    pub shard: u32,
    /// Of the run, for its version may leave the number to be computed.
    pub shards: u32,
    /// What this run was given instead of the manifest's own values.
    pub params: &'a Params,
}

/// Why stored JSON is not a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestJsonError {
    #[error("reading a manifest's JSON")]
    Json(#[from] serde_json::Error),
    #[error("judging a stored manifest: {}", Joined(.0))]
    Refused(Vec<Problem>),
}

/// Reads a file of manifests: YAML documents, one manifest each, with `---` between. Answers
/// with all of them or with everything that is wrong, in the order of the file.
pub fn parse_manifests(
    file_name: &str,
    yaml: impl AsRef<[u8]>,
) -> Result<Vec<Manifest>, Vec<Problem>> {
    let mut problems = Problems::of_file(file_name);
    let manifests = read::file(yaml.as_ref(), &mut problems);
    problems.or(manifests)
}

impl Manifest {
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Program and arguments as written, placeholders in place.
    pub fn exec(&self) -> impl Iterator<Item = &str> {
        self.exec.iter().map(Argument::text)
    }

    /// Program and arguments of one shard, placeholders filled. Never empty. Dates and
    /// `{nominal_time}` are of the oldest nominal time, or of the fire's local time where there
    /// is none.
    pub fn argv(&self, fire: &FireContext) -> Vec<String> {
        // What is no local time did not come from a schedule, and counts as none.
        let nominal = fire
            .nominal
            .first()
            .and_then(|text| parse_local(text))
            .unwrap_or_else(|| self.schedule.local(fire.fire_time));
        let filling = Filling {
            job: self.name.as_str(),
            fire_time: &fire.fire_time.to_rfc3339(),
            nominal,
            shard: fire.shard,
            shards: fire.shards,
            timezone: self.schedule.timezone(),
            params: [&self.params, fire.params],
        };
        self.exec
            .iter()
            .map(|argument| argument.fill(&filling))
            .collect()
    }

    /// Whether a run by hand may be given these values instead of the manifest's own.
    pub fn judge_params(&self, given: &Params) -> Result<(), ParamError> {
        params::judge(&self.params, given)
    }

    /// The canonical form: the same manifest, however it was written, gives the same text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text, numbers and lists are always JSON")
    }

    /// Reads the canonical form and judges it as a new manifest is judged.
    pub fn from_json(json: &str) -> Result<Manifest, ManifestJsonError> {
        Manifest::from_value(serde_json::from_str(json)?)
    }

    fn from_value(json: serde_json::Value) -> Result<Manifest, ManifestJsonError> {
        let mut problems = Problems::of_file("");
        let manifest = read::stored(json, &mut problems);
        let manifest = problems.or(manifest).map_err(ManifestJsonError::Refused)?;
        Ok(manifest.expect("what has no problem is a manifest"))
    }
}

impl<'de> Deserialize<'de> for Manifest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Manifest, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        Manifest::from_value(json).map_err(D::Error::custom)
    }
}

/// Problems one after the other on one line.
struct Joined<'a>(&'a [Problem]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let between = if i == 0 { "" } else { " | " };
            write!(f, "{between}{problem}")?;
        }
        Ok(())
    }
}
