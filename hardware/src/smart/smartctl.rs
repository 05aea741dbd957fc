//! `smartctl -j`, of one drive or of a scan; `smartctl` as text is in `smartctl_text`.
//!
//! The exit status is eight bits, and only the lowest two mean that there is nothing to read. Versions
//! call things differently: what is newest and says most directly is asked first.

use super::Drive;
use super::smartctl_text::parse_text;
use crate::fact::Fact;
use crate::facts::Medium;
use crate::json::{Json, is_json, outputs};
use crate::lines::plain;
use crate::report::{Health, Report};

const NOT_TOLD: &str = "smartctl does not tell";

/// Reads what smartctl prints, with or without `-j`.
pub fn parse_smartctl(text: &str) -> Report {
    if !is_json(text) {
        return parse_text(text);
    }
    let mut report = Report::default();
    let (outputs, around) = outputs(text, &mut report);
    // What is no output there is a shell's.
    for text in around {
        report.items.extend(parse_text(&text).items);
    }
    for output in &outputs {
        read_output(output, &mut report);
    }
    report
}

fn read_output(output: &Json, report: &mut Report) {
    for message in output
        .all("smartctl")
        .flat_map(|told| told.all("messages"))
        .flat_map(Json::list)
    {
        let said = message.get("string").map(Json::said).unwrap_or_default();
        let severity = message
            .get("severity")
            .and_then(Json::text)
            .unwrap_or("error");
        if severity == "error" {
            report.problem("smartctl", said);
        }
    }
    if let Some(devices) = output.get("devices") {
        for device in devices.list() {
            report.items.push(scanned(device));
        }
        return;
    }
    let is_drive = ["device", "smart_status", "model_name", "smartctl"];
    if is_drive.iter().all(|key| output.get(key).is_none()) {
        report.problem("the file", "an object in it is no output of smartctl");
        return;
    }
    let mut drive = Drive::of(id_of(output), NOT_TOLD);
    let messages = output.at(&["smartctl", "messages"]);
    let mut said = messages.map_or(&[][..], Json::list).iter();
    if said.any(|message| says_asleep(&message.get("string").map(Json::said).unwrap_or_default())) {
        drive.asleep();
    }
    read_verdict(output, &mut drive);
    read_identity(output, &mut drive);
    read_ata(output, &mut drive);
    read_nvme(output, &mut drive);
    read_scsi(output, &mut drive);
    read_wear(output, &mut drive);
    report.items.push(drive.item());
}

/// `Device is in STANDBY mode, exit(2)`, where smartctl was told to wake nothing.
pub(super) fn says_asleep(message: &str) -> bool {
    let said = plain(message);
    ["device is in standby", "device is in sleep"]
        .iter()
        .any(|asleep| said.starts_with(asleep))
}

/// The node, and behind which controller it sits where one node stands for many drives.
fn id_of(output: &Json) -> String {
    let device = output.get("device");
    let name = device.and_then(|device| device.get("name")?.text());
    let asked = || {
        let words = output.at(&["smartctl", "argv"]).map_or(&[][..], Json::list);
        words
            .iter()
            .rev()
            .find_map(|word| word.text().filter(|word| word.starts_with('/')))
    };
    let name = name.or_else(asked).unwrap_or("drive").to_owned();
    match device.and_then(|device| device.get("type")?.text()) {
        Some(kind) if kind.contains(',') => format!("{name}[{kind}]"),
        _ => name,
    }
}

fn scanned(device: &Json) -> crate::report::Item {
    let name = device.get("name").and_then(Json::text).unwrap_or("drive");
    let kind = device.get("type").and_then(Json::text);
    let id = match kind {
        Some(kind) if kind.contains(',') => format!("{name}[{kind}]"),
        _ => name.to_owned(),
    };
    let mut drive = Drive::of(id, "a scan tells names alone");
    drive.facts.smartctl_type.learn(kind.map(str::to_owned));
    drive
        .facts
        .transport
        .learn(device.get("protocol").and_then(Json::text).map(plain));
    if let Some(error) = device.get("open_error").and_then(Json::text) {
        drive.judgement.note(error.to_owned());
    }
    drive.item()
}

