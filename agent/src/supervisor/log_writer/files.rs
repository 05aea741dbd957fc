//! The files of one output: bounded, whatever is printed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use protocol::output::{Amount, Mark, Record, Stamp, Stream};

use crate::output::layout::{ABOUT, Part, read_parts};

/// The head takes this share of what may be kept.
const HEAD_SHARE: u64 = 4;
/// Each tail takes this share, and so many tails stay: what the head leaves.
const TAIL_SHARE: u64 = 8;
const TAILS_KEPT: u64 = 6;

/// Least that may be allowed to one output: a tail must hold more than one write.
const BYTES_MAX_LEAST: u64 = 1024 * 1024;

/// Room in each file for the mark that closes it.
const MARK_ROOM: u64 = 128;

pub(super) struct Files {
    directory: PathBuf,
    /// Content of the file that says whose output this is.
    about: String,
    bytes_max: u64,
    open: Option<Open>,
}

struct Open {
    /// Its lock says that this output is not over.
    about: Flock<File>,
    file: File,
    part: Part,
    length: u64,
}

impl Files {
    pub(super) fn new(directory: PathBuf, about: String, bytes_max: u64) -> Files {
        Files {
            directory,
            about,
            bytes_max: bytes_max.max(BYTES_MAX_LEAST),
            open: None,
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether the head is full, so that what comes drives out what came.
    pub(super) fn is_past_head(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.part > Part::HEAD)
    }

    /// How much of this output an earlier log writer has written.
    pub(super) fn read_amount(&self) -> io::Result<Amount> {
        match read_parts(&self.directory) {
            Ok(parts) => parts.last().map_or(Ok(Amount::default()), |part| {
                read_end(&part.path(&self.directory))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Amount::default()),
            Err(error) => Err(error),
        }
    }

    /// Makes the files if there are none yet. What is written first comes after `at`.
    pub(super) fn open(&mut self, at: Amount, stamp: Stamp) -> io::Result<()> {
        if self.open.is_none() {
            self.open = Some(self.begin(at, stamp)?);
        }
        Ok(())
    }

    /// Writes whole records, which come after `at` of the output. Of a write that fails, nothing
    /// stays.
    pub(super) fn write(&mut self, records: &[u8], at: Amount, stamp: Stamp) -> io::Result<()> {
        self.open(at, stamp)?;
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let share = if open.part == Part::HEAD {
            HEAD_SHARE
        } else {
            TAIL_SHARE
        };
        let full = self.bytes_max / share - MARK_ROOM;
        if open.length + records.len() as u64 > full {
            self.rotate(at, stamp)?;
        }
        match &mut self.open {
            Some(open) => open.append(records),
            None => Ok(()),
        }
    }

    /// Says that the output is over, and lets its files go.
    pub(super) fn close(&mut self, at: Amount, stamp: Stamp) -> io::Result<()> {
        let mut mark = Vec::new();
        Mark::Ended(at).write_to(stamp, &mut mark);
        let written = self.write(&mark, at, stamp);
        self.open = None;
        written
    }

    /// Lets the files go if somebody has removed them: what is written then is seen again.
    pub(super) fn forget_removed(&mut self) {
        let is_gone = |file: &File| file.metadata().is_ok_and(|found| found.nlink() == 0);
        if let Some(open) = &self.open
            && (is_gone(&open.about) || is_gone(&open.file))
        {
            self.open = None;
        }
    }

    #[cfg(test)]
    pub(super) fn replace_file(&mut self, file: File) {
        if let Some(open) = &mut self.open {
            open.file = file;
        }
    }

    fn begin(&self, at: Amount, stamp: Stamp) -> io::Result<Open> {
        let mut builder = DirBuilder::new();
        builder.mode(0o750);
        let is_new = builder.create(&self.directory).is_ok();
        if !is_new {
            builder.recursive(true).create(&self.directory)?;
        }
        let about = create(&self.directory.join(ABOUT))?;
        about.write_all_at(self.about.as_bytes(), 0)?;
        let about = Flock::lock(about, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        let parts = if is_new {
            Vec::new()
        } else {
            read_parts(&self.directory)?
        };
        let part = parts.last().map_or(Part::HEAD, |newest| newest.next());
        let file = create(&part.path(&self.directory))?;
        let mut open = Open {
            about,
            file,
            part,
            length: 0,
        };
        if !at.is_nothing() {
            open.append(&mark_at(at, stamp))?;
        }
        Ok(open)
    }

    /// Closes the file being written and goes on in the next. The oldest tail goes.
    fn rotate(&mut self, at: Amount, stamp: Stamp) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let mark = mark_at(at, stamp);
        let part = open.part.next();
        // The next file first: a file that ends with its mark is one that has a next.
        let next = create(&part.path(&self.directory))?;
        if let Err(error) = open.append(&mark) {
            tracing::debug!(%error, "a file of an output ends without its mark");
        }
        open.file = next;
        open.part = part;
        open.length = 0;
        if part.0 > TAILS_KEPT {
            let oldest = Part(part.0 - TAILS_KEPT).path(&self.directory);
            match fs::remove_file(&oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        open.append(&mark)
    }
}

impl Open {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        match self.file.write_all_at(records, self.length) {
            Ok(()) => {
                self.length += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What was written of it would be a torn record. Where even this fails, the next
                // write covers it.
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o640)
        .open(path)
}

fn mark_at(at: Amount, stamp: Stamp) -> Vec<u8> {
    let mut mark = Vec::new();
    Mark::At(at).write_to(stamp, &mut mark);
    mark
}

/// How much of the output there was at the end of this file.
fn read_end(path: &Path) -> io::Result<Amount> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut at = Amount::default();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(record) = line.strip_suffix(b"\n").and_then(Record::parse) {
            match record.stream {
                Stream::Stdout | Stream::Stderr => at.add(Amount {
                    bytes: record.raw().iter().map(|piece| piece.len() as u64).sum(),
                    lines: u64::from(!record.partial),
                }),
                Stream::Matins => match Mark::parse(record.content) {
                    Mark::At(amount) | Mark::Ended(amount) => at = amount,
                    Mark::Dropped(amount, _) => at.add(amount),
                    Mark::Note(_) => {}
                },
            }
        }
        line.clear();
    }
    Ok(at)
}
