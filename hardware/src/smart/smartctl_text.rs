//! `smartctl -a` as text.

use super::Drive;
use crate::facts::Medium;
use crate::lines::{Line, lines, number, plain};
use crate::report::{Health, Report};
use crate::tables::Head;

const NOT_TOLD: &str = "smartctl does not tell";

pub(super) fn parse_text(text: &str) -> Report {
    let mut report = Report::default();
    let mut reader = Reader {
        drive: Drive::of("drive".into(), NOT_TOLD),
        known: false,
        attributes: None,
    };
    for line in lines(text) {
        reader.line(line, &mut report);
    }
    if reader.known {
        report.items.push(reader.drive.item());
    } else if report.problems.is_empty() {
        report.problem("the file", "nothing in it is in the form of smartctl");
    }
    report
}

struct Reader {
    drive: Drive,
    known: bool,
    attributes: Option<Head>,
}

impl Reader {
    fn line(&mut self, line: Line<'_>, report: &mut Report) {
        let said = plain(line.text);
        if said.starts_with("smartctl ")
            && line
                .pair()
                .is_none_or(|(key, _)| !key.starts_with("smartctl open"))
        {
            self.known = true;
            return;
        }
        if said.starts_with("smartctl open device") || said.contains("unable to detect device type")
        {
            self.known = true;
            report.problem(line.place(), line.text.to_owned());
            return;
        }
        if let Some(head) = Head::find(line, &["id#", "attribute_name", "value", "raw_value"]) {
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
            if let Some(failed) = row.get("when_failed") {
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
            "Media_Wearout_Indicator"
            | "SSD_Life_Left"
            | "Percent_Lifetime_Remain"
            | "Wear_Leveling_Count" => {
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
            "percentage used" => {
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
}
