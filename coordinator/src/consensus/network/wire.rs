//! What members say to each other, in a form of our own.
//!
//! Everything is JSON in frames but the entries of the log, which follow the frame that announces
//! them in the form in which they stand on the disk. [`Hello::form`] says which form all of it has;
//! fields may be added without another one, where a program that does not know them may pass them
//! over.

use ledger::log::Position;
use openraft::entry::RaftEntry;
use openraft::raft::{
    AppendEntriesRequest, StreamAppendError, StreamAppendResult, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use protocol::WallMs;
use protocol::host::HostClock;
use serde::{Deserialize, Serialize};

use super::super::form::{self, FormError};
use super::super::types::{
    EntryId, Facts, Leader, LogEntry, Payload, Types, VoteCast, entry_id, position,
};

/// The form of everything here.
pub(super) const FORM: u32 = 1;

/// Bytes of all entries in one message. The sender keeps to it by sending fewer of them.
pub(super) const ENTRIES_BYTES_MAX: u64 = 64 << 20;

/// The first words on a connection, from both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) form: u32,
    pub(super) node: u64,
    pub(super) store: String,
    pub(super) knows_you: Knows,
    /// Entry of the log that `knows_you` is judged by: the sender's membership.
    #[serde(default)]
    pub(super) members_at: Option<u64>,
    pub(super) facts: Facts,
}

/// Whether the sender's membership has the node that it speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Knows {
    /// The sender is no member of any group yet.
    Nobody,
    Others,
    You,
}

/// What the dialer's hello is answered with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Greeting {
    Welcome(Hello),
    Refused { why: String },
}

/// What a control machine tells the others of itself again and again. An older program tells none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Digest of the classes of hosts that it goes by, if it is a coordinator.
    pub classes: Option<String>,
    /// How its time service keeps its clock.
    pub kept: Option<HostClock>,
    /// Why it is not what a control machine should be, where that is certain.
    pub unfit: Option<String>,
}

/// A reading of the sender's wall clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Clock {
    pub(super) wall: WallMs,
    /// No step of it was seen in the last minute.
    pub(super) steady: bool,
    /// What is left of the sender's disk, where that is too little.
    #[serde(default)]
    pub(super) spare_bytes: Option<u64>,
    #[serde(default)]
    pub(super) condition: Condition,
}

/// Index, term and node of an entry.
type At = (u64, u64, u64);
/// Term, node, and whether a quorum has granted it.
type Cast = (u64, u64, bool);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) ask: Ask,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) id: u64,
    pub(super) answer: Answer,
}

/// What cannot wait behind the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// Of entries there are none.
    Beat(Append),
    Vote(Ballot),
    PreVote(Ballot),
    TakeLead {
        from: Cast,
        to: u64,
        last: Option<At>,
    },
    Clock,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Appended(Appended),
    Voted {
        vote: Cast,
        granted: bool,
        last: Option<At>,
    },
    TakingLead,
    VoteChanged {
        expected: Cast,
        actual: Cast,
    },
    LogNotFlushed {
        expected: Option<At>,
        actual: Option<At>,
    },
    Clock(Box<Clock>),
    /// The snapshot is in its place.
    Installed {
        vote: Cast,
    },
    Failed {
        what: String,
    },
}

/// Announces entries; their bytes follow, one behind the other.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Append {
    vote: Cast,
    prev: Option<At>,
    commit: Option<At>,
    /// Where each stands, and how long it is.
    entries: Vec<(At, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Appended {
    Matched { last: Option<At> },
    Conflict { at: At },
    Higher { vote: Cast },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ballot {
    vote: Cast,
    last: Option<At>,
    /// The leader itself has asked for this election.
    #[serde(default)]
    transfer: bool,
}

/// What a bulk stream is for: its first frame.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Opening {
    /// [`Append`]s follow, each with its entries, and [`Appended`]s come back in the same order.
    Log,
    /// So many bytes of a snapshot follow; an [`Answer`] comes back.
    Snapshot(Announced),
    /// The sender wants the next certificate of the key that it has shown; a `RenewAnswer` comes back.
    Renew,
}

/// A snapshot that is being sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Announced {
    pub(super) vote: Cast,
    at: At,
    pub(super) bytes: u64,
}

