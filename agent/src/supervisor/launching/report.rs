//! How far a process has come that prepares itself to become an attempt.
//!
//! It writes [`Word::Begins`] as its last deed before the program, and [`Word::Failed`] if it
//! cannot go on, before that or after. The end of the pipe alone would not do: the kernel closes
//! it when the program begins, and when the process is killed on its way there.
//!
//! Before that it says what it has found of its user, if it had to ask. The first such word counts:
//! it is written before the process becomes that user.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use agent_core::supervisor::SpawnError;
use nix::fcntl::OFlag;
use protocol::attempt::Limit;
use protocol::supervisor::SpawnFault;
use serde::{Deserialize, Serialize};

use super::accounts::Found;

/// More is no report of ours.
const REPORT_BYTES_MAX: usize = 16 * 1024;

/// Longest reason that is told. The whole report then fits into a pipe at once, and nobody waits.
const WHY_BYTES_MAX: usize = 2 * 1024;

/// A user in more groups than fit into this is not told of.
const FOUND_BYTES_MAX: usize = 8 * 1024;

#[derive(Serialize, Deserialize)]
enum Word {
    Found(Box<Found>),
    Begins { not_enforced: Vec<Limit> },
    Failed { fault: SpawnFault, why: String },
}

/// The supervisor's end.
pub(super) struct Report {
    pipe: std::fs::File,
    heard: Vec<u8>,
    /// There is nothing more to come.
    ended: bool,
    /// It was said what was found of the user, and taken.
    found_taken: bool,
}

/// The child's end.
pub(super) struct Teller(std::fs::File);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is decided.
    Silent,
    Begun(Vec<Limit>),
    Failed(SpawnError),
}

pub(super) fn pipe() -> io::Result<(Report, Teller)> {
    let (ours, theirs): (OwnedFd, OwnedFd) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let report = Report {
        pipe: ours.into(),
        heard: Vec::new(),
        ended: false,
        found_taken: false,
    };
    Ok((report, Teller(theirs.into())))
}

impl AsFd for Teller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Teller {
    pub(super) fn found(&mut self, found: &Found) {
        let line = line(&Word::Found(Box::new(found.clone())));
        if line.len() <= FOUND_BYTES_MAX {
            self.write(&line);
        }
    }

    pub(super) fn begins(&mut self, not_enforced: Vec<Limit>) {
        self.say(&Word::Begins { not_enforced });
    }

    pub(super) fn failed(&mut self, fault: SpawnFault, mut why: String) {
        why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
        self.say(&Word::Failed { fault, why });
    }

    fn say(&mut self, word: &Word) {
        self.write(&line(word));
    }

    fn write(&mut self, line: &[u8]) {
        if let Err(error) = self.0.write_all(line) {
            // The supervisor is gone, and this process is about to be.
            tracing::debug!(%error, "nobody hears how an attempt prepares itself");
        }
    }
}

fn line(word: &Word) -> Vec<u8> {
    let mut line = serde_json::to_vec(word).expect("words are plain data");
    line.push(b'\n');
    line
}

impl Report {
    /// What to poll, while there is something to come.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.pipe.as_fd())
    }

    /// Reads what is there, without waiting for more.
    pub(super) fn read(&mut self) -> Progress {
        let mut chunk = [0; 1024];
        while !self.ended {
            match self.pipe.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::error!(%error, "a report cannot be read");
                    self.ended = true;
                }
            }
            self.ended |= self.heard.len() > REPORT_BYTES_MAX;
        }
        judge(&self.heard, self.ended)
    }

    /// What was found of the user, once, as soon as that is read.
    pub(super) fn take_found(&mut self) -> Option<Found> {
        if self.found_taken {
            return None;
        }
        let found = words(&self.heard).find_map(|word| match word {
            Word::Found(found) => Some(*found),
            _ => None,
        });
        self.found_taken = found.is_some();
        found
    }
}

/// The words that have come whole.
fn words(heard: &[u8]) -> impl Iterator<Item = Word> {
    let lines = heard.split_inclusive(|&byte| byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

fn judge(heard: &[u8], ended: bool) -> Progress {
    let mut progress = Progress::Silent;
    for word in words(heard) {
        match word {
            Word::Begins { not_enforced } if ended => progress = Progress::Begun(not_enforced),
            Word::Begins { .. } | Word::Found(_) => {}
            Word::Failed { fault, why } => {
                return Progress::Failed(SpawnError { fault, why });
            }
        }
    }
    progress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_begun_when_the_pipe_ends_after_the_word_and_no_failure() {
        let error = || SpawnError {
            fault: SpawnFault::Launch,
            why: "no".to_owned(),
        };
        type Say = fn(&mut Teller);
        let begins: Say = |t| t.begins(vec![Limit::Pids]);
        let failed: Say = |t| t.failed(SpawnFault::Launch, "no".to_owned());
        for (what, words, ends, expected) in [
            ("nothing yet", &[][..], false, Progress::Silent),
            ("killed on its way", &[], true, Progress::Silent),
            ("about to begin", &[begins], false, Progress::Silent),
            (
                "has begun",
                &[begins],
                true,
                Progress::Begun(vec![Limit::Pids]),
            ),
            ("failed early", &[failed], true, Progress::Failed(error())),
            (
                "no such program",
                &[begins, failed],
                true,
                Progress::Failed(error()),
            ),
        ] {
            let (mut report, mut teller) = pipe().unwrap();
            for word in words {
                word(&mut teller);
            }
            let kept = (!ends).then_some(teller);
            assert_eq!(report.read(), expected, "{what}");
            drop(kept);
        }
    }

    #[test]
    fn a_reason_of_any_length_fits_into_the_pipe() {
        let (mut report, mut teller) = pipe().unwrap();
        teller.failed(SpawnFault::Host, "é".repeat(1_000_000));
        drop(teller);
        let Progress::Failed(error) = report.read() else {
            panic!("it failed");
        };
        assert_eq!(error.why.len(), WHY_BYTES_MAX);
    }
}
