//! tw_cli of 3ware: `info`, `info c0`, `info c0 bbustatus`, `/c0 show`.
//!
//! Tables, known by the names in their heads: controllers, units, ports, the battery.

use std::collections::BTreeMap;

use super::settle_caches;
use crate::fact::Fact;
use crate::facts::{
    Action, ArrayFacts, BatteryFacts, CachePolicy, ControllerFacts, DriveFacts, Facts,
};
use crate::judgement::{Judgement, Words};
use crate::lines::{Line, decimal, level, lines, number, plain, size};
use crate::report::{Health, Item, Report};
use crate::tables::{Head, Row, is_rule};

const NOT_TOLD: &str = "tw_cli does not tell";

const UNIT_STATES: Words = &[
    ("ok", Health::Ok),
    ("verifying", Health::Ok),
    ("verify-paused", Health::Ok),
    ("initializing", Health::Rebuilding),
    ("init-paused", Health::Rebuilding),
    ("migrating", Health::Rebuilding),
    ("migrate-paused", Health::Degraded),
    ("rebuilding", Health::Rebuilding),
    ("recovery", Health::Rebuilding),
    ("rebuild-paused", Health::Degraded),
    ("rebuild-init", Health::Rebuilding),
    ("rebuild-verify", Health::Rebuilding),
    ("degraded", Health::Degraded),
    ("incomplete", Health::Failed),
    ("inoperable", Health::Failed),
    ("inoperable-unit", Health::Failed),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
];

const PORT_STATES: Words = &[
    ("ok", Health::Ok),
    ("verifying", Health::Ok),
    ("rebuilding", Health::Rebuilding),
    ("degraded", Health::Degraded),
    ("smart-failure", Health::Degraded),
    ("ecc-error", Health::Degraded),
    ("spare-error", Health::Degraded),
    ("device-error", Health::Failed),
    ("drive-removed", Health::Failed),
    ("not-supported", Health::Failed),
    ("failed", Health::Failed),
    ("offline", Health::Failed),
];

const BATTERY_STATES: Words = &[
    ("ok", Health::Ok),
    ("testing", Health::Degraded),
    ("charging", Health::Degraded),
    ("weakbat", Health::Degraded),
    ("low", Health::Degraded),
    ("high", Health::Degraded),
    ("too-low", Health::Degraded),
    ("too-high", Health::Degraded),
    ("error", Health::Failed),
    ("fault", Health::Failed),
    ("failed", Health::Failed),
];

/// Reads what tw_cli prints.
pub fn parse_tw_cli(text: &str) -> Report {
    let mut report = Report::default();
    let mut table: Option<(Table, Head)> = None;
    let mut known = false;
    let mut cards = Cards::default();
    for line in lines(text) {
        if is_rule(line) {
            continue;
        }
        if let Some(head) = Table::find(line) {
            table = Some(head);
            known = true;
            continue;
        }
        let said = plain(line.text);
        if said.starts_with("error:") || said.starts_with("error ") {
            report.problem(line.place(), line.text.to_owned());
            known = true;
            continue;
        }
        if said.starts_with("no controller") {
            known = true;
            continue;
        }
        // `/c0 Model = 9650SE-4LPML`: one thing that a card, a unit or a port has.
        if said.starts_with("/c") || said.contains(" = ") {
            known = true;
            cards.line(&said, line.text);
            continue;
        }
        match &table {
            Some((table, head)) => read_row(*table, head, line, &mut report),
            None => report.problem(line.place(), format!("{:?} belongs to no table", line.text)),
        }
    }
    settle_caches(&mut report.items);
    cards.finish(&mut report);
    if !known && report.problems.is_empty() {
        report.problem("the file", "nothing in it is in the form of tw_cli");
    }
    report
}

/// Cards of which `show all` tells in lines of their own.
#[derive(Default)]
struct Cards(BTreeMap<String, (ControllerFacts, Judgement)>);

impl Cards {
    fn line(&mut self, said: &str, text: &str) {
        let Some((head, value)) = said.split_once(" = ") else {
            return;
        };
        let Some((path, key)) = head.split_once(' ') else {
            return;
        };
        // Of units and ports the tables tell.
        let Some(card) = path.strip_prefix('/').filter(|path| !path.contains('/')) else {
            return;
        };
        let (facts, judgement) = self
            .0
            .entry(card.to_owned())
            .or_insert_with(|| (ControllerFacts::unknown(NOT_TOLD), Judgement::default()));
        match key {
            "model" => {
                let model = text
                    .split_once('=')
                    .map(|(_, model)| model.trim().to_owned());
                facts.model.learn(model);
            }
            "not optimal units" => not_optimal(judgement, number(value)),
            _ => {}
        }
    }

