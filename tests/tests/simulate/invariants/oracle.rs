//! Which instants a schedule names, found the slow way: by trying every minute. Shares nothing
//! with the crate that the trigger asks, not even its tables of zones.

use serde_json::Value;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

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
    let zone = Zone::named(schedule["timezone"].as_str()?);
    let dialect = schedule["dialect"].as_str().unwrap_or("vixie");
    let mut face = Face::read(cron, dialect);
    let mut found = Vec::new();
    let mut minute = after.div_euclid(MINUTE) * MINUTE;
    while minute <= through {
        if face.is_interval || !zone.has_shown(minute) {
            let named = face.names(minute + zone.offset(minute));
            found.extend(named.then_some(minute + face.second_ms));
        }
        // What a clock that goes forward leaves out is made up for at once, by one fire.
        let left_out = zone.left_out_before(minute);
        if !face.is_interval && left_out.into_iter().any(|local| face.names(local)) {
            found.push(minute);
        }
        minute += MINUTE;
    }
    found.retain(|&at| after < at && at <= through);
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// A zone, by its rule of 2027: how far its clocks are ahead of UTC, and how much more in summer.
struct Zone {
    offset: i64,
    shift: i64,
    /// When its clocks go forward, and when back.
    forward: i64,
    back: i64,
}

impl Zone {
    fn named(name: &str) -> Zone {
        let (offset, shift, forward, back) = match name {
            "Etc/UTC" => (0, 0, 0, 0),
            "Asia/Shanghai" => (8 * HOUR, 0, 0, 0),
            "Asia/Kolkata" => (5 * HOUR + HOUR / 2, 0, 0, 0),
            "Europe/Berlin" => (HOUR, HOUR, in_2027(3, 28, HOUR), in_2027(10, 31, HOUR)),
            "America/New_York" => (
                -5 * HOUR,
                HOUR,
                in_2027(3, 14, 7 * HOUR),
                in_2027(11, 7, 6 * HOUR),
            ),
            "Australia/Lord_Howe" => (
                10 * HOUR + HOUR / 2,
                HOUR / 2,
                in_2027(10, 2, 15 * HOUR + HOUR / 2),
                in_2027(4, 3, 15 * HOUR),
            ),
            other => panic!("the oracle knows no zone {other}"),
        };
        Zone {
            offset,
            shift,
            forward,
            back,
        }
    }

    fn offset(&self, at: i64) -> i64 {
        let is_summer = if self.forward < self.back {
            self.forward <= at && at < self.back
        } else {
            at < self.back || self.forward <= at
        };
        self.offset + if is_summer { self.shift } else { 0 }
    }

    /// Whether its clocks have shown this minute's local time once before.
    fn has_shown(&self, at: i64) -> bool {
        self.shift > 0 && self.offset(at - self.shift) == self.offset(at) + self.shift
    }

    /// Local times that its clocks jump over as this minute begins.
    fn left_out_before(&self, at: i64) -> Vec<i64> {
        if self.shift == 0 || at != self.forward {
            return Vec::new();
        }
        let from = at + self.offset;
        (from..from + self.shift).step_by(MINUTE as usize).collect()
    }
}

/// This moment of the year that the zones above are of.
fn in_2027(month: i64, day: i64, time: i64) -> i64 {
    const FIRST_DAY: i64 = 20_819;
    let before: i64 = MONTHS[..month as usize - 1].iter().sum();
    (FIRST_DAY + before + day - 1) * DAY + time
}

const MONTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What a cron expression looks for on a clock face, as a table for each field.
struct Face {
    second_ms: i64,
    minutes: Vec<bool>,
    hours: Vec<bool>,
    days: Vec<bool>,
    months: Vec<bool>,
    weekdays: Vec<bool>,
    /// Where both day fields are given, one of them is enough.
    either_day: bool,
    /// It means an interval, and not times of the clock face.
    is_interval: bool,
    /// The day that was looked at last, and whether it is named.
    looked_at: Option<(i64, bool)>,
}

impl Face {
    fn read(cron: &str, dialect: &str) -> Face {
        let mut fields: Vec<&str> = cron.split(' ').collect();
        let mut clock_fields = fields[..2].to_vec();
        let mut second = 0;
        // Counted from Sunday, which is 0 here.
        let mut first_weekday = 0;
        if dialect == "quartz" {
            clock_fields = fields[..3].to_vec();
            second = fields.remove(0).parse().expect("one second");
            first_weekday = 1;
        }
        let is_interval = clock_fields.iter().any(|field| match dialect {
            "vixie" => field.starts_with('*'),
            "kubernetes" => field.contains(['*', '?', '/']),
            _ => field.contains(['*', '/', '-']),
        });
        let is_given = |field: &str| !field.starts_with(['*', '?']);
        let mut weekdays = table(fields[4], first_weekday, 7);
        weekdays.rotate_left(first_weekday as usize);
        Face {
            second_ms: second * 1_000,
            minutes: table(fields[0], 0, 60),
            hours: table(fields[1], 0, 24),
            days: table(fields[2], 1, 31),
            months: table(fields[3], 1, 12),
            weekdays,
            either_day: is_given(fields[2]) && is_given(fields[4]),
            is_interval,
            looked_at: None,
        }
    }

