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
    // Csrows and modules are in the sums of their controller, and counted where it has none.
    for name in root.names(DIRECTORY).unwrap_or_default() {
        if !is_controller(&name) {
            continue;
        }
        let count = |file: &str| {
            root.number(&format!("{DIRECTORY}/{name}/{file}"))
                .or_else(|| sum_of_parts(root, &name, file))
        };
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

/// The sum of what csrows count, or modules where there are none.
fn sum_of_parts(root: &Root, controller: &str, file: &str) -> Option<u64> {
    let directory = format!("{DIRECTORY}/{controller}");
    if root.has(&format!("{directory}/{file}")) {
        return None;
    }
    let names = root.names(&directory).unwrap_or_default();
    let of_parts = |prefix: &str, file: &str| {
        let parts: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with(prefix))
            .collect();
        let counts = parts
            .iter()
            .map(|part| root.number(&format!("{directory}/{part}/{file}")));
        counts
            .reduce(|sum, count| sum?.checked_add(count?))
            .flatten()
    };
    of_parts("csrow", file)
        .or_else(|| of_parts("dimm", &format!("dimm_{file}")))
        .or_else(|| of_parts("rank", &format!("dimm_{file}")))
}

fn is_controller(name: &str) -> bool {
    name.strip_prefix("mc")
        .is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Reads counts of memory errors in any of the forms that people keep them in; `dmidecode` too, which
/// tells of the modules and whether errors are corrected.
pub fn parse_edac(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    let counted = reader.finish();
    if text.contains("DMI type") || text.contains("Memory Device") {
        // Both may stand in one file.
        let mut report = parse_dmidecode(text);
        report.items.extend(counted.items);
        return report;
    }
    counted
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
    /// Whether the head of ras-mc-ctl's table was there: labels may be any words.
    table: bool,
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
        } else if said.starts_with("label") && said.ends_with("ce ue") {
            self.table = true;
        } else if let Some((controller, kind, count)) = counted(&said)
            .or_else(|| full_report(&said))
            .or_else(|| summary(&said))
        {
            self.count(&controller, kind, count, line);
        } else if let Some((controller, corrected, uncorrected)) = row(&said, self.table) {
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
fn row(said: &str, in_table: bool) -> Option<(String, Option<u64>, Option<u64>)> {
    let words: Vec<&str> = said.split(' ').collect();
    let [label @ .., corrected, uncorrected] = words.as_slice() else {
        return None;
    };
    let is_label = ["mc#", "dimm", "channel", "csrow"];
    let is_row = in_table
        || label
            .iter()
            .any(|word| is_label.iter().any(|name| word.contains(name)));
    if label.is_empty() || !is_row || !corrected.starts_with(|c: char| c.is_ascii_digit()) {
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

/// `mc0:csrow0:mc#0csrow#0channel#0:CE:3`, of `edac-util --report=full`.
fn full_report(said: &str) -> Option<(String, Kind, Option<u64>)> {
    let fields: Vec<&str> = said.split(':').map(str::trim).collect();
    let [controller, row, _, kind, count] = fields.as_slice() else {
        return None;
    };
    if !is_controller(controller) {
        return None;
    }
    let kind = match *kind {
        "ce" => Kind::Corrected,
        "ue" => Kind::Uncorrected,
        _ => return None,
    };
    let place = match *row {
        "noinfo" => (*controller).to_owned(),
        row => format!("{controller}/{row}"),
    };
    Some((place, kind, count.parse().ok()))
}

/// `Corrected on DIMM Label(s): 'DIMM_A1' location: 0:0:0:-1 errors: 5`, of `ras-mc-ctl --summary`.
fn summary(said: &str) -> Option<(String, Kind, Option<u64>)> {
    let (kind, rest) = said.split_once(" on dimm label(s):")?;
    let kind = match kind {
        "corrected" | "deferred" => Kind::Corrected,
        _ => Kind::Uncorrected,
    };
    let label = rest.split('\'').nth(1).unwrap_or("memory").to_owned();
    let count = said.rsplit_once("errors:").map(|(_, count)| count.trim());
    Some((label, kind, count.and_then(|count| count.parse().ok())))
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
            (
                "mc0:csrow0:mc#0csrow#0channel#0:CE:3\nmc0:csrow0:mc#0csrow#0channel#0:UE:0\n",
                Health::Ok,
            ),
            (
                "mc0:noinfo:all:UE:2\nmc0:noinfo:all:CE:0\n",
                Health::Degraded,
            ),
            (
                "Memory controller events summary:\n\tUncorrected on DIMM Label(s): 'DIMM_A1' location: 0:0:0:-1 errors: 1\n\n\
                 No PCIe AER errors.\n",
                Health::Degraded,
            ),
            (
                "Memory controller events summary:\n\tCorrected on DIMM Label(s): 'DIMM_A1' location: 0:0:0:-1 errors: 5\n",
                Health::Unknown,
            ),
            ("label ce ue\nA1 of the board 0 0\n", Health::Ok),
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
            (
                "mc0/csrow0/ce_count:0 mc0/csrow0/ue_count:0 mc0/csrow1/ce_count:2 mc0/csrow1/ue_count:0",
                Health::Ok,
            ),
            (
                "mc0/csrow0/ce_count:0 mc0/csrow0/ue_count:0 mc0/csrow1/ce_count:2 mc0/csrow1/ue_count:1",
                Health::Degraded,
            ),
            (
                "mc0/csrow0/ce_count:0 mc0/csrow0/ue_count:0 mc0/csrow1/ce_count:2",
                Health::Unknown,
            ),
            (
                "mc0/dimm0/dimm_ce_count:0 mc0/dimm0/dimm_ue_count:4",
                Health::Degraded,
            ),
            (
                "mc0/ue_count:xyzzy mc0/ce_count:0 mc0/csrow0/ue_count:0",
                Health::Unknown,
            ),
        ] {
            let text = files
                .replace(' ', "\n")
                .replace("mc0", "/sys/devices/system/edac/mc/mc0");
            let report = crate::Tool::Edac.parse(text.as_bytes());
            assert_eq!(report.items.len(), 1, "{files}: {report:?}");
            assert_eq!(report.items[0].health, expected, "{files}: {report:?}");
        }
    }

    #[test]
    fn a_line_with_numbers_counts_nothing() {
        let report = parse_edac("sda 0 0\nConnection closed at 10 pm\n");
        assert!(
            report.items.is_empty() && report.problems.len() == 1,
            "{report:?}"
        );
    }
}
