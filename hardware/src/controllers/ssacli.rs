//! ssacli, hpssacli and hpacucli, which are one tool under three names: `ctrl all show config`, with
//! `detail`, `show status`, and what is shown of arrays, logical drives and physical drives.
//!
//! An outline: controllers, in them arrays, in them logical and physical drives, each either on one line
//! with its facts in brackets or as a block of `key: value`. Banners may stand before it. The status of
//! an array stands beside its name, and its logical drives may all be "OK" while it has failed.

use std::collections::BTreeMap;

use super::{absent_battery, settle_caches};
use crate::fact::Fact;
use crate::facts::{
    Action, ArrayFacts, BatteryFacts, CachePolicy, ControllerFacts, DriveFacts, Facts, Medium,
};
use crate::judgement::{Judgement, Words, flag, meaning};
use crate::lines::{Line, decimal, level, lines, number, plain, size};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "ssacli does not tell";

const STATES: Words = &[
    ("ok", Health::Ok),
    ("optimal", Health::Ok),
    ("interim recovery mode", Health::Degraded),
    ("interim recovery", Health::Degraded),
    ("ready for rebuild", Health::Degraded),
    ("degraded", Health::Degraded),
    ("parity initialization in progress", Health::Rebuilding),
    ("predictive failure", Health::Degraded),
    ("predictive spare rebuild", Health::Rebuilding),
    ("recovering", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("transforming", Health::Rebuilding),
    ("expanding", Health::Rebuilding),
    ("initializing", Health::Rebuilding),
    ("queued for expansion", Health::Degraded),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
    ("missing", Health::Failed),
    ("disabled", Health::Failed),
    ("not available", Health::Failed),
    ("wrong physical drive replaced", Health::Failed),
    ("physical drive not properly connected", Health::Failed),
    ("hardware is overheating", Health::Failed),
    ("hardware has overheated", Health::Failed),
];

const CACHE_STATES: Words = &[
    ("ok", Health::Ok),
    ("not configured", Health::Ok),
    ("temporarily disabled", Health::Degraded),
    ("permanently disabled", Health::Failed),
    ("disabled", Health::Degraded),
    ("cache disabled", Health::Degraded),
    ("failed", Health::Failed),
];

const BATTERY_STATES: Words = &[
    ("ok", Health::Ok),
    ("fully charged", Health::Ok),
    ("recharging", Health::Degraded),
    ("charging", Health::Degraded),
    ("low", Health::Degraded),
    ("degraded", Health::Degraded),
    ("failed", Health::Failed),
    ("failed (replace batteries)", Health::Failed),
    ("failed (replace battery)", Health::Failed),
    ("failed (replace capacitors)", Health::Failed),
    ("failed (replace capacitor)", Health::Failed),
    ("failed (replace batteries/capacitors)", Health::Failed),
    ("failed (replace battery/capacitor)", Health::Failed),
];

/// Reads what ssacli, hpssacli or hpacucli prints.
pub fn parse_ssacli(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    report: Report,
    cards: Vec<Card>,
    /// Where `key: value` belongs.
    place: Place,
    none_found: bool,
}

#[derive(Clone, Default, PartialEq)]
enum Place {
    #[default]
    Nowhere,
    Card,
    Array,
    Volume,
    Drive(String),
    /// Parts of no kind of ours: cages, ports, sensors, expanders.
    Part(String),
}

struct Card {
    id: String,
    facts: ControllerFacts,
    judgement: Judgement,
    battery: Option<(BatteryFacts, Judgement)>,
    battery_absent: Option<String>,
    /// Whether the state of its cache was told.
    cache_told: bool,
    arrays: Vec<Array>,
    /// The array that what follows belongs to.
    inside: Option<usize>,
    drives: BTreeMap<String, Drive>,
}

struct Array {
    id: String,
    told: bool,
    judgement: Judgement,
    volumes: Vec<Volume>,
    members: Vec<String>,
}

struct Volume {
    id: String,
    told: bool,
    facts: ArrayFacts,
    judgement: Judgement,
}

struct Drive {
    told: bool,
    spare: bool,
    facts: DriveFacts,
    judgement: Judgement,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        if self.heading(line, &said) {
            return;
        }
        if said.contains("no controllers detected") {
            self.none_found = true;
            return;
        }
        let Some((key, value)) = line.pair() else {
            if said.starts_with("error") {
                self.report.problem(line.place(), line.text.to_owned());
            }
            return;
        };
        if key == "error" {
            self.report.problem(line.place(), value.to_owned());
            return;
        }
        let Some(card) = self.cards.last_mut() else {
            if key.ends_with("status") {
                self.report.problem(
                    line.place(),
                    format!("{:?} belongs to no controller", line.text),
                );
            }
            return;
        };
        match &self.place {
            Place::Nowhere | Place::Card => card.field(&key, value),
            Place::Array => match card.array() {
                Some(array) if key == "status" => {
                    array.told = true;
                    array.judgement.word("array", value, STATES);
                }
                _ => {}
            },
            Place::Volume => {
                if let Some(volume) = card.array().and_then(|array| array.volumes.last_mut()) {
                    volume.field(&key, value);
                }
            }
            Place::Drive(name) => {
                if let Some(drive) = card.drives.get_mut(name) {
                    drive.field(&key, value);
                }
            }
            Place::Part(part) => {
                if key == "status" || key.ends_with(" status") && key != "power supply status" {
                    card.part(part, value);
                }
            }
        }
    }

    /// Whether the line begins something.
    fn heading(&mut self, line: Line<'_>, said: &str) -> bool {
        let text = line.text;
        if let Some(card) = card_of(text) {
            let mode = Card::mode_of(text);
            self.cards.push(Card::of(card, text, mode));
            self.place = Place::Card;
            return true;
        }
        let Some(card) = self.cards.last_mut() else {
            return false;
        };
        if let Some(rest) = after(said, "array") {
            let (name, brackets) = name_and_brackets(rest);
            if name.is_empty() || name.len() > 3 {
                return false;
            }
            card.begin_array(&name.to_uppercase(), &brackets);
            self.place = Place::Array;
        } else if let Some(rest) =
            after(said, "logicaldrive").or_else(|| after(said, "logical drive"))
        {
            let (name, brackets) = name_and_brackets(rest);
            // `Logical Drive Label:` is a field.
            if number(name).is_none() {
                return false;
            }
            card.begin_volume(name, &brackets);
            self.place = Place::Volume;
        } else if let Some(rest) =
            after(said, "physicaldrive").or_else(|| after(said, "physical drive"))
        {
            let (name, brackets) = name_and_brackets(rest);
            if !name.contains(':') {
                return false;
            }
            let name = name.to_uppercase();
            let is_line = !brackets.is_empty();
            card.begin_drive(&name, &brackets);
            // One line is a whole drive; what follows belongs to what it stands in.
            if !is_line {
                self.place = Place::Drive(name);
            }
        } else if said.starts_with("unassigned") || said.starts_with("physical drives") {
            card.inside = card.inside.filter(|_| !said.starts_with("unassigned"));
            self.place = Place::Part(text.to_owned());
        } else if let Some((part, state)) = cage(text) {
            card.part(part, state);
            self.place = Place::Part(part.to_owned());
        } else if is_part(said) {
            self.place = Place::Part(text.trim_end_matches(':').to_owned());
        } else {
            return false;
        }
        true
    }

    fn finish(self) -> Report {
        let mut report = self.report;
        if self.cards.is_empty() && !self.none_found && report.problems.is_empty() {
            report.problem("the file", "nothing in it is in the form of ssacli");
        }
        if self.none_found {
            // Its words for "this host has no such card".
            report.problems.clear();
        }
        for card in self.cards {
            card.finish(&mut report);
        }
        report
    }
}

