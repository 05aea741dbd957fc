//! Whether two machines belong together: the first words on every connection, and their judge.
//!
//! The certificate has said who the other side is, and its cluster is this one. What is left is the
//! group: a node whose disk was wiped or exchanged has forgotten for whom it voted, a number that
//! stands in two certificates would vote twice, and two groups that were begun apart would each take
//! the other's log for its own. Each of these is refused on both sides, in words for a person, and
//! before a vote or an entry has been exchanged.

use transport::PeerName;

use super::super::types::{Facts, Member, StoreId};
use super::wire::{FORM, Hello, Knows};

/// Why another control machine is not spoken to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the certificate of {name} states no number of a node: issue it again with `matins ca issue --role {} --name {} --node N`, where N is its number in the group",
        .name.role, .name.name
    )]
    NoNode { name: PeerName },
    #[error(
        "{name} speaks form {found} of the members' protocol, and this program speaks form {FORM}: upgrade one version at a time"
    )]
    Form { name: PeerName, found: u32 },
    #[error(
        "{name} says that it is node {said}, and its certificate says node {node}: give it the identity that belongs to its data directory"
    )]
    OtherNumber {
        name: PeerName,
        node: u64,
        said: u64,
    },
    #[error(
        "{name} has the number {node} as this machine has: a number is given to one machine only. Issue one of the two a certificate with another number, and add it under that"
    )]
    OwnNumber { name: PeerName, node: u64 },
    #[error(
        "the address of node {expected} is answered by {name}, which is node {found}: give each node the address of its own (`--advertise`)"
    )]
    OtherNode {
        expected: u64,
        name: PeerName,
        found: u64,
    },
    #[error(
        "{name} is node {node} by its certificate, with the store {found}, and the group knows node {node} as {known_name} with the store {known}. If the number was given twice, this machine needs a certificate with a new number; if it is node {node} and its data directory was lost or exchanged, and what it voted with it, it needs one as well, and node {node} is to be removed. Either way add it with an empty data directory"
    )]
    AnotherStore {
        name: PeerName,
        node: u64,
        found: StoreId,
        known: StoreId,
        known_name: String,
    },
    #[error(
        "{name} (node {node}) is of another group than this machine: each knows members, and neither the other. Clear the data directory of the one that is to join, and add it"
    )]
    AnotherGroup { name: PeerName, node: u64 },
    #[error("{name} says that its store is `{found}`, which is none")]
    NoStore { name: PeerName, found: String },
}

/// What this side knows when it judges the other.
pub(super) struct Judge<'a> {
    pub(super) own_node: u64,
    /// The other side as the group knows it.
    pub(super) known: Option<&'a Member>,
    /// The group has members at all.
    pub(super) member: bool,
    /// The node that was dialed, where it was one.
    pub(super) expected: Option<u64>,
}

/// Another control machine that may be spoken to.
#[derive(Clone, Debug)]
pub(super) struct Met {
    pub(super) node: u64,
    pub(super) store: StoreId,
    pub(super) facts: Facts,
    pub(super) knows_us: Knows,
    /// Which membership it knows us by.
    pub(super) members_at: Option<u64>,
}

