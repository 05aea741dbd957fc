//! A zone's clock face against the one line of instants.
//!
//! Walking through local times goes wrong twice a year: in a gap there is nothing to land on, in
//! a fold the walk turns back. So the walk goes along UTC, where nothing is repeated, over
//! *pieces*: stretches in which the zone's offset does not change. Inside a piece local time is
//! UTC plus a constant. What a change of the clock left out or repeats shows at a piece's start
//! as the distance between its first local time and the last that was seen before it.

use chrono::{DateTime, Datelike, NaiveDateTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;

use super::cron::SECONDS_A_DAY;

/// A stretch of one UTC day in which the offset is constant. Seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: i64,
    /// Exclusive.
    pub(super) end: i64,
    /// Local time is UTC plus this.
    pub(super) offset: i64,
    /// The local time up to which (exclusive) this zone's clock had come before `start`. Below
    /// the piece's first local time by what a gap left out, above it by what is repeated.
    pub(super) seen: i64,
}

impl Piece {
    pub(super) fn local_start(&self) -> i64 {
        self.start + self.offset
    }

    pub(super) fn local_end(&self) -> i64 {
        self.end + self.offset
    }
}

/// The pieces of the UTC day `day` (days since the epoch), in order: one, and one more for each
/// change of the clock in it.
pub(super) fn pieces(tz: Tz, day: i64) -> Vec<Piece> {
    let (begin, end) = (day * SECONDS_A_DAY, (day + 1) * SECONDS_A_DAY);
    // A fold of up to a day reaches over midnight: what the day before has seen counts too.
    let before = begin - SECONDS_A_DAY;
    // Nearly every day.
    let offset = offset_at(tz, begin);
    if offset_at(tz, before) == offset && offset_at(tz, end) == offset {
        return vec![Piece {
            start: begin,
            end,
            offset,
            seen: begin + offset,
        }];
    }
    let mut cuts = vec![before];
    push_changes(tz, before, begin, &mut cuts);
    if cuts.last() != Some(&begin) {
        cuts.push(begin);
    }
    push_changes(tz, begin, end, &mut cuts);
    if cuts.last() != Some(&end) {
        cuts.push(end);
    }
    let mut seen = i64::MIN;
    let mut pieces = Vec::with_capacity(cuts.len());
    for cut in cuts.windows(2) {
        let offset = offset_at(tz, cut[0]);
        if cut[0] >= begin {
            pieces.push(Piece {
                start: cut[0],
                end: cut[1],
                offset,
                seen,
            });
        }
        seen = seen.max(cut[1] + offset);
    }
    pieces
}

/// Every change of the clock in the UTC days `from..to`.
pub(super) fn changes(tz: Tz, from: i64, to: i64) -> Vec<i64> {
    let mut changes = Vec::new();
    for day in from..to {
        let begin = day * SECONDS_A_DAY;
        push_changes(tz, begin, begin + SECONDS_A_DAY, &mut changes);
    }
    changes
}

/// Every change of the offset in (`from`, `to`]. No zone changes its offset and changes it back
/// within a day, so equal offsets at both ends mean that nothing happened between.
fn push_changes(tz: Tz, from: i64, to: i64, cuts: &mut Vec<i64>) {
    let last = offset_at(tz, to);
    let mut from = from;
    loop {
        let offset = offset_at(tz, from);
        if offset == last {
            return;
        }
        let (mut old, mut new) = (from, to);
        while new - old > 1 {
            let middle = old + (new - old) / 2;
            if offset_at(tz, middle) == offset {
                old = middle;
            } else {
                new = middle;
            }
        }
        cuts.push(new);
        from = new;
    }
}

/// Seconds east of UTC at an instant.
pub(super) fn offset_at(tz: Tz, at: i64) -> i64 {
    let utc = DateTime::from_timestamp(at, 0)
        .unwrap_or_default()
        .naive_utc();
    i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc())
}

/// The clock face at a local time in milliseconds since the local epoch.
pub(super) fn local(local_ms: i64) -> NaiveDateTime {
    DateTime::from_timestamp_millis(local_ms)
        .unwrap_or_default()
        .naive_utc()
}

/// `2026-03-29T02:30:00`, with a fraction only where there is one. Written out here: every fire
/// has one, and chrono would read [`LOCAL_FORM`] anew for each.
pub(crate) fn local_text(local: NaiveDateTime) -> String {
    let (year, month, day) = (local.year(), local.month(), local.day());
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if local.nanosecond() != 0 {
        text.push_str(&local.format("%.f").to_string());
    }
    text
}

/// Reads the form of [`local_text`].
pub(crate) fn parse_local(text: &str) -> Option<NaiveDateTime> {
    NaiveDateTime::parse_from_str(text, LOCAL_FORM).ok()
}

const LOCAL_FORM: &str = "%Y-%m-%dT%H:%M:%S%.f";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_written_in_their_form() {
        for ms in [0, 1, 250, 951_782_400_000, 253_402_300_799_999] {
            let local = local(ms);
            let text = local_text(local);
            assert_eq!(text, local.format(LOCAL_FORM).to_string());
            assert_eq!(parse_local(&text), Some(local));
        }
    }
}
