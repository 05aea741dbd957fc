//! The processes of a `matins dev`.
//!
//! Each has a process group of its own, so that ^C in a terminal reaches this process alone and
//! the others end in order. Each also ends by itself when this process is gone, however it went.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Line;
use super::home::Home;
use crate::args::Dev;
use crate::clock;
use crate::failure::Failure;
use crate::output::talk;
use crate::text::printable;

/// How long a process that died stays down.
const DOWN_FOR: Duration = Duration::from_millis(300);
/// The same where it dies again and again.
const DOWN_FOR_MAX: Duration = Duration::from_secs(5);
/// A process that lived so long has recovered.
const RECOVERED_AFTER: Duration = Duration::from_secs(10);

/// How much of a log is read, and shown, when the coordinator does not come up.
const LOG_TAIL_BYTES: u64 = 4096;
const LOG_TAIL_LINES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Agent,
    Supervisor,
    Coordinator,
}

/// Supervisors first: they interrupt what runs, and the agents are there to hand it back, so that
/// it uses up no retry. What is granted meanwhile finds no supervisor and is refused.
const STOP_ORDER: [Kind; 3] = [Kind::Supervisor, Kind::Agent, Kind::Coordinator];

impl Kind {
    /// How long one may take to end: longer than whatever it has to wait for itself.
    const fn stop_limit(self) -> Duration {
        Duration::from_secs(match self {
            Kind::Agent => 3,
            Kind::Supervisor => 6,
            Kind::Coordinator => 5,
        })
    }
}

pub(super) struct Children {
    kept: Vec<Kept>,
    said: mpsc::Receiver<Line>,
    coordinator_log: PathBuf,
}

/// A process that is started again whenever it dies, until it is told to stop.
struct Kept {
    kind: Kind,
    stop: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

/// How to start one.
#[derive(Clone)]
struct Recipe {
    name: String,
    kind: Kind,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// File that must not outlive the process it speaks of.
    address_file: Option<PathBuf>,
}

impl Children {
    /// Starts them all. Must be called on the thread that lives as long as they shall: the
    /// kernel ties them to it.
    pub(super) fn start(home: &Home, options: &Dev) -> Result<Children, Failure> {
        let failed = |error: io::Error| {
            Failure::of_error(
                format!(
                    "starting the processes of Matins on {}",
                    home.path().display()
                ),
                &error,
                "see the limits of this machine on processes and files",
            )
        };
        let (say, said) = mpsc::channel(64);
        let mut children = Children {
            kept: Vec::new(),
            said,
            coordinator_log: home.log_of("coordinator"),
        };
        for recipe in plan(home, options).map_err(failed)? {
            let child = recipe.start().map_err(failed)?;
            let kind = recipe.kind;
            let (stop, stopped) = watch::channel(false);
            let keeper = tokio::spawn(keep(recipe, child, stopped, say.clone()));
            children.kept.push(Kept { kind, stop, keeper });
        }
        Ok(children)
    }

    /// What happened to one of them.
    pub(super) async fn said(&mut self) -> Line {
        match self.said.recv().await {
            Some(line) => line,
            // Nobody is kept any more.
            None => std::future::pending().await,
        }
    }

    /// Ends them, one kind after the other, each within its limit.
    pub(super) async fn stop(mut self) {
        // Nothing is said of processes that end because they are told to.
        self.said.close();
        for kind in STOP_ORDER {
            let of_kind = || self.kept.iter().filter(|kept| kept.kind == kind);
            of_kind().for_each(|kept| {
                let _ = kept.stop.send(true);
            });
            for kept in self.kept.iter_mut().filter(|kept| kept.kind == kind) {
                let _ = (&mut kept.keeper).await;
            }
        }
    }

