//! Rows of the working set, as types that cannot hold nonsense.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use protocol::RunState;
use protocol::attempt::Trigger;
use protocol::host::ProfileDigest;
use protocol::message::Incarnation;
use protocol::{
    AgentId, AgentName, DurationMs, ExecutionId, Health, HostFacts, JobId, JobName, Label, Now,
    ResourceName, RunId, SessionId, Token, WallMs,
};
use serde::{Deserialize, Serialize};

/// How a machine's clocks stood when a reign began on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenClock {
    /// The kernel's id of that start of the machine.
    pub boot_id: String,
    pub at: Now,
}

/// What is known of the backups that leaders make by schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRow {
    /// How often one is to be made.
    pub every: DurationMs,
    /// When the last one was made that is whole, and was shipped where that is asked for.
    pub good_at: Option<WallMs>,
    /// When one failed since.
    pub failed_at: Option<WallMs>,
}

impl BackupRow {
    pub(crate) fn last_good(&self) -> String {
        match self.good_at {
            Some(at) => format!("The last good one is of {at}"),
            None => "There is no good one yet".to_owned(),
        }
    }
}

/// A job that is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub job_id: JobId,
    pub name: JobName,
    /// The version in force.
    pub version: u32,
    /// The watermark: every instant up to and including this one is settled.
    pub fired_through: WallMs,
    pub deleted: bool,
    /// The name that it was created under, where that is another.
    pub first_name: Option<JobName>,
    /// Since when a person keeps its schedule from firing.
    pub paused_at: Option<WallMs>,
    /// The ledger was restored, and what of the schedule ran since the watermark nobody knows: up
    /// to now it can become a gap only.
    pub in_doubt: bool,
}

impl JobRow {
    pub const fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    /// What stays the same however the job is renamed: no other job ever gets a name that this
    /// one has had.
    pub fn first_name(&self) -> &JobName {
        self.first_name.as_ref().unwrap_or(&self.name)
    }
}

/// One version of a job's manifest: in force from `starts` until the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRow {
    pub job_id: JobId,
    pub version: u32,
    /// First moment of its interval, and the anchor of `@every`.
    pub starts: WallMs,
    /// Canonical JSON of the manifest, as stored. Reading it may fail: then this job, and no
    /// other, stands still and a person is told.
    pub manifest: Arc<str>,
}

/// Fires of the schedule and runs that people ask for live in separate name spaces, so neither
/// can take the other's (job, fire time).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    Scheduled,
    Manual,
}

impl Namespace {
    pub const fn as_str(self) -> &'static str {
        match self {
            Namespace::Scheduled => "scheduled",
            Namespace::Manual => "manual",
        }
    }
}

/// What a waiting run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub on: Blocker,
    /// Since when it has waited for something of this kind.
    pub since: WallMs,
}

/// What keeps a run from starting. Each names what must change before it can be otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// Another run of the job that is live, or that stands before it in the line.
    Overlap { run: RunId },
    /// A run of the job that is being cancelled to make room for this one: until nothing of it is
    /// leased any more.
    Replaced { run: RunId },
    /// The job's own fire before this one.
    Previous { run: RunId },
    /// Another job's run; `None` where there is none for this fire yet.
    After { job: JobId, run: Option<RunId> },
    /// Older catch-up runs of the job, of which only so many may be open at once; the newest of
    /// them.
    Turn { run: RunId },
}

impl RunRow {
    /// When it is skipped unless it has started by then. The start deadline counts from admission;
    /// for a run that catches up it counts while it waits for a condition, and not for its turn or
    /// its place.
    pub fn waits_until(&self) -> Option<WallMs> {
        let (wait, length) = (self.waits?, self.start_deadline?);
        let from = match self.trigger {
            Trigger::CatchUp if !wait.on.is_condition() => return None,
            Trigger::CatchUp => wait.since,
            _ => self.admitted_at,
        };
        Some(from + length)
    }
}

impl Blocker {
    /// Whether it is a condition that the job's owner has set, which may never come true. The others
    /// pass by themselves, or are in a person's hands already.
    pub const fn is_condition(self) -> bool {
        matches!(self, Blocker::Previous { .. } | Blocker::After { .. })
    }

    /// Whether who waits for it stands in the line for the one place of its job.
    pub const fn is_line(self) -> bool {
        matches!(self, Blocker::Overlap { .. } | Blocker::Replaced { .. })
    }

