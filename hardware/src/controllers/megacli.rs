//! MegaCli: `-LDInfo`, `-PDList`, `-LDPDInfo`, `-AdpBbuCmd`, `-AdpAllInfo`, and several of them in one
//! file.
//!
//! Blocks of `key : value`, each begun by a line that names an adapter, a virtual drive, an enclosure
//! with a slot, or a battery. Old versions write "Virtual Disk" for "Virtual Drive". What a controller
//! does with a write is the current policy; where it fell from the default, its battery is why.

mod drive;
mod volume;

use super::battery::Battery;
use super::{absent_battery, settle_caches};
use crate::facts::{ControllerFacts, Facts};
use crate::judgement::Judgement;
use crate::lines::{Line, lines, number, plain};
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
    exit_code: bool,
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
        if self.heading(line, &said) {
            return;
        }
        let Some((key, value)) = line.pair() else {
            // MegaCli sets rules and titles between its blocks.
            return;
        };
        if key == "exit code" {
            self.exit_code = true;
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
            "enclosure device id" => {
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
            Block::Adapter(adapter) => self.report.items.push(adapter.item()),
        }
    }

    fn finish(mut self) -> Report {
        for volume in self.volumes {
            self.report.items.push(volume.item());
        }
        for drive in self.drives {
            self.report.items.push(drive.item(self.tells_of_alerts));
        }
        settle_caches(&mut self.report.items);
        if self.report.items.is_empty() && self.report.problems.is_empty() && !self.exit_code {
            self.report
                .problem("the file", "nothing in it is in the form of MegaCli");
        }
        self.report
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

/// What `-AdpAllInfo` counts.
struct Adapter {
    id: String,
    facts: ControllerFacts,
    judgement: Judgement,
    counted: bool,
}

impl Adapter {
    fn of(id: String) -> Self {
        let id = if id.is_empty() { "c0".to_owned() } else { id };
        Self {
            id,
            facts: ControllerFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            counted: false,
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
            "degraded" | "critical disks" => {
                self.counted = true;
                self.judgement.errors(key, count, Health::Degraded);
            }
            "offline" | "failed disks" => {
                self.counted = true;
                self.judgement.errors(key, count, Health::Failed);
            }
            _ => {}
        }
    }

    fn item(mut self) -> Item {
        if self.counted {
            self.judgement
                .say(Health::Ok, "it counts nothing as degraded or failed");
        }
        self.judgement.item(self.id, Facts::Controller(self.facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::CachePolicy;

    #[test]
    fn a_battery_that_wants_replacing_is_not_well_whatever_its_charge() {
        let battery = |replace: &str, low: &str| {
            let text = format!(
                "BBU status for Adapter: 0\nBatteryType: iBBU\nBattery Pack Missing : No\n\
                 Battery Replacement required : {replace}\nRemaining Capacity Low : {low}\n\
                 Battery state: \nRelative State of Charge: 96 %\nExit Code: 0x00\n"
            );
            let report = parse_megacli(&text);
            assert_eq!(report.items.len(), 1, "{report:?}");
            report.items[0].health
        };
        assert_eq!(battery("No", "No"), Health::Ok);
        assert_eq!(battery("Yes", "No"), Health::Degraded);
        assert_eq!(battery("No", "Yes"), Health::Degraded);
        assert_eq!(battery("Perhaps", "No"), Health::Unknown);
    }

    #[test]
    fn a_battery_is_one_under_all_its_titles() {
        for (state, charging, expected) in [
            ("Optimal", "None", Health::Ok),
            ("Operational", "None", Health::Ok),
            ("Non Operational", "Charging", Health::Degraded),
            ("Non Operational", "None", Health::Failed),
            ("Degraded(Need Attention)", "None", Health::Degraded),
            ("Failed", "None", Health::Failed),
            ("Splendid", "None", Health::Unknown),
        ] {
            let text = format!(
                "BBU status for Adapter: 1\nBatteryType: CVPM02\nBattery State     : {state}\n\
                 BBU Firmware Status:\n Charging Status : {charging}\n Battery Pack Missing : No\n \
                 Battery Replacement required : No\n Remaining Capacity Low : No\n \
                 Learn Cycle Requested : Yes\nBBU Capacity Info for Adapter: 1\n\
                 Relative State of Charge: 31 %\nBBU Properties for Adapter: 1\n\
                 Auto-Learn Mode: Enabled\nExit Code: 0x00\n"
            );
            let report = parse_megacli(&text);
            assert_eq!(report.items.len(), 1, "{report:?}");
            assert_eq!(report.items[0].id, "c1/bbu");
            assert_eq!(report.items[0].health, expected, "{state}: {report:?}");
            let Facts::Battery(facts) = &report.items[0].facts else {
                panic!()
            };
            assert_eq!(facts.charge_percent, 31.into());
            assert_eq!(facts.r#type, "CacheVault".to_owned().into());
        }
    }

    #[test]
    fn a_cache_that_fell_to_write_through_is_the_alarm() {
        let text = "Adapter 0 -- Virtual Drive Information:\nVirtual Disk: 0 (Target Id: 0)\n\
                    RAID Level: Primary-1, Secondary-0, RAID Level Qualifier-0\nState: Optimal\n\
                    Number Of Drives per span:2\nSpan Depth:2\n\
                    Default Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU\n\
                    Current Cache Policy: WriteThrough, ReadAhead, Direct, No Write Cache if Bad BBU\n";
        let report = parse_megacli(text);
        let item = &report.items[0];
        assert_eq!(item.id, "c0/v0");
        assert_eq!(item.health, Health::Degraded);
        let Facts::Volume(facts) = &item.facts else {
            panic!()
        };
        assert_eq!(facts.level, "raid10".to_owned().into());
        assert_eq!(facts.members_required, 4.into());
        assert_eq!(facts.cache_policy, CachePolicy::WriteThrough.into());
    }
}
