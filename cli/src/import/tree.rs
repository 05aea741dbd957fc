//! YAML of other programs as a tree with lines.
//!
//! Manifests of Matins are read more strictly elsewhere. Here everything is taken that the program
//! takes whose file it is: anchors, merge keys, JSON. What would fill the memory is refused: an
//! alias copies what it names, and a page of them can name more nodes than there are atoms.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Deepest nesting read. A CronJob has about 15.
const DEPTH_MAX: usize = 64;

/// Most nodes of a document, copies counted.
const NODES_MAX: usize = 500_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Line of the file, from 1.
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text, and whether it stands without quotes and tag, so that `null` and `true` may be no text.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) line: u32,
    pub(crate) why: String,
}

/// A document's text, and the lines of the file that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Document<'a> {
    pub(crate) text: &'a str,
    /// First and last line, from 1.
    pub(crate) line: u32,
    pub(crate) through: u32,
}

impl Node {
    /// A field of a mapping; of two of the same name the last, as programs read it.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries()
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, node)| node)
            .filter(|node| !node.is_null())
    }

    /// A field below fields.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Whether it is a scalar that YAML has for text, and not for nothing, a truth value or a number.
    pub(crate) fn is_text(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain } => {
                !plain || !(self.is_null() || is_truth_value(text) || is_number(text))
            }
            _ => false,
        }
    }

    /// Visits every scalar below, with the name of the field that it is or is in.
    pub(crate) fn visit<'a>(&'a self, field: &'a str, visit: &mut impl FnMut(&'a str, &'a str)) {
        match &self.value {
            Value::Scalar { text, .. } => visit(field, text),
            Value::List(items) => items.iter().for_each(|item| item.visit(field, visit)),
            Value::Map(entries) => {
                for (name, node) in entries {
                    node.visit(name, visit);
                }
            }
        }
    }

    fn size(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::List(items) => items.iter().map(Node::size).sum(),
            Value::Map(entries) => entries.iter().map(|(_, node)| node.size()).sum(),
        }
    }
}

/// The words of YAML 1.1, as the libraries of Go read them.
fn is_truth_value(text: &str) -> bool {
    ["true", "false", "yes", "no", "on", "off"]
        .into_iter()
        .filter(|word| word.eq_ignore_ascii_case(text))
        // `No` and `NO` are words of it, `nO` is not.
        .any(|word| text == word || text[1..] == word[1..] || text == word.to_ascii_uppercase())
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let of_radix = [("0x", 16), ("0o", 8), ("0b", 2)];
    if let Some((rest, radix)) = of_radix
        .iter()
        .find_map(|&(prefix, radix)| Some((digits.strip_prefix(prefix)?, radix)))
    {
        return !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix));
    }
    if matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let begins = digits
        .trim_start_matches('.')
        .starts_with(|c: char| c.is_ascii_digit());
    begins && digits.parse::<f64>().is_ok()
}

/// The documents of a file by its lines; blank lines and comments belong to what follows them.
pub(crate) fn documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut begin, mut first, mut at, mut line) = (0, 1, 0, 0);
    let mut has_content = false;
    for piece in text.split_inclusive('\n') {
        let separates = ["---", "..."].iter().any(|marker| {
            piece
                .strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        });
        if separates && has_content {
            documents.push(Document {
                text: &text[begin..at],
                line: first,
                through: line,
            });
            (begin, first, has_content) = (at, line + 1, false);
        }
        line += 1;
        at += piece.len();
        let content = match piece.strip_prefix("---") {
            Some(behind) if separates => behind.trim(),
            _ if separates => "",
            _ => piece.trim(),
        };
        has_content |= !content.is_empty() && !content.starts_with(['#', '%']);
    }
    if begin < text.len() {
        documents.push(Document {
            text: &text[begin..],
            line: first,
            through: line,
        });
    }
    documents
}

/// Reads a document; `None` where nothing is in it.
pub(crate) fn parse_document(document: &Document) -> Result<Option<Node>, Unreadable> {
    let mut building = Building {
        offset: document.line - 1,
        open: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        nodes: 0,
    };
    for event in Parser::new_from_str(document.text) {
        let (event, span) = event.map_err(|error| Unreadable {
            line: building.line(error.marker().line()),
            why: format!("it is no YAML: {}", error.info()),
        })?;
        building.handle(event, span.start.line())?;
    }
    Ok(building.root.filter(|root| !root.is_null()))
}

struct Building {
    offset: u32,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

/// A collection whose end has not come yet.
struct Open {
    line: u32,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map {
        entries: Vec<(String, Node)>,
        key: Option<String>,
    },
}

impl Building {
    fn line(&self, line: usize) -> u32 {
        let line = u32::try_from(line.max(1)).unwrap_or(u32::MAX);
        line.saturating_add(self.offset)
    }

