//! What an agent and its supervisor say on the local socket: one JSON object a line, in order.
//!
//! One agent at a time: a new connection makes the supervisor drop the old one unread before it
//! answers, so a Launch still in a dead agent's socket can never be obeyed after the table that
//! did not list it was given out.

use serde::{Deserialize, Serialize};

use crate::Token;
use crate::attempt::{Exit, Limit, Limits, Usage};
use crate::message::Incarnation;
use crate::time::{BootMs, DurationMs, WallMs};

/// From agent to supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// First on every connection; answered by [`Event::Table`].
    Hello,
    /// With every beat, so that one that hangs is noticed; answered by [`Event::Pong`].
    Ping,
    Launch(Launch),
    /// The token may live until this deadline. Never moves one back, never revives one that passed.
    Extend {
        token: Token,
        deadline: BootMs,
    },
    Kill {
        token: Token,
        cause: KillCause,
    },
    /// The receipt is committed: drop the ended attempt.
    Forget {
        token: Token,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub token: Token,
    /// Program (absolute, or found in the PATH of `env`) and arguments. Never empty.
    pub exec: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Name of the host's user to run as; `None`: the one the supervisor runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default)]
    pub limits: Limits,
    /// Directory that standard output and standard error are kept in, as records (see
    /// [`crate::output`]).
    pub output: String,
    /// Of these at most so much is kept on disk: the first and the last.
    pub output_bytes_max: u64,
    pub deadline: BootMs,
    /// Takeover time of the job: nothing to the supervisor, which hands it back in its table to
    /// an agent that was restarted and must go on computing deadlines.
    pub takeover: DurationMs,
    /// Counted by the supervisor from the start of the process.
    pub timeout: DurationMs,
}

/// Why an attempt is killed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// A person's wish.
    Cancelled,
    /// The host is drained, and what runs on it is to run elsewhere.
    Drained,
    /// Its lease ran out, or the leader no longer knows it.
    LeaseLost,
    TimedOut,
    /// The supervisor itself was told to stop.
    SupervisorStopped,
}

/// From supervisor to agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    Table(Table),
    Pong,
    Launched { token: Token, at: WallMs },
    Ended { token: Token, end: End },
}

/// Everything the supervisor holds, as of the Hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub incarnation: Incarnation,
    pub boot_id: String,
    /// Leftovers of an earlier supervisor were looked for and none is alive.
    pub swept: bool,
    pub attempts: Vec<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub token: Token,
    pub deadline: BootMs,
    /// As the Launch gave it.
    pub takeover: DurationMs,
    pub started_at: Option<WallMs>,
    /// Directory that holds its output.
    pub output: String,
    pub end: Option<End>,
}

/// Whose doing it is that no process could be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnFault {
    /// The launch asks for what cannot be: no such program, no right to run it.
    #[default]
    Launch,
    /// The host cannot start anything just now: its disk is full, memory or descriptors are used
    /// up. The same launch may go well elsewhere, or here later.
    Host,
}

/// An attempt whose whole process tree is verified dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// `None`: the main process ended by itself.
    pub killed: Option<KillCause>,
    /// `None` where no process could be started.
    pub exit: Option<Exit>,
    /// Why no process could be started.
    pub spawn_error: Option<String>,
    /// Whose doing that was; says nothing where a process was started.
    #[serde(default)]
    pub spawn_fault: SpawnFault,
    pub started_at: Option<WallMs>,
    pub ended_at: WallMs,
    /// As in [`crate::attempt::AttemptEnd`].
    pub cpu: DurationMs,
    pub memory_bytes_peak: u64,
    #[serde(default)]
    pub out_of_memory: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<Limit>,
    /// Processes that were left over when the main one ended and had to be killed.
    pub leftovers: u32,
}
