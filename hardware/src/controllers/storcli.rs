//! storcli and perccli: `show all J` of controllers, drives, volumes, batteries, and the same as text.
//!
//! The text says what the JSON says, so it is put into that form first ([`from_text`]) and both are read
//! by one walk over all objects, at whatever depth: a list is known by the names of its columns, an
//! object by its key. HBAs have neither volumes nor batteries; a CacheVault is no BBU; some cards have
//! an "Energy Pack".

mod drive;
mod sections;
mod text;
mod volume;

use drive::Drive;
use sections::{Section, battery_section, read_battery};
use std::collections::BTreeMap;
use volume::Volume;

use super::battery::Battery;
use super::{absent_battery, settle_caches};
use crate::facts::{ControllerFacts, Facts};
use crate::json::{self, Json, is_json};
use crate::judgement::{Judgement, Words};
use crate::lines::{level, plain};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "storcli does not tell";

const DRIVE_STATES: Words = &[
    ("onln", Health::Ok),
    ("online", Health::Ok),
    ("conf", Health::Ok),
    ("uconf", Health::Ok),
    ("ugood", Health::Ok),
    ("good", Health::Ok),
    ("ghs", Health::Ok),
    ("dhs", Health::Ok),
    ("jbod", Health::Ok),
    ("rbld", Health::Rebuilding),
    ("cpybck", Health::Rebuilding),
    ("confshld", Health::Degraded),
    ("uconfshld", Health::Degraded),
    ("cbshld", Health::Degraded),
    ("ugshld", Health::Degraded),
    ("hspshld", Health::Degraded),
    ("cfshld", Health::Degraded),
    ("shld", Health::Degraded),
    ("ubad", Health::Failed),
    ("bad", Health::Failed),
    ("ubunsp", Health::Failed),
    ("offln", Health::Failed),
    ("ofln", Health::Failed),
    ("failed", Health::Failed),
    ("fail", Health::Failed),
    ("msng", Health::Failed),
    ("missing", Health::Failed),
];

const CONTROLLER_STATES: Words = &[
    ("optimal", Health::Ok),
    ("opt", Health::Ok),
    ("ok", Health::Ok),
    ("needs attention", Health::Degraded),
    ("need attention", Health::Degraded),
    ("ndatn", Health::Degraded),
    ("degraded", Health::Degraded),
    ("dgd", Health::Degraded),
    ("critical", Health::Failed),
    ("failed", Health::Failed),
    ("fail", Health::Failed),
    ("fld", Health::Failed),
];

/// Reads what storcli or perccli prints, with or without `J`.
pub fn parse_storcli(text: &str) -> Report {
    let mut report = Report::default();
    let documents = if is_json(text) {
        let (mut documents, around) = json::read(text, &mut report);
        documents.extend(around.iter().map(|text| text::from_text(text)));
        documents
    } else {
        vec![text::from_text(text)]
    };
    let mut answers = 0;
    for document in &documents {
        for answer in document.all("Controllers").flat_map(Json::list) {
            answers += 1;
            read_answer(answer, &mut report);
        }
    }
    if answers == 0 && report.problems.is_empty() {
        report.problem("the file", "nothing in it is in the form of storcli");
    }
    report
}

fn read_answer(answer: &Json, report: &mut Report) {
    let status = answer.get("Command Status");
    let number = status.and_then(|status| status.get("Controller")?.count());
    let id = number.map_or_else(|| "c0".to_owned(), |number| format!("c{number}"));
    let said = status
        .and_then(|status| status.get("Status"))
        .map(Json::said);
    if said.as_deref() != Some("Success") {
        let description = status
            .and_then(|status| status.get("Description"))
            .map(Json::said);
        let mut what = description.unwrap_or_else(|| "the command's status is not told".to_owned());
        let details = status.map(|status| status.all("Detailed Status").flat_map(Json::list));
        for detail in details.into_iter().flatten() {
            if let Some(message) = detail.any(&["ErrMsg", "Err Msg"]).and_then(Json::text) {
                what = format!("{what}: {message}");
            }
        }
        // Its words for "this host has no such card".
        if plain(&what).contains("no controller found") {
            return;
        }
        report.problem(format!("controller {id}"), what);
    }
    let mut card = Card::of(id);
    let mut no_card = false;
    for data in answer.all("Response Data") {
        card.walk(data);
        // Progress of drives and volumes is a list without a name.
        card.read_list("", data.list());
        no_card |= data.get("Number of Controllers").and_then(Json::count) == Some(0);
    }
    let told = card.finish();
    if told == Report::default() && said.as_deref() == Some("Success") && !no_card {
        report.problem(
            format!("controller {}", number.unwrap_or(0)),
            "the answer tells of nothing that is known here",
        );
    }
    report.append(told);
}

