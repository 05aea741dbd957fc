//! The parts of Matins that stay: coordinator and witness, agent and supervisor, and the keeper of the
//! leader's address.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coordinator::{ClassFile, memory};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid, User, gethostname, getppid};
use protocol::{AgentName, DurationMs};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use transport::Identity;

use crate::args::{
    AddressKeeper, Child, Chronyd, Control, Coordinator, Look, RunAgent, Supervisor, Timers,
    Witness,
};
use crate::commands::classes::scores_kept_in;
use crate::failure::{Failure, chain};
use crate::log_thread::LogThread;

/// Variable that says what is logged.
const LOG: &str = "MATINS_LOG";

/// Directory of the identity inside a control machine's data directory.
const IDENTITY_DIR: &str = "identity";

pub(crate) fn coordinator(options: Coordinator) -> Result<(), Failure> {
    // The thread that grants leases logs too, and must not wait for whoever reads it.
    let log = LogThread::start(io::stderr()).map_err(|error| {
        Failure::of_error("starting the thread that writes the log", &error, REMEDY)
    })?;
    begin(&options.child, log.clone())?;
    let what = format!("running a coordinator on {}", options.data.display());
    let classes = ClassFile::read(options.classes.as_deref()).map_err(|error| {
        let remedy = "correct the file, and try it with `matins classes --file FILE`";
        Failure::of_error(&what, &error, remedy)
    })?;
    let identity_dir = identity_dir(options.identity, &options.data);
    let backups = options.backups.schedule();
    let time_service = time_service(&options.control.chronyd);
    let options = coordinator::Options {
        backups,
        identity_dir,
        agents_addr: options.agents_listen,
        api_addr: options.api_listen,
        membership: membership(options.control, options.join),
        node: options.node.unwrap_or_else(host_name),
        data_dir: options.data,
        clock: coordinator::Thresholds {
            warn: options.clock_warn,
            stop: options.clock_stop,
        },
        classes,
        time_service,
        fitness: Some(fitness()),
        address_keeper: options.address_keeper,
        certificate_life: options.certificate_life,
    };
    let ended = block_on(&what, coordinator::run(options));
    log.finish();
    ended
}

pub(crate) fn witness(options: Witness) -> Result<(), Failure> {
    begin(&options.child, io::stderr)?;
    let what = format!("running a witness on {}", options.data.display());
    let identity_dir = identity_dir(options.identity, &options.data);
    let options = coordinator::WitnessOptions {
        identity_dir,
        time_service: time_service(&options.control.chronyd),
        fitness: Some(fitness()),
        data_dir: options.data,
        // A witness has no ledger of its own that a group could begin with.
        membership: membership(options.control, true),
    };
    block_on(&what, coordinator::run_witness(options))
}

/// What is known of this machine, with what an agent on it may have measured.
fn fitness() -> coordinator::Fitness {
    coordinator::Fitness {
        root: PathBuf::from("/"),
        measured: scores_kept_in,
    }
}

fn time_service(named: &[Chronyd]) -> coordinator::TimeService {
    if named.is_empty() {
        return coordinator::TimeService::on_loopback();
    }
    let addresses = named.iter().filter_map(|named| match named {
        Chronyd::At(address) => Some(*address),
        Chronyd::None => None,
    });
    match addresses.collect::<Vec<_>>() {
        nowhere if nowhere.is_empty() => coordinator::TimeService::Unasked,
        addresses => coordinator::TimeService::Chronyd(addresses),
    }
}

fn identity_dir(named: Option<PathBuf>, data: &Path) -> PathBuf {
    named.unwrap_or_else(|| data.join(IDENTITY_DIR))
}

fn membership(control: Control, join: bool) -> coordinator::Membership {
    coordinator::Membership {
        peers_addr: Some(control.peers_listen),
        advertise: control.advertise,
        join,
        timers: match control.timers {
            Timers::Default => coordinator::consensus::Timers::default(),
            Timers::Fast => coordinator::consensus::Timers::fast(),
        },
    }
}

pub(crate) fn agent(options: RunAgent, child: &Child) -> Result<(), Failure> {
    begin(child, io::stderr)?;
    let what = format!("running an agent on {}", options.data.display());
    if let Some(name) = &options.name {
        check_name(&what, name, &options.identity)?;
    }
    let work = options
        .pretend_for_bench
        .map_or(agent::Work::Run, |ms| agent::Work::Pretend {
            takes: DurationMs(ms.into()),
        });
    // After an upgrade the program's path leads to another version.
    let program = PathBuf::from("/proc/self/exe");
    let looking = agent::Looking {
        root: options.hardware_root,
        program,
        measuring: options.measure,
        every: Duration::from_millis(options.look_every.0.unsigned_abs()),
    };
    let options = agent::Options {
        identity_directory: options.identity,
        coordinators: options.coordinators,
        supervisor_directory: options.supervisor,
        data_directory: options.data,
        slots: options.slots,
        labels: options.labels,
        output_bytes_max: options.output_per_attempt,
        output_age: options.output_age,
        output_of_each_job: options.output_of_each_job,
        output_bytes_total: options.output_total,
        policy: options.policy,
        looking: (work == agent::Work::Run).then_some(looking),
        work,
    };
    block_on(&what, agent::run(options))
}

