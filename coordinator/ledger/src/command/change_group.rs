use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::outcome::{Done, Refusal};
use crate::tables::join::NODE_MAX;
use crate::tables::record::{Audit, On};

/// An admin changes the control group, or has the lead handed over: noted before it is done, by
/// whoever leads.
///
/// Who the members are stands in the log's own entries, and those forget whom they do not name any
/// more. A number must not be forgotten: a machine votes by it, and a second one under the same number
/// would vote twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeGroup {
    pub change: GroupChange,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupChange {
    Add(ControlMachine),
    Remove(ControlMachine),
    /// To whom, where that was said.
    HandOver {
        to: Option<u64>,
    },
}

/// A machine of the control group: its number, its name, and the id of its data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlMachine {
    pub node: u64,
    pub name: String,
    pub store: String,
}

impl ChangeGroup {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let by = clip(&self.by);
        let (action, what) = match &self.change {
            GroupChange::Add(machine) => {
                if !(1..=NODE_MAX).contains(&machine.node) {
                    return Err(malformed(format!(
                        "node {}: control machines have the numbers 1 to {NODE_MAX}",
                        machine.node
                    )));
                }
                if let Some(given) = context.control_machine(machine.node)?
                    && (given.removed || given.machine.store != machine.store)
                {
                    return Err(Refusal::NodeNumberGiven {
                        node: machine.node,
                        name: given.machine.name,
                        removed: given.removed,
                    }
                    .into());
                }
                context.note_control_machine(machine, by)?;
                ("add control machine", said(machine))
            }
            GroupChange::Remove(machine) => {
                context.note_control_machine(machine, by)?;
                context.note_removal(machine.node, by)?;
                ("remove control machine", said(machine))
            }
            GroupChange::HandOver { to: Some(to) } => {
                ("hand over the lead", format!("to node {to}"))
            }
            GroupChange::HandOver { to: None } => ("hand over the lead", String::new()),
        };
        context.audit(Audit {
            by,
            action,
            on: On::All,
            reason: (!what.is_empty()).then(|| clip(&what)),
        })?;
        Ok(Done::GroupChangeNoted)
    }
}

fn said(machine: &ControlMachine) -> String {
    format!("{} (node {})", machine.name, machine.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;

    fn change(change: GroupChange) -> ChangeGroup {
        ChangeGroup {
            change,
            by: "ada".to_owned(),
        }
    }

    fn machine(node: u64, store: &str) -> ControlMachine {
        ControlMachine {
            node,
            name: format!("c{node}"),
            store: store.to_owned(),
        }
    }

    #[test]
    fn a_number_is_given_once() {
        let mut bed = Bed::new();
        let add = |node, store| change(GroupChange::Add(machine(node, store)));
        let remove = |node, store| change(GroupChange::Remove(machine(node, store)));
        // Caught up or not: the same machine may be asked for again.
        for _ in 0..2 {
            assert_eq!(bed.ok(add(2, "aa")), Done::GroupChangeNoted);
        }
        let given = |removed| Refusal::NodeNumberGiven {
            node: 2,
            name: "c2".to_owned(),
            removed,
        };
        assert_eq!(bed.refused(add(2, "bb")), given(false));
        bed.ok(remove(2, "aa"));
        bed.ok(remove(2, "aa"));
        for store in ["aa", "bb"] {
            assert_eq!(bed.refused(add(2, store)), given(true));
        }
        // The first of a group was never added.
        bed.ok(remove(1, "cc"));
        assert_eq!(
            bed.view("SELECT node, name, store, removed_by FROM control_machine_view"),
            ["1|c1|cc|ada", "2|c2|aa|ada"]
        );
    }

    #[test]
    fn a_number_leaves_room_for_those_after_it() {
        for (node, taken) in [
            (0, false),
            (1, true),
            (NODE_MAX, true),
            (NODE_MAX + 1, false),
            (i64::MAX.cast_unsigned(), false),
            (u64::MAX, false),
        ] {
            let mut bed = Bed::new();
            let add = change(GroupChange::Add(machine(node, "aa")));
            if taken {
                bed.ok(add);
                continue;
            }
            let refused = bed.refused(add);
            assert!(
                matches!(refused, Refusal::Malformed { .. }),
                "{node}: {refused:?}"
            );
        }
    }

    #[test]
    fn every_change_is_in_the_audit() {
        let mut bed = Bed::new();
        for what in [
            GroupChange::Add(machine(2, "aa")),
            GroupChange::HandOver { to: Some(2) },
            GroupChange::HandOver { to: None },
            GroupChange::Remove(machine(2, "aa")),
        ] {
            bed.ok(change(what));
        }
        assert_eq!(
            bed.view("SELECT by, action, reason FROM audit_view"),
            [
                "ada|add control machine|c2 (node 2)",
                "ada|hand over the lead|to node 2",
                "ada|hand over the lead|-",
                "ada|remove control machine|c2 (node 2)",
            ]
        );
    }
}
