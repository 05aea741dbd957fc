//! The fields of one mapping, held against its form.

use std::fmt;

use super::elsewhere;
use super::form::{Field, Form, Holds, LeftOut, MANIFEST};
use super::problem::{Place, Problems};
use super::quoting::quoted;
use super::yaml::{Key, Node, Style, Value};
use crate::nearest::nearest;
use crate::shown::shown;

/// The fields of a mapping, each known and there at most once.
pub(super) struct Section<'a> {
    form: &'static Form,
    /// The field that holds the mapping, empty for a manifest itself.
    path: &'static str,
    /// Which of a list of mappings it is.
    entry: Option<usize>,
    at: Place,
    /// Of a manifest itself: its name as written, for what has no place of its own.
    job: Option<&'a str>,
    /// By the field's position in the form.
    values: Vec<Option<&'a Node>>,
}

/// One value and the field that it is of.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) field: &'static Field,
    pub(super) path: Path<'a>,
    pub(super) node: &'a Node,
}

/// Refused, and said so among the problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reported;

/// Where a value stands in its manifest; displays as `schedule.cron`, `run.exec[2]`, `after[0].job`
/// or `needs.uses.ledger-db`.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    section: &'static str,
    entry: Option<usize>,
    field: &'p str,
    part: Part<'p>,
}

/// What of a field is meant.
#[derive(Clone, Copy)]
enum Part<'p> {
    Whole,
    Item(usize),
    Named(&'p str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.section)?;
        if let Some(entry) = self.entry {
            write!(f, "[{entry}]")?;
        }
        if !self.section.is_empty() && !self.field.is_empty() {
            f.write_str(".")?;
        }
        f.write_str(self.field)?;
        match self.part {
            Part::Whole => Ok(()),
            Part::Item(item) => write!(f, "[{item}]"),
            Part::Named(name) => write!(f, ".{name}"),
        }
    }
}

