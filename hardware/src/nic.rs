//! Network links, from `/sys/class/net`: those with a device of their own, and those that several are
//! bound together in.
//!
//! That nothing is plugged in somewhere is no fault: a server has more ports than cables. What somebody
//! has bound together is meant to be there, and one of several that is gone is what a bond hides well.

use std::collections::BTreeSet;

use crate::fact::Fact;
use crate::facts::{Facts, NicFacts};
use crate::judgement::Judgement;
use crate::report::{Health, Item, Report};
use crate::root::Root;

const NICS: &str = "sys/class/net";

/// Reads the network links below `root`.
pub fn read_nics(root: &Root) -> Report {
    let mut report = Report::default();
    let Some(names) = root.names(NICS) else {
        report.problem(NICS, "it cannot be read");
        return report;
    };
    let bonded: BTreeSet<String> = names
        .iter()
        .flat_map(|name| members_of(root, &format!("{NICS}/{name}")))
        .collect();
    for name in names {
        let directory = format!("{NICS}/{name}");
        if root.has(&format!("{directory}/bonding")) {
            report.items.push(read_bond(root, &name, &directory));
        } else if root.has(&format!("{directory}/device")) {
            let is_bonded =
                bonded.contains(&name) || root.has(&format!("{directory}/bonding_slave"));
            report
                .items
                .push(read_link(root, &name, &directory, is_bonded));
        }
    }
    report
}

fn read_common(root: &Root, directory: &str) -> NicFacts {
    let line = |file: &str| root.line(&format!("{directory}/{file}"));
    let mut facts = NicFacts::unknown("the kernel does not tell");
    facts.address.learn(line("address"));
    let is_up = line("operstate").as_deref() == Some("up");
    // Of an interface that is down the file is there and cannot be read.
    facts.carrier = match line("carrier").as_deref() {
        Some("1") => true.into(),
        Some("0") => false.into(),
        _ if is_up => true.into(),
        _ => Fact::Unknown("the interface is down".into()),
    };
    // -1, or the same as a number without sign, where nothing is connected.
    let speed = root.number(&format!("{directory}/speed"));
    facts.speed_mbit_per_s = match speed.filter(|speed| (1..4_000_000_000).contains(speed)) {
        Some(speed) => speed.into(),
        None => Fact::Unknown("its driver does not tell a speed now".into()),
    };
    let duplex = line("duplex").filter(|word| word != "unknown");
    facts.duplex.learn(duplex);
    let errors = |file: &str| root.number(&format!("{directory}/statistics/{file}"));
    facts.receive_errors.learn(errors("rx_errors"));
    facts.transmit_errors.learn(errors("tx_errors"));
    facts
}

fn read_link(root: &Root, name: &str, directory: &str, is_bonded: bool) -> Item {
    let mut facts = read_common(root, directory);
    let driver = root.link(&format!("{directory}/device/driver"));
    facts
        .driver
        .learn(driver.and_then(|link| link.rsplit('/').next().map(str::to_owned)));
    facts.mode = Fact::NotApplicable;
    facts.members = Fact::NotApplicable;
    facts.members_active = Fact::NotApplicable;
    let mut judgement = judge(&facts);
    let status = root.line(&format!("{directory}/bonding_slave/mii_status"));
    match status.as_deref() {
        Some("up") => {}
        Some("down" | "back") => judgement.say(Health::Failed, "its bond takes it for down"),
        Some("fail" | "going down") => {
            judgement.say(Health::Degraded, "its bond is about to give it up");
        }
        _ if is_bonded => judgement.say(Health::Unknown, "how its bond finds it is not told"),
        _ => {}
    }
    judgement.item(name, Facts::Nic(facts))
}

/// What is true of any link.
fn judge(facts: &NicFacts) -> Judgement {
    let mut judgement = Judgement::default();
    match &facts.carrier {
        Fact::Known(true) => judgement.say(Health::Ok, "connected"),
        Fact::Known(false) => judgement.say(
            Health::Unknown,
            "no carrier: nothing is plugged in, or the other end is off",
        ),
        Fact::Unknown(why) => judgement.say(Health::Unknown, why.as_ref()),
        Fact::NotApplicable => {}
    }
    match facts.duplex.known().map(String::as_str) {
        None | Some("full") => {}
        Some("half") => judgement.say(
            Health::Degraded,
            "half duplex: both ends did not agree how to speak",
        ),
        Some(other) => judgement.say(
            Health::Unknown,
            format!("duplex {other:?} is no word known here"),
        ),
    }
    judgement
}

