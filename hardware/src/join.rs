//! One thing told of twice: by the kernel, and by who asked the thing itself.
//!
//! What was asked knows more; of what the kernel alone knows, such as how long flushes take, nothing is
//! lost. Bad news of either stays.

use std::collections::BTreeSet;

use crate::facts::{ControllerFacts, Facts};
use crate::report::{Health, Item, Report};

/// Adds to `report` what others told, each thing once.
///
/// Things of one kind are the same by their names; a tool that was asked several questions names one several
/// times. Controllers are numbered by their tools and placed on the bus by the kernel, which nothing
/// connects: where a tool told of as many as `driver` serves, the kernel's mention of them is left out.
/// Where it told of fewer, one of those on the bus may be in any state, and as many mentions stay.
pub fn join(report: &mut Report, told: Report, driver: Option<&str>) {
    if let Some(driver) = driver {
        replace_controllers(report, &told, driver);
    }
    for mut item in told.items {
        if let (Facts::Controller(facts), Some(driver)) = (&mut item.facts, driver) {
            facts.driver = driver.to_owned().into();
        }
        let name = name_of(&item).to_owned();
        let same = report.items.iter_mut().find(|known| {
            known.facts.kind() == item.facts.kind() && is_named(known) && name_of(known) == name
        });
        match same {
            Some(known) => learn(known, item),
            None => report.items.push(item),
        }
    }
    report.problems.extend(told.problems);
}

/// Leaves out the mentions on the bus of controllers that a tool told of.
fn replace_controllers(report: &mut Report, told: &Report, driver: &str) {
    let is_controller = |item: &&Item| matches!(item.facts, Facts::Controller(_));
    let ids: BTreeSet<&str> = told
        .items
        .iter()
        .filter(is_controller)
        .map(|item| item.id.as_str())
        .collect();
    let is_mention = |item: &Item| driver_of(item).is_some_and(|known| known == driver);
    let mentions = report.items.iter().filter(|item| is_mention(item)).count();
    if ids.is_empty() {
        return;
    }
    let (told, mut left_out) = (ids.len(), ids.len());
    report.items.retain_mut(|item| {
        if !is_mention(item) {
            return true;
        }
        if left_out > 0 {
            left_out -= 1;
            return false;
        }
        item.reason = format!(
            "{}: of {mentions} of {driver} only {told} told of themselves, and which is not known",
            item.reason
        );
        true
    });
}

/// Sensors and sources may have one name and be several.
fn is_named(item: &Item) -> bool {
    matches!(
        item.facts,
        Facts::Drive(_)
            | Facts::Array(_)
            | Facts::Volume(_)
            | Facts::Battery(_)
            | Facts::Controller(_)
    )
}

fn driver_of(item: &Item) -> Option<&str> {
    match &item.facts {
        Facts::Controller(ControllerFacts { driver, .. }) => driver.known().map(String::as_str),
        _ => None,
    }
}

/// Arrays are `md0` to one and `/dev/md0` to another.
fn name_of(item: &Item) -> &str {
    match item.facts {
        Facts::Array(_) => item.id.strip_prefix("/dev/").unwrap_or(&item.id),
        _ => &item.id,
    }
}

