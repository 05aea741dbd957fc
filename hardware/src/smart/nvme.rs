//! nvme-cli: `smart-log`, `list`, `id-ctrl`, as JSON and as text.
//!
//! One field is an integer in one version, a text in the next, a fraction or an object in others, and
//! has more than one name.

use super::Drive;
use crate::fact::Fact;
use crate::facts::Medium;
use crate::json::{Json, is_json, outputs};
use crate::lines::{lines, plain};
use crate::report::{Health, Report};

const NOT_TOLD: &str = "nvme-cli does not tell";

/// Names that only a health log has.
const IS_LOG: [&str; 5] = [
    "critical_warning",
    "percent_used",
    "percentage_used",
    "avail_spare",
    "available_spare",
];

/// Reads what nvme-cli prints, with or without `-o json`.
pub fn parse_nvme(text: &str) -> Report {
    let mut report = Report::default();
    let read = if is_json(text) {
        let (outputs, around) = outputs(text, &mut report);
        // What is no output there is a shell's.
        for text in around {
            report.items.extend(parse_nvme(&text).items);
        }
        outputs
    } else {
        from_text(text)
    };
    for output in &read {
        read_output(output, &mut report);
    }
    report
}

fn read_output(output: &Json, report: &mut Report) {
    if let Some(error) = output.get("error").and_then(Json::text) {
        report.problem("nvme-cli", error.to_owned());
        return;
    }
    if output.get("Devices").is_some() {
        for device in output.all("Devices").flat_map(Json::list) {
            listed(device, report);
        }
    } else if IS_LOG.iter().any(|key| output.all(key).next().is_some()) {
        smart_log(output, report);
    } else if output.get("vwc").is_some() || output.get("mn").is_some() {
        identity(output, report);
    } else if output.entries().is_empty() {
        report.problem("the file", "nothing in it is in the form of nvme-cli");
    } else {
        // Newer versions put a log below the name of its device.
        let mut found = false;
        for (name, inner) in output.entries() {
            if matches!(inner, Json::Object(_))
                && IS_LOG.iter().any(|key| inner.all(key).next().is_some())
            {
                found = true;
                smart_log_of(name, inner, report);
            }
        }
        if !found {
            report.problem(
                "the file",
                "an object in it is no output of nvme-cli that is known here",
            );
        }
    }
}

fn smart_log(log: &Json, report: &mut Report) {
    let name = log
        .any(&["device", "DevicePath", "Device"])
        .and_then(Json::text);
    smart_log_of(name.unwrap_or("nvme"), log, report);
}

fn smart_log_of(name: &str, log: &Json, report: &mut Report) {
    let mut drive = Drive::of(name.to_owned(), NOT_TOLD);
    flash(&mut drive);
    let mut told = false;
    for warning in log.all("critical_warning") {
        match warning.count() {
            Some(bits) => {
                told = true;
                drive.critical_warning(bits);
                // All that a drive of this kind has of a verdict.
                let before = drive.facts.passed.known().copied().unwrap_or(true);
                drive.facts.passed = (before && bits == 0).into();
                if bits == 0 {
                    drive.judgement.say(Health::Ok, "no critical warning");
                }
            }
            None => drive.judgement.say(
                Health::Unknown,
                format!("its critical warning {:?} is no number", warning.said()),
            ),
        }
    }
    drive
        .judgement
        .require(told, "whether it has a critical warning");
    drive.judged = true;
    let count = |keys: &[&str]| log.any(keys).and_then(Json::count);
    if let Some(used) = count(&["percent_used", "percentage_used"]) {
        drive.worn(used);
    }
    drive.spare(
        count(&["avail_spare", "available_spare"]),
        count(&["spare_thresh", "available_spare_threshold"]),
    );
    drive
        .facts
        .media_errors
        .learn(count(&["media_errors", "media_and_data_integrity_errors"]));
    // Written in kelvin as JSON, in Celsius as text.
    let temperature = log.get("temperature").and_then(Json::count);
    let celsius = temperature.and_then(|degrees| {
        if degrees > 200 {
            degrees.checked_sub(273)
        } else {
            Some(degrees)
        }
    });
    drive
        .facts
        .temperature_c
        .learn(celsius.map(|degrees| degrees as i64));
    report.items.push(drive.item());
}