/// A message that says something else than it may.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("its entries have {bytes} bytes, more than the {ENTRIES_BYTES_MAX} of one message")]
    TooLarge { bytes: u64 },
    #[error("entry {index} of it")]
    Entry { index: u64, source: FormError },
    #[error("its entry {index} does not follow the one before")]
    Gap { index: u64 },
}

fn at(id: &EntryId) -> At {
    let Position { index, term, node } = position(id);
    (index, term, node)
}

fn id((index, term, node): At) -> EntryId {
    entry_id(Position { index, term, node })
}

pub(super) fn cast(vote: &VoteCast) -> Cast {
    (vote.leader_id.term, vote.leader_id.node_id, vote.committed)
}

pub(super) fn vote((term, node_id, committed): Cast) -> VoteCast {
    VoteCast {
        leader_id: Leader { term, node_id },
        committed,
    }
}

impl Announced {
    pub(super) fn write(by: &VoteCast, last: &EntryId, bytes: u64) -> Announced {
        Announced {
            vote: cast(by),
            at: at(last),
            bytes,
        }
    }

    /// Where the snapshot ends.
    pub(super) fn end(&self) -> Position {
        position(&id(self.at))
    }
}

/// Writes a request without entries.
pub(super) fn write_beat(request: &AppendEntriesRequest<Types>) -> Append {
    Append {
        vote: cast(&request.vote),
        prev: request.prev_log_id.as_ref().map(at),
        commit: request.leader_commit.as_ref().map(at),
        entries: Vec::new(),
    }
}

/// Writes a request as messages of so many bytes of entries, or one entry, each: what announces the
/// entries, and the entries. There is one message at least.
pub(super) fn write_appends(
    request: &AppendEntriesRequest<Types>,
    bytes_max: usize,
) -> Vec<(Append, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut append = write_beat(request);
    let mut bytes = Vec::new();
    for entry in &request.entries {
        let payload = form::write_payload(&entry.payload);
        if !append.entries.is_empty() && bytes.len() + payload.len() > bytes_max {
            let next = Append {
                prev: append.entries.last().map(|(at, _)| *at),
                entries: Vec::new(),
                ..append
            };
            let full = std::mem::replace(&mut append, next);
            messages.push((full, std::mem::take(&mut bytes)));
        }
        append
            .entries
            .push((at(&entry.log_id), payload.len() as u64));
        bytes.extend_from_slice(&payload);
    }
    messages.push((append, bytes));
    messages
}

impl Append {
    /// How many bytes follow.
    pub(super) fn bytes(&self) -> Result<usize, WireError> {
        let bytes = self
            .entries
            .iter()
            .fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if bytes > ENTRIES_BYTES_MAX {
            return Err(WireError::TooLarge { bytes });
        }
        Ok(bytes as usize)
    }

    /// `bytes` are what followed it: as many as [`Append::bytes`] says, or none behind a heartbeat.
    pub(super) fn read(self, mut bytes: &[u8]) -> Result<AppendEntriesRequest<Types>, WireError> {
        let mut next = self.prev.map_or(0, |(index, ..)| index.saturating_add(1));
        let mut entries = Vec::with_capacity(self.entries.len());
        for (at, length) in self.entries {
            let index = at.0;
            // What openraft takes for granted is looked at here: it would panic.
            if std::mem::replace(&mut next, index.saturating_add(1)) != index {
                return Err(WireError::Gap { index });
            }
            let unread = |source| WireError::Entry { index, source };
            // A heartbeat may name entries that do not follow it.
            let split = bytes.split_at_checked(length as usize);
            let (own, rest) = split.ok_or(FormError::CutOff).map_err(unread)?;
            bytes = rest;
            let payload: Payload = form::read_payload(own).map_err(unread)?;
            entries.push(LogEntry::new(id(at), payload));
        }
        Ok(AppendEntriesRequest {
            vote: vote(self.vote),
            prev_log_id: self.prev.map(id),
            entries,
            leader_commit: self.commit.map(id),
        })
    }
}

impl Appended {
    pub(super) fn write(result: &StreamAppendResult<Types>) -> Appended {
        match result {
            Ok(last) => Appended::Matched {
                last: last.as_ref().map(at),
            },
            Err(StreamAppendError::Conflict(conflict)) => Appended::Conflict { at: at(conflict) },
            Err(StreamAppendError::HigherVote(higher)) => Appended::Higher { vote: cast(higher) },
        }
    }

