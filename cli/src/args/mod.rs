//! The command line, a file for each subject.

mod access;
mod act;
mod backup;
mod bench;
mod classes;
mod cluster;
mod fleet;
mod hardware;
mod import;
mod look;
mod manifests;
mod serve;
mod sizing;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::DurationMs;

use crate::client::Target;
use crate::output::Format;
pub(crate) use access::*;
pub(crate) use act::*;
pub(crate) use backup::*;
pub(crate) use bench::*;
pub(crate) use classes::*;
pub(crate) use cluster::*;
pub(crate) use fleet::*;
pub(crate) use hardware::*;
pub(crate) use import::*;
pub(crate) use look::*;
pub(crate) use manifests::*;
pub(crate) use serve::*;
pub(crate) use sizing::*;

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

Environment:
  MATINS_DATA        data directory of the coordinator or of `matins dev`,
                     where --data is not given [default: ./.matins]
  MATINS_API, MATINS_TOKEN_FILE
                     addresses of coordinators' APIs, by commas, where --api is
                     not given, and the file with the token, instead of a data
                     directory
  MATINS_CA          the cluster's ca.pem, by which an https address is trusted
  NO_COLOR           no colours, set to anything; there are none anyway where
                     the output is no terminal
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
    /// List jobs, runs, agents, alerts or resources
    #[command(subcommand)]
    Get(Get),
    /// Show everything about one job, one run or one agent
    Describe(Describe),
    /// Say what became of a fire time, and what to do now
    Why(Why),
    /// Run a job now, or for a past time that has no run
    Run(Run),
    /// Run the shards of a run that did not succeed once more
    Rerun(Rerun),
    /// Run all shards of a run anew, those that succeeded too
    Redo(Redo),
    /// Stop a run
    Cancel(Cancel),
    /// Say how shards ended that Matins could not judge
    Confirm(Confirm),
    /// Have nothing of a job's schedule fire until it is resumed
    Pause(Pause),
    /// Have a job's schedule fire again, from now on
    Resume(Resume),
    /// Settle alerts
    #[command(subcommand)]
    Alerts(Alerts),
    /// Write what attempts printed, and follow what they print
    Logs(Logs),
    /// Give a host no more work; what runs there goes on
    Cordon(Cordon),
    /// Give a host work again
    Uncordon(Uncordon),
    /// Give a host no more work, and wait until nothing runs there
    Drain(Drain),
    /// Say how much there is of what shards share
    #[command(subcommand)]
    Resource(Resource),
    /// Say who may ask this Matins for what
    #[command(subcommand)]
    Token(Token),
    /// Look at the control group, and change who is in it
    #[command(subcommand)]
    Cluster(Cluster),
    /// Hold the clocks of control machines and hosts against each other, the worst first
    Clock(Clock),
    /// Show when an expression, a job or a manifest fires, and say what it means
    Next(Next),
    /// Make manifests of crontabs, CronJobs, xxl-job or Quartz
    Import(Import),
    /// Say what this machine is made of and how it fares, or read what a tool told of one
    Hardware(Hardware),
    /// List the classes of hosts, or say why a host is not in one
    Classes(Classes),
    /// Say what the fleet carries, what to buy, and what a night would come to
    Sizing(Sizing),
    /// Measure what this machine carries
    #[command(subcommand)]
    Bench(Bench),
    /// Make a backup of the ledger, or check one
    Backup(Backup),
    /// Make a data directory whose ledger goes on from a backup
    Restore(Restore),
    /// Ask the ledger itself, read-only
    Sql(Sql),
    /// Print the JSON Schema of a manifest, by which editors complete and check
    Schema,
    /// Run a whole Matins of your own from a directory of manifests
    Dev(Dev),
    /// Run a coordinator
    Coordinator(Coordinator),
    /// Run a witness: the third vote of a control group, without business
    Witness(Witness),
    /// Run the agent of a host
    Agent(Agent),
    /// Run the supervisor of a host: the parent of every attempt
    Supervisor(Supervisor),
    /// Look at the host once, for its agent
    #[command(hide = true)]
    Look(Look),
    /// Keep the leader's address on this machine while its coordinator leads
    AddressKeeper(AddressKeeper),
    /// Make the cluster's authority, and certificates by which its parts know each other
    #[command(subcommand)]
    Ca(Ca),
    /// Print the SQL by which a job's own database refuses replaced processes
    Guard(Guard),
    /// Print what makes a shell complete commands, jobs and runs
    Completions(Completions),
    /// Write the manual pages
    Man(Man),
    /// Say which version this is, and which the coordinator's
    Version(Version),
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// For which shell; see its --help for where it goes
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// `source <(matins completions bash)` in ~/.bashrc
    Bash,
    /// `source <(matins completions zsh)` in ~/.zshrc, behind compinit
    Zsh,
    /// `matins completions fish | source` in ~/.config/fish/config.fish
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Directory the pages are written to, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Version {
    #[command(flatten)]
    pub(crate) asking: Asking,
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

fn parse_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it is empty: say why, for those who read it later".to_owned()),
        reason => Ok(reason.to_owned()),
    }
}

pub(crate) fn parse_length(text: &str) -> Result<DurationMs, String> {
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
        .chain([(coordinator::LEDGER_FAILED, "ledger could not be written")])
        {
            let line = format!("{status:>3}  ");
            let line = AFTER_HELP.lines().find(|l| l.starts_with(&line)).unwrap();
            assert!(line.contains(text), "{line}");
        }
    }
}