pub(super) fn judge(
    name: &PeerName,
    certified: Option<u64>,
    hello: &Hello,
    judge: &Judge<'_>,
) -> Result<Met, Refusal> {
    let certificate = name;
    let name = || certificate.clone();
    let Some(node) = certified else {
        return Err(Refusal::NoNode { name: name() });
    };
    if hello.form != FORM {
        let found = hello.form;
        return Err(Refusal::Form {
            name: name(),
            found,
        });
    }
    if hello.node != node {
        return Err(Refusal::OtherNumber {
            name: name(),
            node,
            said: hello.node,
        });
    }
    if node == judge.own_node {
        return Err(Refusal::OwnNumber { name: name(), node });
    }
    if let Some(expected) = judge.expected
        && expected != node
    {
        return Err(Refusal::OtherNode {
            expected,
            name: name(),
            found: node,
        });
    }
    let store: StoreId = hello.store.parse().map_err(|_| Refusal::NoStore {
        name: name(),
        found: hello.store.clone(),
    })?;
    match judge.known {
        Some(known) if known.store != store => {
            return Err(Refusal::AnotherStore {
                name: name(),
                node,
                found: store,
                known: known.store,
                known_name: known.facts.name.clone(),
            });
        }
        None if judge.member && hello.knows_you == Knows::Others => {
            return Err(Refusal::AnotherGroup { name: name(), node });
        }
        Some(_) | None => {}
    }
    // The certificate is believed, not what is said beside it.
    let facts = Facts {
        name: certificate.name.to_string(),
        role: certificate.role,
        ..hello.facts.clone()
    };
    Ok(Met {
        node,
        store,
        facts,
        knows_us: hello.knows_you,
        members_at: hello.members_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 1;
    const STORE: &str = "000000000000000000000000000000aa";
    const OTHER_STORE: &str = "000000000000000000000000000000bb";

    struct Case {
        what: &'static str,
        certified: Option<u64>,
        said: u64,
        form: u32,
        store: &'static str,
        knows_you: Knows,
        known: Option<&'static str>,
        member: bool,
        expected: Option<u64>,
        refused: Option<&'static str>,
    }

    /// Node 2, that is a member and knows this one.
    const GOOD: Case = Case {
        what: "a member",
        certified: Some(2),
        said: 2,
        form: FORM,
        store: STORE,
        knows_you: Knows::You,
        known: Some(STORE),
        member: true,
        expected: None,
        refused: None,
    };

    fn check(case: &Case) {
        let name = "c2.coordinator.prod.matins".parse().unwrap();
        let hello = Hello {
            form: case.form,
            node: case.said,
            store: case.store.to_owned(),
            knows_you: case.knows_you,
            members_at: None,
            facts: Facts {
                name: "somebody".to_owned(),
                ..Facts::default()
            },
        };
        let known = case.known.map(|store| Member {
            store: store.parse().unwrap(),
            facts: Facts {
                name: "c2-of-old".to_owned(),
                ..Facts::default()
            },
        });
        let judged = judge(
            &name,
            case.certified,
            &hello,
            &Judge {
                own_node: OWN,
                known: known.as_ref(),
                member: case.member,
                expected: case.expected,
            },
        );
        match (judged, case.refused) {
            (Ok(met), None) => {
                assert_eq!(met.node, 2, "{}", case.what);
                assert_eq!(
                    met.facts.name, "c2",
                    "{}: the certificate counts",
                    case.what
                );
            }
            (Err(refusal), Some(words)) => {
                let said = refusal.to_string();
                assert!(said.contains(words), "{}: {said}", case.what);
            }
            (judged, _) => panic!("{}: {judged:?}", case.what),
        }
    }

    #[test]
    fn who_does_not_belong_is_told_why_and_what_to_do() {
        for case in [
            GOOD,
            Case {
                what: "a newcomer, to a member",
                knows_you: Knows::Nobody,
                known: None,
                ..GOOD
            },
            Case {
                what: "a member, to a newcomer",
                known: None,
                member: false,
                knows_you: Knows::Others,
                ..GOOD
            },
            Case {
                what: "a member that this one has not heard of yet",
                known: None,
                ..GOOD
            },
            Case {
                what: "the node that was dialed",
                expected: Some(2),
                ..GOOD
            },
            Case {
                what: "a certificate without a number",
                certified: None,
                refused: Some(
                    "issue it again with `matins ca issue --role coordinator --name c2 --node N`",
                ),
                ..GOOD
            },
            Case {
                what: "another form",
                form: FORM + 1,
                refused: Some("upgrade one version at a time"),
                ..GOOD
            },
            Case {
                what: "the data directory of another node",
                said: 3,
                refused: Some("says that it is node 3, and its certificate says node 2"),
                ..GOOD
            },
            Case {
                what: "this machine's own number",
                certified: Some(OWN),
                said: OWN,
                refused: Some("a number is given to one machine only"),
                ..GOOD
            },
            Case {
                what: "another node at the address",
                expected: Some(3),
                refused: Some("the address of node 3 is answered by c2.coordinator.prod.matins"),
                ..GOOD
            },
            Case {
                what: "a number given twice, or a disk that was wiped",
                store: OTHER_STORE,
                refused: Some(
                    "the group knows node 2 as c2-of-old with the store 000000000000000000000000000000aa",
                ),
                ..GOOD
            },
            Case {
                what: "a wiped disk, which knows nobody",
                store: OTHER_STORE,
                knows_you: Knows::Nobody,
                refused: Some("a certificate with a new number"),
                ..GOOD
            },
            Case {
                what: "another group",
                known: None,
                knows_you: Knows::Others,
                refused: Some("is of another group"),
                ..GOOD
            },
            Case {
                what: "no store",
                store: "x",
                refused: Some("which is none"),
                ..GOOD
            },
        ] {
            check(&case);
        }
    }
}