/// One controller and what hangs on it.
struct Card {
    id: String,
    controller: Option<Item>,
    /// Status of the battery as the controller has it, and whether it has one.
    battery_bits: Option<u64>,
    /// Whether the controller itself is described, with the status of its battery then.
    described: bool,
    /// Its model where nothing more is told of it.
    product: Option<String>,
    /// What its hardware has in the place of a battery: `Absent`.
    battery_absent: bool,
    temperature: Option<i64>,
    mode: Option<String>,
    batteries: BTreeMap<String, Battery>,
    volumes: BTreeMap<String, Volume>,
    drives: BTreeMap<String, Drive>,
    groups: BTreeMap<String, Group>,
    problems: Report,
    overview: Vec<Item>,
}

/// What stands in the topology of a group of drives.
#[derive(Default)]
struct Group {
    states: Vec<String>,
    level: Option<String>,
    members: Vec<String>,
}

impl Card {
    fn of(id: String) -> Self {
        Self {
            id,
            controller: None,
            battery_bits: None,
            described: false,
            product: None,
            battery_absent: false,
            temperature: None,
            mode: None,
            batteries: BTreeMap::new(),
            volumes: BTreeMap::new(),
            drives: BTreeMap::new(),
            groups: BTreeMap::new(),
            problems: Report::default(),
            overview: Vec::new(),
        }
    }

    fn walk(&mut self, object: &Json) {
        let basics = object.get("Basics");
        self.described |= basics.is_some();
        self.read_properties(object);
        for (key, value) in object.entries() {
            let name = plain(key);
            match value {
                Json::Object(_) if name == "status" => self.read_controller(basics, value),
                Json::Object(_) if is_drive(&name) && name.ends_with(" state") => {
                    self.drive_of(&name).state_details(value);
                }
                Json::Object(_) if is_drive(&name) && name.ends_with(" device attributes") => {
                    self.drive_of(&name).attributes(value);
                }
                Json::Object(_) if name.starts_with("vd") && name.ends_with(" properties") => {
                    let number = name["vd".len()..]
                        .trim_end_matches(" properties")
                        .trim()
                        .to_owned();
                    self.volume(&number).properties(value);
                }
                Json::Object(_) => self.walk(value),
                Json::List(rows) => self.read_list(&name, rows),
                _ => {}
            }
        }
    }

    /// What stands beside its tables, under names that differ between versions.
    fn read_properties(&mut self, object: &Json) {
        let text = |key| object.get(key).and_then(Json::text).map(str::to_owned);
        self.product = self.product.take().or_else(|| text("Product Name"));
        self.battery_absent |= object
            .get("BBU")
            .map(Json::said)
            .as_deref()
            .map(plain)
            .as_deref()
            == Some("absent");
        let degrees = object.any(&[
            "ROC temperature(Degree Celsius)",
            "ROC temperature(Degree Celcius)",
            "Chip temperature(C)",
        ]);
        let degrees = degrees.and_then(Json::count).filter(|degrees| *degrees > 0);
        self.temperature = self
            .temperature
            .or(degrees.and_then(|degrees| i64::try_from(degrees).ok()));
        if let Some(said) = text("Current Personality").map(|said| plain(&said)) {
            let modes = ["raid", "hba", "jbod"];
            let known = modes.iter().find(|mode| said.starts_with(**mode));
            self.mode = known.map(|mode| (*mode).to_owned());
        }
    }

    /// `show rebuild`, `show cc`, `show init`: one row for each.
    fn progress(&mut self, row: &Json) {
        let Some(status) = row.get("Status").map(Json::said) else {
            return;
        };
        let runs = plain(&status) == "in progress";
        let percent = row.get("Progress%").and_then(Json::decimal);
        if let Some(path) = row.get("Drive-ID").map(Json::said) {
            let drive = self.drive(path.trim_start_matches('/').to_owned());
            drive.progress(runs, percent, &status);
        } else if let (Some(number), Some(operation)) = (
            row.get("VD").map(Json::said),
            row.get("Operation").map(Json::said),
        ) {
            self.volume(&number).progress(&operation, runs, percent);
        }
    }

