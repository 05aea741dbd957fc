//! What really happened, told by three witnesses who know nothing of each other: the diary, which
//! every writer keeps unguarded; the results, which the guard lets through or not; and the
//! ledger's own history, read through the API.
//!
//! A process is there from its first line in the diary to its last. Of two processes with
//! different tokens for one shard, or with different fires of one job, that were there at once,
//! the older one was *overtaken*. The ledger's word is not asked for that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use protocol::RunId;
use protocol::api::{Attempt, Run, RunDetail};
use protocol::attempt::AttemptOutcome;
use rusqlite::{Connection, OpenFlags};

use crate::site::Site;

/// The program of every writer job; its own text says what it does.
pub(crate) fn writer() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/machines/writer.py")
}

/// A Python by its own path: a job has no environment in which another could be chosen.
pub(crate) fn python() -> Result<String> {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .context("asking python3 where it is: the package python3 is needed")?;
    ensure!(asked.status.success(), "python3 does not say where it is");
    Ok(String::from_utf8(asked.stdout)?.trim().to_owned())
}

/// Makes the results database, with the guard as Matins prints it.
pub(crate) fn create_tables(site: &Site) -> Result<()> {
    let guard = site.matins(&["guard", "sqlite"])?;
    let mut create = Command::new(&site.python)
        .args(["-I", "-S"])
        .arg(writer())
        .arg("create")
        .arg(site.directory())
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", site.python))?;
    let stdin = create.stdin.take().context("its input is piped")?;
    { stdin }.write_all(guard.as_bytes())?;
    ensure!(create.wait()?.success(), "the results database is not made");
    Ok(())
}

/// One shard of one fire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) job: String,
    pub(crate) fire_time: String,
    pub(crate) shard: u32,
}

/// One line of the diary: a process was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) boot_ms: i64,
    pub(crate) piece: Piece,
    pub(crate) token: i64,
    pub(crate) pid: i32,
    pub(crate) word: String,
}

/// One row that the guard let through, in the order of the commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    piece: Piece,
    token: i64,
    fence: i64,
    what: String,
}

/// From the first line of anybody with this token to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) from: i64,
    pub(crate) through: i64,
}

/// Two processes of which only one should have been there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) older: (Piece, i64),
    pub(crate) newer: (Piece, i64),
    pub(crate) ms: i64,
}

pub(crate) struct Evidence {
    pub(crate) notes: Vec<Note>,
    rows: Vec<Row>,
    pub(crate) runs: Vec<RunDetail>,
}

impl Evidence {
    pub(crate) fn gather(site: &Site) -> Result<Evidence> {
        Evidence::gather_but(site, &[])
    }

    /// The same, without the runs of jobs that are no writers.
    pub(crate) fn gather_but(site: &Site, others: &[&str]) -> Result<Evidence> {
        // In this order: who is in the diary has been granted before, and what the ledger calls
        // succeeded is in the results already.
        let notes = notes(site)?;
        let mut runs = Vec::new();
        let runs_of_writers = site.runs()?;
        let is_other = |run: &Run| others.contains(&run.job.to_string().as_str());
        for run in runs_of_writers.into_iter().filter(|run| !is_other(run)) {
            runs.push(site.get::<RunDetail>(&format!("runs/{}", run.run))?);
        }
        let rows = read_rows(site)?;
        Ok(Evidence { notes, rows, runs })
    }

