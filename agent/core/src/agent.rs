//! The agent's decisions: sessions, leases, what to start and what to kill.
//!
//! A lease is a promise with two ends. The leader promises not to give a shard away before a
//! time counted from the *arrival* of the last heartbeat it acknowledged; the agent promises to
//! have killed the process before a time counted from the moment it *sent* that heartbeat. So
//! the whole of this machine hangs on one fact: which acknowledged beat listed an attempt, and
//! when that beat was sent. Beats are numbered within a session, the attach is beat 0, and an
//! attempt once listed stays listed until it ends, so each attempt need only remember the first
//! beat that listed it.
//!
//! Deadlines are latches. They are checked before any input is processed: a host that wakes from
//! a stall reads the clock before it reads its mail, and an ack that lay in the socket meanwhile
//! revives nothing.
//!
//! The table of attempts here is a mirror of the supervisor's. It is rebuilt from the
//! supervisor's word at every connection, which is why an agent keeps nothing on disk.
//!
//! An agent keeps a connection to every coordinator it was given, all the time, and is silent on
//! each until it is invited there: only a leader invites. The invitation of a higher epoch moves the
//! session to its connection; the others stay open for the next change of leader, which then
//! costs no handshake. Nothing is killed for a change of leader: deadlines rest on beats that were
//! acknowledged, whoever did it. `connections` says more.

mod connections;
mod environment;
mod orders;
mod policy;
mod receipt;
mod registration;
mod session;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use protocol::attempt::{AttemptEnd, AttemptOutcome, OUTPUT_TAIL_BYTES_MAX};
use protocol::host::ProfileDigest;
use protocol::lease::{self, agent_deadline};
use protocol::message::{AgentMessage, Incarnation, Nonce, Receipt, SLOTS_MAX, Started};
use protocol::supervisor::{Event, KillCause, Request, Table};
use protocol::{
    BootMs, DurationMs, Epoch, HostNow, Label, Now, Rule, Rules, SessionId, Token, WallMs,
};

pub use policy::{Forbidden, Policy, Program, ProgramError};
pub use receipt::StartRefusal;
use registration::Registration;
pub use registration::{Occasion, Registered};
use session::{Beats, Finished};

/// Ended attempts whose receipts wait, together with the living, must fit the attach's frame.
const HELD_MAX: usize = 2 * SLOTS_MAX as usize;

/// How long an agent stays attached without its supervisor, which is back within a second where
/// it was only restarted: as long as a silent host counts as there.
const SUPERVISOR_AWAY_MAX: DurationMs = lease::QUIET_HOST;

/// How long a refused agent waits before it attaches again. A refusal is for a person to mend.
const REFUSED_PAUSE: DurationMs = DurationMs(30_000);

/// What the agent is told once, when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Drawn at random by the shell for this process.
    pub incarnation: Incarnation,
    /// Attempts that may live at once, at most [`SLOTS_MAX`].
    pub slots: u32,
    /// What is said of this host, at every attach.
    pub labels: Vec<Label>,
    /// Directory of what attempts write; an attempt's own is [`output_directory`].
    pub output_directory: String,
    /// Of one attempt's output at most so much is kept.
    pub output_bytes_max: u64,
    /// `PATH` of every attempt.
    pub path: String,
    /// What may be started on this host at all.
    pub policy: Policy,
}

/// The directory that holds an attempt's output, below that of all. Derivable from the token
/// alone, so that an agent that was restarted finds it again.
pub fn output_directory(of_all: &str, token: Token) -> String {
    format!("{of_all}/{}", token.0)
}

/// What is left of the disk with the output is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFull {
    /// Where output is kept.
    pub directory: String,
    pub free_bytes: u64,
    /// Least that must be free for a start.
    pub floor_bytes: u64,
}

impl fmt::Display for DiskFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the disk with `{}` is full: {} are free and {} must be; remove what is not needed \
             there, or give the agent a data directory on a larger disk",
            self.directory,
            size(self.free_bytes),
            size(self.floor_bytes)
        )
    }
}

/// For a person: exact enough to see that the one is less than the other.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// One of the coordinators that this agent was given, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoordinatorId(pub usize);

