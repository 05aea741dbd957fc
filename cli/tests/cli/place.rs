//! A directory to work in, and the binary run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    directory: tempfile::TempDir,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A process that is killed when the test is done with it, however that ends.
pub(crate) struct Running(pub(crate) Child);

impl Place {
    pub(crate) fn new() -> Place {
        let directory = tempfile::Builder::new()
            .prefix("matins-cli-")
            .tempdir()
            .unwrap();
        Place { directory }
    }

    /// Lets other users pass through to what is below.
    pub(crate) fn let_pass(&self) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(self.directory.path(), mode).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_matins"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MATINS_")) {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn matins(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().unwrap().into()
    }

    /// Starts it with its output in `<name>.out`.
    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Running {
        let out = fs::File::create(self.path(&format!("{name}.out"))).unwrap();
        let child = self
            .command(arguments)
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Running(child)
    }

    /// Makes an authority in a directory.
    pub(crate) fn authority(&self, ca: &str, cluster: &str) {
        let create = ["ca", "create", "--dir", ca, "--cluster", cluster];
        self.matins(&create).done();
    }

    /// Has an authority issue an identity.
    pub(crate) fn issue(&self, ca: &str, role: &str, name: &str, out: &str) {
        let issue = [
            "ca", "issue", "--dir", ca, "--role", role, "--name", name, "--out", out,
        ];
        self.matins(&issue).done();
    }

    /// Starts a coordinator on the data in `data`, and waits until it says how it is reached.
    pub(crate) fn start_coordinator(&self, name: &str, arguments: &[&str]) -> Running {
        let running = self.start(name, arguments);
        wait_for("the coordinator to be up", || {
            self.path("data/api.json").exists().then_some(())
        });
        running
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// Ended with this status, and said each of these on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        // Where a line was broken is no matter here.
        let stderr = self.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in {}", self.stderr);
        }
    }

    /// The same with the three things that every failure says, on lines that fit.
    #[track_caller]
    pub(crate) fn refused_with_remedy(&self, status: i32, words: &[&str]) {
        self.refused(status, words);
        self.refused(status, &["error: ", "why: ", "remedy: "]);
        fits(&self.stderr);
    }

    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.stdout
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end; its status, if it ended by itself.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        wait_for("a process to end", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a process that this test has started, itself or through `matins dev`.
#[track_caller]
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success(), "kill -s {name} {pid}");
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain for {what}"
        );
        sleep(Duration::from_millis(20));
    }
}

/// Every line fits a terminal of 80 columns.
#[track_caller]
pub(crate) fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

/// Whether a process with this id exists and is not only waited for.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    let state = stat
        .ok()
        .and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// How a coordinator is run on ports that the kernel chooses, but for its API's. Who keeps the clock of
/// the machine that tests run on is nobody's matter.
pub(crate) fn coordinator<'a>(data: &'a str, api: &'a str) -> [&'a str; 10] {
    [
        "coordinator",
        "--data",
        data,
        "--agents-listen",
        "127.0.0.1:0",
        "--peers-listen",
        "127.0.0.1:0",
        "--chronyd=none",
        "--api-listen",
        api,
    ]
}

/// How an agent is run beside a supervisor in `s`.
pub(crate) fn agent<'a>(data: &'a str, identity: &'a str, coordinator: &'a str) -> [&'a str; 13] {
    [
        "agent",
        "--data",
        data,
        "--identity",
        identity,
        "--coordinator",
        coordinator,
        "--supervisor",
        "s",
        "--slots",
        "2",
        "--measure",
        "off",
    ]
}

/// A manifest that fires every second and ends at once.
pub(crate) fn manifest(name: &str, schedule: &str, shards: u32, exec: &str) -> String {
    format!(
        "name: {name}\n\
         purpose: Show that it runs.\n\
         owner: demo\n\
         repeatable: {{ safe: true, how: \"it only prints\" }}\n\
         schedule: {{ cron: \"{schedule}\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: skip, after: 30s }}\n\
         overlap: queue\n\
         expected_duration: 1s\n\
         timeout: 30s\n\
         takeover_after: 15s\n\
         retry: {{ at_most: 3, backoff: [1s] }}\n\
         shards: {shards}\n\
         run:\n  exec: {exec}\n"
    )
}
