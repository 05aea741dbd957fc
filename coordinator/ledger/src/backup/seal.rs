//! What stands behind the last page of a backup: what it is, and the digest of its pages.
//!
//! ```text
//! pages of a SQLite database | one line of JSON | `matins-backup`, length of the JSON, digest of all before
//! ```
//!
//! The last line has a fixed length, so that it is found from the end. SQLite knows from its first page
//! how many there are, and does not look at what comes after.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use protocol::WallMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::BackupError;

pub(super) const FORMAT: u32 = 1;

const WORD: &str = "matins-backup";
/// Word, ten digits, 64 digits, two spaces and the line's end.
const LAST_LINE_BYTES: usize = WORD.len() + 1 + 10 + 1 + 64 + 1;

/// Longest line of JSON.
const JSON_BYTES_MAX: usize = 64 << 10;

/// Copied in one go.
const CHUNK_BYTES: usize = 1 << 20;

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub format: u32,
    /// Version of the program that made it.
    pub program: String,
    pub node: String,
    pub taken_at: WallMs,
    pub schema: i64,
    /// The highest token, epoch, session or fence that had been given out.
    pub position: i64,
    /// Commands that had been applied.
    pub commands: i64,
    /// In force.
    pub jobs: u64,
    pub runs: u64,
    /// Runs that were not final.
    pub open_runs: u64,
    /// Of the database.
    pub bytes: u64,
    /// Of the database.
    pub sha256: String,
}

/// Where the parts of a sealed file lie.
pub(super) struct Parts {
    json: u64,
    last_line: u64,
}

/// Puts the seal behind a database that is complete, and fills in what it says of the file.
pub(super) fn put(
    file: &mut (impl Read + Write + Seek),
    path: &Path,
    seal: &mut Seal,
) -> Result<(), BackupError> {
    let write = |source| BackupError::Write {
        path: path.to_owned(),
        source,
    };
    let mut digest = Sha256::new();
    file.seek(SeekFrom::Start(0)).map_err(write)?;
    seal.bytes = pass(file, u64::MAX, &mut digest, &mut io::sink()).map_err(write)?;
    seal.sha256 = hex(&digest.clone().finalize());
    let json = serde_json::to_string(seal).expect("numbers and strings are always JSON");
    digest.update(json.as_bytes());
    digest.update(b"\n");
    let last = format!("{WORD} {:010} {}\n", json.len(), hex(&digest.finalize()));
    file.write_all(json.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.write_all(last.as_bytes()))
        .map_err(write)
}

/// Reads the seal of a file, which may be damaged elsewhere.
pub(super) fn open(
    file: &mut (impl Read + Seek),
    path: &Path,
) -> Result<(Seal, Parts), BackupError> {
    let read = |source| BackupError::Read {
        path: path.to_owned(),
        source,
    };
    let no_seal = || BackupError::NoSeal {
        path: path.to_owned(),
    };
    let length = file.seek(SeekFrom::End(0)).map_err(read)?;
    let Some(last_line) = length.checked_sub(LAST_LINE_BYTES as u64) else {
        return Err(no_seal());
    };
    let last = read_at(file, last_line, LAST_LINE_BYTES).map_err(read)?;
    let json_bytes = parse_last_line(&last).ok_or_else(no_seal)?.0;
    let json = last_line.checked_sub(json_bytes as u64 + 1);
    let json = json.ok_or_else(no_seal)?;
    let text = read_at(file, json, json_bytes).map_err(read)?;
    let form: Form = serde_json::from_slice(&text).map_err(|_| no_seal())?;
    if form.format != FORMAT {
        return Err(BackupError::Format {
            path: path.to_owned(),
            found: form.format,
            known: FORMAT,
        });
    }
    let seal: Seal = serde_json::from_slice(&text).map_err(|_| no_seal())?;
    if seal.bytes != json {
        return Err(BackupError::Damaged {
            path: path.to_owned(),
        });
    }
    Ok((seal, Parts { json, last_line }))
}

/// All that is read of a seal of another format.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

/// Copies the database of a sealed file, and compares all of the file with its seal.
pub(super) fn copy(
    file: &mut (impl Read + Seek),
    path: &Path,
    to: &mut impl Write,
) -> Result<Seal, BackupError> {
    let read = |source| BackupError::Read {
        path: path.to_owned(),
        source,
    };
    let (seal, parts) = open(file, path)?;
    let mut digest = Sha256::new();
    file.seek(SeekFrom::Start(0)).map_err(read)?;
    pass(file, parts.json, &mut digest, to).map_err(read)?;
    let of_pages = hex(&digest.clone().finalize());
    let rest = parts.last_line - parts.json;
    pass(file, rest, &mut digest, &mut io::sink()).map_err(read)?;
    let last = read_at(file, parts.last_line, LAST_LINE_BYTES).map_err(read)?;
    let of_all = parse_last_line(&last).map(|(_, digest)| digest.to_owned());
    if of_pages != seal.sha256 || of_all != Some(hex(&digest.finalize())) {
        return Err(BackupError::Damaged {
            path: path.to_owned(),
        });
    }
    Ok(seal)
}

/// The length of the JSON and the digest of everything before.
fn parse_last_line(line: &[u8]) -> Option<(usize, &str)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let mut words = line.split(' ');
    let (word, length, digest) = (words.next()?, words.next()?, words.next()?);
    let length = length.parse().ok().filter(|&n| n <= JSON_BYTES_MAX)?;
    (word == WORD && words.next().is_none()).then_some((length, digest))
}

fn read_at(file: &mut (impl Read + Seek), at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = vec![0; bytes];
    file.read_exact(&mut read)?;
    Ok(read)
}

/// Moves at most so many bytes from where the file stands, and digests them; answers how many.
fn pass(
    file: &mut impl Read,
    bytes_max: u64,
    digest: &mut Sha256,
    to: &mut impl Write,
) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut moved = 0;
    while moved < bytes_max {
        let room = usize::try_from(bytes_max - moved).unwrap_or(usize::MAX);
        let read = file.read(&mut chunk[..room.min(CHUNK_BYTES)])?;
        if read == 0 {
            break;
        }
        digest.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        moved += read as u64;
    }
    Ok(moved)
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text takes text");
        text
    })
}
