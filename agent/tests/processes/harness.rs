//! Supervisors and agents as processes of their own, and the other end of the supervisor's socket.
//!
//! A supervisor takes over the process it runs in, so it needs one. The test binary starts itself
//! again, asking its harness for one "test" only, which finds in the environment what it is to
//! become.
#![allow(unsafe_code)] // three blocks: what a process does between fork and exec, and the heap

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use protocol::attempt::Limits;
use protocol::output::Record;
use protocol::supervisor::{End, Event, KillCause, Launch, Request, Table};
use protocol::{BootMs, DurationMs, Token};

/// Names the supervisor's directory to a process that is to be a supervisor.
const SUPERVISOR: &str = "MATINS_TEST_SUPERVISOR";
/// Names the home, and the coordinators' addresses with a blank between them, to a process that is
/// to be an agent.
const AGENT: &str = "MATINS_TEST_AGENT";
const COORDINATOR: &str = "MATINS_TEST_COORDINATOR";
/// Names the file that a supervisor tells the size of its heap in.
const HEAP: &str = "MATINS_TEST_HEAP";
/// Beside it: what is told, before it has its place.
pub(crate) const HEAP_ASIDE: &str = "heap.new";

/// Every wait on a condition ends in failure after this long. Enough for a machine under software
/// emulation, which is fifty times slower.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Kept of one attempt's output.
pub(crate) const OUTPUT_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn become_what_was_asked_for() {
    if let Ok(directory) = std::env::var(SUPERVISOR) {
        let directory = PathBuf::from(directory);
        if let Ok(file) = std::env::var(HEAP) {
            std::thread::spawn(move || tell_heap(Path::new(&file)));
        }
        agent::supervisor::run(agent::supervisor::Options { directory }).unwrap();
    } else if let Ok(home) = std::env::var(AGENT) {
        let home = PathBuf::from(home);
        let coordinators = std::env::var(COORDINATOR).unwrap();
        let options = agent::Options {
            identity_directory: home.join("identity"),
            coordinators: coordinators.split(' ').map(str::to_owned).collect(),
            supervisor_directory: home.join("supervisor"),
            data_directory: home.clone(),
            slots: 4,
            labels: Vec::new(),
            output_bytes_max: OUTPUT_BYTES_MAX,
            output_age: DurationMs::from_secs(3600),
            output_of_each_job: 3,
            output_bytes_total: None,
            looking: None,
            policy: None,
            work: agent::Work::Run,
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(agent::run(options))
            .unwrap();
    }
}

/// Counts what lives on the heap: for tests of a supervisor that must not grow.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP_OF_THIS_PROCESS: Counting = Counting;

// SAFETY: everything is left to the system's own allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Writes down what lives on the heap, again and again.
fn tell_heap(file: &Path) {
    let aside = file.with_file_name(HEAP_ASIDE);
    loop {
        let text = format!("{}\n", LIVE_BYTES.load(Ordering::Relaxed));
        // The home may be gone already.
        if fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, file))
            .is_err()
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a supervisor finds mounted, of cgroup hierarchies above all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    All,
    /// All, and `passwd` and `group` of the home where the host's are. Needs root.
    Users,
    /// Version 1 alone. Needs root.
    V1,
    /// None. Needs root.
    None,
}

