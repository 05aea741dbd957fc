//! The firmware's own table (SMBIOS), as the kernel hands it out to root in
//! `/sys/firmware/dmi/tables/DMI`: modules of memory, whether their errors are corrected, and power
//! supplies. What `dmidecode` prints, without it.
//!
//! Structures follow each other: a type, a length, a handle, fields, and behind them texts, each ended by
//! a zero and all of them by another. Fields that a version does not have lie beyond the length.

use crate::fact::Fact;
use crate::facts::{Facts, MemoryFacts, ModuleFacts, SupplyFacts};
use crate::judgement::Judgement;
use crate::report::{Health, Item, Report};
use crate::root::Root;

const TABLE: &str = "sys/firmware/dmi/tables/DMI";
const NOT_TOLD: &str = "the firmware does not tell";

/// Structures of one table. A large server has a few hundred.
const STRUCTURES_MAX: usize = 10_000;

/// Reads the table below `root`. Where there is none, nothing is told.
pub fn read_smbios(root: &Root) -> Report {
    match root.bytes(TABLE) {
        Some(bytes) => parse_smbios(&bytes),
        None => Report::default(),
    }
}

/// Reads a table: an item for each module of memory and each power supply, and one for memory in all.
pub fn parse_smbios(bytes: &[u8]) -> Report {
    let mut report = Report::default();
    let mut arrays = Arrays::default();
    let mut rest = bytes;
    for _ in 0..STRUCTURES_MAX {
        if rest.is_empty() {
            break;
        }
        let Some((structure, behind)) = Structure::first(rest) else {
            report.problem(
                TABLE,
                format!(
                    "it ends within a structure, {} bytes before its end",
                    rest.len()
                ),
            );
            break;
        };
        rest = behind;
        match structure.kind {
            16 => arrays.array(&structure),
            17 => arrays.module(&structure, &mut report),
            39 => report.items.extend(supply(&structure)),
            127 => break,
            _ => {}
        }
    }
    if arrays.slots > 0 || arrays.corrections > 0 {
        report.items.push(arrays.item());
    }
    report
}

struct Structure<'a> {
    kind: u8,
    handle: u16,
    /// From the type on.
    fields: &'a [u8],
    texts: Vec<&'a [u8]>,
}

impl<'a> Structure<'a> {
    /// The first structure of what is left, and what lies behind it.
    fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::from(*bytes.get(1)?);
        if length < 4 || bytes.len() < length {
            return None;
        }
        let (fields, texts) = bytes.split_at(length);
        let end = texts.windows(2).position(|pair| pair == [0, 0])?;
        let structure = Self {
            kind: fields[0],
            handle: u16::from_le_bytes([fields[2], fields[3]]),
            fields,
            texts: texts[..end].split(|byte| *byte == 0).collect(),
        };
        Some((structure, &texts[end + 2..]))
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.fields.get(at).copied()
    }

    fn word(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }

    fn double(&self, at: usize) -> Option<u32> {
        let bytes = self.fields.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A text by its number, from 1. What makers write for want of one is none.
    fn text(&self, at: usize) -> Option<String> {
        let number = usize::from(self.byte(at)?).checked_sub(1)?;
        let text = String::from_utf8_lossy(self.texts.get(number)?);
        let text = text.trim();
        let said = text.to_ascii_lowercase();
        let is_none = matches!(
            said.as_str(),
            "" | "unknown"
                | "not specified"
                | "none"
                | "n/a"
                | "no dimm"
                | "to be filled by o.e.m."
        );
        (!is_none).then(|| text.to_owned())
    }
}

#[derive(Default)]
struct Arrays {
    slots: u64,
    modules: u64,
    bytes: u64,
    untold: u64,
    /// Arrays of main memory that tell whether errors are corrected; and the answer, where all agree.
    corrections: u64,
    corrects: Option<bool>,
    differ: bool,
}

impl Arrays {
    fn array(&mut self, structure: &Structure<'_>) {
        // 3: main memory. Caches and flash of the board are arrays too.
        if structure.byte(5) != Some(3) {
            return;
        }
        let corrects = match structure.byte(6) {
            Some(3 | 4) => false,
            Some(5..=7) => true,
            _ => return,
        };
        self.corrections += 1;
        self.differ |= self.corrects.is_some_and(|before| before != corrects);
        self.corrects = Some(corrects);
    }