/// `Smart Array P420i in Slot 0 (Embedded)    (sn: 0014)`, or `MSA1500 CS in BB0A6R0` for one in a box
/// of its own: the id that follows from the place.
fn card_of(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(" in ")?;
    let (in_slot, rest) = match rest
        .strip_prefix("Slot ")
        .or_else(|| rest.strip_prefix("slot "))
    {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let place: String = rest
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let is_name = !before.contains([':', ',']) && !place.is_empty();
    if !is_name {
        return None;
    }
    if in_slot {
        return Some(format!("slot{place}"));
    }
    before.starts_with("MSA").then_some(place)
}

/// What stands behind a word that begins the line, with a colon or without.
fn after<'a>(said: &'a str, word: &str) -> Option<&'a str> {
    let rest = said.strip_prefix(word)?;
    rest.starts_with([':', ' '])
        .then(|| rest.trim_start_matches([':', ' ']))
}

/// `1 (558.9 GB, RAID 1, OK)`: the name and what the brackets hold.
fn name_and_brackets(rest: &str) -> (&str, Vec<&str>) {
    match rest.split_once('(') {
        Some((name, inside)) => {
            // `(1 TB): OK` has the state behind the brackets. A line that was cut has none to close.
            let (inside, behind) = inside.rsplit_once(')').unwrap_or((inside, ""));
            let mut parts: Vec<&str> = inside.split(',').map(str::trim).collect();
            parts.extend(behind.strip_prefix(':').map(str::trim));
            (name.trim(), parts)
        }
        None => (rest.trim(), Vec::new()),
    }
}

