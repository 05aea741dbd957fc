//! What a night would come to if something were otherwise.

mod outcome;
mod read;

pub use outcome::{JobOutcome, Outcome, outcome};
pub use read::parse_what_if;

use std::fmt;

use protocol::{AgentName, ClassName, JobName, WallMs};

use crate::plan::next_at;
use crate::scenario::{Host, Scenario};

/// More hosts than this at once are a mistake.
pub const HOSTS_MAX: u32 = 1_000;

/// What a file asks for, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    pub changes: Vec<Planned>,
}

/// A change, and where it stands in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub line: usize,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Add { hosts: u32, like: Like },
    Lose { host: AgentName, at: At },
    Volume { job: JobName, times: f64 },
}

/// Which hosts there are more of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Like {
    Host(AgentName),
    /// As the first host of this class.
    Class(ClassName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The first such time of the night, in UTC.
    Clock {
        hour: i64,
        minute: i64,
    },
    Instant(WallMs),
}

/// What is wrong with a file, or with what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}; {remedy}")]
pub struct Problem {
    pub file: String,
    pub line: usize,
    pub what: String,
    pub remedy: String,
}

impl WhatIf {
    /// The scenario with everything that the file asks for. Every change that cannot be made is told.
    pub fn apply(&self, file: &str, scenario: &Scenario) -> Result<Scenario, Vec<Problem>> {
        let (mut changed, mut problems) = (scenario.clone(), Vec::new());
        for Planned { line, change } in &self.changes {
            if let Err((what, remedy)) = change.apply(&mut changed) {
                problems.push(Problem {
                    file: file.to_owned(),
                    line: *line,
                    what,
                    remedy,
                });
            }
        }
        if problems.is_empty() {
            Ok(changed)
        } else {
            Err(problems)
        }
    }
}

/// What is wrong, and what to do.
type Refused = (String, String);

impl Change {
    fn apply(&self, scenario: &mut Scenario) -> Result<(), Refused> {
        match self {
            Change::Add { hosts, like } => add(*hosts, like, scenario),
            Change::Lose { host, at } => {
                let at = match *at {
                    At::Clock { hour, minute } => next_at(scenario.begins, hour, minute),
                    At::Instant(at) => at,
                };
                if at < scenario.begins || at >= scenario.ends {
                    let (begins, ends) = (scenario.begins, scenario.ends);
                    return Err((
                        format!("{at} is not of the night from {begins} to {ends}"),
                        "write a time of it, as 23:40".to_owned(),
                    ));
                }
                let known = known_hosts(scenario);
                let found = scenario.hosts.iter_mut().find(|other| other.name == *host);
                let found = found.ok_or_else(|| (format!("there is no host `{host}`"), known))?;
                found.lost_at = Some(at);
                Ok(())
            }
            Change::Volume { job, times } => {
                let found = scenario
                    .jobs
                    .iter_mut()
                    .find(|other| other.manifest.name == *job);
                let none = || {
                    (
                        format!("there is no job `{job}`"),
                        "`matins get jobs` lists them".to_owned(),
                    )
                };
                found.ok_or_else(none)?.volume *= times;
                Ok(())
            }
        }
    }
}

fn known_hosts(scenario: &Scenario) -> String {
    let names = scenario.hosts.iter().take(8).map(|host| host.name.as_str());
    match names.collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => "no host is in service".to_owned(),
        names => format!("in service are {names}"),
    }
}

fn add(hosts: u32, like: &Like, scenario: &mut Scenario) -> Result<(), Refused> {
    let model = match like {
        Like::Host(name) => scenario.hosts.iter().find(|host| host.name == *name),
        Like::Class(class) => {
            let is_in = |host: &&Host| scenario.classes.of(&host.facts).is_in(class);
            scenario.hosts.iter().find(is_in)
        }
    };
    let Some(model) = model.cloned() else {
        return Err(match like {
            Like::Host(name) => (format!("there is no host `{name}`"), known_hosts(scenario)),
            Like::Class(class) => (
                format!("no host in service is of class `{}`", class.as_str()),
                format!(
                    "name one that they are like: like = \"NAME\"; {}",
                    known_hosts(scenario)
                ),
            ),
        });
    };
    let mut number = 1;
    for _ in 0..hosts {
        let name = loop {
            let name = format!("{}-added-{number}", model.name);
            number += 1;
            let name: AgentName = name.parse().map_err(|_| {
                let what = format!(
                    "`{}` has no room in its name for `-added-{number}`",
                    model.name
                );
                (what, "name another host that they are like".to_owned())
            })?;
            if scenario.hosts.iter().all(|host| host.name != name) {
                break name;
            }
        };
        scenario.hosts.push(Host {
            name,
            lost_at: None,
            ..model.clone()
        });
    }
    Ok(())
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Add { hosts, like } => {
                let plural = if *hosts == 1 { "host" } else { "hosts" };
                match like {
                    Like::Host(name) => write!(f, "{hosts} more {plural} like {name}"),
                    Like::Class(class) => {
                        write!(f, "{hosts} more {plural} of class {}", class.as_str())
                    }
                }
            }
            Change::Lose { host, at } => match at {
                At::Clock { hour, minute } => write!(f, "{host} lost at {hour:02}:{minute:02} UTC"),
                At::Instant(at) => write!(f, "{host} lost at {at}"),
            },
            Change::Volume { job, times } => {
                write!(f, "{times} times the volume of {}", job.as_str())
            }
        }
    }
}

#[cfg(test)]
mod tests;
