//! `smartctl -a` as text.

use super::Drive;
use super::smartctl::says_asleep;
use crate::facts::Medium;
use crate::lines::{Line, lines, number, plain};
use crate::report::{Health, Item, Report};
use crate::tables::Head;

const NOT_TOLD: &str = "smartctl does not tell";

pub(super) fn parse_text(text: &str) -> Report {
    let mut report = Report::default();
    let mut reader = Reader::new(0);
    let mut drives = 0;
    for line in lines(text) {
        // Every drive begins with the version of the program that asked it.
        if is_version(line.text) && reader.known {
            drives += 1;
            report.items.extend(reader.finish());
            reader = Reader::new(drives);
        }
        if let Some((name, kind)) = scan_row(line.text).filter(|_| !reader.known) {
            report.items.push(scanned(name, kind));
            continue;
        }
        reader.line(line, &mut report);
    }
    report.items.extend(reader.finish());
    if report.items.is_empty() && report.problems.is_empty() {
        report.problem("the file", "nothing in it is in the form of smartctl");
    }
    report
}

/// `/dev/bus/0 -d megaraid,3 # /dev/bus/0 [megaraid_disk_03], SCSI device`, of `smartctl --scan`.
fn scan_row(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix("# ").unwrap_or(text).split_once(" -d ")?;
    let kind = rest.split_whitespace().next()?;
    (name.starts_with('/') && !name.contains(char::is_whitespace)).then_some((name, kind))
}

fn scanned(name: &str, kind: &str) -> Item {
    let id = if kind.contains(',') {
        format!("{name}[{kind}]")
    } else {
        name.to_owned()
    };
    let mut drive = Drive::of(id, "a scan tells names alone");
    drive.facts.smartctl_type = kind.to_owned().into();
    drive.item()
}

