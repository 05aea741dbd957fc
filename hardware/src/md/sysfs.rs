//! `/sys/block/md*/md/`: the kernel's own word, one fact a file.

use super::Told;
use super::mdstat::parse_mdstat;
use crate::facts::{Action, Facts};
use crate::lines::{level, plain};
use crate::report::{Health, Report};
use crate::root::Root;

const NOT_TOLD: &str = "/sys does not tell";

/// Reads all arrays of the kernel below `root`.
pub fn read_md_arrays(root: &Root) -> Report {
    let mut report = Report::default();
    // A copy of `/sys` may hold the devices alone, without the links to them.
    let places = ["sys/block", "sys/class/block", "sys/devices/virtual/block"];
    let place = places
        .iter()
        .find_map(|place| Some((place, root.names(place)?)));
    let mdstat = root.read("proc/mdstat").map(|text| parse_mdstat(&text));
    match (place, mdstat) {
        (Some((place, names)), mdstat) => {
            read_arrays(root, place, names, &mut report);
            if let Some(mdstat) = mdstat {
                check(&mut report, mdstat);
            }
        }
        (None, Some(mdstat)) => report = mdstat,
        (None, None) => report.problem("sys/block", "neither this nor proc/mdstat can be read"),
    }
    report
}

fn read_arrays(root: &Root, place: &str, names: Vec<String>, report: &mut Report) {
    for name in names {
        let directory = format!("{place}/{name}/md");
        if root.names(&directory).is_none() {
            continue;
        }
        let mut item = read_array(root, &directory).item(name.clone(), NOT_TOLD);
        if let Facts::Array(facts) = &mut item.facts {
            let sectors = root.number(&format!("{place}/{name}/size"));
            facts
                .size_bytes
                .learn(sectors.map(|sectors| sectors.saturating_mul(512)));
        }
        report.items.push(item);
    }
}

/// Holds what `/sys` told against `/proc/mdstat`, which tells it too: the worse counts.
fn check(report: &mut Report, other: Report) {
    for theirs in other.items {
        match report.items.iter_mut().find(|ours| ours.id == theirs.id) {
            Some(ours) if theirs.health > ours.health => {
                ours.health = theirs.health;
                ours.reason = format!("{}; by /proc/mdstat: {}", ours.reason, theirs.reason);
            }
            Some(_) => {}
            None => {
                report.problem(
                    "/sys/block",
                    format!("{} is in /proc/mdstat alone", theirs.id),
                );
                report.items.push(theirs);
            }
        }
    }
    report.problems.extend(other.problems);
}

fn read_array(root: &Root, directory: &str) -> Told {
    let line = |file: &str| root.line(&format!("{directory}/{file}"));
    let mut told = Told {
        level: line("level").as_deref().and_then(level),
        // `11 (10)` while it is reshaped: the first is what it will need.
        required: line("raid_disks").and_then(|text| text.split(' ').next()?.parse().ok()),
        container: line("metadata_version").is_some_and(|version| {
            version.starts_with("external:imsm") || version.starts_with("external:ddf")
        }),
        ..Told::default()
    };
    match line("array_state").as_deref() {
        Some("clean" | "active" | "active-idle" | "write-pending") => told.runs = Some(true),
        Some(state @ ("readonly" | "read-auto")) => {
            told.runs = Some(true);
            told.judgement.note(state.to_owned());
        }
        Some("inactive" | "clear" | "suspended") => told.runs = Some(false),
        Some("broken") => {
            told.runs = Some(false);
            told.judgement
                .say(Health::Failed, "broken: a member is gone");
        }
        Some(state) => told.judgement.say(
            Health::Unknown,
            format!("array_state {state:?} is no word known here"),
        ),
        None => {}
    }
    // Stripes have no such file; where redundancy is, it counts what is missing.
    if let (Some(required), Some(missing)) = (
        told.required,
        line("degraded").and_then(|n| n.parse::<u64>().ok()),
    ) {
        told.active = Some(required.saturating_sub(missing));
    }
    for member in root.names(directory).unwrap_or_default() {
        if let Some(device) = member.strip_prefix("dev-")
            && let Some(state) = line(&format!("{member}/state"))
        {
            read_member(&mut told, device, &state);
        }
    }
    read_action(
        &mut told,
        line("sync_action").as_deref(),
        line("sync_completed").as_deref(),
    );
    told
}

