//! `matins`: every part of Matins and every command, in one binary.

mod args;
mod client;
mod clock;
mod commands;
mod dev;
mod failure;
mod output;
mod serve;
mod subject;
mod text;

use std::process::ExitCode;

use clap::Parser;

use args::{AboutAgent, Agent, Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Told(told)) => {
            output::talk(&told.to_string());
            ExitCode::from(told.status as u8)
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        // It stays small and has one thread: nothing is made ready before it.
        Command::Supervisor(options) => serve::supervisor(options),
        Command::Coordinator(options) => serve::coordinator(options),
        Command::Agent(Agent {
            about:
                Some(AboutAgent::Revoke {
                    name,
                    reason,
                    asking,
                }),
            ..
        }) => commands::act::revoke(&name, reason, &asking),
        Command::Agent(Agent { run, child, .. }) => {
            let run = run.expect("the parser demands what running an agent needs");
            serve::agent(run, &child)
        }
        Command::Dev(options) => dev::dev(&options),
        Command::Apply(options) => commands::apply::apply(&options),
        Command::Get(what) => commands::get::get(&what),
        Command::Describe(options) => commands::describe::describe(&options),
        Command::Run(options) => commands::act::run(&options),
        Command::Rerun(options) => commands::act::rerun(&options),
        Command::Cancel(options) => commands::act::cancel(&options),
        Command::Confirm(options) => commands::act::confirm(&options),
        Command::Logs(options) => commands::logs::logs(&options),
        Command::Next(options) => commands::next::next(&options),
        Command::Bench(what) => commands::bench::bench(&what),
        Command::Schema => commands::schema::schema(),
        Command::Ca(what) => commands::ca::ca(what),
        Command::Guard(options) => commands::guard::guard(&options),
    }
}