/// Links that are bound together in one; none where it is no bond.
fn members_of(root: &Root, directory: &str) -> BTreeSet<String> {
    let listed = root.line(&format!("{directory}/bonding/slaves"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

fn read_bond(root: &Root, name: &str, directory: &str) -> Item {
    let mut facts = read_common(root, directory);
    facts.driver = "bonding".to_owned().into();
    let line = |file: &str| root.line(&format!("{directory}/bonding/{file}"));
    // `802.3ad 4`: the word, and its number.
    facts
        .mode
        .learn(line("mode").and_then(|mode| mode.split(' ').next().map(str::to_owned)));
    let members = members_of(root, directory);
    let status = |member: &String| root.line(&format!("{NICS}/{member}/bonding_slave/mii_status"));
    let is_up = |member: &&String| status(member).as_deref() == Some("up");
    let untold = members.iter().find(|member| status(member).is_none());
    let down: Vec<&str> = members
        .iter()
        .filter(|member| !is_up(member))
        .map(String::as_str)
        .collect();
    facts.members = (members.len() as u64).into();
    facts.members_active = match untold {
        None => ((members.len() - down.len()) as u64).into(),
        Some(member) => Fact::Unknown(format!("how {member} fares is not told").into()),
    };
    let mut judgement = judge(&facts);
    match (&untold, members.len(), down.len()) {
        (_, 0, _) => judgement.say(Health::Failed, "it has no member"),
        (Some(member), _, _) => {
            judgement.say(Health::Unknown, format!("how {member} fares is not told"));
        }
        (None, all, out) if all == out => judgement.say(Health::Failed, "all members are down"),
        (None, _, 0) => {}
        (None, _, _) => judgement.say(Health::Degraded, format!("down: {}", down.join(", "))),
    }
    if members.len() == 1 {
        judgement.note("one member alone: nothing stands in for it");
    }
    judgement.item(name, Facts::Nic(facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Archive;

    fn read(listing: &str) -> Vec<(String, Health, Option<u64>)> {
        let archive = Archive::parse_listing(listing).unwrap();
        let report = read_nics(&Root::Archive(archive));
        let told = report.items.into_iter().map(|item| {
            let Facts::Nic(facts) = item.facts else {
                panic!()
            };
            let speed = facts.speed_mbit_per_s.known().copied();
            (item.id, item.health, speed)
        });
        told.collect()
    }

    #[test]
    fn a_port_is_well_when_it_is_connected() {
        for (files, health, speed) in [
            (
                "operstate:up carrier:1 speed:10000 duplex:full",
                Health::Ok,
                Some(10_000),
            ),
            (
                "operstate:up carrier:1 speed:100 duplex:half",
                Health::Degraded,
                Some(100),
            ),
            (
                "operstate:down carrier:0 speed:-1 duplex:unknown",
                Health::Unknown,
                None,
            ),
            ("operstate:down speed:4294967295", Health::Unknown, None),
            // A guest's has no speed.
            ("operstate:up carrier:1 speed:-1", Health::Ok, None),
        ] {
            let files = files
                .split(' ')
                .map(|file| format!("/sys/class/net/eth0/{file}\n"));
            let listing: String = files
                .chain([
                    "/sys/class/net/eth0/device/vendor:0x8086\n".to_owned(),
                    "/sys/class/net/lo/carrier:1\n".to_owned(),
                ])
                .collect();
            assert_eq!(
                read(&listing),
                [("eth0".to_owned(), health, speed)],
                "{listing}"
            );
        }
    }

    #[test]
    fn a_bond_hides_what_is_gone() {
        for (slaves, status, health) in [
            ("eth0 eth1", ["up", "up"], Health::Ok),
            ("eth0 eth1", ["up", "down"], Health::Degraded),
            ("eth0 eth1", ["down", "down"], Health::Failed),
            ("eth0 eth1 eth2", ["up", "up"], Health::Unknown),
            ("", ["up", "up"], Health::Failed),
        ] {
            let listing = format!(
                "/sys/class/net/bond0/bonding/mode:802.3ad 4\n/sys/class/net/bond0/bonding/slaves:{slaves}\n\
                 /sys/class/net/bond0/carrier:1\n/sys/class/net/eth0/bonding_slave/mii_status:{}\n\
                 /sys/class/net/eth1/bonding_slave/mii_status:{}\n",
                status[0], status[1]
            );
            assert_eq!(
                read(&listing),
                [("bond0".to_owned(), health, None)],
                "{slaves} {status:?}"
            );
        }
    }
}
