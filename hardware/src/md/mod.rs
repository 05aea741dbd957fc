//! Arrays of the kernel's own (md): from `/sys`, which is to be preferred, from `/proc/mdstat` and
//! from `mdadm --detail`.
//!
//! All three tell the same few things, and [`Told`] judges them in one place. The traps are the same
//! too: the word "active" survives the death of a disk, so that only the count of members and the map
//! of them tell; a container of firmware RAID is "inactive" for ever and well; an array may be whole
//! and have a failed disk that wants pulling; a stripe has nothing to count.

mod mdadm;
mod mdstat;
mod sysfs;

pub use mdadm::parse_mdadm;
pub use mdstat::parse_mdstat;
pub use sysfs::read_md_arrays;

use crate::fact::{Fact, Why};
use crate::facts::{Action, ArrayFacts, Facts};
use crate::judgement::Judgement;
use crate::lines::is_redundant;
use crate::report::{Health, Item};

/// What was told of one array.
#[derive(Debug, Default)]
struct Told {
    level: Option<String>,
    /// Whether its data can be used, where that is told.
    runs: Option<bool>,
    /// Metadata that firmware keeps: what is inactive then is a container of volumes.
    container: bool,
    required: Option<u64>,
    active: Option<u64>,
    failed: Vec<String>,
    spares: Vec<String>,
    /// Members that are in use as far as their flags tell.
    in_use: u64,
    /// Counts where members are not named.
    failed_count: Option<u64>,
    spare_count: Option<u64>,
    action: Option<Action>,
    percent: Option<f64>,
    /// Of what can be used, in units of 1 KiB, as both `/proc/mdstat` and `mdadm` count.
    size_kib: Option<u64>,
    /// What else was said of it, words that are not known among it.
    judgement: Judgement,
}

impl Told {
    /// A member that failed. The journal of an array is counted by nobody.
    fn fail(&mut self, name: &str, is_journal: bool) {
        self.failed.push(name.to_owned());
        if is_journal {
            self.judgement
                .say(Health::Degraded, format!("its journal {name} failed"));
        }
    }

    fn item(mut self, id: String, why: &'static str) -> Item {
        self.judge();
        let redundant = self.level.as_deref().map(is_redundant);
        let or_unknown =
            |fact: Option<u64>| fact.map_or(Fact::Unknown(Why::Borrowed(why)), Fact::Known);
        let facts = ArrayFacts {
            members_required: or_unknown(self.required),
            // What is told of one that is not active is of the past.
            members_active: or_unknown(
                self.active
                    .filter(|_| self.runs != Some(false))
                    .or(
                        (self.required.is_none() && redundant == Some(false) && !self.container)
                            .then_some(self.in_use),
                    ),
            ),
            members_failed: Fact::Known(self.failures()),
            spares: if redundant == Some(false) && !self.container {
                Fact::NotApplicable
            } else {
                Fact::Known(self.spare_count.unwrap_or(self.spares.len() as u64))
            },
            action: self.action.map_or(Fact::Unknown(why.into()), Fact::Known),
            action_percent: match (self.percent, self.action) {
                (Some(percent), _) => Fact::Known(percent),
                (None, Some(Action::Idle | Action::Delayed)) => Fact::NotApplicable,
                (None, _) => Fact::Unknown(why.into()),
            },
            level: match self.level {
                Some(level) => Fact::Known(level),
                None => Fact::Unknown(why.into()),
            },
            cache_policy: Fact::NotApplicable,
            cache_protected: Fact::NotApplicable,
            drive_write_cache: Fact::NotApplicable,
            size_bytes: or_unknown(self.size_kib.filter(|_| !self.container).and_then(|size| {
                let bytes = size.checked_mul(1024);
                bytes.filter(|bytes| *bytes > 0)
            })),
            device: Fact::Known(format!("/dev/{}", id.trim_start_matches("/dev/"))),
            // It hands flushes down: its disks are what is to be believed or not.
            write_honesty: Fact::NotApplicable,
            write_evidence: Fact::NotApplicable,
        };
        self.judgement.item(id, Facts::Array(facts))
    }

