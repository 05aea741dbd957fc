//! The form in which entries and members are kept on disk.
//!
//! It is ours: what openraft calls its structs may change with every version of it, while a log must
//! be read by the version after the one that wrote it. A first byte says which form follows, and
//! what is not known is refused, never guessed.
//!
//! ```text
//! entry    1 'n'                nothing: a leader begins
//!          1 'b' JSON           a batch: array of proposals
//!          1 'm' JSON           members, as below
//! members  1 JSON               {"voters":[[1,2,3]],"nodes":{"1":{"store":"<32 hex>","name":...},...}}
//! ```
//!
//! What a member says of itself beside its store may get more fields, and lack some: the form stays
//! the same by that. Two sets of voters stand there while a change of members is under way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ledger::Proposal;
use openraft::entry::EntryPayload;
use serde::{Deserialize, Serialize};

use super::types::{Batch, Facts, Member, Members, Payload, StoreId};

const FORM: u8 = 1;
const NOTHING: u8 = b'n';
const BATCH: u8 = b'b';
const MEMBERS: u8 = b'm';

#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error(
        "it is in form {found}, and this program knows form {FORM}: run the version of matins that wrote it"
    )]
    Form { found: u8 },
    #[error("it is of no known kind ({kind:#04x}): run the version of matins that wrote it")]
    Kind { kind: u8 },
    #[error("it is cut off")]
    CutOff,
    #[error(
        "it cannot be read ({why}): it is damaged, or a newer matins wrote it, and then that is the one to run"
    )]
    Json { why: String },
    #[error("it names the store `{store}` of node {node}, which is none")]
    Store { node: u64, store: String },
    #[error("it names voters that are no nodes")]
    Voters,
}

