//! Volumes, and groups of drives of which no volume is told.

use super::{DRIVE_STATES, Group, NOT_TOLD};
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, Facts};
use crate::json::Json;
use crate::judgement::{Judgement, Words};
use crate::lines::{decimal, level, plain, size};
use crate::report::{Health, Item};

pub(super) const VOLUME_STATES: Words = &[
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

pub(super) struct Volume {
    pub(super) id: String,
    pub(super) group: Option<String>,
    pub(super) state: bool,
    pub(super) members: Vec<String>,
    /// What its cache was set to do at first.
    pub(super) set_to: Option<CachePolicy>,
    pub(super) facts: ArrayFacts,
    pub(super) judgement: Judgement,
}

impl Volume {
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            group: None,
            state: false,
            members: Vec::new(),
            set_to: None,
            facts: ArrayFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    pub(super) fn row(&mut self, row: &Json) {
        for state in row.all("State") {
            self.state = true;
            self.judgement.word("state", &state.said(), VOLUME_STATES);
        }
        let text = |key| row.get(key).and_then(Json::text);
        self.facts.level.learn(text("TYPE").and_then(level));
        self.facts.size_bytes.learn(text("Size").and_then(size));
        let cache = row.any(&["Cache", "CurrentCache"]).and_then(Json::text);
        self.facts.cache_policy.learn(cache.and_then(policy));
        let set_to = text("DefaultCache").and_then(policy);
        self.set_to = self.set_to.or(set_to);
        for access in row.all("Access") {
            match plain(&access.said()).as_str() {
                "rw" | "-" => {}
                "b" | "blkd" | "blocked" => self.judgement.say(Health::Failed, "access is blocked"),
                "ro" => self.judgement.say(Health::Degraded, "it is read-only"),
                "hd" | "hidden" => self.judgement.note("it is hidden"),
                _ => self.judgement.word("access", &access.said(), &[]),
            }
        }
        if text("Consist").and_then(crate::judgement::flag) == Some(false) {
            self.judgement
                .note("never initialised: its parity may not agree yet");
        }
    }

    pub(super) fn properties(&mut self, properties: &Json) {
        let text = |key| properties.get(key).and_then(Json::text);
        self.facts
            .device
            .learn(text("OS Drive Name").map(str::to_owned));
        if let Some(said) = text("Write Cache(initial setting)").map(plain) {
            self.set_to = match said.replace([' ', '-'], "").as_str() {
                "writeback" => Some(CachePolicy::WriteBack),
                "alwayswriteback" | "forcedwriteback" => Some(CachePolicy::WriteBackAlways),
                "writethrough" => Some(CachePolicy::WriteThrough),
                _ => self.set_to,
            };
        }
        // Of "Disk's Default" nobody knows what that is.
        self.facts
            .drive_write_cache
            .learn(text("Disk Cache Policy").and_then(crate::judgement::flag));
        let count = |key| properties.get(key).and_then(Json::count);
        let drives = count("Number of Drives Per Span").zip(count("Span Depth"));
        self.facts
            .members_required
            .learn(drives.and_then(|(drives, spans)| drives.checked_mul(spans)));
        if let Some(operations) = text("Active Operations").map(plain) {
            let action = action_of(&operations);
            self.facts.action.learn(action);
            let percent = operations
                .split_once('(')
                .and_then(|(_, rest)| decimal(rest));
            self.facts.action_percent.learn(percent);
        }
    }

    /// A row of what runs on it, which tells no state.
    pub(super) fn progress(&mut self, operation: &str, runs: bool, percent: Option<f64>) {
        let action = if runs {
            action_of(&plain(operation))
        } else {
            return;
        };
        self.facts.action.learn(action);
        self.facts.action_percent.learn(percent);
        if matches!(action, Some(Action::Recovery | Action::Resync)) {
            self.judgement
                .say(Health::Rebuilding, format!("{operation} is running"));
        }
    }

    pub(super) fn item(mut self, group: Option<&Group>) -> Item {
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
        if self.facts.cache_policy == Fact::Known(CachePolicy::WriteThrough)
            && self
                .set_to
                .is_some_and(|set_to| set_to != CachePolicy::WriteThrough)
        {
            self.judgement.say(
                Health::Degraded,
                "its cache fell from write-back to write-through: look at the battery",
            );
        }
        self.judgement.item(self.id, Facts::Volume(self.facts))
    }

    /// A drive group of which no volume is told.
    pub(super) fn array(mut self, group: &Group) -> Item {
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

    pub(super) fn count(&mut self, members: &[String]) {
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

/// What a volume does, in the words and letters that the tool has for it.
fn action_of(operations: &str) -> Option<Action> {
    let has = |words: &[&str]| words.iter().any(|word| operations.contains(word));
    if operations == "none" {
        Some(Action::Idle)
    } else if has(&["rebuild"]) {
        Some(Action::Recovery)
    } else if has(&["init", "bgi"]) {
        Some(Action::Resync)
    } else if has(&["cc", "consistency"]) {
        Some(Action::Check)
    } else if has(&["oce", "migrat", "recon", "rlm"]) {
        Some(Action::Reshape)
    } else {
        None
    }
}

/// `RWBD`, `NRWTD`, `RAWBD`, `NR,WB`: read-ahead, the write policy, the IO policy.
pub(super) fn policy(text: &str) -> Option<CachePolicy> {
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