fn read_verdict(output: &Json, drive: &mut Drive) {
    for passed in output
        .all("smart_status")
        .flat_map(|status| status.all("passed"))
    {
        match passed {
            Json::Flag(passed) => drive.passed(*passed),
            other => drive.judgement.say(
                Health::Unknown,
                format!("its own verdict {:?} is none", other.said()),
            ),
        }
    }
    for (key, what) in [
        ("available", "it has no SMART"),
        ("enabled", "its SMART is switched off"),
    ] {
        if output.at(&["smart_support", key]) == Some(&Json::Flag(false)) {
            drive.judgement.say(Health::Unknown, what);
        }
    }
    let Some(status) = output
        .at(&["smartctl", "exit_status"])
        .and_then(Json::count)
    else {
        return;
    };
    const BITS: [(u64, Health, &str); 5] = [
        (
            1,
            Health::Unknown,
            "smartctl did not understand its command line",
        ),
        (
            1 << 1,
            Health::Unknown,
            "smartctl could not open the device",
        ),
        (1 << 3, Health::Failed, "smartctl: the disk is failing"),
        (
            1 << 4,
            Health::Degraded,
            "smartctl: an attribute that foretells failure is below its threshold",
        ),
        (
            1 << 7,
            Health::Degraded,
            "smartctl: self-tests found errors",
        ),
    ];
    // To let one sleep is told in the same bit as that it cannot be opened.
    let asleep = drive.facts.asleep.known() == Some(&true);
    for (bit, health, meaning) in BITS {
        if status & bit != 0 && !(asleep && bit == 1 << 1) {
            drive.judgement.say(health, meaning);
        }
    }
    const NOTES: [(u64, &str); 3] = [
        (1 << 2, "smartctl: some command of it failed"),
        (
            1 << 5,
            "smartctl: an attribute was below its threshold once",
        ),
        (1 << 6, "smartctl: its error log is not empty"),
    ];
    for (bit, meaning) in NOTES {
        if status & bit != 0 {
            drive.judgement.note(meaning);
        }
    }
}

fn read_identity(output: &Json, drive: &mut Drive) {
    let text = |key| output.get(key).and_then(Json::text).map(str::to_owned);
    let facts = &mut drive.facts;
    facts.model.learn(
        text("model_name")
            .or_else(|| text("scsi_model_name"))
            .or_else(|| text("product")),
    );
    facts.serial.learn(text("serial_number"));
    let bytes = output.at(&["user_capacity", "bytes"]).and_then(Json::count);
    let bytes = bytes.or_else(|| output.get("nvme_total_capacity").and_then(Json::count));
    // Another version of smartctl, or a drive asleep: no disk has no bytes.
    facts.size_bytes.learn(bytes.filter(|bytes| *bytes > 0));
    let kind = output.at(&["device", "type"]).and_then(Json::text);
    facts.smartctl_type.learn(kind.map(str::to_owned));
    let protocol = output
        .at(&["device", "protocol"])
        .and_then(Json::text)
        .map(plain);
    let scsi_transport = output
        .at(&["scsi_transport_protocol", "name"])
        .and_then(Json::text)
        .map(plain);
    facts.transport.learn(match (kind, protocol.as_deref()) {
        (Some(kind), _) if kind.starts_with("usb") => Some("usb".to_owned()),
        (_, Some("nvme")) => Some("nvme".to_owned()),
        (_, Some("ata")) => Some("sata".to_owned()),
        (_, Some("scsi")) => match scsi_transport {
            Some(name) if name.starts_with("sas") => Some("sas".to_owned()),
            Some(name) => Some(name),
            None => Some("scsi".to_owned()),
        },
        _ => None,
    });
    let temperature = output.at(&["temperature", "current"]).and_then(Json::count);
    // Absolute zero plus 273 is no reading, and 0 is what volumes of RAID print.
    let temperature = temperature.filter(|degrees| (1..200).contains(degrees));
    facts
        .temperature_c
        .learn(temperature.map(|degrees| degrees as i64));
    facts
        .write_cache
        .learn(output.at(&["write_cache", "enabled"]).and_then(Json::flag));
    facts
        .medium
        .learn(medium(output, facts.transport.known().map(String::as_str)));
}

