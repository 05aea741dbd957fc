//! Controllers by what their vendors' tools print.
//!
//! Every layer is read and the worst counts: a controller that is "OK" may have an array that failed
//! whose volumes are all "OK", and a volume may be optimal while the battery behind its cache is
//! dead. Keys are looked up, never counted: the next version of a tool adds a line.

mod arcconf;
mod battery;
mod megacli;
mod sas2ircu;
mod ssacli;
mod storcli;
mod tw_cli;

pub use arcconf::parse_arcconf;
pub use megacli::parse_megacli;
pub use sas2ircu::parse_sas2ircu;
pub use ssacli::parse_ssacli;
pub use storcli::parse_storcli;
pub use tw_cli::parse_tw_cli;

use crate::fact::Fact;
use crate::facts::{BatteryFacts, CachePolicy, Facts};
use crate::report::{Health, Item};

/// Says of every volume of one controller whether a battery in order stands behind its cache.
///
/// No battery at all protects nothing; where nothing was told of batteries, it stays unknown.
fn settle_caches(items: &mut [Item]) {
    let is_battery = |item: &&Item| matches!(item.facts, Facts::Battery(_));
    let batteries: Vec<Health> = items
        .iter()
        .filter(is_battery)
        .map(|item| item.health)
        .collect();
    let absent = items
        .iter()
        .any(|item| is_battery(&item) && is_absent(item));
    let protected = match batteries.iter().max() {
        Some(_) if absent => Some(false),
        Some(Health::Ok) => Some(true),
        None | Some(Health::Unknown) => None,
        Some(_) => Some(false),
    };
    for item in items {
        let Facts::Volume(facts) = &mut item.facts else {
            continue;
        };
        match facts.cache_policy {
            Fact::Known(CachePolicy::WriteThrough) => facts.cache_protected = Fact::NotApplicable,
            Fact::Known(CachePolicy::WriteBack | CachePolicy::WriteBackAlways) => {
                facts.cache_protected.learn(protected);
                if protected == Some(false) {
                    let reason = if item.reason.is_empty() { "" } else { "; " };
                    item.reason.push_str(reason);
                    item.reason
                        .push_str("writes wait in a cache that no battery in order protects");
                }
            }
            Fact::Unknown(_) | Fact::NotApplicable => {}
        }
    }
}

/// A battery that is not there is no fault of its own: many cards never had one. Whether something
/// needs it is for the volumes to say.
fn absent_battery(id: String, why: &str) -> Item {
    let mut facts = BatteryFacts::unknown("there is none");
    facts.replace = Fact::NotApplicable;
    facts.charge_percent = Fact::NotApplicable;
    facts.temperature_c = Fact::NotApplicable;
    facts.model = Fact::NotApplicable;
    Item {
        id,
        health: Health::Unknown,
        reason: format!("none is installed: {why}"),
        facts: Facts::Battery(facts),
    }
}

fn is_absent(item: &Item) -> bool {
    matches!(&item.facts, Facts::Battery(facts) if facts.replace == Fact::NotApplicable)
}