    fn failures(&self) -> u64 {
        self.failed_count.unwrap_or(0).max(self.failed.len() as u64)
    }

    fn judge(&mut self) {
        if self.container {
            self.level.get_or_insert_with(|| "container".to_owned());
            if self.failed.is_empty() {
                self.judgement.say(
                    Health::Ok,
                    "a container of the firmware's RAID, which is never active itself",
                );
            } else {
                self.judgement.say(
                    Health::Degraded,
                    format!("failed: {}", self.failed.join(", ")),
                );
            }
            return;
        }
        match self.runs {
            Some(true) => {}
            Some(false) => {
                self.judgement
                    .say(Health::Failed, "inactive: its data cannot be used");
                if !self.failed.is_empty() {
                    self.judgement
                        .note(format!("failed: {}", self.failed.join(", ")));
                }
                return;
            }
            None => self.judgement.require(false, "whether it is active"),
        }
        match self.level.as_deref().map(is_redundant) {
            None => self.judgement.require(false, "its level"),
            Some(true) => self.judge_redundant(),
            Some(false) => self.judge_striped(),
        }
        match self.action {
            Some(Action::Recovery) => self.judgement.rebuilds(),
            Some(Action::Resync) => self.judgement.say(
                Health::Rebuilding,
                "resync: its copies are being made to agree",
            ),
            Some(Action::Check) => self.judgement.note("a check is running, which is no fault"),
            Some(Action::Reshape) => self.judgement.note("a reshape is running"),
            Some(Action::Delayed) => self.judgement.note("an action waits for its turn"),
            Some(Action::Idle) | None => {}
        }
    }

    fn judge_redundant(&mut self) {
        match (self.required, self.active) {
            (Some(0), _) => self
                .judgement
                .say(Health::Unknown, "it says that it needs no member"),
            (Some(required), Some(active)) if active >= required => {
                self.judgement
                    .say(Health::Ok, format!("{active} of {required} members"));
                if self.failures() > 0 {
                    let named = match self.failed.len() {
                        0 => self.failures().to_string(),
                        _ => self.failed.join(", "),
                    };
                    self.judgement
                        .note(format!("whole, and to be pulled since it failed: {named}"));
                }
            }
            (Some(required), Some(active)) => {
                let mut reason = format!("{active} of {required} members");
                if !self.failed.is_empty() {
                    reason.push_str(", failed: ");
                    reason.push_str(&self.failed.join(", "));
                }
                // What mirrors can lose depends on which of them it is: only all of them are too many.
                let spare = match self.level.as_deref() {
                    Some("raid4" | "raid5") => 1,
                    Some("raid6") => 2,
                    _ => required.saturating_sub(1),
                };
                let health = if required - active > spare {
                    Health::Failed
                } else {
                    Health::Degraded
                };
                self.judgement.say(health, reason);
            }
            _ if self.failures() > 0 => self.judgement.say(
                Health::Degraded,
                format!(
                    "failed members: {}; how many it needs is not told",
                    self.failures()
                ),
            ),
            _ => self
                .judgement
                .require(false, "how many members it has and needs"),
        }
    }

    fn judge_striped(&mut self) {
        let short = matches!((self.required, self.active), (Some(required), Some(active)) if active < required);
        if self.failures() > 0 || short {
            // Paths to one disk stand in for each other; parts of a stripe do not.
            let health = match (self.level.as_deref(), self.active) {
                (Some("multipath"), Some(1..)) => Health::Degraded,
                _ => Health::Failed,
            };
            self.judgement.say(health, "a member is gone");
        } else if self.runs == Some(true) {
            self.judgement.say(Health::Ok, "active, without redundancy");
        }
    }
}
