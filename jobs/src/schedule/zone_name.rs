//! Names of time zones, and what people write instead.
//!
//! An abbreviation names no zone: it is said by several countries, or for half of the year only. A
//! distance from UTC is none either, for it knows no daylight saving.

use chrono_tz::Tz;

use super::error::ScheduleError;
use super::explain::sentence;

/// Abbreviations that are no names of zones, what each is short for, and zones that keep it.
const ABBREVIATIONS: [(&str, &str, &[&str]); 31] = [
    (
        "CST",
        "China, US Central or Cuba time",
        &["Asia/Shanghai", "America/Chicago", "America/Havana"],
    ),
    ("CDT", "US Central time in summer", &["America/Chicago"]),
    ("CT", "US Central time", &["America/Chicago"]),
    ("EDT", "US Eastern time in summer", &["America/New_York"]),
    ("ET", "US Eastern time", &["America/New_York"]),
    ("MDT", "US Mountain time in summer", &["America/Denver"]),
    ("MT", "US Mountain time", &["America/Denver"]),
    (
        "PST",
        "US Pacific or Philippine time",
        &["America/Los_Angeles", "Asia/Manila"],
    ),
    ("PDT", "US Pacific time in summer", &["America/Los_Angeles"]),
    ("PT", "US Pacific time", &["America/Los_Angeles"]),
    ("AKST", "Alaska time", &["America/Anchorage"]),
    (
        "AST",
        "Atlantic or Arabia time",
        &["America/Halifax", "Asia/Riyadh"],
    ),
    ("BRT", "Brasilia time", &["America/Sao_Paulo"]),
    (
        "IST",
        "India, Israel or Irish time",
        &["Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"],
    ),
    (
        "BST",
        "British summer or Bangladesh time",
        &["Europe/London", "Asia/Dhaka"],
    ),
    (
        "CEST",
        "Central European time in summer",
        &["Europe/Berlin", "Europe/Paris"],
    ),
    (
        "EEST",
        "Eastern European time in summer",
        &["Europe/Helsinki", "Europe/Athens"],
    ),
    (
        "WEST",
        "Western European time in summer",
        &["Europe/Lisbon"],
    ),
    ("MSK", "Moscow time", &["Europe/Moscow"]),
    ("TRT", "Turkey time", &["Europe/Istanbul"]),
    ("SAST", "South Africa time", &["Africa/Johannesburg"]),
    (
        "GST",
        "Gulf or South Georgia time",
        &["Asia/Dubai", "Atlantic/South_Georgia"],
    ),
    ("PKT", "Pakistan time", &["Asia/Karachi"]),
    ("WIB", "Western Indonesia time", &["Asia/Jakarta"]),
    (
        "SST",
        "Singapore or Samoa time",
        &["Asia/Singapore", "Pacific/Pago_Pago"],
    ),
    ("SGT", "Singapore time", &["Asia/Singapore"]),
    ("HKT", "Hong Kong time", &["Asia/Hong_Kong"]),
    ("JST", "Japan time", &["Asia/Tokyo"]),
    ("KST", "Korea time", &["Asia/Seoul"]),
    (
        "AEST",
        "Eastern Australia time",
        &["Australia/Sydney", "Australia/Brisbane"],
    ),
    ("NZST", "New Zealand time", &["Pacific/Auckland"]),
];

pub(super) fn parse(name: &str) -> Result<Tz, ScheduleError> {
    name.parse().map_err(|_| {
        let (reason, remedy) = refusal(name);
        ScheduleError::new("timezone", name, reason, remedy)
    })
}

/// What is wrong with the name of a zone and what to write.
fn refusal(name: &str) -> (String, String) {
    let upper = name.trim().to_ascii_uppercase();
    if let Some((_, short_for, zones)) = ABBREVIATIONS.iter().find(|(short, ..)| *short == upper) {
        let zones = sentence::list(zones.iter().map(|zone| format!("`{zone}`")), "or");
        return (
            format!("is no name of a zone, but short for {short_for}"),
            format!("write {zones}"),
        );
    }
    if let Some(zone) = fixed(&upper) {
        return (
            "is a distance from UTC, and no zone".to_owned(),
            format!(
                "write the zone of a place, for example Asia/Shanghai; for the bare distance write `{zone}`, where the sign is the other way round"
            ),
        );
    }
    let remedy = match likely(name) {
        Some(likely) => format!("did you mean `{likely}`?"),
        None => {
            "write its IANA name, for example Asia/Shanghai, Europe/Berlin or Etc/UTC".to_owned()
        }
    };
    ("is not a known time zone".to_owned(), remedy)
}

/// The zone that keeps a whole number of hours from UTC: `GMT+8`, `+08:00`.
fn fixed(upper: &str) -> Option<&'static str> {
    let distance = ["GMT", "UTC"]
        .iter()
        .find_map(|prefix| upper.strip_prefix(prefix))
        .unwrap_or(upper);
    let hours = distance.strip_prefix(['+', '-'])?;
    let hours = hours.strip_suffix(":00").unwrap_or(hours);
    let hours = match hours.strip_suffix("00") {
        Some(short) if hours.len() == 4 => short,
        _ => hours,
    };
    let hours: u8 = hours.parse().ok()?;
    let sign = if distance.starts_with('+') { '-' } else { '+' };
    let zone = format!("Etc/GMT{sign}{hours}");
    zone.parse().ok().map(|zone: Tz| zone.name())
}

/// The zone of a city written alone, or a name with a slip in it. What is near to an abbreviation
/// in letters is far from it on the globe.
fn likely(name: &str) -> Option<&'static str> {
    let known = || chrono_tz::TZ_VARIANTS.iter().map(|tz| tz.name());
    let city = name.trim().replace(' ', "_");
    let is_city = |zone: &&str| {
        zone.rsplit_once('/')
            .is_some_and(|(area, last)| area != "Etc" && last.eq_ignore_ascii_case(&city))
    };
    known()
        .find(is_city)
        .or_else(|| crate::nearest::nearest(name, known()).filter(|_| name.contains('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_for_a_zone_is_none_itself_and_its_zones_are() {
        for (short, _, zones) in ABBREVIATIONS {
            assert!(short.parse::<Tz>().is_err(), "{short} is a zone");
            assert!(
                zones.iter().all(|zone| zone.parse::<Tz>().is_ok()),
                "{short}: {zones:?}"
            );
        }
    }
}
