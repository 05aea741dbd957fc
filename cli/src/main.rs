//! `matins`: every part of Matins and every command, in one binary.

mod amounts;
mod args;
mod client;
mod clock;
mod commands;
mod complete;
mod dev;
mod failure;
mod https;
mod import;
mod log_thread;
mod output;
mod paint;
mod patience;
mod progress;
mod reference;
mod route;
mod serve;
mod subject;
mod text;
mod watch;
mod yaml;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use args::{AboutAgent, Agent, Cli, Command};
use failure::Failure;
use paint::{Tone, toned_talk};

fn main() -> ExitCode {
    // A shell asks what may stand on a command line. Otherwise this does nothing.
    CompleteEnv::with_factory(Cli::command)
        .var(complete::COMPLETE)
        .complete();
    match dispatch(Cli::parse().command) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Told(told)) => {
            let error = toned_talk("error:", Tone::Bad);
            output::talk(&told.to_string().replacen("error:", &error, 1));
            ExitCode::from(told.status as u8)
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        // It stays small and has one thread: nothing is made ready before it.
        Command::Supervisor(options) => serve::supervisor(options),
        Command::Look(options) => serve::look(&options),
        Command::AddressKeeper(options) => serve::address_keeper(options),
        Command::Coordinator(options) => serve::coordinator(options),
        Command::Witness(options) => serve::witness(options),
        Command::Agent(Agent {
            about:
                Some(AboutAgent::Revoke {
                    name,
                    reason,
                    asking,
                }),
            ..
        }) => commands::fleet::revoke(&name, reason, &asking),
        Command::Agent(Agent {
            about: Some(AboutAgent::Enrol(joining)),
            ..
        }) => commands::join::enrol(&joining),
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
        Command::Redo(options) => commands::act::redo(&options),
        Command::Cancel(options) => commands::act::cancel(&options),
        Command::Confirm(options) => commands::act::confirm(&options),
        Command::Pause(options) => commands::act::pause(&options),
        Command::Resume(options) => commands::act::resume(&options),
        Command::Alerts(what) => commands::act::alerts(&what),
        Command::Cordon(options) => commands::fleet::cordon(&options),
        Command::Uncordon(options) => commands::fleet::uncordon(&options),
        Command::Drain(options) => commands::fleet::drain(&options),
        Command::Resource(what) => commands::fleet::resource(&what),
        Command::Token(what) => commands::token::token(&what),
        Command::Cluster(what) => commands::cluster::cluster(&what),
        Command::Clock(options) => commands::clock::clock(&options),
        Command::Why(options) => commands::why::why(&options),
        Command::Backup(options) => commands::backup::backup(&options),
        Command::Restore(options) => commands::backup::restore(&options),
        Command::Sql(options) => commands::sql::sql(&options),
        Command::Completions(options) => reference::completions(&options),
        Command::Man(options) => reference::man(&options),
        Command::Version(options) => commands::version::version(&options),
        Command::Logs(options) => commands::logs::logs(&options),
        Command::Next(options) => commands::next::next(&options),
        Command::Import(options) => import::import(&options),
        Command::Classes(options) => commands::classes::classes(&options),
        Command::Hardware(options) => commands::hardware::hardware(&options),
        Command::Sizing(options) => commands::sizing::sizing(&options),
        Command::Bench(what) => commands::bench::bench(&what),
        Command::Schema => commands::schema::schema(),
        Command::Ca(what) => commands::ca::ca(what),
        Command::Guard(options) => commands::guard::guard(&options),
    }
}
