//! Reads an output as one stream of records while it is being written.
//!
//! Files are read in their order. One that a reader has open stays readable when the log writer
//! has removed it, so a reader loses its place only by being slower than what is kept turns over;
//! what it missed then is told by the marks at both sides of the gap.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memchr_iter;
use protocol::attempt::OUTPUT_TAIL_BYTES_MAX;
use protocol::output::{Amount, HEADER_BYTES, Mark, Record, Stamp, Stream, Wanted};

use super::layout::{Part, is_open, read_parts};

const READ_BYTES: usize = 64 * 1024;

const MIDDLE: &str = "only the first and the last of a long output are kept";

/// How far a reader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more.
    More,
    /// There is no more now; there may be later.
    Waiting,
    /// There is no more and never will be.
    Over,
}

pub(crate) struct Reader {
    directory: PathBuf,
    filter: Filter,
    /// Lines yet to be passed over.
    skip: u64,
    open: Option<(Part, File)>,
    /// Read and not yet looked at.
    unseen: Vec<u8>,
    /// How much of the output there was where the last file ended, as far as that is known.
    at: Option<Amount>,
    /// Nothing of the open file has been looked at.
    is_at_start: bool,
    /// The file after the open one has been seen.
    next_seen: Option<Part>,
    ended: bool,
}

#[derive(Clone, Copy)]
struct Filter {
    stream: Option<Stream>,
    since: Option<Stamp>,
}

impl Filter {
    fn passes(self, record: &Record<'_>) -> bool {
        let of_stream = self
            .stream
            .is_none_or(|stream| [stream, Stream::Matins].contains(&record.stream));
        of_stream && self.since.is_none_or(|since| record.stamp >= since)
    }
}

impl Reader {
    /// An error of the kind `NotFound` says that there is no such output.
    pub(crate) fn open(directory: PathBuf, wanted: &Wanted) -> io::Result<Reader> {
        let parts = read_parts(&directory)?;
        let filter = Filter {
            stream: wanted.stream,
            since: wanted.since.map(Stamp::from_wall),
        };
        let mut reader = Reader {
            directory,
            filter,
            skip: 0,
            open: None,
            unseen: Vec::new(),
            at: Some(Amount::default()),
            is_at_start: true,
            next_seen: None,
            ended: false,
        };
        if let Some(lines) = wanted.tail {
            reader.go_to_last(&parts, lines)?;
        }
        Ok(reader)
    }

