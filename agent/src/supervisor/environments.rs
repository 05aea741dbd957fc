//! What processes have in their environment, asked by a process that may wait for the answer.
//!
//! To read `/proc/PID/environ` the kernel goes through that process's memory, and it waits while
//! the process itself waits in there: one that hangs on a dead network disk makes hang whoever
//! looks at it. The supervisor therefore never looks. It forks a reader, hears from a pipe what
//! the reader has seen, and kills a reader that hears nothing itself.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{BootMs, DurationMs, Token};

use super::processes::Process;
use super::sys;
use crate::clock;

/// A reader that has not finished by then is held up by one of those it looks at.
const READER_MAX: DurationMs = DurationMs(1_000);

/// Whose a process is by its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not started by a supervisor of this directory.
    Foreign,
    /// Started by one, for this attempt as far as can be read.
    Ours(Option<Token>),
}

/// Pid and start: names one process for ever.
type Name = (i32, u64);

/// Answers that have come and that are still to come.
pub(super) struct Sightings {
    proc: PathBuf,
    mark: String,
    known: BTreeMap<Name, Mark>,
    /// How often each was asked for in vain: the more often, the later it is asked again, for
    /// it may hold up the reader and those after it.
    wanted: BTreeMap<Name, u32>,
    reader: Option<Reader>,
}

impl Sightings {
    /// `mark` is `MATINS_SUPERVISOR=<directory>`, in the environment of everything we start.
    pub(super) fn new(proc: &Path, mark: &str) -> Sightings {
        Sightings {
            proc: proc.to_owned(),
            mark: mark.to_owned(),
            known: BTreeMap::new(),
            wanted: BTreeMap::new(),
            reader: None,
        }
    }

    /// What is known of this process. `None`: it will be asked.
    pub(super) fn of(&mut self, process: Process) -> Option<Mark> {
        let name = (process.pid, process.started);
        let known = self.known.get(&name).copied();
        if known.is_none() {
            self.wanted.entry(name).or_insert(0);
        }
        known
    }

    /// This process is gone.
    pub(super) fn forget(&mut self, pid: i32) {
        let all = (pid, 0)..=(pid, u64::MAX);
        let gone = |names: Vec<Name>| names;
        for name in gone(
            self.known
                .range(all.clone())
                .map(|(&name, _)| name)
                .collect(),
        ) {
            self.known.remove(&name);
        }
        for name in gone(self.wanted.range(all).map(|(&name, _)| name).collect()) {
            self.wanted.remove(&name);
        }
    }

    /// Starts a reader if there is something to ask and none is under way; its pid.
    pub(super) fn ask(&mut self) -> Option<i32> {
        if self.reader.is_some() || self.wanted.is_empty() {
            return None;
        }
        let mut names: Vec<(u32, Name)> = self.wanted.iter().map(|(&n, &t)| (t, n)).collect();
        names.sort_unstable();
        let names = names.into_iter().map(|(_, name)| name).collect();
        match Reader::start(&self.proc, &self.mark, names) {
            Ok(reader) => {
                let pid = reader.pid;
                self.reader = Some(reader);
                Some(pid)
            }
            Err(error) => {
                tracing::error!(%error, "it cannot be asked whose a process is");
                None
            }
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(|reader| reader.pipe.as_fd())
    }

    pub(super) fn poll_timeout(&self) -> Option<BootMs> {
        self.reader.as_ref().map(|reader| reader.until)
    }

    /// Takes the answers that are there, and gives up a reader that takes too long.
    pub(super) fn hear(&mut self, now: BootMs) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        let ended = reader.read();
        for (name, mark) in std::mem::take(&mut reader.answers) {
            self.wanted.remove(&name);
            self.known.insert(name, mark);
        }
        if !ended && now < reader.until {
            return;
        }
        if !ended {
            reader.stop();
        }
        // The first without an answer is the one it hung at, or that made it end.
        let mut asked = std::mem::take(&mut reader.asked).into_iter();
        self.reader = None;
        if let Some(name) = asked.find(|name| self.wanted.contains_key(name)) {
            tracing::warn!(pid = name.0, "it cannot be seen whose a process is");
            *self.wanted.entry(name).or_insert(0) += 1;
        }
    }
}

/// A process that reads environments one after the other.
pub(super) struct Reader {
    pub(super) pid: i32,
    pipe: std::fs::File,
    pub(super) asked: Vec<Name>,
    heard: Vec<u8>,
    until: BootMs,
    pub(super) answers: Vec<(Name, Mark)>,
}

