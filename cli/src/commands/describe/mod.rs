//! `matins describe`: everything about one job, one run or one agent.

mod agent;
pub(super) mod host;
mod job;
mod observed;
pub(super) mod run;

use protocol::JobName;
use protocol::api::{AgentDetail, JobDetail, JobProfile};
use serde::Serialize;

use crate::args::Describe;
use crate::client::Client;
use crate::clock::now;
use crate::commands::{agent_path, find_run, path_of};
use crate::failure::Failure;
use crate::output::Page;
use crate::paint::{Tone, toned};
use crate::subject::{Subject, Thing};
use crate::text::{LINE_WIDTH, printable, wrap};

pub(crate) fn describe(options: &Describe) -> Result<(), Failure> {
    let target = &options.asking.target;
    options.watching.show(|| look(options, &target.find()?))
}

fn look(options: &Describe, client: &Client) -> Result<Page, Failure> {
    let format = options.asking.output;
    Ok(match &options.thing {
        Thing::Subject(Subject::Job(job)) => {
            let detail: JobDetail = client.get(&path_of(job), &[])?;
            let profile: JobProfile = client.get(&profile_path(job), &[])?;
            let data = JobWithProfile {
                detail: &detail,
                profile: &profile,
            };
            format.page(&data, |room| {
                job::show(&detail, now(), room) + &observed::show(&profile)
            })
        }
        Thing::Subject(Subject::Run(run)) => {
            let detail = find_run(client, run)?;
            format.page(&detail, |room| run::show(&detail, now(), room))
        }
        Thing::Agent(agent) => {
            let detail: AgentDetail = client.get(&agent_path(agent), &[])?;
            format.page(&detail, |room| agent::show(&detail, now(), room))
        }
    })
}

/// A job, and what its newest runs have used.
#[derive(Serialize)]
struct JobWithProfile<'a> {
    #[serde(flatten)]
    detail: &'a JobDetail,
    profile: &'a JobProfile,
}

fn profile_path(job: &JobName) -> String {
    format!("{}/profile", path_of(job))
}

/// Lines of `label  text`, the text broken under itself.
struct Facts {
    text: String,
}

/// Space before a label.
const INDENT: usize = 2;

/// Width of a label with the space after it.
const LABEL_WIDTH: usize = 13;

impl Facts {
    fn under(title: &str) -> Facts {
        Facts {
            text: format!("{}\n", printable(title)),
        }
    }

    fn add(&mut self, label: &str, text: &str) {
        for (i, line) in wrap(&printable(text), LINE_WIDTH - INDENT - LABEL_WIDTH)
            .iter()
            .enumerate()
        {
            let label = if i == 0 { label } else { "" };
            let full = format!("{:INDENT$}{label:<LABEL_WIDTH$}{line}", "");
            self.text.push_str(full.trim_end());
            self.text.push('\n');
        }
    }

    /// The same where the text begins with the word of a state, or the label is one.
    fn add_state(&mut self, label: &str, text: &str) {
        let word = &text[..text.find([',', ' ']).unwrap_or(text.len())];
        let tone = Tone::of(word).or_else(|| Tone::of(label));
        let place = self.text.len() + INDENT + LABEL_WIDTH;
        self.add(label, text);
        let shown_there = self.text.get(place..);
        if shown_there.is_some_and(|shown| shown.starts_with(word)) {
            let shown = toned(word, tone);
            self.text.replace_range(place..place + word.len(), &shown);
        }
    }

    fn add_some(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.add(label, text);
        }
    }
}
