//! Virtual drives.

use super::NOT_TOLD;
use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, CachePolicy, Facts};
use crate::judgement::{Judgement, Words, flag};
use crate::lines::{decimal, level, number, plain, size};
use crate::report::{Health, Item};

pub(super) const VOLUME_STATES: Words = &[
    ("optimal", Health::Ok),
    ("partially degraded", Health::Degraded),
    ("degraded", Health::Degraded),
    ("offline", Health::Failed),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("deleted", Health::Failed),
];

const ACCESS: Words = &[
    ("read/write", Health::Ok),
    ("read only", Health::Degraded),
    ("read-only", Health::Degraded),
    ("blocked", Health::Failed),
    ("no access", Health::Failed),
];

pub(super) struct Volume {
    pub(super) id: String,
    pub(super) cachecade: bool,
    pub(super) state: bool,
    pub(super) per_span: bool,
    pub(super) drives: Option<u64>,
    pub(super) spans: Option<u64>,
    pub(super) secondary: Option<u64>,
    pub(super) default_policy: Option<CachePolicy>,
    pub(super) facts: ArrayFacts,
    pub(super) judgement: Judgement,
}

impl Volume {
    pub(super) fn of(id: String, cachecade: bool) -> Self {
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.action = Action::Idle.into();
        facts.action_percent = Fact::NotApplicable;
        Self {
            id,
            cachecade,
            state: false,
            per_span: false,
            drives: None,
            spans: None,
            secondary: None,
            default_policy: None,
            facts,
            judgement: Judgement::default(),
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        match key {
            "state" => {
                self.state = true;
                self.judgement.word("state", value, VOLUME_STATES);
            }
            "raid level" => {
                let numbers: Vec<&str> = value.split(',').map(str::trim).collect();
                let after = |name: &str| numbers.iter().find_map(|text| text.strip_prefix(name));
                self.secondary = after("Secondary-").and_then(|digits| digits.parse().ok());
                let primary = after("Primary-").unwrap_or(value);
                self.facts.level.learn(level(primary));
            }
            "size" => self.facts.size_bytes.learn(size(value)),
            "default cache policy" => self.default_policy = policy(value),
            "current cache policy" => match policy(value) {
                Some(policy) => self.facts.cache_policy = policy.into(),
                None => self
                    .judgement
                    .note(format!("its cache policy {value:?} is not known here")),
            },
            // Of "Disk's Default" nobody knows what that is.
            "disk cache policy" => self.facts.drive_write_cache.learn(flag(value)),
            "current access policy" => self.judgement.word("access", value, ACCESS),
            "number of dedicated hot spares" => self.facts.spares.learn(number(value)),
            "bad blocks exist" => self.judgement.fault(key, flag(value), value),
            "span depth" => self.spans = number(value),
            "virtual drive type" => self.cachecade |= plain(value).contains("cachecade"),
            _ if key.starts_with("number of drives") => {
                self.per_span = key.ends_with("per span");
                self.drives = number(value);
            }
            _ => self.progress(key, value),
        }
    }

    /// `Check Consistency : Completed 12%, Taken 3 min.`
    pub(super) fn progress(&mut self, key: &str, value: &str) {
        let Some(percent) = plain(value).strip_prefix("completed ").and_then(decimal) else {
            return;
        };
        self.facts.action = match key {
            "check consistency" => Action::Check,
            "background initialization" | "initialization" => Action::Resync,
            "reconstruction" => Action::Reshape,
            _ => return,
        }
        .into();
        self.facts.action_percent = percent.into();
    }

    pub(super) fn item(mut self) -> Item {
        if self.cachecade {
            self.judgement
                .note("a cache of flash, which holds no data of its own");
            self.facts.level = Fact::NotApplicable;
            if !self.state {
                self.judgement
                    .say(Health::Unknown, "MegaCli tells no state of such a drive");
            }
        } else {
            self.judgement.require(self.state, "its state");
        }
        let spans = self.spans.unwrap_or(1);
        // A level over several spans is a stripe of them.
        if let Fact::Known(level) = &mut self.facts.level
            && (spans > 1 || self.secondary == Some(3))
            && matches!(level.as_str(), "raid0" | "raid1" | "raid5" | "raid6")
        {
            level.push('0');
        }
        let per_span = if self.per_span { spans } else { 1 };
        let required = self.drives.and_then(|drives| drives.checked_mul(per_span));
        self.facts.members_required.learn(required);
        if self.judgement.worst() == Some(Health::Ok) {
            self.facts.members_active.learn(required);
            self.facts.members_failed.learn(required.map(|_| 0));
        }
        if self.default_policy != Some(CachePolicy::WriteThrough)
            && self.default_policy.is_some()
            && self.facts.cache_policy == Fact::Known(CachePolicy::WriteThrough)
        {
            self.judgement.say(
                Health::Degraded,
                "its cache fell from write-back to write-through: look at the battery",
            );
        }
        if self.facts.cache_policy == Fact::Known(CachePolicy::WriteBackAlways) {
            self.judgement
                .note("it holds writes back even without a battery in order");
        }
        self.judgement.item(self.id, Facts::Volume(self.facts))
    }
}

/// `WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU`.
pub(super) fn policy(text: &str) -> Option<CachePolicy> {
    let said = plain(text);
    let without_battery = said.contains("write cache ok if bad bbu");
    let mut words = said.split(',').map(str::trim);
    let back = words.clone().any(|word| word == "writeback");
    let through = words.any(|word| word == "writethrough");
    match (back, through, without_battery) {
        (true, false, false) => Some(CachePolicy::WriteBack),
        (true, false, true) => Some(CachePolicy::WriteBackAlways),
        (false, true, _) => Some(CachePolicy::WriteThrough),
        _ => None,
    }
}
