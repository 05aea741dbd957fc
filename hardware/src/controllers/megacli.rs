//! MegaCli: `-LDInfo`, `-PDList`, `-LDPDInfo`, `-AdpBbuCmd`, `-AdpAllInfo`, and several of them in one
//! file.
//!
//! Blocks of `key : value`, each begun by a line that names an adapter, a virtual drive, an enclosure
//! with a slot, or a battery. Old versions write "Virtual Disk" for "Virtual Drive". What a controller
//! does with a write is the current policy; where it fell from the default, its battery is why.

use super::battery::Battery;
use super::{absent_battery, settle_caches};
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, ControllerFacts, DriveFacts, Facts, Medium};
use crate::judgement::{Judgement, Words, flag};
use crate::lines::{Line, decimal, level, lines, number, plain, size};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "MegaCli does not tell";

const VOLUME_STATES: Words = &[
    ("optimal", Health::Ok),
    ("partially degraded", Health::Degraded),
    ("degraded", Health::Degraded),
    ("offline", Health::Failed),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("deleted", Health::Failed),
];

/// Before the first comma; what stands behind it is whether the drive turns.
const DRIVE_STATES: Words = &[
    ("online", Health::Ok),
    ("hotspare", Health::Ok),
    ("hot spare", Health::Ok),
    ("global hotspare", Health::Ok),
    ("dedicated hotspare", Health::Ok),
    ("unconfigured(good)", Health::Ok),
    ("unconfigured (good)", Health::Ok),
    ("jbod", Health::Ok),
    ("system", Health::Ok),
    ("rebuild", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("copyback", Health::Rebuilding),
    ("unconfigured(bad)", Health::Failed),
    ("unconfigured (bad)", Health::Failed),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
    ("missing", Health::Failed),
];

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
        let mut battery = Battery::of(format!("{}bbu", self.prefix()));
        battery.assume_type("BBU");
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

struct Volume {
    id: String,
    cachecade: bool,
    state: bool,
    per_span: bool,
    drives: Option<u64>,
    spans: Option<u64>,
    secondary: Option<u64>,
    default_policy: Option<CachePolicy>,
    facts: ArrayFacts,
    judgement: Judgement,
}

impl Volume {
    fn of(id: String, cachecade: bool) -> Self {
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.action = Action::Idle.into();
        facts.action_percent = Fact::NotApplicable;
        Self {
            id,
            cachecade,
            state: false,
            per_span: false,
            drives: None,
            spans: None,
            secondary: None,
            default_policy: None,
            facts,
            judgement: Judgement::default(),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "state" => {
                self.state = true;
                self.judgement.word("state", value, VOLUME_STATES);
            }
            "raid level" => {
                let numbers: Vec<&str> = value.split(',').map(str::trim).collect();
                let after = |name: &str| numbers.iter().find_map(|text| text.strip_prefix(name));
                self.secondary = after("Secondary-").and_then(|digits| digits.parse().ok());
                let primary = after("Primary-").unwrap_or(value);
                self.facts.level.learn(level(primary));
            }
            "size" => self.facts.size_bytes.learn(size(value)),
            "default cache policy" => self.default_policy = policy(value),
            "current cache policy" => match policy(value) {
                Some(policy) => self.facts.cache_policy = policy.into(),
                None => self
                    .judgement
                    .note(format!("its cache policy {value:?} is not known here")),
            },
            "bad blocks exist" => match flag(value) {
                Some(true) => self.judgement.say(Health::Degraded, "bad blocks exist"),
                Some(false) => {}
                None => self
                    .judgement
                    .say(Health::Unknown, format!("bad blocks exist: {value:?}")),
            },
            "span depth" => self.spans = number(value),
            "virtual drive type" => self.cachecade |= plain(value).contains("cachecade"),
            _ if key.starts_with("number of drives") => {
                self.per_span = key.ends_with("per span");
                self.drives = number(value);
            }
            _ => self.progress(key, value),
        }
    }

    /// `Check Consistency : Completed 12%, Taken 3 min.`
    fn progress(&mut self, key: &str, value: &str) {
        let Some(percent) = plain(value).strip_prefix("completed ").and_then(decimal) else {
            return;
        };
        self.facts.action = match key {
            "check consistency" => Action::Check,
            "background initialization" | "initialization" => Action::Resync,
            "reconstruction" => Action::Reshape,
            _ => return,
        }
        .into();
        self.facts.action_percent = percent.into();
    }

    fn item(mut self) -> Item {
        if self.cachecade {
            self.judgement
                .note("a cache of flash, which holds no data of its own");
            self.facts.level = Fact::NotApplicable;
            if !self.state {
                self.judgement
                    .say(Health::Unknown, "MegaCli tells no state of such a drive");
            }
        } else {
            self.judgement.require(self.state, "its state");
        }
        let spans = self.spans.unwrap_or(1);
        // A level over several spans is a stripe of them.
        if let Fact::Known(level) = &mut self.facts.level
            && (spans > 1 || self.secondary == Some(3))
            && matches!(level.as_str(), "raid0" | "raid1" | "raid5" | "raid6")
        {
            level.push('0');
        }
        let per_span = if self.per_span { spans } else { 1 };
        let required = self.drives.and_then(|drives| drives.checked_mul(per_span));
        self.facts.members_required.learn(required);
        if self.judgement.worst() == Some(Health::Ok) {
            self.facts.members_active.learn(required);
            self.facts.members_failed.learn(required.map(|_| 0));
        }
        if self.default_policy != Some(CachePolicy::WriteThrough)
            && self.default_policy.is_some()
            && self.facts.cache_policy == Fact::Known(CachePolicy::WriteThrough)
        {
            self.judgement.say(
                Health::Degraded,
                "its cache fell from write-back to write-through: look at the battery",
            );
        }
        if self.facts.cache_policy == Fact::Known(CachePolicy::WriteBackAlways) {
            self.judgement
                .note("it holds writes back even without a battery in order");
        }
        let (health, reason) = self.judgement.finish();
        Item {
            id: self.id,
            health,
            reason,
            facts: Facts::Volume(self.facts),
        }
    }
}

/// `WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU`.
fn policy(text: &str) -> Option<CachePolicy> {
    let said = plain(text);
    let without_battery = said.contains("write cache ok if bad bbu");
    let mut words = said.split(',').map(str::trim);
    let back = words.clone().any(|word| word == "writeback");
    let through = words.any(|word| word == "writethrough");
    match (back, through, without_battery) {
        (true, false, false) if said.contains("no write cache if bad bbu") => {
            Some(CachePolicy::WriteBack)
        }
        (true, false, false) => Some(CachePolicy::WriteBack),
        (true, false, true) => Some(CachePolicy::WriteBackAlways),
        (false, true, _) => Some(CachePolicy::WriteThrough),
        _ => None,
    }
}

/// What was told of a S.M.A.R.T. alert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alert {
    NotTold,
    /// Not yet, by a version that tells of it with every drive.
    Expected,
    Told,
}

