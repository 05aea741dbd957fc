//! arcconf `getconfig` and `getstatus`, of Adaptec, Microsemi and IBM's ServeRAID.
//!
//! Sections begun by a title, in them blocks begun by `Logical device number 0` and `Device #0`, with
//! `key : value` in each. IBM writes "logical drive", "Okay", "Defunct"; batteries are called battery,
//! ZMM, backup unit or supercap. The controller says "Optimal" whatever its arrays do.

use super::{absent_battery, settle_caches};
use crate::fact::Fact;
use crate::facts::{
    Action, ArrayFacts, BatteryFacts, CachePolicy, ControllerFacts, DriveFacts, Facts, Medium,
};
use crate::judgement::{Judgement, Words, flag, meaning};
use crate::lines::{Line, decimal, level, lines, number, plain, size};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "arcconf does not tell";

const CONTROLLER_STATES: Words = &[
    ("optimal", Health::Ok),
    ("okay", Health::Ok),
    ("ok", Health::Ok),
    ("degraded", Health::Degraded),
    ("needs attention", Health::Degraded),
    ("failed", Health::Failed),
];

const VOLUME_STATES: Words = &[
    ("optimal", Health::Ok),
    ("okay", Health::Ok),
    ("ok", Health::Ok),
    ("impacted", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("building", Health::Rebuilding),
    ("quick initialized", Health::Ok),
    ("suboptimal", Health::Degraded),
    ("sub-optimal", Health::Degraded),
    ("suboptimal, fault tolerant", Health::Degraded),
    ("degraded", Health::Degraded),
    ("critical", Health::Degraded),
    ("interim recovery", Health::Degraded),
    ("ready for recovery", Health::Degraded),
    ("recovering", Health::Rebuilding),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
    ("missing", Health::Failed),
    ("inactive", Health::Failed),
];

const SEGMENT_STATES: Words = &[
    ("present", Health::Ok),
    ("okay", Health::Ok),
    ("ok", Health::Ok),
    ("rebuilding", Health::Rebuilding),
    ("inconsistent", Health::Degraded),
    ("missing", Health::Degraded),
    ("failed", Health::Degraded),
    ("defunct", Health::Degraded),
];

const DRIVE_STATES: Words = &[
    ("online", Health::Ok),
    ("optimal", Health::Ok),
    ("okay", Health::Ok),
    ("ready", Health::Ok),
    ("online (jbod)", Health::Ok),
    ("jbod", Health::Ok),
    ("raw", Health::Ok),
    ("raw (pass through)", Health::Ok),
    ("hot spare", Health::Ok),
    ("hot-spare", Health::Ok),
    ("global hot-spare", Health::Ok),
    ("global hot spare", Health::Ok),
    ("dedicated hot-spare", Health::Ok),
    ("dedicated hot spare", Health::Ok),
    ("standby", Health::Ok),
    ("rebuilding", Health::Rebuilding),
    ("inconsistent", Health::Degraded),
    ("predictive failure", Health::Degraded),
    ("failed", Health::Failed),
    ("defunct", Health::Failed),
    ("missing", Health::Failed),
    ("offline", Health::Failed),
    ("not authenticated", Health::Degraded),
];

const BATTERY_STATES: Words = &[
    ("optimal", Health::Ok),
    ("okay", Health::Ok),
    ("ok", Health::Ok),
    ("ready", Health::Ok),
    ("zmm optimal", Health::Ok),
    ("charged", Health::Ok),
    ("charging", Health::Degraded),
    ("recharging", Health::Degraded),
    ("zmm charging", Health::Degraded),
    ("low", Health::Degraded),
    ("not ready", Health::Degraded),
    ("not fully charged", Health::Degraded),
    ("reconditioning", Health::Degraded),
    ("degraded", Health::Degraded),
    ("needs replacement", Health::Degraded),
    ("failed", Health::Failed),
    ("zmm failed", Health::Failed),
    ("error", Health::Failed),
    ("fatal", Health::Failed),
];

/// Reads what arcconf prints.
pub fn parse_arcconf(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    report: Report,
    /// How many controllers began so far: files may hold several.
    cards: usize,
    place: Place,
    controller: Option<Controller>,
    battery: Option<Backup>,
    volumes: Vec<Volume>,
    drives: Vec<Drive>,
    tasks: Vec<Task>,
    known: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Controller,
    Battery,
    Volume,
    Drive,
    Task,
    /// A section of the controller's that tells nothing of health.
    Aside,
}

struct Controller {
    facts: ControllerFacts,
    judgement: Judgement,
    told: bool,
    /// Whether it counted its defunct drives, and its volumes that are not well.
    drives_counted: bool,
    volumes_counted: bool,
}

struct Backup {
    facts: BatteryFacts,
    judgement: Judgement,
    absent: Option<String>,
    told: bool,
}

struct Volume {
    id: String,
    facts: ArrayFacts,
    judgement: Judgement,
    told: bool,
    segments: Vec<String>,
}

struct Drive {
    id: String,
    facts: DriveFacts,
    judgement: Judgement,
    told: bool,
    /// Enclosures and the like are listed as devices too.
    is_drive: Option<bool>,
}

#[derive(Default)]
struct Task {
    volume: Option<String>,
    operation: Option<String>,
    status: Option<String>,
    percent: Option<f64>,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        if self.heading(&said) {
            self.known = true;
            return;
        }
        let Some((key, value)) = line.pair() else {
            if said.contains("command failed") || said.starts_with("invalid controller") {
                self.report.problem(line.place(), line.text.to_owned());
            }
            if let Some(kind) = said.strip_prefix("device is a")
                && let Some(drive) = self.drives.last_mut()
            {
                let kind = kind.trim_start_matches('n').trim();
                drive.is_drive =
                    Some(kind.contains("drive") || kind.contains("disk") || kind.contains("ssd"));
            }
            return;
        };
        if key == "controllers found" {
            self.known = true;
            if self.controller.is_some() {
                self.end_card();
            }
            return;
        }
        match self.place {
            Place::Controller => {
                if let Some(controller) = &mut self.controller {
                    controller.field(&key, value);
                }
            }
            Place::Battery => {
                if let Some(battery) = &mut self.battery {
                    battery.field(&key, value);
                }
            }
            Place::Volume if self.volumes.last().is_some() => {
                if let Some(volume) = self.volumes.last_mut() {
                    volume.field(&key, value);
                }
            }
            Place::Drive if self.drives.last().is_some() => {
                if let Some(drive) = self.drives.last_mut() {
                    drive.field(&key, value);
                }
            }
            Place::Task if !self.tasks.is_empty() => {
                if let Some(task) = self.tasks.last_mut() {
                    task.field(&key, value);
                }
            }
            Place::Nowhere | Place::Volume | Place::Drive | Place::Task => {
                if key == "state"
                    || key.starts_with("status of logical")
                    || key == "controller status"
                {
                    self.report
                        .problem(line.place(), format!("{:?} belongs to nothing", line.text));
                }
            }
            Place::Aside => {}
        }
    }

    /// Whether the line is a title, or begins a block.
    fn heading(&mut self, said: &str) -> bool {
        let bare = said.trim_end_matches(':').trim();
        if let Some(title) = bare.strip_suffix(" information") {
            self.place = match title {
                "controller" => {
                    if self.controller.is_some() {
                        self.end_card();
                    }
                    self.controller = Some(Controller::new());
                    Place::Controller
                }
                "logical device" | "logical drive" => Place::Volume,
                "physical device" | "physical drive" => Place::Drive,
                "logical device segment" | "logical drive segment" => return true,
                "controller version"
                | "raid properties"
                | "controller bios setting"
                | "array"
                | "connector" => Place::Aside,
                _ if is_battery(title) => {
                    self.begin_battery(title);
                    Place::Battery
                }
                // A part of what it stands in, or of the controller.
                _ if self.place == Place::Drive || self.place == Place::Volume => return true,
                _ => Place::Aside,
            };
            return true;
        }
        if matches!(
            bare,
            "controller battery" | "green backup" | "cache properties" | "zero maintenance module"
        ) {
            self.begin_battery(bare);
            self.place = Place::Battery;
            return true;
        }
        if matches!(
            bare,
            "raid properties" | "controller vital product data" | "power settings"
        ) {
            self.place = Place::Aside;
            return true;
        }
        let task = [
            "logical device task",
            "logical drive task",
            "physical device task",
        ];
        if task.contains(&bare) {
            self.place = Place::Task;
            self.tasks.push(Task::default());
            return true;
        }
        let number_of = |words: &[&str]| {
            let rest = words.iter().find_map(|word| said.strip_prefix(word))?;
            let rest = rest.trim();
            number(rest).is_some().then(|| rest.to_owned())
        };
        if let Some(number) = number_of(&["logical device number ", "logical drive number "]) {
            self.place = Place::Volume;
            self.volumes.push(Volume::of(number));
            return true;
        }
        if let Some(number) = number_of(&["device #"]) {
            self.place = Place::Drive;
            self.drives.push(Drive::of(number));
            return true;
        }
        false
    }

    fn begin_battery(&mut self, title: &str) {
        let kind = if title.contains("zmm") || title.contains("zero maintenance") {
            "ZMM"
        } else if title.contains("battery") {
            "BBU"
        } else {
            "capacitor"
        };
        // Some firmware has two sections for one unit: both are judged together.
        let battery = self.battery.get_or_insert_with(Backup::new);
        if battery.facts.r#type.known().is_none() {
            battery.facts.r#type = kind.to_owned().into();
        }
    }

    fn end_card(&mut self) {
        self.cards += 1;
        let card = format!("c{}", self.cards);
        let mut items = Vec::new();
        if let Some(controller) = self.controller.take() {
            items.push(controller.item(card.clone()));
        }
        let battery = self.battery.take();
        let backed = battery.is_some();
        items.extend(battery.and_then(|battery| battery.item(format!("{card}/battery"))));
        for mut volume in self.volumes.drain(..) {
            volume.id = format!("{card}/{}", volume.id);
            if !backed && volume.facts.cache_policy.known().is_some() {
                volume
                    .judgement
                    .note("nothing is told of a battery behind its cache");
            }
            items.push(volume.item());
        }
        for mut drive in self.drives.drain(..) {
            // What arcconf calls a device may be an enclosure.
            if drive.is_drive != Some(false) {
                drive.id = format!("{card}/{}", drive.id);
                items.push(drive.item());
            }
        }
        settle_caches(&mut items);
        for task in self.tasks.drain(..) {
            task.settle(&card, &mut items);
        }
        self.report.items.append(&mut items);
        self.place = Place::Nowhere;
    }

    fn finish(mut self) -> Report {
        let empty = self.controller.is_none()
            && self.battery.is_none()
            && self.volumes.is_empty()
            && self.drives.is_empty()
            && self.tasks.is_empty();
        if !empty {
            self.end_card();
        }
        if !self.known && self.report.items.is_empty() && self.report.problems.is_empty() {
            self.report
                .problem("the file", "nothing in it is in the form of arcconf");
        }
        self.report
    }
}

