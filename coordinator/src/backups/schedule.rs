//! Backups that the leader makes by itself, and what becomes of them.
//!
//! Whoever leads makes them, into a directory of its own machine, and has them shipped; when the last
//! good one was made stands in the ledger, so that a new leader goes on where the one before has
//! stopped, and a person hears of their age whoever leads.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coordinator_core::Request;
use ledger::BackupRow;
use ledger::command::NoteBackup;
use protocol::{DurationMs, WallMs};
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, timeout};

use super::{PARTIAL_SUFFIX, back_up};
use crate::clock::read_now;
use crate::engine::Engine;
use crate::exit::causes;

/// Between two looks whether one is due.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// After a failure it is tried again so soon, or after the usual time if that is shorter.
const RETRY_AFTER: DurationMs = DurationMs::from_secs(600);

/// How long a backup may take to be shipped.
const SHIP_LIMIT: Duration = Duration::from_secs(3600);

/// How much of what the shipping command says last is told.
const WORDS_BYTES_MAX: usize = 512;

/// Stands for the backup's path among the arguments of the shipping command.
const FILE: &str = "{file}";

const PREFIX: &str = "matins-";
const SUFFIX: &str = ".backup";

/// What a coordinator does about backups while it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSchedule {
    /// Where they are made.
    pub directory: PathBuf,
    pub every: DurationMs,
    /// So many of the newest stay in the directory.
    pub keep: u32,
    /// Program and arguments that carry one off the machine; `{file}` stands for its path.
    pub ship: Option<Vec<String>>,
}

/// A shipping command that cannot be one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShipError {
    #[error(
        "it is no list of program and arguments, such as [\"/usr/bin/rsync\", \"{{file}}\", \"host:/backups/\"]"
    )]
    NoList,
    #[error("none of its arguments names the backup: write {{file}} where its path belongs")]
    NoFile,
}

impl BackupSchedule {
    /// Reads a shipping command: a JSON list, for it is never given to a shell.
    pub fn parse_ship(text: &str) -> Result<Vec<String>, ShipError> {
        let list: Vec<String> = serde_json::from_str(text).map_err(|_| ShipError::NoList)?;
        let (program, arguments) = list.split_first().ok_or(ShipError::NoList)?;
        if program.is_empty() {
            return Err(ShipError::NoList);
        }
        if !arguments.iter().any(|argument| argument.contains(FILE)) {
            return Err(ShipError::NoFile);
        }
        Ok(list)
    }
}

/// Whether a backup is due by what the ledger knows of those before, and by when this coordinator last
/// made one of which the ledger did not hear.
fn is_due(
    known: Option<&BackupRow>,
    unnoted: Option<WallMs>,
    every: DurationMs,
    now: WallMs,
) -> bool {
    // A clock that was ahead when it was made must not put the next off.
    let since = |at: WallMs, length: DurationMs| now < at || now - at >= length;
    let good_at = known.and_then(|known| known.good_at);
    let failed_at = known.and_then(|known| known.failed_at);
    let mut tries = failed_at.into_iter().chain(unnoted);
    good_at.is_none_or(|at| since(at, every)) && tries.all(|at| since(at, RETRY_AFTER.min(every)))
}

/// Makes backups for as long as the coordinator lives.
pub(crate) async fn keep(
    schedule: BackupSchedule,
    data_dir: PathBuf,
    node: String,
    engine: Engine,
) {
    let mut interval = tokio::time::interval(LOOK_EVERY);
    // The looks that were missed while one was made need not be made up for.
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unnoted = None;
    loop {
        interval.tick().await;
        let asked = engine
            .ask(|core, _| (core.epoch().is_some(), core.working_set().backup.clone()))
            .await;
        let now = read_now().wall;
        match asked {
            Ok((true, known)) if is_due(known.as_ref(), unnoted, schedule.every, now) => {}
            // Another leads, or nobody yet.
            Ok(_) | Err(_) => continue,
        }
        let made = make_and_ship(&schedule, &data_dir, &node, now).await;
        let (file, bytes, problem) = match made {
            Ok((file, bytes)) => (file, bytes, None),
            Err(problem) => {
                tracing::warn!(problem, "a backup failed");
                (String::new(), 0, Some(problem))
            }
        };
        let note = Request::NoteBackup(NoteBackup {
            node: node.clone(),
            every: schedule.every,
            file,
            bytes,
            problem,
        });
        let noted = engine.request(note).await;
        // Whoever leads now finds one due, and makes it. Where that is this one still, it makes them
        // no faster than ones that fail: the good ones would soon make room for them all.
        unnoted = noted.is_err().then(|| read_now().wall);
        if let Err(error) = noted {
            tracing::warn!(
                error = causes(&error),
                "what became of a backup was not noted"
            );
        }
    }
}

