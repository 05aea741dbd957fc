//! Physical drives.

use super::{DRIVE_STATES, NOT_TOLD};
use crate::facts::{DriveFacts, Facts, Medium};
use crate::judgement::{Judgement, flag, meaning};
use crate::lines::{decimal, number, plain, size};
use crate::report::{Health, Item};

pub(super) struct Drive {
    pub(super) id: String,
    pub(super) facts: DriveFacts,
    pub(super) judgement: Judgement,
    pub(super) told: bool,
    /// Enclosures and the like are listed as devices too.
    pub(super) is_drive: Option<bool>,
}

impl Drive {
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
            told: false,
            is_drive: None,
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
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
            "s.m.a.r.t. warnings" | "predictive failures" => {
                let count = number(value);
                let before = facts.predictive_failures.known().copied().unwrap_or(0);
                facts
                    .predictive_failures
                    .learn(count.map(|count| count.max(before)));
                self.judgement.errors(key, count, Health::Degraded);
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

    pub(super) fn item(mut self) -> Item {
        self.judgement.require(self.told, "its state");
        self.judgement
            .require(self.is_drive.is_some(), "what kind of device it is");
        self.judgement.item(self.id, Facts::Drive(self.facts))
    }
}