    fn module(&mut self, structure: &Structure<'_>, report: &mut Report) {
        self.slots += 1;
        let size = match structure.word(0x0c) {
            // Nothing is in the slot.
            Some(0) => return,
            Some(0x7fff) => structure
                .double(0x1c)
                .map(|mib| u64::from(mib & 0x7fff_ffff) << 20),
            None | Some(0xffff) => None,
            Some(kib) if kib & 0x8000 != 0 => Some(u64::from(kib & 0x7fff) << 10),
            Some(mib) => Some(u64::from(mib) << 20),
        };
        self.modules += 1;
        match size {
            Some(bytes) => self.bytes = self.bytes.saturating_add(bytes),
            None => self.untold += 1,
        }
        let mut facts = ModuleFacts::unknown(NOT_TOLD);
        facts.size_bytes.learn(size);
        facts.r#type.learn(structure.byte(0x12).and_then(kind_of));
        // 0xffff: beyond what this field can say, told in a later one.
        let speed = match structure.word(0x15) {
            Some(0xffff) => structure.double(0x54).map(u64::from),
            speed => speed.map(u64::from),
        };
        facts.speed_mt_per_s.learn(speed.filter(|speed| *speed > 0));
        facts.maker.learn(structure.text(0x17));
        facts.serial.learn(structure.text(0x18));
        facts.part.learn(structure.text(0x1a));
        let slot = structure.text(0x10);
        let bank = structure.text(0x11);
        let id = match (slot, bank) {
            (Some(slot), Some(bank)) if slot != bank => format!("{bank} {slot}"),
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => format!("handle {:#06x}", structure.handle),
        };
        let mut judgement = Judgement::default();
        judgement.say(Health::Ok, "installed");
        report.items.push(judgement.item(id, Facts::Module(facts)));
    }

    fn item(self) -> Item {
        let mut facts = MemoryFacts::unknown(NOT_TOLD);
        facts.slots = self.slots.into();
        facts.modules = self.modules.into();
        if self.untold == 0 && self.modules > 0 {
            facts.size_bytes = self.bytes.into();
        }
        facts.ecc = match self.corrects {
            _ if self.differ => {
                Fact::Unknown("some of it corrects errors, and some does not".into())
            }
            Some(corrects) => corrects.into(),
            None => Fact::Unknown(NOT_TOLD.into()),
        };
        Item {
            id: "memory".into(),
            health: Health::Unknown,
            reason: format!(
                "{} of {} slots hold a module; the firmware counts no errors",
                self.modules, self.slots
            ),
            facts: Facts::Memory(facts),
        }
    }
}

fn kind_of(code: u8) -> Option<String> {
    let kind = match code {
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x07 => "RAM",
        _ => return None,
    };
    Some(kind.to_owned())
}