pub(crate) fn look(options: &Look) -> Result<(), Failure> {
    begin(&options.child, io::stderr)?;
    if options.take_measure {
        return agent::measure_host(&options.data, options.measure, io::stdin()).map_err(|error| {
            Failure::of_error("measuring this host", &error, "the agent measures it again")
        });
    }
    agent::stand_back();
    let mut out = io::BufWriter::new(io::stdout().lock());
    agent::write_look(&options.root, &options.data, options.measure, &mut out)
        .map_err(|error| Failure::of_error("looking at this host", &error, "the agent looks again"))
}

/// A host made from another's image carries the other's certificate, and would take its place.
fn check_name(what: &str, name: &AgentName, identity: &Path) -> Result<(), Failure> {
    let remedy = "see that --identity names the directory of this host's own identity";
    let own = Identity::load(identity).map_err(|error| Failure::of_error(what, &error, remedy))?;
    if own.name().name == *name {
        return Ok(());
    }
    Err(Failure::failed(
        what,
        format!(
            "the certificate in {} is that of {}, not of {name}",
            identity.display(),
            own.name()
        ),
        remedy,
    ))
}

/// Has one thread and nothing of a runtime, so that it stays as small as the host's life needs.
pub(crate) fn supervisor(options: Supervisor) -> Result<(), Failure> {
    begin(&options.child, io::stderr)?;
    let what = format!("running a supervisor on {}", options.dir.display());
    let options = agent::supervisor::Options {
        directory: options.dir,
    };
    agent::supervisor::run(options).map_err(|error| Failure::of_error(what, &error, REMEDY))
}

/// Small for the same reason: it is what may change the machine's addresses.
pub(crate) fn address_keeper(options: AddressKeeper) -> Result<(), Failure> {
    begin(&Child { parent_pid: None }, io::stderr)?;
    let what = format!("keeping addresses on {}", options.interface);
    let remedy = "correct that and start it again";
    let failed = |error| Failure::of_error(&what, &error, remedy);
    let Some(socket) = options.socket else {
        return coordinator::address::remove(&options.interface, &options.addresses)
            .map_err(failed);
    };
    let user = options.user.map(|user| find_user(&user)).transpose()?;
    let options = coordinator::address::KeeperOptions {
        interface: options.interface,
        addresses: options.addresses,
        socket,
        user,
    };
    coordinator::address::keep(options).map_err(failed)
}

/// By name, or by number where nobody has such a name.
fn find_user(name: &str) -> Result<Uid, Failure> {
    let found = User::from_name(name).ok().flatten().map(|user| user.uid);
    let number = || name.parse().map(Uid::from_raw).ok();
    found.or_else(number).ok_or_else(|| {
        Failure::bad_input(
            "reading --user",
            format!("this machine has no user `{name}`"),
            "name the user that the coordinator runs as",
        )
    })
}

const REMEDY: &str = "correct that and start it again; what is in its directory stays good";

/// Logs to standard error, and ties this process to the one that started it where that is wanted.
pub(crate) fn begin(
    child: &Child,
    log: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Result<(), Failure> {
    let filter = match env::var_os(LOG) {
        // What openraft says, some twenty times a second where a member is away, is told once where
        // it is noticed; each of its errors comes back to whoever asked, and its end ends the process.
        None => EnvFilter::new("info,openraft=off"),
        Some(_) => EnvFilter::try_from_env(LOG).map_err(|error| {
            Failure::bad_input(
                format!("reading {LOG}"),
                chain(&error),
                "set it for example to `debug` or to `coordinator=debug,info`",
            )
        })?,
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log)
        .with_ansi(io::stderr().is_terminal())
        // Such an error would be printed to where nothing can be written, which panics: a full
        // disk below a log must not end a supervisor, and the attempts with it.
        .log_internal_errors(false)
        .init();
    // What the command line was read with, and read by, is never needed again.
    memory::give_back_beginning();
    match child.parent_pid {
        Some(parent) => live_with(Pid::from_raw(parent)),
        None => Ok(()),
    }
}

/// Asks the kernel for SIGTERM when the parent ends, and ends now if it already has.
fn live_with(parent: Pid) -> Result<(), Failure> {
    let what = "starting as a child of `matins dev`";
    prctl::set_pdeathsig(Signal::SIGTERM)
        .map_err(|errno| Failure::of_error(what, &errno, "leave --parent-pid to `matins dev`"))?;
    if getppid() == parent {
        return Ok(());
    }
    Err(Failure::failed(
        what,
        format!("process {parent}, which started it, is gone"),
        "start `matins dev` again",
    ))
}

pub(crate) fn block_on<E: std::error::Error>(
    what: &str,
    part: impl Future<Output = Result<(), E>>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::of_error(what, &error, REMEDY))?;
    runtime
        .block_on(part)
        .map_err(|error| Failure::of_error(what, &error, REMEDY))
}

pub(crate) fn host_name() -> String {
    gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unnamed".to_owned())
}
