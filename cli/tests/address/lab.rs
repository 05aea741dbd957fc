//! Machines on a switch, each a network namespace: some keep the leader's address, one asks for it.
//!
//! A namespace lives as long as a process that holds it, and the holder ends when the test does,
//! however that ends: then the devices are gone too.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use coordinator::address::{Hold, Pace, Trouble, hold};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{DurationMs, Epoch};
use tokio::sync::{mpsc, watch};

pub(crate) const V4: &str = "10.77.0.5";
pub(crate) const V6: &str = "fd77::5";
pub(crate) const BOTH: [&str; 2] = [V4, V6];

/// A user who is not root and has no account.
pub(crate) const COORDINATOR: &str = "64711";
pub(crate) const STRANGER: &str = "64713";

/// How long anything may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether namespaces can be made here. Where they cannot, says so in one line; on the machines
/// that check every change it must be.
#[allow(clippy::print_stderr)]
pub(crate) fn is_possible() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&str| {
        let mut places = std::env::split_paths(&path);
        places.any(|directory| directory.join(program).exists())
    };
    let programs = ["ip", "nsenter", "unshare", "setpriv", "python3", "perl"];
    let mut missing: Vec<&str> = programs.into_iter().filter(|p| !is_there(p)).collect();
    if !nix::unistd::geteuid().is_root() {
        missing.insert(0, "root");
    }
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "CI must have {missing:?}");
    eprintln!("skipped: this needs {missing:?}");
    false
}

/// A process that is killed when the test is done with it, however that ends.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace.
pub(crate) struct Net(Running);

impl Net {
    fn new() -> Net {
        // cat ends when the pipe to it is closed, which the kernel does if nobody else does.
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = holder.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        assert_eq!(said, "\n", "unshare made no namespace");
        let net = Net(Running(holder));
        net.ip("link set lo up");
        net
    }

    fn pid(&self) -> u32 {
        self.0.0.id()
    }

    /// A command in here. nsenter becomes the program, so the child is the program itself.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.pid()))
            .arg(program);
        command
    }

    #[track_caller]
    pub(crate) fn ip(&self, arguments: &str) -> String {
        finish(self.command("ip").args(arguments.split(' ')))
    }
}

#[track_caller]
pub(crate) fn finish(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) struct Lab {
    directory: tempfile::TempDir,
    switch: Net,
    client: Net,
    pub(crate) machines: Vec<Machine>,
}

/// A machine that may have the address, with somebody on it who answers there.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) net: Net,
    pub(crate) socket: PathBuf,
    _serving: Running,
}

impl Lab {
    /// Machines `m1`, `m2`, ..., without keepers.
    pub(crate) fn new(machines: usize) -> Lab {
        let directory = tempfile::Builder::new()
            .prefix("matins-address-")
            .tempdir()
            .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let switch = Net::new();
        switch.ip("link add br0 type bridge");
        switch.ip("link set br0 up");
        let client = Net::new();
        plug(&switch, &client, "client", 9);
        let mut lab = Lab {
            directory,
            switch,
            client,
            machines: Vec::new(),
        };
        for n in 1..=machines {
            lab.add_machine(n);
        }
        lab
    }

    fn add_machine(&mut self, n: usize) {
        let name = format!("m{n}");
        let net = Net::new();
        plug(&self.switch, &net, &name, 10 + n);
        let serving = start(answers(&net).args(["serve", &name]).args(BOTH)).0;
        self.machines.push(Machine {
            socket: self.directory.path().join(format!("{name}.sock")),
            name,
            net,
            _serving: serving,
        });
    }

    /// A coordinator of its own without any right, that has its machine's keeper hold the address.
    pub(crate) fn coordinate(&self, machine: &Machine) -> Running {
        let at = |name: &str| self.directory.path().join(name);
        let matins = env!("CARGO_BIN_EXE_matins");
        if !at("identity").exists() {
            let ca = ["ca", "create", "--cluster", "test", "--dir"];
            finish(Command::new(matins).args(ca).arg(at("ca")));
            let issue = ["ca", "issue", "--role", "coordinator", "--name", "c1"];
            let mut command = Command::new(matins);
            command.args(issue).arg("--dir").arg(at("ca"));
            finish(command.arg("--out").arg(at("identity")));
        }
        let mut command = machine.net.command("setpriv");
        command
            .args(["--inh-caps=-all", "--bounding-set=-all", matins])
            .args(["coordinator", "--data"])
            .arg(at("data"))
            .arg("--identity")
            .arg(at("identity"))
            .arg("--address-keeper")
            .arg(&machine.socket);
        begin(&mut command).0
    }

