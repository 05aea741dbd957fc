//! The output of an attempt, as it lies on its host and as it travels: a sequence of records.
//!
//! A record is one line: `2026-11-29T23:05:01.123456Z stdout F the line`. The stamp says when the
//! log writer read it; `F` is a whole line and `P` a part of one, which goes on in the next record
//! of the same stream. The content is the job's own bytes, whatever they are: a line feed ends a
//! record and is part of its content under `F`, and no other byte means anything. This is the form
//! in which container runtimes write logs, so what collects those reads these too.
//!
//! One stream is Matins' own: `matins` tells what is missing between two records. A job cannot
//! forge it, since every line of its own begins with a stream of its own.

use std::fmt;
use std::io::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use crate::{Token, WallMs};

/// Longest content of one record. A longer line takes several.
pub const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a record before its content.
pub const HEADER_BYTES: usize = STAMP_BYTES + " stdout F ".len();

/// Longest record, its line feed included.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + CONTENT_BYTES_MAX + 1;

/// `2026-11-29T23:05:01.123456Z`, always in UTC: stamps compare as bytes.
const STAMP_BYTES: usize = 27;

/// When bytes were read, in the form that records have it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp([u8; STAMP_BYTES]);

impl Stamp {
    /// `micros` after 1970-01-01T00:00:00Z. What four digits of a year cannot write is the first
    /// or the last instant that they can.
    pub fn from_micros(micros: i64) -> Stamp {
        let text = |micros| {
            let time = DateTime::<Utc>::from_timestamp_micros(micros)?;
            let text = time.to_rfc3339_opts(SecondsFormat::Micros, true);
            text.as_bytes().try_into().ok()
        };
        let (first, last) = (
            *b"0000-01-01T00:00:00.000000Z",
            *b"9999-12-31T23:59:59.999999Z",
        );
        Stamp(text(micros).unwrap_or(if micros < 0 { first } else { last }))
    }

    pub fn from_wall(at: WallMs) -> Stamp {
        Stamp::from_micros(at.0.saturating_mul(1000))
    }

    pub fn as_bytes(&self) -> &[u8; STAMP_BYTES] {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
    /// What Matins has to say of the output: see [`Mark`].
    Matins,
}

impl Stream {
    pub const fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Matins => "matins",
        }
    }

    fn parse(name: &[u8]) -> Option<Stream> {
        [Stream::Stdout, Stream::Stderr, Stream::Matins]
            .into_iter()
            .find(|stream| stream.as_str().as_bytes() == name)
    }
}

/// One record, without its line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub stamp: Stamp,
    pub stream: Stream,
    /// The line goes on in the next record of this stream, or the output ends without a line feed.
    pub partial: bool,
    pub content: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads one line, its line feed taken off; `None` where it is no record.
    pub fn parse(line: &'a [u8]) -> Option<Record<'a>> {
        let (header, content) = line.split_at_checked(HEADER_BYTES)?;
        let (stamp, rest) = header.split_first_chunk::<STAMP_BYTES>()?;
        let [b' ', name @ .., b' ', tag, b' '] = rest else {
            return None;
        };
        let partial = match tag {
            b'P' => true,
            b'F' => false,
            _ => return None,
        };
        let well_formed = stamp.is_ascii() && stamp[STAMP_BYTES - 1] == b'Z';
        Some(Record {
            stamp: well_formed.then_some(Stamp(*stamp))?,
            stream: Stream::parse(name)?,
            partial,
            content,
        })
    }

    /// What the job wrote, its line feed included; nothing for [`Stream::Matins`].
    pub fn raw(&self) -> [&'a [u8]; 2] {
        let line_feed: &[u8] = if self.partial { b"" } else { b"\n" };
        match self.stream {
            Stream::Matins => [b"", b""],
            Stream::Stdout | Stream::Stderr => [self.content, line_feed],
        }
    }

    /// Appends the record, its line feed included.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&header(self.stamp, self.stream, self.partial));
        out.extend_from_slice(self.content);
        out.push(b'\n');
    }
}

/// What every record of this stamp begins with: made once for all that was read at one go.
pub fn header(stamp: Stamp, stream: Stream, partial: bool) -> [u8; HEADER_BYTES] {
    let mut header = [b' '; HEADER_BYTES];
    header[..STAMP_BYTES].copy_from_slice(stamp.as_bytes());
    header[STAMP_BYTES + 1..STAMP_BYTES + 7].copy_from_slice(stream.as_str().as_bytes());
    header[STAMP_BYTES + 8] = if partial { b'P' } else { b'F' };
    header
}

/// So much of a job's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    pub bytes: u64,
    /// Line feeds.
    pub lines: u64,
}

impl Amount {
    pub fn is_nothing(self) -> bool {
        self == Amount::default()
    }

    pub fn add(&mut self, more: Amount) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.lines = self.lines.saturating_add(more.lines);
    }

    #[must_use]
    pub fn less(self, other: Amount) -> Amount {
        Amount {
            bytes: self.bytes.saturating_sub(other.bytes),
            lines: self.lines.saturating_sub(other.lines),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} lines", self.bytes, self.lines)
    }
}