impl Reader {
    pub(super) fn start(proc: &Path, mark: &str, names: Vec<Name>) -> io::Result<Reader> {
        let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let supervisor = std::process::id().cast_signed();
        let read_all = || {
            if sys::die_with(supervisor).is_err() {
                return 1;
            }
            sys::close_all_above_standard_but(theirs.as_fd());
            let mut pipe = std::fs::File::from(theirs);
            for (pid, started) in &names {
                let answer = match read_mark(proc, *pid, mark) {
                    Mark::Foreign => "foreign".to_owned(),
                    Mark::Ours(None) => "ours".to_owned(),
                    Mark::Ours(Some(token)) => token.0.to_string(),
                };
                let line = format!("{pid} {started} {answer}\n");
                if pipe.write_all(line.as_bytes()).is_err() {
                    return 1;
                }
            }
            0
        };
        let pid = sys::fork(read_all)?;
        Ok(Reader {
            pid,
            pipe: ours.into(),
            asked: names,
            heard: Vec::new(),
            until: clock::now().boot + READER_MAX,
            answers: Vec::new(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Takes what is there; whether nothing more will come.
    pub(super) fn read(&mut self) -> bool {
        let mut chunk = [0; 4096];
        let ended = loop {
            match self.pipe.read(&mut chunk) {
                Ok(0) => break true,
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        let whole = self.heard.iter().rposition(|&byte| byte == b'\n');
        let lines: Vec<u8> = self.heard.drain(..whole.map_or(0, |at| at + 1)).collect();
        let text = String::from_utf8_lossy(&lines);
        self.answers.extend(text.lines().filter_map(parse_answer));
        ended
    }

    /// Kills it. Looking at a process can be interrupted, however that process hangs.
    pub(super) fn stop(&self) {
        // It is our child and not reaped, so that the number means it.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

fn parse_answer(line: &str) -> Option<(Name, Mark)> {
    let mut words = line.split(' ');
    let name = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mark = match words.next()? {
        "foreign" => Mark::Foreign,
        "ours" => Mark::Ours(None),
        token => Mark::Ours(Some(Token(token.parse().ok()?))),
    };
    Some((name, mark))
}

/// Waits as long as it takes.
fn read_mark(proc: &Path, pid: i32, mark: &str) -> Mark {
    let Ok(environ) = std::fs::read(proc.join(pid.to_string()).join("environ")) else {
        return Mark::Foreign;
    };
    parse_environ(&environ, mark)
}

fn parse_environ(environ: &[u8], mark: &str) -> Mark {
    let variables = || environ.split(|&byte| byte == 0);
    if !variables().any(|variable| variable == mark.as_bytes()) {
        return Mark::Foreign;
    }
    let token = variables().find_map(|variable| {
        let value = variable.strip_prefix(b"MATINS_TOKEN=")?;
        std::str::from_utf8(value).ok()?.parse().ok().map(Token)
    });
    Mark::Ours(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_an_environment_is() {
        let mark = "MATINS_SUPERVISOR=/run/m";
        for (environ, expected) in [
            (
                "A=b\0MATINS_SUPERVISOR=/run/m\0MATINS_TOKEN=7\0",
                Mark::Ours(Some(Token(7))),
            ),
            ("MATINS_TOKEN=x\0MATINS_SUPERVISOR=/run/m", Mark::Ours(None)),
            ("MATINS_SUPERVISOR=/run/mm\0MATINS_TOKEN=7", Mark::Foreign),
            ("MATINS_TOKEN=7", Mark::Foreign),
            ("", Mark::Foreign),
        ] {
            assert_eq!(
                parse_environ(environ.as_bytes(), mark),
                expected,
                "{environ:?}"
            );
        }
    }

    #[test]
    fn answers_come_from_a_process_of_its_own_and_stay_until_the_process_is_gone() {
        let own = std::process::id().cast_signed();
        let proc = Path::new("/proc");
        let me = crate::supervisor::processes::read_process(proc, own).unwrap();
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        let mut sightings = Sightings::new(proc, &path);
        assert_eq!(sightings.of(me), None);
        assert!(sightings.ask().is_some());
        assert!(sightings.ask().is_none(), "one reader at a time");
        let mut rounds = 0;
        while sightings.reader.is_some() {
            std::thread::sleep(std::time::Duration::from_millis(10));
            sightings.hear(BootMs(0));
            rounds += 1;
            assert!(rounds < 1_000, "never answered");
        }
        assert_eq!(sightings.of(me), Some(Mark::Ours(None)));
        sightings.forget(own);
        assert_eq!(sightings.of(me), None);
    }

    /// A FIFO nobody writes to hangs whoever opens it, like the memory of a process that hangs.
    #[test]
    fn one_that_hangs_holds_up_nobody_for_ever() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("1")).unwrap();
        nix::unistd::mkfifo(
            &proc.path().join("1/environ"),
            nix::sys::stat::Mode::from_bits_truncate(0o600),
        )
        .unwrap();
        std::fs::create_dir(proc.path().join("2")).unwrap();
        std::fs::write(proc.path().join("2/environ"), "M=x\0MATINS_TOKEN=5\0").unwrap();
        let process = |pid| Process {
            pid,
            parent: 0,
            session: 0,
            started: 1,
            dead: false,
        };
        let mut sightings = Sightings::new(proc.path(), "M=x");
        assert_eq!(sightings.of(process(1)), None);
        assert_eq!(sightings.of(process(2)), None);
        let mut rounds = 0;
        let found = loop {
            sightings.ask();
            // As if its time were over, or the answer there.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let late = if rounds == 0 { i64::MAX } else { 0 };
            sightings.hear(BootMs(late));
            rounds += 1;
            if let Some(mark) = sightings.of(process(2)) {
                break mark;
            }
            assert!(rounds < 500, "never answered");
        };
        assert_eq!(found, Mark::Ours(Some(Token(5))));
        assert_eq!(sightings.of(process(1)), None);
        if let Some(reader) = &sightings.reader {
            reader.stop();
        }
    }
}