    /// Has the client ask an address all the time.
    pub(crate) fn ask(&self, address: &str) -> Asking {
        let (running, lines) = begin(answers(&self.client).args(["ask", address]));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&heard);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let (at, name) = line.split_once(' ').unwrap();
                let answer = (at.parse().unwrap(), name.to_owned());
                hear.lock().unwrap().push(answer);
            }
        });
        Asking {
            heard,
            _running: running,
        }
    }

    /// Whose hardware the client believes an address to be at.
    pub(crate) fn neighbour(&self, address: &str) -> String {
        let said = self.client.ip(&format!("neigh show {address}"));
        let mut words = said.split(' ').skip_while(|word| *word != "lladdr");
        words.nth(1).unwrap_or("nowhere").to_owned()
    }

    pub(crate) fn cable(&self, machine: &str, state: &str) {
        self.switch.ip(&format!("link set {machine} {state}"));
    }
}

/// Connects a namespace to the switch by a cable that has the name there.
fn plug(switch: &Net, net: &Net, name: &str, number: usize) {
    let pid = net.pid();
    switch.ip(&format!(
        "link add {name} type veth peer name eth0 netns {pid}"
    ));
    switch.ip(&format!("link set {name} master br0 up"));
    net.ip(&format!("address add 10.77.0.{number}/24 dev eth0"));
    net.ip(&format!("address add fd77::{number}/64 dev eth0 nodad"));
    net.ip("link set eth0 up");
}

fn answers(net: &Net) -> Command {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/address/answers.py");
    let mut command = net.command("python3");
    command.arg(program);
    command
}

type Lines = std::io::Lines<BufReader<std::process::ChildStdout>>;

fn begin(command: &mut Command) -> (Running, Lines) {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let stdout = running.0.stdout.take().unwrap();
    (running, BufReader::new(stdout).lines())
}

/// As `begin`, once it has said something.
fn start(command: &mut Command) -> (Running, Lines) {
    let (running, mut lines) = begin(command);
    assert!(lines.next().is_some(), "it ended at once");
    (running, lines)
}

/// A client that asks all the time, and who has answered it when (ms since boot).
pub(crate) struct Asking {
    pub(crate) heard: Arc<Mutex<Vec<(f64, String)>>>,
    _running: Running,
}

impl Asking {
    /// Waits until the machine answers, after everything that was heard before.
    #[track_caller]
    pub(crate) fn wait_for(&self, machine: &Machine) {
        let before = self.heard.lock().unwrap().len();
        wait_for(&format!("an answer of {}", machine.name), || {
            let heard = self.heard.lock().unwrap();
            heard[before..]
                .iter()
                .any(|(_, name)| *name == machine.name)
        });
    }
}

impl Machine {
    /// Starts a keeper with no more rights than it is said to need.
    pub(crate) fn keep(&self) -> Running {
        let rights = "-all,+net_admin,+net_raw";
        let mut command = self.net.command("setpriv");
        command
            .arg(format!("--inh-caps={rights}"))
            .arg(format!("--bounding-set={rights}"))
            .arg(env!("CARGO_BIN_EXE_matins"))
            .args(["address-keeper", "--interface", "eth0"])
            .args(["--address", V4, "--address", V6])
            .args(["--user", COORDINATOR, "--socket"])
            .arg(&self.socket);
        let (running, _) = begin(&mut command);
        wait_for("the keeper to listen", || self.socket.exists());
        running
    }

    /// Puts nothing on the socket's place: a keeper that was killed leaves its file.
    pub(crate) fn forget_socket(&self) {
        std::fs::remove_file(&self.socket).unwrap();
    }

    pub(crate) fn has(&self, address: &str) -> bool {
        let there = self.net.ip("-o address show dev eth0");
        there.contains(&format!(" {address}/"))
    }