/// `Internal Drive Cage at Port 1I, Box 1, OK`: a part and its state at the end of the line.
fn cage(text: &str) -> Option<(&str, &str)> {
    if !plain(text).contains(" at port ") {
        return None;
    }
    text.rsplit_once(',')
        .filter(|(_, state)| !plain(state).starts_with("box"))
}

fn is_part(said: &str) -> bool {
    [
        "sep ",
        "expander",
        "enclosure",
        "port name",
        "sensor id",
        "mirror group",
        "parity group",
        "disk partition information",
        "internal drive cage",
        "external drive cage",
        "drive cage",
    ]
    .iter()
    .any(|part| said.starts_with(part))
}

impl Card {
    fn of(id: String, line: &str, mode: Option<&str>) -> Self {
        let mut facts = ControllerFacts::unknown(NOT_TOLD);
        let model = line.split(" in Slot").next().unwrap_or(line).trim();
        facts.model = model.to_owned().into();
        facts.mode.learn(mode.map(str::to_owned));
        Self {
            id,
            facts,
            judgement: Judgement::default(),
            battery: None,
            battery_absent: None,
            cache_told: false,
            arrays: Vec::new(),
            inside: None,
            drives: BTreeMap::new(),
        }
    }

    fn mode_of(text: &str) -> Option<&'static str> {
        let said = plain(text);
        let modes = [
            ("hba mode", "hba"),
            ("raid mode", "raid"),
            ("mixed mode", "mixed"),
        ];
        modes
            .iter()
            .find(|(words, _)| said.contains(words))
            .map(|(_, mode)| *mode)
    }

    fn array(&mut self) -> Option<&mut Array> {
        self.arrays.get_mut(self.inside?)
    }

    fn begin_array(&mut self, name: &str, brackets: &[&str]) {
        let mut array = Array {
            id: format!("{}/{name}", self.id),
            told: false,
            judgement: Judgement::default(),
            volumes: Vec::new(),
            members: Vec::new(),
        };
        for said in brackets {
            // Beside its state, what it is made of and how much of it is free.
            let is_about = said.contains(':')
                || [
                    "sata",
                    "sas",
                    "solid state",
                    "nvme",
                    "scsi",
                    "pcie",
                    "hdd",
                    "ssd",
                ]
                .iter()
                .any(|word| said.contains(word));
            if !is_about {
                array.told = true;
                array.judgement.word("array", said, STATES);
            }
        }
        self.arrays.push(array);
        self.inside = Some(self.arrays.len() - 1);
    }

    fn begin_volume(&mut self, name: &str, brackets: &[&str]) {
        if self.inside.is_none() {
            self.begin_array("-", &[]);
        }
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.action = Fact::Unknown(NOT_TOLD.into());
        let mut volume = Volume {
            id: format!("{}/ld{name}", self.id),
            told: false,
            facts,
            judgement: Judgement::default(),
        };
        for said in brackets {
            volume.bracket(said);
        }
        if let Some(array) = self.array() {
            array.volumes.push(volume);
        }
    }

    fn begin_drive(&mut self, name: &str, brackets: &[&str]) {
        let drive = self.drives.entry(name.to_owned()).or_insert_with(|| Drive {
            told: false,
            spare: false,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        });
        for said in brackets {
            drive.bracket(said);
        }
        if let Some(array) = self.array()
            && !array.members.iter().any(|member| member == name)
        {
            array.members.push(name.to_owned());
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "controller status" => self.judgement.word("controller", value, STATES),
            "cache status" | "accelerator status" => {
                self.cache_told = true;
                self.judgement.word("cache", value, CACHE_STATES);
            }
            "cache status details" => self.judgement.note(value.to_owned()),
            "battery/capacitor status"
            | "battery status"
            | "capacitor status"
            | "battery pack status" => {
                self.battery(value);
            }
            "battery/capacitor count" if number(value) == Some(0) => {
                self.battery_absent = Some(format!("{key}: 0"));
            }
            "cache backup power source" => {
                let kind = match plain(value).as_str() {
                    "batteries" | "battery" => "battery",
                    "capacitors" | "capacitor" => "capacitor",
                    _ => return,
                };
                let (facts, _) = self.battery_row();
                facts.r#type = kind.to_owned().into();
            }
            "controller mode" => self
                .facts
                .mode
                .learn(Some(plain(value)).filter(|mode| !mode.is_empty())),
            "controller temperature (c)" => self.facts.temperature_c.learn(celsius(value)),
            "no-battery write cache" => self.facts.write_back_without_battery.learn(flag(value)),
            "drive write cache" => self.facts.drive_write_cache.learn(flag(value)),
            "configured drive write cache policy" => {
                self.facts
                    .drive_write_cache
                    .learn(match plain(value).as_str() {
                        "enable" | "enabled" => Some(true),
                        "disable" | "disabled" => Some(false),
                        _ => None,
                    });
            }
            _ if key.ends_with(" status") => self.other_status(key, value),
            _ => {}
        }
    }

    /// A status of something that is not known here: of features, mostly.
    fn other_status(&mut self, key: &str, value: &str) {
        const NEUTRAL: [&str; 6] = [
            "enabled",
            "disabled",
            "not set",
            "supported",
            "not supported",
            "none",
        ];
        let well = meaning(value, STATES) == Some(Health::Ok);
        if !well && !NEUTRAL.contains(&plain(value).as_str()) {
            self.judgement.say(
                Health::Unknown,
                format!("{key}: {value}, which is not known here"),
            );
        }
    }

    fn battery_row(&mut self) -> &mut (BatteryFacts, Judgement) {
        self.battery
            .get_or_insert_with(|| (BatteryFacts::unknown(NOT_TOLD), Judgement::default()))
    }

    fn battery(&mut self, value: &str) {
        let said = plain(value);
        if matches!(said.as_str(), "not present" | "not installed" | "n/a") {
            self.battery_absent = Some(format!("battery/capacitor status: {value}"));
            return;
        }
        let (facts, judgement) = self.battery_row();
        judgement.word("battery or capacitor", value, BATTERY_STATES);
        facts.replace.learn(match meaning(value, BATTERY_STATES) {
            Some(Health::Ok) => Some(false),
            Some(Health::Failed) => Some(true),
            _ => None,
        });
    }

    /// A cage or an enclosure: what it says of itself is the controller's to tell.
    fn part(&mut self, part: &str, state: &str) {
        match meaning(state, STATES) {
            Some(Health::Ok) => {}
            Some(health) => self.judgement.say(
                health.min(Health::Degraded),
                format!("{part}: {}", state.trim()),
            ),
            None => self.judgement.note(format!("{part}: {}", state.trim())),
        }
    }

    fn finish(mut self, report: &mut Report) {
        let mut items = Vec::new();
        if self.battery.is_some() {
            // Where there is a battery there is a cache.
            self.judgement
                .require(self.cache_told, "the state of its cache");
        }
        let (health, reason) = self.judgement.finish();
        let always = self.facts.write_back_without_battery.known() == Some(&true);
        items.push(Item {
            id: self.id.clone(),
            health,
            reason,
            facts: Facts::Controller(self.facts),
        });
        match (self.battery, self.battery_absent) {
            (None, Some(why)) => items.push(absent_battery(format!("{}/battery", self.id), &why)),
            (Some((facts, judgement)), _) if judgement.worst().is_some() => {
                let (health, reason) = judgement.finish();
                items.push(Item {
                    id: format!("{}/battery", self.id),
                    health,
                    reason,
                    facts: Facts::Battery(facts),
                });
            }
            (Some(_), Some(why)) => {
                items.push(absent_battery(format!("{}/battery", self.id), &why));
            }
            (Some(_) | None, None) => {}
        }
        for array in self.arrays {
            array.finish(&self.drives, always, &mut items);
        }
        for (name, drive) in self.drives {
            items.push(drive.item(format!("{}/{name}", self.id)));
        }
        settle_caches(&mut items);
        report.items.append(&mut items);
    }
}