fn flash(drive: &mut Drive) {
    drive.facts.medium = Medium::Ssd.into();
    drive.facts.transport = "nvme".to_owned().into();
    drive.facts.reallocated = Fact::NotApplicable;
    drive.facts.pending = Fact::NotApplicable;
}

/// A device of `list`: flat, or with subsystems, controllers and namespaces in it.
fn listed(device: &Json, report: &mut Report) {
    let subsystems = device.all("Subsystems").flat_map(Json::list);
    let mut nested = false;
    for subsystem in subsystems {
        for controller in subsystem.all("Controllers").flat_map(Json::list) {
            let inner = controller.all("Namespaces").flat_map(Json::list);
            let outer = subsystem.all("Namespaces").flat_map(Json::list);
            for namespace in inner.chain(outer) {
                nested = true;
                let name = namespace.any(&["NameSpace", "Namespace"]).map(Json::said);
                let name = name.map_or_else(|| "nvme".to_owned(), |name| format!("/dev/{name}"));
                push_listed(name, controller, namespace, report);
            }
        }
    }
    if !nested {
        let name = device
            .any(&["DevicePath", "GenericPath", "Device"])
            .and_then(Json::text);
        push_listed(name.unwrap_or("nvme").to_owned(), device, device, report);
    }
}

fn push_listed(name: String, controller: &Json, namespace: &Json, report: &mut Report) {
    let mut drive = Drive::of(name, "nvme list does not tell");
    flash(&mut drive);
    let text = |key| controller.get(key).and_then(Json::text).map(str::to_owned);
    drive.facts.model.learn(text("ModelNumber"));
    drive.facts.serial.learn(text("SerialNumber"));
    let bytes = namespace.get("PhysicalSize").and_then(Json::count);
    drive
        .facts
        .size_bytes
        .learn(bytes.filter(|bytes| *bytes > 0));
    report.items.push(drive.item());
}

fn identity(output: &Json, report: &mut Report) {
    let mut drive = Drive::of("nvme".into(), "nvme id-ctrl does not tell");
    flash(&mut drive);
    let text = |key| output.get(key).and_then(Json::text).map(str::to_owned);
    drive.facts.model.learn(text("mn"));
    drive.facts.serial.learn(text("sn"));
    // Bit 0: there is a volatile write cache. Whether it is on now is a feature of its own.
    let volatile = output
        .get("vwc")
        .and_then(Json::count)
        .map(|vwc| vwc & 1 == 1);
    drive.facts.write_cache.learn(volatile);
    drive.facts.size_bytes.learn(
        output
            .get("tnvmcap")
            .and_then(Json::count)
            .filter(|bytes| *bytes > 0),
    );
    report.items.push(drive.item());
}

/// `key : value` as an object, under the names that JSON has for them; the table of `nvme list`.
fn from_text(text: &str) -> Vec<Json> {
    let mut logs = Vec::new();
    let mut entries = Vec::new();
    let mut devices = Vec::new();
    let mut columns: Option<Columns> = None;
    let mut head = "";
    for line in text.split('\n').map(str::trim_end) {
        if let Some(found) = Columns::of(head, line) {
            columns = Some(found);
        } else if line.starts_with("/dev/") {
            devices.push(list_row(line, columns.as_ref()));
        }
        head = line;
    }
    for line in lines(text).filter(|line| !line.text.starts_with("/dev/")) {
        let Some((key, value)) = line.pair() else {
            continue;
        };
        if let Some(rest) = key.strip_prefix("smart log for nvme device") {
            let name = if rest.trim().is_empty() { value } else { rest };
            // Of another drive.
            if !entries.is_empty() {
                logs.push(Json::Object(std::mem::take(&mut entries)));
            }
            let name = name
                .trim()
                .trim_start_matches(':')
                .split_whitespace()
                .next()
                .unwrap_or("nvme");
            entries.push(("device".to_owned(), Json::Text(name.to_owned())));
            continue;
        }
        entries.push((plain(&key).replace(' ', "_"), Json::Text(value.to_owned())));
    }
    if !devices.is_empty() {
        logs.push(Json::Object(vec![("Devices".into(), Json::List(devices))]));
    }
    // Nothing at all is said of by whoever reads it.
    if logs.is_empty()
        || entries
            .iter()
            .any(|(key, _)| IS_LOG.contains(&key.as_str()))
    {
        logs.push(Json::Object(entries));
    }
    logs
}

/// Where the columns of `nvme list` stand: its head is ruled with one group of dashes for each.
struct Columns(Vec<(String, usize, usize)>);