/// Files of a home, and where they are found under [`Mounted::Users`].
type Users = [(CString, &'static CStr); 2];

fn users(home: &Path) -> Users {
    let file = |name| CString::new(home.join(name).into_os_string().into_encoded_bytes()).unwrap();
    [
        (file("passwd"), c"/etc/passwd"),
        (file("group"), c"/etc/group"),
    ]
}

/// Gives the calling process a view of its own of what is mounted.
fn change_mounts(mounted: Mounted, users: &Users) -> std::io::Result<()> {
    let check = |result: i32| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    let hidden: &[&CStr] = match mounted {
        Mounted::All => return Ok(()),
        Mounted::Users => &[],
        Mounted::V1 => &[c"/sys/fs/cgroup/unified"],
        Mounted::None => &[c"/sys/fs/cgroup"],
    };
    // SAFETY: plain system calls on strings that live, all of them async-signal-safe.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let (none, all) = (std::ptr::null(), c"/".as_ptr());
        let private = libc::MS_REC | libc::MS_PRIVATE;
        check(libc::mount(none, all, none, private, none.cast()))?;
        for path in hidden {
            check(libc::umount2(path.as_ptr(), libc::MNT_DETACH))?;
        }
        for (file, path) in users.iter().filter(|_| mounted == Mounted::Users) {
            let (file, path) = (file.as_ptr(), path.as_ptr());
            check(libc::mount(file, path, none, libc::MS_BIND, none.cast()))?;
        }
    }
    Ok(())
}

/// Whether the machine is of the kind that this test is about; says so where it is not.
pub(crate) fn has_cgroups(test: &str, needs: &[&str]) -> bool {
    let missing = needs.iter().find(|path| !Path::new(path).exists());
    if let Some(missing) = missing {
        eprintln!("skipped: {test} is about a machine that has {missing}");
    }
    missing.is_none()
}

/// A cgroup of its own for a supervisor, as systemd gives one to a unit that asks for delegation,
/// on a machine of version 2 alone: there nobody else may be in it.
fn delegate() -> std::io::Result<Option<PathBuf>> {
    static UNITS: AtomicUsize = AtomicUsize::new(0);
    let top = Path::new("/sys/fs/cgroup");
    if !top.join("cgroup.controllers").exists() || !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let number = UNITS.fetch_add(1, Ordering::Relaxed);
    let unit = top.join(format!("matins-test-{}-{number}", std::process::id()));
    fs::create_dir(&unit)?;
    Ok(Some(unit))
}

/// Whether this test can run: as root, and with these programs. Says so where it cannot; where
/// everything is provided for, that is a failure.
pub(crate) fn is_possible(test: &str, needs_root: bool, needs: &[&str]) -> bool {
    let missing = if needs_root && !nix::unistd::geteuid().is_root() {
        Some("root")
    } else {
        needs.iter().copied().find(|path| !Path::new(path).exists())
    };
    let Some(missing) = missing else {
        return true;
    };
    assert!(std::env::var_os("CI").is_none(), "{test} needs {missing}");
    eprintln!("skipped: {test} needs {missing}");
    false
}

/// Starts this binary again as something else.
fn start(role: &str, home: &Path, coordinator: &str, mounted: Mounted) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "process_of_this_binary"])
        .env(role, home)
        .env(COORDINATOR, coordinator)
        .env(HEAP, home.with_file_name("heap"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let unit = if role == SUPERVISOR {
        delegate().unwrap()
    } else {
        None
    };
    if role == SUPERVISOR {
        let procs = unit.as_ref().map(|unit| unit.join("cgroup.procs"));
        let users = users(home.parent().unwrap());
        // The harness runs the supervisor on a thread of its own, and its main thread must not
        // take the signals: they are blocked before it begins.
        // SAFETY: the harness of one test at a time forks here, and what the child does it may do
        // after the fork of a process whose other threads wait.
        unsafe {
            command.pre_exec(move || {
                if let Some(procs) = &procs {
                    fs::write(procs, "0")?;
                }
                change_mounts(mounted, &users)?;
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
        unit,
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
        self.start_where(Mounted::All)
    }

    pub(crate) fn start_where(&self, mounted: Mounted) -> Running {
        start(SUPERVISOR, &self.path().join("supervisor"), "", mounted)
    }

    pub(crate) fn start_agent(&self, coordinator: &str) -> Running {
        start(AGENT, self.path(), coordinator, Mounted::All)
    }

    /// Says who may pass through this home.
    pub(crate) fn allow(&self, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(self.path(), mode).unwrap();
    }

    /// What lives on the supervisor's heap now, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let file = self.path().join("heap");
        // The first that is told may have been counted before this was asked.
        for _ in 0..2 {
            fs::remove_file(&file).unwrap();
            wait_for("word of the heap", || file.exists());
        }
        let text = fs::read_to_string(file).unwrap();
        text.trim().parse().unwrap()
    }

    /// Cgroups of attempts that exist.
    pub(crate) fn cgroups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let is_ours = directory
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy() == self.cgroup_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if is_ours && entry.file_name() != "supervisor" {
                        found.push(entry.path());
                    }
                    open.push(entry.path());
                }
            }
        }
        found
    }

    /// `matins-` and a hash of the supervisor's directory (FNV-1a).
    pub(crate) fn cgroup_name(&self) -> String {
        let directory = self.directory();
        let bytes = directory.as_os_str().as_encoded_bytes();
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("matins-{hash:016x}")
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

    /// Directory of this attempt's output.
    pub(crate) fn output(&self, token: i64) -> PathBuf {
        self.path().join(format!("output/{token}"))
    }

    /// What this attempt has written, both streams in their order.
    pub(crate) fn output_of(&self, token: i64) -> String {
        String::from_utf8_lossy(&self.raw_output_of(token)).into_owned()
    }

    pub(crate) fn raw_output_of(&self, token: i64) -> Vec<u8> {
        let records = self.records_of(token);
        let lines = records.split(|&byte| byte == b'\n');
        let raw = lines
            .filter_map(Record::parse)
            .map(|record| record.raw().concat());
        raw.collect::<Vec<_>>().concat()
    }

    /// The files of this attempt's output, one after the other.
    pub(crate) fn records_of(&self, token: i64) -> Vec<u8> {
        let Ok(entries) = fs::read_dir(self.output(token)) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.file_name().is_some_and(|name| name != "about"));
        files.sort();
        files
            .iter()
            .flat_map(|path| fs::read(path).unwrap_or_default())
            .collect()
    }

    /// The number after `pid=` in the output of this attempt.
    pub(crate) fn pid_in_output(&self, token: i64) -> i32 {
        let output = self.output_of(token);
        let line = output.lines().find_map(|l| l.strip_prefix("pid="));
        line.and_then(|pid| pid.trim().parse().ok())
            .unwrap_or_else(|| panic!("no pid in {output:?}"))
    }
}

