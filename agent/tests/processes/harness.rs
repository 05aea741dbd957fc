//! Supervisors and agents as processes of their own, and the other end of the supervisor's socket.
//!
//! A supervisor takes over the process it runs in, so it needs one. The test binary starts itself
//! again, asking its harness for one "test" only, which finds in the environment what it is to
//! become.
#![allow(unsafe_code)] // one block: see `start`

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use protocol::attempt::Limits;
use protocol::supervisor::{End, Event, Launch, Request, Table};
use protocol::{BootMs, DurationMs, Token};

/// Names the supervisor's directory to a process that is to be a supervisor.
const SUPERVISOR: &str = "MATINS_TEST_SUPERVISOR";
/// Names the home and the coordinator's address to a process that is to be an agent.
const AGENT: &str = "MATINS_TEST_AGENT";
const COORDINATOR: &str = "MATINS_TEST_COORDINATOR";

/// Every wait on a condition ends in failure after this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn become_what_was_asked_for() {
    if let Ok(directory) = std::env::var(SUPERVISOR) {
        let directory = directory.into();
        agent::supervisor::run(agent::supervisor::Options { directory }).unwrap();
    } else if let Ok(home) = std::env::var(AGENT) {
        let home = PathBuf::from(home);
        let options = agent::Options {
            identity_directory: home.join("identity"),
            coordinator: std::env::var(COORDINATOR).unwrap(),
            supervisor_directory: home.join("supervisor"),
            data_directory: home.clone(),
            slots: 4,
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(agent::run(options))
            .unwrap();
    }
}

/// Starts this binary again as something else.
fn start(role: &str, home: &Path, coordinator: &str) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "process_of_this_binary"])
        .env(role, home)
        .env(COORDINATOR, coordinator)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if role == SUPERVISOR {
        // The harness runs the supervisor on a thread of its own, and its main thread must not
        // take the signals: they are blocked before it begins.
        // SAFETY: blocking signals is async-signal-safe and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                let mut mask = SigSet::empty();
                for signal in [Signal::SIGTERM, Signal::SIGCHLD, Signal::SIGINT] {
                    mask.add(signal);
                }
                Ok(mask.thread_block()?)
            });
        }
    }
    Running {
        child: Some(command.spawn().unwrap()),
    }
}

/// A directory for one supervisor and the output of its attempts.
pub(crate) struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("output")).unwrap();
        Home { directory }
    }

    /// The supervisor's own directory, by its true name.
    pub(crate) fn directory(&self) -> PathBuf {
        fs::canonicalize(self.path().join("supervisor")).unwrap()
    }

    /// Where everything of this home is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn start(&self) -> Running {
        start(SUPERVISOR, &self.path().join("supervisor"), "")
    }

    pub(crate) fn start_agent(&self, coordinator: &str) -> Running {
        start(AGENT, self.path(), coordinator)
    }

    /// Connects and says hello, once a supervisor answers.
    pub(crate) fn connect_for_table(&self) -> (Agent, Table) {
        let mut agent = Agent::connect(self);
        agent.send(&Request::Hello);
        let table = agent.table();
        (agent, table)
    }

    pub(crate) fn connect(&self) -> Agent {
        self.connect_for_table().0
    }

    pub(crate) fn output(&self, token: i64) -> PathBuf {
        self.path().join(format!("output/{token}.log"))
    }

    pub(crate) fn output_of(&self, token: i64) -> String {
        fs::read_to_string(self.output(token)).unwrap_or_default()
    }

    /// The number after `pid=` in the output of this attempt.
    pub(crate) fn pid_in_output(&self, token: i64) -> i32 {
        let output = self.output_of(token);
        let line = output.lines().find_map(|l| l.strip_prefix("pid="));
        line.and_then(|pid| pid.trim().parse().ok())
            .unwrap_or_else(|| panic!("no pid in {output:?}"))
    }
}

/// A process of this binary; stopped when the test is done with it.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        if signal == Signal::SIGSTOP {
            // Until it stands it may go on for a moment on another processor.
            let stat = format!("/proc/{}/stat", child.id());
            wait_for("a process to stand still", || {
                let stat = fs::read_to_string(&stat).unwrap();
                stat.rsplit_once(')').unwrap().1.starts_with(" T")
            });
        }
    }

    /// Waits for its end; whether that was an orderly one.
    pub(crate) fn wait(mut self) -> bool {
        let mut child = self.child.take().unwrap();
        let mut status = None;
        wait_for("a process to end", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // In order, so that no job outlives the test; by force if that does not do.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
        let patience = Instant::now() + Duration::from_secs(10);
        while Instant::now() < patience {
            if matches!(child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The agent's end of the socket.
pub(crate) struct Agent {
    stream: BufReader<UnixStream>,
}

impl Agent {
    /// Connects as soon as a supervisor listens.
    pub(crate) fn connect(home: &Home) -> Agent {
        let path = agent::supervisor::socket_path(&home.directory.path().join("supervisor"));
        let mut stream = None;
        wait_for("the supervisor's socket", || {
            stream = UnixStream::connect(&path).ok();
            stream.is_some()
        });
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Agent {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        let mut line = serde_json::to_vec(request).unwrap();
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).unwrap();
    }

    fn event(&mut self) -> Event {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).expect("an event in time");
        assert!(count > 0, "the supervisor closed the connection");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn table(&mut self) -> Table {
        loop {
            if let Event::Table(table) = self.event() {
                return table;
            }
        }
    }

    pub(crate) fn launched(&mut self, token: i64) {
        match self.event() {
            Event::Launched { token: t, .. } if t == Token(token) => {}
            other => panic!("not the launch of {token}: {other:?}"),
        }
    }

    /// Waits for the end of this attempt, skipping words of others.
    pub(crate) fn ended(&mut self, token: i64) -> End {
        loop {
            match self.event() {
                Event::Ended { token: t, end } if t == Token(token) => return end,
                Event::Table(table) => panic!("a table unasked: {table:?}"),
                _ => {}
            }
        }
    }

    /// Waits for the next end, whosesoever it is.
    pub(crate) fn any_end(&mut self) -> i64 {
        loop {
            if let Event::Ended { token, .. } = self.event() {
                return token.0;
            }
        }
    }

    /// Whether the supervisor has closed this connection.
    pub(crate) fn is_cut(&mut self) -> bool {
        let mut line = String::new();
        matches!(self.stream.read_line(&mut line), Ok(0) | Err(_))
    }
}

pub(crate) fn launch(home: &Home, token: i64, exec: &[&str]) -> Request {
    Request::Launch(Launch {
        user: None,
        limits: Limits::default(),
        token: Token(token),
        exec: exec.iter().map(|&part| part.to_owned()).collect(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        output: home.output(token).display().to_string(),
        deadline: BootMs(now_ms() + 600_000),
        takeover: DurationMs(60_000),
        timeout: DurationMs(600_000),
    })
}

pub(crate) fn launch_shell(home: &Home, token: i64, script: &str) -> Request {
    launch(home, token, &["/bin/sh", "-c", script])
}

/// CLOCK_BOOTTIME in milliseconds.
pub(crate) fn now_ms() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    now.tv_sec() * 1000 + now.tv_nsec() / 1_000_000
}

/// A process that has ended but was not reaped is not alive.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap().trim_start();
        !state.starts_with(['Z', 'X'])
    })
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