impl Columns {
    fn of(head: &str, rule: &str) -> Option<Self> {
        if !rule.starts_with("---") || !rule.chars().all(|c| matches!(c, '-' | ' ')) {
            return None;
        }
        let mut columns = Vec::new();
        let mut start = 0;
        for dashes in rule.split(' ') {
            let end = start + dashes.len();
            if !dashes.is_empty() {
                columns.push((plain(&cell(head, start, end)), start, end));
            }
            start = end + 1;
        }
        Some(Self(columns))
    }

    fn get(&self, row: &str, name: &str) -> Option<String> {
        let (_, start, end) = self.0.iter().find(|(column, ..)| column == name)?;
        Some(cell(row, *start, *end)).filter(|cell| !cell.is_empty())
    }
}

fn cell(text: &str, start: usize, end: usize) -> String {
    let cell: String = text.chars().take(end).skip(start).collect();
    cell.trim().to_owned()
}

/// A row of `nvme list`: the name alone is sure without the rule above it.
fn list_row(text: &str, columns: Option<&Columns>) -> Json {
    let name = text.split_whitespace().next().unwrap_or(text);
    let mut entries = vec![("DevicePath".to_owned(), Json::Text(name.to_owned()))];
    let cell = |name: &str| columns.and_then(|columns| columns.get(text, name));
    for (column, key) in [("sn", "SerialNumber"), ("model", "ModelNumber")] {
        entries.extend(cell(column).map(|cell| (key.to_owned(), Json::Text(cell))));
    }
    Json::Object(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_in_many_forms() {
        for (text, expected) in [
            (
                r#"{"critical_warning": 0, "percent_used": 2, "temperature": 310}"#,
                Health::Ok,
            ),
            (
                r#"{"critical_warning": "0", "percentage_used": "2%"}"#,
                Health::Ok,
            ),
            (
                r#"{"critical_warning": 0.0, "percent_used": 2.0}"#,
                Health::Ok,
            ),
            (
                r#"{"critical_warning": {"value": 4, "available_spare": 0}, "percent_used": 2}"#,
                Health::Failed,
            ),
            (
                r#"{"critical_warning": 1, "percent_used": 2}"#,
                Health::Degraded,
            ),
            (
                r#"{"critical_warning": "?", "percent_used": 2}"#,
                Health::Unknown,
            ),
            (
                r#"{"percent_used": 2, "avail_spare": 100}"#,
                Health::Unknown,
            ),
            (
                "Smart Log for NVME device:nvme0 namespace-id:ffffffff\ncritical_warning : 0\npercentage_used : 2%\n",
                Health::Ok,
            ),
            (
                "critical_warning : 0x4\npercentage_used : 2%\n",
                Health::Failed,
            ),
        ] {
            let report = parse_nvme(text);
            assert_eq!(report.items.len(), 1, "{text}: {report:?}");
            assert_eq!(report.items[0].health, expected, "{text}");
        }
    }

    #[test]
    fn a_table_of_drives_is_read_by_its_rule() {
        let text = "\
Node             SN                   Model                                    Namespace Usage                      Format           FW Rev
---------------- -------------------- ---------------------------------------- --------- -------------------------- ---------------- --------
/dev/nvme0n1     S64ANS0T515282K      Samsung SSD 980 1TB                      1         114.21  GB /   1.00  TB    512   B +  0 B   2B4QFXO7
";
        let report = parse_nvme(text);
        assert!(report.problems.is_empty(), "{report:?}");
        assert_eq!(report.items[0].id, "/dev/nvme0n1");
        let crate::Facts::Drive(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.model, "Samsung SSD 980 1TB".to_owned().into());
        assert_eq!(facts.serial, "S64ANS0T515282K".to_owned().into());
        assert_eq!(report.items[0].health, Health::Unknown);
    }

    #[test]
    fn logs_below_each_other_are_of_several_drives() {
        let log = |name: &str, warning: u8| {
            format!(
                "Smart Log for NVME device:{name} namespace-id:ffffffff\ncritical_warning : {warning}\npercentage_used : 2%\n"
            )
        };
        let report = parse_nvme(&format!("{}{}", log("nvme0n1", 4), log("nvme1n1", 0)));
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.health))
            .collect();
        assert_eq!(told, [("nvme0n1", Health::Failed), ("nvme1n1", Health::Ok)]);
    }
}