    fn names(&mut self, local: i64) -> bool {
        let minute = local.div_euclid(MINUTE).rem_euclid(60) as usize;
        let hour = local.div_euclid(HOUR).rem_euclid(24) as usize;
        self.minutes[minute] && self.hours[hour] && self.names_day(local.div_euclid(DAY))
    }

    fn names_day(&mut self, day: i64) -> bool {
        if let Some((looked_at, named)) = self.looked_at
            && looked_at == day
        {
            return named;
        }
        let (month, day_of_month) = date_of(day);
        let by_date = self.days[day_of_month as usize];
        let by_weekday = self.weekdays[(day + 4).rem_euclid(7) as usize];
        let day_named = if self.either_day {
            by_date || by_weekday
        } else {
            by_date && by_weekday
        };
        let named = self.months[month as usize] && day_named;
        self.looked_at = Some((day, named));
        named
    }
}

/// The values that a field names, where `first` is the lowest of `count`. Knows `*`, `?`, `*/n`,
/// `a/n`, and lists of numbers.
fn table(field: &str, first: i64, count: i64) -> Vec<bool> {
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let mut values = vec![false; (first + count) as usize];
    for value in first..first + count {
        values[value as usize] = field.split(',').any(|item| match item.split_once('/') {
            Some(("*", step)) => (value - first) % number(step) == 0,
            Some((from, step)) => {
                value >= number(from) && (value - number(from)) % number(step) == 0
            }
            None => item == "*" || item == "?" || number(item) == value,
        });
    }
    values
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
    for (month, length) in (1..).zip(MONTHS) {
        let length = length + i64::from(month == 2 && is_leap(year));
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
                    'h' => HOUR,
                    'd' => DAY,
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

    fn of(dialect: &str, cron: &str, zone: &str, from: i64, minutes: i64) -> Vec<i64> {
        let manifest = format!(
            r#"{{"schedule":{{"cron":"{cron}","timezone":"{zone}","dialect":"{dialect}"}}}}"#
        );
        let found = instants(&manifest, from, from + minutes * MINUTE).unwrap();
        found.iter().map(|at| (at - from) / 1_000).collect()
    }

    #[test]
    fn the_oracle_counts() {
        let begin = 1_800_000_000_000; // 2027-01-15T08:00:00Z, a Friday
        let of = |cron: &str, zone: &str, minutes: i64| of("vixie", cron, zone, begin, minutes);
        assert_eq!(of("* * * * *", "Etc/UTC", 3).len(), 3);
        assert_eq!(of("*/2 * * * *", "Etc/UTC", 3), [120]);
        assert_eq!(of("5,7 * * * *", "Etc/UTC", 60).len(), 2);
        assert_eq!(of("1 16 15 1 *", "Asia/Shanghai", 60), [60]);
        assert_eq!(of("1 16 3 1 5", "Asia/Shanghai", 60), [60]);
        assert!(of("1 16 * 1 4", "Asia/Shanghai", 60).is_empty());
        assert_eq!(of("@every 1m30s", "Etc/UTC", 3).len(), 2);
        assert_eq!(date_of(0), (1, 1));
        assert_eq!(date_of(31 + 28), (3, 1));
        assert_eq!(date_of(365 * 2 + 31 + 28), (2, 29));
        assert_eq!(in_2027(1, 15, 8 * HOUR), begin);
    }

    #[test]
    fn the_oracle_reads_other_dialects() {
        let begin = in_2027(3, 1, 0); // A Monday
        let quartz = |cron: &str| of("quartz", cron, "Etc/UTC", begin, 120);
        assert_eq!(quartz("15 30 0 ? * 2"), [30 * 60 + 15]);
        assert!(quartz("15 30 0 ? * 1").is_empty());
        assert_eq!(quartz("0 10/40 0,1 * * ?").len(), 4);
        let kubernetes = |cron: &str| of("kubernetes", cron, "Etc/UTC", begin, 60);
        assert_eq!(kubernetes("40/15 * ? * 1"), [40 * 60, 55 * 60]);
    }

    #[test]
    fn the_oracle_knows_when_clocks_change() {
        let night = in_2027(3, 28, 0);
        let berlin = |cron: &str| of("vixie", cron, "Europe/Berlin", night, 120);
        assert_eq!(berlin("30 2 * * *"), [3_600]);
        assert_eq!(berlin("0,30 2,3 * * *"), [3_600, 3_600 + 1_800]);
        assert_eq!(berlin("30 * * * *"), [1_800, 3_600 + 1_800]);
        let night = in_2027(4, 3, 14 * HOUR);
        let lord_howe = |cron: &str| of("vixie", cron, "Australia/Lord_Howe", night, 120);
        assert_eq!(lord_howe("45 1 * * *"), [45 * 60]);
        assert_eq!(lord_howe("45 * * * *"), [45 * 60, 75 * 60]);
    }
}
