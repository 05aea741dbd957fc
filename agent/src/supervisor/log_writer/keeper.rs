//! What becomes of the bytes of one attempt: records, in bounded files, and never a wait.
//!
//! Lines become records as they come. What is begun and not ended waits a moment for its line
//! feed. When the head is full and a job prints faster than the tails are meant to turn over, only
//! the newest of each second is kept beside what was kept in full: making records of what would
//! be dropped at once could not keep up with a job that prints single letters, and the job would
//! wait. What cannot be written, because the disk is full, is dropped and counted, and the file
//! says so as soon as it can. A disk that takes nothing would take nothing of others either, and
//! the host starts no more; where this one output cannot be written, that is its own misfortune.

use std::io;

use memchr::memchr_iter;
use nix::errno::Errno;
use protocol::output::{Amount, CONTENT_BYTES_MAX, HEADER_BYTES, Mark, Stamp, Stream, header};
use protocol::{BootMs, DurationMs};

use super::burst::Burst;
use super::files::Files;

/// Records are written when so many bytes of them have come together.
const WRITE_BYTES: usize = 64 * 1024;

/// A line that is begun is written as a part after this long.
const LINE_WAIT: DurationMs = DurationMs(100);

/// What is kept in full is measured over so long.
const WINDOW: DurationMs = DurationMs(1_000);

/// A disk that took nothing is tried again after this long.
const RETRY: DurationMs = DurationMs(1_000);

/// Of a burst at most this share of what may be kept is held.
const BURST_SHARE: u64 = 128;

const TOO_FAST: &str = "printed faster than is kept";

/// The clocks, read once for all that is at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) boot: BootMs,
    pub(super) stamp: Stamp,
}

/// Records on their way to a file. One serves all attempts.
#[derive(Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// Of the job's output in them.
    content: Amount,
}

pub(super) struct Keeper {
    files: Files,
    /// Begun lines of standard output and standard error.
    begun: [Vec<u8>; 2],
    last_input: BootMs,
    /// How much of the output is written, or dropped and counted.
    at: Amount,
    burst: Option<Burst>,
    window: Window,
    unwritable: Option<Unwritable>,
}

struct Window {
    start: BootMs,
    written: u64,
}

/// Nothing of this output can be written just now.
struct Unwritable {
    why: String,
    /// The disk is at fault, and not what lies on it.
    is_disks: bool,
    dropped: Amount,
    retry_at: BootMs,
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

impl Keeper {
    pub(super) fn new(files: Files, now: Moment) -> Keeper {
        Keeper {
            files,
            begun: [Vec::new(), Vec::new()],
            last_input: now.boot,
            at: Amount::default(),
            burst: None,
            window: Window {
                start: now.boot,
                written: 0,
            },
            unwritable: None,
        }
    }

    /// Makes the files. `resumed`: an earlier log writer may have written some of them.
    pub(super) fn begin(&mut self, resumed: bool, now: Moment) {
        let begun = if resumed {
            let amount = self.files.read_amount();
            amount.and_then(|at| {
                self.at = at;
                let mut note = Vec::new();
                Mark::Note(
                    "the log writer was started anew here: a line may be torn or missing".into(),
                )
                .write_to(now.stamp, &mut note);
                self.files.write(&note, at, now.stamp)
            })
        } else {
            self.files.open(self.at, now.stamp)
        };
        if let Err(error) = begun {
            self.fail(&error, Amount::default(), now.boot);
        }
    }

    /// Why no other output could be written either just now.
    pub(super) fn trouble(&self) -> Option<&str> {
        let of_disk = self.unwritable.as_ref().filter(|u| u.is_disks);
        of_disk.map(|u| u.why.as_str())
    }

    /// Whether [`Keeper::tick`] is wanted before long.
    pub(super) fn is_restless(&self) -> bool {
        self.burst.is_some()
            || self.unwritable.is_some()
            || self.begun.iter().any(|begun| !begun.is_empty())
    }

    pub(super) fn is_bursting(&self) -> bool {
        self.burst.is_some()
    }