    /// There is no coordinator; why, only its log knows, whose end is said.
    pub(super) fn never_came_up(&self) -> Failure {
        let log = &self.coordinator_log;
        // Where the log cannot be read, its name is all there is to say.
        let tail = read_tail(log).unwrap_or_default();
        let lines: Vec<&str> = tail.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
        talk(&printable(&shown.join("\n")));
        Failure::failed(
            "starting a coordinator",
            "it did not answer in time; the end of its log is above",
            format!("correct what {} says, and start again", log.display()),
        )
    }
}

/// Every process: one coordinator, and for each host a supervisor and an agent.
fn plan(home: &Home, options: &Dev) -> io::Result<Vec<Recipe>> {
    let program = std::env::current_exe()?;
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    let recipe = |name: String, kind, arguments: Vec<String>| Recipe {
        log: home.log_of(&name),
        name,
        kind,
        program: program.clone(),
        arguments,
        address_file: None,
    };
    let mut recipes = vec![Recipe {
        address_file: Some(home.address_file()),
        ..recipe(
            "coordinator".to_owned(),
            Kind::Coordinator,
            vec![
                "coordinator".to_owned(),
                format!("--data={}", path(home.coordinator())),
                format!("--identity={}", path(home.coordinator_identity())),
                format!("--agents-listen={}", home.agents_address()),
                "--api-listen=127.0.0.1:0".to_owned(),
                "--peers-listen=127.0.0.1:0".to_owned(),
                "--node=dev".to_owned(),
                // Nobody is to be told of the clock of a machine that Matins is tried on.
                "--chronyd=none".to_owned(),
            ],
        )
    }];
    for host in home.hosts() {
        recipes.push(recipe(
            format!("{host}-supervisor"),
            Kind::Supervisor,
            vec![
                "supervisor".to_owned(),
                format!("--dir={}", path(home.supervisor(host))),
            ],
        ));
        let mut arguments = vec![
            "agent".to_owned(),
            format!("--data={}", path(home.agent(host))),
            format!("--identity={}", path(home.identity_of(host.as_str()))),
            format!("--coordinator={}", home.agents_address()),
            format!("--supervisor={}", path(home.supervisor(host))),
            format!("--slots={}", options.slots),
            // Several of them try Matins on one machine, which is somebody's own.
            "--measure=off".to_owned(),
        ];
        let labels = options.labels.iter();
        arguments.extend(labels.map(|label| format!("--label={}", label.as_str())));
        recipes.push(recipe(format!("{host}-agent"), Kind::Agent, arguments));
    }
    Ok(recipes)
}

impl Recipe {
    fn start(&self) -> io::Result<Child> {
        if let Some(file) = &self.address_file {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.log)?;
        Command::new(&self.program)
            .args(&self.arguments)
            .arg(format!("--parent-pid={}", std::process::id()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
    }
}

/// Keeps one process running until `stop`, then ends it.
async fn keep(
    recipe: Recipe,
    mut child: Child,
    mut stop: watch::Receiver<bool>,
    say: mpsc::Sender<Line>,
) {
    let mut down_for = DOWN_FOR;
    loop {
        let since = Instant::now();
        let how = tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => {
                end(&mut child, recipe.kind.stop_limit()).await;
                return;
            }
            status = child.wait() => status.map_or_else(|error| error.to_string(), how_it_ended),
        };
        if since.elapsed() >= RECOVERED_AFTER {
            down_for = DOWN_FOR;
        }
        child = loop {
            tokio::select! {
                biased;
                () = told_to_stop(&mut stop) => return,
                () = sleep(down_for) => {}
            }
            down_for = (down_for * 2).min(DOWN_FOR_MAX);
            match recipe.start() {
                Ok(child) => break child,
                Err(error) => tell(&say, &recipe.name, "is down", error.to_string()).await,
            }
        };
        let pid = child.id().unwrap_or_default();
        let detail = format!("{how}, up again as {pid}");
        tell(&say, &recipe.name, "died", detail).await;
    }
}

async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    // Where nobody could say it any more, it is over as well.
    let _ = stop.wait_for(|&stop| stop).await;
}

async fn tell(say: &mpsc::Sender<Line>, who: &str, what: &'static str, detail: String) {
    let line = Line {
        at: clock::now(),
        who: who.to_owned(),
        what,
        detail,
        ended: None,
    };
    // Nobody listens any more once all are being ended.
    let _ = say.send(line).await;
}

async fn end(child: &mut Child, limit: Duration) {
    if let Some(pid) = child.id() {
        // It can only have died in between, and then the wait says so.
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
    }
    if timeout(limit, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(signal) => signal.as_str().to_owned(),
            Err(_) => format!("signal {signal}"),
        },
        (None, None) => "in an unknown way".to_owned(),
    }
}

fn read_tail(file: &std::path::Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}
