//! MegaCli: `-LDInfo`, `-PDList`, `-LDPDInfo`, `-AdpBbuCmd`, `-AdpAllInfo`, and several of them in one
//! file.
//!
//! Blocks of `key : value`, each begun by a line that names an adapter, a virtual drive, an enclosure
//! with a slot, or a battery. Old versions write "Virtual Disk" for "Virtual Drive". What a controller
//! does with a write is the current policy; where it fell from the default, its battery is why.

mod drive;
mod volume;

use std::collections::BTreeSet;

use super::battery::Battery;
use super::{absent_battery, settle_caches};
use crate::facts::{ControllerFacts, Facts};
use crate::judgement::{Judgement, flag};
use crate::lines::{Line, decimal, lines, number, plain};
use crate::report::{Health, Item, Report};
use drive::{Alert, Drive};
use volume::Volume;

const NOT_TOLD: &str = "MegaCli does not tell";

/// Reads what MegaCli prints.
pub fn parse_megacli(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.end_block();
    reader.finish()
}

#[derive(Default)]
struct Reader {
    report: Report,
    adapter: Option<u64>,
    /// What this file prints of drives: a version that never tells of S.M.A.R.T. is not asked for it.
    tells_of_alerts: bool,
    block: Block,
    drives: Vec<Drive>,
    volumes: Vec<Volume>,
    /// Key and value before a block of a drive that is only known to be one by its slot.
    enclosure: Option<String>,
    /// Its words for "this host has no such card", or nothing on it.
    none: bool,
}

#[derive(Default)]
enum Block {
    #[default]
    None,
    Volume(Volume),
    Drive(Drive),
    Battery(Battery),
    Adapter(Adapter),
}

impl Reader {
    fn prefix(&self) -> String {
        self.adapter
            .map_or_else(String::new, |adapter| format!("c{adapter}/"))
    }

    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        self.none |= [
            "no virtual drive configured",
            "controller count: 0",
            "no physical drive",
        ]
        .iter()
        .any(|words| said.contains(words));
        if self.heading(line, &said) {
            return;
        }
        if let Some(place) = rebuild_place(&said) {
            self.end_block();
            let mut drive = Drive::of(format!("{}{place}", self.prefix()));
            drive.rebuilds(line.text);
            self.drives.push(drive);
            return;
        }
        let Some((key, value)) = line.pair() else {
            // MegaCli sets rules and titles between its blocks.
            return;
        };
        if key == "exit code" {
            self.end_block();
            let code = u64::from_str_radix(value.trim_start_matches("0x"), 16);
            // What was said before it explains it better.
            if code != Ok(0)
                && self.report == Report::default()
                && self.volumes.is_empty()
                && self.drives.is_empty()
            {
                self.report
                    .problem(line.place(), format!("MegaCli ended with {value}"));
            }
            return;
        }
        match &mut self.block {
            Block::Volume(volume) => volume.field(&key, value),
            Block::Drive(drive) if key == "inquiry data" => {
                let (_, raw) = line.text.split_once(':').unwrap_or(("", value));
                drive.inquiry(raw);
            }
            Block::Drive(drive) => drive.field(&key, value),
            Block::Battery(battery) => battery.field(&key, value),
            Block::Adapter(adapter) => adapter.field(&key, value),
            Block::None => {
                const TELLING: [&str; 5] = [
                    "state",
                    "firmware state",
                    "current cache policy",
                    "battery replacement required",
                    "predictive failure count",
                ];
                if TELLING.contains(&key.as_str()) {
                    self.report
                        .problem(line.place(), format!("{:?} belongs to nothing", line.text));
                }
            }
        }
    }

    /// Whether the line begins another block.
    fn heading(&mut self, line: Line<'_>, said: &str) -> bool {
        if let Some(adapter) = adapter_of(said) {
            // Capacity, design and properties of a battery follow its status, under titles of their own.
            let goes_on = said.starts_with("bbu ") && self.adapter == Some(adapter);
            if goes_on && matches!(self.block, Block::Battery(_)) {
                return true;
            }
            self.end_block();
            self.adapter = Some(adapter);
            if said.starts_with("bbu ") {
                self.begin_battery();
            } else if said.contains("failed") {
                // The reason stands in the lines that follow.
                self.report.problem(line.place(), line.text.to_owned());
            }
            return true;
        }
        if said.contains("hardware component is not present") {
            self.report.problems.pop();
            let id = format!("{}bbu", self.prefix());
            self.report.items.push(absent_battery(id, line.text));
            return true;
        }
        let Some((key, value)) = line.pair() else {
            return false;
        };
        match key.as_str() {
            "virtual drive"
            | "virtual disk"
            | "cachecade virtual drive"
            | "cachecade virtual disk" => {
                self.end_block();
                let number = value.split_whitespace().next().unwrap_or(value);
                let id = format!("{}v{number}", self.prefix());
                self.block = Block::Volume(Volume::of(id, key.starts_with("cachecade")));
                true
            }
            "enclosure device id" | "enclosure number" if self.enclosure.is_none() => {
                self.end_block();
                self.enclosure = Some(value.to_owned());
                true
            }
            "slot number" => {
                self.end_block();
                let enclosure = self.enclosure.take().filter(|text| number(text).is_some());
                let enclosure = enclosure.map_or_else(String::new, |id| format!("e{id}/"));
                let id = format!("{}{enclosure}s{value}", self.prefix());
                self.block = Block::Drive(Drive::of(id));
                true
            }
            "batterytype" if !matches!(self.block, Block::Battery(_)) => {
                self.begin_battery();
                if let Block::Battery(battery) = &mut self.block {
                    battery.learn_type(value);
                }
                true
            }
            "product name" => {
                self.end_block();
                let mut adapter = Adapter::of(self.prefix().trim_end_matches('/').to_owned());
                adapter.field(&key, value);
                self.block = Block::Adapter(adapter);
                true
            }
            _ => false,
        }
    }

    fn begin_battery(&mut self) {
        self.end_block();
        let battery = Battery::of(format!("{}bbu", self.prefix()));
        self.block = Block::Battery(battery);
    }

    fn end_block(&mut self) {
        match std::mem::take(&mut self.block) {
            Block::None => {}
            Block::Volume(volume) => self.volumes.push(volume),
            Block::Drive(drive) => {
                self.tells_of_alerts |= drive.alert == Alert::Told;
                self.drives.push(drive);
            }
            Block::Battery(mut battery) => {
                battery.assume_type("BBU");
                battery.require_flags();
                self.report.items.push(battery.item());
            }
            Block::Adapter(adapter) => self.report.items.extend(adapter.items()),
        }
    }

    fn finish(mut self) -> Report {
        for volume in self.volumes {
            self.report.items.push(volume.item());
        }
        for drive in self.drives {
            self.report.items.push(drive.item(self.tells_of_alerts));
        }
        settle_adapters(&mut self.report.items);
        if self.report.items.is_empty() && self.report.problems.is_empty() && !self.none {
            self.report.problem(
                "the file",
                "nothing in it is in the form of MegaCli, or tells of a drive",
            );
        }
        self.report
    }
}

