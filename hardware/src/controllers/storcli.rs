//! storcli and perccli: `show all J` of controllers, drives, volumes, batteries, and the same as text.
//!
//! The text says what the JSON says, so it is put into that form first ([`from_text`]) and both are read
//! by one walk over all objects, at whatever depth: a list is known by the names of its columns, an
//! object by its key. HBAs have neither volumes nor batteries; a CacheVault is no BBU; some cards have
//! an "Energy Pack".

use std::collections::BTreeMap;

use super::battery::Battery;
use super::settle_caches;
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, ControllerFacts, DriveFacts, Facts, Medium};
use crate::json::{Json, documents};
use crate::judgement::{Judgement, Words};
use crate::lines::{decimal, level, plain, size};
use crate::report::{Health, Item, Report};

mod text;

const NOT_TOLD: &str = "storcli does not tell";

const VOLUME_STATES: Words = &[
    ("optl", Health::Ok),
    ("optimal", Health::Ok),
    ("rec", Health::Rebuilding),
    ("recovery", Health::Rebuilding),
    ("pdgd", Health::Degraded),
    ("partially degraded", Health::Degraded),
    ("dgrd", Health::Degraded),
    ("degraded", Health::Degraded),
    ("ofln", Health::Failed),
    ("offln", Health::Failed),
    ("offline", Health::Failed),
    ("failed", Health::Failed),
    ("fail", Health::Failed),
    ("fld", Health::Failed),
    ("msng", Health::Failed),
    ("missing", Health::Failed),
];

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
    let documents = if text.contains('{') {
        documents(text, &mut report)
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
        report.problem(format!("controller {id}"), what);
    }
    let mut card = Card::of(id);
    for data in answer.all("Response Data") {
        card.walk(data);
    }
    report.append(card.finish());
}

/// One controller and what hangs on it.
struct Card {
    id: String,
    controller: Option<Item>,
    /// Status of the battery as the controller has it, and whether it has one.
    battery_bits: Option<u64>,
    /// Whether the controller itself is described, with the status of its battery then.
    described: bool,
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

