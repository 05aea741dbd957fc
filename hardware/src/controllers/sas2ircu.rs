//! sas2ircu and sas3ircu: `display` and `status`.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Its words for "this host has no such card", or no volume on it.
    none: bool,
    /// Places of the disks of each volume, by its place among the items.
    members: BTreeMap<usize, Vec<String>>,
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
    /// `1:0` of each disk: enclosure and slot.
    members: Vec<String>,
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
        let begins = [
            "has been initiated for controller ",
            "progress status for controller ",
        ];
        if let Some((_, rest)) = begins.iter().find_map(|words| said.split_once(words)) {
            self.end_block();
            self.card = number(rest.trim_end_matches('.'));
            self.known = true;
            return;
        }
        if said.starts_with("sas2ircu:") || said.starts_with("sas3ircu:") {
            self.end_block();
            self.known = true;
            let nothing = ["mptlib2 error 1", "no ir volumes", "no controllers"];
            self.none |= nothing.iter().any(|words| said.contains(words));
            if !self.none && !said.contains("completed successfully") {
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
            Block::Volume(volume) => {
                self.members
                    .insert(self.report.items.len(), volume.members.clone());
                self.report.items.push(volume.item(&card));
            }
            Block::Drive(drive) => self.report.items.push(drive.item(&card)),
        }
    }

    fn finish(mut self) -> Report {
        self.end_block();
        self.count_members();
        if self.report.items.is_empty() && self.report.problems.is_empty() && !self.none {
            let what = if self.known {
                "it tells of no volume and no drive"
            } else {
                "nothing in it is in the form of sas2ircu"
            };
            self.report.problem("the file", what);
        }
        self.report
    }

    /// A volume that is well has all its disks. Another has those that are listed where it says they are, and
    /// are well; one that is gone has no place, or no drive is listed there.
    fn count_members(&mut self) {
        let well: BTreeSet<String> = self
            .report
            .items
            .iter()
            .filter(|item| matches!(item.facts, Facts::Drive(_)) && item.health == Health::Ok)
            .map(|item| item.id.clone())
            .collect();
        for (at, places) in &self.members {
            let Some(item) = self.report.items.get_mut(*at) else {
                continue;
            };
            let card = item.id.split('/').next().unwrap_or("").to_owned();
            let Facts::Volume(facts) = &mut item.facts else {
                continue;
            };
            let required = places.len() as u64;
            let is_there = |place: &&String| {
                let id = place.split_once(':');
                id.is_some_and(|(enclosure, slot)| {
                    well.contains(&format!("{card}/e{enclosure}/s{slot}"))
                })
            };
            let active = match item.health {
                Health::Ok => Some(required),
                _ if well.is_empty() => None,
                _ => Some(places.iter().filter(is_there).count() as u64),
            };
            let active = active.filter(|_| required > 0);
            facts.members_active.learn(active);
            // One that is being filled has not failed.
            if item.health != Health::Rebuilding {
                facts
                    .members_failed
                    .learn(active.map(|active| required - active));
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
            members: Vec::new(),
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
            _ if key.starts_with("phy[") => self.members.push(plain(value)),
            _ => {}
        }
    }

    fn item(mut self, card: &str) -> Item {
        self.judgement.require(self.told, "its state");
        if !self.members.is_empty() {
            self.facts.members_required = (self.members.len() as u64).into();
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

    #[test]
    fn members_are_where_the_volume_says() {
        let report = display("Degraded (DGD)", "Optimal (OPT)");
        let Facts::Volume(facts) = &report.items[1].facts else {
            panic!()
        };
        let counts = (
            &facts.members_required,
            &facts.members_active,
            &facts.members_failed,
        );
        assert_eq!(counts, (&2.into(), &1.into(), &1.into()));
    }

    #[test]
    fn progress_of_any_card_and_what_tells_of_nothing() {
        let text = "Background command progress status for controller 1...\nIR Volume 1\n\
                    Volume ID : 286\nCurrent operation : Synchronize\nVolume status : Enabled\n\
                    Volume state : Degraded\nPercentage complete : 12.50\n\
                    SAS2IRCU: Command STATUS Completed Successfully.\n";
        let report = parse_sas2ircu(text);
        assert_eq!(report.items[0].id, "c1/v1");
        assert_eq!(report.items[0].health, Health::Rebuilding);
        for (text, problems) in [
            ("SAS2IRCU: MPTLib2 Error 1\n", 0),
            ("SAS3IRCU: there are no IR volumes on the controller!\n", 0),
            ("SAS2IRCU: Utility Completed Successfully.\n", 1),
            ("SAS2IRCU: Command failed.\n", 1),
        ] {
            assert_eq!(parse_sas2ircu(text).problems.len(), problems, "{text}");
        }
    }
}
