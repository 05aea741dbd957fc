//! What was seen: the material of every advice.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use profiles::classes::Classes;
use protocol::attempt::AttemptOutcome;
use protocol::host::HostFacts;
use protocol::{AgentName, ClassName, DurationMs, JobName, Label, ResourceName, RunId, WallMs};

use crate::scenario::Host;

/// Of some stretch of time.
#[derive(Clone, Debug)]
pub struct History {
    pub from: WallMs,
    pub to: WallMs,
    pub hosts: Vec<SeenHost>,
    pub jobs: Vec<SeenJob>,
    /// Runs that were under way while one of `jobs` was, of whatever job: those there and older ones.
    pub beside: Vec<(JobName, SeenRun)>,
    pub resources: BTreeMap<ResourceName, u32>,
    pub classes: Arc<Classes>,
}

#[derive(Clone, Debug)]
pub struct SeenHost {
    pub name: AgentName,
    pub slots: u32,
    pub labels: Vec<Label>,
    pub facts: HostFacts,
    /// Given work now: neither away nor held back.
    pub in_service: bool,
}

#[derive(Clone, Debug)]
pub struct SeenJob {
    /// In force.
    pub manifest: Arc<Manifest>,
    /// Of the version in force.
    pub shards: u32,
    /// Oldest first.
    pub runs: Vec<SeenRun>,
    /// Whether there are older ones in the same stretch of time, which were not looked at.
    pub has_older: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRun {
    pub run: RunId,
    pub fire_time: WallMs,
    /// Local time that it stands for; unset for a manual run.
    pub nominal: Option<String>,
    pub admitted: WallMs,
    /// Unset while it goes on.
    pub ended: Option<WallMs>,
    pub succeeded: bool,
    pub shards: u32,
    pub attempts: Vec<SeenAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenAttempt {
    pub host: AgentName,
    pub shard: u32,
    pub granted: WallMs,
    /// Of one that never began, when it was granted.
    pub started: WallMs,
    /// Of one that lives, when it was looked at.
    pub ended: WallMs,
    /// Unset while it lives.
    pub outcome: Option<AttemptOutcome>,
    pub cpu: DurationMs,
    pub memory_bytes_peak: u64,
    /// Of disks, reads and writes; unset where its host has not counted them.
    pub operations: Option<u64>,
    /// Whether some of them are not counted.
    pub operations_partial: bool,
    /// What the ledger keeps of it beside its row.
    pub text_bytes: u64,
}

impl SeenAttempt {
    pub fn lasted(&self) -> DurationMs {
        (self.ended - self.started).max(DurationMs::ZERO)
    }

    pub fn succeeded(&self) -> bool {
        self.outcome == Some(AttemptOutcome::Succeeded)
    }
}

impl SeenRun {
    /// Attempts that did what they were to do.
    pub fn done(&self) -> impl Iterator<Item = &SeenAttempt> {
        self.attempts.iter().filter(|attempt| attempt.succeeded())
    }

    /// From admission to the end, if it succeeded.
    pub fn lasted(&self) -> Option<DurationMs> {
        let ended = self.ended.filter(|_| self.succeeded)?;
        Some((ended - self.admitted).max(DurationMs::ZERO))
    }

    /// When its first attempt was granted.
    pub fn begun(&self) -> Option<WallMs> {
        self.attempts.iter().map(|attempt| attempt.granted).min()
    }

    /// When it had no attempt any more.
    pub fn done_at(&self) -> Option<WallMs> {
        self.attempts.iter().map(|attempt| attempt.ended).max()
    }

    /// What each shard took, whatever became of its attempts; in the order of the shards.
    pub fn taken(&self) -> Vec<DurationMs> {
        let mut each = vec![DurationMs::ZERO; self.shards as usize];
        for attempt in &self.attempts {
            if let Some(taken) = each.get_mut(attempt.shard as usize) {
                *taken = *taken + attempt.lasted();
            }
        }
        each
    }

    /// All that was done for it, one after the other.
    pub fn work(&self) -> DurationMs {
        self.done()
            .fold(DurationMs::ZERO, |sum, attempt| sum + attempt.lasted())
    }
}

impl SeenHost {
    /// The same host in a simulated night.
    pub(crate) fn simulated(&self) -> Host {
        Host {
            name: self.name.clone(),
            slots: self.slots,
            labels: self.labels.clone(),
            facts: self.facts.clone(),
            lost_at: None,
        }
    }

    /// The one class that it is counted under: what it is good for before what every host is. `-` of a
    /// host that is in none.
    pub fn kind(&self, classes: &Classes) -> String {
        let membership = classes.of(&self.facts);
        let names = membership.classes().map(ClassName::as_str);
        let names: Vec<String> = names
            .filter(|name| *name != "coordinator")
            .map(str::to_owned)
            .collect();
        let special = names.iter().find(|name| *name != "general");
        special
            .or(names.first())
            .map_or_else(|| "-".to_owned(), Clone::clone)
    }
}