    fn read_list(&mut self, name: &str, rows: &[Json]) {
        if let Some(kind) = battery_section(name) {
            let place = if kind == "CacheVault" { "cv" } else { "bbu" };
            let id = format!("{}/{place}", self.id);
            let battery = self.batteries.entry(place.to_owned());
            let battery = battery.or_insert_with(|| Battery::of(id));
            for row in rows {
                read_battery(battery, row);
            }
            battery.assume_type(kind);
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
            } else if row.get("Ctl").is_some() && row.any(&["Hlth", "Health"]).is_some() {
                self.overview(row);
            }
        }
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
        let (health, reason) = judgement.finish();
        self.overview.push(Item {
            id: format!("c{number}"),
            health,
            reason,
            facts: Facts::Controller(facts),
        });
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
        if let Some(errors) = count("Memory Uncorrectable Errors") {
            judgement.errors(
                "uncorrectable errors of its memory",
                Some(errors),
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
                    None => judgement.note(format!("{key}: {}", said.said())),
                }
            }
        }
        self.battery_bits = status
            .any(&["BBU Status", "Energy Pack Status"])
            .and_then(Json::count);
        let (health, reason) = judgement.finish();
        self.controller = Some(Item {
            id: self.id.clone(),
            health,
            reason,
            facts: Facts::Controller(facts),
        });
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
        let mut batteries = self.batteries;
        if self.described && self.battery_bits.is_none() {
            for battery in batteries.values_mut() {
                battery.misses_bits();
            }
        }
        if let Some(bits) = self.battery_bits {
            // Without a description of its battery, a status of 0 says nothing: there may be none.
            if batteries.is_empty() && bits != 0 {
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

/// Lists that describe a battery, and what kind of it they are of.
fn battery_section(name: &str) -> Option<&'static str> {
    let name = name.replace(['_', ' '], "");
    let about = [
        "info",
        "status",
        "firmwarestatus",
        "gasgaugestatus",
        "designinfo",
        "properties",
        "capacityinfo",
    ];
    let kind = if name.starts_with("cachevault") || name.starts_with("cv") {
        "CacheVault"
    } else if name.starts_with("energypack") {
        "capacitor"
    } else if name.starts_with("bbu") || about[2..].contains(&name.as_str()) {
        "BBU"
    } else {
        return None;
    };
    about.iter().any(|end| name.ends_with(end)).then_some(kind)
}

/// A row of a summary, or one property with its value.
fn read_battery(battery: &mut Battery, row: &Json) {
    if let (Some(property), Some(value)) = (row.get("Property"), row.get("Value")) {
        battery.field(&plain(&property.said()), &value.said());
        return;
    }
    for (key, value) in row.entries() {
        battery.field(&plain(key), &value.said());
    }
}

struct Volume {
    id: String,
    group: Option<String>,
    state: bool,
    members: Vec<String>,
    facts: ArrayFacts,
    judgement: Judgement,
}

impl Volume {
    fn of(id: String) -> Self {
        Self {
            id,
            group: None,
            state: false,
            members: Vec::new(),
            facts: ArrayFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    fn row(&mut self, row: &Json) {
        for state in row.all("State") {
            self.state = true;
            self.judgement.word("state", &state.said(), VOLUME_STATES);
        }
        let text = |key| row.get(key).and_then(Json::text);
        self.facts.level.learn(text("TYPE").and_then(level));
        self.facts.size_bytes.learn(text("Size").and_then(size));
        self.facts
            .cache_policy
            .learn(text("Cache").and_then(policy));
        match text("Access").map(plain).as_deref() {
            Some("blkd" | "blocked") => self.judgement.say(Health::Failed, "access is blocked"),
            Some("ro") => self.judgement.say(Health::Degraded, "it is read-only"),
            _ => {}
        }
        if text("Consist").and_then(crate::judgement::flag) == Some(false) {
            self.judgement
                .note("never initialised: its parity may not agree yet");
        }
    }

    fn properties(&mut self, properties: &Json) {
        let text = |key| properties.get(key).and_then(Json::text);
        self.facts
            .device
            .learn(text("OS Drive Name").map(str::to_owned));
        if let Some(operations) = text("Active Operations").map(plain) {
            let action = if operations == "none" {
                Some(Action::Idle)
            } else if operations.contains("rebuild") {
                Some(Action::Recovery)
            } else if operations.contains("init") {
                Some(Action::Resync)
            } else if operations.contains("cc") || operations.contains("consistency") {
                Some(Action::Check)
            } else if operations.contains("oce")
                || operations.contains("migrat")
                || operations.contains("recon")
            {
                Some(Action::Reshape)
            } else {
                None
            };
            self.facts.action.learn(action);
            let percent = operations
                .split_once('(')
                .and_then(|(_, rest)| decimal(rest));
            self.facts.action_percent.learn(percent);
        }
    }

    fn item(mut self, group: Option<&Group>) -> Item {
        self.judgement.require(self.state, "its state");
        let members = match group {
            Some(group) if !group.members.is_empty() => group.members.clone(),
            _ => std::mem::take(&mut self.members),
        };
        if let Some(group) = group {
            for state in &group.states {
                self.judgement.word("its drive group", state, VOLUME_STATES);
            }
        }
        self.count(&members);
        let (health, reason) = self.judgement.finish();
        Item {
            id: self.id,
            health,
            reason,
            facts: Facts::Volume(self.facts),
        }
    }

    /// A drive group of which no volume is told.
    fn array(mut self, group: &Group) -> Item {
        self.facts.level.learn(group.level.clone());
        self.facts.cache_policy = Fact::NotApplicable;
        self.facts.cache_protected = Fact::NotApplicable;
        let item = self.item(Some(group));
        let Facts::Volume(facts) = item.facts else {
            return item;
        };
        Item {
            facts: Facts::Array(facts),
            ..item
        }
    }

    fn count(&mut self, members: &[String]) {
        if members.is_empty() {
            return;
        }
        let states: Vec<String> = members.iter().map(|state| plain(state)).collect();
        let count = |words: &[&str]| {
            let has = states
                .iter()
                .filter(|state| words.contains(&state.as_str()));
            has.count() as u64
        };
        let spares = count(&["ghs", "dhs"]);
        let active = count(&["onln", "online", "conf"]);
        let rebuilding = count(&["rbld", "cpybck"]);
        let required = states.len() as u64 - spares;
        self.facts.members_required = required.into();
        self.facts.members_active = active.into();
        self.facts.members_failed = (required - active.min(required))
            .saturating_sub(rebuilding)
            .into();
        self.facts.spares = spares.into();
        for state in members {
            let known = crate::judgement::meaning(state, DRIVE_STATES);
            if known != Some(Health::Ok) {
                self.judgement.word("a member", state, DRIVE_STATES);
            }
        }
        // A state of "optimal" above a member that is not would be the tool's mistake, not ours.
        if rebuilding > 0 {
            self.facts.action = Action::Recovery.into();
            if self.judgement.worst() == Some(Health::Degraded) {
                self.judgement.rebuilds();
            }
        } else if self.facts.action.known().is_none() {
            self.facts.action = Action::Idle.into();
            self.facts.action_percent = Fact::NotApplicable;
        }
    }
}

/// `RWBD`, `NRWTD`, `RAWBD`, `NR,WB`: read-ahead, the write policy, the IO policy.
fn policy(text: &str) -> Option<CachePolicy> {
    let said = text.trim().to_ascii_uppercase().replace([',', ' '], "");
    let rest = said
        .strip_prefix("NR")
        .or_else(|| said.strip_prefix('R'))
        .unwrap_or(&said);
    let rest = rest.strip_suffix(['D', 'C']).unwrap_or(rest);
    match rest {
        "WB" => Some(CachePolicy::WriteBack),
        "AWB" | "FWB" => Some(CachePolicy::WriteBackAlways),
        "WT" => Some(CachePolicy::WriteThrough),
        _ => None,
    }
}

struct Drive {
    id: String,
    state: bool,
    detailed: bool,
    facts: DriveFacts,
    judgement: Judgement,
}

impl Drive {
    fn of(id: String) -> Self {
        Self {
            id,
            state: false,
            detailed: false,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    fn row(&mut self, row: &Json) {
        for state in row.all("State") {
            self.state = true;
            self.judgement.word("state", &state.said(), DRIVE_STATES);
        }
        // storcli2 has another word beside it.
        for status in row.all("Status") {
            self.judgement.word("status", &status.said(), DRIVE_STATUS);
        }
        let text = |key| row.get(key).and_then(Json::text);
        let facts = &mut self.facts;
        facts.model.learn(text("Model").map(str::to_owned));
        facts.transport.learn(text("Intf").map(plain));
        facts.size_bytes.learn(text("Size").and_then(size));
        facts.medium.learn(match text("Med").map(plain).as_deref() {
            Some("hdd") => Some(Medium::Hdd),
            Some("ssd") => Some(Medium::Ssd),
            _ => None,
        });
    }

    fn state_details(&mut self, state: &Json) {
        self.detailed = true;
        let count = |key| state.get(key).and_then(Json::count);
        self.facts.media_errors.learn(count("Media Error Count"));
        if let Some(errors) = count("Media Error Count").filter(|errors| *errors > 0) {
            self.judgement.note(format!("media errors: {errors}"));
        }
        self.facts
            .predictive_failures
            .learn(count("Predictive Failure Count"));
        self.judgement.errors(
            "predictive failures",
            count("Predictive Failure Count"),
            Health::Degraded,
        );
        let mut alert = false;
        for said in state.all("S.M.A.R.T alert flagged by drive") {
            alert = true;
            match said.flag() {
                Some(false) => {}
                Some(true) => self.judgement.say(Health::Degraded, "a S.M.A.R.T. alert"),
                None => self.judgement.say(
                    Health::Unknown,
                    format!("S.M.A.R.T. alert: {:?}", said.said()),
                ),
            }
            self.facts.passed.learn(said.flag().map(|flagged| !flagged));
        }
        self.judgement
            .require(alert, "whether it raised a S.M.A.R.T. alert");
        let temperature = state.get("Drive Temperature").and_then(Json::decimal);
        self.facts
            .temperature_c
            .learn(temperature.map(|degrees| degrees as i64));
    }

    fn attributes(&mut self, attributes: &Json) {
        let text = |key| attributes.get(key).and_then(Json::text);
        self.facts.serial.learn(text("SN").map(str::to_owned));
        self.facts
            .model
            .learn(text("Model Number").map(str::to_owned));
        self.facts
            .write_cache
            .learn(text("Write Cache").and_then(crate::judgement::flag));
    }

    fn item(mut self) -> Item {
        self.judgement.require(self.state, "its state");
        if !self.detailed {
            self.judgement.note("only its state is told");
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

const DRIVE_STATUS: Words = &[
    ("online", Health::Ok),
    ("good", Health::Ok),
    ("ok", Health::Ok),
    ("degraded", Health::Degraded),
    ("rebuild", Health::Rebuilding),
    ("rbld", Health::Rebuilding),
    ("offline", Health::Failed),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("bad", Health::Failed),
];