    fn read_list(&mut self, name: &str, rows: &[Json]) {
        if let Some(section) = battery_section(name) {
            self.read_battery(section, rows);
            return;
        }
        for row in rows {
            if row.get("DG/VD").is_some() {
                let place = row.get("DG/VD").map(Json::said).unwrap_or_default();
                let (group, number) = place.split_once('/').unwrap_or(("", place.as_str()));
                let (group, number) = (group.to_owned(), number.to_owned());
                let volume = self.volume(&number);
                volume.group = Some(group);
                volume.row(row);
            } else if row.any(&["EID:Slt", "EID:Slot"]).is_some() && row.get("Arr").is_none() {
                let place = row
                    .any(&["EID:Slt", "EID:Slot"])
                    .map(Json::said)
                    .unwrap_or_default();
                let id = drive_id(&self.id, &place);
                if let Some(number) = name.strip_prefix("pds for vd") {
                    let state = row.get("State").map(Json::said).unwrap_or_default();
                    self.volume(number.trim()).members.push(state);
                }
                self.drive(id).row(row);
            } else if row.get("DG").is_some()
                && row.get("Type").is_some()
                && row.get("State").is_some()
            {
                self.topology(row);
            } else if row.get("Progress%").is_some() {
                self.progress(row);
            } else if row.get("Ctl").is_some() && row.any(&["Hlth", "Health"]).is_some() {
                self.overview(row);
            }
        }
    }

    fn read_battery(&mut self, section: Section, rows: &[Json]) {
        let (place, kind) = match section {
            Section::CacheVault => ("cv", "CacheVault"),
            Section::EnergyPack => ("bbu", "capacitor"),
            // Of whichever was told of before.
            Section::Further if self.batteries.contains_key("cv") => ("cv", "CacheVault"),
            Section::Bbu | Section::Further => ("bbu", "BBU"),
        };
        let id = format!("{}/{place}", self.id);
        let battery = self.batteries.entry(place.to_owned());
        let battery = battery.or_insert_with(|| Battery::of(id));
        for row in rows {
            read_battery(battery, row);
        }
        battery.assume_type(kind);
    }

    fn topology(&mut self, row: &Json) {
        let group = row.get("DG").map(Json::said).unwrap_or_default();
        let group = self.groups.entry(group).or_default();
        let kind = row.get("Type").map(Json::said).unwrap_or_default();
        for state in row.all("State") {
            if plain(&kind) == "drive" {
                group.members.push(state.said());
            } else {
                group.states.push(state.said());
            }
        }
        if let Some(level) = level(&kind) {
            group.level.get_or_insert(level);
        }
    }

    /// A row of `show`: one line for a whole controller.
    fn overview(&mut self, row: &Json) {
        let number = row.get("Ctl").map(Json::said).unwrap_or_default();
        let mut judgement = Judgement::default();
        for health in row.all("Hlth").chain(row.all("Health")) {
            judgement.word("health", &health.said(), CONTROLLER_STATES);
        }
        for (key, what) in [
            ("DNOpt", "drive groups not optimal"),
            ("VNOpt", "volumes not optimal"),
        ] {
            for count in row.all(key) {
                judgement.errors(what, count.count(), Health::Degraded);
            }
        }
        let mut facts = ControllerFacts::unknown(NOT_TOLD);
        facts
            .model
            .learn(row.get("Model").and_then(Json::text).map(str::to_owned));
        if let Some(said) = row.any(&["BBU", "EPack", "CV"]).and_then(Json::text)
            && !matches!(plain(said).as_str(), "n/a" | "na" | "-" | "absent" | "none")
        {
            let mut battery = Battery::of(format!("c{number}/bbu"));
            battery.field("state", said);
            self.overview.push(battery.item());
        }
        self.overview
            .push(judgement.item(format!("c{number}"), Facts::Controller(facts)));
    }

