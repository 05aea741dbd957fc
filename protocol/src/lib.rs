//! The words that both sides of Matins share: times, ids, names, the messages between
//! coordinator, agent and supervisor, and the types of the HTTP API.
//!
//! Everything here is data. Nothing reads a clock, a file or the environment.

pub mod access;
pub mod api;
pub mod attempt;
pub mod certificate;
pub mod host;
pub mod ids;
pub mod lease;
pub mod message;
pub mod names;
pub mod output;
pub mod role;
pub mod rules;
pub mod run;
pub mod supervisor;
pub mod time;

pub use access::{ApiRole, Reach};
pub use certificate::Lifetime;
pub use host::{Health, HostFacts, HostNow, HostProfile};
pub use ids::{AgentId, AlertId, Epoch, ExecutionId, JobId, JoinTokenId, RunId, SessionId, Token};
pub use names::{
    AgentName, ClassName, ClusterId, JobName, Label, NamespaceName, ResourceName, TokenName,
};
pub use role::{Role, RoleError};
pub use rules::{Rule, Rules};
pub use run::RunState;
pub use time::{BootMs, DurationMs, Now, WallMs};
