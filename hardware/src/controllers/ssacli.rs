//! ssacli, hpssacli and hpacucli, which are one tool under three names: `ctrl all show config`, with
//! `detail`, `show status`, and what is shown of arrays, logical drives and physical drives.
//!
//! An outline: controllers, in them arrays, in them logical and physical drives, each either on one line
//! with its facts in brackets or as a block of `key: value`. Banners may stand before it. The status of
//! an array stands beside its name, and its logical drives may all be "OK" while it has failed.

mod array;
mod card;
mod drive;

use card::Card;

use crate::judgement::{Judgement, Words, meaning};
use crate::lines::{Line, decimal, lines, number, plain};
use crate::report::{Health, Report};

const NOT_TOLD: &str = "ssacli does not tell";

const STATES: Words = &[
    ("ok", Health::Ok),
    ("optimal", Health::Ok),
    ("interim recovery mode", Health::Degraded),
    ("interim recovery", Health::Degraded),
    ("ready for rebuild", Health::Degraded),
    ("ready for recovery", Health::Degraded),
    ("erase in progress", Health::Degraded),
    ("erase queued", Health::Degraded),
    ("ejected", Health::Failed),
    ("disabled due to scsi id conflict", Health::Failed),
    (
        "rapid parity initialization in progress",
        Health::Rebuilding,
    ),
    ("degraded", Health::Degraded),
    ("parity initialization in progress", Health::Rebuilding),
    ("predictive failure", Health::Degraded),
    ("predictive spare rebuild", Health::Rebuilding),
    ("recovering", Health::Rebuilding),
    ("rebuilding", Health::Rebuilding),
    ("transforming", Health::Rebuilding),
    ("expanding", Health::Rebuilding),
    ("initializing", Health::Rebuilding),
    ("queued for expansion", Health::Degraded),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
    ("missing", Health::Failed),
    ("disabled", Health::Failed),
    ("not available", Health::Failed),
    ("wrong physical drive replaced", Health::Failed),
    ("physical drive not properly connected", Health::Failed),
    ("hardware is overheating", Health::Failed),
    ("hardware has overheated", Health::Failed),
];

const CACHE_STATES: Words = &[
    ("ok", Health::Ok),
    ("not configured", Health::Ok),
    ("temporarily disabled", Health::Degraded),
    ("permanently disabled", Health::Failed),
    ("disabled", Health::Degraded),
    ("cache disabled", Health::Degraded),
    ("failed", Health::Failed),
];

const BATTERY_STATES: Words = &[
    ("ok", Health::Ok),
    ("fully charged", Health::Ok),
    ("recharging", Health::Degraded),
    ("charging", Health::Degraded),
    ("low", Health::Degraded),
    ("degraded", Health::Degraded),
    ("failed", Health::Failed),
    ("failed (replace batteries)", Health::Failed),
    ("failed (replace battery)", Health::Failed),
    ("failed (replace capacitors)", Health::Failed),
    ("failed (replace capacitor)", Health::Failed),
    ("failed (replace batteries/capacitors)", Health::Failed),
    ("failed (replace battery/capacitor)", Health::Failed),
];

