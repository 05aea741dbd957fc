//! Which instants a schedule names, found the slow way: by trying every minute. Shares nothing
//! with the crate that the trigger asks.

use serde_json::Value;

const MINUTE: i64 = 60_000;

/// Instants of the manifest in (`after`, `through`], where `after` is its version's start too.
/// `None` where the manifest cannot be read.
pub fn instants(manifest: &str, after: i64, through: i64) -> Option<Vec<i64>> {
    let manifest: Value = serde_json::from_str(manifest).ok()?;
    let schedule = &manifest["schedule"];
    let cron = schedule["cron"].as_str()?;
    if let Some(period) = cron.strip_prefix("@every ") {
        let period = duration_ms(period);
        let first = after + period;
        return Some((first..=through).step_by(period as usize).collect());
    }
    let offset = match schedule["timezone"].as_str()? {
        "Etc/UTC" => 0,
        "Asia/Shanghai" => 8 * 60 * MINUTE,
        other => panic!("the oracle knows no zone {other}"),
    };
    let fields: Vec<&str> = cron.split(' ').collect();
    let mut minute = after.div_euclid(MINUTE) * MINUTE;
    let mut found = Vec::new();
    while minute <= through {
        if minute > after && names(&fields, minute + offset) {
            found.push(minute);
        }
        minute += MINUTE;
    }
    Some(found)
}

fn names(fields: &[&str], local: i64) -> bool {
    let minute = local.div_euclid(MINUTE).rem_euclid(60);
    let hour = local.div_euclid(60 * MINUTE).rem_euclid(24);
    let day = local.div_euclid(24 * 60 * MINUTE);
    let (month, day_of_month) = date_of(day);
    let values = [minute, hour, day_of_month, month, (day + 4).rem_euclid(7)];
    fields
        .iter()
        .zip(values)
        .all(|(field, value)| matches(field, value))
}

/// `*`, `*/n` or a list of numbers.
fn matches(field: &str, value: i64) -> bool {
    match field.strip_prefix('*') {
        Some("") => true,
        Some(step) => value % step[1..].parse::<i64>().expect("a step") == 0,
        None => field.split(',').any(|one| one.parse() == Ok(value)),
    }
}

/// Month and day of month of a day since the epoch, counted off year by year.
fn date_of(mut day: i64) -> (i64, i64) {
    let mut year = 1970;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = |year: i64| if is_leap(year) { 366 } else { 365 };
    while day >= days(year) {
        day -= days(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, length) in (1..).zip(months) {
        if day < length {
            return (month, day + 1);
        }
        day -= length;
    }
    unreachable!("a year has twelve months")
}

/// `1m30s`.
fn duration_ms(text: &str) -> i64 {
    let mut total = 0;
    let mut number = 0;
    for c in text.chars() {
        match c {
            '0'..='9' => number = number * 10 + i64::from(c as u32 - '0' as u32),
            unit => {
                let unit = match unit {
                    's' => 1_000,
                    'm' => MINUTE,
                    'h' => 60 * MINUTE,
                    'd' => 24 * 60 * MINUTE,
                    other => panic!("the oracle knows no unit {other}"),
                };
                total += number * unit;
                number = 0;
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_counts() {
        let begin = 1_800_000_000_000; // 2027-01-15T08:00:00Z, a Friday
        let of = |cron: &str, zone: &str, minutes: i64| {
            let manifest = format!(r#"{{"schedule":{{"cron":"{cron}","timezone":"{zone}"}}}}"#);
            instants(&manifest, begin, begin + minutes * MINUTE).unwrap()
        };
        assert_eq!(of("* * * * *", "Etc/UTC", 3).len(), 3);
        assert_eq!(of("*/2 * * * *", "Etc/UTC", 3), [begin + 2 * MINUTE]);
        assert_eq!(of("5,7 * * * *", "Etc/UTC", 60).len(), 2);
        assert_eq!(of("1 16 15 1 5", "Asia/Shanghai", 60), [begin + MINUTE]);
        assert!(of("1 16 15 1 4", "Asia/Shanghai", 60).is_empty());
        assert_eq!(of("@every 1m30s", "Etc/UTC", 3).len(), 2);
        assert_eq!(date_of(0), (1, 1));
        assert_eq!(date_of(31 + 28), (3, 1));
        assert_eq!(date_of(365 * 2 + 31 + 28), (2, 29));
    }
}
