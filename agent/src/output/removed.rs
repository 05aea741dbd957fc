//! Which outputs were removed, when and why: for whoever asks for one later.
//!
//! A file of lines `TOKEN MILLISECONDS WHY` beside the outputs. It is a help and no more: where it
//! is lost, it is not known why an output is not there.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use protocol::WallMs;

const FILE: &str = "removed";

/// Longer than this it loses its older half.
const BYTES_MAX: u64 = 1 << 20;

/// Why an output had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Age,
    Total,
    Number,
    DiskFull,
}

impl Why {
    const ALL: [Why; 4] = [Why::Age, Why::Total, Why::Number, Why::DiskFull];

    const fn as_str(self) -> &'static str {
        match self {
            Why::Age => "age",
            Why::Total => "total",
            Why::Number => "number",
            Why::DiskFull => "disk_full",
        }
    }

    const fn in_words(self) -> &'static str {
        match self {
            Why::Age => "it was older than is kept (--output-age of that host's agent)",
            Why::Total => "all output there took more than it may (--output-total of its agent)",
            Why::Number => "more outputs were there than are kept",
            Why::DiskFull => "the disk there was full",
        }
    }
}

/// Notes that these were removed now. `directory` is that of all outputs.
pub(super) fn note(directory: &Path, gone: &[(i64, Why)], now: WallMs) -> io::Result<()> {
    let path = directory.join(FILE);
    let mut lines = String::new();
    for (token, why) in gone {
        // A string takes every write.
        let _ = writeln!(lines, "{token} {} {}", now.0, why.as_str());
    }
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    file.write_all(lines.as_bytes())?;
    if file.metadata()?.len() > BYTES_MAX {
        let text = fs::read_to_string(&path)?;
        let half = text.len() / 2;
        let from = text[half..].find('\n').map_or(half, |at| half + at + 1);
        let shorter = directory.join("removed.new");
        fs::write(&shorter, &text[from..])?;
        fs::rename(&shorter, &path)?;
    }
    Ok(())
}

/// Why this output is not there, in words; `None` where nobody knows.
pub(super) fn why(directory: &Path, token: i64) -> io::Result<Option<String>> {
    let text = match fs::read_to_string(directory.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    Ok(text.lines().rev().find_map(|line| {
        let mut words = line.split(' ');
        let of = words.next()?.parse::<i64>().ok()?;
        let at = WallMs(words.next()?.parse().ok()?);
        let word = words.next()?;
        let why = Why::ALL.into_iter().find(|why| why.as_str() == word)?;
        (of == token).then(|| format!("removed at {}: {}", at.to_rfc3339(), why.in_words()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_word_is_found_and_the_file_stays_short() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(why(home.path(), 7).unwrap(), None);
        note(home.path(), &[(7, Why::Total), (8, Why::Age)], WallMs(0)).unwrap();
        note(home.path(), &[(7, Why::DiskFull)], WallMs(1_000)).unwrap();
        assert_eq!(
            why(home.path(), 7).unwrap().as_deref(),
            Some("removed at 1970-01-01T00:00:01Z: the disk there was full")
        );
        let many: Vec<(i64, Why)> = (1_000..80_000).map(|token| (token, Why::Age)).collect();
        note(home.path(), &many, WallMs(2_000)).unwrap();
        let length = fs::metadata(home.path().join(FILE)).unwrap().len();
        assert!(length < BYTES_MAX, "{length}");
        assert_eq!(why(home.path(), 7).unwrap(), None, "too long ago");
        assert!(why(home.path(), 79_999).unwrap().is_some());
    }
}
