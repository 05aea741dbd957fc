//! A controller, and what keeps its cache alive.

use super::super::absent_battery;
use super::{BATTERY_STATES, CACHE_STATES, CONTROLLER_STATES, NOT_TOLD};
use crate::facts::{BatteryFacts, ControllerFacts, Facts};
use crate::judgement::{Judgement, flag, meaning};
use crate::lines::{decimal, number, plain};
use crate::report::{Health, Item};

pub(super) struct Controller {
    pub(super) facts: ControllerFacts,
    pub(super) judgement: Judgement,
    pub(super) told: bool,
    /// Whether it counted its defunct drives, and its volumes that are not well.
    pub(super) drives_counted: bool,
    pub(super) volumes_counted: bool,
}

pub(super) struct Backup {
    pub(super) facts: BatteryFacts,
    pub(super) judgement: Judgement,
    pub(super) absent: Option<String>,
    pub(super) told: bool,
}

impl Controller {
    pub(super) fn new() -> Self {
        Self {
            facts: ControllerFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            told: false,
            drives_counted: false,
            volumes_counted: false,
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        match key {
            "controller status" => {
                self.told = true;
                self.judgement.word("controller", value, CONTROLLER_STATES);
            }
            "cache status" => self.judgement.word("cache", value, CACHE_STATES),
            "no-battery write cache" => self.facts.write_back_without_battery.learn(flag(value)),
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
            _ if key.starts_with("logical devices/") || key.starts_with("logical drives/") => {
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

    pub(super) fn item(mut self, id: String) -> Item {
        self.judgement.require(self.told, "the controller's status");
        // It says "Optimal" whatever they do.
        self.judgement
            .require(self.drives_counted, "how many drives are defunct");
        self.judgement
            .require(self.volumes_counted, "how many volumes failed");
        self.judgement.item(id, Facts::Controller(self.facts))
    }
}

impl Backup {
    pub(super) fn new() -> Self {
        Self {
            facts: BatteryFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            absent: None,
            told: false,
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
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
            "capacity remaining" | "charge level" | "relative charge" => {
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

    pub(super) fn item(mut self, id: String) -> Option<Item> {
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
        Some(self.judgement.item(id, Facts::Battery(self.facts)))
    }
}
