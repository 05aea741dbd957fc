//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::{AgentName, ClusterId, DurationMs, JobName, Token, WallMs};

use crate::client::{DATA_DEFAULT, Target};
use crate::output::Format;
use crate::subject::{RunRef, Subject, parse_time};

const ABOUT: &str = "\
Runs jobs that must run at their hour, once, on machines you own.";

/// Kept beside [`crate::failure::Status`].
const AFTER_HELP: &str = "\
Exit status:
  0  done
  1  refused or failed; what, why and what to do are on standard error
  2  bad usage or bad input, such as a manifest with a mistake; nothing was done
  3  the coordinator cannot be reached, or cannot answer now
 74  a coordinator ended because its ledger could not be written
 75  a coordinator ended because another one leads on its ledger

Environment:
  MATINS_DATA        data directory of the coordinator or of `matins dev`,
                     where --data is not given [default: ./.matins]
  MATINS_URL, MATINS_TOKEN_FILE
                     address of the coordinator's API and the file with its
                     token, instead of a data directory
  MATINS_LOG         what coordinator and agent log, such as `debug` or
                     `coordinator=debug,info` [default: info]

Data is on standard output, talk on standard error.";

#[derive(Parser, Debug)]
#[command(
    name = "matins",
    version,
    about = ABOUT,
    after_help = AFTER_HELP,
    max_term_width = 80,
    disable_help_subcommand = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Create and change jobs from manifests
    Apply(Apply),
    /// List jobs, runs, agents or alerts
    #[command(subcommand)]
    Get(Get),
    /// Show everything about one job or one run
    Describe(Describe),
    /// Run a job now, or for a past time that has no run
    Run(Run),
    /// Run the shards of a run that did not succeed once more
    Rerun(Rerun),
    /// Stop a run
    Cancel(Cancel),
    /// Say how shards ended that Matins could not judge
    Confirm(Confirm),
    /// Write what attempts printed, and follow what they print
    Logs(Logs),
    /// Show when an expression, a job or a manifest fires, and say what it means
    Next(Next),
    /// Measure what this machine carries
    #[command(subcommand)]
    Bench(Bench),
    /// Print the JSON Schema of a manifest, by which editors complete and check
    Schema,
    /// Run a whole Matins of your own from a directory of manifests
    Dev(Dev),
    /// Run a coordinator
    Coordinator(Coordinator),
    /// Run the agent of a host
    Agent(Agent),
    /// Run the supervisor of a host: the parent of every attempt
    Supervisor(Supervisor),
    /// Make the cluster's authority, and certificates by which its parts know each other
    #[command(subcommand)]
    Ca(Ca),
    /// Print the SQL by which a job's own database refuses replaced processes
    Guard(Guard),
}

