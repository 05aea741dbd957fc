//! Whether this machine is what a control machine should be: of class `coordinator`.
//!
//! Nobody is refused for it: a group that has a slow member is better off than one that has none. But
//! every commit waits for it, so it stands in the log, and whoever leads raises an alert. What is not
//! known is no reason for that, and a clock that is not kept has alerts of its own.

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use hardware::Root;
use probes::read_profile;
use profiles::classes::{Class, Classes, Finding, FindingKind};
use protocol::HostFacts;

use crate::consensus::Group;
use crate::run::CoordinatorError;

const CLASS: &str = "coordinator";
const THREAD: &str = "fitness";

/// Between two looks: batteries fail and disks are exchanged, and no look is for nothing.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// How soon the thread ends after the group.
const NOTICE_EVERY: Duration = Duration::from_secs(1);

/// How it is found out what this machine is.
#[derive(Clone, Debug)]
pub struct Fitness {
    /// Where /proc and /sys are.
    pub root: PathBuf,
    /// What an agent on this machine has measured of the disk below a directory.
    pub measured: fn(&Path) -> Option<HostFacts>,
}

/// What is to be said of the machine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judged {
    /// What it certainly is not.
    unfit: Option<String>,
    /// What nobody knows of it.
    unjudged: Option<String>,
}

/// Looks at the machine again and again, on a thread of its own: tools of vendors take their time.
pub(crate) fn watch(
    fitness: Fitness,
    data_dir: PathBuf,
    classes: &Classes,
    group: Weak<Group>,
) -> Result<(), CoordinatorError> {
    let named = CLASS.parse().expect("a name of a class");
    let Some(class) = classes.class(&named).cloned() else {
        return Ok(());
    };
    let keep_looking = move || {
        let mut told = None;
        loop {
            let judged = look(&fitness, &data_dir, &class);
            match group.upgrade() {
                Some(group) => group.tell(|said| said.unfit.clone_from(&judged.unfit)),
                None => return,
            }
            if told.as_ref() != Some(&judged) {
                log(&judged);
                told = Some(judged);
            }
            if !lives_for(&group, LOOK_EVERY) {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name(THREAD.to_owned());
    let started = thread.spawn(keep_looking);
    started
        .map(drop)
        .map_err(|source| CoordinatorError::Thread {
            name: THREAD,
            source,
        })
}

/// Whether somebody holds the group for so long.
fn lives_for(group: &Weak<Group>, length: Duration) -> bool {
    let turns = length.as_secs() / NOTICE_EVERY.as_secs();
    (0..turns).all(|_| {
        thread::sleep(NOTICE_EVERY);
        group.strong_count() > 0
    })
}

fn look(fitness: &Fitness, data_dir: &Path, class: &Class) -> Judged {
    let root = Root::directory(&fitness.root);
    let measured = (fitness.measured)(data_dir);
    let profile = read_profile(&root, data_dir, measured.as_ref());
    judge(class, &profile.facts)
}

fn judge(class: &Class, facts: &HostFacts) -> Judged {
    let standing = class.standing(facts);
    let says = |kind: FindingKind| {
        let findings = standing.against().filter(|finding| finding.kind == kind);
        let says: Vec<&str> = findings
            .filter(|finding| !is_of_clock(finding))
            .map(|finding| finding.says.as_str())
            .collect();
        (!says.is_empty()).then(|| says.join("; "))
    };
    Judged {
        unfit: says(FindingKind::Failed),
        unjudged: says(FindingKind::Unjudged),
    }
}

fn is_of_clock(finding: &Finding) -> bool {
    finding
        .facts
        .iter()
        .all(|met| met.fact.starts_with("clock."))
}

fn log(judged: &Judged) {
    const MORE: &str = "`matins classes --here coordinator --disk DIRECTORY` says more";
    match judged {
        Judged {
            unfit: Some(why), ..
        } => {
            tracing::warn!(why, more = MORE, "this machine is not of class coordinator");
        }
        Judged {
            unjudged: Some(why),
            ..
        } => {
            tracing::info!(
                why,
                more = MORE,
                "whether this machine is of class coordinator is not known"
            );
        }
        Judged { .. } => tracing::info!(
            "this machine is of class coordinator, but for its clock, of which others tell"
        ),
    }
}

#[cfg(test)]
mod tests {
    use protocol::host::Value;

    use super::*;

    #[test]
    fn what_is_certain_is_told_and_the_clock_is_left_to_others() {
        let grade = |grade: &str| ("disk.fsync_grade", Value::Text(grade.to_owned()));
        let clock = |verdict: &str| ("clock.verdict", Value::Text(verdict.to_owned()));
        let slow =
            "disk.fsync_grade is D and must be better than D: every commit waits for its disk";
        for (facts, unfit, unjudged) in [
            (vec![grade("B"), clock("synchronised")], None, false),
            (vec![grade("D"), clock("synchronised")], Some(slow), false),
            (vec![grade("A"), clock("unsynchronised")], None, false),
            (vec![clock("synchronised")], None, true),
            (vec![], None, true),
        ] {
            let mut told = HostFacts::default();
            told.miss("disk.fsync_grade", "nobody has measured it");
            for (name, value) in &facts {
                told.know(name, value.clone());
            }
            let classes = Classes::built_in();
            let class = classes.class(&CLASS.parse().unwrap()).unwrap();
            let judged = judge(class, &told);
            let said = judged.unfit.as_deref();
            let said = said.and_then(|said| said.split(',').next());
            assert_eq!(said, unfit, "{facts:?}");
            assert_eq!(judged.unjudged.is_some(), unjudged, "{facts:?}");
        }
    }
}