/// `smartctl 7.3 2022-02-28 r5338 [x86_64-linux-5.15.0] (local build)`
fn is_version(text: &str) -> bool {
    let rest = text.strip_prefix("smartctl ");
    let version = rest.or_else(|| text.strip_prefix("smartctl version "));
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

struct Reader {
    drive: Drive,
    known: bool,
    attributes: Option<Head>,
    /// Whether the log of self-tests has begun, of which the first row is the latest.
    self_tests: bool,
    vendor: Option<String>,
}

impl Reader {
    /// The output does not say what its drive is called. Several in one file are told apart.
    fn new(before: usize) -> Self {
        let id = match before {
            0 => "drive".to_owned(),
            before => format!("drive {}", before + 1),
        };
        Self {
            drive: Drive::of(id, NOT_TOLD),
            known: false,
            attributes: None,
            self_tests: false,
            vendor: None,
        }
    }

    fn finish(mut self) -> Option<Item> {
        // SCSI has a vendor and a product, and both are the model.
        if let (Some(vendor), Some(product)) = (&self.vendor, self.drive.facts.model.known())
            && !product.starts_with(vendor.as_str())
        {
            self.drive.facts.model = format!("{vendor} {product}").into();
        }
        self.known.then(|| self.drive.item())
    }

    fn line(&mut self, line: Line<'_>, report: &mut Report) {
        let said = plain(line.text);
        if is_version(line.text) {
            self.known = true;
            return;
        }
        if says_asleep(line.text) {
            self.drive.asleep();
            return;
        }
        if said.starts_with("smartctl open device") || said.contains("unable to detect device type")
        {
            self.known = true;
            report.problem(line.place(), line.text.to_owned());
            return;
        }
        if said.starts_with("num ") && said.contains("test") && said.contains("status") {
            self.self_tests = true;
            return;
        }
        if self.self_tests {
            self.self_tests = false;
            if said.starts_with(|c: char| c == '#' || c.is_ascii_digit()) {
                self.self_test(&said);
                return;
            }
        }
        let heads: [&[&str]; 2] = [
            &["id#", "attribute_name", "value", "raw_value"],
            &["id#", "attribute_name", "value", "fail"],
        ];
        if let Some(head) = heads.iter().find_map(|names| Head::find(line, names)) {
            self.attributes = Some(head);
            return;
        }
        if let Some(head) = &self.attributes
            && said.starts_with(|c: char| c.is_ascii_digit())
        {
            let row = head.row(line, "raw_value");
            let name = row.get("attribute_name").unwrap_or("").to_owned();
            let raw = row.get("raw_value").and_then(number);
            let value = row.get("value").and_then(number);
            // `-x` calls the column otherwise.
            if let Some(failed) = row.get("when_failed").or_else(|| row.get("fail")) {
                self.failed(&name, failed);
            }
            self.attribute(&name, value, raw);
            return;
        }
        self.attributes = None;
        if let Some((key, value)) = line.pair() {
            self.field(&key, value);
        }
    }

    /// The latest row of a log, by the words of its state.
    fn self_test(&mut self, said: &str) {
        const FAILED: [&str; 5] = [
            "failure",
            "failed",
            "fatal",
            "unknown error",
            "unknown test error",
        ];
        if FAILED.iter().any(|word| said.contains(word)) {
            self.drive
                .judgement
                .say(Health::Degraded, format!("its latest self-test: {said}"));
        }
    }

    fn failed(&mut self, name: &str, failed: &str) {
        let judgement = &mut self.drive.judgement;
        match plain(failed).as_str() {
            "in_the_past" | "past" => judgement.note(format!("{name} failed once")),
            "failing_now" | "now" | "failing_now!" => {
                judgement.say(Health::Degraded, format!("{name} is below its threshold"));
            }
            other => judgement.say(
                Health::Unknown,
                format!("{name} failed {other:?}, which is not known here"),
            ),
        }
    }

    fn attribute(&mut self, name: &str, value: Option<u64>, raw: Option<u64>) {
        let facts = &mut self.drive.facts;
        match name {
            "Reallocated_Sector_Ct" => facts.reallocated.learn(raw),
            "Current_Pending_Sector" => facts.pending.learn(raw),
            "Reported_Uncorrect" | "Uncorrectable_Error_Cnt" | "Offline_Uncorrectable" => {
                let worse = facts.media_errors.known().copied().unwrap_or(0);
                facts.media_errors.learn(raw.map(|count| count.max(worse)));
            }
            "Spin_Up_Time" | "Seek_Error_Rate" if facts.medium.known().is_none() => {
                facts.medium = Medium::Hdd.into();
            }
            "Power_Loss_Cap_Test" => facts
                .power_loss_capacitor
                .learn(value.map(|value| value > 10)),
            "Available_Reservd_Space" => {
                facts.spare_percent.learn(value.filter(|left| *left <= 100));
            }
            _ if super::LIFE_LEFT.contains(&name) => {
                if let Some(left) = value.filter(|left| *left <= 100) {
                    self.drive.worn(100 - left);
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        let drive = &mut self.drive;
        let text = || Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "smart overall-health self-assessment test result" | "smart health status" => {
                self.known = true;
                // `FAILED!` on ATA; on SCSI words of its own, of which only OK is good.
                match plain(value).trim_end_matches('!') {
                    "passed" | "ok" => drive.passed(true),
                    said if said.starts_with("failed")
                        || said.contains("failure")
                        || said.contains("impending") =>
                    {
                        drive.passed(false);
                    }
                    said => drive.judgement.say(
                        Health::Unknown,
                        format!("its own verdict {said:?} is none known here"),
                    ),
                }
            }
            "device model" | "model number" | "product" => drive.facts.model.learn(text()),
            "vendor" => self.vendor = text(),
            "user capacity" | "total nvm capacity" => {
                let bytes = number(value).filter(|bytes| *bytes > 0);
                drive.facts.size_bytes.learn(bytes);
            }
            // The last column of the log of errors counts those that were not corrected.
            "read" | "write" | "verify" => {
                let before = drive.facts.media_errors.known().copied().unwrap_or(0);
                let columns: Vec<&str> = value.split_whitespace().collect();
                let count = columns.last().filter(|_| columns.len() == 7);
                let count = count.and_then(|count| number(count));
                drive
                    .facts
                    .media_errors
                    .learn(count.map(|count| count.saturating_add(before)));
            }
            "self-test execution status" if is_failed_routine(value) => drive
                .judgement
                .say(Health::Degraded, format!("its latest self-test: {value}")),
            "serial number" => drive.facts.serial.learn(text()),
            "rotation rate" => drive.facts.medium.learn(match plain(value).as_str() {
                said if said.contains("solid state") => Some(Medium::Ssd),
                said if number(said).is_some_and(|speed| speed > 0) => Some(Medium::Hdd),
                _ => None,
            }),
            "transport protocol" if plain(value).starts_with("sas") => {
                drive.facts.transport = "sas".to_owned().into();
            }
            "sata version is" => drive.facts.transport = "sata".to_owned().into(),
            "smart support is" if plain(value).starts_with("unavailable") => {
                drive.judgement.say(Health::Unknown, "it has no SMART");
            }
            "smart support is" if plain(value).starts_with("disabled") => {
                drive
                    .judgement
                    .say(Health::Unknown, "its SMART is switched off");
            }
            "critical warning" => {
                drive.facts.transport = "nvme".to_owned().into();
                drive.facts.medium = Medium::Ssd.into();
                let digits = value.trim_start_matches("0x");
                match u64::from_str_radix(digits, 16) {
                    Ok(bits) => drive.critical_warning(bits),
                    Err(_) => drive.judgement.say(
                        Health::Unknown,
                        format!("its critical warning {value:?} is no number"),
                    ),
                }
            }
            "available spare" => drive.spare(number(value), None),
            "available spare threshold" => {
                let spare = drive.facts.spare_percent.known().copied();
                drive.spare(spare, number(value));
            }
            "percentage used" | "percentage used endurance indicator" => {
                if let Some(used) = number(value) {
                    drive.worn(used);
                }
            }
            "media and data integrity errors" => drive.facts.media_errors.learn(number(value)),
            "elements in grown defect list" => drive.facts.reallocated.learn(number(value)),
            "current drive temperature" | "temperature" => {
                drive
                    .facts
                    .temperature_c
                    .learn(number(value).map(|degrees| degrees as i64));
            }
            "write cache is" => drive.facts.write_cache.learn(crate::judgement::flag(value)),
            _ => {}
        }
    }
}

/// `( 121) The previous self-test completed having the read element of the test failed.`: the upper four
/// bits are 3 to 8 where it failed (ATA8-ACS, SMART READ DATA).
fn is_failed_routine(value: &str) -> bool {
    let status = value
        .strip_prefix('(')
        .and_then(|rest| number(rest.split(')').next()?.trim()));
    status.is_some_and(|status| (3..=8).contains(&(status >> 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_has_two_names_and_few_good_words() {
        for (line, expected) in [
            (
                "SMART overall-health self-assessment test result: PASSED",
                Health::Ok,
            ),
            (
                "SMART overall-health self-assessment test result: FAILED!",
                Health::Failed,
            ),
            ("SMART Health Status: OK", Health::Ok),
            (
                "SMART Health Status: FIRMWARE IMPENDING FAILURE DATA ERROR RATE TOO HIGH",
                Health::Failed,
            ),
            ("SMART Health Status: splendid", Health::Unknown),
            ("Device Model: X", Health::Unknown),
        ] {
            let report = parse_text(&format!("smartctl 7.2 2020-12-30 r5155\n{line}\n"));
            assert_eq!(report.items[0].health, expected, "{line}");
        }
    }

    #[test]
    fn attributes_below_their_threshold() {
        let table = "smartctl 6.6\nSMART overall-health self-assessment test result: PASSED\n\
                     ID# ATTRIBUTE_NAME FLAG VALUE WORST THRESH TYPE UPDATED WHEN_FAILED RAW_VALUE\n\
                     5 Reallocated_Sector_Ct 0x0033 1 1 5 Pre-fail Always FAILING_NOW 1975\n\
                     194 Temperature_Celsius 0x0002 240 240 0 Old_age Always - 25 (Min/Max 19/39)\n";
        let report = parse_text(table);
        assert_eq!(report.items[0].health, Health::Degraded);
        let crate::Facts::Drive(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.reallocated, 1975.into());
    }

    /// Tables as `-a` and `-x` print them, of drives that all say that they passed.
    #[test]
    fn what_a_drive_that_passed_says_besides() {
        for (rest, expected) in [
            ("", Health::Ok),
            (
                "ID# ATTRIBUTE_NAME FLAGS VALUE WORST THRESH FAIL RAW_VALUE\n\
                 5 Reallocated_Sector_Ct PO--CK 001 001 005 NOW 1975\n",
                Health::Degraded,
            ),
            (
                "ID# ATTRIBUTE_NAME FLAGS VALUE WORST THRESH FAIL RAW_VALUE\n\
                 190 Airflow_Temperature_Cel -O---K 062 040 045 Past 38 (Min/Max 21/40)\n",
                Health::Ok,
            ),
            (
                "Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error\n\
                 # 1  Extended offline    Completed: read failure       90%     31337         1953525160\n",
                Health::Degraded,
            ),
            (
                "Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error\n\
                 # 1  Short offline       Completed without error       00%     31400         -\n\
                 # 2  Extended offline    Completed: read failure       90%     31337         1953525160\n",
                Health::Ok,
            ),
            (
                "Num  Test              Status                 segment  LifeTime  LBA_first_err [SK ASC ASQ]\n\
                 # 1  Background long   Failed in segment -->       3    2003        123456789 [0x3 0x11 0x0]\n",
                Health::Degraded,
            ),
            (
                "Self-test execution status:      ( 121)\tThe previous self-test completed having\n\
                 \t\t\t\t\tthe read element of the test failed.\n",
                Health::Degraded,
            ),
            (
                "Self-test execution status:      (   0)\tThe previous self-test routine completed\n",
                Health::Ok,
            ),
            (
                "Self-test execution status:      ( 249)\tSelf-test routine in progress...\n",
                Health::Ok,
            ),
        ] {
            let text = format!(
                "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-5.15.0] (local build)\n\
                 SMART overall-health self-assessment test result: PASSED\n{rest}"
            );
            let report = parse_text(&text);
            assert_eq!(report.items.len(), 1);
            assert_eq!(report.items[0].health, expected, "{rest}: {report:?}");
        }
    }

    #[test]
    fn drives_below_each_other_are_several() {
        let one = |verdict: &str| {
            format!(
                "smartctl 7.2 2020-12-30 r5155\nVendor: SEAGATE\nProduct: ST4000NM0043\n\
                     User Capacity: 4,000,787,030,016 bytes [4.00 TB]\nSMART Health Status: {verdict}\n\
                     read:   123  0  0  123  0  1.234  2\nwrite:  0  0  0  0  0  1.234  1\n"
            )
        };
        let report = parse_text(&format!(
            "{}{}",
            one("OK"),
            one("HARDWARE IMPENDING FAILURE")
        ));
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.health))
            .collect();
        assert_eq!(told, [("drive", Health::Ok), ("drive 2", Health::Failed)]);
        let crate::Facts::Drive(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.model, "SEAGATE ST4000NM0043".to_owned().into());
        assert_eq!(facts.size_bytes, 4_000_787_030_016_u64.into());
        assert_eq!(facts.media_errors, 3.into());
    }

    #[test]
    fn a_scan_tells_what_to_ask_with() {
        let text = "/dev/sda -d sat # /dev/sda [SAT], ATA device\n\
                    /dev/bus/0 -d megaraid,3 # /dev/bus/0 [megaraid_disk_03], SCSI device\n";
        let report = parse_text(text);
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.health))
            .collect();
        let expected = [
            ("/dev/sda", Health::Unknown),
            ("/dev/bus/0[megaraid,3]", Health::Unknown),
        ];
        assert_eq!(told, expected, "{report:?}");
        assert!(report.problems.is_empty());
    }
}