/// What a record of [`Stream::Matins`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// First and last in each file: how much the attempt had written up to here. Between two files
    /// that do not meet, the difference is what is missing.
    At(Amount),
    /// The output is over; how much it was.
    Ended(Amount),
    /// Missing here, and why.
    Dropped(Amount, String),
    /// Anything else that a reader should know.
    Note(String),
}

const AT: &str = "so far: ";
const ENDED: &str = "the end of the output: ";
const DROPPED: &str = "dropped: ";

impl Mark {
    /// Reads the content of a record of [`Stream::Matins`].
    pub fn parse(content: &[u8]) -> Mark {
        let text = String::from_utf8_lossy(content);
        let mark = if let Some(amount) = text.strip_prefix(AT) {
            parse_amount(amount).map(Mark::At)
        } else if let Some(amount) = text.strip_prefix(ENDED) {
            parse_amount(amount).map(Mark::Ended)
        } else if let Some(rest) = text.strip_prefix(DROPPED) {
            rest.split_once(": ").and_then(|(amount, why)| {
                Some(Mark::Dropped(parse_amount(amount)?, why.to_owned()))
            })
        } else {
            None
        };
        mark.unwrap_or_else(|| Mark::Note(text.into_owned()))
    }

    /// Appends it as a record.
    pub fn write_to(&self, stamp: Stamp, out: &mut Vec<u8>) {
        out.extend_from_slice(&header(stamp, Stream::Matins, false));
        let start = out.len();
        // A vector takes every write.
        let _ = write!(out, "{self}");
        for byte in &mut out[start..] {
            // An error of the system is quoted in some: a record stays one line.
            if *byte == b'\n' {
                *byte = b' ';
            }
        }
        out.truncate(start + CONTENT_BYTES_MAX.min(out.len() - start));
        out.push(b'\n');
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::At(amount) => write!(f, "{AT}{amount}"),
            Mark::Ended(amount) => write!(f, "{ENDED}{amount}"),
            Mark::Dropped(amount, why) => write!(f, "{DROPPED}{amount}: {why}"),
            Mark::Note(text) => f.write_str(text),
        }
    }
}

fn parse_amount(text: &str) -> Option<Amount> {
    let (bytes, lines) = text.split_once(" bytes, ")?;
    Some(Amount {
        bytes: bytes.parse().ok()?,
        lines: lines.strip_suffix(" lines")?.parse().ok()?,
    })
}

/// What of an attempt's output is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub token: Token,
    /// Only of this stream. What Matins says of the output comes in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Only what was read from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<WallMs>,
    /// Of that, only the last so many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Go on until the output has ended.
    #[serde(default)]
    pub follow: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_that_people_can_read() {
        let stamp = Stamp::from_micros(1_795_993_501_123_456);
        let mut out = Vec::new();
        let record = Record {
            stamp,
            stream: Stream::Stdout,
            partial: false,
            content: b"a \xff\0line",
        };
        record.write_to(&mut out);
        assert_eq!(out, b"2026-11-29T23:05:01.123456Z stdout F a \xff\0line\n");
        assert_eq!(Record::parse(&out[..out.len() - 1]), Some(record));
        assert_eq!(record.raw().concat(), b"a \xff\0line\n");
        let part = Record {
            partial: true,
            ..record
        };
        assert_eq!(part.raw().concat(), b"a \xff\0line");
    }

    #[test]
    fn what_is_no_record_is_none() {
        for line in [
            "",
            "2026-11-29T23:05:01.123456Z stdout F",
            "2026-11-29T23:05:01.123456Z stdout X text",
            "2026-11-29T23:05:01.123456Z stdin  F text",
            "2026-11-29T23:05:01.123456Z_stdout F text",
            "2026-11-29T23:05:01.12345678 stdout F text",
        ] {
            assert_eq!(Record::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn stamps_compare_as_time_does() {
        let stamps = [0, 1, 999_999, 1_000_000, 1_795_993_501_123_456].map(Stamp::from_micros);
        assert!(stamps.is_sorted());
        assert_eq!(
            Stamp::from_wall(WallMs(1_500)).as_str(),
            "1970-01-01T00:00:01.500000Z"
        );
        let all = [i64::MIN, -1, 0, i64::MAX].map(Stamp::from_micros);
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn marks_read_as_they_were_written() {
        let amount = Amount { bytes: 7, lines: 2 };
        for mark in [
            Mark::At(amount),
            Mark::Ended(amount),
            Mark::Dropped(amount, "the disk was full: 3 times".to_owned()),
            Mark::Note("the log writer was started anew".to_owned()),
            Mark::Note("dropped: much".to_owned()),
        ] {
            let mut out = Vec::new();
            mark.write_to(Stamp::from_micros(0), &mut out);
            let record = Record::parse(out.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(record.stream, Stream::Matins);
            assert_eq!(Mark::parse(record.content), mark);
            assert_eq!(record.raw().concat(), b"");
        }
        let mut out = Vec::new();
        Mark::Note("two\nlines".to_owned()).write_to(Stamp::from_micros(0), &mut out);
        assert_eq!(
            out.split(|&b| b == b'\n').count(),
            2,
            "one line and nothing after it"
        );
    }
}