impl Drop for Home {
    /// A supervisor that a test has killed leaves its cgroups to the next, and there is none.
    fn drop(&mut self) {
        let places = self.path().join("supervisor/cgroups");
        for place in fs::read_to_string(places).unwrap_or_default().lines() {
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                // Files of a cgroup cannot be removed and need not be.
                let _ = fs::remove_dir(entry.path());
            }
            let _ = fs::remove_dir(place);
        }
    }
}

/// A process of this binary; stopped when the test is done with it.
pub(crate) struct Running {
    child: Option<Child>,
    unit: Option<PathBuf>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Pids of its children, whichever of its threads has forked them.
    pub(crate) fn children(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let lists = tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let words = |list: String| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        lists.flat_map(words).collect()
    }

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
        self.end();
        if let Some(unit) = &self.unit {
            // One that was killed leaves its cgroups to the next supervisor.
            let _ = fs::remove_dir(unit);
        }
    }
}

impl Running {
    fn end(&mut self) {
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
        self.send_all([request.clone()]);
    }

    /// Sends these in one write.
    pub(crate) fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        let mut lines = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut lines, &request).unwrap();
            lines.push(b'\n');
        }
        self.stream.get_mut().write_all(&lines).unwrap();
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

    /// Kills an attempt as a person's cancel does.
    pub(crate) fn cancel(&mut self, token: i64) {
        self.send(&Request::Kill {
            token: Token(token),
            cause: KillCause::Cancelled,
        });
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
    pub(crate) fn any_end(&mut self) -> (i64, End) {
        loop {
            if let Event::Ended { token, end } = self.event() {
                return (token.0, end);
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
        output_bytes_max: OUTPUT_BYTES_MAX,
        deadline: BootMs(now_ms() + 600_000),
        takeover: DurationMs(60_000),
        timeout: DurationMs(600_000),
    })
}

/// A launch with something about it changed.
pub(crate) fn launch_with(
    home: &Home,
    token: i64,
    script: &str,
    change: impl FnOnce(&mut Launch),
) -> Request {
    let Request::Launch(mut launch) = launch_shell(home, token, script) else {
        unreachable!("a launch is made");
    };
    change(&mut launch);
    Request::Launch(launch)
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
