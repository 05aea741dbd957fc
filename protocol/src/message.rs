//! What agent and coordinator say on the control stream: JSON frames of at most 64 KiB.
//!
//! Everything bulky (output of jobs) goes on streams of its own and never through here.

use serde::{Deserialize, Serialize};

use crate::attempt::{AttemptEnd, Work};
use crate::host::{HostNow, ProfileDigest};
use crate::output::Wanted;
use crate::time::{DurationMs, WallMs};
use crate::{Epoch, Label, SessionId, Token};

/// Raised when a message changes its meaning; a coordinator refuses an agent with another number.
pub const PROTOCOL_VERSION: u32 = 2;

/// Largest frame on a control stream.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// Most attempts one host may hold: its table must fit one frame.
pub const SLOTS_MAX: u32 = 1024;

/// Most labels that a host may have.
pub const LABELS_MAX: usize = 64;

/// One process's life, drawn at random when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// Drawn by a coordinator for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub u64);

/// First frame on a control stream, from the agent, as soon as the stream is open: the other end
/// learns of a stream by what is sent on it, and who speaks another protocol is to hear of it before
/// anything hangs on that connection. Then the agent is silent until it is invited by
/// [`CoordinatorBody::NonceGiven`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol_version: u32,
}

// The kind of a message is the one key of an object, not a field among others: a field might
// come last, so the others would have to be kept in the meantime, thousands of times a second.

/// From agent to coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// Answers [`CoordinatorBody::NonceGiven`]; also the session's beat 0.
    Attach(Attach),
    Heartbeat(Heartbeat),
    Started(Started),
    Receipt(Receipt),
    /// Answer to [`CoordinatorBody::NonceQuery`]: whether this process was given this nonce, on
    /// whichever connection.
    NonceAnswer {
        nonce: Nonce,
        mine: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// The reign whose invitation is followed. An attach that was meant for an earlier one is passed
    /// over: its connection is invited anew.
    pub epoch: Epoch,
    /// The one that was given on this connection.
    pub nonce: Nonce,
    /// Names the boot of the kernel, and the space of process ids, that the supervisor sees. What it
    /// says of processes it says of these; another value may be another machine.
    pub boot_id: String,
    pub agent_incarnation: Incarnation,
    pub supervisor_incarnation: Incarnation,
    /// The supervisor looked for leftovers of an earlier supervisor before it answered, and
    /// verified that none is alive: whatever is not in `attempts` is dead on this host.
    pub swept: bool,
    pub slots: u32,
    /// What the host says of itself, at most [`LABELS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    pub wall: WallMs,
    /// The supervisor's table: running, and ended but not yet acknowledged.
    pub attempts: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub session: SessionId,
    /// 1, 2, 3 ... within a session.
    pub beat: u64,
    pub wall: WallMs,
    /// Attempts started and not ended, those being killed included.
    pub attempts: Vec<Token>,
    /// How long it took until the newest beat that was answered was: no more than that can have gone
    /// by since `wall`, as far as the way has stayed what it was. Unset before the first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<DurationMs>,
    /// How the host fares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostNow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub token: Token,
    pub at: WallMs,
}

/// Sent again after every attach until [`CoordinatorMessage::ReceiptAck`] names the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub token: Token,
    pub end: AttemptEnd,
}

/// From coordinator to agent. Every message names the epoch; an agent follows the highest it has
/// seen and ignores lower ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorMessage {
    pub epoch: Epoch,
    pub body: CoordinatorBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorBody {
    /// The invitation to attach on this connection. Only a leader gives it, once on every
    /// connection in every reign; on the others of its coordinators an agent waits.
    NonceGiven { nonce: Nonce },
    /// Asked on the old connection of an identity that attaches on another one, which was given
    /// this.
    NonceQuery { nonce: Nonce },
    Attached {
        session: SessionId,
        /// Attempts of the attach's table that are not current: kill them, then report.
        kill: Vec<Token>,
        /// An agent whose own profile is another one registers.
        #[serde(default)]
        profile: KeptProfile,
    },
    /// The attach is refused for good; the agent says so and waits before it tries again.
    AttachRefused { reason: String },
    HeartbeatAck {
        session: SessionId,
        beat: u64,
        /// Leases of this agent that live on. An attempt that beat `beat` reported and this list
        /// omits is to be killed.
        live: Vec<Token>,
    },
    Start {
        session: SessionId,
        token: Token,
        /// The beat from whose send time the first deadline counts.
        rests_on: u64,
        work: Box<Work>,
    },
    /// End this attempt at a person's wish.
    Cancel { session: SessionId, token: Token },
    /// End every attempt that lives now, at an operator's wish: the host is drained. Each is handed
    /// back as interrupted when it is verified dead.
    Interrupt { session: SessionId },
    /// The receipt is in the ledger; forget the attempt.
    ReceiptAck { token: Token },
}

/// Which profile of an agent's host the ledger has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptProfile {
    /// This coordinator asks for none: it is older than they are.
    #[default]
    NotKept,
    Missing,
    Is(ProfileDigest),
}

/// First frame of a bulk stream that an agent opens to the coordinator it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentRequest {
    /// The next certificate of the key that it has shown on this connection. The coordinator answers
    /// with a [`RenewAnswer`] frame.
    Renew,
    /// What the agent's host was found to be. So many bytes of JSON follow, a
    /// [`HostProfile`](crate::HostProfile), and the end of the stream. The coordinator answers with a
    /// [`RegisterAnswer`] frame.
    Register {
        /// Of what matters of the profile.
        digest: ProfileDigest,
        /// At most [`PROFILE_BYTES_MAX`](crate::host::PROFILE_BYTES_MAX).
        bytes: u32,
    },
}

/// What becomes of a profile that was to be registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RegisterAnswer {
    Registered {
        /// Which of the host's profiles it is, counted from 1. One that says nothing new is of the
        /// generation of the one before.
        generation: u32,
    },
    /// Sent again it would be refused again.
    Refused { reason: String },
    /// This coordinator cannot tell now; it may be sent again.
    Later { reason: String },
}

/// What becomes of a certificate that was to be renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RenewAnswer {
    /// In PEM.
    Renewed {
        certificate: String,
    },
    Refused {
        reason: String,
    },
}

/// First frame of a bulk stream that the coordinator opens to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BulkRequest {
    /// The agent answers with a [`BulkAnswer`] frame, then records (see [`crate::output`]), then
    /// end of stream. The coordinator ends it early by dropping its own half.
    Output(Wanted),
}

/// First frame of the answer on a bulk stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BulkAnswer {
    Found,
    NotFound { reason: String },
}