fn learn(known: &mut Item, told: Item) {
    match (&mut known.facts, &told.facts) {
        (Facts::Drive(known), Facts::Drive(told)) => known.learn_from(told),
        (Facts::Array(known), Facts::Array(told)) | (Facts::Volume(known), Facts::Volume(told)) => {
            known.learn_from(told);
        }
        (Facts::Battery(known), Facts::Battery(told)) => known.learn_from(told),
        (Facts::Controller(known), Facts::Controller(told)) => known.learn_from(told),
        _ => return,
    }
    if known.health.is_bad() && told.health.is_bad() && known.reason != told.reason {
        known.reason = format!("{}; {}", known.reason, told.reason);
        known.health = known.health.max(told.health);
    } else if told.health.is_bad() || !known.health.is_bad() && told.health != Health::Unknown {
        known.health = told.health;
        known.reason = told.reason;
    } else if known.health == Health::Unknown {
        known.reason = told.reason;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DriveFacts, Medium};

    fn drive(health: Health, reason: &str) -> Item {
        Item {
            id: "/dev/sda".into(),
            health,
            reason: reason.into(),
            facts: Facts::Drive(DriveFacts::unknown("not told")),
        }
    }

    #[test]
    fn bad_news_of_either_stays() {
        use Health::{Degraded, Failed, Ok, Unknown};
        for (kernel, tool, expected, reason) in [
            (Unknown, Ok, Ok, "tool"),
            (Unknown, Failed, Failed, "tool"),
            (Unknown, Unknown, Unknown, "tool"),
            (Ok, Unknown, Ok, "kernel"),
            (Failed, Ok, Failed, "kernel"),
            (Failed, Unknown, Failed, "kernel"),
            (Degraded, Failed, Failed, "kernel; tool"),
        ] {
            let mut report = Report {
                items: vec![drive(kernel, "kernel")],
                ..Report::default()
            };
            let told = Report {
                items: vec![drive(tool, "tool")],
                ..Report::default()
            };
            join(&mut report, told, None);
            assert_eq!(report.items.len(), 1);
            let item = &report.items[0];
            assert_eq!(
                (item.health, item.reason.as_str()),
                (expected, reason),
                "{kernel:?} and {tool:?}"
            );
        }
    }

    #[test]
    fn what_only_the_kernel_knows_is_kept() {
        let mut known = drive(Health::Unknown, "kernel");
        let mut told = drive(Health::Ok, "tool");
        if let Facts::Drive(facts) = &mut known.facts {
            facts.flushes = 500.into();
            facts.medium = Medium::Hdd.into();
        }
        if let Facts::Drive(facts) = &mut told.facts {
            facts.medium = Medium::Ssd.into();
            facts.passed = true.into();
        }
        learn(&mut known, told);
        let Facts::Drive(facts) = known.facts else {
            panic!()
        };
        assert_eq!(facts.flushes, 500.into());
        assert_eq!(facts.medium, Medium::Ssd.into());
        assert_eq!(facts.passed, true.into());
    }

    #[test]
    fn a_tool_that_tells_of_controllers_replaces_the_bus() {
        let controller = |id: &str, driver: &str| {
            let mut facts = ControllerFacts::unknown("not told");
            if !driver.is_empty() {
                facts.driver = driver.to_owned().into();
            }
            Item {
                id: id.into(),
                health: Health::Unknown,
                reason: String::new(),
                facts: Facts::Controller(facts),
            }
        };
        let bus = || Report {
            items: vec![
                controller("0000:03:00.0", "megaraid_sas"),
                controller("0000:04:00.0", "aacraid"),
            ],
            ..Report::default()
        };
        let mut report = bus();
        let told = Report {
            items: vec![controller("c0", "")],
            ..Report::default()
        };
        join(&mut report, told, Some("megaraid_sas"));
        let ids: Vec<&str> = report.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["0000:04:00.0", "c0"]);
        assert_eq!(driver_of(&report.items[1]), Some("megaraid_sas"));
        let mut report = bus();
        report
            .items
            .push(controller("0000:05:00.0", "megaraid_sas"));
        let told = Report {
            items: vec![controller("c0", ""), controller("c0", "")],
            ..Report::default()
        };
        join(&mut report, told, Some("megaraid_sas"));
        let ids: Vec<&str> = report.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(
            ids,
            ["0000:04:00.0", "0000:05:00.0", "c0"],
            "the other one is not well because this one is"
        );
        assert_eq!(report.worst(), Health::Unknown);
        let mut report = bus();
        join(&mut report, Report::default(), Some("megaraid_sas"));
        assert_eq!(
            report.items.len(),
            2,
            "a tool that told nothing replaces nothing"
        );
    }
}
