//! Whether a disk's word that a write is durable can be believed.
//!
//! Between `fdatasync` and what survives a loss of power lie caches: the drive's own, the controller's, a
//! hypervisor's. Each says something of itself, some say it wrongly, and configuration may turn off what
//! the kernel counts on. Latency can convict, a disc that turns 120 times a second cannot have written
//! 3,000 times, and can never acquit: only a power cut proves a drive honest. So no verdict is called that.
//!
//! [`judge`] is the rule, from plain evidence; [`settle`] finds the evidence in a report, where disks,
//! volumes, controllers, batteries and mounts stand beside each other, and writes the verdicts into it.

use crate::fact::Fact;
use crate::facts::{
    ArrayFacts, CachePolicy, ControllerFacts, DriveFacts, Facts, FilesystemFacts, Medium,
    WriteHonesty,
};
use crate::pci::is_raid_driver;
use crate::report::{Item, Report};

/// A flush of flash below this, or of discs below that, is faster than such a medium writes.
const FLUSH_MIN_SSD_US: f64 = 200.0;
const FLUSH_MIN_HDD_US: f64 = 4000.0;

/// Flushes that a mean must be of: the first ones of a machine that starts find nothing to flush.
const FLUSHES_MIN: u64 = 100;

/// What is known of one disk as the kernel sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Why nothing that it says of itself counts: somebody else's machine stands between.
    pub hidden: Option<&'static str>,
    pub medium: Option<Medium>,
    /// Whether a volatile cache is on, by the drive's own word.
    pub drive_cache: Option<bool>,
    /// Whether the kernel believes in one, and so asks for flushes.
    pub kernel_cache: Option<bool>,
    /// Whether the drive reports a capacitor in order.
    pub capacitor: Option<bool>,
    /// Flushes, and how long one took on average.
    pub flushes: Option<(u64, f64)>,
    pub controller: Controller,
}

/// Who makes the disk that the kernel sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Controller {
    /// Nobody: it is a drive.
    #[default]
    None,
    /// A controller with this driver, of which nothing is known.
    Silent(String),
    Volume(Volume),
}

/// A volume of a controller's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    pub cache_policy: Option<CachePolicy>,
    /// Whether a battery in order stands behind its cache.
    pub cache_protected: Option<bool>,
    /// Whether the controller holds writes back even without a battery in order.
    pub without_battery: Option<bool>,
    /// Whether the disks behind it use their own caches.
    pub drive_cache: Option<bool>,
}

/// What is to be thought of it, and the sentences that it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub honesty: WriteHonesty,
    pub evidence: Vec<String>,
}

fn verdict(honesty: WriteHonesty, evidence: impl Into<String>) -> Verdict {
    Verdict {
        honesty,
        evidence: vec![evidence.into()],
    }
}

/// Judges one disk.
pub fn judge(evidence: &Evidence) -> Verdict {
    if let Some(why) = evidence.hidden {
        return verdict(WriteHonesty::Unknown, why);
    }
    match &evidence.controller {
        Controller::None => judge_drive(evidence),
        Controller::Silent(driver) => verdict(
            WriteHonesty::Unknown,
            format!("a controller ({driver}) stands between, and its tool was not heard"),
        ),
        Controller::Volume(volume) => judge_volume(volume),
    }
}

fn judge_volume(volume: &Volume) -> Verdict {
    use CachePolicy::{WriteBack, WriteBackAlways, WriteThrough};
    use WriteHonesty::{Protected, Unknown, Unsafe};
    // Unsafe by configuration, whatever state the battery is in today.
    let mut faults = Vec::new();
    if volume.cache_policy == Some(WriteBackAlways) {
        faults.push("the controller holds writes back with or without a battery in order");
    } else if volume.without_battery == Some(true) && volume.cache_policy != Some(WriteThrough) {
        faults.push("the controller is set to hold writes back even without a battery in order");
    }
    if volume.cache_policy == Some(WriteBack) && volume.cache_protected == Some(false) {
        faults.push("writes wait in the controller's cache, and no battery in order protects it");
    }
    if volume.drive_cache == Some(true) {
        faults
            .push("the disks behind the controller use their own caches, which no battery covers");
    }
    if !faults.is_empty() {
        return Verdict {
            honesty: Unsafe,
            evidence: faults.into_iter().map(str::to_owned).collect(),
        };
    }
    let cache = match (volume.cache_policy, volume.cache_protected) {
        (Some(WriteThrough), _) => "the controller writes through",
        (Some(WriteBack), Some(true)) => {
            "writes wait in the controller's cache, and a battery in order protects it"
        }
        (Some(WriteBack | WriteBackAlways), _) => {
            return verdict(
                Unknown,
                "writes wait in the controller's cache, and how its battery fares is not told",
            );
        }
        (None, _) => {
            return verdict(Unknown, "what the controller's cache does is not told");
        }
    };
    let (honesty, disks) = match volume.drive_cache {
        Some(false) => (Protected, "the caches of the disks behind it are off"),
        _ => (
            Unknown,
            "whether the disks behind it use their own caches is not told",
        ),
    };
    Verdict {
        honesty,
        evidence: vec![cache.to_owned(), disks.to_owned()],
    }
}