impl Array {
    fn finish(self, drives: &BTreeMap<String, Drive>, always: bool, items: &mut Vec<Item>) {
        let members: Vec<&Drive> = self
            .members
            .iter()
            .filter_map(|name| drives.get(name))
            .collect();
        let of_data = members.iter().filter(|drive| !drive.spare);
        let required = of_data.clone().count() as u64;
        let failed = of_data.filter(|drive| drive.judgement.worst() == Some(Health::Failed));
        let failed = failed.count() as u64;
        let spares = members.iter().filter(|drive| drive.spare).count() as u64;
        let count = |facts: &mut ArrayFacts| {
            if required > 0 {
                facts.members_required = required.into();
                facts.members_active = (required - failed).into();
                facts.members_failed = failed.into();
                facts.spares = spares.into();
            }
        };

        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        count(&mut facts);
        facts.cache_policy = Fact::NotApplicable;
        facts.cache_protected = Fact::NotApplicable;
        let mut judgement = self.judgement;
        // On one line, an array without a word beside its name is well; what it holds may still not be.
        let mut levels: Vec<String> = Vec::new();
        let mut volumes = Vec::new();
        for volume in self.volumes {
            levels.extend(volume.facts.level.known().cloned());
            let mut item = volume.item(always);
            if let Facts::Volume(facts) = &mut item.facts {
                count(facts);
            }
            volumes.push(item);
        }
        levels.sort();
        levels.dedup();
        match levels.as_slice() {
            [one] => facts.level = one.clone().into(),
            [] => {}
            many => {
                facts.level =
                    Fact::Unknown(format!("its volumes differ: {}", many.join(", ")).into());
            }
        }
        if !self.told {
            match volumes.iter().max_by_key(|volume| volume.health) {
                Some(worst) if worst.health == Health::Ok => {
                    judgement.say(
                        Health::Ok,
                        "no word against it, and its logical drives are OK",
                    );
                }
                Some(worst) => {
                    judgement.say(worst.health, format!("its logical drive {}", worst.id));
                }
                None => judgement.require(false, "its status"),
            }
        }
        let (health, reason) = judgement.finish();
        if !self.id.ends_with("/-") {
            items.push(Item {
                id: self.id,
                health,
                reason,
                facts: Facts::Array(facts),
            });
        }
        items.append(&mut volumes);
    }
}