    /// Takes what was read. `burst_bytes_max` is what may be held of a burst.
    pub(super) fn take(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        burst_bytes_max: usize,
        records: &mut Records,
        now: Moment,
    ) {
        self.last_input = now.boot;
        self.turn_window(records, now);
        if self.burst.is_none() && self.is_too_fast() {
            self.end_begun(records, now);
            self.write(records, now);
            self.burst = Some(Burst::default());
        }
        if let Some(burst) = &mut self.burst {
            // As records it may be twenty times as long, and must still fit the tails.
            let share = self.files.bytes_max() / BURST_SHARE;
            let bytes_max = burst_bytes_max.min(share.try_into().unwrap_or(usize::MAX));
            burst.push(stream, bytes, bytes_max);
        } else {
            self.record(stream, bytes, records, now);
            self.write(records, now);
        }
    }

    /// Does what has waited long enough.
    pub(super) fn tick(&mut self, records: &mut Records, now: Moment) {
        self.turn_window(records, now);
        if now.boot - self.last_input >= LINE_WAIT {
            self.end_begun(records, now);
            self.write(records, now);
        }
        if self
            .unwritable
            .as_ref()
            .is_some_and(|u| u.retry_at <= now.boot)
        {
            self.write_what_is_missing(now);
        }
        self.files.forget_removed();
    }

    /// The output is over, for this reason if it is not the ordinary one. It is handed back where
    /// what is missing of it, or that it is over, cannot be said yet.
    pub(super) fn end(
        mut self,
        note: Option<&str>,
        records: &mut Records,
        now: Moment,
    ) -> Option<Keeper> {
        self.pour_burst(records, now);
        self.end_begun(records, now);
        if let Some(note) = note {
            Mark::Note(note.to_owned()).write_to(now.stamp, &mut records.bytes);
        }
        if let Some(unwritable) = &mut self.unwritable {
            unwritable.retry_at = now.boot;
        }
        self.write(records, now);
        self.say_last_words(now)
    }

    /// Tries to say what is still to be said of an output that is over. It is handed back while the
    /// disk does not take even that.
    pub(super) fn say_last_words(mut self, now: Moment) -> Option<Keeper> {
        let waits = self.unwritable.as_ref().map(|u| u.retry_at > now.boot);
        if waits == Some(true) || !self.write_what_is_missing(now) {
            return self.or_give_up();
        }
        if let Err(error) = self.files.close(self.at, now.stamp) {
            self.fail(&error, Amount::default(), now.boot);
            return self.or_give_up();
        }
        None
    }

    /// A disk has room again one day; whatever else stands in the way does not go by itself.
    fn or_give_up(self) -> Option<Keeper> {
        if self.trouble().is_some() {
            return Some(self);
        }
        self.give_up();
        None
    }

    /// What was not said will not be.
    pub(super) fn give_up(self) {
        if let Some(Unwritable { why, dropped, .. }) = self.unwritable {
            let directory = self.files.directory().display();
            if dropped.is_nothing() {
                tracing::warn!(%directory, why, "that an output has ended is not written");
            } else {
                tracing::error!(%directory, why, %dropped, "the last of an output is lost");
            }
        }
    }

    fn is_too_fast(&self) -> bool {
        self.files.is_past_head() && self.window.written > self.files.bytes_max() / 2
    }

    fn turn_window(&mut self, records: &mut Records, now: Moment) {
        if now.boot - self.window.start < WINDOW {
            return;
        }
        self.window = Window {
            start: now.boot,
            written: 0,
        };
        self.files.forget_removed();
        self.pour_burst(records, now);
    }

    fn pour_burst(&mut self, records: &mut Records, now: Moment) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let (dropped, chunks) = burst.into_parts();
        if !dropped.is_nothing() {
            Mark::Dropped(dropped, TOO_FAST.to_owned()).write_to(now.stamp, &mut records.bytes);
            records.content.add(dropped);
        }
        for (stream, bytes) in chunks {
            self.record(stream, &bytes, records, now);
        }
        self.write(records, now);
    }

    /// Makes records of what has come; what is begun and not ended is kept back.
    fn record(&mut self, stream: Stream, bytes: &[u8], records: &mut Records, now: Moment) {
        let whole = header(now.stamp, stream, false);
        let part = header(now.stamp, stream, true);
        let mut begun = std::mem::take(&mut self.begun[index(stream)]);
        let mut start = 0;
        for end in memchr_iter(b'\n', bytes) {
            let mut line = &bytes[start..end];
            start = end + 1;
            line = fill(&mut begun, line, &part, records);
            records.push(&whole, &[&begun, line], 1);
            begun.clear();
            if records.bytes.len() >= WRITE_BYTES {
                self.write(records, now);
            }
        }
        let rest = fill(&mut begun, &bytes[start..], &part, records);
        begun.extend_from_slice(rest);
        if begun.is_empty() {
            // Its memory is for those who need it.
            begun = Vec::new();
        }
        self.begun[index(stream)] = begun;
    }