    pub(super) fn read(self) -> StreamAppendResult<Types> {
        match self {
            Appended::Matched { last } => Ok(last.map(id)),
            Appended::Conflict { at } => Err(StreamAppendError::Conflict(id(at))),
            Appended::Higher { vote: higher } => Err(StreamAppendError::HigherVote(vote(higher))),
        }
    }
}

impl Ballot {
    pub(super) fn write(request: &VoteRequest<Types>) -> Ballot {
        Ballot {
            vote: cast(&request.vote),
            last: request.last_log_id.as_ref().map(at),
            transfer: request.leadership_transfer,
        }
    }

    pub(super) fn read(self) -> VoteRequest<Types> {
        VoteRequest {
            vote: vote(self.vote),
            last_log_id: self.last.map(id),
            leadership_transfer: self.transfer,
        }
    }
}

pub(super) fn write_vote_response(response: &VoteResponse<Types>) -> Answer {
    Answer::Voted {
        vote: cast(&response.vote),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(at),
    }
}

pub(super) fn read_vote_response(answer: Answer) -> Result<VoteResponse<Types>, Answer> {
    match answer {
        Answer::Voted {
            vote: cast,
            granted,
            last,
        } => Ok(VoteResponse::new(vote(cast), last.map(id), granted)),
        other => Err(other),
    }
}

pub(super) fn write_transfer(request: &TransferLeaderRequest<Types>) -> Ask {
    Ask::TakeLead {
        from: cast(request.from_leader()),
        to: *request.to_node_id(),
        last: request.last_log_id().map(at),
    }
}

pub(super) fn read_transfer(from: Cast, to: u64, last: Option<At>) -> TransferLeaderRequest<Types> {
    TransferLeaderRequest::new(vote(from), to, last.map(id))
}

pub(super) fn write_transfer_response(response: &TransferLeaderResponse<Types>) -> Answer {
    match response {
        Ok(()) => Answer::TakingLead,
        Err(TransferLeaderError::VoteChanged { expected, actual }) => Answer::VoteChanged {
            expected: cast(expected),
            actual: cast(actual),
        },
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => Answer::LogNotFlushed {
            expected: expected.as_ref().map(at),
            actual: actual.as_ref().map(at),
        },
    }
}

pub(super) fn read_transfer_response(
    answer: Answer,
) -> Result<TransferLeaderResponse<Types>, Answer> {
    Ok(match answer {
        Answer::TakingLead => Ok(()),
        Answer::VoteChanged { expected, actual } => Err(TransferLeaderError::VoteChanged {
            expected: vote(expected),
            actual: vote(actual),
        }),
        Answer::LogNotFlushed { expected, actual } => Err(TransferLeaderError::LogNotFlushed {
            expected: expected.map(id),
            actual: actual.map(id),
        }),
        other => return Err(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::causes;

    const BLANK: [u8; 2] = [1, b'n'];

    /// A message that follows entry 4, and what comes behind it.
    fn read(entries: &str, bytes: &[u8]) -> Result<AppendEntriesRequest<Types>, WireError> {
        let text = format!(
            "{{\"vote\":[1,1,true],\"prev\":[4,1,1],\"commit\":null,\"entries\":{entries}}}"
        );
        let append: Append = serde_json::from_str(&text).unwrap();
        append.read(bytes)
    }

    #[test]
    fn a_message_that_announces_what_it_does_not_hold_is_refused() {
        for entries in ["[]", "[[[5,1,1],2]]"] {
            read(entries, &BLANK).unwrap();
        }
        for (entries, bytes, expected) in [
            // As a heartbeat is read, which nothing follows.
            ("[[[5,1,1],2]]", &[][..], "entry 5 of it: it is cut off"),
            ("[[[5,1,1],0]]", &[], "entry 5 of it: it is cut off"),
            ("[[[5,1,1],3]]", &BLANK, "entry 5 of it: it is cut off"),
            ("[[[6,1,1],2]]", &BLANK, "entry 6 does not follow"),
            (
                "[[[5,1,1],2],[[7,1,1],0]]",
                &BLANK,
                "entry 7 does not follow",
            ),
        ] {
            let told = causes(&read(entries, bytes).unwrap_err());
            assert!(told.contains(expected), "{entries}: {told}");
        }
    }
}
