//! Drives by their own word: smartctl, nvme-cli.
//!
//! A drive's verdict on itself ("passed") is what its health rests on. Counters of errors are shown and
//! not judged: three old media errors or sectors replaced years ago are no alarm, and their change is
//! for whoever keeps two samples. What does count beside the verdict are what the drive itself calls
//! failing: an attribute below its threshold, a critical warning, spare blocks below theirs, a self-test
//! that failed. A drive that tells nothing is unknown: RAID volumes hide their disks, and a file that
//! was not to be opened has nothing in it.

mod nvme;
mod nvme_pages;
mod smartctl;
mod smartctl_text;

pub use nvme::parse_nvme;
pub use nvme_pages::{HEALTH_LOG_BYTES, IDENTIFY_BYTES, parse_nvme_pages};
pub use smartctl::parse_smartctl;

use crate::facts::{DriveFacts, Facts};
use crate::judgement::Judgement;
use crate::report::{Health, Item};

/// Attributes whose normalised value counts down from 100, by the names that models have for them.
const LIFE_LEFT: [&str; 7] = [
    "Media_Wearout_Indicator",
    "SSD_Life_Left",
    "Percent_Lifetime_Remain",
    "Remaining_Lifetime_Perc",
    "Wear_Leveling_Count",
    "Percent_Life_Remaining",
    "Drive_Life_Remaining%",
];

/// A drive as it is being told of.
struct Drive {
    id: String,
    facts: DriveFacts,
    judgement: Judgement,
    /// Whether its own verdict was told.
    judged: bool,
}

impl Drive {
    fn of(id: String, why: &'static str) -> Self {
        Self {
            id,
            facts: DriveFacts::unknown(why),
            judgement: Judgement::default(),
            judged: false,
        }
    }

    /// What it would say of itself nobody knows until it wakes.
    fn asleep(&mut self) {
        self.facts.asleep = true.into();
        self.judgement
            .say(Health::Unknown, "it sleeps, and was not woken to be asked");
    }

    fn passed(&mut self, passed: bool) {
        self.judged = true;
        let before = self.facts.passed.known().copied().unwrap_or(true);
        self.facts.passed = (before && passed).into();
        if passed {
            self.judgement.say(Health::Ok, "its own verdict: passed");
        } else {
            self.judgement
                .say(Health::Failed, "its own verdict: failing");
        }
    }

    /// The critical warnings of an NVMe drive, bit by bit as its standard has them.
    fn critical_warning(&mut self, bits: u64) {
        const BITS: [(u64, Health, &str); 6] = [
            (
                1,
                Health::Degraded,
                "its spare blocks are below their threshold",
            ),
            (
                1 << 1,
                Health::Degraded,
                "its temperature is beyond a threshold",
            ),
            (
                1 << 2,
                Health::Failed,
                "its reliability is degraded by errors of the medium",
            ),
            (1 << 3, Health::Failed, "it is read-only now"),
            (
                1 << 4,
                Health::Degraded,
                "its backup of volatile memory failed",
            ),
            (
                1 << 5,
                Health::Degraded,
                "its persistent memory region is unreliable",
            ),
        ];
        for (bit, health, meaning) in BITS {
            if bits & bit != 0 {
                self.judgement.say(health, meaning);
            }
        }
        if bits >> 6 != 0 {
            self.judgement.say(
                Health::Unknown,
                format!("its critical warning {bits:#x} has bits that are not known here"),
            );
        }
    }

    fn worn(&mut self, percent: u64) {
        self.facts.wear_percent = percent.into();
        if percent >= 100 {
            self.judgement.say(
                Health::Degraded,
                format!("{percent} % of its rated writes are used up"),
            );
        }
    }

    fn spare(&mut self, percent: Option<u64>, threshold: Option<u64>) {
        self.facts
            .spare_percent
            .learn(percent.filter(|percent| *percent <= 100));
        if let (Some(percent), Some(threshold)) = (percent, threshold)
            && percent < threshold
        {
            self.judgement.say(
                Health::Degraded,
                format!("{percent} % of its spare blocks are left, of at least {threshold}"),
            );
        }
    }

    /// Counters worth reading.
    fn note_counters(&mut self) {
        for (name, fact) in [
            ("media errors", &self.facts.media_errors),
            ("reallocated", &self.facts.reallocated),
            ("pending", &self.facts.pending),
        ] {
            if let Some(count) = fact.known().filter(|count| **count > 0) {
                self.judgement.note(format!("{name}: {count}"));
            }
        }
    }

    fn item(mut self) -> Item {
        self.judgement.require(self.judged, "its own verdict");
        self.note_counters();
        self.judgement.item(self.id, Facts::Drive(self.facts))
    }
}