/// Answers the file and its size, or what went wrong, in words.
async fn make_and_ship(
    schedule: &BackupSchedule,
    data_dir: &Path,
    node: &str,
    now: WallMs,
) -> Result<(String, u64), String> {
    let file = schedule.directory.join(file_name(now, node));
    let (from, to, named) = (data_dir.to_owned(), file.clone(), node.to_owned());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&schedule.directory)
        .map_err(|error| format!("making {}: {error}", schedule.directory.display()))?;
    let place = schedule.directory.clone();
    let made = tokio::task::spawn_blocking(move || {
        if let Err(error) = remove_unfinished(&place) {
            tracing::warn!(%error, "what a process that was killed has left of backups was not removed");
        }
        back_up(&from, &to, &named)
    })
    .await
    .map_err(|error| format!("making it: {error}"))?;
    let seal = made.map_err(|error| format!("making it: {}", causes(&error)))?;
    // Also where it is not shipped: what fails for weeks must not fill the disk.
    let (directory, keep) = (schedule.directory.clone(), schedule.keep);
    let pruned = tokio::task::spawn_blocking(move || prune(&directory, keep)).await;
    match pruned {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "older backups were not removed"),
        Err(error) => tracing::warn!(%error, "older backups were not removed"),
    }
    if let Some(ship) = &schedule.ship {
        carry(ship, &file, SHIP_LIMIT).await?;
    }
    tracing::info!(file = %file.display(), bytes = seal.bytes, "a backup was made");
    Ok((file.display().to_string(), seal.bytes))
}