/// Reads what ssacli, hpssacli or hpacucli prints.
pub fn parse_ssacli(text: &str) -> Report {
    let mut reader = Reader::default();
    for line in lines(text) {
        reader.line(line);
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    report: Report,
    cards: Vec<Card>,
    /// Where `key: value` belongs.
    place: Place,
    none_found: bool,
}

#[derive(Clone, Default, PartialEq)]
enum Place {
    #[default]
    Nowhere,
    Card,
    Array,
    Volume,
    Drive(String),
    /// Parts of no kind of ours: cages, ports, sensors, expanders.
    Part(String),
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        // Asked for one card's drives or volumes, it does not name the card.
        if self.cards.is_empty()
            && ["array ", "logicaldrive ", "physicaldrive "]
                .iter()
                .any(|word| said.starts_with(word))
        {
            self.cards.push(Card::of("card".into(), "", None));
        }
        if self.heading(line, &said) {
            return;
        }
        if said.contains("no controllers detected") {
            self.none_found = true;
            return;
        }
        let Some((key, value)) = line.pair() else {
            if said.starts_with("error") {
                self.report.problem(line.place(), line.text.to_owned());
            }
            return;
        };
        if key == "error" {
            self.report.problem(line.place(), value.to_owned());
            return;
        }
        let Some(card) = self.cards.last_mut() else {
            if key.ends_with("status") {
                self.report.problem(
                    line.place(),
                    format!("{:?} belongs to no controller", line.text),
                );
            }
            return;
        };
        match &self.place {
            Place::Nowhere | Place::Card => card.field(&key, value),
            Place::Array => match card.array() {
                Some(array) if key == "status" => {
                    array.told = true;
                    judge_state(&mut array.judgement, "array", value);
                }
                _ => {}
            },
            Place::Volume => {
                if let Some(volume) = card.array().and_then(|array| array.volumes.last_mut()) {
                    volume.field(&key, value);
                }
            }
            Place::Drive(name) => {
                if let Some(drive) = card.drives.get_mut(name) {
                    drive.field(&key, value);
                }
            }
            Place::Part(part) => {
                if key == "status" || key.ends_with(" status") && key != "power supply status" {
                    card.part(part, value);
                }
            }
        }
    }

    /// Whether the line begins something.
    fn heading(&mut self, line: Line<'_>, said: &str) -> bool {
        let text = line.text;
        if let Some(card) = card_of(text) {
            let mode = Card::mode_of(text);
            self.cards.push(Card::of(card, text, mode));
            self.place = Place::Card;
            return true;
        }
        let Some(card) = self.cards.last_mut() else {
            return false;
        };
        if let Some(rest) = after(said, "array") {
            let (name, brackets) = name_and_brackets(rest);
            if name.is_empty() || name.len() > 3 {
                return false;
            }
            card.begin_array(&name.to_uppercase(), &brackets);
            self.place = Place::Array;
        } else if let Some(rest) =
            after(said, "logicaldrive").or_else(|| after(said, "logical drive"))
        {
            let (name, brackets) = name_and_brackets(rest);
            // `Logical Drive Label:` is a field.
            if number(name).is_none() {
                return false;
            }
            card.begin_volume(name, &brackets);
            self.place = Place::Volume;
        } else if let Some(rest) =
            after(said, "physicaldrive").or_else(|| after(said, "physical drive"))
        {
            let (name, brackets) = name_and_brackets(rest);
            if !name.contains(':') {
                return false;
            }
            let name = name.to_uppercase();
            let is_line = !brackets.is_empty();
            card.begin_drive(&name, &brackets);
            // One line is a whole drive; what follows belongs to what it stands in.
            if !is_line {
                self.place = Place::Drive(name);
            }
        } else if ["unassigned", "physical drives", "hba drives"]
            .iter()
            .any(|word| said.starts_with(word))
        {
            card.inside = card.inside.filter(|_| said.starts_with("physical drives"));
            self.place = Place::Part(text.to_owned());
        } else if let Some((part, state)) = cage(text) {
            card.part(part, state);
            self.place = Place::Part(part.to_owned());
        } else if is_part(said) {
            self.place = Place::Part(text.trim_end_matches(':').to_owned());
        } else {
            return false;
        }
        true
    }

    fn finish(self) -> Report {
        let mut report = self.report;
        if self.cards.is_empty() && !self.none_found && report.problems.is_empty() {
            report.problem("the file", "nothing in it is in the form of ssacli");
        }
        if self.none_found {
            // Its words for "this host has no such card".
            report.problems.clear();
        }
        for card in self.cards {
            card.finish(&mut report);
        }
        report
    }
}