    /// Everything that must hold whatever has happened to machines and networks: a stalled host
    /// may run a shard beside its successor, but nothing it writes may count.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.notes.is_empty(), "no writer has written");
        let accepted = self.stale_accepted();
        ensure!(accepted.is_empty(), "stale writes accepted: {accepted:#?}");
        for run in &self.runs {
            for shard in &run.shard_list {
                let tokens: Vec<i64> = shard.attempts.iter().map(|a| a.token.0).collect();
                ensure!(
                    tokens.windows(2).all(|pair| pair[0] < pair[1]),
                    "{}: tokens of shard {} do not rise: {tokens:?}",
                    run.run.run,
                    shard.shard
                );
            }
        }
        self.check_granted()?;
        self.check_successes()
    }

    /// The same, and nobody was overtaken: what must hold where no host was stalled beyond its
    /// margin.
    pub(crate) fn check_without_overlap(&self) -> Result<()> {
        self.check()?;
        let overlaps = self.overlaps();
        ensure!(overlaps.is_empty(), "overlaps: {overlaps:#?}");
        Ok(())
    }

    /// No process was there without a lease.
    fn check_granted(&self) -> Result<()> {
        let granted: BTreeSet<(Piece, i64)> = self
            .attempts()
            .map(|(piece, attempt)| (piece, attempt.token.0))
            .collect();
        for (key, _) in self.presences() {
            ensure!(granted.contains(&key), "{key:?} was never granted");
        }
        Ok(())
    }

    /// Every shard that the ledger calls succeeded was done under the very token it names, once
    /// in each execution.
    fn check_successes(&self) -> Result<()> {
        let done: BTreeSet<(Piece, i64)> = self
            .rows
            .iter()
            .filter(|row| row.what == "done")
            .map(|row| (row.piece.clone(), row.token))
            .collect();
        for run in &self.runs {
            for shard in &run.shard_list {
                let succeeded: Vec<&Attempt> = shard
                    .attempts
                    .iter()
                    .filter(|a| a.outcome == Some(AttemptOutcome::Succeeded))
                    .collect();
                let executions: BTreeSet<u32> = succeeded.iter().map(|a| a.execution).collect();
                let name = format!("{} shard {}", run.run.run, shard.shard);
                ensure!(
                    executions.len() == succeeded.len(),
                    "{name} succeeded twice: {succeeded:#?}"
                );
                if shard.state == "succeeded" {
                    ensure!(!succeeded.is_empty(), "{name}: no attempt did");
                }
                for attempt in succeeded {
                    let key = (piece_of(run, shard.shard), attempt.token.0);
                    ensure!(
                        done.contains(&key),
                        "{name} succeeded under {} and has no result of it",
                        attempt.token
                    );
                }
            }
        }
        Ok(())
    }

    /// Rows that were let through after a newer attempt at the shard, or a newer execution of the
    /// job, had shown its papers.
    pub(crate) fn stale_accepted(&self) -> Vec<Row> {
        let mut tokens: BTreeMap<&Piece, i64> = BTreeMap::new();
        let mut fences: BTreeMap<&str, i64> = BTreeMap::new();
        let mut stale = Vec::new();
        for row in &self.rows {
            let token = tokens.entry(&row.piece).or_default();
            let fence = fences.entry(&row.piece.job).or_default();
            if row.token < *token || row.fence < *fence {
                stale.push(row.clone());
            }
            *token = row.token.max(*token);
            *fence = row.fence.max(*fence);
        }
        stale
    }

    /// How many writes the guard has refused.
    pub(crate) fn refused(&self) -> usize {
        self.notes
            .iter()
            .filter(|note| note.word == "refused")
            .count()
    }

    /// Who was there, when.
    pub(crate) fn presences(&self) -> BTreeMap<(Piece, i64), Presence> {
        let mut all: BTreeMap<(Piece, i64), Presence> = BTreeMap::new();
        for note in &self.notes {
            let at = note.boot_ms;
            let presence = all
                .entry((note.piece.clone(), note.token))
                .or_insert(Presence {
                    from: at,
                    through: at,
                });
            presence.from = presence.from.min(at);
            presence.through = presence.through.max(at);
        }
        all
    }

    /// Every two that were there at once and should not have been, the longest first.
    pub(crate) fn overlaps(&self) -> Vec<Overlap> {
        let all: Vec<((Piece, i64), Presence)> = self.presences().into_iter().collect();
        let mut found = Vec::new();
        for (i, (older, before)) in all.iter().enumerate() {
            for (newer, after) in &all[i + 1..] {
                if older.0.job != newer.0.job {
                    break;
                }
                let same_fire = older.0.fire_time == newer.0.fire_time;
                if same_fire && older.0.shard != newer.0.shard {
                    continue;
                }
                let ms = before.through.min(after.through) - before.from.max(after.from);
                if ms > 0 {
                    let (older, newer) = (older.clone(), newer.clone());
                    found.push(Overlap { older, newer, ms });
                }
            }
        }
        found.sort_by_key(|overlap| -overlap.ms);
        found
    }

    /// A shard of an unsafe job began once, and once more for each time a person said so.
    pub(crate) fn check_unsafe(&self, job: &str, asked: &BTreeMap<RunId, usize>) -> Result<()> {
        let there = self.presences();
        let of_job = |run: &&RunDetail| run.run.job.to_string() == job;
        for run in self.runs.iter().filter(of_job) {
            let answers = asked.get(&run.run.run).copied().unwrap_or(0);
            for shard in 0..run.run.shards {
                let begun = there.keys().filter(|(piece, _)| {
                    piece.job == job
                        && piece.fire_time == run.run.fire_time.to_string()
                        && piece.shard == shard
                });
                let begun = begun.count();
                ensure!(
                    begun <= 1 + answers,
                    "{} shard {shard} began {begun} times after {answers} answers",
                    run.run.run
                );
            }
        }
        Ok(())
    }

    /// Every attempt in the ledger.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = (Piece, &Attempt)> {
        self.runs.iter().flat_map(|run| {
            run.shard_list.iter().flat_map(move |shard| {
                let piece = piece_of(run, shard.shard);
                shard.attempts.iter().map(move |a| (piece.clone(), a))
            })
        })
    }

    /// How many attempts ended like this.
    pub(crate) fn count(&self, outcome: AttemptOutcome) -> usize {
        self.attempts()
            .filter(|(_, attempt)| attempt.outcome == Some(outcome))
            .count()
    }

    /// One line that says what was seen.
    pub(crate) fn summary(&self) -> String {
        let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, attempt) in self.attempts() {
            let word = attempt.outcome.map_or("open", AttemptOutcome::as_str);
            *outcomes.entry(word).or_default() += 1;
        }
        let overlaps: Vec<i64> = self.overlaps().iter().map(|o| o.ms).collect();
        format!(
            "{} runs, attempts {outcomes:?}, {} rows accepted, {} writes refused, overlaps (ms) {overlaps:?}",
            self.runs.len(),
            self.rows.len(),
            self.refused(),
        )
    }
}

