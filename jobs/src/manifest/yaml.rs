//! YAML as a tree that remembers where everything stands.
//!
//! A manifest uses a small part of YAML, and the rest is refused where it stands: aliases and
//! anchors (a page of them can name more nodes than there is memory), tags, keys that are not
//! text, deep nesting. Plain scalars keep their text: what `on`, `0755` or `1:30` mean is decided
//! by the field that reads them, never by YAML.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use super::problem::{Place, Problems};
use super::quoting::without_comment;
use super::source::{self, Document};
use super::syntax::{self, About};
use crate::shown::shown;

/// Deepest nesting read; a manifest needs 3.
const DEPTH_MAX: usize = 8;

/// Mistakes of syntax after which one document is read on.
const MENDS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar {
        text: String,
        style: Style,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// Something that was refused and reported already.
    Refused,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes, in one line.
    Plain,
    /// Without quotes, in several lines, which YAML joins with blanks.
    PlainLines,
    /// Nothing but a comment where the value would stand; the text is empty.
    Comment,
    /// In quotes: text for certain.
    Quoted,
    /// In lines of its own below `|` or `>`: text for certain.
    Block,
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: Place,
    /// `None` where the key was refused and reported already.
    pub(super) name: Option<String>,
}

impl Node {
    /// Nothing, or a word of YAML for nothing.
    pub(super) fn is_blank(&self) -> bool {
        let Value::Scalar { text, style } = &self.value else {
            return false;
        };
        match style {
            Style::Comment => true,
            Style::Plain => matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"),
            _ => false,
        }
    }

    /// Notes that in its line a comment stands where a value would, behind `:` or `-`.
    fn see_comment(&mut self, line: &str) {
        if let Value::Scalar { text, style } = &mut self.value
            && text.is_empty()
            && *style == Style::Plain
        {
            let before = without_comment(line);
            if before != line.trim_end() && before.ends_with([':', '-']) {
                *style = Style::Comment;
            }
        }
    }

    /// What is wrong with a blank value where one must be.
    pub(super) fn blank_reason(&self) -> &'static str {
        match &self.value {
            Value::Scalar {
                style: Style::Comment,
                ..
            } => "has no value, for what follows ` #` is a comment, unless it is in quotes",
            _ => "has no value",
        }
    }
}

/// Reads a document into its tree, or `None` where it is empty or cannot be read. A mistake with
/// only one way to mend it is reported and mended, and the rest is read as though it had been.
pub(super) fn parse(document: Document, problems: &mut Problems) -> Option<Node> {
    let mut text = Cow::Borrowed(document.text);
    let mut places = Places {
        lines_before: document.lines_before,
        mends: Vec::new(),
    };
    let mut has_tabs = false;
    loop {
        let mut tree = Tree::new(&places);
        let Err(error) = tree.read(&text) else {
            return tree.end(problems);
        };
        let marker = error.marker();
        let mistake = syntax::explain(&text, marker.line(), marker.col(), error.info());
        let field = match mistake.about {
            About::Lines => String::new(),
            About::Field(key) => tree.path(Some(&key)),
            About::Item => tree.path(None),
        };
        let is_tab = mistake.what == syntax::TAB;
        if !(is_tab && has_tabs) {
            problems.push(places.of(mistake.at), field, mistake.what, mistake.remedy);
        }
        has_tabs |= is_tab;
        let Some(mend) = mistake.mend.filter(|_| places.mends.len() < MENDS_MAX) else {
            tree.end(problems);
            return None;
        };
        places.mends.push(Mended {
            line: mistake.at.line,
            column: mistake.at.column,
            longer: mend.with.chars().count() as i64
                - text[mend.from..mend.to].chars().count() as i64,
        });
        text.to_mut().replace_range(mend.from..mend.to, &mend.with);
    }
}

/// Turns places of a document, mended perhaps, into places of its file.
struct Places {
    lines_before: u32,
    mends: Vec<Mended>,
}

/// A mend: behind it, its line is longer than in the file.
struct Mended {
    line: u32,
    column: u32,
    longer: i64,
}

impl Places {
    fn of(&self, mut at: Place) -> Place {
        for mend in self.mends.iter().rev() {
            if mend.line == at.line && at.column > mend.column {
                let column = i64::from(at.column) - mend.longer;
                at.column = u32::try_from(column.max(i64::from(mend.column))).unwrap_or(at.column);
            }
        }
        Place {
            line: at.line.saturating_add(self.lines_before),
            column: at.column,
        }
    }

    fn of_marker(&self, marker: &Marker) -> Place {
        let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.of(Place {
            line: cut(marker.line().max(1)),
            column: cut(marker.col().saturating_add(1)),
        })
    }
}

/// A tree while it is read. Its problems are kept back: when its text is mended, it is read anew.
struct Tree<'a> {
    places: &'a Places,
    open: Vec<Open>,
    root: Option<Node>,
    problems: Vec<(Place, String, &'static str)>,
}

/// A collection whose end has not come yet.
struct Open {
    at: Place,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map {
        entries: Vec<(Key, Node)>,
        key: Option<Key>,
    },
}

