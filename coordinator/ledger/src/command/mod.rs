//! The commands, one file each: the struct, its `apply`, its tests.
//!
//! A [`Command`] is a fact or a decision that its proposer computed from a state that may have
//! moved meanwhile. Its `apply` therefore judges it again against the state it meets.

use protocol::{Epoch, WallMs};
use serde::{Deserialize, Serialize};

mod admit;
mod attach_agent;
mod become_active;
mod cancel_run;
mod change_group;
mod clear_alert;
mod confirm;
mod cordon_agent;
mod create_join_token;
mod create_token;
mod delete_job;
mod delete_resource;
mod end_session;
mod enrol;
mod expire;
mod finish;
mod fire;
mod grant;
mod manual_run;
mod mark_started;
mod note_backup;
mod note_health;
mod pause_job;
mod put_job;
mod put_resource;
mod quarantine;
mod raise_alert;
mod redo;
mod register_host;
mod release_grants;
mod remind;
mod renew_agent;
mod rerun;
mod restore;
mod resume_job;
mod revoke_agent;
mod revoke_join_token;
mod revoke_token;
mod settle_alerts;
mod skip_waiting;
mod uncordon_agent;
mod unplaceable;

pub use admit::Admit;
pub use attach_agent::AttachAgent;
pub use become_active::BecomeActive;
pub use cancel_run::CancelRun;
pub use change_group::{ChangeGroup, ControlMachine, GroupChange};
pub use clear_alert::ClearAlert;
pub use confirm::{Confirm, Verdict};
pub use cordon_agent::CordonAgent;
pub use create_join_token::CreateJoinToken;
pub use create_token::CreateToken;
pub use delete_job::DeleteJob;
pub use delete_resource::DeleteResource;
pub use end_session::EndSession;
pub use enrol::Enrol;
pub use expire::Expire;
pub use finish::Finish;
pub use fire::{Decision, Fire, GapReason};
pub use grant::Grant;
pub use manual_run::ManualRun;
pub use mark_started::MarkStarted;
pub use note_backup::NoteBackup;
pub use note_health::{HEALTH_RULE, NoteHealth};
pub use pause_job::PauseJob;
pub(crate) use put_job::PutCase;
pub use put_job::{PutJob, Settlement};
pub use put_resource::PutResource;
pub use quarantine::Quarantine;
pub use raise_alert::{AlertKind, RaiseAlert};
pub use redo::Redo;
pub use register_host::RegisterHost;
pub use release_grants::ReleaseGrants;
pub use remind::Remind;
pub use renew_agent::RenewAgent;
pub use rerun::{Rerun, RerunScope};
pub use restore::Restore;
pub use resume_job::ResumeJob;
pub use revoke_agent::RevokeAgent;
pub use revoke_join_token::RevokeJoinToken;
pub use revoke_token::RevokeToken;
pub use settle_alerts::{Over, SettleAlerts};
pub use skip_waiting::SkipWaiting;
pub use uncordon_agent::UncordonAgent;
pub use unplaceable::Unplaceable;

pub use crate::tables::record::On;

/// A command on its way into the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The reign in which the scheduler decided it; refused when another has begun. `None` for
    /// what is true in any reign: a person's wish, a receipt.
    pub epoch: Option<Epoch>,
    /// Wall time at the proposer, for the record; no decision rests on it.
    pub at: WallMs,
    /// The address that a person asked from, for the record. Left out of what nobody asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<str>>,
    pub command: Command,
}

// A put, which carries a manifest, is boxed: every command is moved a few times on its way, and
// leases pass by the ten thousand a second. What else is large is rare as well, and not that large.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    BecomeActive(BecomeActive),
    PutJob(Box<PutJob>),
    DeleteJob(DeleteJob),
    PauseJob(PauseJob),
    ResumeJob(ResumeJob),
    Fire(Fire),
    Admit(Admit),
    SkipWaiting(SkipWaiting),
    Unplaceable(Unplaceable),
    Grant(Grant),
    MarkStarted(MarkStarted),
    Finish(Finish),
    Expire(Expire),
    AttachAgent(AttachAgent),
    EndSession(EndSession),
    Quarantine(Quarantine),
    RevokeAgent(RevokeAgent),
    CordonAgent(CordonAgent),
    UncordonAgent(UncordonAgent),
    #[cfg_attr(
        feature = "next-version",
        serde(rename = "put_resource_of_tomorrow", alias = "put_resource")
    )]
    PutResource(PutResource),
    DeleteResource(DeleteResource),
    ManualRun(ManualRun),
    Rerun(Rerun),
    Redo(Redo),
    CancelRun(CancelRun),
    Confirm(Confirm),
    RaiseAlert(RaiseAlert),
    Remind(Remind),
    SettleAlerts(SettleAlerts),
    ClearAlert(ClearAlert),
    CreateToken(CreateToken),
    RevokeToken(RevokeToken),
    CreateJoinToken(CreateJoinToken),
    RevokeJoinToken(RevokeJoinToken),
    Enrol(Enrol),
    RenewAgent(RenewAgent),
    RegisterHost(Box<RegisterHost>),
    Restore(Restore),
    ReleaseGrants(ReleaseGrants),
    NoteBackup(NoteBackup),
    NoteHealth(NoteHealth),
    ChangeGroup(ChangeGroup),
}

/// The newest [`Command::version`] that this program knows.
///
/// A group may run two versions of the program side by side. A command that one of its members does
/// not know would stop that member, so it is not proposed before all of them say that they do.
pub const COMMANDS_VERSION: u32 = if NEXT { 2 } else { 1 };

/// Whether this is built as the version after this one, for the trial of a group that runs both: a
/// `PutResource` is then written as a command that today's program cannot read.
const NEXT: bool = cfg!(feature = "next-version");

impl Command {
    /// Since which version the command is known; at most [`COMMANDS_VERSION`], which rises by one
    /// with a release that brings commands, or gives one a field that older programs would have to
    /// heed.
    pub fn version(&self) -> u32 {
        match self {
            Command::PutResource(_) if NEXT => 2,
            Command::BecomeActive(_)
            | Command::PutJob(_)
            | Command::DeleteJob(_)
            | Command::PauseJob(_)
            | Command::ResumeJob(_)
            | Command::Fire(_)
            | Command::Admit(_)
            | Command::SkipWaiting(_)
            | Command::Unplaceable(_)
            | Command::Grant(_)
            | Command::MarkStarted(_)
            | Command::Finish(_)
            | Command::Expire(_)
            | Command::AttachAgent(_)
            | Command::EndSession(_)
            | Command::Quarantine(_)
            | Command::RevokeAgent(_)
            | Command::CordonAgent(_)
            | Command::UncordonAgent(_)
            | Command::PutResource(_)
            | Command::DeleteResource(_)
            | Command::ManualRun(_)
            | Command::Rerun(_)
            | Command::Redo(_)
            | Command::CancelRun(_)
            | Command::Confirm(_)
            | Command::RaiseAlert(_)
            | Command::Remind(_)
            | Command::SettleAlerts(_)
            | Command::ClearAlert(_)
            | Command::CreateToken(_)
            | Command::RevokeToken(_)
            | Command::CreateJoinToken(_)
            | Command::RevokeJoinToken(_)
            | Command::Enrol(_)
            | Command::RenewAgent(_)
            | Command::RegisterHost(_)
            | Command::Restore(_)
            | Command::ReleaseGrants(_)
            | Command::NoteBackup(_)
            | Command::NoteHealth(_)
            | Command::ChangeGroup(_) => 1,
        }
    }
}
