//! What became of a source, line by line.
//!
//! An import is trusted only where nothing can be lost in it unseen. So a reader does not return
//! the jobs it found: it returns *entries*, each a stretch of lines and what it is, and together
//! they cover the source from its first line to its last. [`Account::count`] adds them up.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::draft::Draft;
use super::source::{count_lines, decode};
use super::sql::{Row, What};
use super::{Misses, Undecided};

/// Most entries of a source. Neighbours of which the same is to be said are one.
const ENTRIES_MAX: usize = 200_000;

/// Longest text of the source that an entry repeats, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// What a line of a source is. Where entries share a line, it counts as the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Blank,
    Comment,
    /// What holds the rest together and says nothing of a job: `CREATE TABLE`, `<schedule>`.
    Frame,
    /// A setting of the jobs that follow it.
    Environment,
    /// Understood, and no manifest can say it.
    NotCarriedOver,
    Job,
    /// Not understood, or refused.
    Bad,
}

/// A stretch of lines and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    /// First and last line, from 1.
    pub(crate) line: u32,
    pub(crate) through: u32,
    pub(crate) kind: Kind,
    /// What stands there, cut where it is long.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// Of a job: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// Of what is bad or not carried over; continues no sentence, names what is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) remedy: String,
    /// What was read there, field by field, for programs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) read: Map<String, Value>,
}

/// A source and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// As the person named it.
    pub(crate) file: String,
    pub(crate) lines: u32,
    pub(crate) entries: Vec<Entry>,
    /// The jobs, each of the entry with its name.
    pub(crate) drafts: Vec<Draft>,
    /// What concerns the file as a whole.
    pub(crate) notes: Vec<String>,
}

/// How many lines are of each kind. They add up to the lines of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) total: u32,
    pub(crate) job: u32,
    pub(crate) environment: u32,
    pub(crate) comment: u32,
    pub(crate) blank: u32,
    pub(crate) frame: u32,
    pub(crate) not_carried_over: u32,
    pub(crate) bad: u32,
}

impl Entry {
    pub(crate) fn new(kind: Kind, line: u32, through: u32, text: &str) -> Entry {
        Entry {
            line,
            through,
            kind,
            text: cut(text, SHOWN_CHARS_MAX),
            job: None,
            why: String::new(),
            remedy: String::new(),
            read: Map::new(),
        }
    }

    pub(crate) fn because(mut self, why: impl Into<String>, remedy: impl Into<String>) -> Entry {
        self.why = why.into();
        self.remedy = remedy.into();
        self
    }

    /// Whether nothing else is to be said of what follows than of this.
    fn joins(&self, next: &Entry) -> bool {
        let is_one = match self.kind {
            Kind::Blank | Kind::Comment | Kind::Frame => true,
            Kind::NotCarriedOver => next.text == self.text,
            Kind::Environment | Kind::Job | Kind::Bad => false,
        };
        is_one
            && next.kind == self.kind
            && next.why == self.why
            && next.remedy == self.remedy
            && self.read.is_empty()
            && next.read.is_empty()
            && next.line >= self.line
            && next.line <= self.through.saturating_add(1)
    }

    pub(crate) fn reading(mut self, name: &str, value: impl Into<Value>) -> Entry {
        self.read.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn reading_all<V: Into<Value>>(self, read: Vec<(&str, V)>) -> Entry {
        read.into_iter()
            .fold(self, |entry, (name, value)| entry.reading(name, value))
    }
}

impl Account {
    /// Nothing is said of the source yet but how many lines it has.
    pub(crate) fn of(file: &str, bytes: &[u8]) -> Account {
        Account {
            file: file.to_owned(),
            lines: count_lines(bytes),
            ..Account::default()
        }
    }

    /// The source as text, its lines counted anew; where it is none, the source is refused.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Option<String> {
        match decode(bytes) {
            Ok((text, note)) => {
                self.lines = count_lines(text.as_bytes());
                self.notes.extend(note.map(ToOwned::to_owned));
                Some(text)
            }
            Err(why) => {
                self.refuse_whole(why, "see that it is the right file");
                None
            }
        }
    }

    /// A source of which nothing can be used: all its lines are bad.
    pub(crate) fn refuse_whole(&mut self, why: impl Into<String>, remedy: impl Into<String>) {
        self.drafts.clear();
        self.entries = vec![Entry::new(Kind::Bad, 1, self.lines.max(1), "").because(why, remedy)];
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if let Some(last) = self.entries.last_mut()
            && last.joins(&entry)
        {
            last.through = last.through.max(entry.through);
            return;
        }
        self.entries.push(entry);
    }

