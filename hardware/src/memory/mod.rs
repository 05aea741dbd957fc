//! Memory: how much, how much of it may be used, whether its errors are corrected, and how many there
//! were.
//!
//! Corrected errors are shown, not judged: one in a month is what the code is for. An uncorrected one is
//! a fault.

mod dmidecode;
mod edac;
mod smbios;

pub use edac::{parse_edac, read_edac};
pub use smbios::{parse_smbios, read_smbios};

use std::collections::BTreeSet;

use crate::cpu::{NODES, Nodes, memory_limit};
use crate::facts::{Facts, MemoryFacts};
use crate::lines::{lines, number};
use crate::report::{Health, Item, Report};
use crate::root::Root;

/// Reads how much memory there is, how much of it this process may use, and what memory controllers
/// count below `root`.
pub fn read_memory(root: &Root) -> Report {
    let counted = read_edac(root);
    let mut facts = MemoryFacts::unknown("the kernel does not tell");
    let nodes = Nodes::read(root);
    let of_nodes = |nodes: &BTreeSet<u32>| {
        let sizes = nodes.iter().map(|node| {
            let text = root.read(&format!("{NODES}/node{node}/meminfo"))?;
            size_in(&text)
        });
        let sum = sizes
            .reduce(|sum, bytes| sum?.checked_add(bytes?))
            .flatten();
        sum.filter(|bytes| *bytes > 0)
    };
    let told = root.read("proc/meminfo").and_then(|text| size_in(&text));
    let Some(size) = told.or_else(|| of_nodes(&nodes.online)) else {
        let mut report = counted;
        report.problem(
            "proc/meminfo",
            "neither this nor any NUMA node tells the size of memory",
        );
        return report;
    };
    facts.size_bytes = size.into();
    let mut usable = size;
    if nodes.usable != nodes.online {
        usable = usable.min(of_nodes(&nodes.usable).unwrap_or(usable));
    }
    // A limit above what there is limits nothing.
    usable = usable.min(memory_limit(root).unwrap_or(usable));
    facts.usable_bytes = usable.into();
    let (health, reason) = if counted.items.is_empty() {
        (
            Health::Unknown,
            "no memory controller counts its errors here",
        )
    } else {
        (Health::Ok, "its controllers are listed beside it")
    };
    let mut report = Report::default();
    let mut firmware = read_smbios(root);
    firmware.items.retain(|item| {
        let Facts::Memory(told) = &item.facts else {
            return true;
        };
        facts.modules.learn(told.modules.known().copied());
        facts.slots.learn(told.slots.known().copied());
        facts.ecc = told.ecc.clone();
        false
    });
    report.items.push(Item {
        id: "memory".into(),
        health,
        reason: reason.into(),
        facts: Facts::Memory(facts),
    });
    report.append(counted);
    report.append(firmware);
    report
}

/// `MemTotal: 32836008 kB` of a machine, `Node 0 MemTotal: 16777216 kB` of one node.
fn size_in(text: &str) -> Option<u64> {
    lines(text).find_map(|line| {
        let (key, value) = line.pair()?;
        let is_total = key == "memtotal" || key.ends_with(" memtotal");
        is_total.then(|| number(value)?.checked_mul(1024))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    #[test]
    fn what_there_is_and_what_may_be_used() {
        let node = |node: u32| {
            (
                format!("{NODES}/node{node}/meminfo"),
                format!("Node {node} MemTotal: 1024 kB\n"),
            )
        };
        let mut archive = Archive::default();
        let mut put =
            |(path, text): (String, String)| archive.files.insert(path, text.into_bytes());
        put(node(0));
        put(node(1));
        put(node(2));
        put((
            "proc/self/status".into(),
            "Mems_allowed_list:\t0-1\n".into(),
        ));
        let report = read_memory(&Root::Archive(archive));
        let Facts::Memory(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.size_bytes, (3_u64 << 20).into());
        assert_eq!(facts.usable_bytes, (2_u64 << 20).into());
    }

    #[test]
    fn without_a_size_there_is_no_item() {
        let report = read_memory(&Root::Archive(Archive::default()));
        assert!(report.items.is_empty() && report.problems.len() == 1);
    }
}
