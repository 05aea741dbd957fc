//! A controller, and the battery or capacitor behind its cache.

use std::collections::BTreeMap;

use super::super::{absent_battery, settle_caches};
use super::array::{Array, Volume};
use super::drive::Drive;
use super::{BATTERY_STATES, CACHE_STATES, NOT_TOLD, STATES, celsius, judge_state};
use crate::fact::Fact;
use crate::facts::{ArrayFacts, BatteryFacts, ControllerFacts, DriveFacts, Facts};
use crate::judgement::{Judgement, flag, meaning};
use crate::lines::{number, plain};
use crate::report::{Health, Report};

pub(super) struct Card {
    pub(super) id: String,
    pub(super) facts: ControllerFacts,
    pub(super) judgement: Judgement,
    pub(super) battery: Option<(BatteryFacts, Judgement)>,
    pub(super) battery_absent: Option<String>,
    /// Whether the state of its cache was told.
    pub(super) cache_told: bool,
    pub(super) arrays: Vec<Array>,
    /// The array that what follows belongs to.
    pub(super) inside: Option<usize>,
    pub(super) drives: BTreeMap<String, Drive>,
}

impl Card {
    pub(super) fn of(id: String, line: &str, mode: Option<&str>) -> Self {
        let mut facts = ControllerFacts::unknown(NOT_TOLD);
        let model = line.split(" in Slot").next().unwrap_or(line).trim();
        facts
            .model
            .learn(Some(model.to_owned()).filter(|model| !model.is_empty()));
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

    pub(super) fn mode_of(text: &str) -> Option<&'static str> {
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

    pub(super) fn array(&mut self) -> Option<&mut Array> {
        self.arrays.get_mut(self.inside?)
    }

    pub(super) fn begin_array(&mut self, name: &str, brackets: &[&str]) {
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
                judge_state(&mut array.judgement, "array", said);
            }
        }
        self.arrays.push(array);
        self.inside = Some(self.arrays.len() - 1);
    }

    pub(super) fn begin_volume(&mut self, name: &str, brackets: &[&str]) {
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

    pub(super) fn begin_drive(&mut self, name: &str, brackets: &[&str]) {
        let drive = self.drives.entry(name.to_owned()).or_insert_with(|| Drive {
            told: false,
            foretold: false,
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

    pub(super) fn field(&mut self, key: &str, value: &str) {
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
                    "batteries" | "battery" => "BBU",
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
    pub(super) fn other_status(&mut self, key: &str, value: &str) {
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

    pub(super) fn battery_row(&mut self) -> &mut (BatteryFacts, Judgement) {
        self.battery
            .get_or_insert_with(|| (BatteryFacts::unknown(NOT_TOLD), Judgement::default()))
    }

    pub(super) fn battery(&mut self, value: &str) {
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
    pub(super) fn part(&mut self, part: &str, state: &str) {
        match meaning(state, STATES) {
            Some(Health::Ok) => {}
            Some(health) => self.judgement.say(
                health.min(Health::Degraded),
                format!("{part}: {}", state.trim()),
            ),
            None => self.judgement.note(format!("{part}: {}", state.trim())),
        }
    }

    pub(super) fn finish(mut self, report: &mut Report) {
        let mut items = Vec::new();
        if self.battery.is_some() {
            // Where there is a battery there is a cache.
            self.judgement
                .require(self.cache_told, "the state of its cache");
        }
        let always = self.facts.write_back_without_battery.known() == Some(&true);
        // One that was not named has nothing to be told of.
        if self.facts.model.known().is_some() || self.judgement.worst().is_some() {
            let facts = Facts::Controller(self.facts);
            items.push(self.judgement.item(self.id.clone(), facts));
        }
        match (self.battery, self.battery_absent) {
            (None, Some(why)) => items.push(absent_battery(format!("{}/battery", self.id), &why)),
            (Some((facts, judgement)), _) if judgement.worst().is_some() => {
                items.push(judgement.item(format!("{}/battery", self.id), Facts::Battery(facts)));
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
