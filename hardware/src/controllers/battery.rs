//! The battery of an LSI card, which MegaCli and storcli describe by the same flags.
//!
//! Its state may be empty while a flag says "replace", and its charge may read 96 % then; a word is
//! taken for well only if it is on the list, and a flag that is set and not known here is unknown.

use std::collections::BTreeSet;

use crate::fact::Fact;
use crate::facts::{BatteryFacts, Facts};
use crate::judgement::{Judgement, Words, flag};
use crate::lines::{number, plain};
use crate::report::{Health, Item};

const STATES: Words = &[
    ("optimal", Health::Ok),
    ("opt", Health::Ok),
    ("ok", Health::Ok),
    ("operational", Health::Ok),
    ("ready", Health::Ok),
    ("fully charged", Health::Ok),
    // Its cache is write-through until it is done.
    ("learning", Health::Degraded),
    ("charging", Health::Degraded),
    ("chrg", Health::Degraded),
    ("recharging", Health::Degraded),
    ("discharging", Health::Degraded),
    ("low", Health::Degraded),
    ("low charge", Health::Degraded),
    ("degraded", Health::Degraded),
    ("dgd", Health::Degraded),
    ("degraded(need attention)", Health::Degraded),
    ("degraded(needs attention)", Health::Degraded),
    ("degraded (needs attention)", Health::Degraded),
    ("needs attention", Health::Degraded),
    ("replace", Health::Degraded),
    ("failed", Health::Failed),
    ("fail", Health::Failed),
    ("fld", Health::Failed),
    ("faulty", Health::Failed),
    ("error", Health::Failed),
    ("missing", Health::Failed),
    ("msng", Health::Failed),
    ("dead", Health::Failed),
];

const NOT_OPERATIONAL: [&str; 3] = ["not operational", "non operational", "non-operational"];
const REPLACE: [&str; 4] = [
    "battery replacement required",
    "replacement required",
    "pack is about to fail & should be replaced",
    "battery replacement",
];
const MISSING: [&str; 2] = ["battery pack missing", "pack missing"];
const LOW: [&str; 2] = ["remaining capacity low", "capacity low"];
/// Faults where they are set.
const FAULTS: [&str; 10] = [
    "i2c errors detected",
    "learn cycle timeout",
    "no space to cache offload",
    "over temperature",
    "remaining time alarm",
    "remaining capacity alarm",
    "fully discharged",
    "discharge terminated",
    "cache offload premium feature required",
    "module microcode update required",
];
/// Set or not, all is as it should be.
const NEUTRAL: [&str; 14] = [
    "learn cycle requested",
    "learn cycle active",
    "periodic learn required",
    "transparent learn",
    "fully charged",
    "discharging",
    "initialized",
    "charging terminated",
    "over charged",
    "auto learn mode",
    "auto-learn mode",
    "learn mode",
    "battery fru",
    "transparent learn cycle",
];

/// A battery as it is being told of, line by line.
#[derive(Debug)]
pub(super) struct Battery {
    id: String,
    facts: BatteryFacts,
    judgement: Judgement,
    /// Which of the things that must be told were.
    heard: BTreeSet<Heard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    State,
    /// Whether it is to be replaced.
    Replace,
    /// Whether its pack is there.
    Missing,
    /// Whether its capacity is low.
    Low,
    /// That this tool prints flags at all.
    Flags,
    /// That it is being charged.
    Charging,
    NotOperational,
}