fn is_battery(title: &str) -> bool {
    [
        "battery",
        "zmm",
        "backup",
        "supercap",
        "super capacitor",
        "flash module",
    ]
    .iter()
    .any(|word| title.contains(word))
}

impl Controller {
    fn new() -> Self {
        Self {
            facts: ControllerFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            told: false,
            drives_counted: false,
            volumes_counted: false,
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "controller status" => {
                self.told = true;
                self.judgement.word("controller", value, CONTROLLER_STATES);
            }
            "controller model" => self
                .facts
                .model
                .learn(Some(value.to_owned()).filter(|name| !name.is_empty())),
            "controller mode" => self
                .facts
                .mode
                .learn(Some(plain(value)).filter(|mode| !mode.is_empty())),
            "temperature" => {
                // A card without sensor reads -4 C.
                let degrees = decimal(value).filter(|degrees| *degrees > 0.0);
                self.facts
                    .temperature_c
                    .learn(degrees.map(|degrees| degrees as i64));
            }
            "defunct disk drive count" => {
                self.drives_counted = true;
                self.judgement
                    .errors("defunct disk drives", number(value), Health::Degraded);
            }
            "logical devices/failed/degraded" | "logical drives/offline/critical" => {
                self.volumes_counted = true;
                let mut counts = value.split('/').skip(1).map(number);
                self.judgement
                    .errors("failed volumes", counts.next().flatten(), Health::Failed);
                self.judgement.errors(
                    "degraded volumes",
                    counts.next().flatten(),
                    Health::Degraded,
                );
            }
            _ => {}
        }
    }