/// One connection to a coordinator, numbered by the shell; a later one has a higher number,
/// whichever coordinator it is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What the shell is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Send {
        connection: ConnectionId,
        message: AgentMessage,
    },
    /// Close this connection; the core already counts it as gone. If [`Agent::has_line_to`] says
    /// no of its coordinator then, dial that again after [`DisconnectReason::pause`].
    Disconnect {
        connection: ConnectionId,
        reason: DisconnectReason,
    },
    Supervise(Request),
    /// Read the last [`OUTPUT_TAIL_BYTES_MAX`] bytes of this file and hand them to
    /// [`Agent::handle_tail`]; the receipt waits for it.
    ReadTail {
        token: Token,
        output: String,
    },
    /// Send the host's profile, which has this digest, on a stream of its own, and tell
    /// [`Agent::handle_registered`] what became of it.
    Register {
        connection: ConnectionId,
        digest: ProfileDigest,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisconnectReason {
    #[error("a newer connection has attached")]
    Superseded,
    #[error("the supervisor was replaced, so the attach no longer tells the truth")]
    SupervisorReplaced,
    #[error(
        "the supervisor has not answered for {SUPERVISOR_AWAY_MAX}, and nobody else can speak for its attempts"
    )]
    SupervisorAway,
    #[error("the coordinator has been silent for three beats")]
    Silent,
    #[error("the coordinator refused the attach: {0}")]
    Refused(String),
}

