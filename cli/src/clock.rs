//! The wall clock as this program reads and shows it.

use std::env;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, LocalResult, NaiveDateTime, SecondsFormat, TimeZone, Utc};
use chrono_tz::Tz;
use protocol::WallMs;

pub(crate) fn now() -> WallMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    WallMs(since_epoch.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
}

/// The zone of this machine's clocks on the wall: TZ, else /etc/localtime, else UTC.
pub(crate) fn local_zone() -> Tz {
    let named = match env::var("TZ") {
        Ok(tz) => zone_in(tz.trim_start_matches(':')),
        Err(_) => fs::read_link("/etc/localtime")
            .ok()
            .and_then(|link| zone_in(link.to_str()?)),
    };
    named.unwrap_or(Tz::UTC)
}

/// The zone that a name, or a path below a `zoneinfo` directory, stands for.
fn zone_in(text: &str) -> Option<Tz> {
    let name = text.split_once("zoneinfo/").map_or(text, |(_, name)| name);
    name.parse().ok()
}

/// Where nobody counts milliseconds.
pub(crate) fn to_the_second(at: WallMs) -> WallMs {
    WallMs(at.0.div_euclid(1000) * 1000)
}

/// `02:10:00`, as a clock in that zone shows it.
pub(crate) fn time_of_day(at: WallMs, zone: Tz) -> String {
    DateTime::<Utc>::from_timestamp_millis(at.0).map_or_else(
        || at.to_string(),
        |t| t.with_timezone(&zone).format("%H:%M:%S").to_string(),
    )
}

/// `2026-11-29 10:10:00 +08:00`, or nothing where the zone agrees with UTC.
pub(crate) fn in_zone_unless_utc(at: WallMs, zone: Tz) -> Option<String> {
    let local = DateTime::<Utc>::from_timestamp_millis(at.0)?.with_timezone(&zone);
    let text = local.format("%Y-%m-%d %H:%M:%S %:z").to_string();
    (!text.ends_with("+00:00")).then_some(text)
}

/// `2026-11-29T10:10:00+08:00`, as the zone's own clock shows an instant.
pub(crate) fn rfc3339_in(at: WallMs, zone: Tz) -> String {
    DateTime::<Utc>::from_timestamp_millis(at.0).map_or_else(
        || at.to_string(),
        |t| {
            t.with_timezone(&zone)
                .to_rfc3339_opts(SecondsFormat::Secs, false)
        },
    )
}

/// The instant at which a zone's clock shows a local time, or why there is not just one.
pub(crate) fn instant_of_local(local: NaiveDateTime, zone: &str) -> Result<WallMs, String> {
    let zone: Tz = zone
        .parse()
        .map_err(|_| "this program does not know that zone".to_owned())?;
    match zone.from_local_datetime(&local) {
        LocalResult::Single(at) => Ok(WallMs(at.timestamp_millis())),
        LocalResult::Ambiguous(first, second) => Err(format!(
            "that clock shows it twice, at {} and at {}",
            first.to_rfc3339(),
            second.to_rfc3339()
        )),
        LocalResult::None => Err("that clock never shows it: it goes forward over it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_that_a_clock_shows_once_are_instants() {
        for (local, zone, expected) in [
            (
                "2026-11-29T10:10:00",
                "Asia/Shanghai",
                Ok("2026-11-29T02:10:00Z"),
            ),
            ("2026-10-25T02:30:00", "Europe/Berlin", Err("twice")),
            ("2026-03-29T02:30:00", "Europe/Berlin", Err("never")),
            ("2026-03-29T02:30:00", "Nowhere/Land", Err("does not know")),
        ] {
            let found = instant_of_local(local.parse().unwrap(), zone);
            match (found, expected) {
                (Ok(at), Ok(expected)) => assert_eq!(at.to_rfc3339(), expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{local}: {error}"),
                (found, _) => panic!("{local} {zone}: {found:?}"),
            }
        }
    }

    #[test]
    fn zones_by_name_and_by_path() {
        for (text, expected) in [
            ("Asia/Shanghai", Some(Tz::Asia__Shanghai)),
            (
                "/usr/share/zoneinfo/Europe/Berlin",
                Some(Tz::Europe__Berlin),
            ),
            ("../usr/share/zoneinfo/Etc/UTC", Some(Tz::Etc__UTC)),
            ("CST-8", None),
        ] {
            assert_eq!(zone_in(text), expected, "{text}");
        }
        let at = WallMs::parse_rfc3339("2026-11-29T02:10:00Z").unwrap();
        assert_eq!(time_of_day(at, Tz::Asia__Shanghai), "10:10:00");
        assert_eq!(
            in_zone_unless_utc(at, Tz::Asia__Shanghai).as_deref(),
            Some("2026-11-29 10:10:00 +08:00")
        );
        assert_eq!(in_zone_unless_utc(at, Tz::Etc__UTC), None);
        assert_eq!(
            rfc3339_in(at, Tz::Asia__Shanghai),
            "2026-11-29T10:10:00+08:00"
        );
    }
}