impl From<serde_json::Error> for FormError {
    fn from(error: serde_json::Error) -> FormError {
        // All that is known follows there, and helps nobody.
        let why = error.to_string();
        let why = why.split(", expected").next().unwrap_or_default();
        FormError::Json {
            why: why.to_owned(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenMembers {
    voters: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, WrittenMember>,
}

#[derive(Serialize, Deserialize)]
struct WrittenMember {
    store: String,
    #[serde(flatten)]
    facts: Facts,
}

pub(super) fn write_payload(payload: &Payload) -> Cow<'_, [u8]> {
    match payload {
        EntryPayload::Blank => Cow::Borrowed(&[FORM, NOTHING]),
        EntryPayload::Normal(batch) => Cow::Borrowed(&batch.written),
        EntryPayload::Membership(members) => {
            let mut bytes = vec![FORM, MEMBERS];
            write_members_json(members, &mut bytes);
            Cow::Owned(bytes)
        }
    }
}

pub(super) fn read_payload(bytes: &[u8]) -> Result<Payload, FormError> {
    let (kind, json) = known_form(bytes)?.split_first().ok_or(FormError::CutOff)?;
    match *kind {
        NOTHING => Ok(EntryPayload::Blank),
        BATCH => {
            let proposals: Vec<Proposal> = serde_json::from_slice(json)?;
            Ok(EntryPayload::Normal(Batch {
                proposals: Arc::from(proposals),
                written: Arc::from(bytes),
            }))
        }
        MEMBERS => Ok(EntryPayload::Membership(read_members_json(json)?)),
        kind => Err(FormError::Kind { kind }),
    }
}

/// Cuts commands into batches of one entry each: so many bytes, or one command.
pub(super) fn cut(proposals: Arc<[Proposal]>, bytes_max: usize) -> Vec<Batch> {
    let mut ends = Vec::new();
    let mut bytes = begin_batch(proposals.len());
    for (place, proposal) in proposals.iter().enumerate() {
        let before = bytes.len();
        serde_json::to_writer(&mut bytes, proposal)
            .expect("commands are always JSON, and a Vec takes all of it");
        if bytes.len() > bytes_max && before > BATCH_HEAD {
            let own = bytes.split_off(before);
            ends.push((place, std::mem::replace(&mut bytes, begin_batch(0))));
            bytes.extend_from_slice(&own);
        }
        bytes.push(b',');
    }
    ends.push((proposals.len(), bytes));
    let mut begin = 0;
    let whole = ends.len() == 1;
    let batch = |(end, mut bytes): (usize, Vec<u8>)| {
        // In the place of the last comma, or of none.
        if bytes.len() > BATCH_HEAD {
            bytes.pop();
        }
        bytes.push(b']');
        let own = begin..end;
        begin = end;
        Batch {
            proposals: if whole {
                Arc::clone(&proposals)
            } else {
                Arc::from(&proposals[own])
            },
            written: Arc::from(bytes),
        }
    };
    ends.into_iter().map(batch).collect()
}

/// Form, kind and the bracket.
const BATCH_HEAD: usize = 3;

fn begin_batch(commands: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BATCH_HEAD + commands * 256);
    bytes.extend([FORM, BATCH, b'[']);
    bytes
}

pub(super) fn write_members(members: &Members) -> Vec<u8> {
    let mut bytes = vec![FORM];
    write_members_json(members, &mut bytes);
    bytes
}

pub(super) fn read_members(bytes: &[u8]) -> Result<Members, FormError> {
    read_members_json(known_form(bytes)?)
}

fn known_form(bytes: &[u8]) -> Result<&[u8], FormError> {
    match bytes.split_first() {
        Some((&FORM, rest)) => Ok(rest),
        Some((&found, _)) => Err(FormError::Form { found }),
        None => Err(FormError::CutOff),
    }
}

fn write_members_json(members: &Members, bytes: &mut Vec<u8>) {
    let written = WrittenMembers {
        voters: members.get_joint_config().clone(),
        nodes: members
            .nodes()
            .map(|(node, member)| {
                let written = WrittenMember {
                    store: member.store.to_string(),
                    facts: member.facts.clone(),
                };
                (*node, written)
            })
            .collect(),
    };
    serde_json::to_writer(bytes, &written).expect("numbers and texts are always JSON");
}

fn read_members_json(json: &[u8]) -> Result<Members, FormError> {
    let written: WrittenMembers = serde_json::from_slice(json)?;
    let mut nodes = BTreeMap::new();
    for (node, WrittenMember { store, facts }) in written.nodes {
        let store: StoreId = store
            .parse()
            .map_err(|_| FormError::Store { node, store })?;
        nodes.insert(node, Member { store, facts });
    }
    Members::new(written.voters, nodes).map_err(|_| FormError::Voters)
}

#[cfg(test)]
mod tests {
    use ledger::Command;
    use ledger::command::EndSession;
    use protocol::{Epoch, SessionId, WallMs};
    use transport::Role;

    use super::*;

    fn members() -> Members {
        let nodes: BTreeMap<u64, Member> = (1..=4)
            .map(|node| {
                let facts = Facts {
                    name: format!("c{node}"),
                    role: Role::Witness,
                    peers: format!("c{node}.example:7410"),
                    agents: format!("c{node}.example:7411"),
                    api: format!("https://c{node}.example:7412"),
                    token: String::new(),
                    speaks: 7,
                };
                let store = StoreId::draw().unwrap();
                (node, Member { store, facts })
            })
            .collect();
        let voters = [[1, 2].into(), [1, 2, 3].into()];
        Members::new(voters.to_vec(), nodes).unwrap()
    }

    fn batch(sessions: std::ops::Range<i64>) -> Arc<[Proposal]> {
        let proposal = |session| Proposal {
            epoch: Some(Epoch(7)),
            at: WallMs(-1),
            source: None,
            command: Command::EndSession(EndSession {
                session: SessionId(session),
            }),
        };
        sessions.map(proposal).collect()
    }

    #[test]
    fn every_kind_of_entry_is_read_as_it_was_written() {
        for payload in [
            EntryPayload::Blank,
            EntryPayload::Normal(cut([].into(), 100).remove(0)),
            EntryPayload::Normal(cut(batch(1..4), 1000).remove(0)),
            EntryPayload::Membership(members()),
        ] {
            let bytes = write_payload(&payload);
            assert_eq!(read_payload(&bytes).unwrap(), payload);
        }
        let members = members();
        assert_eq!(read_members(&write_members(&members)).unwrap(), members);
    }

    /// A batch that is too large for one entry becomes several, and nothing of it is lost or moved.
    #[test]
    fn a_batch_is_cut_where_it_becomes_too_large() {
        let proposals = batch(1..100);
        let one = cut(batch(1..2), 1)[0].written.len();
        for (bytes_max, least, most) in [
            (1, 99, 99),
            (one, 99, 99),
            (one * 10, 9, 13),
            (one * 200, 1, 1),
        ] {
            let batches = cut(Arc::clone(&proposals), bytes_max);
            assert!((least..=most).contains(&batches.len()), "{bytes_max}");
            let mut read = Vec::new();
            for batch in &batches {
                assert!(batch.written.len() <= bytes_max.max(one + 2), "{bytes_max}");
                let payload = EntryPayload::Normal(batch.clone());
                assert_eq!(read_payload(&batch.written).unwrap(), payload);
                read.extend_from_slice(&batch.proposals);
            }
            assert_eq!(read, *proposals, "{bytes_max}");
        }
    }

    /// What is on the disks of others; a change of it needs another first byte.
    #[test]
    fn the_form_stays_what_it_is() {
        let store = "\"store\":\"000000000000000000000000000000ff\"";
        let bare = format!("\u{1}{{\"voters\":[[1]],\"nodes\":{{\"1\":{{{store}}}}}}}");
        let known = "\"name\":\"\",\"role\":\"coordinator\",\"peers\":\"\",\"agents\":\"\",\"api\":\"\",\"token\":\"\",\"speaks\":1";
        let whole = bare.replace(store, &format!("{store},{known}"));
        let more = bare.replace(store, &format!("{store},\"tomorrow\":[1]"));
        for written in [&bare, &whole, &more] {
            let members = read_members(written.as_bytes()).unwrap();
            assert_eq!(write_members(&members), whole.as_bytes(), "{written}");
        }
        let text =
            "1b[{\"epoch\":7,\"at\":-1,\"command\":{\"type\":\"end_session\",\"session\":3}}]";
        let mut bytes = text.as_bytes().to_vec();
        bytes[0] = 1;
        assert_eq!(write_payload(&read_payload(&bytes).unwrap()), bytes);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let nobody = b"\x01{\"voters\":[[1]],\"nodes\":{}}";
        let store = b"\x01{\"voters\":[],\"nodes\":{\"1\":{\"store\":\"+0000000000000000000000000000001\"}}}";
        for (bytes, expected) in [
            (&b"\x02b[]"[..], "form 2"),
            (b"\x01x", "no known kind (0x78)"),
            (
                b"\x01b[{\"epoch\":1,\"at\":1,\"command\":{\"type\":\"tomorrow\"}}]",
                "cannot be read (unknown variant `tomorrow`): it is damaged, or a newer matins wrote it",
            ),
            (b"\x01b[", "cannot be read"),
            (b"\x01", "cut off"),
            (b"", "cut off"),
        ] {
            let error = read_payload(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
        for (bytes, expected) in [
            (&nobody[..], "no nodes"),
            (store, "of node 1"),
            (b"\x03{}", "form 3"),
        ] {
            let error = read_members(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
