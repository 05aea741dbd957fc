//! arcconf `getconfig` and `getstatus`, of Adaptec, Microsemi and IBM's ServeRAID.
//!
//! Sections begun by a title, in them blocks begun by `Logical device number 0` and `Device #0`, with
//! `key : value` in each. IBM writes "logical drive", "Okay", "Defunct"; batteries are called battery,
//! ZMM, backup unit or supercap. The controller says "Optimal" whatever its arrays do.

mod controller;
mod drive;
mod volume;

use super::settle_caches;
use crate::facts::Facts;
use crate::judgement::Words;
use crate::lines::{Line, lines, number, plain};
use crate::report::{Health, Report};
use controller::{Backup, Controller};
use drive::Drive;
use volume::{Task, Volume};

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
    // Of arrays, on recent cards.
    ("has failed physical device", Health::Degraded),
    ("has failed physical devices", Health::Degraded),
];

const CACHE_STATES: Words = &[
    ("ok", Health::Ok),
    ("optimal", Health::Ok),
    ("enabled", Health::Ok),
    ("not configured", Health::Ok),
    ("temporarily disabled", Health::Degraded),
    ("permanently disabled", Health::Failed),
    ("disabled", Health::Degraded),
    ("failed", Health::Failed),
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
    /// Of the drives that follow.
    channel: String,
    known: bool,
    /// It found no controller, or says of all that they do nothing.
    none: bool,
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
            // Every output begins so: a status may follow the configuration of the same controller.
            self.known = true;
            self.none |= number(value) == Some(0);
            self.place = Place::Nowhere;
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
            self.titled(title);
            return true;
        }
        // What stands in these is of the controller itself.
        if matches!(bare, "cache properties" | "raid properties") {
            self.place = Place::Controller;
            return true;
        }
        if matches!(
            bare,
            "controller battery" | "green backup" | "zero maintenance module"
        ) {
            self.begin_battery(bare);
            self.place = Place::Battery;
            return true;
        }
        if matches!(bare, "controller vital product data" | "power settings") {
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
            let rest = rest.trim().trim_end_matches(':');
            number(rest).is_some().then(|| rest.to_owned())
        };
        if let Some(number) = number_of(&["logical device number ", "logical drive number "]) {
            self.place = Place::Volume;
            self.volumes.push(Volume::of(&number));
            return true;
        }
        if let Some(number) = number_of(&["array number "]) {
            self.place = Place::Volume;
            self.volumes.push(Volume::array(&number));
            return true;
        }
        if let Some(number) = number_of(&["channel #"]) {
            self.channel = number;
            return true;
        }
        if let Some(number) = number_of(&["device #"]) {
            self.place = Place::Drive;
            // Numbers begin anew on every channel, and most cards have one.
            let id = match self.channel.as_str() {
                "" | "0" => format!("d{number}"),
                channel => format!("ch{channel}/d{number}"),
            };
            self.drives.push(Drive::of(id));
            return true;
        }
        false
    }

    /// A section with a title that ends in "information".
    fn titled(&mut self, title: &str) {
        self.place = match title {
            "controller" => {
                if self.controller.is_some() {
                    self.end_card();
                }
                self.controller = Some(Controller::new());
                Place::Controller
            }
            "logical device" | "logical drive" | "array" => Place::Volume,
            "physical device" | "physical drive" => Place::Drive,
            "logical device segment" | "logical drive segment" => return,
            "controller version" | "controller bios setting" | "connector" => Place::Aside,
            _ if is_battery(title) => {
                self.begin_battery(title);
                Place::Battery
            }
            // A part of what it stands in, or of the controller.
            _ if self.place == Place::Drive || self.place == Place::Volume => return,
            _ => Place::Aside,
        };
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
        let always = items.iter().any(|item| {
            matches!(&item.facts, Facts::Controller(facts)
                if facts.write_back_without_battery.known() == Some(&true))
        });
        for mut volume in self.volumes.drain(..) {
            volume.settle_policy(always);
            volume.id = format!("{card}/{}", volume.id);
            if !backed && !volume.is_array && volume.facts.cache_policy.known().is_some() {
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
            self.none |= task.is_idle();
            task.settle(&card, &mut items);
        }
        self.report.items.append(&mut items);
        self.place = Place::Nowhere;
        self.channel.clear();
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
        if self.report.items.is_empty() && self.report.problems.is_empty() && !self.none {
            let what = if self.known {
                "it has titles of arcconf, and below them nothing that is known here"
            } else {
                "nothing in it is in the form of arcconf"
            };
            self.report.problem("the file", what);
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

#[cfg(test)]
mod tests;