    /// The run it names.
    pub const fn run(self) -> Option<RunId> {
        match self {
            Blocker::Overlap { run }
            | Blocker::Replaced { run }
            | Blocker::Previous { run }
            | Blocker::Turn { run } => Some(run),
            Blocker::After { run, .. } => run,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub run_id: RunId,
    pub job_id: JobId,
    pub version: u32,
    pub namespace: Namespace,
    pub fire_time: WallMs,
    /// Nominal local times the fire stands for; empty for a manual run of no instant.
    pub nominal: Vec<String>,
    pub state: RunState,
    /// Why it is in this state, where neither the state nor `waits` says.
    pub reason: Option<String>,
    /// There while it is `waiting`, and only then.
    pub waits: Option<Wait>,
    /// 1 for the first execution; a rerun adds one.
    pub execution: u32,
    pub execution_id: ExecutionId,
    pub trigger: Trigger,
    /// Position at which this execution left `waiting`; `None` while it waits, and always under
    /// `overlap: allow`, where no run overtakes another.
    pub fence: Option<i64>,
    /// When this execution was admitted.
    pub admitted_at: WallMs,
    /// How long after `admitted_at` it may still start; `None`: without limit. Of a run that catches
    /// up, how long it may wait for a condition.
    pub start_deadline: Option<DurationMs>,
    pub shards: u32,
    /// Given by a person for this run, instead of the manifest's own values.
    pub params: BTreeMap<String, String>,
    /// When its person was last told that it needs confirmation; `None` where it does not.
    pub asked_at: Option<WallMs>,
    /// Position of its newest redo: attempts with lower tokens have done nothing that counts.
    pub redo: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRow {
    pub run_id: RunId,
    pub shard: u32,
    pub state: ShardState,
    /// Why it is in this state, where the state alone does not say.
    pub reason: Option<String>,
    /// Attempts of this execution that used up a retry.
    pub retries_used: u32,
    /// Ends in a row that used up none (`interrupted`, `refused`, `never_started`).
    pub free_ends: u32,
    /// Leases granted in this execution.
    pub attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardState {
    /// May be granted `delay` after `since`. Each leader waits out what is left of it on its own
    /// boot clock, never more than `delay`.
    Pending {
        since: WallMs,
        delay: DurationMs,
    },
    Leased(Lease),
    Succeeded,
    NeedsConfirmation,
    Cancelled,
}

/// The one live lease of a shard. Ends by receipt or expiry, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub token: Token,
    pub agent_id: AgentId,
    pub cancelling: bool,
}

impl ShardState {
    pub const fn lease(&self) -> Option<Lease> {
        match *self {
            ShardState::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            ShardState::Pending { .. } => "pending",
            ShardState::Leased(_) => "leased",
            ShardState::Succeeded => "succeeded",
            ShardState::NeedsConfirmation => "needs_confirmation",
            ShardState::Cancelled => "cancelled",
        }
    }
}

/// Why an agent is served no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Two processes spoke under its name.
    Quarantined,
    /// A person took its certificate's word away.
    Revoked,
}

impl Bar {
    pub const fn as_str(self) -> &'static str {
        match self {
            Bar::Quarantined => "quarantined",
            Bar::Revoked => "revoked",
        }
    }
}

/// Why an agent is granted nothing, at an operator's wish or by its health. It stays so over every attach until the
/// agent is uncordoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cordon {
    Cordoned,
    /// And it is watched until nothing runs there any more.
    Draining,
    /// And what runs there is interrupted.
    DrainingNow,
    /// Not an operator but the rule about health said so; any word of an operator replaces it.
    Unwell,
}

impl Cordon {
    pub const fn as_str(self) -> &'static str {
        match self {
            Cordon::Cordoned | Cordon::Unwell => "cordoned",
            Cordon::Draining | Cordon::DrainingNow => "draining",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    pub agent_id: AgentId,
    pub name: AgentName,
    /// The live session; `None` once it has ended.
    pub session: Option<SessionId>,
    pub boot_id: String,
    pub supervisor: Incarnation,
    pub slots: u32,
    /// What the host said of itself when it last attached; in order, each once.
    pub labels: Arc<[Label]>,
    /// What the host was found to be when it last registered.
    pub facts: Arc<HostFacts>,
    /// Which of its profiles that was; `None` before it has registered.
    pub profile: Option<ProfileRow>,
    /// Why it is served no more, whatever it shows.
    pub barred: Option<Bar>,
    pub cordon: Option<Cordon>,
    /// How it fared when the rule about health, or an operator about what that rule had said, last had
    /// a word: what is no worse is no news.
    pub health: Option<Health>,
    /// Reigns that began since the agent last attached: `BecomeActive` adds one for every agent,
    /// `AttachAgent` sets it to 0.
    pub silent_reigns: u32,
}

/// A profile of a host, without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// Rises with every profile that differs from the one before in what matters; the first is 1.
    pub generation: u32,
    pub digest: ProfileDigest,
}

/// Something that shards share, and of which there is only so much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRow {
    pub name: ResourceName,
    pub capacity: u32,
    /// Units that leases hold.
    pub in_use: u32,
}

impl ResourceRow {
    pub const fn left(&self) -> u32 {
        self.capacity.saturating_sub(self.in_use)
    }
}

impl AgentRow {
    /// An agent of which only the name is known.
    pub(crate) fn never_attached(agent_id: AgentId, name: AgentName) -> AgentRow {
        AgentRow {
            agent_id,
            name,
            session: None,
            boot_id: String::new(),
            supervisor: Incarnation(0),
            slots: 0,
            labels: Arc::from([]),
            facts: Arc::default(),
            profile: None,
            barred: None,
            cordon: None,
            health: None,
            silent_reigns: 0,
        }
    }
}