impl<'a> Section<'a> {
    /// A manifest, from the mapping that is its document.
    pub(super) fn manifest(
        at: Place,
        entries: &'a [(Key, Node)],
        problems: &mut Problems,
    ) -> Section<'a> {
        let mut section = Section::fill(&MANIFEST, ("", None), at, entries, problems);
        section.job = match section.field("name").1.map(|node| &node.value) {
            Some(Value::Scalar { text, .. }) => Some(text.as_str()),
            _ => None,
        };
        section
    }

    /// Holds entries against a form; reports the unknown and the repeated.
    fn fill(
        form: &'static Form,
        (path, entry): (&'static str, Option<usize>),
        at: Place,
        entries: &'a [(Key, Node)],
        problems: &mut Problems,
    ) -> Section<'a> {
        let mut section = Section {
            form,
            path,
            entry,
            at,
            job: None,
            values: vec![None; form.fields.len()],
        };
        let mut first_lines = vec![0; form.fields.len()];
        let mut unknown = Vec::new();
        let mut entries = entries.iter().peekable();
        while let Some((key, node)) = entries.next() {
            let Some(name) = key.name.as_deref() else {
                continue;
            };
            let mut rest = String::new();
            while let Some(part) = entries.peek().and_then(|entry| cut_off(entry)) {
                rest = format!("{rest},{part}");
                entries.next();
            }
            let node = section.whole(name, node, &rest, problems);
            match form.position(name) {
                None => unknown.push((key, name, node)),
                Some(i) if section.values[i].is_some() => problems.push(
                    key.at,
                    section.path(form.fields[i].name),
                    format!("is written twice, first in line {}", first_lines[i]),
                    "leave one of the two out",
                ),
                Some(i) => {
                    section.values[i] = Some(node);
                    first_lines[i] = key.at.line;
                }
            }
        }
        for (key, name, node) in unknown {
            section.refuse_unknown(key.at, name, node, problems);
        }
        section
    }

    /// A value, or a refused one where a comma cut it in two.
    fn whole(&self, name: &str, node: &'a Node, rest: &str, problems: &mut Problems) -> &'a Node {
        let Value::Scalar { text, .. } = &node.value else {
            return node;
        };
        if rest.is_empty() {
            return node;
        }
        let whole = quoted(&shown(&format!("{text}{rest}")));
        problems.push(
            node.at,
            self.path(&shown(name)),
            "is cut in two by its comma, for it has no quotes",
            format!("put it in quotes: `{}: {whole}`", shown(name)),
        );
        &REFUSED
    }

    /// Reports a field that the form does not have. What it most likely means is not missing then:
    /// a misspelt field is read as the one that is meant.
    fn refuse_unknown(&mut self, at: Place, name: &str, node: &'a Node, problems: &mut Problems) {
        if problems.are_full() {
            return problems.push(at, "", "", "");
        }
        let answer = elsewhere::answer(self.path, name);
        let nearest = nearest(name, self.form.names());
        let (what, remedy) = match (answer, nearest) {
            (Some(answer), _) => {
                for name in answer.stands_for.split(' ') {
                    self.fill_in(name, &REFUSED);
                }
                let exec = match answer.stands_for {
                    "run exec" => super::command::exec_of(&node.value),
                    _ => None,
                };
                let remedy = match exec {
                    Some(exec) if self.path == "run" => format!("write `{exec}`"),
                    Some(exec) => format!("write `run: {{ {exec} }}`"),
                    None => answer.remedy,
                };
                (answer.what, remedy)
            }
            (None, Some(nearest)) => {
                self.fill_in(nearest, node);
                (elsewhere::UNKNOWN, format!("did you mean `{nearest}`?"))
            }
            (None, None) => {
                let known: Vec<&str> = self.form.names().collect();
                let remedy = format!("leave it out; known here are {}", known.join(", "));
                (elsewhere::UNKNOWN, remedy)
            }
        };
        problems.push(at, self.path(&shown(name)), what, remedy);
    }

    /// Takes a value for a field that has none.
    fn fill_in(&mut self, name: &str, node: &'a Node) {
        if let Some(i) = self.form.position(name) {
            self.values[i].get_or_insert(node);
        }
    }

    /// The value of a field that must be there or has a default. `None` where it is missing or
    /// refused, and that is reported.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        problems: &mut Problems,
        reader: impl Fn(Cell, &mut Problems) -> Option<T>,
    ) -> Option<T> {
        let (field, value) = self.field(name);
        match (value, &field.left_out) {
            (Some(_), _) => self.value(field, value, problems, reader),
            (None, LeftOut::Default(texts)) => {
                reader(self.cell(field, &written(&field.holds, texts)), problems)
            }
            (None, _) => {
                self.miss(name, problems);
                None
            }
        }
    }

    /// The same of a field that may be left out: `None` where it is.
    pub(super) fn read_if_there<T>(
        &self,
        name: &'static str,
        problems: &mut Problems,
        reader: impl Fn(Cell, &mut Problems) -> Option<T>,
    ) -> Result<Option<T>, Reported> {
        match self.field(name) {
            (_, None) => Ok(None),
            (field, value) => match self.value(field, value, problems, reader) {
                Some(value) => Ok(Some(value)),
                None => Err(Reported),
            },
        }
    }

    /// The mapping that a field of this one holds.
    pub(super) fn inner(&self, name: &'static str, problems: &mut Problems) -> Option<Section<'a>> {
        let (field, value) = self.field(name);
        let (Holds::Fields(form) | Holds::IntegerOr(_, _, form)) = field.holds else {
            field.misread("a mapping")
        };
        let Some(node) = value else {
            return if let LeftOut::Empty(_) = field.left_out {
                Some(Section::fill(form, (name, None), self.at, &[], problems))
            } else {
                self.miss(name, problems);
                None
            };
        };
        match &node.value {
            Value::Map(entries) => {
                let path = (name, None);
                Some(Section::fill(form, path, node.at, entries, problems))
            }
            Value::Refused => None,
            _ if node.is_blank() => {
                self.blank(field, node, problems);
                None
            }
            other => {
                let cell = self.cell(field, node);
                let what = format!("is {}, not a mapping of fields", kind(other));
                cell.refuse(
                    what,
                    format!("write {}", short(form, name, other)),
                    problems,
                );
                None
            }
        }
    }

    /// The mappings of the list that a field of this one holds; none where it is left out.
    pub(super) fn list(
        &self,
        name: &'static str,
        problems: &mut Problems,
    ) -> Result<Vec<Section<'a>>, Reported> {
        let (field, value) = self.field(name);
        let Holds::List(at_most, form) = field.holds else {
            field.misread("a list of mappings")
        };
        let Some(node) = value else {
            return Ok(Vec::new());
        };
        let items = match &node.value {
            Value::List(items) if items.len() <= at_most => items,
            Value::Refused => return Err(Reported),
            _ if node.is_blank() => {
                self.blank(field, node, problems);
                return Err(Reported);
            }
            _ => {
                let what = format!("is not a list of at most {at_most} mappings");
                let remedy = format!("write {}", form.short);
                self.cell(field, node).refuse(what, remedy, problems);
                return Err(Reported);
            }
        };
        let sections = items.iter().enumerate().map(|(i, item)| match &item.value {
            Value::Map(entries) => {
                let path = (name, Some(i));
                Ok(Section::fill(form, path, item.at, entries, problems))
            }
            Value::Refused => Err(Reported),
            other => {
                let path = Path {
                    part: Part::Item(i),
                    ..self.path(name)
                };
                let what = format!("is {}, not a mapping of fields", kind(other));
                problems.push(item.at, path, what, format!("write {}", form.short));
                Err(Reported)
            }
        });
        let sections: Vec<Result<Section, Reported>> = sections.collect();
        sections.into_iter().collect()
    }

    /// A field that is there, for what is to be said of it in view of others.
    pub(super) fn find(&self, name: &'static str) -> Option<Cell<'a>> {
        let (field, value) = self.field(name);
        Some(self.cell(field, value?))
    }

    /// Reports that a demanded field is missing.
    fn miss(&self, name: &'static str, problems: &mut Problems) {
        let (field, _) = self.field(name);
        let LeftOut::Demanded { write, why } = field.left_out else {
            field.misread("demanded")
        };
        self.miss_with(name, &format!("write {write}: {why}"), problems);
    }

    /// The same in words of one's own.
    pub(super) fn miss_with(&self, name: &'static str, remedy: &str, problems: &mut Problems) {
        let what = match self.job {
            Some(job) => format!("is missing in the job `{}`", shown(job)),
            None => "is missing".to_owned(),
        };
        problems.push(self.at, self.path(name), what, remedy);
    }

    fn value<T>(
        &self,
        field: &'static Field,
        value: Option<&'a Node>,
        problems: &mut Problems,
        reader: impl Fn(Cell, &mut Problems) -> Option<T>,
    ) -> Option<T> {
        let node = value?;
        if matches!(node.value, Value::Refused) {
            return None;
        }
        if node.is_blank() {
            self.blank(field, node, problems);
            return None;
        }
        reader(self.cell(field, node), problems)
    }

    fn blank(&self, field: &'static Field, node: &Node, problems: &mut Problems) {
        let remedy = match field.left_out {
            LeftOut::Demanded { write, why } => format!("write {write}: {why}"),
            _ => "write one, or leave the field out".to_owned(),
        };
        problems.push(node.at, self.path(field.name), node.blank_reason(), remedy);
    }

    fn path<'p>(&self, field: &'p str) -> Path<'p> {
        Path {
            section: self.path,
            entry: self.entry,
            field,
            part: Part::Whole,
        }
    }

    fn field(&self, name: &'static str) -> (&'static Field, Option<&'a Node>) {
        let i = self
            .form
            .position(name)
            .expect("every manifest would fail to be read if the form lacked a field that is read");
        (&self.form.fields[i], self.values[i])
    }

    fn cell<'n>(&self, field: &'static Field, node: &'n Node) -> Cell<'n> {
        Cell {
            field,
            path: self.path(field.name),
            node,
        }
    }
}

