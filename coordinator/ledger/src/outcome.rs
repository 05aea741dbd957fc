//! What applying a command answers: what was done, or why not, and which rows changed.

use protocol::attempt::AttemptOutcome;
use protocol::{
    AgentId, AgentName, AlertId, Epoch, ExecutionId, JobId, JoinTokenId, ResourceName, Role, RunId,
    SessionId, Token, TokenName, WallMs,
};
use serde::{Deserialize, Serialize};

use crate::rows::{
    AgentRow, BackupRow, Cordon, JobRow, ResourceRow, RunRow, RunState, ShardRow, VersionRow,
};

/// Only an outcome causes an effect: nobody hears of a command before it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub result: Result<Done, Refusal>,
    /// After-images of every row of the working set that changed, in an order in which
    /// [`crate::WorkingSet::absorb`] can take them: versions and runs before their shards.
    pub changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Epoch(Epoch),
    /// Whether nothing is granted since the ledger was restored.
    Held(bool),
    Backup(BackupRow),
    Job(JobRow),
    Version(VersionRow),
    Run(RunRow),
    Shard(ShardRow),
    Agent(AgentRow),
    Resource(ResourceRow),
    /// It is there no more.
    NoResource(ResourceName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutKind {
    Created,
    /// The name had been deleted: the same job goes on, with its watermark.
    Revived,
    Changed,
    Renamed,
    /// The version in force has the same manifest; nothing was done.
    Unchanged,
}

/// A receipt that is to come, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    pub token: Token,
    pub run_id: RunId,
    pub shard: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    Active {
        epoch: Epoch,
    },
    JobPut {
        job_id: JobId,
        version: u32,
        kind: PutKind,
    },
    JobDeleted,
    /// `changed` is false where it was so already.
    Paused {
        changed: bool,
    },
    /// `skipped`: instants that went into the gap; 0 where nobody can say how many.
    Resumed {
        changed: bool,
        skipped: u64,
    },
    /// The runs written, in the order of their fire times, with the state each got.
    Fired {
        runs: Vec<(RunId, RunState)>,
    },
    /// What became of a run that waited; it may wait on.
    Admitted {
        state: RunState,
    },
    Skipped,
    GivenToPerson,
    Granted {
        token: Token,
        run_id: RunId,
        shard: u32,
        attempt: u32,
    },
    Started,
    /// `counted` is false for a receipt that came after a later grant: recorded as stale.
    Finished {
        counted: bool,
    },
    Expired,
    Attached {
        agent_id: AgentId,
        session: SessionId,
        /// Attempts in the agent's table that are not current.
        kill: Vec<Token>,
        /// Leases that ended by this attach, and how.
        released: Vec<(Token, AttemptOutcome)>,
        /// Shards that are pending, whose newest lease ended without a receipt, and whose attempt
        /// is in the agent's table: the receipt is to come, and counts unless another is granted.
        owed: Vec<Owed>,
    },
    SessionEnded,
    Quarantined,
    /// `known`: whether the agent had ever attached.
    Revoked {
        known: bool,
    },
    /// `changed` is false where it was so already.
    AgentCordoned {
        agent_id: AgentId,
        changed: bool,
    },
    AgentUncordoned {
        changed: bool,
    },
    /// `cordoned`: whether it was for this that the host was cordoned.
    HealthNoted {
        cordoned: bool,
    },
    ResourcePut {
        /// Units that leases hold now.
        in_use: u32,
    },
    ResourceDeleted,
    RunStarted {
        run_id: RunId,
        state: RunState,
    },
    Rerun {
        execution_id: ExecutionId,
        execution: u32,
        state: RunState,
    },
    /// Leases of it are now `cancelling`: the agents that hold them are to be told.
    Cancelled,
    Confirmed {
        state: RunState,
    },
    AlertRaised,
    Reminded,
    AlertsSettled,
    /// `changed` is false where it had been cleared before.
    AlertCleared {
        changed: bool,
    },
    TokenCreated,
    JoinTokenCreated {
        id: JoinTokenId,
    },
    /// `changed` is false where it had been revoked before.
    JoinTokenRevoked {
        changed: bool,
    },
    /// `again`: the same key under the same name has enrolled before, and nothing was used up.
    Enrolled {
        again: bool,
        /// Of a control machine: its number.
        node: Option<u64>,
    },
    /// A host may be given its next certificate.
    Renewed,
    HostRegistered {
        generation: u32,
    },
    GroupChangeNoted,
    /// `changed` is false where it had been revoked before.
    TokenRevoked {
        changed: bool,
    },
    Restored {
        generation: i64,
        /// Runs that were open in the backup.
        runs: u32,
        /// Jobs in force, whose schedule since the backup is unknown.
        jobs: u32,
    },
    GrantsReleased,
    BackupNoted,
}

