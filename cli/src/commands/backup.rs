//! `matins backup` and `matins restore`: a ledger as a file, and one that goes on from it.

use std::path::Path;

use ledger::backup::Seal;
use serde_json::{Value, json};

use crate::amounts::rough;
use crate::args::{Backup, Restore, Text};
use crate::clock::now;
use crate::commands::asking_user;
use crate::commands::sql::find_ledger;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::serve::host_name;
use crate::text::count;

pub(crate) fn backup(options: &Backup) -> Result<(), Failure> {
    let (file, seal, word) = match (&options.check, &options.to) {
        (Some(file), _) => {
            let what = format!("checking the backup {}", file.display());
            let seal = coordinator::check_backup(file).map_err(|error| {
                Failure::of_error(what, &error, "restore another one; this one is no use")
            })?;
            (file, seal, "whole")
        }
        (None, Some(file)) => (file, make(options, file)?, "made"),
        (None, None) => unreachable!("one of the two is required"),
    };
    match options.output {
        Text::Json => print_json(&as_json(file, &seal)),
        Text::Text => print(&format!("{word}: {}\n{}", file.display(), told(&seal))),
    }
}

fn make(options: &Backup, file: &Path) -> Result<Seal, Failure> {
    let ledger = find_ledger(&options.data)?;
    let data = ledger.parent().unwrap_or(&options.data);
    let what = format!("making a backup of {}", data.display());
    let remedy = "correct that and make it again; nothing was left behind";
    coordinator::back_up(data, file, &host_name())
        .map_err(|error| Failure::of_error(what, &error, remedy))
}

pub(crate) fn restore(options: &Restore) -> Result<(), Failure> {
    let (file, data) = (&options.backup, &options.data);
    let what = format!("restoring {} to {}", file.display(), data.display());
    let remedy = "correct that and restore again; no ledger was changed or begun";
    let restored = coordinator::restore(file, data, &asking_user(), &options.reason)
        .map_err(|error| Failure::of_error(what, &error, remedy))?;
    if options.output == Text::Json {
        let mut answer = as_json(file, &restored.seal);
        answer["data"] = json!(data);
        answer["generation"] = json!(restored.generation);
        answer["runs_to_confirm"] = json!(restored.runs);
        answer["jobs_in_doubt"] = json!(restored.jobs);
        return print_json(&answer);
    }
    let age = rough(now() - restored.seal.taken_at);
    print(&format!(
        "restored: {}\n{}\n\
         What happened in the {age} since is not in it:\n\
         - {} open in it, and a person must say what became of that: `matins get runs --state needs_confirmation`\n\
         - of {} the fires since are unknown; alerts say which, once a coordinator leads\n\
         - what was applied since must be applied again\n\
         - tokens go on in generation {}, above all that were given out before\n\
         - nothing is granted until 15 minutes after a coordinator leads\n\n\
         Next, see that nothing of the group before runs any more, and start\n  \
         matins coordinator --data {}\n",
        data.display(),
        told(&restored.seal),
        match restored.runs {
            1 => "1 run was".to_owned(),
            runs => format!("{runs} runs were"),
        },
        count(u64::from(restored.jobs), "job"),
        restored.generation,
        data.display(),
    ))
}

fn told(seal: &Seal) -> String {
    format!(
        "  taken    {} on {}, by matins {}\n  \
           holds    {}, {}, {} of them open, {}\n  \
           size     {} KiB\n  \
           sha256   {}\n",
        seal.taken_at.whole_second(),
        seal.node,
        seal.program,
        count(seal.jobs, "job"),
        count(seal.runs, "run"),
        seal.open_runs,
        count(seal.commands.cast_unsigned(), "command"),
        seal.bytes >> 10,
        seal.sha256,
    )
}

fn as_json(file: &Path, seal: &Seal) -> Value {
    json!({
        "file": file,
        "taken_at": seal.taken_at.to_rfc3339(),
        "node": seal.node,
        "program": seal.program,
        "schema": seal.schema,
        "position": seal.position,
        "commands": seal.commands,
        "jobs": seal.jobs,
        "runs": seal.runs,
        "open_runs": seal.open_runs,
        "bytes": seal.bytes,
        "sha256": seal.sha256,
    })
}
