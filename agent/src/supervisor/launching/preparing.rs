//! What a forked child does until it is the attempt. Everything in here may take for ever.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, NulError};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, execve, getegid, geteuid, setsid};
use protocol::supervisor::{Launch, SpawnFault};

use super::accounts::{Found, Sources};
use super::report::Teller;
use super::user::{Account, UserError};
use super::{Launcher, Work};
use crate::chain::chain;
use crate::clock;
use crate::supervisor::brand;
use crate::supervisor::cgroups::Cgroups;
use crate::supervisor::log_writer::Ends;
use crate::supervisor::trees::token_mark;
use crate::supervisor::{spares, sys};

/// What an attempt's files allow to others than their owner, unless it says otherwise.
const UMASK: Mode = Mode::from_bits_truncate(0o022);

/// Why a process could not become the attempt.
#[derive(Debug, thiserror::Error)]
enum LaunchError {
    #[error("taking the place of an attempt: {what}")]
    Isolate { what: &'static str, source: Errno },
    #[error("making the working directory `{path}`")]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "entering the working directory `{path}` as user `{user}`: let that user pass through the directories above it"
    )]
    Unreachable {
        path: PathBuf,
        user: String,
        source: io::Error,
    },
    #[error("taking on its standard streams")]
    Streams { source: io::Error },
    #[error(transparent)]
    User(#[from] UserError),
    #[error("starting `{program}`")]
    Program { program: String, source: io::Error },
    #[error("starting `{program}`: the interpreter that its first line names is missing")]
    Interpreter { program: String },
    #[error(
        "starting `{program}`: it is neither a binary of this machine nor a script whose first line names an interpreter"
    )]
    Format { program: String },
    #[error("an argument or variable holds a NUL")]
    Nul(#[from] NulError),
    #[error("the argument list is empty")]
    NoProgram,
}

impl LaunchError {
    /// Whether another host, or this one later, may carry out the same launch.
    fn fault(&self) -> SpawnFault {
        match self {
            // These are in directories of Matins' own, and users are known to one host and not
            // to another.
            LaunchError::Isolate { .. }
            | LaunchError::Directory { .. }
            | LaunchError::Unreachable { .. }
            | LaunchError::Streams { .. }
            | LaunchError::User(_) => SpawnFault::Host,
            LaunchError::Program { source, .. } if is_for_want(source) => SpawnFault::Host,
            LaunchError::Program { .. }
            | LaunchError::Interpreter { .. }
            | LaunchError::Format { .. }
            | LaunchError::Nul(_)
            | LaunchError::NoProgram => SpawnFault::Launch,
        }
    }
}

/// Whether the machine lacked something, rather than the program.
fn is_for_want(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(
            Errno::EAGAIN
                | Errno::ENOMEM
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::EIO
                // The program is being written just now: a deployment is under way.
                | Errno::ETXTBSY
        )
    )
}

/// What the child knows of what it is to become.
pub(super) struct Preparation<'a> {
    pub(super) launch: &'a Launch,
    pub(super) work: &'a Work<'a>,
    pub(super) output: &'a Ends,
    /// What was found for its user a moment ago.
    pub(super) known: Option<&'a Found>,
    pub(super) launcher: &'a Launcher,
    pub(super) cgroups: &'a Cgroups,
    /// Pid of the supervisor.
    pub(super) supervisor: i32,
}

