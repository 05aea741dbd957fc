//! Memory: how much, how much of it may be used, whether its errors are corrected, and how many there
//! were.
//!
//! Corrected errors are shown, not judged: one in a month is what the code is for. An uncorrected one is
//! a fault.

mod dmidecode;
mod edac;

pub use edac::{parse_edac, read_edac};

use crate::cpu::memory_limit;
use crate::fact::Fact;
use crate::facts::{Facts, MemoryFacts};
use crate::lines::{lines, number};
use crate::report::{Health, Item, Report};
use crate::root::Root;

/// Reads how much memory there is, and what memory controllers count below `root`.
pub fn read_memory(root: &Root) -> Report {
    let counted = read_edac(root);
    let mut report = if let Some(text) = root.read("proc/meminfo") {
        parse_meminfo(&text)
    } else {
        let mut report = Report::default();
        report.problem("proc/meminfo", "it cannot be read");
        report
    };
    for item in &mut report.items {
        let Facts::Memory(facts) = &mut item.facts else {
            continue;
        };
        if let (Some(size), Some(limit)) = (facts.size_bytes.known(), memory_limit(root)) {
            facts.usable_bytes = limit.min(*size).into();
        }
        if !counted.items.is_empty() {
            item.health = Health::Ok;
            item.reason = "its controllers are listed beside it".into();
        }
    }
    report.append(counted);
    report
}

/// Reads `/proc/meminfo`.
pub fn parse_meminfo(text: &str) -> Report {
    let mut report = Report::default();
    let mut facts = MemoryFacts::unknown("/proc/meminfo does not tell");
    for line in lines(text) {
        if let Some((key, value)) = line.pair()
            && key == "memtotal"
        {
            facts
                .size_bytes
                .learn(number(value).and_then(|kib| kib.checked_mul(1024)));
        }
    }
    let Some(size) = facts.size_bytes.known().copied() else {
        report.problem("meminfo", "it does not tell the size of memory");
        return report;
    };
    facts.usable_bytes = size.into();
    for fact in [&mut facts.corrected_errors, &mut facts.uncorrected_errors] {
        *fact = Fact::Unknown("no memory controller counts them here".into());
    }
    report.items.push(Item {
        id: "memory".into(),
        health: Health::Unknown,
        reason: "no memory controller counts its errors here".into(),
        facts: Facts::Memory(facts),
    });
    report
}