struct Drive {
    id: String,
    state: bool,
    predicted: bool,
    alert: Alert,
    facts: DriveFacts,
    judgement: Judgement,
}

impl Drive {
    fn of(id: String) -> Self {
        Self {
            id,
            state: false,
            predicted: false,
            alert: Alert::NotTold,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let facts = &mut self.facts;
        match key {
            "firmware state" => {
                self.state = true;
                let mut words = value.splitn(2, ',');
                self.judgement
                    .word("state", words.next().unwrap_or(""), DRIVE_STATES);
                if let Some(turning) = words.next().map(plain)
                    && !matches!(turning.as_str(), "spun up" | "spun down")
                {
                    self.judgement.say(
                        Health::Unknown,
                        format!("state: {turning:?} is no word known here"),
                    );
                }
            }
            "media error count" => match number(value) {
                Some(count) => {
                    facts.media_errors = count.into();
                    if count > 0 {
                        self.judgement.note(format!("media errors: {count}"));
                    }
                }
                None => self.judgement.errors(key, None, Health::Unknown),
            },
            "predictive failure count" => {
                self.predicted = true;
                let count = number(value);
                facts.predictive_failures.learn(count);
                self.judgement
                    .errors("predictive failures", count, Health::Degraded);
            }
            "drive has flagged a s.m.a.r.t alert" => {
                self.alert = Alert::Told;
                let flagged = flag(value);
                facts.passed.learn(flagged.map(|flagged| !flagged));
                match flagged {
                    Some(false) => {}
                    Some(true) => self.judgement.say(Health::Degraded, "a S.M.A.R.T. alert"),
                    None => self
                        .judgement
                        .say(Health::Unknown, format!("S.M.A.R.T. alert: {value:?}")),
                }
            }
            "foreign state" if !matches!(plain(value).as_str(), "none" | "") => {
                self.judgement.note(format!("foreign state: {value}"));
            }
            "shield counter" if self.alert == Alert::NotTold => self.alert = Alert::Expected,
            "inquiry data" => facts.model.learn(model(value)),
            "raw size" => facts.size_bytes.learn(size(value)),
            "pd type" => facts
                .transport
                .learn(Some(plain(value)).filter(|kind| !kind.is_empty())),
            "media type" => {
                facts.medium.learn(match plain(value).as_str() {
                    "hard disk device" => Some(Medium::Hdd),
                    "solid state device" => Some(Medium::Ssd),
                    _ => None,
                });
            }
            "drive temperature" => {
                facts
                    .temperature_c
                    .learn(decimal(value).map(|degrees| degrees as i64));
            }
            _ => {}
        }
    }

    fn item(mut self, tells_of_alerts: bool) -> Item {
        self.judgement.require(self.state, "its state");
        self.judgement
            .require(self.predicted, "how often it foretold its failure");
        if tells_of_alerts || self.alert != Alert::NotTold {
            self.judgement.require(
                self.alert == Alert::Told,
                "whether it raised a S.M.A.R.T. alert",
            );
        }
        let (health, reason) = self.judgement.finish();
        Item {
            id: self.id,
            health,
            reason,
            facts: Facts::Drive(self.facts),
        }
    }
}

/// Vendor, model, serial and firmware are run together, some without a blank: all of it is the name.
fn model(inquiry: &str) -> Option<String> {
    let words: Vec<&str> = inquiry.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
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
        let (health, reason) = self.judgement.finish();
        Item {
            id: self.id,
            health,
            reason,
            facts: Facts::Controller(self.facts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
