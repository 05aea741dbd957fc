//! `dmidecode`: the modules of memory, and whether their errors are corrected.

use crate::fact::Fact;
use crate::facts::{Facts, MemoryFacts};
use crate::lines::{lines, number, plain, size};
use crate::report::{Health, Item, Report};

/// Reads the memory of `dmidecode`. Firmware for guests invents slots: what counts is what is in them.
pub(super) fn parse_dmidecode(text: &str) -> Report {
    let mut report = Report::default();
    let mut reader = Reader::default();
    for line in lines(text) {
        let said = plain(line.text);
        if said.starts_with("handle 0x") {
            reader.section = Section::Other;
        } else if said == "memory device" {
            reader.section = Section::Module;
            reader.slots += 1;
        } else if said == "physical memory array" {
            reader.section = Section::Array;
        } else if let Some((key, value)) = line.pair() {
            reader.field(&key, value);
        }
    }
    if reader.slots == 0 && reader.correction.is_none() {
        report.problem("the file", "it tells of no memory");
        return report;
    }
    report.items.push(reader.item());
    report
}

#[derive(Default)]
struct Reader {
    section: Section,
    slots: u64,
    modules: u64,
    bytes: u64,
    /// Sizes that are no size.
    garbled: u64,
    correction: Option<String>,
}

#[derive(Default, PartialEq)]
enum Section {
    #[default]
    Other,
    Array,
    Module,
}

impl Reader {
    fn field(&mut self, key: &str, value: &str) {
        let said = plain(value);
        match (&self.section, key) {
            (Section::Array, "error correction type") => {
                // Arrays that differ have no one answer.
                self.correction = match self.correction.take() {
                    Some(before) if before != said => Some(format!("{before}, and {said}")),
                    _ => Some(said),
                };
            }
            (Section::Module, "size") => {
                if matches!(
                    said.as_str(),
                    "no module installed" | "not installed" | "0 mb"
                ) || number(value) == Some(0)
                {
                    return;
                }
                match size(value) {
                    Some(bytes) => {
                        self.modules += 1;
                        self.bytes = self.bytes.saturating_add(bytes);
                    }
                    None => self.garbled += 1,
                }
            }
            _ => {}
        }
    }

    fn item(self) -> Item {
        let mut facts = MemoryFacts::unknown("dmidecode does not tell");
        facts.slots = self.slots.into();
        facts.modules = self.modules.into();
        facts.size_bytes = if self.garbled == 0 {
            self.bytes.into()
        } else {
            Fact::Unknown(format!("{} modules do not tell their size", self.garbled).into())
        };
        facts.ecc = match self.correction.as_deref() {
            Some("none") => false.into(),
            Some("single-bit ecc" | "multi-bit ecc" | "crc") => true.into(),
            Some(other) => Fact::Unknown(format!("its correction is {other:?}").into()),
            None => Fact::Unknown("its correction is not told".into()),
        };
        Item {
            id: "memory".into(),
            health: Health::Unknown,
            reason: format!(
                "{} of {} slots hold a module; dmidecode counts no errors",
                self.modules, self.slots
            ),
            facts: Facts::Memory(facts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_slots_hold_nothing_and_units_differ() {
        let text = "Handle 0x0029, DMI type 16, 15 bytes\nPhysical Memory Array\n\
                    \tError Correction Type: Multi-bit ECC\n\nHandle 0x002A, DMI type 17, 34 bytes\n\
                    Memory Device\n\tSize: 4 GB\n\nHandle 0x002B, DMI type 17, 34 bytes\nMemory Device\n\
                    \tSize: No Module Installed\n\nHandle 0x002C, DMI type 17\nMemory Device\n\tSize: 4096 MB\n";
        let report = parse_dmidecode(text);
        let Facts::Memory(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!((&facts.slots, &facts.modules), (&3.into(), &2.into()));
        assert_eq!(facts.size_bytes, (8_u64 << 30).into());
        assert_eq!(facts.ecc, true.into());
    }
}