impl Preparation<'_> {
    /// Becomes the attempt. Where that fails, tells why and answers with an exit status.
    pub(super) fn run(&self, mut teller: Teller) -> i32 {
        let Err(error) = self.prepare(&mut teller);
        teller.failed(error.fault(), chain(&error));
        1
    }

    fn prepare(&self, teller: &mut Teller) -> Result<Infallible, LaunchError> {
        let isolating = |what| move |source| LaunchError::Isolate { what, source };
        self.die_with_supervisor()?;
        setsid().map_err(isolating("a session of its own"))?;
        sys::default_signals(&self.launcher.ignored_signals).map_err(isolating("signals"))?;
        // Without it this is one more process like any other.
        if let Err(errno) = sys::set_timer_slack(brand::slack_ns(self.launch.token)) {
            tracing::debug!(%errno, "an attempt bears no mark");
        }
        self.open_streams()?;
        let entered = self.cgroups.enter(self.launch.token, &self.launch.limits);
        if entered.held {
            // From here on its cgroup shows whose it is: a supervisor that comes after this one
            // need not wait for the lock, which this process holds too.
            sys::close_all_above_standard_but(teller.as_fd());
        }
        self.launcher.inherited.shed();
        let user = self.launch.user.as_deref();
        let account = user.map(|name| self.find(name, teller)).transpose()?;
        self.make_directory(account.as_ref())?;
        umask(UMASK);
        if let Some(account) = &account {
            account.take_on(&self.launcher.host, &self.launcher.bounding_set)?;
            // The kernel forgets the request when a process changes its user.
            self.die_with_supervisor()?;
            std::env::set_current_dir(self.work.directory).map_err(|source| {
                LaunchError::Unreachable {
                    path: self.work.directory.to_owned(),
                    user: user.unwrap_or_default().to_owned(),
                    source,
                }
            })?;
        }
        self.execute(account.as_ref(), || {
            teller.begins(entered.not_enforced.clone());
        })
    }

    /// A user as it was found a moment ago where that is still so, or as it is found now, which is
    /// told for those that come after.
    fn find(&self, name: &str, teller: &mut Teller) -> Result<Account, UserError> {
        // Before it is asked: what changes meanwhile makes the answer an old one.
        let (sources, now) = (Sources::read(), clock::now().wall);
        match self.known {
            Some(known) if known.sources == sources => Ok(known.account.clone()),
            _ => {
                let account = Account::look_up(name, &self.launcher.host)?;
                let found = Found { account, sources };
                if found.sources.are_settled(now) {
                    teller.found(&found);
                }
                Ok(found.account)
            }
        }
    }

    /// What the supervisor does not watch must not run: a main process dies with it at once, and
    /// the next supervisor sweeps what that left behind.
    fn die_with_supervisor(&self) -> Result<(), LaunchError> {
        sys::die_with(self.supervisor).map_err(|source| LaunchError::Isolate {
            what: "to end with the supervisor",
            source,
        })
    }

    fn make_directory(&self, account: Option<&Account>) -> Result<(), LaunchError> {
        let make = || {
            let other = account.map(|a| (a.uid().as_raw(), a.gid().as_raw()));
            let own = (geteuid().as_raw(), getegid().as_raw());
            if !self.take_spare(other.unwrap_or(own)) {
                make_fresh(self.work.directory)?;
                if let Some((uid, gid)) = other {
                    std::os::unix::fs::chown(self.work.directory, Some(uid), Some(gid))?;
                }
            }
            if let Some((uid, gid)) = other {
                // A program that opens /dev/stdout opens the pipe anew, and must be let.
                std::os::unix::fs::fchown(io::stdout(), Some(uid), Some(gid))?;
                std::os::unix::fs::fchown(io::stderr(), Some(uid), Some(gid))?;
            }
            std::env::set_current_dir(self.work.directory)
        };
        make().map_err(|source| LaunchError::Directory {
            path: self.work.directory.to_owned(),
            source,
        })
    }

    /// Whether there is one that serves.
    fn take_spare(&self, owner: (u32, u32)) -> bool {
        let Some(spare) = &self.work.spare else {
            return false;
        };
        spares::take(spare, self.work.directory, owner).unwrap_or_else(|error| {
            tracing::debug!(%error, "a directory that was put aside cannot be used");
            false
        })
    }

    fn open_streams(&self) -> Result<(), LaunchError> {
        let open = || {
            dup2_stdin(&self.launcher.nothing)?;
            dup2_stdout(&self.output.stdout)?;
            Ok(dup2_stderr(&self.output.stderr)?)
        };
        open().map_err(|source| LaunchError::Streams { source })
    }

    /// `begins` is called when all that is left to do is to execute.
    fn execute(
        &self,
        account: Option<&Account>,
        begins: impl FnOnce(),
    ) -> Result<Infallible, LaunchError> {
        let environment = self.environment(account);
        let (program, _) = self
            .launch
            .exec
            .split_first()
            .ok_or(LaunchError::NoProgram)?;
        let text = |part: &String| CString::new(part.as_str());
        let arguments: Vec<CString> = self
            .launch
            .exec
            .iter()
            .map(text)
            .collect::<Result<_, _>>()?;
        let variables: Vec<CString> = environment
            .iter()
            .map(|(name, value)| CString::new(format!("{name}={value}")))
            .collect::<Result<_, _>>()?;
        let search = environment.get("PATH").map_or("", |path| path);
        let candidates = candidates(program, search)?;
        begins();
        sys::close_on_exec_all_above_standard();
        let mut failure = Errno::ENOENT;
        for candidate in candidates {
            let Err(errno) = execve(&candidate, &arguments, &variables);
            match errno {
                Errno::ENOENT if !program.contains('/') && !exists(&candidate) => {}
                Errno::ENOTDIR => {}
                // Another directory of the PATH may hold one that can be executed.
                Errno::EACCES => failure = errno,
                errno => return Err(refusal(program, &candidate, errno)),
            }
        }
        Err(LaunchError::Program {
            program: program.clone(),
            source: failure.into(),
        })
    }

    fn environment(&self, account: Option<&Account>) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        for (name, value) in account.map(Account::environment).into_iter().flatten() {
            environment.insert(name.to_owned(), value);
        }
        environment.extend(self.launch.env.iter().cloned());
        // By these two a later look or a later supervisor knows whose process it sees.
        for entry in [&*self.launcher.mark, &token_mark(self.launch.token)] {
            if let Some((name, value)) = entry.split_once('=') {
                environment.insert(name.to_owned(), value.to_owned());
            }
        }
        environment
    }
}

