//! Errors of memory as the kernel's EDAC counts them: from `/sys/devices/system/edac`, `edac-util` and
//! `ras-mc-ctl`.

use std::collections::BTreeMap;

use super::dmidecode::parse_dmidecode;
use crate::fact::Fact;
use crate::facts::{Facts, MemoryFacts};
use crate::judgement::Judgement;
use crate::lines::{Line, lines, plain};
use crate::report::{Health, Item, Report};
use crate::root::Root;

const DIRECTORY: &str = "sys/devices/system/edac/mc";

/// Reads what memory controllers count below `root`. A machine without them has no items: its memory
/// corrects nothing, or nobody may see it.
pub fn read_edac(root: &Root) -> Report {
    let mut report = Report::default();
    // Only these are counted: csrows and modules below them are in their sums.
    for name in root.names(DIRECTORY).unwrap_or_default() {
        if !is_controller(&name) {
            continue;
        }
        let count = |file: &str| root.number(&format!("{DIRECTORY}/{name}/{file}"));
        let controller = Controller {
            corrected: count("ce_count"),
            uncorrected: count("ue_count"),
            size_mib: count("size_mb"),
            kind: root.line(&format!("{DIRECTORY}/{name}/mc_name")),
            garbled: Vec::new(),
        };
        report.items.push(controller.item(name));
    }
    report
}

fn is_controller(name: &str) -> bool {
    name.strip_prefix("mc")
        .is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Reads counts of memory errors in any of the forms that people keep them in; `dmidecode` too, which
/// tells of the modules and whether errors are corrected.
pub fn parse_edac(text: &str) -> Report {
    if text.contains("DMI type") || text.contains("Memory Device") {
        return parse_dmidecode(text);
    }
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Debug, Default)]
struct Controller {
    corrected: Option<u64>,
    uncorrected: Option<u64>,
    size_mib: Option<u64>,
    kind: Option<String>,
    /// Counts that were there and are none.
    garbled: Vec<String>,
}

impl Controller {
    fn item(self, id: String) -> Item {
        let mut judgement = Judgement::default();
        match self.uncorrected {
            Some(0) => judgement.say(Health::Ok, "no uncorrected errors"),
            Some(count) => judgement.say(Health::Degraded, format!("uncorrected errors: {count}")),
            None => judgement.require(false, "how many errors were not corrected"),
        }
        match self.corrected {
            Some(0) => {}
            Some(count) => judgement.note(format!("corrected errors: {count}")),
            None => judgement.require(false, "how many errors were corrected"),
        }
        for garbled in self.garbled {
            judgement.say(Health::Unknown, garbled);
        }
        if let Some(kind) = self.kind {
            judgement.note(kind);
        }
        let mut facts = MemoryFacts::unknown("EDAC does not tell");
        facts.ecc = true.into();
        facts.corrected_errors.learn(self.corrected);
        facts.uncorrected_errors.learn(self.uncorrected);
        facts.size_bytes.learn(
            self.size_mib
                .filter(|size| *size > 0)
                .and_then(|size| size.checked_mul(1 << 20)),
        );
        facts.usable_bytes = Fact::NotApplicable;
        judgement.item(id, Facts::Memory(facts))
    }
}

#[derive(Default)]
struct Reader {
    report: Report,
    controllers: BTreeMap<String, Controller>,
    none: bool,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        if said.contains("no errors to report") || said.contains("no memory errors") {
            self.none = true;
        } else if said.contains("no memory controller data found") {
            self.report.problem(
                line.place(),
                "edac-util found no memory controller: the kernel counts no errors",
            );
        } else if let Some((controller, kind, count)) = counted(&said) {
            self.count(&controller, kind, count, line);
        } else if let Some((controller, corrected, uncorrected)) = row(&said) {
            self.count(&controller, Kind::Corrected, corrected, line);
            self.count(&controller, Kind::Uncorrected, uncorrected, line);
        }
    }

    /// Counts of parts are summed up; a garbled one spoils the sum.
    fn count(&mut self, controller: &str, kind: Kind, count: Option<u64>, line: Line<'_>) {
        let controller = self.controllers.entry(controller.to_owned()).or_default();
        let Some(count) = count else {
            controller
                .garbled
                .push(format!("{:?} has no count", line.text));
            return;
        };
        let sum = match kind {
            Kind::Corrected => &mut controller.corrected,
            Kind::Uncorrected => &mut controller.uncorrected,
        };
        *sum = Some(sum.unwrap_or(0).saturating_add(count));
    }

    fn finish(self) -> Report {
        let mut report = self.report;
        if self.controllers.is_empty() && !self.none && report.problems.is_empty() {
            report.problem("the file", "nothing in it counts errors of memory");
        }
        for (name, controller) in self.controllers {
            report.items.push(controller.item(name));
        }
        if self.none && report.items.is_empty() {
            let controller = Controller {
                corrected: Some(0),
                uncorrected: Some(0),
                ..Controller::default()
            };
            report.items.push(controller.item("memory".into()));
        }
        report
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Corrected,
    Uncorrected,
}