fn judge_drive(evidence: &Evidence) -> Verdict {
    use WriteHonesty::{Protected, Suspicious, Unknown};
    if evidence.capacitor == Some(true) {
        return verdict(
            Protected,
            "the drive reports a capacitor in order against loss of power",
        );
    }
    match (evidence.drive_cache, evidence.kernel_cache) {
        (Some(true), Some(false)) => verdict(
            Suspicious,
            "the drive has a volatile cache, and the kernel was told that it has none: it is never flushed",
        ),
        (Some(false), _) => verdict(Protected, "the drive says that no volatile cache is on"),
        (Some(true), _) | (None, Some(true)) => judge_flushes(evidence),
        (None, Some(false)) => verdict(
            Unknown,
            "the kernel sends no flushes, and the drive itself was not asked whether it needs them",
        ),
        (None, None) => verdict(Unknown, "whether it has a volatile cache is told by nobody"),
    }
}

/// A drive with a volatile cache, by how long flushing it takes.
fn judge_flushes(evidence: &Evidence) -> Verdict {
    use WriteHonesty::{Suspicious, Unknown, VolatileConsistent};
    let cache = "the drive has a volatile cache, which is flushed".to_owned();
    let (honesty, flushes) = match (evidence.flushes, evidence.medium) {
        (None, _) => (Unknown, "how long that takes is not counted".to_owned()),
        (Some((count, _)), _) if count < FLUSHES_MIN => (
            Unknown,
            format!("{count} flushes are too few to say how long they take"),
        ),
        (Some(_), None) => (Unknown, "what it stores on is not told".to_owned()),
        (Some((count, mean_us)), Some(medium)) => {
            let (least_us, kind) = match medium {
                Medium::Ssd => (FLUSH_MIN_SSD_US, "flash"),
                Medium::Hdd => (FLUSH_MIN_HDD_US, "a disc that turns"),
            };
            let told = format!("{count} flushes took {:.2} ms on average", mean_us / 1000.0);
            let least_ms = least_us / 1000.0;
            if mean_us < least_us {
                let said = format!("{told}, and {kind} needs at least {least_ms} ms");
                (Suspicious, said)
            } else {
                (VolatileConsistent, format!("{told}, as {kind} does"))
            }
        }
    };
    Verdict {
        honesty,
        evidence: vec![cache, flushes],
    }
}

/// What of a file system is to be thought, from its disks with their names: the worst of them, and worse
/// where it is mounted so that nothing is flushed.
fn judge_filesystem(facts: &FilesystemFacts, disks: &[(String, Verdict)]) -> Verdict {
    if facts.barriers.known() == Some(&false) {
        return verdict(
            WriteHonesty::Unsafe,
            "it is mounted without barriers: nothing is flushed",
        );
    }
    if matches!(
        facts.r#type.known().map(String::as_str),
        Some("tmpfs" | "ramfs")
    ) {
        return verdict(
            WriteHonesty::Unsafe,
            "it lies in memory, and is gone with the power",
        );
    }
    let Some(worst) = disks.iter().map(|(_, verdict)| verdict.honesty).max() else {
        let why = match &facts.drives {
            Fact::NotApplicable => "another machine has it",
            Fact::Known(_) | Fact::Unknown(_) => "what it lies on is not known",
        };
        return verdict(WriteHonesty::Unknown, why);
    };
    let worst_disks = disks.iter().filter(|(_, verdict)| verdict.honesty == worst);
    let evidence = worst_disks.flat_map(|(name, verdict)| {
        let said = |sentence: &String| format!("{name}: {sentence}");
        verdict.evidence.iter().map(said).collect::<Vec<_>>()
    });
    Verdict {
        honesty: worst,
        evidence: evidence.collect(),
    }
}