/// Runs the shipping command for one backup.
async fn carry(ship: &[String], file: &Path, limit: Duration) -> Result<(), String> {
    let path = file.display().to_string();
    let mut words = ship.iter().map(|word| word.replace(FILE, &path));
    let program = words.next().unwrap_or_default();
    let run = Command::new(&program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let ended = timeout(limit, run)
        .await
        .map_err(|_| {
            format!(
                "shipping it: {program} did not end within {} s",
                limit.as_secs()
            )
        })?
        .map_err(|error| format!("shipping it: starting {program}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let start = said.ceil_char_boundary(said.len().saturating_sub(WORDS_BYTES_MAX));
    let said = match said[start..].trim() {
        "" => "it said nothing".to_owned(),
        said => said.to_owned(),
    };
    Err(format!(
        "shipping it: {program} ended with {}: {said}",
        ended.status
    ))
}

/// Sorts by time.
fn file_name(at: WallMs, node: &str) -> String {
    let stamp: String = at
        .whole_second()
        .to_string()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let node: String = node
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("{PREFIX}{stamp}-{node}{SUFFIX}")
}

/// Removes all but the newest of the backups that were made here by schedule.
fn prune(directory: &Path, keep: u32) -> io::Result<()> {
    let mut made = by_schedule(directory, "", "")?;
    made.sort_unstable();
    let surplus = made.len().saturating_sub(keep as usize);
    made[..surplus].iter().try_for_each(fs::remove_file)
}

/// Removes backups by schedule that were never completed: as each is named after its second, none is
/// begun a second time.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    let unfinished = by_schedule(directory, ".", PARTIAL_SUFFIX)?;
    unfinished.iter().try_for_each(fs::remove_file)
}

/// Files of the directory that have the name of a backup by schedule between these.
fn by_schedule(directory: &Path, before: &str, after: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let backup = name
            .strip_prefix(before)
            .and_then(|name| name.strip_suffix(after));
        if backup.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{data, names};
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn one_is_due_when_the_last_good_one_is_old_and_none_has_just_failed() {
        let now = WallMs(100 * HOUR);
        let row = |good: Option<i64>, failed: Option<i64>| BackupRow {
            every: DurationMs(6 * HOUR),
            good_at: good.map(|ago| WallMs(now.0 - ago)),
            failed_at: failed.map(|ago| WallMs(now.0 - ago)),
        };
        let minute = HOUR / 60;
        for (known, due) in [
            (None, true),
            (Some(row(Some(6 * HOUR - 1), None)), false),
            (Some(row(Some(6 * HOUR), None)), true),
            (Some(row(Some(7 * HOUR), Some(9 * minute))), false),
            (Some(row(Some(7 * HOUR), Some(10 * minute))), true),
            (Some(row(None, Some(9 * minute))), false),
            (Some(row(None, Some(11 * minute))), true),
            // Made by a clock that was ahead.
            (Some(row(Some(-HOUR), None)), true),
        ] {
            let every = DurationMs(6 * HOUR);
            let found = |unnoted| is_due(known.as_ref(), unnoted, every, now);
            assert_eq!(found(None), due, "{known:?}");
            // One of which the ledger has not heard, whatever it knows of others.
            assert!(!found(Some(WallMs(now.0 - 9 * minute))), "{known:?}");
            assert_eq!(found(Some(WallMs(now.0 - 10 * minute))), due, "{known:?}");
        }
    }

    #[test]
    fn a_shipping_command_is_a_list_that_names_the_file() {
        let parse = BackupSchedule::parse_ship;
        assert_eq!(
            parse(r#"["/bin/cp", "{file}", "/mnt"]"#).unwrap(),
            ["/bin/cp", "{file}", "/mnt"]
        );
        for (text, error) in [
            ("cp {file} /mnt", ShipError::NoList),
            ("[]", ShipError::NoList),
            (r#"["", "{file}"]"#, ShipError::NoList),
            (r#"["/bin/true"]"#, ShipError::NoFile),
            (r#"["{file}"]"#, ShipError::NoFile),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn the_newest_stay_and_other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |hour: i64| WallMs(1_796_000_000_000 + hour * HOUR);
        for hour in [5, 1, 3, 2, 4] {
            let name = file_name(at(hour), "c/1");
            fs::write(directory.path().join(name), "").unwrap();
        }
        fs::write(directory.path().join("by-hand.backup"), "").unwrap();
        prune(directory.path(), 2).unwrap();
        let left = names(directory.path());
        let newest = [file_name(at(4), "c/1"), file_name(at(5), "c/1")];
        assert_eq!(left[1..], newest);
        assert_eq!(left[0], "by-hand.backup");
        assert_eq!(newest[0], "matins-20261130T045320Z-c_1.backup");
    }

    #[test]
    fn nothing_stays_of_one_that_was_cut_short_when_the_next_is_made() {
        let (data, place) = (data(), tempfile::tempdir().unwrap());
        let now = WallMs(1_796_000_000_000);
        let cut_short = format!(".{}.partial", file_name(now - DurationMs(HOUR), "c1"));
        for name in [&cut_short, ".by-hand.backup.partial"] {
            fs::write(place.path().join(name), "half").unwrap();
        }
        let ship = ["/usr/bin/test", "-s", "{file}"].map(str::to_owned);
        let schedule = BackupSchedule {
            directory: place.path().to_owned(),
            every: DurationMs(HOUR),
            keep: 2,
            ship: Some(ship.to_vec()),
        };
        let made = make_and_ship(&schedule, data.path(), "c1", now);
        let (file, bytes) = runtime().block_on(made).unwrap();
        assert!(bytes > 0);
        let name = file_name(now, "c1");
        assert_eq!(Path::new(&file), place.path().join(&name));
        assert_eq!(
            names(place.path()),
            [".by-hand.backup.partial", name.as_str()]
        );
    }

    #[test]
    fn what_a_shipping_command_says_is_told_and_one_that_hangs_is_ended() {
        let runtime = runtime();
        let run = |command: &[&str], limit| {
            let ship: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            runtime.block_on(carry(&ship, Path::new("/etc/hostname"), limit))
        };
        let long = Duration::from_secs(60);
        run(&["/usr/bin/test", "-n", "{file}"], long).unwrap();
        let failed = run(&["/bin/ls", "{file}.not-there"], long).unwrap_err();
        assert!(failed.contains("/etc/hostname.not-there"), "{failed}");
        let missing = run(&["/no/such", "{file}"], long).unwrap_err();
        assert!(missing.contains("starting /no/such"), "{missing}");
        let hangs = run(&["/bin/sleep", "1000"], Duration::from_millis(50)).unwrap_err();
        assert!(hangs.contains("did not end"), "{hangs}");
    }
}