/// `mc0: csrow2: ch0: 3 Corrected Errors`, of `edac-util -v`: of which part, which errors, how many.
fn counted(said: &str) -> Option<(String, Kind, Option<u64>)> {
    let (controller, rest) = said.split_once(':')?;
    if !is_controller(controller) || !said.contains("corrected error") {
        return None;
    }
    let kind = if said.contains("uncorrected error") {
        Kind::Uncorrected
    } else {
        Kind::Corrected
    };
    let parts: Vec<&str> = rest.split(':').map(str::trim).collect();
    let (last, places) = parts.split_last()?;
    let count = last.split_whitespace().next()?.parse().ok();
    // Uncorrected errors are told of a row, corrected ones of its channels: both are of the row.
    let row = places
        .first()
        .map_or_else(String::new, |row| format!("/{row}"));
    Some((format!("{controller}{row}"), kind, count))
}

/// `mc#0csrow#0channel#0   0   0`, of `ras-mc-ctl --error-count`: label, corrected, uncorrected.
fn row(said: &str) -> Option<(String, Option<u64>, Option<u64>)> {
    let words: Vec<&str> = said.split(' ').collect();
    let [label @ .., corrected, uncorrected] = words.as_slice() else {
        return None;
    };
    if label.is_empty() || !(corrected.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    let number = label[0].strip_prefix("mc#").map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        format!("mc{}", &rest[..end])
    });
    let controller = number.unwrap_or_else(|| label.join(" "));
    Some((controller, corrected.parse().ok(), uncorrected.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_count_in_many_forms() {
        for (text, expected) in [
            (
                "mc0: csrow0: 0 Uncorrected Errors\nmc0: csrow0: ch0: 3 Corrected Errors\n",
                Health::Ok,
            ),
            (
                "mc0: 1 Uncorrected Errors with no DIMM info\nmc0: 0 Corrected Errors with no DIMM info\n",
                Health::Degraded,
            ),
            ("Label CE UE\nmc#0csrow#0channel#0 0 4\n", Health::Degraded),
            (
                "mc0: many Uncorrected Errors\nmc0: 0 Corrected Errors\n",
                Health::Unknown,
            ),
            ("mc0: 0 Corrected Errors\n", Health::Unknown),
            ("edac-util: No errors to report.\n", Health::Ok),
        ] {
            let report = parse_edac(text);
            assert_eq!(report.items.len(), 1, "{text}: {report:?}");
            assert_eq!(report.items[0].health, expected, "{text}: {report:?}");
        }
    }

    #[test]
    fn files_of_the_kernel_tell_it_best() {
        for (files, expected) in [
            ("mc0/ce_count:2 mc0/ue_count:0 mc0/size_mb:8192", Health::Ok),
            ("mc0/ce_count:0 mc0/ue_count:7", Health::Degraded),
            ("mc0/ce_count:0", Health::Unknown),
        ] {
            let text = files
                .replace(' ', "\n")
                .replace("mc0", "/sys/devices/system/edac/mc/mc0");
            let report = crate::Tool::Edac.parse(text.as_bytes());
            assert_eq!(report.items.len(), 1, "{files}: {report:?}");
            assert_eq!(report.items[0].health, expected, "{files}: {report:?}");
        }
    }
}