impl Tree<'_> {
    fn new(places: &Places) -> Tree<'_> {
        Tree {
            places,
            open: Vec::new(),
            root: None,
            problems: Vec::new(),
        }
    }

    fn read(&mut self, text: &str) -> Result<(), ScanError> {
        let mut lines = (1..).zip(source::lines(text)).peekable();
        for event in Parser::new_from_str(text) {
            let (event, span) = event?;
            let at = self.places.of_marker(&span.start);
            while lines.next_if(|(n, _)| *n < span.start.line()).is_some() {}
            let line = lines.peek().map_or("", |&(_, line)| line);
            if let Some(mut node) = self.handle(event, &span, at) {
                node.see_comment(line);
                self.attach(node);
            }
            if self.open.len() > DEPTH_MAX {
                self.problem(
                    at,
                    format!("the nesting is deeper than {DEPTH_MAX} levels"),
                    "a manifest has at most 3; look for a bracket that was not closed",
                );
                self.root = None;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes an event; the node that it completes, if it does.
    fn handle(&mut self, event: Event, span: &Span, at: Place) -> Option<Node> {
        let value = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain if span.start.line() == span.end.line() => Style::Plain,
                    ScalarStyle::Plain => Style::PlainLines,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                if self.refuse_properties(at, anchor, tag.is_some()) {
                    Value::Refused
                } else {
                    let text = text.into_owned();
                    Value::Scalar { text, style }
                }
            }
            Event::Alias(_) => {
                self.problem(
                    at,
                    "an alias (`*name`) is not read".to_owned(),
                    "write the value out; a value that begins with `*` goes in quotes",
                );
                Value::Refused
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_properties(at, anchor, tag.is_some());
                let kind = Kind::List(Vec::new());
                self.open.push(Open { at, kind });
                return None;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_properties(at, anchor, tag.is_some());
                let kind = Kind::Map {
                    entries: Vec::new(),
                    key: None,
                };
                self.open.push(Open { at, kind });
                return None;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop()?;
                let value = match open.kind {
                    Kind::List(items) => Value::List(items),
                    Kind::Map { entries, .. } => Value::Map(entries),
                };
                return Some(Node { at: open.at, value });
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => return None,
        };
        Some(Node { at, value })
    }

    /// Puts a complete node where it belongs: it is the document, or an item of the innermost
    /// list, or key or value of the innermost mapping.
    fn attach(&mut self, node: Node) {
        let Some(parent) = self.open.last_mut() else {
            if !node.is_blank() {
                self.root = Some(node);
            }
            return;
        };
        let (entries, key) = match &mut parent.kind {
            Kind::List(items) => return items.push(node),
            Kind::Map { entries, key } => (entries, key),
        };
        if let Some(key) = key.take() {
            return entries.push((key, node));
        }
        let (name, complaint) = match node.value {
            Value::Scalar { text, .. } if text == "<<" => (
                None,
                Some(("a merge key (`<<`) is not read", "write the fields out")),
            ),
            Value::Scalar { text, .. } if text.is_empty() => (
                None,
                Some((
                    "a field has no name",
                    "write `field: value`, or delete the line",
                )),
            ),
            Value::Scalar { text, .. } => (Some(text), None),
            Value::Refused => (None, None),
            Value::List(_) | Value::Map(_) => (
                None,
                Some((
                    "a list or mapping stands where a field's name belongs",
                    "write `field: value`; text with `{` or `[` goes in quotes",
                )),
            ),
        };
        *key = Some(Key { at: node.at, name });
        if let Some((what, remedy)) = complaint {
            self.problem(node.at, what.to_owned(), remedy);
        }
    }

    /// Reports an anchor or a tag. Whether there was one.
    fn refuse_properties(&mut self, at: Place, anchor: usize, tag: bool) -> bool {
        if anchor > 0 {
            self.problem(
                at,
                "an anchor (`&name`) is not read".to_owned(),
                "write values out; a value that begins with `&` goes in quotes",
            );
        }
        if tag {
            self.problem(
                at,
                "a tag (`!name`) is not read".to_owned(),
                "leave it out; a value that begins with `!` goes in quotes",
            );
        }
        anchor > 0 || tag
    }

    fn problem(&mut self, at: Place, what: String, remedy: &'static str) {
        self.problems.push((at, what, remedy));
    }

    /// The path to where reading has come to, and to the field `key` of it.
    fn path(&self, key: Option<&str>) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut last = None;
        for open in &self.open {
            last = match &open.kind {
                // How many of the items before are whole is not known.
                Kind::List(_) => None,
                Kind::Map { key, .. } => key.as_ref().and_then(|key| key.name.as_deref()),
            };
            names.extend(last);
        }
        names.extend(key.filter(|_| last != key));
        let names: Vec<String> = names.into_iter().map(shown).collect();
        names.join(".")
    }

    fn end(self, problems: &mut Problems) -> Option<Node> {
        for (at, what, remedy) in self.problems {
            problems.push(at, "", what, remedy);
        }
        self.root
    }
}
