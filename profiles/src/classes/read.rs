//! The class file: TOML, every problem at once, each with its place.

use protocol::{ClassName, Health};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::condition;
use super::health::HealthRule;
use super::rule::{DEPTH_MAX, On, Rule};
use super::{BUILT_IN, Class, Classes, Problem};

/// A file has at most so many classes, a list so many rules, and a text so many bytes.
const CLASSES_MAX: usize = 64;
const RULES_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 500;

const TABLES: &[&str] = &["class", "health"];
const CLASS_FIELDS: &[&str] = &["about", "require", "refuse", "warn"];
const RULE_FIELDS: &[&str] = &["rule", "any", "all", "because"];
const HEALTH_FIELDS: &[&str] = &["cordon", "alarm", "cordon_at_most_percent"];

/// From which health on something may be done. A host that is `unknown` or `ok` is in service.
const ACTED_ON: [Health; 3] = [Health::Rebuilding, Health::Degraded, Health::Failed];
const NEVER: &str = "never";

const RULE_EXAMPLE: &str = "write for example \"disk.fsync_grade better than C\", or { rule = \"disk.fsync_grade better than C\", because = \"...\" }";

type Item<'a> = Spanned<DeValue<'a>>;

pub(super) fn built_in() -> Result<Classes, Vec<Problem>> {
    let nothing = Classes {
        by_name: std::collections::BTreeMap::new(),
        health: HealthRule {
            cordon: None,
            alarm: None,
            cordon_at_most_percent: 0,
        },
    };
    let mut classes = over(nothing, "classes.toml", BUILT_IN)?;
    for class in classes.by_name.values_mut() {
        class.built_in = true;
    }
    Ok(classes)
}

/// What a file says, in place of what was there under the same names.
pub(super) fn over(mut classes: Classes, file: &str, text: &str) -> Result<Classes, Vec<Problem>> {
    let mut reading = Reading {
        file,
        text,
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let what = format!("is not TOML: {}", error.message());
        reading.note(at, "", what, "correct the line".to_owned());
    }
    for (key, item) in table.get_ref() {
        match &**key.get_ref() {
            "class" => reading.classes(item, &mut classes),
            "health" => reading.health(item, &mut classes.health),
            other => {
                reading.unknown_key(key.span().start, "", other, "table of a class file", TABLES);
            }
        }
    }
    reading.finish(classes)
}