impl Cell<'_> {
    /// Reports what is wrong with the value.
    pub(super) fn refuse(
        &self,
        what: impl Into<String>,
        remedy: impl Into<String>,
        problems: &mut Problems,
    ) {
        problems.push(self.node.at, self.path, what, remedy);
    }

    /// The items of a list, each a value of the same field; `None` where it is no list.
    pub(super) fn items(&self) -> Option<impl ExactSizeIterator<Item = Cell<'_>>> {
        let Value::List(items) = &self.node.value else {
            return None;
        };
        Some(items.iter().enumerate().map(|(i, node)| Cell {
            field: self.field,
            path: Path {
                part: Part::Item(i),
                ..self.path
            },
            node,
        }))
    }

    /// A value that stands in this one under a name.
    pub(super) fn named<'n>(&self, name: &'n str, node: &'n Node) -> Cell<'n>
    where
        Self: 'n,
    {
        Cell {
            field: self.field,
            path: Path {
                part: Part::Named(name),
                ..self.path
            },
            node,
        }
    }
}

static REFUSED: Node = Node {
    at: Place { line: 0, column: 0 },
    value: Value::Refused,
};

/// What stands behind a comma in braces and is no field: the end of a text without quotes.
fn cut_off((key, node): &(Key, Node)) -> Option<&str> {
    let name = key.name.as_deref()?;
    (node.is_blank() && !name.starts_with(|c: char| c.is_alphabetic())).then_some(name)
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Scalar { .. } => "a single value",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
        Value::Refused => "unreadable",
    }
}

/// How to write a mapping of this form where a single value stands.
fn short(form: &Form, path: &str, value: &Value) -> String {
    const STAND_IN: [(&str, &str); 2] = [("cron", "30 23 * * *"), ("at_most", "3")];
    let of_word = |text: &str| {
        form.fields.iter().find(|field| match field.holds {
            Holds::Word(words) => words.iter().any(|&(word, _)| word == text),
            _ => false,
        })
    };
    if let Value::Scalar { text, .. } = value
        && let Some(field) = of_word(text)
    {
        let beside = match path {
            "misfire" => ", after: 60s",
            _ => "",
        };
        let meaning = match path {
            "misfire" => ": a fire less late than `after` runs under every policy",
            _ => "",
        };
        return format!("`{path}: {{ {}: {text}{beside} }}`{meaning}", field.name);
    }
    match value {
        Value::Scalar { text, .. } if form.short.contains("{}") && text.len() < 60 => {
            form.short.replace("{}", &shown(text))
        }
        _ => STAND_IN
            .iter()
            .filter(|(name, _)| form.position(name).is_some())
            .fold(form.short.to_owned(), |short, (_, value)| {
                short.replace("{}", value)
            }),
    }
}

/// A default as the node that its text would give.
fn written(holds: &Holds, texts: &[&str]) -> Node {
    let at = Place::default();
    let mut nodes: Vec<Node> = texts
        .iter()
        .map(|&text| Node {
            at,
            value: Value::Scalar {
                text: text.to_owned(),
                style: Style::Plain,
            },
        })
        .collect();
    match holds {
        Holds::Durations(..) => Node {
            at,
            value: Value::List(nodes),
        },
        _ => nodes.swap_remove(0),
    }
}
