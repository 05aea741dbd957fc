//! `matins describe`: everything about one job or one run.

mod job;
mod run;

use protocol::api::JobDetail;

use crate::args::Describe;
use crate::clock::now;
use crate::commands::find_run;
use crate::failure::Failure;
use crate::output::{Format, print, print_json};
use crate::subject::Subject;
use crate::text::{LINE_WIDTH, printable, wrap};

pub(crate) fn describe(options: &Describe) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    match &options.subject {
        Subject::Job(job) => {
            let path = format!("/api/v1/jobs/{}/{}", job.namespace(), job.name());
            let detail: JobDetail = client.get(&path, &[])?;
            match options.asking.output {
                Format::Json => print_json(&detail),
                Format::Table => print(&job::show(&detail, now())),
            }
        }
        Subject::Run(run) => {
            let detail = find_run(&client, run)?;
            match options.asking.output {
                Format::Json => print_json(&detail),
                Format::Table => print(&run::show(&detail, now())),
            }
        }
    }
}

/// Lines of `label  text`, the text broken under itself.
struct Facts {
    text: String,
}

/// Width of a label with the space after it.
const LABEL_WIDTH: usize = 13;

impl Facts {
    fn under(title: &str) -> Facts {
        Facts {
            text: format!("{}\n", printable(title)),
        }
    }

    fn add(&mut self, label: &str, text: &str) {
        for (i, line) in wrap(&printable(text), LINE_WIDTH - LABEL_WIDTH - 2)
            .iter()
            .enumerate()
        {
            let label = if i == 0 { label } else { "" };
            let full = format!("  {label:<LABEL_WIDTH$}{line}");
            self.text.push_str(full.trim_end());
            self.text.push('\n');
        }
    }

    fn add_some(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.add(label, text);
        }
    }
}
