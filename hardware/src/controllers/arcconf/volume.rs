//! Volumes, and the tasks that run on them.

use super::{NOT_TOLD, SEGMENT_STATES, VOLUME_STATES};
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, Facts};
use crate::judgement::{Judgement, flag, meaning};
use crate::lines::{decimal, level, number, plain, size};
use crate::report::{Health, Item};

/// A logical device, or an array that logical devices are cut out of.
pub(super) struct Volume {
    pub(super) is_array: bool,
    pub(super) id: String,
    pub(super) facts: ArrayFacts,
    pub(super) judgement: Judgement,
    pub(super) told: bool,
    pub(super) segments: Vec<String>,
    pub(super) cached: bool,
}

#[derive(Default)]
pub(super) struct Task {
    pub(super) volume: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) status: Option<String>,
    pub(super) percent: Option<f64>,
}

impl Volume {
    pub(super) fn of(number: &str) -> Self {
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.action = Fact::Unknown("getstatus tells it, getconfig does not".into());
        facts.action_percent = Fact::Unknown("getstatus tells it, getconfig does not".into());
        Self {
            is_array: false,
            id: format!("ld{number}"),
            facts,
            judgement: Judgement::default(),
            told: false,
            segments: Vec::new(),
            cached: false,
        }
    }

    pub(super) fn array(number: &str) -> Self {
        let mut array = Self::of(number);
        array.is_array = true;
        array.id = format!("array{number}");
        array.facts.cache_policy = Fact::NotApplicable;
        array.facts.cache_protected = Fact::NotApplicable;
        array
    }

    /// Recent cards say of a volume whether it is cached, and of themselves what that means.
    pub(super) fn settle_policy(&mut self, always: bool) {
        if self.cached && self.facts.cache_policy.known().is_none() {
            let policy = if always {
                CachePolicy::WriteBackAlways
            } else {
                CachePolicy::WriteBack
            };
            self.facts.cache_policy = policy.into();
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        match key {
            "status" if self.is_array => {
                self.told = true;
                self.judgement.word("status", value, VOLUME_STATES);
            }
            "caching" => match flag(value) {
                Some(true) => self.cached = true,
                Some(false) => self.facts.cache_policy = CachePolicy::WriteThrough.into(),
                None => {}
            },
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
                || key
                    .strip_prefix("device ")
                    .is_some_and(|rest| number(rest).is_some())
                || key.starts_with("group ") && key.contains("segment") =>
            {
                self.segments
                    .push(value.split_whitespace().next().unwrap_or("").to_owned());
            }
            _ => {}
        }
    }

    /// What it is set to, and what it does: write-through if either says so.
    pub(super) fn policy(&mut self, value: &str) {
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

    pub(super) fn item(mut self) -> Item {
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
        let facts = if self.is_array {
            Facts::Array(self.facts)
        } else {
            Facts::Volume(self.facts)
        };
        self.judgement.item(self.id, facts)
    }
}

impl Task {
    pub(super) fn field(&mut self, key: &str, value: &str) {
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

    /// Whether nothing runs, and of no volume.
    pub(super) fn is_idle(&self) -> bool {
        let operation = self.operation.as_deref().and_then(operation_of);
        self.volume.is_none() && operation == Some(Action::Idle)
    }

    /// Adds what a task tells to its volume, or makes one of it where only the status was asked.
    pub(super) fn settle(self, card: &str, items: &mut Vec<Item>) {
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
        let action = operation_of(&operation);
        let paused = action != Some(Action::Idle) && !plain(&status).contains("in progress");
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

pub(super) fn operation_of(operation: &str) -> Option<Action> {
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