struct Reading<'a> {
    file: &'a str,
    text: &'a str,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn note(&mut self, at: usize, field: &str, what: String, remedy: String) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: 1 + count(&before.replace(|c| c != '\n', "")),
            column: 1 + count(&before[line_start..]),
            field: field.to_owned(),
            what,
            remedy,
        });
    }

    fn finish(mut self, classes: Classes) -> Result<Classes, Vec<Problem>> {
        if self.problems.is_empty() {
            return Ok(classes);
        }
        self.problems
            .sort_by_key(|problem| (problem.line, problem.column));
        Err(self.problems)
    }

    fn unknown_key(&mut self, at: usize, field: &str, key: &str, of: &str, known: &[&str]) {
        let what = format!("`{}` is no {of}", jobs::shown(key));
        let remedy = match jobs::nearest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        self.note(at, field, what, remedy);
    }

    fn classes(&mut self, item: &Item<'_>, classes: &mut Classes) {
        let Some(table) = item.get_ref().as_table() else {
            let what = "is not a table of classes".to_owned();
            let remedy = "write [class.NAME] above the fields of a class".to_owned();
            self.note(item.span().start, "class", what, remedy);
            return;
        };
        if table.len() > CLASSES_MAX {
            let what = format!("has {} classes", table.len());
            let remedy = format!("write at most {CLASSES_MAX}");
            self.note(item.span().start, "class", what, remedy);
            return;
        }
        for (key, item) in table {
            let written = &**key.get_ref();
            let field = format!("class.{}", jobs::shown(written));
            let name = written.parse::<ClassName>();
            if name.is_err() {
                let what = format!("`{}` is no name of a class", jobs::shown(written));
                let remedy = "write 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit".to_owned();
                self.note(key.span().start, "class", what, remedy);
            }
            if let (Some(class), Ok(name)) = (self.class(&field, key.span().start, item), name) {
                classes.by_name.insert(name, class);
            }
        }
    }

    fn class(&mut self, field: &str, at: usize, item: &Item<'_>) -> Option<Class> {
        let Some(table) = item.get_ref().as_table() else {
            let what = "is not a table".to_owned();
            let remedy = format!("write [{field}] above the fields of the class");
            self.note(item.span().start, field, what, remedy);
            return None;
        };
        let mut about = None;
        let [mut require, mut refuse, mut warn] = [const { Vec::new() }; 3];
        for (key, item) in table {
            let name = &**key.get_ref();
            let path = format!("{field}.{name}");
            match name {
                "about" => about = Some(self.text(&path, item)),
                "require" => require = self.rules(&path, item),
                "refuse" => refuse = self.rules(&path, item),
                "warn" => warn = self.rules(&path, item),
                other => {
                    self.unknown_key(
                        key.span().start,
                        field,
                        other,
                        "field of a class",
                        CLASS_FIELDS,
                    );
                }
            }
        }
        if about.is_none() {
            let what = "has no `about`".to_owned();
            let remedy =
                "write in half a sentence which hosts it means, for those who choose a class";
            self.note(at, field, what, remedy.to_owned());
        }
        Some(Class {
            about: about??,
            built_in: false,
            require,
            refuse,
            warn,
        })
    }

    /// A text that says something.
    fn text(&mut self, field: &str, item: &Item<'_>) -> Option<String> {
        let text = item.get_ref().as_str().map(str::trim);
        let what = match text {
            None => format!("is a {}, not a text", item.get_ref().type_str()),
            Some("") => "is empty".to_owned(),
            Some(text) if text.len() > TEXT_BYTES_MAX => format!("has {} bytes", text.len()),
            Some(text) if text.chars().any(char::is_control) => {
                "has a control character or a line's end".to_owned()
            }
            Some(text) => return Some(text.to_owned()),
        };
        let remedy = format!("write one line of at most {TEXT_BYTES_MAX} bytes in quotes");
        self.note(item.span().start, field, what, remedy);
        None
    }

    fn rules(&mut self, field: &str, item: &Item<'_>) -> Vec<Rule> {
        let Some(items) = self.list(field, item, RULES_MAX) else {
            return Vec::new();
        };
        let mut rules = Vec::new();
        for item in items {
            let because = item
                .get_ref()
                .as_table()
                .and_then(|table| table.get("because"));
            let because =
                because.and_then(|because| self.text(&format!("{field}.because"), because));
            if let Some(on) = self.rule(field, item, DEPTH_MAX) {
                rules.push(Rule { on, because });
            }
        }
        rules
    }

    fn list<'i, 'd>(
        &mut self,
        field: &str,
        item: &'i Item<'d>,
        at_most: usize,
    ) -> Option<&'i [Item<'d>]> {
        let (what, remedy) = match item.get_ref().as_array() {
            Some(items) if items.len() > at_most => (
                format!("has {} rules", items.len()),
                format!("write at most {at_most}"),
            ),
            Some(items) => return Some(items),
            None => (
                format!("is a {}, not a list of rules", item.get_ref().type_str()),
                "write rules in [ ], each in quotes".to_owned(),
            ),
        };
        self.note(item.span().start, field, what, remedy);
        None
    }

    /// A rule: a text, or a table with one of `rule`, `any` and `all`.
    fn rule(&mut self, field: &str, item: &Item<'_>, depth: usize) -> Option<On> {
        let at = item.span().start;
        let table = match item.get_ref() {
            DeValue::String(text) => return self.condition(field, at, text),
            DeValue::Table(table) => table,
            other => {
                let what = format!("holds a {}, which is no rule", other.type_str());
                self.note(at, field, what, RULE_EXAMPLE.to_owned());
                return None;
            }
        };
        let (mut found, mut unknown) = (Vec::new(), false);
        for (key, item) in table {
            let key_at = key.span().start;
            match &**key.get_ref() {
                "because" if depth == DEPTH_MAX => {}
                "because" => {
                    let what = "has a `because` inside a rule".to_owned();
                    let remedy = "write it beside the outermost `any` or `all`".to_owned();
                    self.note(key_at, field, what, remedy);
                }
                "rule" => found.push(match item.get_ref() {
                    DeValue::String(text) => self.condition(field, item.span().start, text),
                    other => {
                        let what = format!("has a `rule` that is a {}", other.type_str());
                        self.note(item.span().start, field, what, RULE_EXAMPLE.to_owned());
                        None
                    }
                }),
                "any" => found.push(self.parts(field, item, depth).map(On::Any)),
                "all" => found.push(self.parts(field, item, depth).map(On::All)),
                other => {
                    self.unknown_key(key_at, field, other, "field of a rule", RULE_FIELDS);
                    unknown = true;
                }
            }
        }
        match found.len() {
            1 => found.pop()?,
            // It may be what was mistyped.
            0 if unknown => None,
            0 => {
                let what = "has a rule without a condition".to_owned();
                self.note(at, field, what, RULE_EXAMPLE.to_owned());
                None
            }
            _ => {
                let what = "has several of `rule`, `any` and `all` in one rule".to_owned();
                let remedy = "write one of them; `all = [...]` takes several conditions".to_owned();
                self.note(at, field, what, remedy);
                None
            }
        }
    }

    fn parts(&mut self, field: &str, item: &Item<'_>, depth: usize) -> Option<Vec<On>> {
        let at = item.span().start;
        let items = self.list(field, item, RULES_MAX)?;
        if items.is_empty() {
            let what = "has an empty list, which says nothing".to_owned();
            self.note(
                at,
                field,
                what,
                "write rules in it, or leave it out".to_owned(),
            );
            return None;
        }
        if depth == 1 {
            let what = format!("has lists more than {} deep", DEPTH_MAX - 1);
            let remedy = "say it with fewer, or make it a class of its own".to_owned();
            self.note(at, field, what, remedy);
            return None;
        }
        let parts: Vec<Option<On>> = items
            .iter()
            .map(|item| self.rule(field, item, depth - 1))
            .collect();
        parts.into_iter().collect()
    }

    fn condition(&mut self, field: &str, at: usize, text: &str) -> Option<On> {
        match condition::parse(text) {
            Ok(condition) => Some(On::Condition(condition)),
            Err((what, remedy)) => {
                self.note(at, field, what, remedy);
                None
            }
        }
    }

    fn health(&mut self, item: &Item<'_>, health: &mut HealthRule) {
        let Some(table) = item.get_ref().as_table() else {
            let what = "is not a table".to_owned();
            let remedy = "write [health] above its fields".to_owned();
            self.note(item.span().start, "health", what, remedy);
            return;
        };
        for (key, item) in table {
            match &**key.get_ref() {
                "cordon" => health.cordon = self.threshold("health.cordon", item),
                "alarm" => health.alarm = self.threshold("health.alarm", item),
                "cordon_at_most_percent" => self.percent(item, &mut health.cordon_at_most_percent),
                other => {
                    let at = key.span().start;
                    self.unknown_key(at, "health", other, "field of [health]", HEALTH_FIELDS);
                }
            }
        }
        if let (Some(cordon), Some(alarm)) = (health.cordon, health.alarm)
            && alarm > cordon
        {
            let (cordon, alarm) = (cordon.as_str(), alarm.as_str());
            let what = format!(
                "alarms from `{alarm}` and cordons already from `{cordon}`, which is told anyway"
            );
            let remedy = format!("write alarm = \"{cordon}\", or a health less ill");
            self.note(item.span().start, "health", what, remedy);
        }
    }

    fn threshold(&mut self, field: &str, item: &Item<'_>) -> Option<Health> {
        let at = item.span().start;
        let words = ACTED_ON.map(Health::as_str);
        let choice = format!("write {} or {NEVER}, in quotes", words.join(", "));
        let Some(text) = item.get_ref().as_str() else {
            let what = format!("is a {}, not a word", item.get_ref().type_str());
            self.note(at, field, what, choice);
            return None;
        };
        if text == NEVER {
            return None;
        }
        let known = ACTED_ON.into_iter().find(|health| health.as_str() == text);
        if known.is_none() {
            let (what, remedy) = if Health::ALL.iter().any(|health| health.as_str() == text) {
                let what = format!("`{text}` would be done to hosts of which nothing ill is known");
                (what, choice)
            } else {
                let what = format!("`{}` is no health", jobs::shown(text));
                let near = jobs::nearest(text, words.into_iter().chain([NEVER]));
                (
                    what,
                    near.map_or(choice, |meant| format!("did you mean `{meant}`?")),
                )
            };
            self.note(at, field, what, remedy);
        }
        known
    }

    fn percent(&mut self, item: &Item<'_>, percent: &mut u32) {
        let number = item.get_ref().as_integer().and_then(|number| {
            let number = u32::from_str_radix(number.as_str(), number.radix()).ok()?;
            (number <= 100).then_some(number)
        });
        match number {
            Some(number) => *percent = number,
            None => self.note(
                item.span().start,
                "health.cordon_at_most_percent",
                "is no share of the hosts".to_owned(),
                "write a whole number from 0 to 100".to_owned(),
            ),
        }
    }
}
