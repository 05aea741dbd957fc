//! sas2ircu and sas3ircu: `display` and `status`.

use crate::fact::Fact;
use crate::facts::{Action, ArrayFacts, ControllerFacts, DriveFacts, Facts, Medium};
use crate::judgement::{Judgement, Words};
use crate::lines::{Line, decimal, level, lines, number, plain};
use crate::report::{Health, Item, Report};

const NOT_TOLD: &str = "sas2ircu does not tell";

const VOLUME_STATES: Words = &[
    ("okay", Health::Ok),
    ("optimal", Health::Ok),
    ("online", Health::Ok),
    ("enabled", Health::Ok),
    ("initializing", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("degraded", Health::Degraded),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("inactive", Health::Failed),
    ("disabled", Health::Failed),
];

const DRIVE_STATES: Words = &[
    ("online", Health::Ok),
    ("optimal", Health::Ok),
    ("okay", Health::Ok),
    ("hot spare", Health::Ok),
    ("ready", Health::Ok),
    ("standby", Health::Ok),
    ("rebuilding", Health::Rebuilding),
    ("out of sync", Health::Degraded),
    ("degraded", Health::Degraded),
    ("failed", Health::Failed),
    ("missing", Health::Failed),
    ("offline", Health::Failed),
];

/// Reads what sas2ircu or sas3ircu prints.
pub fn parse_sas2ircu(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    report: Report,
    card: Option<u64>,
    block: Block,
    known: bool,
}

#[derive(Default)]
enum Block {
    #[default]
    None,
    Controller(Box<ControllerFacts>),
    Volume(Box<Volume>),
    Drive(Box<Drive>),
    Aside,
}

struct Volume {
    number: String,
    told: bool,
    members: u64,
    facts: ArrayFacts,
    judgement: Judgement,
}

struct Drive {
    enclosure: Option<String>,
    slot: Option<String>,
    told: bool,
    facts: DriveFacts,
    judgement: Judgement,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        if let Some((_, rest)) = said.split_once("has been initiated for controller ") {
            self.end_block();
            self.card = number(rest);
            self.known = true;
            return;
        }
        if said.starts_with("sas2ircu:") || said.starts_with("sas3ircu:") {
            self.end_block();
            self.known = true;
            // Its words for "this host has no such card", and for one that only passes disks through.
            let nothing = ["completed successfully", "mptlib2 error 1", "no ir volumes"];
            if !nothing.iter().any(|words| said.contains(words)) {
                self.report.problem(line.place(), line.text.to_owned());
            }
            return;
        }
        if self.heading(&said) {
            self.known = true;
            return;
        }
        let Some((key, value)) = line.pair() else {
            return;
        };
        match &mut self.block {
            Block::Volume(volume) => volume.field(&key, value),
            Block::Drive(drive) => drive.field(&key, value),
            Block::Controller(facts) => match key.as_str() {
                "controller type" => facts
                    .model
                    .learn(Some(value.to_owned()).filter(|name| !name.is_empty())),
                "raid support" => {
                    let mode = if plain(value) == "yes" { "raid" } else { "hba" };
                    facts.mode = mode.to_owned().into();
                }
                _ => {}
            },
            Block::None
                if matches!(key.as_str(), "state" | "status of volume" | "volume state") =>
            {
                self.report
                    .problem(line.place(), format!("{:?} belongs to nothing", line.text));
            }
            Block::None | Block::Aside => {}
        }
    }

    fn heading(&mut self, said: &str) -> bool {
        let next = if said == "controller information" {
            Block::Controller(Box::new(ControllerFacts::unknown(NOT_TOLD)))
        } else if let Some(number) = said
            .strip_prefix("ir volume ")
            .filter(|rest| number(rest).is_some())
        {
            Block::Volume(Box::new(Volume::of(number)))
        } else if said.starts_with("device is a hard disk")
            || said.starts_with("device is a solid state")
        {
            Block::Drive(Box::new(Drive::new()))
        } else if said.starts_with("device is ")
            || said.starts_with("initiator at")
            || said.ends_with(" information")
        {
            Block::Aside
        } else {
            return false;
        };
        self.end_block();
        self.block = next;
        true
    }

    fn end_block(&mut self) {
        let card = format!("c{}", self.card.unwrap_or(0));
        match std::mem::take(&mut self.block) {
            Block::None | Block::Aside => {}
            Block::Controller(facts) => self.report.items.push(Item {
                id: card,
                health: Health::Unknown,
                reason: "sas2ircu tells no health of the controller itself".into(),
                facts: Facts::Controller(*facts),
            }),
            Block::Volume(volume) => self.report.items.push(volume.item(&card)),
            Block::Drive(drive) => self.report.items.push(drive.item(&card)),
        }
    }

    fn finish(mut self) -> Report {
        self.end_block();
        self.count_members();
        if !self.known && self.report.problems.is_empty() {
            self.report
                .problem("the file", "nothing in it is in the form of sas2ircu");
        }
        self.report
    }

    /// A mirror that is short of a disk lists the one that failed in other places: states of drives
    /// are for the drives.
    fn count_members(&mut self) {
        for item in &mut self.report.items {
            if let Facts::Volume(facts) = &mut item.facts
                && item.health == Health::Ok
            {
                let required = facts.members_required.known().copied();
                facts.members_active.learn(required);
                facts.members_failed.learn(required.map(|_| 0));
            }
        }
    }
}

