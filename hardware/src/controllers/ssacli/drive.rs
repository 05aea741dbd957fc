//! Physical drives.

use super::{celsius, judge_state};
use crate::facts::{DriveFacts, Facts, Medium};
use crate::judgement::{Judgement, flag};
use crate::lines::{decimal, number, plain, size};
use crate::report::{Health, Item};

pub(super) struct Drive {
    pub(super) told: bool,
    pub(super) spare: bool,
    /// It foretells its own failure.
    pub(super) foretold: bool,
    pub(super) facts: DriveFacts,
    pub(super) judgement: Judgement,
}

impl Drive {
    /// What a drive's line says in brackets: where it sits, what it is, how it fares.
    pub(super) fn bracket(&mut self, said: &str) {
        let is_place =
            said.starts_with("port") || said.starts_with("box") || said.starts_with("bay");
        if is_place {
            return;
        }
        if size(said).is_some() {
            self.facts.size_bytes.learn(as_sold(said));
            return;
        }
        if said.strip_suffix("complete").and_then(decimal).is_some() {
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
        self.status(said);
    }

    fn status(&mut self, said: &str) {
        self.told = true;
        self.foretold |= plain(said) == "predictive failure";
        // In short and in detail it is one word.
        judge_state(&mut self.judgement, "status", &said.to_uppercase());
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        let facts = &mut self.facts;
        match key {
            "status" => {
                for part in value.split(',') {
                    if part
                        .trim()
                        .strip_suffix("complete")
                        .and_then(decimal)
                        .is_none()
                    {
                        self.status(part);
                    }
                }
            }
            "size" => facts.size_bytes.learn(as_sold(value)),
            "write cache status" => facts.write_cache.learn(flag(value)),
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

    pub(super) fn item(mut self, id: String) -> Item {
        self.judgement.require(self.told, "its status");
        let well = self.judgement.worst() == Some(Health::Ok);
        let passed = (well || self.foretold).then_some(!self.foretold);
        self.facts.passed.learn(passed);
        let foretold = self.foretold.then_some(1);
        self.facts.predictive_failures.learn(foretold);
        self.judgement.item(id, Facts::Drive(self.facts))
    }
}

/// The size of a drive is written as its maker does, in powers of 1000; those of volumes are not.
fn as_sold(text: &str) -> Option<u64> {
    let unit = text.trim().rsplit(' ').next()?.to_ascii_uppercase();
    let power = ["B", "KB", "MB", "GB", "TB", "PB"]
        .iter()
        .position(|known| *known == unit)?;
    let value = decimal(text).filter(|value| *value > 0.0)?;
    Some((value * 1000_f64.powi(i32::try_from(power).ok()?)) as u64)
}

/// `SATA SSD`, `SAS HDD`, `Solid State SATA`, `Parallel SCSI`.
pub(super) fn interface(said: &str) -> Option<(&'static str, Option<Medium>)> {
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
