//! Power supplies by `ipmitool sdr type "Power Supply"`: several sensors tell of each, which the number of
//! its entity (10.1, 10.2, ...) holds together.

use std::collections::BTreeMap;

use crate::facts::{Facts, SupplyFacts};
use crate::judgement::Judgement;
use crate::lines::{lines, plain};
use crate::report::{Health, Report};
use crate::sensors::parse_sensors;

/// The entity that is a power supply, in IPMI's list of them.
const SUPPLY: &str = "10.";

/// Reads the listing: an item for each supply that is there, as well as its worst sensor. Sensors of
/// anything else, such as of redundancy, stay sensors.
pub fn parse_supplies(text: &str) -> Report {
    let mut report = Report::default();
    let mut by_entity: BTreeMap<String, String> = BTreeMap::new();
    let mut others = String::new();
    for line in lines(text) {
        let cells: Vec<&str> = line.text.split('|').map(str::trim).collect();
        let rows = match cells.as_slice() {
            [_, _, _, entity, _] if entity.starts_with(SUPPLY) => {
                by_entity.entry((*entity).to_owned()).or_default()
            }
            _ => &mut others,
        };
        rows.push_str(line.text);
        rows.push('\n');
    }
    for (entity, rows) in by_entity {
        let said = plain(&rows);
        // A bay with nothing in it has sensors too.
        let is_absent = ["device absent", "| absent", "not present"]
            .iter()
            .any(|word| said.contains(word));
        if is_absent {
            continue;
        }
        let told = parse_sensors(&rows);
        report.problems.extend(told.problems);
        let mut judgement = Judgement::default();
        // Some of its sensors have no reading in any state; one that says that it is there is enough.
        let heard = told
            .items
            .iter()
            .filter(|item| item.health != Health::Unknown);
        let mut any = false;
        for item in heard {
            any = true;
            judgement.say(item.health, format!("{}: {}", item.id, item.reason));
        }
        judgement.require(any, "whether it works");
        let number = entity.trim_start_matches(SUPPLY).to_owned();
        let facts = SupplyFacts::unknown("its sensors do not tell");
        report
            .items
            .push(judgement.item(format!("supply {number}"), Facts::Supply(facts)));
    }
    if !others.is_empty() {
        report.append(parse_sensors(&others));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_of_one_supply_are_one_item() {
        let text = "PS1 Status       | C8h | ok  | 10.1 | Presence detected\n\
                    PS1 Input Power  | CAh | ok  | 10.1 | 120 Watts\n\
                    PS2 Status       | C9h | ok  | 10.2 | Presence detected, Power Supply AC lost\n\
                    PS2 Input Power  | CBh | ns  | 10.2 | No Reading\n\
                    PS3 Status       | CCh | ok  | 10.3 | Device Absent\n\
                    PS4 Status       | CDh | ns  | 10.4 | No Reading\n\
                    PS Redundancy    | 77h | ok  |  7.1 | Fully Redundant\n";
        let report = parse_supplies(text);
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.facts.kind(), item.id.as_str(), item.health))
            .collect();
        assert_eq!(
            told,
            [
                ("supply", "supply 1", Health::Ok),
                ("supply", "supply 2", Health::Failed),
                ("supply", "supply 4", Health::Unknown),
                ("sensor", "PS Redundancy", Health::Ok),
            ],
            "{report:?}"
        );
    }

    #[test]
    fn what_is_no_listing_is_a_problem() {
        let report = parse_supplies("Could not open device at /dev/ipmi0\n");
        assert!(report.items.is_empty() && !report.problems.is_empty());
    }
}