    /// Goes to the file in which the last so many lines begin.
    fn go_to_last(&mut self, parts: &[Part], lines: u64) -> io::Result<()> {
        let mut found = 0;
        for &part in parts.iter().rev() {
            let file = match File::open(part.path(&self.directory)) {
                Ok(file) => file,
                // It has been driven out meanwhile, and what is older has been, too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            found += count_lines(file, self.filter)?;
            self.open = Some((part, File::open(part.path(&self.directory))?));
            self.at = None;
            if found >= lines {
                break;
            }
        }
        self.skip = found.saturating_sub(lines);
        Ok(())
    }

    /// Appends records to `out`, a little more than `bytes` of them at the most.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, bytes: usize) -> io::Result<Progress> {
        let mut was_open = true;
        loop {
            self.take_records(out, bytes);
            if out.len() >= bytes {
                return Ok(Progress::More);
            }
            if self.refill()? || self.go_on()? {
                continue;
            }
            if self.ended || !was_open {
                return Ok(Progress::Over);
            }
            // Looked at before the last read: what was written until then has been read.
            was_open = is_open(&self.directory)?;
            if was_open {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// Takes whole records out of what has been read.
    fn take_records(&mut self, out: &mut Vec<u8>, bytes: usize) {
        let unseen = std::mem::take(&mut self.unseen);
        let mut start = 0;
        for end in memchr_iter(b'\n', &unseen) {
            self.take_line(&unseen[start..end], out);
            start = end + 1;
            if out.len() >= bytes {
                break;
            }
        }
        self.unseen = unseen;
        self.unseen.drain(..start);
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(record) = Record::parse(line) else {
            return;
        };
        let is_first = std::mem::replace(&mut self.is_at_start, false);
        // Known only where a mark tells it.
        let at = self.at.take();
        let passes = self.filter.passes(&record);
        if record.stream == Stream::Matins {
            match Mark::parse(record.content) {
                Mark::At(amount) => {
                    let missing = amount.less(at.unwrap_or(amount));
                    let is_wanted = passes && self.skip == 0;
                    if is_first && missing.bytes > 0 && is_wanted {
                        Mark::Dropped(missing, MIDDLE.to_owned()).write_to(record.stamp, out);
                    }
                    self.at = Some(amount);
                    return;
                }
                Mark::Ended(_) => {
                    self.ended = true;
                    return;
                }
                Mark::Dropped(..) | Mark::Note(_) => {}
            }
        }
        if !passes {
            return;
        }
        if self.skip > 0 {
            self.skip -= u64::from(is_line(&record));
            return;
        }
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    /// Reads more of the open file; whether there was more.
    fn refill(&mut self) -> io::Result<bool> {
        let Some((_, file)) = &mut self.open else {
            return Ok(false);
        };
        let before = self.unseen.len();
        self.unseen.resize(before + READ_BYTES, 0);
        let read = file.read(&mut self.unseen[before..]);
        let count = read.as_ref().map_or(0, |&count| count);
        self.unseen.truncate(before + count);
        Ok(read? > 0)
    }

    /// Goes on to the next file; whether there was one. It is made before the last is closed with
    /// its mark, so the last is read once more when the next has been seen.
    fn go_on(&mut self) -> io::Result<bool> {
        let parts = match read_parts(&self.directory) {
            Ok(parts) => parts,
            // Removed: what is open is all there is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let current = self.open.as_ref().map(|(part, _)| *part);
        let mut later = parts.into_iter().filter(|&part| Some(part) > current);
        let Some(next) = later.next() else {
            return Ok(false);
        };
        if self.next_seen != Some(next) && current.is_some() {
            self.next_seen = Some(next);
            return Ok(true);
        }
        match File::open(next.path(&self.directory)) {
            Ok(file) => {
                self.open = Some((next, file));
                self.is_at_start = true;
                // A record without its end was torn by the death of the log writer.
                self.unseen.clear();
            }
            // Driven out already: the one after it is there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

/// Whether a line ends with this record.
fn is_line(record: &Record<'_>) -> bool {
    record.stream != Stream::Matins && !record.partial
}

/// How many lines of a file are wanted; one that has no end yet counts as well.
fn count_lines(mut file: File, filter: Filter) -> io::Result<u64> {
    let mut lines = 0;
    let mut begun = false;
    let mut unseen = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(lines + u64::from(begun));
        }
        unseen.extend_from_slice(&piece[..count]);
        let mut start = 0;
        for end in memchr_iter(b'\n', &unseen) {
            let record = Record::parse(&unseen[start..end]);
            if let Some(record) = record.filter(|record| filter.passes(record)) {
                lines += u64::from(is_line(&record));
                begun = record.partial;
            }
            start = end + 1;
        }
        unseen.drain(..start);
    }
}

/// The last of what an attempt has written, both streams in their order, at most
/// [`OUTPUT_TAIL_BYTES_MAX`] bytes and always text.
pub(crate) fn read_tail(directory: &Path) -> io::Result<String> {
    let mut tail = Vec::new();
    for part in read_parts(directory)?.into_iter().rev() {
        let mut file = File::open(part.path(directory))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_RECORDS_BYTES)))?;
        let mut records = Vec::new();
        // A process that escaped may still be writing.
        file.take(TAIL_RECORDS_BYTES).read_to_end(&mut records)?;
        let mut content = Vec::new();
        // The first line may be half a record, which is none.
        for record in records
            .split(|&byte| byte == b'\n')
            .filter_map(Record::parse)
        {
            record
                .raw()
                .iter()
                .for_each(|piece| content.extend_from_slice(piece));
        }
        content.extend_from_slice(&tail);
        tail = content;
        if tail.len() >= OUTPUT_TAIL_BYTES_MAX {
            break;
        }
    }
    tail.drain(..tail.len().saturating_sub(OUTPUT_TAIL_BYTES_MAX));
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

/// Records of so many bytes hold a whole tail, if every line of it is empty.
const TAIL_RECORDS_BYTES: u64 = (OUTPUT_TAIL_BYTES_MAX * (HEADER_BYTES + 1)) as u64;

#[cfg(test)]
mod tests {
    use protocol::{Token, WallMs};

    use super::*;

    /// An output of which the middle has been driven out: a first line and, later, a last one.
    fn without_its_middle() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let at = |bytes, lines| Mark::At(Amount { bytes, lines });
        let write = |part: Part, ms: i64, line: &[u8], marks: [Mark; 2]| {
            let stamp = Stamp::from_wall(WallMs(ms));
            let [before, after] = marks;
            let mut records = Vec::new();
            before.write_to(stamp, &mut records);
            Record {
                stamp,
                stream: Stream::Stdout,
                partial: false,
                content: line,
            }
            .write_to(&mut records);
            after.write_to(stamp, &mut records);
            std::fs::write(part.path(home.path()), records).unwrap();
        };
        write(Part::HEAD, 1_000, b"first", [at(0, 0), at(6, 1)]);
        let end = Mark::Ended(Amount {
            bytes: 111,
            lines: 12,
        });
        write(Part(3), 2_000, b"last", [at(106, 11), end]);
        home
    }

    fn read(home: &tempfile::TempDir, since: Option<WallMs>, tail: Option<u64>) -> Vec<String> {
        let wanted = Wanted {
            token: Token(1),
            stream: None,
            since,
            tail,
            follow: false,
        };
        let mut reader = Reader::open(home.path().to_owned(), &wanted).unwrap();
        let mut out = Vec::new();
        assert_eq!(reader.read(&mut out, usize::MAX).unwrap(), Progress::Over);
        let records = out.split(|&byte| byte == b'\n').filter_map(Record::parse);
        let text = |record: Record<'_>| String::from_utf8_lossy(record.content).into_owned();
        records.map(text).collect()
    }

    #[test]
    fn what_is_missing_is_told_where_it_would_be_wanted() {
        let home = without_its_middle();
        let missing = Mark::Dropped(
            Amount {
                bytes: 100,
                lines: 10,
            },
            MIDDLE.to_owned(),
        );
        let missing = missing.to_string();
        assert_eq!(read(&home, None, None), ["first", &missing, "last"]);
        let since = |ms| Some(WallMs(ms));
        assert_eq!(read(&home, since(2_000), None), [&missing, "last"]);
        assert_eq!(read(&home, since(2_001), None), [""; 0]);
        assert_eq!(read(&home, None, Some(1)), ["last"]);
        assert_eq!(read(&home, None, Some(2)), ["first", &missing, "last"]);
    }
}