    fn item(mut self, id: String) -> Item {
        self.judgement.require(self.told, "the controller's status");
        // It says "Optimal" whatever they do.
        self.judgement
            .require(self.drives_counted, "how many drives are defunct");
        self.judgement
            .require(self.volumes_counted, "how many volumes failed");
        let (health, reason) = self.judgement.finish();
        Item {
            id,
            health,
            reason,
            facts: Facts::Controller(self.facts),
        }
    }
}

impl Backup {
    fn new() -> Self {
        Self {
            facts: BatteryFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            absent: None,
            told: false,
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let said = plain(value);
        match key {
            "status"
            | "overall backup unit status"
            | "backup power status"
            | "supercap status"
            | "backup unit status"
            | "battery status"
            | "non-volatile storage status" => {
                self.told = true;
                let absent = [
                    "not installed",
                    "not present",
                    "zmm not installed",
                    "zmm not present",
                    "none",
                    "n/a",
                ];
                if absent.contains(&said.as_str()) {
                    self.absent = Some(format!("{key}: {value}"));
                    return;
                }
                self.judgement.word(key, value, BATTERY_STATES);
                self.facts
                    .replace
                    .learn(match meaning(value, BATTERY_STATES) {
                        Some(Health::Ok) => Some(false),
                        Some(Health::Failed) => Some(true),
                        _ => None,
                    });
            }
            "over temperature" => match flag(value) {
                Some(false) => {}
                Some(true) => self.judgement.say(Health::Degraded, "it is too hot"),
                None => self.judgement.note(format!("{key}: {value}")),
            },
            "capacity remaining" | "charge level" => {
                let percent = number(value).filter(|percent| *percent <= 100);
                self.facts.charge_percent.learn(percent);
            }
            "backup unit type" | "power type" | "model" => {
                self.facts
                    .model
                    .learn(Some(value.to_owned()).filter(|name| !name.is_empty()));
                if said.contains("cap") {
                    self.facts.r#type = "capacitor".to_owned().into();
                }
            }
            "hardware error" if !matches!(said.as_str(), "no error" | "none" | "") => {
                self.judgement
                    .say(Health::Degraded, format!("{key}: {value}"));
            }
            "current temperature" | "temperature" => {
                self.facts
                    .temperature_c
                    .learn(decimal(value).map(|degrees| degrees as i64));
            }
            _ => {}
        }
    }

    fn item(mut self, id: String) -> Option<Item> {
        if let Some(why) = &self.absent
            && self
                .judgement
                .worst()
                .is_none_or(|worst| worst == Health::Ok)
        {
            let mut item = absent_battery(id, why);
            if let Facts::Battery(facts) = &mut item.facts {
                facts.r#type = self.facts.r#type;
            }
            return Some(item);
        }
        if !self.told && self.judgement.worst().is_none() {
            return None;
        }
        self.judgement.require(self.told, "its status");
        let (health, reason) = self.judgement.finish();
        Some(Item {
            id,
            health,
            reason,
            facts: Facts::Battery(self.facts),
        })
    }
}

impl Volume {
    fn of(number: String) -> Self {
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.action = Fact::Unknown("getstatus tells it, getconfig does not".into());
        facts.action_percent = facts.action.known().map_or(
            Fact::Unknown("getstatus tells it, getconfig does not".into()),
            |_| Fact::NotApplicable,
        );
        Self {
            id: format!("ld{number}"),
            facts,
            judgement: Judgement::default(),
            told: false,
            segments: Vec::new(),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "status of logical device" | "status of logical drive" => {
                self.told = true;
                self.judgement.word("status", value, VOLUME_STATES);
            }
            "raid level" => self.facts.level.learn(level(value)),
            "size" => self.facts.size_bytes.learn(size(value)),
            "failed stripes" | "defunct stripes" => match flag(value) {
                Some(false) => {}
                Some(true) => self.judgement.say(Health::Degraded, format!("{key}: yes")),
                None => self.judgement.note(format!("{key}: {value}")),
            },
            "write-cache setting" | "write-cache mode" | "write-cache status" => self.policy(value),
            "disk name" => self
                .facts
                .device
                .learn(value.split_whitespace().next().map(str::to_owned)),
            _ if key.starts_with("segment ")
                || key.starts_with("group ") && key.contains("segment") =>
            {
                self.segments
                    .push(value.split_whitespace().next().unwrap_or("").to_owned());
            }
            _ => {}
        }
    }