    /// A piece of a dump in which no job is. `why` tells of rows of a table why they are not.
    pub(crate) fn push_piece(
        &mut self,
        line: u32,
        through: u32,
        what: What,
        why: fn(&str) -> String,
    ) {
        let entry = |kind, text: &str| Entry::new(kind, line, through, text);
        self.push(match what {
            What::Blank => entry(Kind::Blank, ""),
            What::Comment => entry(Kind::Comment, ""),
            What::Create { table } => entry(Kind::Frame, &format!("CREATE TABLE {table}")),
            What::Rows { table, .. } | What::OtherRows { table, .. } => {
                entry(Kind::NotCarriedOver, &table).because(why(&table), "")
            }
            What::Statement(word) => entry(Kind::Frame, &word),
            What::Unreadable(why) => entry(Kind::Bad, "").because(why, "dump it again whole"),
        });
    }

    /// Whether there are more entries than are kept; the source is refused then.
    pub(crate) fn is_overfull(&mut self) -> bool {
        if self.entries.len() <= ENTRIES_MAX {
            return false;
        }
        self.refuse_whole(
            format!("it has more than {ENTRIES_MAX} pieces"),
            "see that it is the right file, and dump only the tables of jobs",
        );
        true
    }

    pub(crate) fn push_job(&mut self, entry: Entry, draft: Draft) {
        self.entries.push(Entry {
            job: Some(draft.name.clone()),
            ..entry
        });
        self.drafts.push(draft);
    }

    /// What is no job, `entry` saying where. Where a person must decide first, nobody goes on.
    pub(crate) fn push_missed(
        &mut self,
        entry: impl FnOnce(Kind) -> Entry,
        misses: Misses,
    ) -> Result<(), Undecided> {
        match misses {
            Misses::Undecided(undecided) => Err(undecided),
            Misses::Told { kind, why, remedy } => {
                self.push(entry(kind).because(why, remedy));
                Ok(())
            }
        }
    }

    /// A row of a dump of whose values it is not known which is which.
    pub(crate) fn push_nameless(&mut self, row: &Row, shown: &str, remedy: &str) {
        let why = format!(
            "it has {} values, and nothing says of which columns",
            row.values.len()
        );
        self.push(Entry::new(Kind::Bad, row.line, row.through, shown).because(why, remedy));
    }

    /// Takes back jobs whose manifests turned out to be refused: by name, why and what to do.
    pub(crate) fn refuse_jobs(&mut self, refused: &BTreeMap<String, (String, String)>) {
        self.drafts
            .retain(|draft| !refused.contains_key(&draft.name));
        for entry in &mut self.entries {
            let refusal = entry.job.as_ref().and_then(|job| refused.get(job));
            if let Some((why, remedy)) = refusal {
                entry.kind = Kind::Bad;
                entry.job = None;
                entry.why.clone_from(why);
                entry.remedy.clone_from(remedy);
            }
        }
    }

    /// Brings the entries into the order of the source and makes one of neighbours of which the
    /// same is to be said.
    pub(crate) fn settle(&mut self) {
        self.entries
            .sort_by_key(|entry| (entry.line, entry.through));
        self.entries.dedup_by(|next, kept| {
            let joins = kept.joins(next);
            if joins {
                kept.through = kept.through.max(next.through);
            }
            joins
        });
    }

    pub(crate) fn bad(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.kind == Kind::Bad)
    }

    /// The kind of every line.
    pub(crate) fn count(&self) -> Count {
        let lines = self.lines as usize;
        let mut kinds: Vec<Option<Kind>> = vec![None; lines];
        for entry in &self.entries {
            let from = (entry.line.max(1) as usize - 1).min(lines);
            let through = (entry.through as usize).clamp(from, lines);
            for kind in &mut kinds[from..through] {
                *kind = (*kind).max(Some(entry.kind));
            }
        }
        let mut count = Count {
            total: self.lines,
            ..Count::default()
        };
        for kind in kinds {
            // A line that no reader spoke of would be one that is lost: it counts as bad.
            *match kind.unwrap_or(Kind::Bad) {
                Kind::Blank => &mut count.blank,
                Kind::Comment => &mut count.comment,
                Kind::Frame => &mut count.frame,
                Kind::Environment => &mut count.environment,
                Kind::NotCarriedOver => &mut count.not_carried_over,
                Kind::Job => &mut count.job,
                Kind::Bad => &mut count.bad,
            } += 1;
        }
        count
    }
}

/// The first so many characters, and `...` where there are more.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_once_and_the_gravest_kind_counts() {
        let mut account = Account::of("f", b"1\n2\n3\n4\n5\n6\n");
        for (kind, line, through) in [
            (Kind::Comment, 1, 1),
            (Kind::Comment, 2, 2),
            (Kind::Job, 3, 4),
            (Kind::Bad, 4, 4),
            (Kind::Blank, 5, 5),
            (Kind::Frame, 6, 6),
        ] {
            account.push(Entry::new(kind, line, through, ""));
        }
        account.settle();
        assert_eq!(account.entries.len(), 5);
        let count = account.count();
        assert_eq!(
            count,
            Count {
                total: 6,
                job: 1,
                comment: 2,
                blank: 1,
                frame: 1,
                bad: 1,
                ..Count::default()
            }
        );
    }
}
