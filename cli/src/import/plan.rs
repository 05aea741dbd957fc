//! What becomes of each manifest's file: judged from what stands there, before anything is
//! written.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::draft::{Draft, Imprint};

/// What to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    New,
    /// As it was imported before, and its source says something else now.
    Updated,
    /// As it was imported before; at most its line has another number.
    Unchanged,
    /// A person has edited it since, and its source says what it said: the person's words stand.
    Kept,
    /// A person has edited it since, and its source says something else now. Not written.
    Edited,
    /// No import has written it. Not written.
    Foreign,
}

/// A file, below the directory, and what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: String,
    pub(crate) step: Step,
    pub(crate) text: String,
}

/// What stands in the directory: paths below it, and what is in them. `None` is what cannot be a
/// manifest of ours, such as bytes that are no text.
pub(crate) type Existing = BTreeMap<String, Option<String>>;

/// `namespace/name.yaml`; both are parts of a job's name, and lead out of no directory.
fn path_of(draft: &Draft) -> String {
    format!("{}.yaml", draft.name)
}

pub(crate) fn plan(drafts: &[&Draft], existing: &Existing, force: bool) -> Vec<Planned> {
    let planned = drafts.iter().map(|draft| {
        let (path, text) = (path_of(draft), draft.render());
        let step = match existing.get(&path) {
            None => Step::New,
            Some(old) => judge(old.as_deref(), &text),
        };
        let step = match step {
            Step::Edited | Step::Foreign if force => Step::Updated,
            step => step,
        };
        Planned { path, step, text }
    });
    planned.collect()
}

fn judge(old: Option<&str>, new: &str) -> Step {
    let (Some(was), Some(is)) = (old.and_then(Imprint::of), Imprint::of(new)) else {
        return Step::Foreign;
    };
    match (was.is_edited, was.stamp == is.stamp) {
        (false, true) => Step::Unchanged,
        (false, false) => Step::Updated,
        (true, true) => Step::Kept,
        (true, false) => Step::Edited,
    }
}

/// Files that an earlier import of the same sources wrote and this one does not.
pub(crate) fn left_over(drafts: &[&Draft], existing: &Existing, sources: &[String]) -> Vec<String> {
    let written: BTreeSet<String> = drafts.iter().map(|draft| path_of(draft)).collect();
    existing
        .iter()
        .filter(|(path, _)| !written.contains(*path))
        .filter_map(|(path, text)| Some((path, Imprint::of(text.as_deref()?)?)))
        .filter(|(_, imprint)| sources.contains(&imprint.source))
        .map(|(path, _)| path.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::draft::Said;
    use super::*;

    fn draft(cron: &str, line: u32) -> Draft {
        Draft {
            name: "cron/a".to_owned(),
            source: "crontab f".to_owned(),
            line,
            cron: cron.to_owned(),
            owner: Said::new("ops", ""),
            ..Draft::default()
        }
    }

    #[test]
    fn what_a_person_wrote_is_not_overwritten() {
        let new = draft("@daily", 1);
        let edited = |draft: Draft| draft.render().replace("ops", "finance");
        for (existing, expected) in [
            (None, Step::New),
            (Some(new.render()), Step::Unchanged),
            (Some(draft("@daily", 9).render()), Step::Unchanged),
            (Some(draft("@hourly", 1).render()), Step::Updated),
            (Some(edited(draft("@daily", 1))), Step::Kept),
            (Some(edited(draft("@hourly", 1))), Step::Edited),
            (Some("name: cron/a\n".to_owned()), Step::Foreign),
            (Some(String::new()), Step::Foreign),
        ] {
            let found: Existing = existing
                .clone()
                .map(|text| ("cron/a.yaml".to_owned(), Some(text)))
                .into_iter()
                .collect();
            let step = |force| plan(&[&new], &found, force)[0].step;
            assert_eq!(step(false), expected, "{existing:?}");
            let forced = match expected {
                Step::Edited | Step::Foreign => Step::Updated,
                step => step,
            };
            assert_eq!(step(true), forced, "{existing:?}");
        }
    }

    #[test]
    fn what_the_source_lost_is_told() {
        let existing: Existing = [
            ("cron/a.yaml".to_owned(), Some(draft("@daily", 1).render())),
            (
                "cron/mine.yaml".to_owned(),
                Some("name: cron/mine".to_owned()),
            ),
        ]
        .into();
        let sources = ["crontab f".to_owned()];
        assert_eq!(left_over(&[], &existing, &sources), ["cron/a.yaml"]);
        assert!(left_over(&[], &existing, &[]).is_empty());
        assert!(left_over(&[&draft("@hourly", 2)], &existing, &sources).is_empty());
    }
}