/// Where a program may be: at its path, or in the directories of this PATH.
fn candidates(program: &str, search: &str) -> Result<Vec<CString>, NulError> {
    if program.contains('/') {
        return Ok(vec![CString::new(program)?]);
    }
    search
        .split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| CString::new(format!("{directory}/{program}")))
        .collect()
}

fn exists(path: &CString) -> bool {
    path.to_str().is_ok_and(|path| Path::new(path).exists())
}

fn refusal(program: &str, candidate: &CString, errno: Errno) -> LaunchError {
    let program = program.to_owned();
    match errno {
        Errno::ENOENT if exists(candidate) => LaunchError::Interpreter { program },
        Errno::ENOEXEC => LaunchError::Format { program },
        errno => LaunchError::Program {
            program,
            source: errno.into(),
        },
    }
}

/// The directory above it can be passed through by everybody and read by nobody else.
fn make_fresh(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(spares::MODE);
    match (builder.create(directory), directory.parent()) {
        (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(directory)?;
            builder.create(directory)
        }
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .mode(0o711)
                .recursive(true)
                .create(parent)?;
            builder.create(directory)
        }
        (made, _) => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_the_launch_asks_for() {
        use SpawnFault::{Host, Launch};
        let candidate = CString::new("/no/such/program").unwrap();
        let exec = |errno| refusal("/bin/true", &candidate, Errno::from_raw(errno));
        let path = PathBuf::from("/data/1.log");
        let source = || io::Error::from_raw_os_error(libc::ENOSPC);
        for (error, expected) in [
            (exec(libc::ENOENT), Launch),
            (exec(libc::EACCES), Launch),
            (exec(libc::ENOEXEC), Launch),
            (exec(libc::E2BIG), Launch),
            (exec(libc::EAGAIN), Host),
            (exec(libc::ENOMEM), Host),
            (exec(libc::EMFILE), Host),
            (exec(libc::ETXTBSY), Host),
            (CString::new("a\0b").unwrap_err().into(), Launch),
            (LaunchError::NoProgram, Launch),
            (
                LaunchError::User(UserError::Unknown {
                    user: "batch".to_owned(),
                    host: "web1".to_owned(),
                }),
                Host,
            ),
            (
                LaunchError::Directory {
                    path,
                    source: source(),
                },
                Host,
            ),
            (LaunchError::Streams { source: source() }, Host),
        ] {
            assert_eq!(error.fault(), expected, "{error:?}");
        }
    }

    #[test]
    fn a_program_is_looked_for_where_its_path_or_the_variable_says() {
        for (program, search, expected) in [
            ("/bin/true", "/usr/bin:/bin", &["/bin/true"][..]),
            ("./true", "/usr/bin", &["./true"]),
            ("true", "/usr/bin:/bin", &["/usr/bin/true", "/bin/true"]),
            // An empty or relative entry would mean the working directory.
            ("true", ":bin:/bin", &["/bin/true"]),
            ("true", "", &[]),
        ] {
            let found = candidates(program, search).unwrap();
            let found: Vec<&str> = found.iter().map(|c| c.to_str().unwrap()).collect();
            assert_eq!(found, expected, "{program} in {search:?}");
        }
    }

    #[test]
    fn a_working_directory_is_fresh() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("work/7");
        make_fresh(&directory).unwrap();
        fs::write(directory.join("old"), "x").unwrap();
        make_fresh(&directory).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}
