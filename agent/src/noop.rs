//! What stands in for a supervisor when `matins bench` measures what is around a process.
//!
//! It answers every launch as ended well, at once and without a process. No manifest can ask for
//! it: it is chosen when an agent is started, by a flag that only the benchmark gives, and the
//! agent says so as loudly as a log can.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use protocol::attempt::Exit;
use protocol::message::Incarnation;
use protocol::supervisor::{End, Event, Request, SpawnFault, Table};
use protocol::{DurationMs, Token, WallMs};

/// In the directory of an agent that runs nothing: the token of every attempt that it pretended to
/// start, a line each, however often. By these a benchmark counts what was done twice.
pub const PRETENDED_FILE: &str = "pretended";

/// Holds nothing: what it was asked for has as good as ended when it was asked.
#[derive(Debug)]
pub(crate) struct Noop {
    incarnation: Incarnation,
    takes: DurationMs,
    journal: BufWriter<File>,
}

impl Noop {
    /// Every attempt is said to have taken so long.
    pub(crate) fn new(
        incarnation: Incarnation,
        takes: DurationMs,
        directory: &Path,
    ) -> io::Result<Noop> {
        tracing::error!(
            "this agent runs NOTHING: it answers every start as a success, for `matins bench` \
             alone; stop it if it was started for anything else"
        );
        let mut journal = File::options();
        let journal = journal.append(true).create(true);
        Ok(Noop {
            incarnation,
            takes,
            journal: BufWriter::new(journal.open(directory.join(PRETENDED_FILE))?),
        })
    }

    /// How long after the question its answer is due.
    pub(crate) fn takes(&self) -> Duration {
        Duration::from_millis(self.takes.0.unsigned_abs())
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            incarnation: self.incarnation,
            boot_id: "noop".to_owned(),
            swept: true,
            attempts: Vec::new(),
        }
    }

    pub(crate) fn answer(&mut self, request: Request, now: WallMs) -> Option<Event> {
        match request {
            Request::Hello => Some(Event::Table(self.table())),
            Request::Ping => Some(Event::Pong),
            Request::Launch(launch) => {
                self.note(launch.token);
                Some(Event::Ended {
                    token: launch.token,
                    end: done(now, self.takes),
                })
            }
            // Of what has ended already, or is about to.
            Request::Extend { .. } | Request::Kill { .. } | Request::Forget { .. } => None,
        }
    }

    fn note(&mut self, token: Token) {
        if let Err(error) = writeln!(self.journal, "{}", token.0) {
            tracing::error!(%error, "the journal of what was started is not whole");
        }
    }

    /// Writes what is known by now.
    pub(crate) fn finish(&mut self) {
        if let Err(error) = self.journal.flush() {
            tracing::error!(%error, "the journal of what was started is not whole");
        }
    }
}

fn done(started_at: WallMs, takes: DurationMs) -> End {
    End {
        killed: None,
        exit: Some(Exit::Code(0)),
        spawn_error: None,
        spawn_fault: SpawnFault::default(),
        started_at: Some(started_at),
        ended_at: started_at + takes,
        cpu: DurationMs::ZERO,
        memory_bytes_peak: 0,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        leftovers: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_outlives_the_agent() {
        let home = tempfile::tempdir().unwrap();
        let journal = || std::fs::read_to_string(home.path().join(PRETENDED_FILE)).unwrap();
        for token in [7, 8] {
            let mut noop = Noop::new(Incarnation(1), DurationMs(20), home.path()).unwrap();
            noop.note(Token(token));
            noop.note(Token(token));
            noop.finish();
        }
        assert_eq!(journal(), "7\n7\n8\n8\n");
        let end = done(WallMs(1_000), DurationMs(20));
        assert_eq!(end.started_at, Some(WallMs(1_000)));
        assert_eq!(end.ended_at, WallMs(1_020));
    }
}