    /// What it is set to, and what it does: write-through if either says so.
    fn policy(&mut self, value: &str) {
        let said = plain(value);
        let through = said.starts_with("disabled")
            || said.starts_with("off")
            || said.contains("write-through")
            || said.contains("write through");
        let policy = if through {
            CachePolicy::WriteThrough
        } else if said.contains("when protected") {
            CachePolicy::WriteBack
        } else if said.starts_with("enabled") || said.starts_with("on") {
            // Adaptec's own name for it is "always": it asks for no battery.
            CachePolicy::WriteBackAlways
        } else {
            return;
        };
        self.facts.cache_policy = match self.facts.cache_policy {
            Fact::Known(CachePolicy::WriteThrough) => CachePolicy::WriteThrough,
            Fact::Known(CachePolicy::WriteBack) if policy == CachePolicy::WriteBackAlways => {
                CachePolicy::WriteBack
            }
            _ => policy,
        }
        .into();
    }

    fn item(mut self) -> Item {
        self.judgement.require(self.told, "its status");
        let mut rebuilding = 0;
        let mut broken = 0;
        for state in &self.segments {
            match meaning(state, SEGMENT_STATES) {
                Some(Health::Ok) => {}
                Some(Health::Rebuilding) => {
                    rebuilding += 1;
                    self.judgement.word("a segment", state, SEGMENT_STATES);
                }
                Some(_) => {
                    broken += 1;
                    self.judgement.word("a segment", state, SEGMENT_STATES);
                }
                None => self.judgement.word("a segment", state, SEGMENT_STATES),
            }
        }
        let required = self.segments.len() as u64;
        if required > 0 {
            self.facts.members_required = required.into();
            self.facts.members_active = (required - broken - rebuilding).into();
            self.facts.members_failed = broken.into();
        }
        if rebuilding > 0 {
            self.facts.action = Action::Recovery.into();
            self.judgement.rebuilds();
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
    fn of(number: String) -> Self {
        Self {
            id: format!("d{number}"),
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            told: false,
            is_drive: None,
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let facts = &mut self.facts;
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "state" => {
                self.told = true;
                // Several may stand behind each other: all of them count.
                if meaning(value, DRIVE_STATES).is_some() {
                    self.judgement.word("state", value, DRIVE_STATES);
                } else {
                    for word in value.split(',') {
                        self.judgement.word("state", word, DRIVE_STATES);
                    }
                }
            }
            "vendor" if value == "*MISSING*" => {
                self.judgement.say(Health::Failed, "it is missing");
            }
            "model" => facts.model.learn(text()),
            "serial number" => facts.serial.learn(text()),
            "size" | "total size" => facts.size_bytes.learn(size(value)),
            "transfer speed" | "interface type" => {
                let said = plain(value);
                let transport = ["sata", "sas", "nvme"]
                    .into_iter()
                    .find(|kind| said.starts_with(kind));
                facts.transport.learn(transport.map(str::to_owned));
            }
            "ssd" | "device type" => facts.medium.learn(match plain(value).as_str() {
                "yes" | "ssd" => Some(Medium::Ssd),
                "no" | "hdd" => Some(Medium::Hdd),
                _ => None,
            }),
            "write cache" => facts
                .write_cache
                .learn(match plain(value).split(' ').next() {
                    Some("enabled") => Some(true),
                    Some("disabled") => Some(false),
                    _ => None,
                }),
            "s.m.a.r.t. warnings" => {
                let count = number(value);
                facts.predictive_failures.learn(count);
                self.judgement
                    .errors("S.M.A.R.T. warnings", count, Health::Degraded);
            }
            "pfa" | "predictive failure" => match flag(value) {
                Some(false) => facts.passed = true.into(),
                Some(true) => {
                    facts.passed = false.into();
                    self.judgement
                        .say(Health::Degraded, "it foretells its failure (PFA)");
                }
                None => self
                    .judgement
                    .say(Health::Unknown, format!("{key}: {value:?}")),
            },
            "medium error count" | "media failures" | "hard media error" => {
                facts.media_errors.learn(number(value));
            }
            "current temperature" => facts
                .temperature_c
                .learn(decimal(value).map(|degrees| degrees as i64)),
            "usage remaining" => {
                let left = number(value).filter(|left| *left <= 100);
                facts.wear_percent.learn(left.map(|left| 100 - left));
            }
            _ => {}
        }
    }

    fn item(mut self) -> Item {
        self.judgement.require(self.told, "its state");
        self.judgement
            .require(self.is_drive.is_some(), "what kind of device it is");
        let (health, reason) = self.judgement.finish();
        Item {
            id: self.id,
            health,
            reason,
            facts: Facts::Drive(self.facts),
        }
    }
}

impl Task {
    fn field(&mut self, key: &str, value: &str) {
        let text = Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "logical device" | "logical drive" => self.volume = text,
            "current operation" => self.operation = text,
            "status" => self.status = text,
            "percentage complete" => {
                self.percent = decimal(value).filter(|percent| (0.0..=100.0).contains(percent));
            }
            _ => {}
        }
    }

    /// Adds what a task tells to its volume, or makes one of it where only the status was asked.
    fn settle(self, card: &str, items: &mut Vec<Item>) {
        let (Some(volume), Some(operation)) = (self.volume, self.operation) else {
            return;
        };
        let id = format!("{card}/ld{volume}");
        let at = items
            .iter()
            .position(|item| item.id == id)
            .unwrap_or_else(|| {
                items.push(Item {
                    id,
                    health: Health::Unknown,
                    reason: String::new(),
                    facts: Facts::Volume(ArrayFacts::unknown("getstatus does not tell")),
                });
                items.len() - 1
            });
        let item = &mut items[at];
        let status = self
            .status
            .unwrap_or_else(|| "its status is not told".into());
        let paused = !plain(&status).contains("in progress");
        let action = operation_of(&operation);
        if matches!(action, Some(Action::Recovery | Action::Resync))
            && item.health < Health::Rebuilding
            && !paused
        {
            item.health = Health::Rebuilding;
        }
        if action == Some(Action::Recovery) && paused && item.health < Health::Degraded {
            item.health = Health::Degraded;
        }
        if let Facts::Volume(facts) = &mut item.facts {
            facts.action.learn(if paused {
                Some(Action::Delayed)
            } else {
                action
            });
            facts.action_percent.learn(self.percent);
        }
        let done = self
            .percent
            .map_or_else(String::new, |percent| format!(", {percent} %"));
        let before = if item.reason.is_empty() {
            String::new()
        } else {
            format!("{}; ", item.reason)
        };
        item.reason = format!("{before}{operation}: {status}{done}");
    }
}

fn operation_of(operation: &str) -> Option<Action> {
    let said = plain(operation);
    if said == "none" {
        Some(Action::Idle)
    } else if said.contains("rebuild") || said.contains("copyback") || said.contains("copy back") {
        Some(Action::Recovery)
    } else if said.contains("build") || said.contains("initial") || said.contains("clear") {
        Some(Action::Resync)
    } else if said.contains("verify") || said.contains("scrub") || said.contains("consistency") {
        Some(Action::Check)
    } else if said.contains("reconfig")
        || said.contains("expan")
        || said.contains("migrat")
        || said.contains("morph")
    {
        Some(Action::Reshape)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_as_well_as_its_worst_segment() {
        for (status, segment, expected) in [
            ("Optimal", "Present (0,1) XYZ", Health::Ok),
            ("Okay", "Present (0,1)", Health::Ok),
            ("Optimal", "Missing", Health::Degraded),
            ("Degraded", "Rebuilding (0,1)", Health::Rebuilding),
            ("Degraded", "Inconsistent (0,1)", Health::Degraded),
            ("Offline", "Present (0,1)", Health::Failed),
            ("Splendid", "Present (0,1)", Health::Unknown),
        ] {
            let text = format!(
                "Controllers found: 1\nLogical device information\nLogical device number 0\n\
                 RAID level : 1\nStatus of logical device : {status}\n\
                 Logical device segment information\nSegment 0 : Present (0,0)\nSegment 1 : {segment}\n"
            );
            let report = parse_arcconf(&text);
            assert_eq!(report.items[0].health, expected, "{status} {segment}");
        }
    }

    #[test]
    fn a_task_says_what_its_volume_does() {
        let text = "Controllers found: 1\nLogical device Task:\n Logical device : 0\n\
                    Current operation : Rebuild\n Status : In Progress\n Percentage complete : 1\n";
        let report = parse_arcconf(text);
        assert_eq!(report.items[0].health, Health::Rebuilding);
        let Facts::Volume(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.action, Action::Recovery.into());
        assert_eq!(facts.action_percent, 1.0.into());
    }
}
