//! Physical drives.

use super::NOT_TOLD;
use crate::facts::{DriveFacts, Facts, Medium};
use crate::judgement::{Judgement, Words, flag};
use crate::lines::{decimal, number, plain, size};
use crate::report::{Health, Item};

/// Before the first comma; what stands behind it is whether the drive turns.
pub(super) const DRIVE_STATES: Words = &[
    ("online", Health::Ok),
    ("hotspare", Health::Ok),
    ("hot spare", Health::Ok),
    ("global hotspare", Health::Ok),
    ("dedicated hotspare", Health::Ok),
    ("unconfigured(good)", Health::Ok),
    ("unconfigured (good)", Health::Ok),
    ("jbod", Health::Ok),
    ("system", Health::Ok),
    ("rebuild", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("copyback", Health::Rebuilding),
    ("unconfigured(bad)", Health::Failed),
    ("unconfigured (bad)", Health::Failed),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
    ("missing", Health::Failed),
];

/// What was told of a S.M.A.R.T. alert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alert {
    NotTold,
    /// Not yet, by a version that tells of it with every drive.
    Expected,
    Told,
}

pub(super) struct Drive {
    pub(super) id: String,
    pub(super) state: bool,
    pub(super) predicted: bool,
    pub(super) alert: Alert,
    pub(super) facts: DriveFacts,
    pub(super) judgement: Judgement,
}

impl Drive {
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            state: false,
            predicted: false,
            alert: Alert::NotTold,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    pub(super) fn field(&mut self, key: &str, value: &str) {
        let facts = &mut self.facts;
        match key {
            "firmware state" => {
                self.state = true;
                let mut words = value.splitn(2, ',');
                self.judgement
                    .word("state", words.next().unwrap_or(""), DRIVE_STATES);
                if let Some(turning) = words.next().map(plain)
                    && !matches!(turning.as_str(), "spun up" | "spun down")
                {
                    self.judgement.say(
                        Health::Unknown,
                        format!("state: {turning:?} is no word known here"),
                    );
                }
            }
            "media error count" => match number(value) {
                Some(count) => {
                    facts.media_errors = count.into();
                    if count > 0 {
                        self.judgement.note(format!("media errors: {count}"));
                    }
                }
                None => self.judgement.errors(key, None, Health::Unknown),
            },
            "predictive failure count" => {
                self.predicted = true;
                let count = number(value);
                facts.predictive_failures.learn(count);
                self.judgement
                    .errors("predictive failures", count, Health::Degraded);
            }
            "drive has flagged a s.m.a.r.t alert" => {
                self.alert = Alert::Told;
                let flagged = flag(value);
                facts.passed.learn(flagged.map(|flagged| !flagged));
                self.judgement.fault("a S.M.A.R.T. alert", flagged, value);
            }
            "foreign state" if !matches!(plain(value).as_str(), "none" | "") => {
                self.judgement.note(format!("foreign state: {value}"));
            }
            "shield counter" if self.alert == Alert::NotTold => self.alert = Alert::Expected,
            "inquiry data" => facts.model.learn(model(value)),
            "raw size" => facts.size_bytes.learn(size(value)),
            "pd type" => facts
                .transport
                .learn(Some(plain(value)).filter(|kind| !kind.is_empty())),
            "media type" => {
                facts.medium.learn(match plain(value).as_str() {
                    "hard disk device" => Some(Medium::Hdd),
                    "solid state device" => Some(Medium::Ssd),
                    _ => None,
                });
            }
            "drive temperature" => {
                facts
                    .temperature_c
                    .learn(decimal(value).map(|degrees| degrees as i64));
            }
            _ => {}
        }
    }

    pub(super) fn item(mut self, tells_of_alerts: bool) -> Item {
        self.judgement.require(self.state, "its state");
        self.judgement
            .require(self.predicted, "how often it foretold its failure");
        if tells_of_alerts || self.alert != Alert::NotTold {
            self.judgement.require(
                self.alert == Alert::Told,
                "whether it raised a S.M.A.R.T. alert",
            );
        }
        self.judgement.item(self.id, Facts::Drive(self.facts))
    }
}

/// Vendor, model, serial and firmware are run together, some without a blank: all of it is the name.
pub(super) fn model(inquiry: &str) -> Option<String> {
    let words: Vec<&str> = inquiry.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}