/// `Okay (OKY)`: the word, without the letters that repeat it.
fn word(value: &str) -> &str {
    value.split('(').next().unwrap_or("").trim()
}

impl Volume {
    fn of(number: &str) -> Self {
        let mut facts = ArrayFacts::unknown(NOT_TOLD);
        facts.cache_policy = Fact::NotApplicable;
        facts.cache_protected = Fact::NotApplicable;
        Self {
            number: number.to_owned(),
            told: false,
            members: 0,
            facts,
            judgement: Judgement::default(),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        match key {
            "status of volume" | "volume state" | "volume status" => {
                self.told |= key != "volume status";
                self.judgement.word(key, word(value), VOLUME_STATES);
            }
            "raid level" => self.facts.level.learn(level(value)),
            "size (in mb)" => self
                .facts
                .size_bytes
                .learn(number(value).and_then(|size| size.checked_mul(1 << 20))),
            "current operation" => self.facts.action.learn(match plain(value).as_str() {
                "none" => Some(Action::Idle),
                said if said.contains("synchroni") || said.contains("rebuild") => {
                    Some(Action::Recovery)
                }
                said if said.contains("init") => Some(Action::Resync),
                said if said.contains("consistency") || said.contains("verify") => {
                    Some(Action::Check)
                }
                said if said.contains("expan") => Some(Action::Reshape),
                _ => None,
            }),
            "percentage complete" => {
                let percent = decimal(value).filter(|percent| (0.0..=100.0).contains(percent));
                self.facts.action_percent.learn(percent);
            }
            _ if key.starts_with("phy[") => self.members += 1,
            _ => {}
        }
    }

    fn item(mut self, card: &str) -> Item {
        self.judgement.require(self.told, "its state");
        if self.members > 0 {
            self.facts.members_required = self.members.into();
        }
        if self.facts.action == Fact::Known(Action::Recovery) {
            self.judgement.rebuilds();
        }
        self.judgement.item(
            format!("{card}/v{}", self.number),
            Facts::Volume(self.facts),
        )
    }
}

impl Drive {
    fn new() -> Self {
        Self {
            enclosure: None,
            slot: None,
            told: false,
            facts: DriveFacts::unknown(NOT_TOLD),
            judgement: Judgement::default(),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "enclosure #" => self.enclosure = text(),
            "slot #" => self.slot = text(),
            "state" => {
                self.told = true;
                self.judgement.word("state", word(value), DRIVE_STATES);
            }
            "model number" => self.facts.model.learn(text()),
            "serial no" => self.facts.serial.learn(text()),
            "protocol" => self
                .facts
                .transport
                .learn(text().map(|protocol| plain(&protocol))),
            "drive type" => {
                let said = plain(value);
                self.facts.medium.learn(if said.ends_with("ssd") {
                    Some(Medium::Ssd)
                } else if said.ends_with("hdd") {
                    Some(Medium::Hdd)
                } else {
                    None
                });
            }
            _ if key.starts_with("size (in mb)") => {
                let megabytes = value.split('/').next().and_then(number);
                let bytes = megabytes.and_then(|size| size.checked_mul(1 << 20));
                self.facts
                    .size_bytes
                    .learn(bytes.filter(|bytes| *bytes > 0));
            }
            _ => {}
        }
    }

    fn item(mut self, card: &str) -> Item {
        self.judgement.require(self.told, "its state");
        let enclosure = self.enclosure.unwrap_or_else(|| "?".into());
        let slot = self.slot.unwrap_or_else(|| "?".into());
        self.judgement.item(
            format!("{card}/e{enclosure}/s{slot}"),
            Facts::Drive(self.facts),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(volume: &str, drive: &str) -> Report {
        parse_sas2ircu(&format!(
            "Read configuration has been initiated for controller 0\n----\nController information\n----\n\
             Controller type : SAS2008\n----\nIR Volume information\n----\nIR volume 1\n\
             Status of volume : {volume}\nRAID level : RAID1\nPHY[0] Enclosure#/Slot# : 1:0\n\
             PHY[1] Enclosure#/Slot# : 1:1\n----\nPhysical device information\n----\n\
             Device is a Hard disk\nEnclosure # : 1\nSlot # : 0\nState : {drive}\n\
             Drive Type : SAS_HDD\nSAS2IRCU: Command DISPLAY Completed Successfully.\n"
        ))
    }

    #[test]
    fn volumes_and_drives_by_their_words() {
        for (volume, drive, expected) in [
            ("Okay (OKY)", "Optimal (OPT)", (Health::Ok, Health::Ok)),
            (
                "Degraded (DGD)",
                "Failed (FLD)",
                (Health::Degraded, Health::Failed),
            ),
            (
                "Okay (OKY)",
                "Out of Sync (OSY)",
                (Health::Ok, Health::Degraded),
            ),
            (
                "Splendid (SPL)",
                "Ready (RDY)",
                (Health::Unknown, Health::Ok),
            ),
        ] {
            let report = display(volume, drive);
            let health = (report.items[1].health, report.items[2].health);
            assert_eq!(health, expected, "{volume} {drive}: {report:?}");
            assert!(report.problems.is_empty());
        }
    }
}