impl DisconnectReason {
    /// How long to wait before dialling again, beside the shell's own backoff.
    pub fn pause(&self) -> DurationMs {
        match self {
            DisconnectReason::Refused(_) => REFUSED_PAUSE,
            _ => DurationMs::ZERO,
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    rules: Rules,
    supervisor: Option<Supervisor>,
    /// Since when the supervisor that was there is not.
    supervisor_away_since: Option<BootMs>,
    /// When the supervisor was asked what it has not answered yet: one that hangs keeps its
    /// connection, and looks as if it were there.
    supervisor_asked_at: Option<BootMs>,
    /// Incarnation of the supervisor that the mirror below was built from.
    mirrored: Option<Incarnation>,
    attempts: BTreeMap<Token, Attempt>,
    ended: BTreeMap<Token, Ended>,
    finished: Finished,
    /// No living attempt's deadline lies before this.
    earliest_deadline: BootMs,
    /// All connections that are open.
    lines: BTreeMap<ConnectionId, Line>,
    /// The one that is attached on, or is to be.
    current: Option<Connection>,
    /// The highest that was heard of.
    epoch: Option<Epoch>,
    /// What this process was given last, on whichever connection.
    nonces: VecDeque<Nonce>,
    stopping: bool,
    disk_full: Option<DiskFull>,
    host: Option<HostNow>,
    registration: Registration,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Supervisor {
    incarnation: Incarnation,
    boot_id: String,
    swept: bool,
}

#[derive(Debug)]
struct Attempt {
    takeover: DurationMs,
    deadline: BootMs,
    killed: Option<KillCause>,
    output: String,
    started_at: Option<WallMs>,
    /// First beat of the session that lists it; 0 is the attach.
    listed_from: u64,
}

#[derive(Debug)]
struct Ended {
    end: AttemptEnd,
    /// The tail has not been read yet, so there is no receipt to send.
    tail_pending: bool,
}

/// An open connection, whether it is in use or not.
#[derive(Debug)]
struct Line {
    coordinator: CoordinatorId,
    word: Word,
}

/// What was said on a connection in the newest reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Nothing: whoever is there does not lead, or not yet.
    Awaited,
    /// It may be attached on.
    Invited(Nonce),
    /// It is attached on, or was. A connection attaches once in a reign.
    Used,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    epoch: Epoch,
    nonce: Nonce,
    /// Last time anything was heard on it, or when it was invited.
    heard: BootMs,
    link: Link,
}

#[derive(Debug)]
enum Link {
    /// The supervisor's table is needed before an attach can be sent.
    AwaitsTable,
    Attaching {
        sent: BootMs,
    },
    Attached {
        session: SessionId,
        beats: Beats,
    },
}

impl Agent {
    pub fn new(mut config: Config, rules: Rules) -> Agent {
        config.slots = config.slots.min(SLOTS_MAX);
        Agent {
            config,
            rules,
            supervisor: None,
            supervisor_away_since: None,
            supervisor_asked_at: None,
            mirrored: None,
            attempts: BTreeMap::new(),
            ended: BTreeMap::new(),
            finished: Finished::default(),
            earliest_deadline: BootMs(i64::MAX),
            lines: BTreeMap::new(),
            current: None,
            epoch: None,
            nonces: VecDeque::new(),
            stopping: false,
            disk_full: None,
            host: None,
            registration: Registration::default(),
            actions: VecDeque::new(),
        }
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Agent::handle_tick`] is wanted next.
    pub fn poll_timeout(&self) -> Option<BootMs> {
        let lease = (self.earliest_deadline != BootMs(i64::MAX)).then_some(self.earliest_deadline);
        let connection = self.current.as_ref().and_then(|c| {
            let given_up = (c.heard + lease::QUIET_HOST).min(self.supervisor_given_up_at());
            match &c.link {
                Link::AwaitsTable => None,
                Link::Attaching { .. } => Some(given_up),
                Link::Attached { beats, .. } => {
                    let registers = self.registration.next_at().unwrap_or(BootMs(i64::MAX));
                    Some(given_up.min(beats.next_at()).min(registers))
                }
            }
        });
        lease.into_iter().chain(connection).min()
    }

    /// When a supervisor that is away is no longer waited for; never, where it is there.
    fn supervisor_given_up_at(&self) -> BootMs {
        self.supervisor_away_since
            .or(self.supervisor_asked_at)
            .map_or(BootMs(i64::MAX), |since| since + SUPERVISOR_AWAY_MAX)
    }

    /// Whether there is a connection to this coordinator that is attached on, or may be: where there
    /// is none it is to be dialled.
    pub fn has_line_to(&self, coordinator: CoordinatorId) -> bool {
        let current = self.current.as_ref().map(|c| c.id);
        self.lines.iter().any(|(&id, line)| {
            line.coordinator == coordinator && (line.word != Word::Used || current == Some(id))
        })
    }

    /// The connection that is attached on, while there is a session.
    pub fn attached_on(&self) -> Option<ConnectionId> {
        let current = self.current.as_ref()?;
        matches!(current.link, Link::Attached { .. }).then_some(current.id)
    }

    /// The agent is to stop: takes no more, and leaves what runs to the supervisor.
    pub fn handle_stop(&mut self, now: Now) {
        self.enforce_deadlines(now.boot);
        self.stopping = true;
    }

    /// Whether every end that was heard of has been acknowledged. A stopping agent that waits for
    /// this leaves nobody in doubt who need not be.
    pub fn is_settled(&self) -> bool {
        self.ended.is_empty()
    }

    /// The live session, if there is one: for logs.
    pub fn session(&self) -> Option<SessionId> {
        match self.current.as_ref()?.link {
            Link::Attached { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Living attempts and their deadlines, lowest token first: for logs and for tests.
    pub fn attempts(&self) -> impl Iterator<Item = (Token, BootMs)> + '_ {
        self.attempts.iter().map(|(&token, a)| (token, a.deadline))
    }

    /// A fresh connection to the supervisor, and the table it answered with.
    pub fn handle_supervisor_up(&mut self, table: Table, now: Now) {
        self.enforce_deadlines(now.boot);
        let same = self.mirrored == Some(table.incarnation);
        self.supervisor = Some(Supervisor {
            incarnation: table.incarnation,
            boot_id: table.boot_id.clone(),
            swept: table.swept,
        });
        self.supervisor_away_since = None;
        self.supervisor_asked_at = None;
        self.mirrored = Some(table.incarnation);
        self.mirror(table, same, now);
        match self.current.as_ref().map(|c| (c.id, &c.link)) {
            Some((_, Link::AwaitsTable)) => self.attach(now),
            Some((id, _)) if !same => self.disconnect(id, DisconnectReason::SupervisorReplaced),
            _ => {}
        }
        self.enforce_deadlines(now.boot);
    }

    /// The connection to the supervisor is gone. Its processes may live, so for a moment their
    /// tokens are still listed; a supervisor that stays away ends the session, because nobody can
    /// vouch for what it holds. Its leases then run out, and the shards go elsewhere.
    pub fn handle_supervisor_down(&mut self, now: Now) {
        self.enforce_deadlines(now.boot);
        if self.supervisor.take().is_some() {
            self.supervisor_away_since = self.supervisor_asked_at.take().or(Some(now.boot));
        }
    }

    /// With every beat: what is said of attempts is the supervisor's word, and must be fresh.
    fn ask_supervisor(&mut self, now: BootMs) {
        if self.supervisor.is_some() && self.rules.on(Rule::SupervisorMustAnswer) {
            self.supervisor_asked_at.get_or_insert(now);
            self.supervise(Request::Ping);
        }
    }

    pub fn handle_supervisor(&mut self, event: Event, now: Now) {
        self.enforce_deadlines(now.boot);
        self.supervisor_asked_at = None;
        match event {
            Event::Table(table) => self.handle_supervisor_up(table, now),
            // It was given up, and its table is out of date.
            _ if self.supervisor.is_none() => {
                self.actions.push_back(Action::Supervise(Request::Hello));
            }
            Event::Pong => {}
            Event::Launched { token, at } => {
                if let Some(attempt) = self.attempts.get_mut(&token) {
                    attempt.started_at = Some(at);
                    self.tell_started(token, at);
                }
            }
            Event::Ended { token, end } => {
                let output = self.attempts.remove(&token).map_or_else(
                    || output_directory(&self.config.output_directory, token),
                    |attempt| attempt.output,
                );
                self.hold_ended(token, receipt::attempt_end(end), output);
            }
        }
    }

    /// The disk with the output is full, or is so no longer. What runs goes on.
    pub fn handle_disk(&mut self, full: Option<DiskFull>, now: Now) {
        self.enforce_deadlines(now.boot);
        self.disk_full = full;
    }

    /// How the host fares, as it was found last: told with every beat from now on.
    pub fn handle_host(&mut self, host: HostNow, now: Now) {
        self.enforce_deadlines(now.boot);
        self.host = Some(host);
    }

    /// The end of an attempt's output, as asked for by [`Action::ReadTail`]; more than
    /// [`OUTPUT_TAIL_BYTES_MAX`] bytes are cut from the front.
    pub fn handle_tail(&mut self, token: Token, mut tail: String, now: Now) {
        self.enforce_deadlines(now.boot);
        let Some(ended) = self.ended.get_mut(&token).filter(|e| e.tail_pending) else {
            return;
        };
        let cut = tail.len().saturating_sub(OUTPUT_TAIL_BYTES_MAX);
        tail.drain(..tail.ceil_char_boundary(cut));
        ended.end.tail = tail;
        ended.tail_pending = false;
        self.send_receipt(token);
    }

    /// Makes the mirror equal to the table and tells the supervisor what it missed.
    fn mirror(&mut self, table: Table, same_supervisor: bool, now: Now) {
        let mut before = std::mem::take(&mut self.attempts);
        for held in table.attempts {
            let known = before.remove(&held.token);
            if let Some(end) = held.end {
                if self.finished.contains(held.token) {
                    // The word to forget it was lost with the last connection.
                    self.supervise(Request::Forget { token: held.token });
                } else {
                    self.hold_ended(held.token, receipt::attempt_end(end), held.output);
                }
                continue;
            }
            let mut attempt = Attempt {
                takeover: held.takeover,
                deadline: held.deadline,
                killed: None,
                output: held.output,
                started_at: held.started_at,
                // Until an attach lists it no ack can mean it.
                listed_from: u64::MAX,
            };
            if let Some(known) = known.filter(|_| same_supervisor) {
                attempt.listed_from = known.listed_from;
                attempt.killed = known.killed;
                if known.deadline > held.deadline {
                    attempt.deadline = known.deadline;
                    self.supervise(Request::Extend {
                        token: held.token,
                        deadline: known.deadline,
                    });
                }
                if let Some(cause) = known.killed {
                    let token = held.token;
                    self.supervise(Request::Kill { token, cause });
                }
                if let (None, Some(at)) = (known.started_at, held.started_at) {
                    self.tell_started(held.token, at);
                }
            }
            self.insert(held.token, attempt);
        }
        if !same_supervisor {
            // What the old supervisor ran is dead if the new one swept, and unknown if it did
            // not. The attach says which; it is not for the agent to report.
            return;
        }
        for (token, attempt) in before {
            match attempt.started_at {
                // The launch was still in the socket of the connection that broke, and the
                // supervisor dropped that unread before it answered.
                None => self.refuse(token, StartRefusal::LaunchUnread, now),
                Some(at) => {
                    let end = receipt::end_taken_by_another(at, now.wall);
                    self.hold_ended(token, end, attempt.output);
                }
            }
        }
    }

    fn hold_ended(&mut self, token: Token, end: AttemptEnd, output: String) {
        if self.ended.contains_key(&token) {
            return;
        }
        let tail_pending = end.outcome != AttemptOutcome::Succeeded && end.started_at.is_some();
        self.ended.insert(token, Ended { end, tail_pending });
        if tail_pending {
            self.actions.push_back(Action::ReadTail { token, output });
        } else {
            self.send_receipt(token);
        }
    }

    fn supervise(&mut self, request: Request) {
        if self.supervisor.is_some() {
            self.actions.push_back(Action::Supervise(request));
        }
    }

    fn insert(&mut self, token: Token, attempt: Attempt) {
        if attempt.killed.is_none() {
            self.earliest_deadline = self.earliest_deadline.min(attempt.deadline);
        }
        self.attempts.insert(token, attempt);
    }

    /// Rule 6.5. Called before every input; without the rule, only when a timer fires.
    fn enforce_deadlines(&mut self, now: BootMs) {
        if self.rules.on(Rule::DeadlineLatch) {
            self.kill_overdue(now);
        }
    }

    fn kill_overdue(&mut self, now: BootMs) {
        if now < self.earliest_deadline {
            return;
        }
        let overdue: Vec<Token> = self
            .attempts
            .iter()
            .filter(|(_, a)| a.killed.is_none() && a.deadline <= now)
            .map(|(&token, _)| token)
            .collect();
        for token in overdue {
            self.kill(token, KillCause::LeaseLost);
        }
        self.earliest_deadline = self
            .attempts
            .values()
            .filter(|a| a.killed.is_none())
            .map(|a| a.deadline)
            .min()
            .unwrap_or(BootMs(i64::MAX));
    }

    /// The first cause stands: it is the one the receipt will name.
    fn kill(&mut self, token: Token, cause: KillCause) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        if attempt.killed.is_none() {
            attempt.killed = Some(cause);
            self.supervise(Request::Kill { token, cause });
        }
    }

    /// A promise that counts from `sent` names this attempt as alive. Never moves a deadline
    /// back; never touches one that has passed, because passing it set `killed`.
    fn extend(&mut self, token: Token, sent: BootMs) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        let deadline = agent_deadline(sent, attempt.takeover);
        if attempt.killed.is_none() && deadline > attempt.deadline {
            attempt.deadline = deadline;
            self.supervise(Request::Extend { token, deadline });
        }
    }

    fn tell_started(&mut self, token: Token, at: WallMs) {
        if self.session().is_some() {
            self.send(AgentMessage::Started(Started { token, at }));
        }
    }

    /// Sends what is ready, if there is a session to send it in; what is not sent now goes out
    /// after the next attach.
    fn send_receipt(&mut self, token: Token) {
        if self.session().is_none() {
            return;
        }
        let Some(ended) = self.ended.get(&token).filter(|e| !e.tail_pending) else {
            return;
        };
        let end = ended.end.clone();
        self.send(AgentMessage::Receipt(Receipt { token, end }));
        if !self.rules.on(Rule::ReceiptHeldUntilAcked) {
            self.handle_receipt_ack(token);
        }
    }

    fn handle_receipt_ack(&mut self, token: Token) {
        if self.ended.remove(&token).is_some() {
            self.finished.insert(token);
            self.supervise(Request::Forget { token });
        }
    }
}
