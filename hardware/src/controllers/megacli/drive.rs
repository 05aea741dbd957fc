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

    /// What stands behind `Inquiry Data:`, with the blanks before it.
    pub(super) fn inquiry(&mut self, text: &str) {
        let transport = self.facts.transport.known().map(String::as_str);
        let inquiry = Inquiry::of(text.strip_prefix(' ').unwrap_or(text), transport);
        self.facts.model.learn(inquiry.model);
        self.facts.serial.learn(inquiry.serial);
    }

    /// All that its progress tells of it.
    pub(super) fn rebuilds(&mut self, line: &str) {
        self.state = true;
        self.predicted = true;
        self.judgement.say(Health::Rebuilding, line);
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

/// Serial, model and firmware of a drive are run together in columns of a fixed width: those of ATA for SATA
/// (20, 40, 8), those of SCSI's INQUIRY otherwise (vendor 8, product 16, revision 4, then the serial). What
/// does not fill them was printed by another version, and all of it is the model then.
struct Inquiry {
    model: Option<String>,
    serial: Option<String>,
}

impl Inquiry {
    fn of(text: &str, transport: Option<&str>) -> Self {
        let columns = |from: usize, to: usize| {
            let cell: String = text.chars().take(to).skip(from).collect();
            let words: Vec<&str> = cell.split_whitespace().collect();
            Some(words.join(" ")).filter(|cell| !cell.is_empty())
        };
        let width = text.chars().count();
        match transport {
            Some("sata") if width > 60 => Self {
                model: columns(20, 60),
                serial: columns(0, 20),
            },
            Some("sas") if width > 28 && width <= 64 => Self {
                model: columns(0, 24),
                serial: columns(28, width),
            },
            _ => Self {
                model: columns(0, width),
                serial: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_together_is_cut_by_its_columns() {
        for (transport, text, model, serial) in [
            (
                "sata",
                format!("{:>20}{:<40}{:<4}", "9XG0", "ST9500620NS", "AA09"),
                "ST9500620NS",
                Some("9XG0"),
            ),
            (
                "sata",
                format!("{:<20}{:<40}{:<8}", "S1YH", "SAMSUNG MZ7LM960", "GXT3003Q"),
                "SAMSUNG MZ7LM960",
                Some("S1YH"),
            ),
            (
                "sas",
                format!(
                    "{:<8}{:<16}{:<4}{}",
                    "SEAGATE", "ST3300657SS", "000B", "6SJ1ABCD"
                ),
                "SEAGATE ST3300657SS",
                Some("6SJ1ABCD"),
            ),
            ("sas", "IBM-ESXSM".to_owned(), "IBM-ESXSM", None),
        ] {
            let inquiry = Inquiry::of(&text, Some(transport));
            assert_eq!(inquiry.model.as_deref(), Some(model), "{text:?}");
            assert_eq!(inquiry.serial.as_deref(), serial, "{text:?}");
        }
    }
}
