//! The parts of Matins that stay, and what they need to know each other.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use agent::Measuring;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use coordinator::BackupSchedule;
use protocol::{AgentName, ClusterId, DurationMs, Label};
use transport::Role;

use super::{Asking, parse_length, parse_reason, parse_size};
use crate::client::DATA_DEFAULT;
use crate::commands::join::JoinToken;

#[derive(Args, Debug)]
pub(crate) struct Dev {
    /// Directory of manifests, *.yaml and *.yml
    #[arg(long, value_name = "DIR")]
    pub(crate) jobs: PathBuf,
    /// How many agents, each with a supervisor of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) agents: u32,
    /// How many attempts each agent runs at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: u32,
    /// A label of every agent; may be given more than once
    #[arg(long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<Label>,
    /// Where everything is kept
    #[arg(long, value_name = "DIR", env = "MATINS_DATA", hide_env_values = true, default_value = DATA_DEFAULT)]
    pub(crate) data: PathBuf,
    /// End by itself after so long, such as 90s or 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    pub(crate) exit_after: Option<DurationMs>,
}

#[derive(Args, Debug)]
pub(crate) struct Coordinator {
    /// Directory of the ledger, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Directory with ca.pem, cert.pem and key.pem [default: `identity` in the data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    /// Where agents connect, UDP
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7411")]
    pub(crate) agents_listen: SocketAddr,
    /// Where the API listens, TCP: in the clear on loopback, HTTPS elsewhere
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7412")]
    pub(crate) api_listen: SocketAddr,
    /// Wait with an empty data directory until `matins cluster add` makes this machine a
    /// member of a group, instead of beginning one
    #[arg(long)]
    pub(crate) join: bool,
    #[command(flatten)]
    pub(crate) control: Control,
    /// Name of this machine in logs and answers [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// A person is told when this machine's clock differs so much from those of the other
    /// control machines, or of the hosts
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "100ms")]
    pub(crate) clock_warn: DurationMs,
    /// Nothing fires while it differs by more than this
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "1s")]
    pub(crate) clock_stop: DurationMs,
    /// File that says which hosts are of which class, the same on all coordinators
    /// [default: /etc/matins/classes.toml, where it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    /// Socket of the address keeper on this machine; without one no address follows
    /// the leader
    #[arg(long, value_name = "FILE")]
    pub(crate) address_keeper: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) backups: Backups,
    /// How long the certificates are good that it gives to hosts and control machines,
    /// where it has the authority's key; they are renewed at two thirds of it
    #[arg(long, value_name = "DURATION", value_parser = parse_life, default_value = "30d")]
    pub(crate) certificate_life: DurationMs,
    #[command(flatten)]
    pub(crate) child: Child,
}

/// Where somebody is asked how the clock is kept.
#[derive(Clone, Debug)]
pub(crate) enum Chronyd {
    At(SocketAddr),
    None,
}

fn parse_chronyd(text: &str) -> Result<Chronyd, String> {
    if text == "none" {
        return Ok(Chronyd::None);
    }
    let address = text.parse().map(Chronyd::At);
    address.map_err(|_| {
        "it is neither an address with a port, such as 127.0.0.1:323, nor `none`".to_owned()
    })
}

/// Renewing takes a while, and must be over before the end.
fn parse_life(text: &str) -> Result<DurationMs, String> {
    match parse_length(text)? {
        life if life < DurationMs::from_secs(5) => {
            Err("it is shorter than 5s, in which nobody gets another one".to_owned())
        }
        life => Ok(life),
    }
}

