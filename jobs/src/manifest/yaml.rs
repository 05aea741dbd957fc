//! YAML as a tree that remembers where everything stands.
//!
//! A manifest uses a small part of YAML, and the rest is refused where it stands: aliases and
//! anchors (a page of them can name more nodes than there is memory), tags, keys that are not
//! text, deep nesting. Plain scalars keep their text: what `on`, `0755` or `1:30` mean is decided
//! by the field that reads them, never by YAML.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::problem::{Place, Problems};

/// Longest file read, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting read; a manifest needs 3.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A scalar without quotes.
    Plain(String),
    /// A scalar in quotes or a block: text for certain.
    Quoted(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// Something that was refused and reported already.
    Refused,
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: Place,
    /// `None` where the key was refused and reported already.
    pub(super) name: Option<String>,
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

/// Reads a file into the trees of its documents, leaving out the empty ones. What cannot be read
/// is a problem; after an error of syntax the rest of the file is not read.
pub(super) fn parse(yaml: &str, problems: &mut Problems) -> Vec<Node> {
    let start = Place { line: 1, column: 1 };
    if yaml.len() > FILE_BYTES_MAX {
        problems.push(
            start,
            "",
            format!(
                "the file has {} bytes, more than a manifest can need",
                yaml.len()
            ),
            format!("split it into files of at most {FILE_BYTES_MAX} bytes"),
        );
        return Vec::new();
    }
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut parser = Parser::new_from_str(yaml);
    while let Some(event) = parser.next_event() {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                report_syntax(yaml, &error, problems);
                return documents;
            }
        };
        let at = place(&span);
        let complete = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let refused = refuse_properties(at, anchor, tag.is_some(), problems);
                let text = text.into_owned();
                let value = match style {
                    _ if refused => Value::Refused,
                    ScalarStyle::Plain => Value::Plain(text),
                    _ => Value::Quoted(text),
                };
                Some(Node { at, value })
            }
            Event::Alias(_) => {
                problems.push(at, "", "an alias (`*name`) is not read", ALIAS_REMEDY);
                Some(Node {
                    at,
                    value: Value::Refused,
                })
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_properties(at, anchor, tag.is_some(), problems);
                open.push(Open {
                    at,
                    kind: Kind::List(Vec::new()),
                });
                None
            }
            Event::MappingStart(anchor, tag) => {
                refuse_properties(at, anchor, tag.is_some(), problems);
                open.push(Open {
                    at,
                    kind: Kind::Map {
                        entries: Vec::new(),
                        key: None,
                    },
                });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(close),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => None,
        };
        if open.len() > DEPTH_MAX {
            problems.push(
                at,
                "",
                format!("the nesting is deeper than {DEPTH_MAX} levels"),
                "a manifest has at most 3; look for a bracket that was not closed",
            );
            return documents;
        }
        if let Some(node) = complete {
            match open.last_mut() {
                Some(parent) => attach(parent, node, problems),
                None if is_nothing(&node) => {}
                None => documents.push(node),
            }
        }
    }
    documents
}

const ALIAS_REMEDY: &str = "write the value out; a value that begins with `*` goes in quotes";

fn close(open: Open) -> Node {
    let value = match open.kind {
        Kind::List(items) => Value::List(items),
        Kind::Map { entries, .. } => Value::Map(entries),
    };
    Node { at: open.at, value }
}

/// Puts a complete node where its parent expects one: into the list, or as key or value.
fn attach(parent: &mut Open, node: Node, problems: &mut Problems) {
    let (entries, key) = match &mut parent.kind {
        Kind::List(items) => return items.push(node),
        Kind::Map { entries, key } => (entries, key),
    };
    if let Some(key) = key.take() {
        return entries.push((key, node));
    }
    let name = match node.value {
        Value::Plain(name) | Value::Quoted(name) => Some(name),
        Value::Refused => None,
        Value::List(_) | Value::Map(_) => {
            problems.push(
                node.at,
                "",
                "a list or mapping stands where a field's name belongs",
                "write `field: value`; text with `{` or `[` goes in quotes",
            );
            None
        }
    };
    *key = Some(Key { at: node.at, name });
}

fn is_nothing(node: &Node) -> bool {
    matches!(&node.value, Value::Plain(text) if text.is_empty())
}

/// Reports an anchor or a tag. Whether there was one.
fn refuse_properties(at: Place, anchor: usize, tag: bool, problems: &mut Problems) -> bool {
    if anchor > 0 {
        problems.push(
            at,
            "",
            "an anchor (`&name`) is not read",
            "write values out; a value that begins with `&` goes in quotes",
        );
    }
    if tag {
        problems.push(
            at,
            "",
            "a tag (`!name`) is not read",
            "leave it out; a value that begins with `!` goes in quotes",
        );
    }
    anchor > 0 || tag
}

fn place(span: &Span) -> Place {
    place_of(span.start.line(), span.start.col())
}

fn place_of(line: usize, column_from_0: usize) -> Place {
    let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: cut(line.max(1)),
        column: cut(column_from_0.saturating_add(1)),
    }
}

fn report_syntax(yaml: &str, error: &ScanError, problems: &mut Problems) {
    let marker = error.marker();
    let at = place_of(marker.line(), marker.col());
    let line = yaml
        .lines()
        .nth(marker.line().saturating_sub(1))
        .unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start().len()];
    // Characters with which YAML begins something else, and cron expressions or paths a value.
    let unquoted = [": *", ": @", ": %", ": `", "- *", "- @", "- %", "- `"];
    let remedy = if indentation.contains('\t') {
        "indent with spaces: YAML does not allow tabs there"
    } else if unquoted.iter().any(|start| line.contains(start)) {
        "put the value in quotes, for example `cron: \"* * * * *\"`"
    } else {
        "look at the indentation, quotes and brackets here and in the line before"
    };
    problems.push(
        at,
        "",
        format!("this is not YAML: {}", error.info()),
        remedy,
    );
}