/// Options of every command that asks a coordinator.
#[derive(Args, Clone, Debug)]
pub(crate) struct Asking {
    #[command(flatten)]
    pub(crate) target: Target,
    /// How the answer is written
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// A manifest file, or a directory whose *.yaml and *.yml are read, those below it too; may be
    /// repeated
    #[arg(long = "file", short = 'f', value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Delete the jobs of the same namespaces that are not in these files
    #[arg(long)]
    pub(crate) prune: bool,
    /// Only say what would be created, changed and deleted, and when it fires then
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Get {
    /// Jobs, when they fire next and how they ended last
    Jobs {
        #[command(flatten)]
        asking: Asking,
    },
    /// Runs, newest first
    Runs {
        /// Only of this job
        #[arg(long, value_name = "JOB")]
        job: Option<JobName>,
        /// Only in this state
        #[arg(long, value_name = "STATE", value_enum)]
        state: Option<RunState>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        asking: Asking,
    },
    /// Agents, their slots and what they run
    Agents {
        #[command(flatten)]
        asking: Asking,
    },
    /// What a person should know, newest first
    Alerts {
        /// Only of this job
        #[arg(long, value_name = "JOB")]
        job: Option<JobName>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        asking: Asking,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RunState {
    Waiting,
    Ready,
    Running,
    NeedsConfirmation,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
    Missed,
}

#[derive(Args, Debug)]
pub(crate) struct Describe {
    /// A job, a run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "JOB|RUN|JOB@TIME")]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// A job, such as `finance/reconcile`
    #[arg(value_name = "JOB")]
    pub(crate) job: JobName,
    /// A past fire time of the job that has no run; without it the run is of no fire time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<WallMs>,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Rerun {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Only this shard
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Args, Debug)]
pub(crate) struct Confirm {
    /// A run (`run-12`), or the run of a job's fire time
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) run: RunRef,
    /// Only this shard; without it every shard that needs confirmation
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// How it is to be taken
    #[arg(long = "as", value_name = "VERDICT", value_enum)]
    pub(crate) verdict: Verdict,
    /// How you know, for those who read it later
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verdict {
    /// Its work is done
    Succeeded,
    /// Run it again
    Retry,
    /// Give the whole run up
    Failed,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Logs {
    /// A job, of which its newest run is meant, a run (`run-12`), or the run of a
    /// job's fire time
    #[arg(value_name = "JOB|RUN|JOB@TIME")]
    pub(crate) subject: Subject,
    /// Only of this shard
    #[arg(long, value_name = "K")]
    pub(crate) shard: Option<u32>,
    /// Of this attempt; without it the newest of each shard
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,
    /// Of the attempt of this number
    #[arg(long, value_name = "N", conflicts_with = "token")]
    pub(crate) attempt: Option<u32>,
    /// Go on with what is printed, until the attempts have ended
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Only the last N lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Only what was printed from this instant on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<WallMs>,
    /// Only one of the two streams
    #[arg(long, value_name = "STREAM", value_enum)]
    pub(crate) stream: Option<OutputStream>,
    /// Write before each line when it was read
    #[arg(long)]
    pub(crate) timestamps: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Next {
    /// An expression in quotes, after `--` where it begins with a dash; or a job of
    /// the coordinator, such as `finance/reconcile`
    #[arg(value_name = "EXPR|JOB", required_unless_present = "files")]
    pub(crate) what: Option<String>,
    /// A manifest file, or a directory whose *.yaml and *.yml are read, those below it too; may be
    /// repeated
    #[arg(
        long = "file",
        short = 'f',
        value_name = "FILE|DIR",
        conflicts_with = "what"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// How an expression is read [default: vixie]
    #[arg(long, value_name = "DIALECT", value_enum, conflicts_with = "files")]
    pub(crate) dialect: Option<Dialect>,
    /// Zone of an expression, such as Asia/Shanghai [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "files")]
    pub(crate) timezone: Option<String>,
    /// Only fires after this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) after: Option<WallMs>,
    /// How many fires
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Say in words what the schedule does, and what may surprise
    #[arg(long)]
    pub(crate) explain: bool,
    /// How the answer is written: json is an array of instants in UTC, with
    /// --explain an object
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Text,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Next fires of usual schedules, and manifests parsed, on one core
    Next {
        /// How the answer is written
        #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
        output: Text,
    },
}

/// How a cron expression is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// Five fields, as in a crontab
    Vixie,
    /// Six or seven fields, the second first, 1 is Sunday
    Quartz,
    /// Five fields, as in a CronJob
    #[value(alias = "k8s")]
    Kubernetes,
}

impl From<Dialect> for jobs::Dialect {
    fn from(dialect: Dialect) -> jobs::Dialect {
        match dialect {
            Dialect::Vixie => jobs::Dialect::Vixie,
            Dialect::Quartz => jobs::Dialect::Quartz,
            Dialect::Kubernetes => jobs::Dialect::Kubernetes,
        }
    }
}

/// [`Format`] for what is more than a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Text {
    /// For people, at 80 columns
    #[default]
    #[value(alias = "table")]
    Text,
    /// For programs
    Json,
}

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
    /// Where the API listens, TCP on loopback
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7412")]
    pub(crate) api_listen: SocketAddr,
    /// Name of this machine in logs and answers [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) child: Child,
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
}

#[derive(Args, Debug)]
pub(crate) struct RunAgent {
    /// Directory of the agent's own state, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Directory with ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "DIR")]
    pub(crate) identity: PathBuf,
    /// Where the coordinator listens for agents, UDP
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) coordinator: String,
    /// Directory of the supervisor that runs on this host
    #[arg(long, value_name = "DIR")]
    pub(crate) supervisor: PathBuf,
    /// Name of this host: start only if the certificate in --identity states it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<AgentName>,
    /// How many attempts at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: u32,
    /// How much of one attempt's output is kept: the first and the last of it
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    pub(crate) output_per_attempt: u64,
    /// How long the output of ended attempts is kept
    #[arg(long, value_name = "DURATION", value_parser = parse_length, default_value = "7d")]
    pub(crate) output_age: DurationMs,
    /// How much output is kept in all [default: 5GiB, or a tenth of the disk if
    /// that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) output_total: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Supervisor {
    /// Directory of the supervisor's socket and of its attempts, made where it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) child: Child,
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
        #[arg(long, value_enum, value_name = "ROLE")]
        role: Role,
        /// Name of the host
        #[arg(long, value_name = "NAME")]
        name: AgentName,
        /// Directory the three files are written to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Agent,
    Coordinator,
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

fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty: say why, for those who read it later".to_owned()),
        reason => Ok(reason.to_owned()),
    }
}

fn parse_length(text: &str) -> Result<DurationMs, String> {
    jobs::parse_duration(text).map_err(|error| error.to_string())
}

fn parse_size(text: &str) -> Result<u64, String> {
    jobs::parse_size(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_its_help_fits_80_columns() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        let mut pages = vec![command.render_long_help().to_string()];
        for sub in command.get_subcommands_mut() {
            pages.push(sub.render_long_help().to_string());
            for sub in sub.get_subcommands_mut() {
                pages.push(sub.render_long_help().to_string());
            }
        }
        for line in pages.iter().flat_map(|page| page.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn statuses_of_the_help_are_those_of_the_code() {
        use crate::failure::Status;
        for (status, text) in [
            (Status::Failed, "refused or failed"),
            (Status::BadInput, "bad usage or bad input"),
            (Status::Unreachable, "cannot be reached"),
        ]
        .map(|(status, text)| (status as i32, text))
        .into_iter()
        .chain([
            (coordinator::LEDGER_FAILED, "ledger could not be written"),
            (coordinator::DEPOSED, "another one leads"),
        ]) {
            let line = format!("{status:>3}  ");
            let line = AFTER_HELP.lines().find(|l| l.starts_with(&line)).unwrap();
            assert!(line.contains(text), "{line}");
        }
    }
}