/// What turns says how fast. What is silent about it may be flash, or merely old.
fn medium(output: &Json, transport: Option<&str>) -> Option<Medium> {
    if transport == Some("nvme") {
        return Some(Medium::Ssd);
    }
    if let Some(rate) = output.get("rotation_rate") {
        match rate.count() {
            Some(0) => Some(Medium::Ssd),
            Some(_) => Some(Medium::Hdd),
            None if plain(&rate.said()).contains("solid state") => Some(Medium::Ssd),
            None => None,
        }
    } else {
        const TURNS: [&str; 4] = [
            "Spin_Up_Time",
            "Spin_Retry_Count",
            "Seek_Error_Rate",
            "Start_Stop_Count",
        ];
        let turns = attributes(output).any(|(name, _)| TURNS.contains(&name));
        turns.then_some(Medium::Hdd)
    }
}

fn attributes(output: &Json) -> impl Iterator<Item = (&str, &Json)> {
    output
        .all("ata_smart_attributes")
        .flat_map(|attributes| attributes.all("table"))
        .flat_map(Json::list)
        .filter_map(|attribute| Some((attribute.get("name")?.text()?, attribute)))
}

fn raw_of(attribute: &Json) -> Option<u64> {
    // The text is what the raw value means for this model: `25 (Min/Max 19/39)`.
    let said = attribute.at(&["raw", "string"]).and_then(Json::count);
    said.or_else(|| attribute.at(&["raw", "value"])?.count())
}

fn read_ata(output: &Json, drive: &mut Drive) {
    for (name, attribute) in attributes(output) {
        for failed in attribute.all("when_failed").filter_map(Json::text) {
            match plain(failed).as_str() {
                "past" => drive.judgement.note(format!("{name} failed once")),
                "now" | "failing_now" => drive
                    .judgement
                    .say(Health::Degraded, format!("{name} is below its threshold")),
                other => drive.judgement.say(
                    Health::Unknown,
                    format!("{name} failed {other:?}, which is not known here"),
                ),
            }
        }
        let facts = &mut drive.facts;
        match name {
            "Reallocated_Sector_Ct" | "Reallocate_NAND_Blk_Cnt" | "Reallocated_Sector_Count" => {
                facts.reallocated.learn(raw_of(attribute));
            }
            "Current_Pending_Sector" | "Current_Pending_ECC_Cnt" | "Total_Pending_Sectors" => {
                facts.pending.learn(raw_of(attribute));
            }
            "Reported_Uncorrect"
            | "Uncorrectable_Error_Cnt"
            | "Offline_Uncorrectable"
            | "Total_Offl_Uncorrectabl" => {
                // One drive may have several of them, which count the same trouble.
                let worse = facts.media_errors.known().copied().unwrap_or(0);
                facts
                    .media_errors
                    .learn(raw_of(attribute).map(|count| count.max(worse)));
            }
            "Available_Reservd_Space" => {
                let left = attribute.get("value").and_then(Json::count);
                facts.spare_percent.learn(left.filter(|left| *left <= 100));
            }
            "Power_Loss_Cap_Test" => {
                let value = attribute.get("value").and_then(Json::count);
                let threshold = attribute.get("thresh").and_then(Json::count).unwrap_or(0);
                facts
                    .power_loss_capacitor
                    .learn(value.map(|value| value > threshold));
            }
            _ => {}
        }
    }
    let routine = output.at(&["ata_smart_data", "self_test", "status"]);
    if let Some(routine) = routine {
        self_test(routine, drive);
    }
    if let Some(stored) = output.at(&["ata_smart_self_test_log", "standard", "table"]) {
        latest_self_test(stored, drive);
    }
    if let Some(stored) = output.at(&["ata_smart_self_test_log", "extended", "table"]) {
        latest_self_test(stored, drive);
    }
    // What ATA drives call media errors is not in all of them.
    if let Fact::Unknown(why) = &mut drive.facts.media_errors
        && output.get("ata_smart_attributes").is_some()
    {
        *why = "this drive has no counter of them".into();
    }
}

/// Only the latest test counts: what an older one found may be repaired.
fn latest_self_test(table: &Json, drive: &mut Drive) {
    if let Some(status) = table.list().first().and_then(|latest| latest.get("status")) {
        self_test(status, drive);
    }
}

fn self_test(status: &Json, drive: &mut Drive) {
    if status.get("passed") == Some(&Json::Flag(false)) {
        let said = status.get("string").map(Json::said).unwrap_or_default();
        drive
            .judgement
            .say(Health::Degraded, format!("its latest self-test: {said}"));
    }
}