/// The battery of one adapter protects no other's volumes; each item's id begins with its adapter.
fn settle_adapters(items: &mut Vec<Item>) {
    let adapter = |item: &Item| item.id.split('/').next().unwrap_or("").to_owned();
    let mut rest = std::mem::take(items);
    while let Some(first) = rest.first().map(adapter) {
        let (mut own, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|item| adapter(item) == first);
        settle_caches(&mut own);
        items.append(&mut own);
        rest = others;
    }
}

/// `Adapter #0`, `Adapter 0 -- Virtual Drive Information:`, `BBU status for Adapter: 0`.
fn adapter_of(said: &str) -> Option<u64> {
    let (before, rest) = said.split_once("adapter")?;
    // `Supported Adapter Operations` is a title.
    if !(before.is_empty() || before.ends_with("for ")) {
        return None;
    }
    let digits = rest.trim_start_matches([' ', ':', '#']);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// `Rebuild Progress on Device at Enclosure 252, Slot 3 Completed 45% in 20 Minutes.`
fn rebuild_place(said: &str) -> Option<String> {
    let rest = said.strip_prefix("rebuild progress on device at enclosure ")?;
    let (enclosure, rest) = rest.split_once(", slot ")?;
    let slot = rest.split(' ').next()?;
    number(slot)?;
    Some(match number(enclosure) {
        Some(enclosure) => format!("e{enclosure}/s{slot}"),
        None => format!("s{slot}"),
    })
}

/// What `-AdpAllInfo` counts.
struct Adapter {
    id: String,
    facts: ControllerFacts,
    judgement: Judgement,
    counted: BTreeSet<&'static str>,
    battery_absent: bool,
}

/// What must be counted before an adapter is well.
const COUNTS: [(&str, Health); 4] = [
    ("degraded", Health::Degraded),
    ("offline", Health::Failed),
    ("critical disks", Health::Degraded),
    ("failed disks", Health::Failed),
];

impl Adapter {
    fn of(id: String) -> Self {
        let id = if id.is_empty() { "c0".to_owned() } else { id };
        Self {
            id,
            facts: ControllerFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            counted: BTreeSet::new(),
            battery_absent: false,
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let count = number(value);
        match key {
            "product name" => self
                .facts
                .model
                .learn(Some(value.to_owned()).filter(|name| !name.is_empty())),
            "memory correctable errors" => self.facts.memory_corrected_errors.learn(count),
            "memory uncorrectable errors" => {
                self.facts.memory_uncorrected_errors.learn(count);
                self.judgement.errors(
                    "uncorrectable errors of its memory",
                    count,
                    Health::Degraded,
                );
            }
            "roc temperature" => self
                .facts
                .temperature_c
                .learn(decimal(value).map(|degrees| degrees as i64)),
            "bbu" => self.battery_absent = plain(value) == "absent",
            "any offline vd cache preserved" | "controller shutdown required" => {
                self.judgement.fault(key, flag(value), value);
            }
            _ => {
                if let Some((name, bad)) = COUNTS.iter().find(|(name, _)| *name == key) {
                    self.counted.insert(name);
                    self.judgement.errors(key, count, *bad);
                }
            }
        }
    }

    fn items(mut self) -> Vec<Item> {
        if !self.counted.is_empty() {
            for (name, _) in COUNTS {
                self.judgement.require(self.counted.contains(name), name);
            }
            self.judgement
                .say(Health::Ok, "it counts nothing as degraded or failed");
        }
        let battery = self
            .battery_absent
            .then(|| absent_battery(format!("{}/bbu", self.id), "BBU: Absent"));
        let adapter = self.judgement.item(self.id, Facts::Controller(self.facts));
        std::iter::once(adapter).chain(battery).collect()
    }
}

#[cfg(test)]
mod tests;