/// Finds the evidence in a report, and writes the verdicts into its volumes, disks and file systems.
pub fn settle(report: &mut Report) {
    let volumes: Vec<(String, Option<String>, Volume)> = report
        .items
        .iter()
        .filter_map(|item| match &item.facts {
            Facts::Volume(facts) => Some((
                item.id.clone(),
                facts.device.known().cloned(),
                volume_of(
                    facts,
                    controller_of(report, &item.id),
                    has_bad_battery(report, &item.id),
                ),
            )),
            _ => None,
        })
        .collect();
    let of_device = |device: &str| {
        let found = volumes
            .iter()
            .find(|(_, known, _)| known.as_deref() == Some(device));
        found.map(|(_, _, volume)| volume)
    };
    let disks: Vec<(String, Verdict)> = report
        .items
        .iter()
        .filter_map(|item| match &item.facts {
            Facts::Drive(facts) if item.id.starts_with("/dev/") => {
                let evidence = evidence_of(facts, of_device(&item.id));
                Some((item.id.clone(), judge(&evidence)))
            }
            _ => None,
        })
        .collect();
    for item in &mut report.items {
        let verdict = match &item.facts {
            Facts::Volume(_) => {
                let volume = volumes.iter().find(|(id, _, _)| *id == item.id);
                volume.map(|(_, _, volume)| judge_volume(volume))
            }
            Facts::Drive(_) => {
                let disk = disks.iter().find(|(id, _)| *id == item.id);
                disk.map(|(_, verdict)| verdict.clone())
            }
            Facts::Filesystem(facts) => {
                let drives = facts.drives.known();
                let below: Vec<(String, Verdict)> = drives
                    .into_iter()
                    .flatten()
                    .map(|drive| {
                        let disk = disks.iter().find(|(id, _)| id == drive);
                        disk.cloned().unwrap_or_else(|| {
                            let why = "nothing is known of it";
                            (drive.clone(), verdict(WriteHonesty::Unknown, why))
                        })
                    })
                    .collect();
                Some(judge_filesystem(facts, &below))
            }
            _ => None,
        };
        write(item, verdict);
    }
}

fn write(item: &mut Item, verdict: Option<Verdict>) {
    let (honesty, evidence) = match &mut item.facts {
        Facts::Volume(facts) => (&mut facts.write_honesty, &mut facts.write_evidence),
        Facts::Drive(facts) => (&mut facts.write_honesty, &mut facts.write_evidence),
        Facts::Filesystem(facts) => (&mut facts.write_honesty, &mut facts.write_evidence),
        _ => return,
    };
    if let Some(verdict) = verdict {
        *honesty = verdict.honesty.into();
        *evidence = verdict.evidence.into();
    } else {
        // A drive behind a controller: what becomes of a write is its volume's matter.
        *honesty = Fact::NotApplicable;
        *evidence = Fact::NotApplicable;
    }
}

/// The controller of a volume: its name begins the volume's.
fn controller_of<'a>(report: &'a Report, volume: &str) -> Option<&'a ControllerFacts> {
    let name = volume.split('/').next()?;
    report.items.iter().find_map(|item| match &item.facts {
        Facts::Controller(facts) if item.id == name => Some(facts),
        _ => None,
    })
}

/// Whether a battery of the volume's controller is known to be bad, whoever told so.
fn has_bad_battery(report: &Report, volume: &str) -> bool {
    let controller = |id: &str| id.split('/').next().map(str::to_owned);
    let of_it = |item: &&Item| {
        matches!(item.facts, Facts::Battery(_)) && controller(&item.id) == controller(volume)
    };
    report
        .items
        .iter()
        .filter(of_it)
        .any(|item| item.health.is_bad())
}

fn volume_of(
    facts: &ArrayFacts,
    controller: Option<&ControllerFacts>,
    has_bad_battery: bool,
) -> Volume {
    let told = |fact: fn(&ControllerFacts) -> &Fact<bool>| {
        controller.and_then(|facts| fact(facts).known().copied())
    };
    Volume {
        cache_policy: facts.cache_policy.known().copied(),
        cache_protected: if has_bad_battery {
            Some(false)
        } else {
            facts.cache_protected.known().copied()
        },
        without_battery: told(|facts| &facts.write_back_without_battery),
        drive_cache: facts
            .drive_write_cache
            .known()
            .copied()
            .or(told(|facts| &facts.drive_write_cache)),
    }
}

fn evidence_of(facts: &DriveFacts, volume: Option<&Volume>) -> Evidence {
    let transport = facts.transport.known().map(String::as_str);
    let hidden = match transport {
        Some("virtio" | "virtual") => Some("a hypervisor hides what it is"),
        Some("iscsi") => Some("another machine has it"),
        _ => None,
    };
    let driver = facts.driver.known().filter(|driver| is_raid_driver(driver));
    // Drives that such a controller passes through hang on it by their own names.
    let passed_through = matches!(transport, Some("sas" | "sata" | "nvme"));
    let controller = match (volume, driver) {
        (Some(volume), _) => Controller::Volume(volume.clone()),
        (None, Some(driver)) if !passed_through => Controller::Silent(driver.clone()),
        (None, _) => Controller::None,
    };
    Evidence {
        hidden,
        medium: facts.medium.known().copied(),
        drive_cache: facts.write_cache.known().copied(),
        kernel_cache: facts.kernel_write_cache.known().copied(),
        capacitor: facts.power_loss_capacitor.known().copied(),
        flushes: facts
            .flushes
            .known()
            .copied()
            .zip(facts.flush_mean_us.known().copied()),
        controller,
    }
}

#[cfg(test)]
mod tests;