/// `Smart Array P420i in Slot 0 (Embedded)    (sn: 0014)`, or `MSA1500 CS in BB0A6R0` for one in a box
/// of its own: the id that follows from the place.
fn card_of(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(" in ")?;
    let (in_slot, rest) = match rest
        .strip_prefix("Slot ")
        .or_else(|| rest.strip_prefix("slot "))
    {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let place: String = rest
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let is_name = !before.contains([':', ',']) && !place.is_empty();
    if !is_name {
        return None;
    }
    if in_slot {
        return Some(format!("slot{place}"));
    }
    before.starts_with("MSA").then_some(place)
}

/// What stands behind a word that begins the line, with a colon or without.
fn after<'a>(said: &'a str, word: &str) -> Option<&'a str> {
    let rest = said.strip_prefix(word)?;
    rest.starts_with([':', ' '])
        .then(|| rest.trim_start_matches([':', ' ']))
}

/// `1 (558.9 GB, RAID 1, OK)`: the name and what the brackets hold.
fn name_and_brackets(rest: &str) -> (&str, Vec<&str>) {
    match rest.split_once('(') {
        Some((name, inside)) => {
            // `(1 TB): OK` has the state behind the brackets. A line that was cut has none to close.
            let (inside, behind) = inside.rsplit_once(')').unwrap_or((inside, ""));
            let mut parts: Vec<&str> = inside.split(',').map(str::trim).collect();
            parts.extend(behind.strip_prefix(':').map(str::trim));
            (name.trim(), parts)
        }
        None => (rest.trim(), Vec::new()),
    }
}

/// `Internal Drive Cage at Port 1I, Box 1, OK`: a part and its state at the end of the line.
fn cage(text: &str) -> Option<(&str, &str)> {
    if !plain(text).contains(" at port ") {
        return None;
    }
    text.rsplit_once(',')
        .filter(|(_, state)| !plain(state).starts_with("box"))
}

fn is_part(said: &str) -> bool {
    [
        "sep ",
        "expander",
        "enclosure",
        "port name",
        "sensor id",
        "mirror group",
        "parity group",
        "disk partition information",
        "internal drive cage",
        "external drive cage",
        "drive cage",
    ]
    .iter()
    .any(|part| said.starts_with(part))
}

/// Judges a state, of which brackets may say more: `Interim Recovery Mode (Volume Queued for Rebuild)`. They
/// are left out only where what stands before them is bad already.
fn judge_state(judgement: &mut Judgement, what: &str, said: &str) {
    let bare = said.split('(').next().unwrap_or(said);
    let is_bad = meaning(bare, STATES).is_some_and(Health::is_bad);
    if meaning(said, STATES).is_none() && is_bad {
        judgement.word(what, bare, STATES);
        judgement.note(said.trim());
    } else {
        judgement.word(what, said, STATES);
    }
}