/// How a control machine is reached by the others.
#[derive(Args, Debug)]
pub(crate) struct Control {
    /// Where the other control machines reach this one, UDP
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7410")]
    pub(crate) peers_listen: SocketAddr,
    /// Name or address of this machine for others; needed in a group, unless
    /// --peers-listen names an address of this machine, which is the default
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,
    /// How soon a lost leader is noticed; the same on all control machines
    #[arg(long, value_enum, value_name = "PROFILE", default_value_t)]
    pub(crate) timers: Timers,
    /// Where this machine's chronyd answers, to say how its clock is kept; once for each address.
    /// `none`: nobody is asked, and only other clocks are compared [default: 127.0.0.1:323 and
    /// [::1]:323]
    #[arg(long, value_name = "ADDR|none", value_parser = parse_chronyd)]
    pub(crate) chronyd: Vec<Chronyd>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Timers {
    /// 300 to 600 ms
    #[default]
    Default,
    /// 150 to 300 ms, for a quiet network and quick disks
    Fast,
}

impl Timers {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Timers::Default => "default",
            Timers::Fast => "fast",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Witness {
    /// Directory of log and ledger, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Directory with ca.pem, cert.pem and key.pem [default: `identity` in the data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) control: Control,
    #[command(flatten)]
    pub(crate) child: Child,
}

/// Backups by schedule.
#[derive(Args, Debug)]
pub(crate) struct Backups {
    /// Make backups of the ledger in this directory while this coordinator leads
    #[arg(long, value_name = "DIR")]
    pub(crate) backup_dir: Option<PathBuf>,
    /// How often
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "6h", requires = "backup_dir")]
    pub(crate) backup_every: DurationMs,
    /// How many of the newest stay in the directory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value_t = 14, requires = "backup_dir")]
    pub(crate) backup_keep: u32,
    /// What carries each off the machine: a JSON list of program and arguments, among
    /// which {file} stands for its path
    #[arg(long, value_name = "LIST", value_parser = parse_ship, requires = "backup_dir")]
    pub(crate) backup_ship: Option<Ship>,
}

/// Program and arguments.
#[derive(Clone, Debug)]
pub(crate) struct Ship(Vec<String>);

fn parse_ship(text: &str) -> Result<Ship, String> {
    BackupSchedule::parse_ship(text)
        .map(Ship)
        .map_err(|error| error.to_string())
}

impl Backups {
    pub(crate) fn schedule(self) -> Option<BackupSchedule> {
        Some(BackupSchedule {
            directory: self.backup_dir?,
            every: self.backup_every,
            keep: self.backup_keep,
            ship: self.backup_ship.map(|ship| ship.0),
        })
    }
}

#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[command(override_usage = "\
matins agent --data <DIR> --identity <DIR> --coordinator <HOST:PORT>
                    --supervisor <DIR> --slots <N>")]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) about: Option<AboutAgent>,
    #[command(flatten)]
    pub(crate) run: Option<RunAgent>,
    // Not part of what runs an agent: clap finds no optional group that holds another.
    #[command(flatten)]
    pub(crate) child: Child,
}

/// What is asked of a coordinator about an agent.
#[derive(Subcommand, Debug)]
pub(crate) enum AboutAgent {
    /// Let a host in no more: its connection ends, its leases run out
    Revoke {
        /// The agent, as its certificate names it
        #[arg(value_name = "NAME")]
        name: AgentName,
        /// Why, for those who read it later
        #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
        reason: String,
        #[command(flatten)]
        asking: Asking,
    },
    /// Get this host an identity, by a token that `matins token join` has made
    Enrol(Joining),
}

/// What a machine says that is to be let in.
#[derive(Args, Debug)]
pub(crate) struct Joining {
    /// The whole text of the token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "MATINS_JOIN_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: JoinToken,
    /// What this machine is to be called
    #[arg(long, value_name = "NAME")]
    pub(crate) name: AgentName,
    /// Directory that is to hold ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct RunAgent {
    /// Directory of the agent's own state, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Directory with ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: PathBuf,
    /// Where a coordinator listens for agents, UDP; given once for each of them. The
    /// agent works for whichever leads
    #[arg(long = "coordinator", value_name = "HOST:PORT", required = true)]
    pub(crate) coordinators: Vec<String>,
    /// Directory of the supervisor that runs on this host
    #[arg(long, value_name = "DIR")]
    pub(crate) supervisor: PathBuf,
    /// Name of this host: start only if the certificate in --identity states it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<AgentName>,
    /// How many attempts at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: u32,
    /// What jobs may ask for of this host under needs.labels, such as jdk17; may be
    /// given more than once
    #[arg(long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<Label>,
    /// How much of one attempt's output is kept: the first and the last of it
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    pub(crate) output_per_attempt: u64,
    /// How long the output of ended attempts is kept
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "7d")]
    pub(crate) output_age: DurationMs,
    /// The newest so many outputs of each job are kept beyond that
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) output_of_each_job: u32,
    /// How much output is kept in all [default: 5GiB, or a tenth of the disk if
    /// that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) output_total: Option<u64>,
    /// What may be started on this host, whatever a coordinator says [default:
    /// /etc/matins/policy.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// What this host can do is measured once, while no attempt runs, and its disk a little
    /// every hour: all of it, the disk that holds --data alone, or nothing. The first
    /// writes at most 260 MiB, and all of a year about 9 GB
    #[arg(long, value_name = "WHAT", value_parser = parse_measuring(), default_value = "full")]
    pub(crate) measure: Measuring,
    /// Where /proc and /sys are found that tell of the host's hardware, for trials: a
    /// directory with copies of them
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) hardware_root: PathBuf,
    /// How long it is between two looks at the hardware, for trials
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "30s", hide = true)]
    pub(crate) look_every: DurationMs,
    /// Run nothing and call every attempt a success, after so many milliseconds
    #[arg(long, value_name = "MS", hide = true)]
    pub(crate) pretend_for_bench: Option<u32>,
}