    fn end_begun(&mut self, records: &mut Records, now: Moment) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let begun = std::mem::take(&mut self.begun[index(stream)]);
            if !begun.is_empty() {
                records.push(&header(now.stamp, stream, true), &[&begun], 0);
            }
        }
    }

    /// Writes the records that have come together. They are gone afterwards in any case.
    fn write(&mut self, records: &mut Records, now: Moment) {
        if records.bytes.is_empty() {
            return;
        }
        let content = std::mem::take(&mut records.content);
        let is_writable = match &mut self.unwritable {
            Some(unwritable) if unwritable.retry_at > now.boot => {
                unwritable.dropped.add(content);
                self.at.add(content);
                false
            }
            Some(_) => self.write_what_is_missing(now),
            None => true,
        };
        if is_writable {
            match self.files.write(&records.bytes, self.at, now.stamp) {
                Ok(()) => {
                    self.at.add(content);
                    self.window.written += records.bytes.len() as u64;
                }
                Err(error) => self.fail(&error, content, now.boot),
            }
        }
        records.bytes.clear();
    }

    /// Tries the disk again with the word of what was dropped; whether it takes writes.
    fn write_what_is_missing(&mut self, now: Moment) -> bool {
        let Some(unwritable) = &self.unwritable else {
            return true;
        };
        let mut mark = Vec::new();
        if !unwritable.dropped.is_nothing() {
            Mark::Dropped(unwritable.dropped, unwritable.why.clone())
                .write_to(now.stamp, &mut mark);
        }
        match self.files.write(&mark, self.at, now.stamp) {
            Ok(()) => {
                self.unwritable = None;
                true
            }
            Err(error) => {
                self.fail(&error, Amount::default(), now.boot);
                false
            }
        }
    }

    fn fail(&mut self, error: &io::Error, content: Amount, now: BootMs) {
        self.at.add(content);
        let unwritable = self.unwritable.get_or_insert_with(|| Unwritable {
            why: String::new(),
            is_disks: false,
            dropped: Amount::default(),
            retry_at: now,
        });
        unwritable.is_disks = is_disks(error);
        unwritable.why = if unwritable.is_disks {
            format!("the disk did not take it: {error}")
        } else {
            format!("it could not be written: {error}")
        };
        unwritable.dropped.add(content);
        unwritable.retry_at = now + RETRY;
    }
}

/// Whether whatever else is written to the same disk fares alike.
fn is_disks(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS | Errno::EIO)
    )
}

impl Records {
    fn push(&mut self, header: &[u8; HEADER_BYTES], content: &[&[u8]], lines: u64) {
        self.bytes.extend_from_slice(header);
        let mut bytes = lines;
        for piece in content {
            self.bytes.extend_from_slice(piece);
            bytes += piece.len() as u64;
        }
        self.bytes.push(b'\n');
        self.content.add(Amount { bytes, lines });
    }
}

/// Makes parts of a line that begins in `begun` and is too long for one record. What is left of
/// the line fits a record together with what is left in `begun`.
fn fill<'a>(
    begun: &mut Vec<u8>,
    mut line: &'a [u8],
    part: &[u8; HEADER_BYTES],
    records: &mut Records,
) -> &'a [u8] {
    if !begun.is_empty() && begun.len() + line.len() > CONTENT_BYTES_MAX {
        let (filling, rest) = line.split_at(CONTENT_BYTES_MAX - begun.len());
        records.push(part, &[begun, filling], 0);
        begun.clear();
        line = rest;
    }
    if begun.is_empty() {
        line = split(line, part, records);
    }
    line
}

/// Makes parts of a line that is too long for one record; what is left fits.
fn split<'a>(mut line: &'a [u8], part: &[u8; HEADER_BYTES], records: &mut Records) -> &'a [u8] {
    while line.len() > CONTENT_BYTES_MAX {
        let (piece, rest) = line.split_at(CONTENT_BYTES_MAX);
        records.push(part, &[piece], 0);
        line = rest;
    }
    line
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
