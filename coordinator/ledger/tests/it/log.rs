//! The log's file: what was committed is there, in order, and nothing else is.

use std::fs;
use std::path::{Path, PathBuf};

use ledger::log::{LogEntry, LogError, LogFile, LogReader, Position, Vote};

use crate::wal;

const STORE: &str = "5eed";

fn at(index: u64) -> Position {
    Position {
        index,
        term: 3,
        node: 1,
    }
}

fn payload(index: u64) -> Vec<u8> {
    let length = usize::try_from(index * 37 % 9000).unwrap();
    vec![u8::try_from(index % 251).unwrap(); length]
}

fn open(path: &Path) -> LogFile {
    LogFile::open(path, STORE).unwrap()
}

fn append(log: &mut LogFile, indexes: impl IntoIterator<Item = u64>) {
    let mut write = log.begin().unwrap();
    for index in indexes {
        write.append(at(index), &payload(index)).unwrap();
    }
    write.commit().unwrap();
}

fn indexes(path: &Path) -> Vec<u64> {
    let entries = LogReader::open(path)
        .unwrap()
        .read(0..u64::MAX, usize::MAX)
        .unwrap();
    for LogEntry { at: place, bytes } in &entries {
        assert_eq!((*place, bytes), (at(place.index), &payload(place.index)));
    }
    entries.iter().map(|entry| entry.at.index).collect()
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    (directory, path)
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    let (_directory, path) = directory();
    let vote = Vote {
        term: 4,
        node: 2,
        granted: true,
    };
    {
        let mut log = open(&path);
        let fresh = log.head().unwrap();
        assert_eq!((fresh.vote, fresh.last, fresh.purged), (None, None, None));
        append(&mut log, 0..10);
        let mut write = log.begin().unwrap();
        write.vote(vote).unwrap();
        write.truncate_after(Some(7)).unwrap();
        write.append(at(8), &payload(8)).unwrap();
        write.purge(at(2), u32::MAX).unwrap();
        write.committed(at(6)).unwrap();
        write.commit().unwrap();
    }
    // The id is minted with the file; who opens it later does not give it another.
    let log = LogFile::open(&path, "another").unwrap();
    let head = log.head().unwrap();
    assert_eq!(head.store, STORE);
    assert_eq!(head.vote, Some(vote));
    assert_eq!(head.purged, Some(at(2)));
    assert_eq!(head.committed, Some(at(6)));
    assert_eq!(head.last, Some(at(8)));
    assert_eq!(indexes(&path), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_purge_goes_in_steps_from_the_front() {
    let (_directory, path) = directory();
    let mut log = open(&path);
    append(&mut log, 10..30);
    let mut ends = Vec::new();
    loop {
        let mut write = log.begin().unwrap();
        let all = write.purge(at(25), 7).unwrap();
        write.commit().unwrap();
        ends.push(log.head().unwrap().purged.unwrap().index);
        if all {
            break;
        }
    }
    assert_eq!(ends, [16, 23, 25]);
    assert_eq!(indexes(&path), [26, 27, 28, 29]);
}

#[test]
fn what_was_not_committed_was_not_written() {
    let (_directory, path) = directory();
    let mut log = open(&path);
    append(&mut log, 0..3);
    let before = log.head().unwrap();
    let mut write = log.begin().unwrap();
    write.append(at(3), b"lost").unwrap();
    write.truncate_after(Some(0)).unwrap();
    drop(write);
    assert_eq!(log.head().unwrap(), before);
    assert_eq!(indexes(&path), [0, 1, 2]);
}

#[test]
fn a_log_never_gets_a_hole() {
    /// What is done, and the only entry that can follow.
    type Case = (&'static [u64], Option<u64>, Option<u64>, u64);
    const CASES: &[Case] = &[
        (&[0, 1, 2], None, None, 3),
        (&[4, 5], None, None, 6),
        (&[4, 5], Some(4), None, 5),
        (&[4, 5], None, Some(4), 6),
        (&[4, 5], None, Some(5), 6),
        // As when a snapshot has brought more than the log has.
        (&[4, 5], None, Some(20), 21),
        (&[], None, Some(20), 21),
    ];
    for (appended, truncated, purged, next) in CASES {
        let (_directory, path) = directory();
        let mut log = open(&path);
        append(&mut log, appended.iter().copied());
        let mut write = log.begin().unwrap();
        if truncated.is_some() {
            write.truncate_after(*truncated).unwrap();
        }
        if let Some(purged) = purged {
            write.purge(at(*purged), u32::MAX).unwrap();
        }
        write.commit().unwrap();
        for wrong in [*next - 1, *next + 1] {
            let refused = log.begin().unwrap().append(at(wrong), b"");
            assert!(
                matches!(refused, Err(LogError::Hole { .. })),
                "{wrong} after {appended:?} {truncated:?} {purged:?}: {refused:?}"
            );
        }
        append(&mut log, [*next]);
    }
}

#[test]
fn a_hole_that_damage_has_made_is_told() {
    let (_directory, path) = directory();
    append(&mut open(&path), 0..9);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute("DELETE FROM entries WHERE idx = 4", [])
        .unwrap();
    let reader = LogReader::open(&path).unwrap();
    let read = |range| reader.read(range, usize::MAX);
    assert!(matches!(read(0..9), Err(LogError::Damaged { missing: 4 })));
    assert_eq!(read(5..9).unwrap().len(), 4);
}

#[test]
fn a_reader_takes_no_more_than_it_asked_for_and_always_something() {
    let (_directory, path) = directory();
    let mut log = open(&path);
    append(&mut log, 100..120);
    let reader = LogReader::open(&path).unwrap();
    let bytes: usize = (100..103).map(|index| payload(index).len()).sum();
    for (range, bytes_max, expected) in [
        (100..120, 1, 1),
        (100..120, bytes, 3),
        (100..120, usize::MAX, 20),
        (0..105, usize::MAX, 5),
        (110..110, usize::MAX, 0),
        (120..u64::MAX, usize::MAX, 0),
    ] {
        let read = reader.read(range.clone(), bytes_max).unwrap();
        assert_eq!(read.len(), expected, "{range:?} {bytes_max}");
    }
    // It sees what is written after it was opened.
    append(&mut log, [120]);
    assert_eq!(reader.read(120..121, 1).unwrap().len(), 1);
}

#[test]
fn a_log_of_another_format_and_what_is_none_are_not_opened() {
    let (directory, path) = directory();
    drop(open(&path));
    let conn = rusqlite::Connection::open(&path).unwrap();
    let known: i64 = conn
        .query_row("SELECT format FROM head", [], |row| row.get(0))
        .unwrap();
    for format in [known - 1, known + 1] {
        conn.execute("UPDATE head SET format = ?1", [format])
            .unwrap();
        let error = LogFile::open(&path, STORE).err().unwrap();
        assert!(
            matches!(error, LogError::Format { found, .. } if found == format)
                && error
                    .to_string()
                    .contains("version of matins that wrote it"),
            "{error}"
        );
    }
    let other = directory.path().join("other.db");
    fs::write(
        &other,
        "not a database, and long enough to be looked at ".repeat(9),
    )
    .unwrap();
    assert!(matches!(
        LogFile::open(&other, STORE),
        Err(LogError::Spoilt { .. })
    ));
}

/// The machine went down in the middle of a write: of the write-ahead log a part is there, or the
/// last of it is not what was written. Whole commits remain, from the first to some last one.
#[test]
fn a_torn_tail_takes_whole_commits_from_the_end() {
    let (directory, path) = directory();
    let mut log = open(&path);
    let mut ends = Vec::new();
    for commit in 0..8 {
        append(&mut log, commit * 5..commit * 5 + 5);
        ends.push(fs::metadata(wal(&path)).unwrap().len());
    }
    let whole = fs::read(wal(&path)).unwrap();
    let torn = directory.path().join("torn.db");
    for (commit, end) in (1..).zip(&ends) {
        for (short, damaged) in [(0, false), (1, false), (2000, false), (30, true)] {
            fs::copy(&path, &torn).unwrap();
            let mut bytes = whole[..usize::try_from(*end).unwrap()].to_vec();
            let cut = bytes.len() - short;
            if damaged {
                bytes[cut] ^= 0xff;
            } else {
                bytes.truncate(cut);
            }
            fs::write(wal(&torn), &bytes).unwrap();
            let kept = if short == 0 { commit } else { commit - 1 };
            let expected: Vec<u64> = (0..kept * 5).collect();
            let mut log = open(&torn);
            assert_eq!(indexes(&torn), expected, "{commit} less {short}");
            // And it goes on from there.
            append(&mut log, [kept * 5]);
            drop(log);
            fs::remove_file(&torn).unwrap();
        }
    }
}