    fn handle(&mut self, event: Event, line: usize) -> Result<(), Unreadable> {
        let line = self.line(line);
        let refuse = |why: &str| Unreadable {
            line,
            why: why.to_owned(),
        };
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = Value::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain && tag.is_none(),
                };
                self.nodes += 1;
                (Node { line, value }, anchor)
            }
            Event::Alias(id) => {
                let Some(named) = self.anchors.get(&id) else {
                    return Err(refuse("an alias names what contains it"));
                };
                self.nodes += named.size();
                if self.nodes > NODES_MAX {
                    return Err(refuse("its aliases name too many nodes"));
                }
                (named.clone(), 0)
            }
            Event::SequenceStart(anchor, _) => {
                return self.begin(line, anchor, Kind::List(Vec::new()));
            }
            Event::MappingStart(anchor, _) => {
                let (entries, key) = (Vec::new(), None);
                return self.begin(line, anchor, Kind::Map { entries, key });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else {
                    return Ok(());
                };
                let value = match open.kind {
                    Kind::List(items) => Value::List(items),
                    Kind::Map { entries, .. } => Value::Map(entries),
                };
                let line = open.line;
                (Node { line, value }, open.anchor)
            }
            _ => return Ok(()),
        };
        if self.nodes > NODES_MAX {
            return Err(refuse("it has too many nodes"));
        }
        if anchor > 0 {
            self.nodes += node.size();
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node)
    }

    fn begin(&mut self, line: u32, anchor: usize, kind: Kind) -> Result<(), Unreadable> {
        self.nodes += 1;
        if self.open.len() >= DEPTH_MAX {
            return Err(Unreadable {
                line,
                why: format!("its nesting is deeper than {DEPTH_MAX} levels"),
            });
        }
        self.open.push(Open { line, anchor, kind });
        Ok(())
    }

    fn attach(&mut self, node: Node) -> Result<(), Unreadable> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.kind {
            Kind::List(items) => items.push(node),
            Kind::Map { entries, key } => match (key.take(), node.value) {
                (None, Value::Scalar { text, .. }) => *key = Some(text),
                (None, _) => {
                    return Err(Unreadable {
                        line: node.line,
                        why: "a list or mapping stands where the name of a field belongs"
                            .to_owned(),
                    });
                }
                (Some(name), value) if name == "<<" => merge(entries, value),
                (Some(name), value) => {
                    let line = node.line;
                    entries.push((name, Node { line, value }));
                }
            },
        }
        Ok(())
    }
}

/// Fields of a merge key stand before those of the mapping, which overrule them.
fn merge(entries: &mut Vec<(String, Node)>, value: Value) {
    match value {
        Value::Map(merged) => {
            entries.splice(0..0, merged);
        }
        Value::List(items) => {
            for item in items {
                merge(entries, item.value);
            }
        }
        Value::Scalar { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Option<Node>, Unreadable> {
        parse_document(&Document {
            text,
            line: 1,
            through: 1,
        })
    }

    #[test]
    fn text_is_what_yaml_has_for_text() {
        for (scalar, expected) in [
            ("a", true),
            ("1", false),
            ("-1.5e3", false),
            (".5", false),
            ("0x1F", false),
            (".inf", false),
            ("inf", true),
            ("1.2.3", true),
            ("2026-11-29", true),
            ("1h", true),
            ("true", false),
            ("No", false),
            ("nO", true),
            ("null", false),
            ("~", false),
            ("'1'", true),
            ("\"true\"", true),
            ("!!str 1", true),
            ("''", true),
            ("[a]", false),
        ] {
            let list = one(&format!("[{scalar}]")).unwrap().unwrap();
            assert_eq!(list.items()[0].is_text(), expected, "{scalar}");
        }
    }

    #[test]
    fn documents_cover_every_line() {
        for (text, expected) in [
            ("", &[][..]),
            ("a: 1\n", &[(1, 1)]),
            ("---\na: 1\n---\nb: 1\n", &[(1, 2), (3, 4)]),
            ("# c\n---\na: 1\n...\n# d\n---\nb: 1", &[(1, 3), (4, 7)]),
            ("\n# only a comment\n", &[(1, 2)]),
            ("a: |\n  ---x\n--- b\n", &[(1, 2), (3, 3)]),
        ] {
            let found: Vec<(u32, u32)> = documents(text)
                .iter()
                .map(|d| (d.line, d.through))
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn anchors_and_merge_keys() {
        let node = one("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: *x\nf: null\n")
            .unwrap()
            .unwrap();
        for (path, expected) in [
            (&["d", "b"][..], Some("1")),
            (&["d", "c"], Some("3")),
            (&["e", "c"], Some("2")),
            (&["f"], None),
        ] {
            assert_eq!(node.at(path).and_then(Node::text), expected, "{path:?}");
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb.extend([
                "a",
                &i.to_string(),
                ": &a",
                &i.to_string(),
                " [",
                &aliases,
                "]\n",
            ]);
        }
        let nested: String = (0..100)
            .flat_map(|i| [" ".repeat(i), "a:\n".to_owned()])
            .collect();
        for (text, word) in [
            (bomb, "too many nodes"),
            ("[".repeat(100_000), "limit"),
            ("{a: ".repeat(100_000), "limit"),
            (nested, "deeper"),
            ("- ".repeat(1000), "deeper"),
            ("a: &a [*a]".to_owned(), "contains it"),
            ("{{ .Values.x }}: 1".to_owned(), "name of a field"),
            ("a: [".to_owned(), "no YAML"),
        ] {
            let error = one(&text).unwrap_err();
            assert!(error.why.contains(word), "{error:?}");
        }
    }
}