/// Results of SCSI and NVMe are numbers, of which these failed (SPC-5, 7.3.17; NVM Express 2.0, 5.16.1.7).
fn self_test_result(
    result: Option<&Json>,
    failed: std::ops::RangeInclusive<u64>,
    drive: &mut Drive,
) {
    let Some(result) = result else {
        return;
    };
    if result
        .get("value")
        .and_then(Json::count)
        .is_some_and(|value| failed.contains(&value))
    {
        let said = result.get("string").map(Json::said).unwrap_or_default();
        drive
            .judgement
            .say(Health::Degraded, format!("its latest self-test: {said}"));
    }
}

fn read_nvme(output: &Json, drive: &mut Drive) {
    let tests = output.at(&["nvme_self_test_log", "table"]);
    let latest = tests.and_then(|tests| tests.list().first());
    self_test_result(
        latest.and_then(|test| test.get("self_test_result")),
        5..=7,
        drive,
    );
    let Some(log) = output.get("nvme_smart_health_information_log") else {
        return;
    };
    match log.get("critical_warning").map(Json::count) {
        Some(Some(bits)) => drive.critical_warning(bits),
        Some(None) => drive
            .judgement
            .say(Health::Unknown, "its critical warning is no number"),
        None => {}
    }
    let count = |key| log.get(key).and_then(Json::count);
    drive.facts.media_errors.learn(count("media_errors"));
    drive.spare(count("available_spare"), count("available_spare_threshold"));
    drive.facts.reallocated = Fact::NotApplicable;
    drive.facts.pending = Fact::NotApplicable;
    drive.facts.power_loss_capacitor = Fact::Unknown("NVMe drives do not tell".into());
}

fn read_scsi(output: &Json, drive: &mut Drive) {
    self_test_result(output.at(&["scsi_self_test_0", "result"]), 3..=7, drive);
    let facts = &mut drive.facts;
    facts
        .reallocated
        .learn(output.get("scsi_grown_defect_list").and_then(Json::count));
    let pending = output.at(&["scsi_pending_defects", "count"]);
    facts.pending.learn(pending.and_then(Json::count));
    if let Some(log) = output.get("scsi_error_counter_log") {
        let uncorrected = ["read", "write", "verify"].iter().filter_map(|kind| {
            log.at(&[kind, "total_uncorrected_errors"])
                .and_then(Json::count)
        });
        facts
            .media_errors
            .learn(uncorrected.reduce(u64::saturating_add));
    }
}

/// How much of its rated writes is used up, by what says so most directly.
fn read_wear(output: &Json, drive: &mut Drive) {
    let spare = output
        .at(&["spare_available", "current_percent"])
        .and_then(Json::count);
    let threshold = output
        .at(&["spare_available", "threshold_percent"])
        .and_then(Json::count);
    if spare.is_some() {
        drive.spare(spare, threshold);
    }
    if drive.facts.medium.known() == Some(&Medium::Hdd) {
        drive.facts.wear_percent = Fact::NotApplicable;
        drive.facts.spare_percent = Fact::NotApplicable;
        drive.facts.power_loss_capacitor = Fact::NotApplicable;
        return;
    }
    let wear = output
        .at(&["endurance_used", "current_percent"])
        .or_else(|| output.at(&["nvme_smart_health_information_log", "percentage_used"]))
        .or_else(|| output.get("scsi_percentage_used_endurance_indicator"))
        .and_then(Json::count)
        .or_else(|| endurance_of_statistics(output))
        .or_else(|| life_left(output).map(|left| 100 - left));
    if let Some(wear) = wear {
        drive.worn(wear);
    }
}

fn endurance_of_statistics(output: &Json) -> Option<u64> {
    let pages = output.at(&["ata_device_statistics", "pages"])?.list();
    let rows = pages
        .iter()
        .flat_map(|page| page.all("table"))
        .flat_map(Json::list);
    let mut rows = rows.filter(|row| {
        row.get("name").and_then(Json::text) == Some("Percentage Used Endurance Indicator")
            && row.at(&["flags", "valid"]) != Some(&Json::Flag(false))
    });
    rows.next()?.get("value")?.count()
}

fn life_left(output: &Json) -> Option<u64> {
    let found = |name: &&str| {
        let (_, attribute) = attributes(output).find(|(known, _)| known == name)?;
        attribute
            .get("value")?
            .count()
            .filter(|value| *value <= 100)
    };
    super::LIFE_LEFT.iter().find_map(found)
}

#[cfg(test)]
mod tests;
