//! From a launch to a process.
//!
//! Looking up a user, making a directory, opening a file, executing a program: any of these waits
//! for as long as a file system or a directory service pleases, and the supervisor must not wait
//! with it, for it has deadlines to keep. So it forks at once, and the child does all of it
//! ([`preparing`]) and tells through a pipe how far it has come ([`report`]). The pipe is closed
//! by the kernel when the program begins. A child that hangs is killed at its deadline like any
//! attempt, and where it cannot be killed it is not called dead.

mod accounts;
mod preparing;
mod report;
mod user;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use agent_core::supervisor::SpawnError;
use protocol::attempt::Limit;
use protocol::supervisor::{Launch, SpawnFault};
use protocol::{BootMs, Token};

use super::cgroups::Cgroups;
use super::log_writer::Ends;
use super::protection::Inherited;
use super::sys;
use accounts::Accounts;
use preparing::Preparation;
use report::{Progress, Report};

/// What every attempt of this supervisor is started with.
pub(super) struct Launcher {
    /// `MATINS_SUPERVISOR=<directory>`, by which a later supervisor knows whose process it sees.
    pub(super) mark: String,
    /// For the words of a refusal.
    pub(super) host: String,
    pub(super) inherited: Inherited,
    /// What attempts read.
    nothing: File,
    /// Of this process; a child undoes it.
    ignored_signals: Vec<i32>,
    /// Capabilities that programs can hand to this process; a child of another user gives them up.
    bounding_set: Vec<i32>,
    accounts: Accounts,
    preparing: BTreeMap<Token, Prepares>,
}

/// A process that prepares itself.
struct Prepares {
    report: Report,
    user: Option<String>,
    since: BootMs,
}

/// Where an attempt is to work.
pub(super) struct Work<'a> {
    pub(super) directory: &'a Path,
    /// One that may serve, so that none need be made.
    pub(super) spare: Option<PathBuf>,
}

/// What has become of a process that was preparing itself.
pub(super) type Outcome = Result<Vec<Limit>, SpawnError>;

impl Launcher {
    pub(super) fn new(mark: String, host: String, inherited: Inherited) -> io::Result<Launcher> {
        Ok(Launcher {
            mark,
            host,
            inherited,
            nothing: File::open("/dev/null")?,
            ignored_signals: sys::ignored_signals(),
            bounding_set: sys::bounding_set(),
            accounts: Accounts::default(),
            preparing: BTreeMap::new(),
        })
    }

    /// Forks the process that is to become the main one of this attempt and answers with its pid.
    ///
    /// It will have the launch's arguments, environment and nothing else: no descriptor beyond
    /// the three standard ones, no input, default signals, a session and a working directory of
    /// its own.
    pub(super) fn begin(
        &mut self,
        launch: &Launch,
        work: &Work<'_>,
        output: &Ends,
        cgroups: &Cgroups,
        now: BootMs,
    ) -> Result<i32, SpawnError> {
        let (report, teller) = report::pipe().map_err(want)?;
        let supervisor = std::process::id().cast_signed();
        let user = launch.user.as_deref();
        let preparation = Preparation {
            launch,
            work,
            output,
            known: user.and_then(|user| self.accounts.recall(user, now)),
            launcher: self,
            cgroups,
            supervisor,
        };
        let pid = sys::fork(|| preparation.run(teller)).map_err(want)?;
        let prepares = Prepares {
            report,
            user: launch.user.clone(),
            since: now,
        };
        self.preparing.insert(launch.token, prepares);
        Ok(pid)
    }

    /// What is to be polled for what those that prepare themselves have to say.
    pub(super) fn reports(&self) -> impl Iterator<Item = (Token, BorrowedFd<'_>)> {
        let all = self.preparing.iter();
        all.filter_map(|(&token, prepares)| Some((token, prepares.report.fd()?)))
    }

    /// Hears what this one has to say. `Some` when its program has begun; a failure counts only
    /// when its process is gone.
    pub(super) fn hear(&mut self, token: Token, now: BootMs) -> Option<Outcome> {
        match self.read(token, now)? {
            Progress::Begun(not_enforced) => {
                self.preparing.remove(&token);
                Some(Ok(not_enforced))
            }
            Progress::Silent | Progress::Failed(_) => None,
        }
    }

    /// The process of this attempt has ended: what came of it, if that was not known yet.
    pub(super) fn reaped(&mut self, token: Token, now: BootMs) -> Option<Outcome> {
        let progress = self.read(token, now)?;
        self.preparing.remove(&token);
        Some(match progress {
            Progress::Begun(not_enforced) => Ok(not_enforced),
            Progress::Failed(error) => Err(error),
            Progress::Silent => Err(SpawnError {
                fault: SpawnFault::Host,
                why: "its process ended before it began the program".to_owned(),
            }),
        })
    }

    fn read(&mut self, token: Token, now: BootMs) -> Option<Progress> {
        let prepares = self.preparing.get_mut(&token)?;
        let progress = prepares.report.read();
        if let (Some(user), Some(found)) = (&prepares.user, prepares.report.take_found()) {
            self.accounts.remember(user, found, prepares.since, now);
        }
        Some(progress)
    }
}

fn want(error: io::Error) -> SpawnError {
    SpawnError {
        fault: SpawnFault::Host,
        why: format!("starting a process: {error}"),
    }
}