/// A power supply that is there. A bay that is empty is none.
fn supply(structure: &Structure<'_>) -> Option<Item> {
    let bits = structure.word(0x0e)?;
    if bits & 0b10 == 0 {
        return None;
    }
    let mut facts = SupplyFacts::unknown(NOT_TOLD);
    let model = structure.text(0x0a).or_else(|| structure.text(0x06));
    facts.model.learn(model);
    facts.serial.learn(structure.text(0x08));
    let watts = structure
        .word(0x0c)
        .filter(|watts| !matches!(watts, 0 | 0x8000..));
    facts.power_max_w.learn(watts.map(u64::from));
    let mut judgement = Judgement::default();
    if bits & 0b100 != 0 {
        judgement.say(Health::Failed, "it is not plugged in");
    }
    match bits >> 7 & 0b111 {
        3 => judgement.say(Health::Ok, "its status was OK when the machine started"),
        4 => judgement.say(
            Health::Degraded,
            "its status was non-critical when the machine started",
        ),
        5 => judgement.say(
            Health::Failed,
            "its status was critical when the machine started",
        ),
        _ => judgement.say(Health::Unknown, "the firmware does not tell its status"),
    }
    let id = structure.text(0x05).or_else(|| structure.text(0x06));
    let id = id.unwrap_or_else(|| format!("handle {:#06x}", structure.handle));
    Some(judgement.item(id, Facts::Supply(facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure of fields at their places, and texts.
    fn structure(kind: u8, length: u8, fields: &[(usize, &[u8])], texts: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(length)];
        bytes[0] = kind;
        bytes[1] = length;
        for (at, field) in fields {
            bytes[*at..*at + field.len()].copy_from_slice(field);
        }
        for text in texts {
            bytes.extend(text.bytes());
            bytes.push(0);
        }
        if texts.is_empty() {
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn module(size: u16, extended_mib: u32, slot: &str) -> Vec<u8> {
        structure(
            17,
            0x28,
            &[
                (0x0c, &size.to_le_bytes()),
                (0x10, &[1, 0]),
                (0x12, &[0x1a]),
                (0x15, &3200_u16.to_le_bytes()),
                (0x17, &[2, 3, 0, 4]),
                (0x1c, &extended_mib.to_le_bytes()),
            ],
            &[slot, "Micron", "12AB", "36ASF"],
        )
    }

    fn supply(bits: u16) -> Vec<u8> {
        structure(
            39,
            0x16,
            &[
                (0x05, &[1]),
                (0x0c, &800_u16.to_le_bytes()),
                (0x0e, &bits.to_le_bytes()),
            ],
            &["PSU1"],
        )
    }

    #[test]
    fn modules_and_their_correction() {
        let mut table = structure(16, 0x17, &[(4, &[3, 3, 6])], &[]);
        table.extend(structure(16, 0x17, &[(4, &[3, 4, 3])], &[]));
        table.extend(module(0x4000, 0, "A1"));
        table.extend(module(0x7fff, 65_536, "A2"));
        table.extend(module(0, 0, "A3"));
        table.extend(structure(127, 4, &[], &[]));
        table.extend([0xff; 7]);
        let report = parse_smbios(&table);
        assert!(report.problems.is_empty(), "{report:?}");
        let told: Vec<_> = report
            .items
            .iter()
            .filter_map(|item| match &item.facts {
                Facts::Module(facts) => Some((item.id.as_str(), facts)),
                _ => None,
            })
            .collect();
        assert_eq!(told.len(), 2);
        assert_eq!(told[0].0, "A1");
        assert_eq!(told[0].1.size_bytes, (16_u64 << 30).into());
        assert_eq!(told[0].1.r#type, "DDR4".to_owned().into());
        assert_eq!(told[0].1.part, "36ASF".to_owned().into());
        assert_eq!(told[1].1.size_bytes, (64_u64 << 30).into());
        let Facts::Memory(memory) = &report.items[2].facts else {
            panic!()
        };
        assert_eq!((&memory.slots, &memory.modules), (&3.into(), &2.into()));
        assert_eq!(memory.ecc, true.into());
    }

    #[test]
    fn a_supply_is_judged_by_its_bits() {
        const PRESENT: u16 = 0b10;
        for (bits, expected) in [
            (PRESENT | 3 << 7, Some(Health::Ok)),
            (PRESENT | 3 << 7 | 0b100, Some(Health::Failed)),
            (PRESENT | 4 << 7, Some(Health::Degraded)),
            (PRESENT | 5 << 7, Some(Health::Failed)),
            (PRESENT, Some(Health::Unknown)),
            (PRESENT | 7 << 7, Some(Health::Unknown)),
            (3 << 7, None),
        ] {
            let report = parse_smbios(&supply(bits));
            let found = report.items.first().map(|item| item.health);
            assert_eq!(found, expected, "{bits:#b}");
        }
    }

    #[test]
    fn a_table_that_was_cut_keeps_what_is_whole() {
        let mut table = module(0x4000, 0, "A1");
        table.extend(module(0x4000, 0, "A2"));
        for end in 0..table.len() {
            let report = parse_smbios(&table[..end]);
            let modules = report
                .items
                .iter()
                .filter(|item| matches!(item.facts, Facts::Module(_)));
            let whole = usize::from(end >= table.len() / 2);
            assert_eq!(modules.count(), whole, "{end} of {}", table.len());
            assert_eq!(
                report.problems.is_empty(),
                end == 0 || end == table.len() / 2
            );
        }
    }
}