    pub(crate) fn has_any(&self) -> bool {
        BOTH.iter().any(|address| self.has(address))
    }

    pub(crate) fn hardware(&self) -> String {
        let said = self.net.ip("-o link show dev eth0");
        let mut words = said.split(' ').skip_while(|word| *word != "link/ether");
        words.nth(1).unwrap().to_owned()
    }

    /// What the kernel tells of addresses from now on.
    pub(crate) fn monitor(&self) -> Monitor<'_> {
        let running = begin(self.net.command("ip").args(["-o", "monitor", "address"]));
        let (running, lines) = running;
        let told = Arc::new(Mutex::new(Vec::new()));
        let hear = Arc::clone(&told);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                hear.lock().unwrap().push(line);
            }
        });
        let monitor = Monitor {
            machine: self,
            told,
            marks: 0.into(),
            _running: running,
        };
        monitor.told();
        monitor
    }

    /// The coordinator's side, with a reign and a quorum as the test wants them.
    pub(crate) fn leader(&self) -> Leader {
        Leader::new(&self.socket)
    }
}

pub(crate) struct Monitor<'a> {
    machine: &'a Machine,
    told: Arc<Mutex<Vec<String>>>,
    marks: std::cell::Cell<u32>,
    _running: Running,
}

impl Monitor<'_> {
    /// Everything that was told by now: what the kernel tells comes in order, so a mark is waited
    /// for that is made now. It is made again until it is heard, for the monitor may just begin.
    pub(crate) fn told(&self) -> Vec<String> {
        let number = self.marks.get();
        self.marks.set(number + 1);
        let mark = format!("127.7.{}.{}", number / 200, number % 200 + 1);
        wait_for("the monitor to tell", || {
            let net = &self.machine.net;
            net.ip(&format!("address add {mark}/32 dev lo"));
            net.ip(&format!("address del {mark}/32 dev lo"));
            let told = self.told.lock().unwrap();
            told.iter().any(|line| line.contains(&mark))
        });
        self.told.lock().unwrap().clone()
    }

    /// How often one of the addresses was put since the monitor began.
    pub(crate) fn puts(&self) -> usize {
        let told = self.told();
        let of_ours = |line: &&String| BOTH.iter().any(|a| line.contains(&format!(" {a}/")));
        let puts = told.iter().filter(of_ours);
        puts.filter(|line| !line.starts_with("Deleted")).count()
    }
}

/// A coordinator in miniature around the real client: the test says whether it reigns, and whether
/// a quorum confirms it.
pub(crate) struct Leader {
    reign: Option<watch::Sender<Option<Epoch>>>,
    pub(crate) quorum: Arc<AtomicBool>,
    trouble: watch::Receiver<Option<Trouble>>,
    hand_over: mpsc::Receiver<Trouble>,
    thread: Option<JoinHandle<()>>,
}

impl Leader {
    fn new(socket: &Path) -> Leader {
        let quorum = Arc::new(AtomicBool::new(true));
        let (reign, reigns) = watch::channel(None);
        let (trouble, told) = watch::channel(None);
        let (hand_over, asked) = mpsc::channel(1);
        let confirms = Arc::clone(&quorum);
        let work = hold(Hold {
            socket: socket.to_owned(),
            pace: Pace::of(DurationMs(300), DurationMs(600)),
            reign: reigns,
            confirm: move |_| std::future::ready(confirms.load(Ordering::SeqCst)),
            trouble,
            hand_over,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Leader {
            reign: Some(reign),
            quorum,
            trouble: told,
            hand_over: asked,
            thread: Some(thread::spawn(move || runtime.block_on(work))),
        }
    }

    pub(crate) fn reigns(&self, epoch: i64) {
        let reign = self.reign.as_ref().unwrap();
        reign.send_replace(Some(Epoch(epoch)));
    }

    pub(crate) fn abdicates(&self) {
        self.reign.as_ref().unwrap().send_replace(None);
    }

    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble.borrow().clone()
    }

    pub(crate) fn is_asked_to_hand_over(&mut self) -> Option<Trouble> {
        self.hand_over.try_recv().ok()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.reign = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || thread::panicking());
    }
}