fn piece_of(run: &RunDetail, shard: u32) -> Piece {
    Piece {
        job: run.run.job.to_string(),
        fire_time: run.run.fire_time.to_string(),
        shard,
    }
}

/// The diary by now.
pub(crate) fn notes(site: &Site) -> Result<Vec<Note>> {
    match fs::read_to_string(site.path("diary")) {
        Ok(text) => text.lines().map(parse_note).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn parse_note(line: &str) -> Result<Note> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[
        at,
        job,
        fire_time,
        shard,
        token,
        _fence,
        pid,
        _sequence,
        word,
    ] = words.as_slice()
    else {
        bail!("`{line}` is torn");
    };
    ensure!(
        !word.starts_with("failed"),
        "a writer was not refused, but its database failed: {line}"
    );
    Ok(Note {
        boot_ms: at.parse()?,
        piece: Piece {
            job: job.to_owned(),
            fire_time: fire_time.to_owned(),
            shard: shard.parse()?,
        },
        token: token.parse()?,
        pid: pid.parse()?,
        word: word.to_owned(),
    })
}

fn read_rows(site: &Site) -> Result<Vec<Row>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let results = Connection::open_with_flags(site.path("results.db"), flags)?;
    results.busy_timeout(std::time::Duration::from_secs(20))?;
    let mut rows = results
        .prepare("SELECT job, fire_time, shard, token, fence, what FROM results ORDER BY id")?;
    let rows = rows.query_map([], |row| {
        Ok(Row {
            piece: Piece {
                job: row.get(0)?,
                fire_time: row.get(1)?,
                shard: row.get(2)?,
            },
            token: row.get(3)?,
            fence: row.get(4)?,
            what: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(fire_time: &str, shard: u32) -> Piece {
        Piece {
            job: "a/b".to_owned(),
            fire_time: fire_time.to_owned(),
            shard,
        }
    }

    fn evidence(notes: Vec<Note>, rows: Vec<Row>) -> Evidence {
        let runs = Vec::new();
        Evidence { notes, rows, runs }
    }

    /// Fire time, shard, token, and when somebody with it was there.
    type There = (&'static str, u32, i64, std::ops::RangeInclusive<i64>);

    #[test]
    fn overlaps_are_of_one_shard_or_of_two_fires() {
        let check = |there: &[There], expected: &[i64]| {
            let notes = there.iter().flat_map(|(fire_time, shard, token, times)| {
                [*times.start(), *times.end()].map(|boot_ms| Note {
                    boot_ms,
                    piece: piece(fire_time, *shard),
                    token: *token,
                    pid: 1,
                    word: "accepted".to_owned(),
                })
            });
            let found = evidence(notes.collect(), Vec::new()).overlaps();
            let lengths: Vec<i64> = found.iter().map(|overlap| overlap.ms).collect();
            assert_eq!(lengths, expected, "{there:?}");
        };
        check(&[("1", 0, 5, 0..=100), ("1", 0, 6, 100..=200)], &[]);
        check(&[("1", 0, 5, 0..=100), ("1", 0, 6, 99..=200)], &[1]);
        check(&[("1", 0, 5, 0..=300), ("1", 0, 6, 100..=200)], &[100]);
        // Two shards of a fire are there at once; two fires of a job are not.
        check(&[("1", 0, 5, 0..=100), ("1", 1, 6, 0..=100)], &[]);
        check(&[("1", 0, 5, 0..=100), ("2", 1, 6, 70..=100)], &[30]);
    }

    #[test]
    fn a_row_is_stale_after_a_newer_token_or_a_newer_fence() {
        let check = |rows: &[(u32, i64, i64)], expected: usize| {
            let made = rows.iter().map(|&(shard, token, fence)| Row {
                piece: piece("1", shard),
                token,
                fence,
                what: "row".to_owned(),
            });
            let found = evidence(Vec::new(), made.collect()).stale_accepted();
            assert_eq!(found.len(), expected, "{rows:?}");
        };
        check(&[(0, 5, 1), (0, 6, 1), (0, 6, 1)], 0);
        check(&[(0, 5, 1), (0, 6, 1), (0, 5, 1)], 1);
        check(&[(0, 6, 1), (1, 5, 1)], 0);
        check(&[(0, 5, 2), (1, 6, 1), (1, 7, 2)], 1);
    }
}