impl Volume {
    fn bracket(&mut self, said: &str) {
        if size(said).is_some() {
            self.facts.size_bytes.learn(size(said));
        } else if let Some(found) = level(said) {
            self.facts.level = found.into();
        } else if let Some(percent) = said.strip_suffix("complete").and_then(decimal) {
            self.facts.action_percent = percent.into();
        } else {
            self.state(said);
        }
    }

    fn state(&mut self, said: &str) {
        self.told = true;
        // `Recovering, 45% complete` as a field of its own.
        let mut parts = said.split(',').map(str::trim);
        let word = parts.next().unwrap_or("");
        self.judgement.word("status", word, STATES);
        for part in parts {
            match part.strip_suffix("complete").and_then(decimal) {
                Some(percent) => self.facts.action_percent = percent.into(),
                None => self.judgement.word("status", part, STATES),
            }
        }
        self.facts.action.learn(match plain(word).as_str() {
            "ok" | "interim recovery mode" | "interim recovery" | "failed" | "degraded" => {
                Some(Action::Idle)
            }
            "recovering" | "rebuilding" | "predictive spare rebuild" => Some(Action::Recovery),
            "transforming" | "expanding" => Some(Action::Reshape),
            "initializing" | "parity initialization in progress" => Some(Action::Resync),
            "ready for rebuild" | "queued for expansion" => Some(Action::Delayed),
            _ => None,
        });
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "status" => self.state(value),
            "size" => self.facts.size_bytes.learn(size(value)),
            "fault tolerance" => self.facts.level.learn(level(value)),
            "caching" => self.facts.cache_policy.learn(match flag(value) {
                Some(true) => Some(CachePolicy::WriteBack),
                Some(false) => Some(CachePolicy::WriteThrough),
                None => None,
            }),
            "disk name" => self
                .facts
                .device
                .learn(Some(value.to_owned()).filter(|name| !name.is_empty())),
            "unrecoverable media errors" if !matches!(plain(value).as_str(), "none" | "0" | "") => {
                self.judgement
                    .note(format!("unrecoverable media errors: {value}"));
            }
            _ => {}
        }
    }

    fn item(mut self, always: bool) -> Item {
        self.judgement.require(self.told, "its status");
        if self.facts.action.known() == Some(&Action::Idle)
            && self.facts.action_percent.known().is_none()
        {
            self.facts.action_percent = Fact::NotApplicable;
        }
        if always && self.facts.cache_policy == Fact::Known(CachePolicy::WriteBack) {
            self.facts.cache_policy = CachePolicy::WriteBackAlways.into();
            self.judgement
                .note("No-Battery Write Cache is on: writes wait even without a battery in order");
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

impl Drive {
    /// What a drive's line says in brackets: where it sits, what it is, how it fares.
    fn bracket(&mut self, said: &str) {
        let is_place =
            said.starts_with("port") || said.starts_with("box") || said.starts_with("bay");
        if is_place {
            return;
        }
        if size(said).is_some() || said.strip_suffix("complete").and_then(decimal).is_some() {
            return;
        }
        if said == "spare" || said.contains(" spare") && !said.contains("rebuild") {
            self.spare = true;
            return;
        }
        if let Some((transport, medium)) = interface(said) {
            self.facts.transport = transport.to_owned().into();
            self.facts.medium.learn(medium);
            return;
        }
        self.told = true;
        self.judgement.word("status", said, STATES);
    }

    fn field(&mut self, key: &str, value: &str) {
        let facts = &mut self.facts;
        match key {
            "status" => {
                self.told = true;
                for part in value.split(',') {
                    if part
                        .trim()
                        .strip_suffix("complete")
                        .and_then(decimal)
                        .is_none()
                    {
                        self.judgement.word("status", part, STATES);
                    }
                }
            }
            "drive type" => self.spare |= plain(value).contains("spare"),
            "interface type" => {
                if let Some((transport, medium)) = interface(&plain(value)) {
                    facts.transport = transport.to_owned().into();
                    facts.medium.learn(medium);
                }
            }
            "rotational speed" if number(value).is_some_and(|speed| speed > 0) => {
                facts.medium = Medium::Hdd.into();
            }
            "model" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                facts
                    .model
                    .learn(Some(words.join(" ")).filter(|model| !model.is_empty()));
            }
            "serial number" => facts
                .serial
                .learn(Some(value.to_owned()).filter(|serial| !serial.is_empty())),
            "current temperature (c)" => facts.temperature_c.learn(celsius(value)),
            "usage remaining" => {
                let left = decimal(value).filter(|left| (0.0..=100.0).contains(left));
                facts
                    .wear_percent
                    .learn(left.map(|left| (100.0 - left).round() as u64));
            }
            "ssd smart trip wearout" => match plain(value).as_str() {
                "false" | "not supported" | "" => {}
                "true" => self.judgement.say(Health::Degraded, "it is worn out"),
                _ => self.judgement.note(format!("{key}: {value}")),
            },
            _ => {}
        }
    }

    fn item(mut self, id: String) -> Item {
        self.judgement.require(self.told, "its status");
        let (health, reason) = self.judgement.finish();
        let word = plain(&reason);
        self.facts.passed.learn(match health {
            Health::Ok => Some(true),
            Health::Degraded if word.contains("predictive failure") => Some(false),
            _ => None,
        });
        self.facts
            .predictive_failures
            .learn(word.contains("status: predictive failure").then_some(1));
        Item {
            id,
            health,
            reason,
            facts: Facts::Drive(self.facts),
        }
    }
}

/// `SATA SSD`, `SAS HDD`, `Solid State SATA`, `Parallel SCSI`.
fn interface(said: &str) -> Option<(&'static str, Option<Medium>)> {
    let words: Vec<&str> = said.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let medium = if has("ssd") || said.contains("solid state") {
        Some(Medium::Ssd)
    } else if has("hdd") {
        Some(Medium::Hdd)
    } else {
        None
    };
    let transport = if has("sata") {
        "sata"
    } else if has("sas") {
        "sas"
    } else if has("nvme") || has("pcie") {
        "nvme"
    } else if has("scsi") {
        "scsi"
    } else {
        return None;
    };
    Some((transport, medium))
}

fn celsius(text: &str) -> Option<i64> {
    decimal(text).map(|degrees| degrees as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(report: &Report, id: &str) -> Health {
        let item = report.items.iter().find(|item| item.id == id);
        item.unwrap_or_else(|| panic!("no {id} in {report:?}"))
            .health
    }

    #[test]
    fn the_word_beside_an_array_outweighs_its_logical_drives() {
        let text = "Smart Array P410 in Slot 1\r\n\r\n   array A\r\n\r\n\
                    logicaldrive 1 (558.9 GB, RAID 1, OK)\r\n array B (Failed)\r\n\
                    logicaldrive 2 (2.2 TB, RAID 5, OK)\r\n";
        let report = parse_ssacli(text);
        assert_eq!(health(&report, "slot1/A"), Health::Ok);
        assert_eq!(health(&report, "slot1/B"), Health::Failed);
        assert_eq!(report.worst(), Health::Failed);
    }

    #[test]
    fn states_and_their_progress() {
        for (said, expected) in [
            ("OK", Health::Ok),
            ("Interim Recovery Mode", Health::Degraded),
            ("Recovering, 45% complete", Health::Rebuilding),
            ("Ready for Rebuild", Health::Degraded),
            ("Failed", Health::Failed),
            ("Splendid", Health::Unknown),
        ] {
            let text = format!(
                "Smart Array P410 in Slot 0b\n array A (SAS, Unused Space: 0 MB)\n \
                 logicaldrive 1 (279.4 GB, RAID 1+0, {said})\n"
            );
            assert_eq!(
                health(&parse_ssacli(&text), "slot0b/ld1"),
                expected,
                "{said}"
            );
        }
    }

    #[test]
    fn no_card_is_no_fault() {
        let report = parse_ssacli("\nError: No controllers detected.\n");
        assert_eq!(report, Report::default());
    }
}