/// Why a command was not carried out. The state is as if it had never come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the command is of {got}, but {current} leads now")]
    StaleEpoch { got: Epoch, current: Epoch },
    #[error(
        "the state was read after {then} commands, and {now} have been applied: another led meanwhile"
    )]
    LookedTooEarly { then: i64, now: i64 },
    #[error(
        "computed for version {expected_version} through {expected_through}, but version {version} has settled through {fired_through}"
    )]
    WatermarkMoved {
        expected_version: u32,
        expected_through: WallMs,
        version: u32,
        fired_through: WallMs,
    },
    /// Nothing was proposed, and nothing is in the log.
    #[error(
        "a member of the control group knows commands up to version {speaks} only, and this needs version {needs}"
    )]
    NotKnownToAll { needs: u32, speaks: u32 },
    #[error("version {expected} was expected, but version {version} is in force")]
    VersionMoved { expected: u32, version: u32 },
    #[error("version {expected} was expected, but there is no such job in force")]
    NotInForce { expected: u32 },
    #[error("{job} is paused: nothing of its schedule fires until it is resumed")]
    Paused { job: String },
    #[error("the command contradicts itself: {what}")]
    Malformed { what: String },
    /// No rule foresaw it, but a table does not take it.
    #[error("the ledger's tables do not take it: {what}")]
    Constraint { what: String },
    #[error(
        "{job} was restored from a backup: what of its schedule has run since nobody knows, so it can only be left as a gap"
    )]
    InDoubt { job: String },
    #[error(
        "the ledger was restored from a backup: nothing is granted until what ran before must have ended"
    )]
    Held,
    #[error("the clock shows {clock}, and the backup is of {taken_at}: set the clock right first")]
    ClockBeforeBackup { clock: WallMs, taken_at: WallMs },
    #[error("there is no job {job}")]
    NoSuchJob { job: String },
    #[error("it comes after `{job}`, and there is no such job")]
    NoSuchPredecessor { job: String },
    #[error("it would wait for itself: {}", circle.join(" comes after "))]
    Circle { circle: Vec<String> },
    #[error("there is no {run}")]
    NoSuchRun { run: RunId },
    #[error("{run} has no shard {shard}")]
    NoSuchShard { run: RunId, shard: u32 },
    #[error("`{name}` is the name of another job ({job_id})")]
    NameTaken { name: String, job_id: JobId },
    #[error(
        "`{name}` was renamed to `{now}`: apply it under that name, or give this job another name"
    )]
    NameRetired { name: String, now: String },
    #[error("{run} is {}; this needs a run that is {needed}", state.as_str())]
    WrongRunState {
        run: RunId,
        state: RunState,
        needed: String,
    },
    #[error("shard {shard} of {run} is {state}; this needs one that is {needed}")]
    WrongShardState {
        run: RunId,
        shard: u32,
        state: String,
        needed: String,
    },
    #[error(
        "a second run of `{job}` is not declared harmless (`repeatable.safe`), and a redo of {run} is one"
    )]
    NotHarmless { run: RunId, job: String },
    #[error("{live} of this job is still live, and its overlap policy is {policy}")]
    Overlap { live: RunId, policy: String },
    #[error(
        "{fire_time} is not yet settled (settled through {fired_through}): it will fire by itself"
    )]
    InFuture {
        fire_time: WallMs,
        fired_through: WallMs,
    },
    #[error("{fire_time} already has {run}; rerun that one")]
    AlreadyHasRun { fire_time: WallMs, run: RunId },
    #[error("{leases} leases of this job are still live; cancel its runs and wait for them to end")]
    LeasesLive { leases: u32 },
    #[error("there is no {alert}")]
    NoSuchAlert { alert: AlertId },
    #[error("there is no {agent}")]
    NoSuchAgent { agent: AgentId },
    #[error("{session} is not the agent's live session")]
    NoSession { session: SessionId },
    #[error("the agent is quarantined: {reason}")]
    Quarantined { reason: String },
    #[error("the agent is revoked: {reason}")]
    Revoked { reason: String },
    #[error("there is no agent `{name}`: no host of this name has ever attached")]
    NoAgentNamed { name: AgentName },
    #[error(
        "the profile of {name} was compared with generation {expected}, and the newest is {generation}"
    )]
    ProfileMoved {
        name: AgentName,
        expected: u32,
        generation: u32,
    },
    #[error("{name} is {}: it is given nothing until it is uncordoned", cordon.as_str())]
    Cordoned { name: AgentName, cordon: Cordon },
    #[error("there is no resource `{}`", resource.as_str())]
    NoSuchResource { resource: ResourceName },
    #[error("it uses `{}`, and there is no such resource", resource.as_str())]
    UnknownResource { resource: ResourceName },
    #[error(
        "one shard needs {wanted} of `{}`, and there are {capacity}: it could never run",
        resource.as_str()
    )]
    BeyondCapacity {
        resource: ResourceName,
        wanted: u32,
        capacity: u32,
    },
    #[error("{in_use} of {capacity} of `{}` are in use, and {wanted} are needed", resource.as_str())]
    Exhausted {
        resource: ResourceName,
        wanted: u32,
        in_use: u32,
        capacity: u32,
    },
    #[error("`{job}` uses `{}`", resource.as_str())]
    ResourceUsed { resource: ResourceName, job: String },
    #[error("{in_use} of `{}` are held by shards that run", resource.as_str())]
    ResourceHeld { resource: ResourceName, in_use: u32 },
    #[error(
        "there is a token `{name}` already{}, and the audit must not mean two by one name",
        if *revoked { ", though it is revoked" } else { "" }
    )]
    TokenNameTaken { name: TokenName, revoked: bool },
    #[error(
        "the number {node} was given to {name}{}: a number is never given again",
        if *removed { ", which was removed from the group" } else { " with another data directory" }
    )]
    NodeNumberGiven {
        node: u64,
        name: String,
        removed: bool,
    },
    #[error("there is no such join token")]
    NoJoinToken,
    #[error("the join token ended at {end}, and it is {at}")]
    JoinTokenEnded { end: WallMs, at: WallMs },
    #[error("the join token is used up")]
    JoinTokenUsedUp,
    #[error("the join token was revoked at {at}")]
    JoinTokenRevoked { at: WallMs },
    #[error("the join token lets in as {of}, and not as {asked}")]
    JoinTokenForRole { of: Role, asked: Role },
    #[error("there is no join token {id}")]
    NoSuchJoinToken { id: JoinTokenId },
    #[error("this key has been enrolled before, as the {role} `{name}`")]
    KeyEnrolled { role: Role, name: AgentName },
    #[error("the join token is for names that begin with `{prefix}`, and `{name}` does not")]
    JoinTokenForOthers { prefix: String, name: AgentName },
    #[error("a host of the name `{name}` has been enrolled before, with another key")]
    NameEnrolled { name: AgentName },
    #[error("there is no token `{name}`")]
    NoTokenNamed { name: TokenName },
    #[error("there is no such lease: {token}")]
    NoSuchToken { token: Token },
    #[error("{token} was granted to another agent")]
    NotYourToken { token: Token },
    #[error("{token} is not the shard's current lease")]
    NotCurrent { token: Token },
    #[error("{token} has already ended")]
    AlreadyEnded { token: Token },
}