impl Battery {
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            facts: BatteryFacts::unknown("the tool does not tell"),
            judgement: Judgement::default(),
            heard: BTreeSet::new(),
        }
    }

    pub(super) fn learn_type(&mut self, said: &str) {
        let name = plain(said);
        if name.is_empty() || name == "unknown" || name == "n/a" {
            return;
        }
        self.facts.model = said.trim().to_owned().into();
        let kind = if name.contains("bbu") || name == "battery" {
            "BBU"
        } else if name.starts_with("cv") || name.contains("cachevault") {
            "CacheVault"
        } else if name.contains("cap") || name == "tmmc" || name.contains("energy") {
            "capacitor"
        } else {
            return;
        };
        self.facts.r#type = kind.to_owned().into();
    }

    /// The kind of thing that a tool asked about, where the model did not say so.
    pub(super) fn assume_type(&mut self, kind: &str) {
        if self.facts.r#type.known().is_none() {
            self.facts.r#type = kind.to_owned().into();
        }
    }

    /// One `key : value`, the key in plain form.
    pub(super) fn field(&mut self, key: &str, value: &str) {
        let said = plain(value);
        match key {
            "batterytype" | "battery type" | "type" | "model" => self.learn_type(value),
            "battery state" | "state" | "bbu state" | "status" => {
                // Some firmware leaves it empty: then the flags tell.
                if !said.is_empty() {
                    self.heard.insert(Heard::State);
                    self.state_word(value);
                }
            }
            "issohgood" | "is soh good" => match flag(value) {
                Some(true) => {}
                Some(false) => self
                    .judgement
                    .say(Health::Degraded, "its state of health is not good"),
                None => self.judgement.word("state of health", value, &[]),
            },
            // Of a capacitor that is better than its design.
            "capacitance" => {
                let percent = number(value).filter(|percent| *percent <= 200);
                self.facts.charge_percent.learn(percent);
            }
            "absolute state of charge" => {
                if let Some(percent) = number(value) {
                    let sense = if percent > 100 { ", which is none" } else { "" };
                    self.judgement
                        .note(format!("absolute charge: {percent} %{sense}"));
                }
            }
            "nvcache state" => self
                .judgement
                .word("its cache", value, &[("ok", Health::Ok)]),
            "relative state of charge" | "charge" => {
                // A gauge that reads 5158 % knows nothing.
                let percent = number(value).filter(|percent| *percent <= 100);
                self.facts.charge_percent.learn(percent);
            }
            "temp" => self.facts.temperature_c.learn(celsius(value)),
            "voltage" | "temperature" | "learn cycle status" => {
                if number(value).is_some() {
                    if key == "temperature" {
                        self.facts.temperature_c.learn(celsius(value));
                    }
                } else if !matches!(said.as_str(), "ok" | "n/a" | "na" | "none" | "") {
                    let bad = matches!(
                        said.as_str(),
                        "low" | "high" | "bad" | "failed" | "not ok" | "error"
                    );
                    let health = if bad {
                        Health::Degraded
                    } else {
                        Health::Unknown
                    };
                    self.judgement.say(health, format!("{key}: {value}"));
                }
            }
            "charging status" if !matches!(said.as_str(), "none" | "n/a" | "") => {
                self.judgement.note(format!("{key}: {value}"));
                if said == "charging" {
                    self.heard.insert(Heard::Charging);
                }
            }
            _ => self.flag(key, value),
        }
    }

    /// One that is not operational may be so for ever, or until it is charged: see [`Battery::item`].
    fn state_word(&mut self, value: &str) {
        if NOT_OPERATIONAL.contains(&plain(value).as_str()) {
            self.heard.insert(Heard::NotOperational);
        } else {
            self.judgement.word("battery", value, STATES);
        }
    }

    fn flag(&mut self, key: &str, value: &str) {
        // A number is no answer: `Charger System State: 1` is no flag that is set.
        let set = flag(value).filter(|_| number(value).is_none());
        let is_flag = set.is_some() || {
            let all = REPLACE.iter().chain(&MISSING).chain(&LOW).chain(&FAULTS);
            all.into_iter().any(|name| *name == key)
        };
        if !is_flag || NEUTRAL.contains(&key) {
            return;
        }
        let health = if REPLACE.contains(&key) {
            self.heard.extend([Heard::Flags, Heard::Replace]);
            let replace = self.facts.replace.known().copied().unwrap_or(false);
            self.facts.replace.learn(set.map(|set| set || replace));
            Health::Degraded
        } else if MISSING.contains(&key) {
            self.heard.extend([Heard::Flags, Heard::Missing]);
            Health::Failed
        } else if LOW.contains(&key) {
            self.heard.extend([Heard::Flags, Heard::Low]);
            Health::Degraded
        } else if FAULTS.contains(&key) {
            Health::Degraded
        } else {
            // A flag of another version: set, nobody here knows whether that is good.
            Health::Unknown
        };
        match set {
            Some(false) => {}
            Some(true) => self.judgement.say(health, format!("{key}: yes")),
            None => self.judgement.say(
                Health::Unknown,
                format!("{key}: {value:?} is neither yes nor no"),
            ),
        }
    }

    /// Its controller is described, and does not tell of it.
    pub(super) fn misses_bits(&mut self) {
        self.judgement
            .require(false, "what its controller has of it");
    }

    /// The bit field that controllers report for it: as the firmware defines it, for storcli prints
    /// nothing but the number.
    pub(super) fn bits(&mut self, bits: u64) {
        const BITS: [(u64, Option<Health>, &str); 13] = [
            (1, Some(Health::Failed), "battery pack missing"),
            (1 << 1, Some(Health::Degraded), "voltage low"),
            (1 << 2, Some(Health::Degraded), "temperature high"),
            (1 << 3, None, "charging"),
            (1 << 4, None, "discharging"),
            (1 << 5, None, "learn cycle requested"),
            (1 << 6, None, "learn cycle active"),
            (1 << 7, Some(Health::Degraded), "learn cycle failed"),
            (1 << 8, Some(Health::Degraded), "learn cycle timed out"),
            (1 << 9, Some(Health::Degraded), "i2c errors"),
            (1 << 10, Some(Health::Degraded), "replacement required"),
            (1 << 11, Some(Health::Degraded), "remaining capacity low"),
            (1 << 12, None, "periodic learn required"),
        ];
        for (bit, health, meaning) in BITS {
            if bits & bit != 0 {
                match health {
                    Some(health) => self.judgement.say(health, meaning),
                    None => self.judgement.note(meaning),
                }
            }
        }
        if bits >> 13 != 0 {
            self.judgement.say(
                Health::Unknown,
                format!("its status {bits} has bits that are not known here"),
            );
        }
        let replace = bits & (1 << 10) != 0;
        if replace || self.facts.replace.known().is_none() {
            self.facts.replace = replace.into();
        }
    }

    /// Whether something was told, which must be before it can be well.
    fn require(&mut self, heard: Heard, what: &str) {
        self.judgement.require(self.heard.contains(&heard), what);
    }

    pub(super) fn item(mut self) -> Item {
        if self.heard.contains(&Heard::NotOperational) {
            let charging = self.heard.contains(&Heard::Charging);
            let health = if charging {
                Health::Degraded
            } else {
                Health::Failed
            };
            self.judgement.say(health, "battery: not operational");
        }
        if self.heard.contains(&Heard::Flags) {
            // A state of "Optimal" beside flags that were cut away or garbled proves nothing.
            self.require(Heard::Replace, "whether it is to be replaced");
            if !self.heard.contains(&Heard::State) {
                self.require(Heard::Missing, "whether its pack is there");
                self.require(Heard::Low, "whether its capacity is low");
                self.judgement
                    .say(Health::Ok, "no flag of it is set (its state is empty)");
            }
        } else if self.judgement.worst().is_some() {
            self.require(Heard::State, "its state");
        }
        if self.judgement.worst().is_some_and(Health::is_bad) {
            // What the firmware does, whatever its tool was asked.
            self.judgement.note(
                "as long as this is so, volumes write through, but for those set to write back always",
            );
        }
        let failed = self.judgement.worst() == Some(Health::Failed);
        if failed && self.facts.replace.known().is_none() {
            self.facts.replace =
                Fact::Unknown("it failed, and nothing says whether to replace it".into());
        }
        self.judgement.item(self.id, Facts::Battery(self.facts))
    }

    /// For tools that print the flags with every state: what is missing was cut away.
    pub(super) fn require_flags(&mut self) {
        self.heard.insert(Heard::Flags);
        self.require(Heard::Missing, "whether its pack is there");
        self.require(Heard::Low, "whether its capacity is low");
    }
}

fn celsius(text: &str) -> Option<i64> {
    number(text).and_then(|degrees| i64::try_from(degrees).ok())
}