/// One look at a host, by a child of its agent.
#[derive(Args, Debug)]
pub(crate) struct Look {
    /// Where /proc and /sys are found
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Directory of the agent's own state
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// What the agent has measured
    #[arg(long, value_name = "WHAT", value_parser = parse_measuring(), default_value = "off")]
    pub(crate) measure: Measuring,
    /// Measure what is due of that instead, until the standard input ends
    #[arg(long)]
    pub(crate) take_measure: bool,
    #[command(flatten)]
    pub(crate) child: Child,
}

fn parse_measuring() -> impl TypedValueParser<Value = Measuring> {
    let names = PossibleValuesParser::new(Measuring::ALL.map(Measuring::as_str));
    names.map(|name| {
        let found = Measuring::ALL
            .into_iter()
            .find(|what| what.as_str() == name);
        found.expect("only these names are possible")
    })
}

#[derive(Args, Debug)]
pub(crate) struct Supervisor {
    /// Directory of the supervisor's socket and of its attempts, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) child: Child,
}

#[derive(Args, Debug)]
pub(crate) struct AddressKeeper {
    /// Interface that the addresses are put on
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: String,
    /// An address that follows the leader, without a prefix; may be given more than once
    #[arg(long = "address", value_name = "IP", required = true)]
    pub(crate) addresses: Vec<IpAddr>,
    /// Where the coordinator connects: its --address-keeper
    #[arg(long, value_name = "FILE", required_unless_present = "remove")]
    pub(crate) socket: Option<PathBuf>,
    /// Whom the coordinator runs as; root is let in as well
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Remove the addresses, and end
    #[arg(long, conflicts_with_all = ["socket", "user"])]
    pub(crate) remove: bool,
}

/// How `matins dev` ties the life of its children to its own.
#[derive(Args, Debug)]
pub(crate) struct Child {
    /// Process that started this one and without which it must not live
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) parent_pid: Option<i32>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Ca {
    /// Make a new authority: ca.pem, and ca.key, which belongs on no other machine
    Create {
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Name of the cluster, stated in every certificate
        #[arg(long, value_name = "CLUSTER")]
        cluster: ClusterId,
    },
    /// Issue a certificate with a key of its own: ca.pem, cert.pem and key.pem
    Issue {
        /// The authority's directory
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        #[arg(long, value_name = "ROLE", value_parser = roles())]
        role: Role,
        /// Name of the host
        #[arg(long, value_name = "NAME")]
        name: AgentName,
        /// Number of a control machine in its group, never given to another one [default: 1 for a
        /// coordinator]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), required_if_eq("role", "witness"))]
        node: Option<u64>,
        /// Directory the three files are written to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

pub(super) fn roles() -> impl TypedValueParser<Value = Role> {
    let words = Role::ALL.iter().map(|role| role.as_str());
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Role>())
}

#[derive(Args, Debug)]
pub(crate) struct Guard {
    /// Which database the job writes to
    #[arg(value_name = "DATABASE", value_enum)]
    pub(crate) database: Database,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}
