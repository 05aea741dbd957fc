//! Which tools are to be asked of a machine.

use std::collections::BTreeMap;

use hardware::{Facts, Report, Tool};

/// Something that is to be learned from tools.
#[derive(Debug)]
pub(super) struct Ask {
    /// For people.
    pub(super) what: &'static str,
    /// The driver whose controllers it is about.
    pub(super) driver: Option<&'static str>,
    /// How many of these the bus lists.
    pub(super) controllers: usize,
    /// The best first.
    pub(super) ways: &'static [Way],
}

/// One tool by which it can be learned.
#[derive(Debug)]
pub(super) struct Way {
    /// Its names, the first of which it is called by.
    pub(super) programs: &'static [&'static str],
    /// What they are told, one start each; what all print is read as one. [`NUMBER`] stands for the number of
    /// a controller, and such a call is one start for each.
    pub(super) calls: &'static [&'static [&'static str]],
    /// The number of the first controller.
    pub(super) first: usize,
    pub(super) answer: Answer,
}

const NUMBER: &str = "{number}";

/// Controllers that are asked one by one.
const NUMBERED_MAX: usize = 16;

impl Way {
    /// What it is told on a machine with so many controllers.
    pub(super) fn starts(&self, controllers: usize) -> Vec<Vec<String>> {
        let numbers = self.first..self.first + controllers.clamp(1, NUMBERED_MAX);
        let of_call = |call: &&[&str]| -> Vec<Vec<String>> {
            let asked = |number: usize| {
                let number = number.to_string();
                call.iter()
                    .map(|word| word.replace(NUMBER, &number))
                    .collect()
            };
            if call.contains(&NUMBER) {
                numbers.clone().map(asked).collect()
            } else {
                vec![asked(self.first)]
            }
        };
        self.calls.iter().flat_map(of_call).collect()
    }
}

/// How an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Of(Tool),
    Supplies,
}

const STORCLI: Way = Way {
    programs: &[
        "storcli",
        "storcli64",
        "perccli",
        "perccli64",
        "storcli2",
        "perccli2",
    ],
    calls: &[
        &["/call", "show", "all", "J"],
        &["/call/vall", "show", "all", "J"],
        &["/call/eall/sall", "show", "all", "J"],
        // Of batteries and capacitors a controller has one or the other.
        &["/call/bbu", "show", "all", "J"],
        &["/call/cv", "show", "all", "J"],
    ],
    first: 0,
    answer: Answer::Of(Tool::Storcli),
};
const MEGACLI: Way = Way {
    programs: &["megacli", "MegaCli", "MegaCli64"],
    calls: &[
        &["-LDPDInfo", "-aALL", "-NoLog"],
        &["-AdpBbuCmd", "-aALL", "-NoLog"],
    ],
    first: 0,
    answer: Answer::Of(Tool::Megacli),
};
const SSACLI: Way = Way {
    programs: &["ssacli", "hpssacli", "hpacucli"],
    calls: &[&["ctrl", "all", "show", "config", "detail"]],
    first: 0,
    answer: Answer::Of(Tool::Ssacli),
};
const ARCCONF: Way = Way {
    programs: &["arcconf"],
    calls: &[&["getconfig", NUMBER]],
    first: 1,
    answer: Answer::Of(Tool::Arcconf),
};
const SAS3IRCU: Way = Way {
    programs: &["sas3ircu", "sas2ircu"],
    calls: &[&[NUMBER, "display"]],
    first: 0,
    answer: Answer::Of(Tool::Sas2ircu),
};
const TW_CLI: Way = Way {
    programs: &["tw_cli", "tw_cli.x86_64"],
    // Of several it does not say which one it tells of.
    calls: &[&["info", "c0"]],
    first: 0,
    answer: Answer::Of(Tool::TwCli),
};
const SUPPLIES: &[Way] = &[Way {
    programs: &["ipmitool"],
    calls: &[&["sdr", "type", "Power Supply"]],
    first: 0,
    answer: Answer::Supplies,
}];

/// By the driver of the controller.
const BY_DRIVER: &[(&str, &[Way])] = &[
    ("megaraid_sas", &[STORCLI, MEGACLI]),
    ("hpsa", &[SSACLI]),
    ("cciss", &[SSACLI]),
    ("smartpqi", &[SSACLI, ARCCONF]),
    ("aacraid", &[ARCCONF]),
    ("mpt3sas", &[STORCLI, SAS3IRCU]),
    ("mpt2sas", &[SAS3IRCU]),
    ("mptsas", &[SAS3IRCU]),
    ("3w-9xxx", &[TW_CLI]),
    ("3w-sas", &[TW_CLI]),
    ("3w-xxxx", &[TW_CLI]),
];

/// What is to be asked of the machine that a report is of. `has_ipmi` says whether there is a management
/// controller to speak to.
pub(super) fn plan_asks(report: &Report, has_ipmi: bool) -> Vec<Ask> {
    let mut drivers: BTreeMap<&str, usize> = BTreeMap::new();
    for item in &report.items {
        if let Facts::Controller(facts) = &item.facts
            && let Some(driver) = facts.driver.known()
        {
            *drivers.entry(driver).or_default() += 1;
        }
    }
    let of_drivers = BY_DRIVER.iter().filter_map(|(driver, ways)| {
        Some(Ask {
            what: "controllers",
            driver: Some(*driver),
            controllers: *drivers.get(driver)?,
            ways,
        })
    });
    let supplies = has_ipmi.then_some(Ask {
        what: "power supplies",
        driver: None,
        controllers: 0,
        ways: SUPPLIES,
    });
    of_drivers.chain(supplies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_that_makes_volumes_has_a_tool() {
        for (driver, _) in hardware::RAID_DRIVERS {
            let known = BY_DRIVER.iter().find(|(name, _)| name == driver);
            assert!(known.is_some(), "{driver}");
        }
    }
}
