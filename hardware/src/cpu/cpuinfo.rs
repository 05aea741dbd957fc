//! `/proc/cpuinfo`: for the model, and for the rest where `/sys` is silent.

use std::collections::BTreeSet;

use super::item;
use crate::facts::CpuFacts;
use crate::lines::{lines, number};
use crate::report::Report;

/// Sockets named where they differ. No board has more.
const SOCKETS_SAID_MAX: usize = 16;

/// Reads `/proc/cpuinfo` alone. Every architecture writes it differently; what one does not write is
/// unknown.
pub fn parse_cpuinfo(text: &str) -> Report {
    let mut report = Report::default();
    let mut facts = CpuFacts::unknown("/proc/cpuinfo does not tell");
    let mut processors = 0_u64;
    let mut counted = None;
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut package = None;
    // What sockets say that they have.
    let mut claims = BTreeSet::new();
    for line in lines(text) {
        let Some((key, value)) = line.pair() else {
            continue;
        };
        match key.as_str() {
            "processor" | "cpu number" if number(value).is_some() => {
                // s390 begins each processor twice, with this and without.
                processors += u64::from(key == "processor");
                package = None;
            }
            "# processors" => counted = number(value),
            "physical id" => {
                package = number(value);
                packages.extend(package);
            }
            "core id" => cores.extend(package.zip(number(value))),
            "cpu cores" => claims.extend(package.zip(number(value))),
            _ => {}
        }
    }
    let threads = counted.or((processors > 0).then_some(processors));
    let Some(threads) = threads else {
        report.problem(
            "the file",
            "it is no tar of /proc and /sys, no /proc/cpuinfo and no lscpu: it lists no processor",
        );
        return report;
    };
    facts.model.learn(model(text));
    facts.threads = threads.into();
    facts.threads_usable = crate::Fact::Unknown("only /sys and the control group tell".into());
    // Books and drawers of a mainframe are no packages; that file has another meaning of both.
    if counted.is_none() {
        facts
            .packages
            .learn((!packages.is_empty()).then_some(packages.len() as u64));
        facts
            .cores
            .learn((!cores.is_empty()).then_some(cores.len() as u64));
    }
    let mut reason = format!("{threads} logical processors in /proc/cpuinfo");
    let counts: BTreeSet<u64> = claims.iter().map(|(_, cores)| *cores).collect();
    if counts.len() > 1 {
        let said: Vec<String> = claims
            .iter()
            .take(SOCKETS_SAID_MAX)
            .map(|(package, cores)| format!("socket {package} says {cores} cores"))
            .collect();
        reason = format!("{reason}; sockets do not agree: {}", said.join(", "));
    }
    report.items.push(item(facts, reason));
    report
}

/// What the first processor calls itself, by the names that architectures have for it.
pub(super) fn model(text: &str) -> Option<String> {
    const NAMES: [&str; 6] = [
        "model name",
        "cpu model",
        "machine",
        "cpu",
        "hardware",
        "uarch",
    ];
    let find = |name: &&str| {
        lines(text).find_map(|line| {
            let (key, value) = line.pair()?;
            let words: Vec<&str> = value.split_whitespace().collect();
            (key == *name && !words.is_empty()).then(|| words.join(" "))
        })
    };
    NAMES.iter().find_map(find)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::Facts;

    #[test]
    fn cores_are_counted_in_their_packages() {
        let mut text = String::new();
        for processor in 0..8 {
            let (package, core) = (processor / 4, processor % 4 / 2);
            writeln!(
                text,
                "processor\t: {processor}\nmodel name\t: Some  CPU @ 2GHz\nphysical id\t: {package}\ncore id\t: {core}\n"
            )
            .unwrap();
        }
        let report = parse_cpuinfo(&text);
        let Facts::Cpu(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(
            (&facts.packages, &facts.cores, &facts.threads),
            (&2.into(), &4.into(), &8.into())
        );
        assert_eq!(facts.model, "Some CPU @ 2GHz".to_owned().into());
    }
}