fn read_member(told: &mut Told, device: &str, state: &str) {
    let flags: Vec<String> = state.split(',').map(plain).collect();
    let has = |flag: &str| flags.iter().any(|has| has == flag);
    if has("faulty") {
        told.failed.push(device.to_owned());
    } else if has("spare") {
        told.spares.push(device.to_owned());
    } else if has("in_sync") {
        told.in_use += 1;
    }
}

fn read_action(told: &mut Told, action: Option<&str>, completed: Option<&str>) {
    told.action = match action {
        Some("idle" | "frozen") => Some(Action::Idle),
        Some("resync" | "repair") => Some(Action::Resync),
        Some("recover") => Some(Action::Recovery),
        Some("check") => Some(Action::Check),
        Some("reshape") => Some(Action::Reshape),
        Some(_) => None,
        // Stripes have nothing to do beside serving.
        None => told.runs.map(|_| Action::Idle),
    };
    match completed {
        Some("delayed") => told.action = Some(Action::Delayed),
        Some(text) => {
            let done = text.split_once('/').and_then(|(done, all)| {
                let (done, all): (f64, f64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
                (all > 0.0).then_some(done / all * 100.0)
            });
            told.percent = done.filter(|percent| (0.0..=100.0).contains(percent));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(files: &[(&str, &str)]) -> Report {
        let mut archive = crate::root::Archive::default();
        for (path, text) in files {
            archive
                .files
                .insert(format!("sys/block/md0/md/{path}"), text.as_bytes().to_vec());
        }
        read_md_arrays(&Root::Archive(archive))
    }

    #[test]
    fn the_kernel_counts_what_is_missing() {
        let common = [
            ("level", "raid6\n"),
            ("array_state", "clean\n"),
            ("sync_action", "idle\n"),
        ];
        for (raid_disks, degraded, expected) in [
            ("4\n", "0\n", Health::Ok),
            ("4\n", "1\n", Health::Degraded),
            ("11 (10)\n", "0\n", Health::Ok),
            ("4\n", "", Health::Unknown),
        ] {
            let mut files = common.to_vec();
            files.extend([("raid_disks", raid_disks), ("degraded", degraded)]);
            let report = array(&files);
            assert_eq!(
                report.items[0].health, expected,
                "{raid_disks} {degraded}: {report:?}"
            );
        }
    }

    #[test]
    fn the_worse_of_both_counts() {
        let mut archive = crate::root::Archive::default();
        for (path, text) in [
            ("sys/block/md0/md/level", "raid1"),
            ("sys/block/md0/md/array_state", "clean"),
            ("sys/block/md0/md/raid_disks", "2"),
            ("sys/block/md0/md/degraded", "0"),
            (
                "proc/mdstat",
                "md0 : active raid1 sda1[0]\n 1 blocks [2/1] [U_]\nmd1 : active raid1 sdc1[0] sdb1[1]\n 1 blocks [2/2] [UU]\nunused devices: <none>\n",
            ),
        ] {
            archive.files.insert(path.into(), text.as_bytes().to_vec());
        }
        let report = read_md_arrays(&Root::Archive(archive));
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.health))
            .collect();
        assert_eq!(told, [("md0", Health::Degraded), ("md1", Health::Ok)]);
        assert_eq!(report.problems.len(), 1);
    }

    #[test]
    fn a_file_with_its_name_above_it() {
        let text = "==> /proc/mdstat <==\nmd0 : active raid1 sda1[0]\n 1 blocks [2/1] [U_]\nunused devices: <none>\n";
        let report = crate::Tool::Mdstat.parse(text.as_bytes());
        assert_eq!(report.items[0].health, Health::Degraded);
    }

    #[test]
    fn a_stripe_has_nothing_to_count() {
        let report = array(&[
            ("level", "raid0"),
            ("array_state", "clean"),
            ("raid_disks", "2"),
        ]);
        assert_eq!(report.items[0].health, Health::Ok);
    }
}
