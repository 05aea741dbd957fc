//! A backup proves itself, and a ledger goes on from it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ledger::backup::{self, Backup, BackupError, Maker, Seal};
use ledger::command::Restore;
use ledger::log::Position;
use ledger::replica::Entry;
use ledger::{Done, Store};
use protocol::ids::generation_of;
use protocol::{JobId, Rules, WallMs};
use tempfile::TempDir;

use crate::{fire, manifest, put};

const NOW: WallMs = WallMs(1_796_000_000_000);

struct Bed {
    directory: TempDir,
    store: Store,
    index: u64,
}

impl Bed {
    /// A member's ledger with a job and a run of it that is open.
    fn new() -> Bed {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open_replica(&directory.path().join("ledger.db"), Rules::all()).unwrap();
        let mut bed = Bed {
            directory,
            store,
            index: 0,
        };
        bed.apply(&[put(manifest("t/a", 2, "queue", true)), fire(JobId(1), 1)]);
        bed
    }

    fn apply(&mut self, batch: &[ledger::Proposal]) {
        let at = Position {
            index: self.index,
            term: 1,
            node: 1,
        };
        self.index += 1;
        let entry = Entry {
            at,
            batch,
            members: None,
        };
        self.store.apply(entry).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make(&self, name: &str) -> (PathBuf, Seal) {
        let path = self.path(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let maker = Maker {
            node: "c1".to_owned(),
            program: "0.1.0".to_owned(),
            at: NOW,
        };
        let seal = backup::make(&self.path("ledger.db"), &path, &mut file, &maker).unwrap();
        (path, seal)
    }
}

fn check(path: &Path) -> Result<Seal, BackupError> {
    Backup::new(File::open(path).unwrap(), path).check()
}

fn unpack(path: &Path, to: &Path) -> Result<Seal, BackupError> {
    let mut to = File::create(to).unwrap();
    Backup::new(File::open(path).unwrap(), path).unpack(&mut to)
}

fn restore() -> Restore {
    Restore {
        clock: WallMs(NOW.0 + 3_600_000),
        taken_at: NOW,
        by: "ada".to_owned(),
        reason: "lost".to_owned(),
    }
}

#[test]
fn a_backup_is_of_one_moment_and_its_ledger_goes_on_without_its_log() {
    let mut bed = Bed::new();
    let (path, seal) = bed.make("a.backup");
    bed.apply(&[fire(JobId(1), 2)]);
    assert_eq!(check(&path).unwrap(), seal);
    assert_eq!((seal.jobs, seal.runs, seal.open_runs), (1, 1, 1));
    assert_eq!(seal.commands, 2);
    assert!(seal.bytes >= backup::estimate(&bed.path("ledger.db")).unwrap() / 2);

    let unpacked = bed.path("restored.db");
    assert_eq!(unpack(&path, &unpacked).unwrap(), seal);
    let done = backup::restore(&unpacked, restore()).unwrap();
    let Done::Restored {
        generation,
        runs: 1,
        jobs: 1,
    } = done
    else {
        panic!("{done:?}")
    };
    assert!(generation > generation_of(seal.position));
    assert!(!bed.path("restored.db-wal").exists());
    // It follows another log from its beginning.
    let store = Store::open_replica(&unpacked, Rules::all()).unwrap();
    assert_eq!(store.applied().unwrap().position, None);
    assert_eq!(store.last_applied().unwrap(), 3);
    assert!(store.working_set().unwrap().held);
}

#[test]
fn the_file_is_a_database_for_any_tool() {
    let bed = Bed::new();
    let (path, _) = bed.make("a.backup");
    let rows = ledger::sql::ask(&path, "SELECT name FROM job_view", 10, || true).unwrap();
    assert_eq!(rows.rows.len(), 1);
}

#[test]
fn what_is_cut_off_longer_or_changed_anywhere_is_refused() {
    let bed = Bed::new();
    let (path, seal) = bed.make("a.backup");
    let whole = fs::read(&path).unwrap();
    let broken = bed.path("broken.backup");
    let refused = |bytes: &[u8]| {
        fs::write(&broken, bytes).unwrap();
        let checked = check(&broken);
        let unpacked = bed.path("unpacked.db");
        assert!(unpack(&broken, &unpacked).is_err());
        checked.unwrap_err()
    };
    for length in [0, 10, 92, 4096, seal.bytes as usize, whole.len() - 1] {
        let error = refused(&whole[..length]);
        assert!(
            matches!(error, BackupError::NoSeal { .. }),
            "{length}: {error}"
        );
    }
    let mut longer = whole.clone();
    longer.extend_from_slice(b"\n");
    assert!(matches!(refused(&longer), BackupError::NoSeal { .. }));
    let step = whole.len() / 97;
    let last = whole.len() - 92 - 40..whole.len();
    for place in (0..whole.len()).step_by(step).chain(last) {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x04;
        refused(&flipped);
    }
}

#[test]
fn another_format_and_another_schema_name_the_version_to_use() {
    let bed = Bed::new();
    let (path, seal) = bed.make("a.backup");
    let whole = fs::read(&path).unwrap();
    let with = |path: &Path, from: &str, to: &str| {
        let text = String::from_utf8_lossy(&whole[seal.bytes as usize..]).replacen(from, to, 1);
        let bytes = [&whole[..seal.bytes as usize], text.as_bytes()].concat();
        fs::write(path, bytes).unwrap();
    };
    let other = bed.path("other.backup");
    with(&other, "\"format\":1", "\"format\":7");
    let error = check(&other).unwrap_err();
    assert!(
        matches!(error, BackupError::Format { found: 7, .. }),
        "{error}"
    );
    let schema = format!("\"schema\":{}", seal.schema);
    with(&other, &schema, "\"schema\":9");
    let unpacked = bed.path("unpacked.db");
    let error = unpack(&other, &unpacked).unwrap_err();
    assert!(
        matches!(&error, BackupError::Schema { found: 9, program, .. } if program == "0.1.0"),
        "{error}"
    );
}