    fn read_controller(&mut self, basics: Option<&Json>, status: &Json) {
        let mut judgement = Judgement::default();
        let mut facts = ControllerFacts::unknown(NOT_TOLD);
        let model = basics.and_then(|basics| basics.get("Model")?.text());
        facts.model.learn(model.map(str::to_owned));
        let mut told = false;
        for state in status.all("Controller Status") {
            told = true;
            judgement.word("controller", &state.said(), CONTROLLER_STATES);
        }
        judgement.require(told, "the controller's status");
        let count = |key| status.get(key).and_then(Json::count);
        facts
            .memory_corrected_errors
            .learn(count("Memory Correctable Errors"));
        facts
            .memory_uncorrected_errors
            .learn(count("Memory Uncorrectable Errors"));
        for errors in status.all("Memory Uncorrectable Errors") {
            judgement.errors(
                "uncorrectable errors of its memory",
                errors.count(),
                Health::Degraded,
            );
        }
        for key in [
            "Any Offline VD Cache Preserved",
            "Controller has booted into safe mode",
            "Controller shutdown required",
        ] {
            for said in status.all(key) {
                match said.flag() {
                    Some(false) => {}
                    Some(true) => judgement.say(Health::Degraded, key),
                    None if matches!(plain(&said.said()).as_str(), "n/a" | "-") => {}
                    None => judgement.fault(key, None, &said.said()),
                }
            }
        }
        self.battery_bits = status
            .any(&["BBU Status", "Energy Pack Status"])
            .and_then(Json::count);
        self.controller = Some(judgement.item(self.id.clone(), Facts::Controller(facts)));
    }

    fn volume(&mut self, number: &str) -> &mut Volume {
        let id = format!("{}/v{number}", self.id);
        let volume = self.volumes.entry(number.to_owned());
        volume.or_insert_with(|| Volume::of(id))
    }

    fn drive(&mut self, id: String) -> &mut Drive {
        self.drives
            .entry(id.clone())
            .or_insert_with(|| Drive::of(id))
    }

    /// The drive that a title like `drive /c0/e252/s0 state` names.
    fn drive_of(&mut self, name: &str) -> &mut Drive {
        let path = name.split(' ').nth(1).unwrap_or("");
        self.drive(path.trim_start_matches('/').to_owned())
    }

    fn finish(self) -> Report {
        let mut report = self.problems;
        let mut items: Vec<Item> = self.controller.into_iter().collect();
        if items.is_empty()
            && let Some(product) = self.product
        {
            let mut facts = ControllerFacts::unknown(NOT_TOLD);
            facts.model = product.into();
            items.push(Judgement::default().item(self.id.clone(), Facts::Controller(facts)));
        }
        if let Some(Facts::Controller(facts)) = items.first_mut().map(|item| &mut item.facts) {
            facts.temperature_c.learn(self.temperature);
            facts.mode.learn(self.mode);
        }
        let mut batteries = self.batteries;
        if self.battery_absent
            && batteries.is_empty()
            && self.battery_bits.is_none_or(|bits| bits & 1 == 0)
        {
            items.push(absent_battery(format!("{}/bbu", self.id), "BBU: Absent"));
        }
        if self.described && self.battery_bits.is_none() {
            for battery in batteries.values_mut() {
                battery.misses_bits();
            }
        }
        if let Some(bits) = self.battery_bits {
            // Without a description of its battery, a status of 0 says nothing: there may be none.
            if batteries.is_empty() && bits != 0 && !self.battery_absent {
                let mut battery = Battery::of(format!("{}/bbu", self.id));
                battery.assume_type("BBU");
                batteries.insert("bbu".into(), battery);
            }
            for battery in batteries.values_mut() {
                battery.bits(bits);
            }
        }
        items.extend(batteries.into_values().map(Battery::item));
        let mut groups = self.groups;
        for volume in self.volumes.into_values() {
            let group = volume.group.clone();
            let group = group.and_then(|group| groups.get(&group));
            items.push(volume.item(group));
        }
        if items
            .iter()
            .all(|item| !matches!(item.facts, Facts::Volume(_)))
        {
            groups.retain(|_, group| group.level.is_some() || !group.states.is_empty());
            for (name, group) in groups {
                let mut array = Volume::of(format!("{}/d{name}", self.id));
                array.state = true;
                items.push(array.array(&group));
            }
        }
        items.extend(self.drives.into_values().map(Drive::item));
        settle_caches(&mut items);
        report.items.extend(items);
        report.items.extend(self.overview);
        report
    }
}

fn is_drive(name: &str) -> bool {
    name.starts_with("drive /c")
}

/// `252:0` is slot 0 of enclosure 252; drives without one have ` :0`.
fn drive_id(card: &str, place: &str) -> String {
    match place.split_once(':') {
        Some((enclosure, slot)) if !enclosure.trim().is_empty() => {
            format!("{card}/e{}/s{}", enclosure.trim(), slot.trim())
        }
        Some((_, slot)) => format!("{card}/s{}", slot.trim()),
        None => format!("{card}/{place}"),
    }
}

#[cfg(test)]
mod tests;
