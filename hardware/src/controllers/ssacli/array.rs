//! Arrays and the logical drives in them.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::Drive;
use super::{NOT_TOLD, judge_state};
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, Facts};
use crate::judgement::{Judgement, flag};
use crate::lines::{decimal, level, plain, size};
use crate::report::{Health, Item};

pub(super) struct Array {
    pub(super) id: String,
    pub(super) told: bool,
    pub(super) judgement: Judgement,
    pub(super) volumes: Vec<Volume>,
    pub(super) members: Vec<String>,
}

pub(super) struct Volume {
    pub(super) id: String,
    pub(super) told: bool,
    pub(super) facts: ArrayFacts,
    pub(super) judgement: Judgement,
}

impl Array {
    pub(super) fn finish(
        self,
        drives: &BTreeMap<String, Drive>,
        always: bool,
        items: &mut Vec<Item>,
    ) {
        let members = Members::count(&self.members, drives);
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        members.write(&mut facts);
        facts.cache_policy = Fact::NotApplicable;
        facts.cache_protected = Fact::NotApplicable;
        if let Some(level) = common_level(&self.volumes) {
            facts.level = level;
        }
        let mut volumes = Vec::new();
        for volume in self.volumes {
            let mut item = volume.item(always);
            if let Facts::Volume(facts) = &mut item.facts {
                members.write(facts);
            }
            volumes.push(item);
        }
        let mut judgement = self.judgement;
        // On one line, an array without a word beside its name is as well as what it holds.
        if !self.told {
            match volumes.iter().max_by_key(|volume| volume.health) {
                Some(worst) if worst.health == Health::Ok => judgement.say(
                    Health::Ok,
                    "no word against it, and its logical drives are OK",
                ),
                Some(worst) => {
                    judgement.say(worst.health, format!("its logical drive {}", worst.id));
                }
                None => judgement.require(false, "its status"),
            }
        }
        if !self.id.ends_with("/-") {
            items.push(judgement.item(self.id, Facts::Array(facts)));
        }
        items.append(&mut volumes);
    }
}

/// The level of the volumes of one array, if they have one in common; none if none is told.
fn common_level(volumes: &[Volume]) -> Option<Fact<String>> {
    let levels: BTreeSet<&String> = volumes
        .iter()
        .filter_map(|volume| volume.facts.level.known())
        .collect();
    let levels: Vec<&str> = levels.into_iter().map(String::as_str).collect();
    match levels.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned().into()),
        many => Some(Fact::Unknown(
            format!("its volumes differ: {}", many.join(", ")).into(),
        )),
    }
}

/// The drives of an array, counted.
struct Members {
    required: u64,
    active: u64,
    failed: u64,
    spares: u64,
}

impl Members {
    fn count(names: &[String], drives: &BTreeMap<String, Drive>) -> Self {
        let mut members = Self {
            required: 0,
            active: 0,
            failed: 0,
            spares: 0,
        };
        for drive in names.iter().filter_map(|name| drives.get(name)) {
            if drive.spare {
                members.spares += 1;
                continue;
            }
            members.required += 1;
            match drive.judgement.worst() {
                Some(Health::Failed) => members.failed += 1,
                Some(Health::Rebuilding) => {}
                _ => members.active += 1,
            }
        }
        members
    }

    /// Where no drive is listed, nothing is known of them.
    fn write(&self, facts: &mut ArrayFacts) {
        if self.required > 0 {
            facts.members_required = self.required.into();
            facts.members_active = self.active.into();
            facts.members_failed = self.failed.into();
            facts.spares = self.spares.into();
        }
    }
}

impl Volume {
    pub(super) fn bracket(&mut self, said: &str) {
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

    pub(super) fn state(&mut self, said: &str) {
        self.told = true;
        // `Recovering, 45% complete` as a field of its own.
        let mut parts = said.split(',').map(str::trim);
        let word = parts.next().unwrap_or("");
        judge_state(&mut self.judgement, "status", word);
        for part in parts {
            match part.strip_suffix("complete").and_then(decimal) {
                Some(percent) => self.facts.action_percent = percent.into(),
                None => judge_state(&mut self.judgement, "status", part),
            }
        }
        let word = plain(word);
        let bare = word.split(" (").next().unwrap_or("");
        self.facts.action.learn(match bare {
            "ok" | "interim recovery mode" | "interim recovery" | "failed" | "degraded" => {
                Some(Action::Idle)
            }
            "recovering" | "rebuilding" | "predictive spare rebuild" => Some(Action::Recovery),
            "transforming" | "expanding" => Some(Action::Reshape),
            "initializing"
            | "parity initialization in progress"
            | "rapid parity initialization in progress" => Some(Action::Resync),
            "ready for rebuild" | "ready for recovery" | "queued for expansion" => {
                Some(Action::Delayed)
            }
            _ => None,
        });
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        match key {
            "status" => self.state(value),
            "parity initialization status" => self.parity(value),
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

    fn parity(&mut self, value: &str) {
        let said = plain(value);
        let said = said.strip_prefix("initialization ").unwrap_or(&said);
        match said {
            "completed" => {}
            "in progress" => {
                self.facts.action = Action::Resync.into();
                self.judgement
                    .say(Health::Rebuilding, format!("parity: {value}"));
            }
            "queued" => {
                self.facts.action = Action::Delayed.into();
                self.judgement
                    .say(Health::Rebuilding, format!("parity: {value}"));
            }
            _ => {
                let is_bad = said.contains("fail");
                let health = if is_bad {
                    Health::Degraded
                } else {
                    Health::Unknown
                };
                self.judgement.say(health, format!("parity: {value}"));
            }
        }
    }

    pub(super) fn item(mut self, always: bool) -> Item {
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
        self.judgement.item(self.id, Facts::Volume(self.facts))
    }
}