    fn finish(self, report: &mut Report) {
        for (card, (facts, judgement)) in self.0 {
            let is_listed = report
                .items
                .iter()
                .any(|item| item.id == card && matches!(item.facts, Facts::Controller(_)));
            let told = facts.model.known().is_some() || judgement.worst().is_some();
            if told && !is_listed {
                report
                    .items
                    .push(judgement.item(card, Facts::Controller(facts)));
            }
        }
    }
}

/// A card is as well as its units.
fn not_optimal(judgement: &mut Judgement, count: Option<u64>) {
    judgement.errors("units that are not optimal", count, Health::Degraded);
    if count == Some(0) {
        judgement.say(Health::Ok, "all its units are optimal");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Controllers,
    Units,
    Ports,
    Battery,
}

impl Table {
    fn find(line: Line<'_>) -> Option<(Self, Head)> {
        let tables: [(Self, &[&str]); 5] = [
            (Self::Controllers, &["ctl", "model"]),
            (Self::Units, &["unit", "unittype", "status"]),
            (Self::Ports, &["vport", "status"]),
            (Self::Ports, &["port", "status", "unit"]),
            (Self::Battery, &["name", "status", "bbuready"]),
        ];
        tables
            .into_iter()
            .find_map(|(table, names)| Some((table, Head::find(line, names)?)))
    }
}

fn read_row(table: Table, head: &Head, line: Line<'_>, report: &mut Report) {
    // Some print `98 %` of a rebuild with a blank, and sizes with a unit that no column is for.
    let row = head.row(line, "model");
    match table {
        Table::Controllers => controller(&row, line, report),
        Table::Units => unit(&row, line, report),
        Table::Ports => port(&row, line, report),
        Table::Battery => battery(&row, line, report),
    }
}

/// The name in the first column, which says what the row is of: `c0`, `u1`, `p3`.
fn name(
    row: &Row,
    column: &str,
    letter: char,
    line: Line<'_>,
    report: &mut Report,
) -> Option<String> {
    let name = row.get(column).unwrap_or("");
    let digits = name.strip_prefix(letter);
    let is_name = digits.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if !is_name {
        report.problem(
            line.place(),
            format!("{:?} is no row of its table", line.text),
        );
    }
    is_name.then(|| name.to_owned())
}

fn controller(row: &Row, line: Line<'_>, report: &mut Report) {
    let Some(id) = name(row, "ctl", 'c', line, report) else {
        return;
    };
    let mut judgement = Judgement::default();
    match row.get("notopt") {
        Some(count) => not_optimal(&mut judgement, number(count)),
        None => judgement.require(false, "how many units are not optimal"),
    }
    let mut facts = ControllerFacts::unknown(NOT_TOLD);
    facts.model.learn(row.get("model").map(str::to_owned));
    if let Some(state) = row.get("bbu") {
        let mut judgement = Judgement::default();
        judgement.word("battery", state, BATTERY_STATES);
        report.items.push(battery_item(
            format!("{id}/bbu"),
            judgement,
            BatteryFacts::unknown(NOT_TOLD),
        ));
    }
    report
        .items
        .push(judgement.item(id, Facts::Controller(facts)));
}

fn unit(row: &Row, line: Line<'_>, report: &mut Report) {
    let Some(id) = name(row, "unit", 'u', line, report) else {
        return;
    };
    let kind = row.get("unittype").unwrap_or("");
    // `u0/v0` is what the unit is cut into, and has no state of its own.
    if id.contains('/') {
        return;
    }
    // Parts of a unit.
    if let Some((whole, _)) = id.split_once('-') {
        if !part(row, whole, plain(kind) == "disk", report) {
            report.problem(line.place(), format!("{:?} is of no unit", line.text));
        }
        return;
    }
    let mut judgement = Judgement::default();
    let status = row.get("status").unwrap_or("");
    judgement.word("status", status, UNIT_STATES);
    let mut facts = ArrayFacts::unknown(NOT_TOLD);
    facts.level.learn(level(kind));
    if plain(kind) == "spare" {
        facts.level = Fact::NotApplicable;
        judgement.note("a spare");
    }
    facts.action.learn(match plain(status).as_str() {
        "ok" | "degraded" | "inoperable" => Some(Action::Idle),
        "verifying" => Some(Action::Check),
        "initializing" => Some(Action::Resync),
        "rebuilding" | "recovery" | "rebuild-init" | "rebuild-verify" => Some(Action::Recovery),
        "migrating" => Some(Action::Reshape),
        said if said.ends_with("-paused") => Some(Action::Delayed),
        _ => None,
    });
    let percent = ["%rcmpl", "%cmpl", "%v/i/m"]
        .iter()
        .find_map(|column| decimal(row.get(column)?));
    facts
        .action_percent
        .learn(percent.filter(|percent| (0.0..=100.0).contains(percent)));
    if facts.action == Fact::Known(Action::Idle) && percent.is_none() {
        facts.action_percent = Fact::NotApplicable;
    }
    facts.size_bytes.learn(
        row.get("size(gb)")
            .and_then(|gigabytes| size(&format!("{gigabytes} GB"))),
    );
    facts
        .cache_policy
        .learn(match row.get("cache").map(plain).as_deref() {
            // Write cache on, read cache intelligent or basic.
            Some("on" | "w" | "riw" | "rbw" | "wb") => Some(CachePolicy::WriteBack),
            Some("off" | "ri" | "rb") => Some(CachePolicy::WriteThrough),
            _ => None,
        });
    judgement.require(row.whole, "all of its row");
    report.items.push(judgement.item(id, Facts::Volume(facts)));
}

/// A disk of a unit or a unit within it, as `info c0 u0` lists them below the unit: disks are counted there,
/// and what is not well in either is not well in the whole. Whether there is such a unit.
fn part(row: &Row, whole: &str, is_disk: bool, report: &mut Report) -> bool {
    let state = row.get("status").unwrap_or("");
    let Some(item) = report
        .items
        .iter_mut()
        .rev()
        .find(|item| item.id == whole && matches!(item.facts, Facts::Volume(_)))
    else {
        return false;
    };
    let health = crate::judgement::meaning(state, UNIT_STATES);
    if let Facts::Volume(facts) = &mut item.facts
        && is_disk
    {
        let add = |fact: &mut Fact<u64>, by: u64| {
            *fact = (fact.known().copied().unwrap_or(0) + by).into();
        };
        let (well, fills) = (
            health == Some(Health::Ok),
            health == Some(Health::Rebuilding),
        );
        add(&mut facts.members_required, 1);
        add(&mut facts.members_active, u64::from(well));
        add(&mut facts.members_failed, u64::from(!well && !fills));
    }
    let said = match health {
        None if state.is_empty() => return true,
        None => Health::Unknown,
        // The unit has lost redundancy, and may go on.
        Some(health) => health.min(Health::Degraded),
    };
    if said > item.health {
        item.health = said;
        item.reason = format!("{}; a part of it: {state}", item.reason);
    }
    true
}

fn port(row: &Row, line: Line<'_>, report: &mut Report) {
    let column = if row.get("vport").is_some() {
        "vport"
    } else {
        "port"
    };
    let Some(id) = name(row, column, 'p', line, report) else {
        return;
    };
    let status = row.get("status").unwrap_or("");
    // An empty bay. Whether a disk is missing from a unit, the unit says.
    if plain(status) == "not-present" {
        return;
    }
    let mut judgement = Judgement::default();
    judgement.word("status", status, PORT_STATES);
    judgement.require(row.whole, "all of its row");
    let mut facts = DriveFacts::unknown(NOT_TOLD);
    facts.model.learn(row.get("model").map(str::to_owned));
    facts.serial.learn(row.get("serial").map(str::to_owned));
    facts.size_bytes.learn(row.get("size").and_then(size));
    facts.transport.learn(row.get("type").map(plain));
    if plain(status) == "smart-failure" {
        facts.passed = false.into();
    }
    report.items.push(judgement.item(id, Facts::Drive(facts)));
}

/// Every column of it is a verdict of its own.
fn battery(row: &Row, line: Line<'_>, report: &mut Report) {
    if row.get("name") != Some("bbu") {
        report.problem(line.place(), format!("{:?} is no battery", line.text));
        return;
    }
    let mut judgement = Judgement::default();
    for (column, bad) in [("onlinestate", "off"), ("bbuready", "no")] {
        match row.get(column).map(plain).as_deref() {
            Some("on" | "yes") => {}
            Some(said) if said == bad => judgement.say(Health::Failed, format!("{column}: {said}")),
            Some(said) => judgement.say(Health::Unknown, format!("{column}: {said:?}")),
            None => judgement.require(false, column),
        }
    }
    for column in ["status", "volt", "temp"] {
        match row.get(column) {
            Some(said) => judgement.word(column, said, BATTERY_STATES),
            None => judgement.require(false, column),
        }
    }
    let mut facts = BatteryFacts::unknown(NOT_TOLD);
    if let Some(hours) = row.get("hours") {
        judgement.note(format!("it lasts {hours} hours"));
    }
    if let Some(date) = row.get("lastcaptest") {
        judgement.note(format!("its capacity was last tested on {date}"));
    }
    facts.charge_percent = Fact::Unknown("tw_cli tells hours, not charge".into());
    report
        .items
        .push(battery_item("bbu".into(), judgement, facts));
}

fn battery_item(id: String, judgement: Judgement, mut facts: BatteryFacts) -> Item {
    facts.r#type = "BBU".to_owned().into();
    facts.replace.learn(match judgement.worst() {
        Some(Health::Ok) => Some(false),
        Some(Health::Failed) => Some(true),
        _ => None,
    });
    judgement.item(id, Facts::Battery(facts))
}

#[cfg(test)]
mod tests;