fn celsius(text: &str) -> Option<i64> {
    decimal(text).map(|degrees| degrees as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(report: &Report, id: &str) -> Health {
        let item = report.items.iter().find(|item| item.id == id);
        item.unwrap_or_else(|| panic!("no {id} in {report:?}"))
            .health
    }

    #[test]
    fn the_word_beside_an_array_outweighs_its_logical_drives() {
        let text = "Smart Array P410 in Slot 1\r\n\r\n   array A\r\n\r\n\
                    logicaldrive 1 (558.9 GB, RAID 1, OK)\r\n array B (Failed)\r\n\
                    logicaldrive 2 (2.2 TB, RAID 5, OK)\r\n";
        let report = parse_ssacli(text);
        assert_eq!(health(&report, "slot1/A"), Health::Ok);
        assert_eq!(health(&report, "slot1/B"), Health::Failed);
        assert_eq!(report.worst(), Health::Failed);
    }

    #[test]
    fn states_and_their_progress() {
        for (said, expected) in [
            ("OK", Health::Ok),
            ("Interim Recovery Mode", Health::Degraded),
            ("Recovering, 45% complete", Health::Rebuilding),
            ("Ready for Rebuild", Health::Degraded),
            ("Failed", Health::Failed),
            ("Splendid", Health::Unknown),
        ] {
            let text = format!(
                "Smart Array P410 in Slot 0b\n array A (SAS, Unused Space: 0 MB)\n \
                 logicaldrive 1 (279.4 GB, RAID 1+0, {said})\n"
            );
            assert_eq!(
                health(&parse_ssacli(&text), "slot0b/ld1"),
                expected,
                "{said}"
            );
        }
    }

    #[test]
    fn a_state_may_stand_behind_the_brackets() {
        let text = "Smart Array P420i in Slot 0 (Embedded)\n   logicaldrive 1 (279.4 GB, RAID 1): OK\n   \
                    physicaldrive 1I:1:1 (port 1I:box 1:bay 1, 300 GB): Predictive Failure\n   \
                    physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 300 GB, OK, spare)\n";
        let report = parse_ssacli(text);
        assert_eq!(health(&report, "slot0/ld1"), Health::Ok);
        assert_eq!(health(&report, "slot0/1I:1:1"), Health::Degraded);
        assert_eq!(health(&report, "slot0/1I:1:2"), Health::Ok);
    }

    #[test]
    fn no_card_is_no_fault() {
        let report = parse_ssacli("\nError: No controllers detected.\n");
        assert_eq!(report, Report::default());
    }

    #[test]
    fn one_cards_drives_and_volumes_without_the_card() {
        let text = "\n   physicaldrive 1I:1:1 (port 1I:box 1:bay 1, 300 GB): OK\n\
                    physicaldrive 1I:1:2 (port 1I:box 1:bay 2, 300 GB): Failed\n\
                    logicaldrive 1 (279.4 GB, 1+0): Interim Recovery Mode\n";
        let report = parse_ssacli(text);
        assert!(report.problems.is_empty(), "{report:?}");
        assert_eq!(health(&report, "card/1I:1:1"), Health::Ok);
        assert_eq!(health(&report, "card/1I:1:2"), Health::Failed);
        assert_eq!(health(&report, "card/ld1"), Health::Degraded);
    }

    #[test]
    fn brackets_behind_a_state_make_nothing_better() {
        for (said, expected) in [
            (
                "Interim Recovery Mode (Volume Queued for Rebuild)",
                Health::Degraded,
            ),
            ("OK (something new)", Health::Unknown),
            ("Splendid (OK)", Health::Unknown),
        ] {
            let text = format!(
                "Smart Array P410 in Slot 1\n array A\n logicaldrive 1 (1.1 TB, RAID 5, {said})\n"
            );
            assert_eq!(
                health(&parse_ssacli(&text), "slot1/ld1"),
                expected,
                "{said}"
            );
        }
    }

    #[test]
    fn a_volume_is_no_better_than_its_parity_and_a_drive_has_a_size() {
        for (parity, expected) in [
            ("Initialization Completed", Health::Ok),
            ("In Progress", Health::Rebuilding),
            ("Queued", Health::Rebuilding),
            ("Initialization Failed", Health::Degraded),
        ] {
            let text = format!(
                "HPE Smart Array P408i-a SR Gen10 in Slot 0 (Embedded)\n   Controller Status: OK\n   Array: A\n      Status: OK\n\
                 Logical Drive: 1\n   Size: 1.75 TB\n   Fault Tolerance: 6\n   Status: OK\n   MultiDomain Status: OK\n\
                 Parity Initialization Status: {parity}\n   OS Status: LOCKED\n\
                 physicaldrive 1I:1:1\n   Status: OK\n   Size: 960 GB\n   Write Cache Status: Enabled\n"
            );
            let report = parse_ssacli(&text);
            assert_eq!(
                health(&report, "slot0/ld1"),
                expected,
                "{parity}: {report:?}"
            );
            let crate::Facts::Drive(facts) = &report.items.last().unwrap().facts else {
                panic!()
            };
            assert_eq!(facts.size_bytes, 960_000_000_000_u64.into());
            assert_eq!(facts.write_cache, true.into());
        }
    }
}
