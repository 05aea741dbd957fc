//! Physical drives.

use super::{DRIVE_STATES, NOT_TOLD};
use crate::facts::{DriveFacts, Facts, Medium};
use crate::json::Json;
use crate::judgement::{Judgement, Words};
use crate::lines::{plain, size};
use crate::report::{Health, Item};

pub(super) struct Drive {
    pub(super) id: String,
    pub(super) state: bool,
    pub(super) detailed: bool,
    pub(super) facts: DriveFacts,
    pub(super) judgement: Judgement,
}

impl Drive {
    pub(super) fn of(id: String) -> Self {
        Self {
            id,
            state: false,
            detailed: false,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    pub(super) fn row(&mut self, row: &Json) {
        for state in row.all("State") {
            self.state = true;
            self.judgement.word("state", &state.said(), DRIVE_STATES);
        }
        // storcli2 has another word beside it.
        for status in row.all("Status") {
            self.judgement.word("status", &status.said(), DRIVE_STATUS);
        }
        let text = |key| row.get(key).and_then(Json::text);
        let facts = &mut self.facts;
        facts.model.learn(text("Model").map(str::to_owned));
        facts.transport.learn(text("Intf").map(plain));
        facts.size_bytes.learn(text("Size").and_then(size));
        facts.medium.learn(match text("Med").map(plain).as_deref() {
            Some("hdd") => Some(Medium::Hdd),
            Some("ssd") => Some(Medium::Ssd),
            _ => None,
        });
    }

    pub(super) fn progress(&mut self, runs: bool, percent: Option<f64>, status: &str) {
        let done = percent.map_or_else(String::new, |percent| format!(", {percent} %"));
        if runs {
            self.judgement.say(
                Health::Rebuilding,
                format!("it is being filled: {status}{done}"),
            );
        } else {
            self.judgement.note(format!("filling: {status}"));
        }
    }

    pub(super) fn state_details(&mut self, state: &Json) {
        self.detailed = true;
        let count = |key| state.get(key).and_then(Json::count);
        self.facts.media_errors.learn(count("Media Error Count"));
        if let Some(errors) = count("Media Error Count").filter(|errors| *errors > 0) {
            self.judgement.note(format!("media errors: {errors}"));
        }
        self.facts
            .predictive_failures
            .learn(count("Predictive Failure Count"));
        self.judgement.errors(
            "predictive failures",
            count("Predictive Failure Count"),
            Health::Degraded,
        );
        let mut alert = false;
        for said in state.all("S.M.A.R.T alert flagged by drive") {
            alert = true;
            self.judgement
                .fault("a S.M.A.R.T. alert", said.flag(), &said.said());
            self.facts.passed.learn(said.flag().map(|flagged| !flagged));
        }
        self.judgement
            .require(alert, "whether it raised a S.M.A.R.T. alert");
        let temperature = state.get("Drive Temperature").and_then(Json::decimal);
        self.facts
            .temperature_c
            .learn(temperature.map(|degrees| degrees as i64));
    }

    pub(super) fn attributes(&mut self, attributes: &Json) {
        let text = |key| attributes.get(key).and_then(Json::text);
        self.facts.serial.learn(text("SN").map(str::to_owned));
        self.facts
            .model
            .learn(text("Model Number").map(str::to_owned));
        self.facts
            .write_cache
            .learn(text("Write Cache").and_then(crate::judgement::flag));
    }

    pub(super) fn item(mut self) -> Item {
        self.judgement.require(self.state, "its state");
        if !self.detailed {
            self.judgement.note("only its state is told");
        }
        self.judgement.item(self.id, Facts::Drive(self.facts))
    }
}

pub(super) const DRIVE_STATUS: Words = &[
    ("online", Health::Ok),
    ("good", Health::Ok),
    ("ok", Health::Ok),
    ("degraded", Health::Degraded),
    ("rebuild", Health::Rebuilding),
    ("rbld", Health::Rebuilding),
    ("offline", Health::Failed),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("bad", Health::Failed),
];
