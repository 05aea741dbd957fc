//! storcli's text in the form of its JSON.

use crate::json::Json;
use crate::lines::{Line, lines, plain};
use crate::tables::{Head, is_rule};

/// Puts `key = value`, titles with a rule below them and tables into the objects and lists that `J`
/// would have written.
pub(super) fn from_text(text: &str) -> Json {
    let mut reader = Reader::default();
    let lines: Vec<Line<'_>> = lines(text).collect();
    for (at, line) in lines.iter().enumerate() {
        reader.line(*line, lines.get(at + 1).copied());
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    answers: Vec<Json>,
    status: Vec<(String, Json)>,
    data: Vec<(String, Json)>,
    /// Title of the section that is being read, and what was read of it.
    title: Option<String>,
    fields: Vec<(String, Json)>,
    rows: Vec<Json>,
    head: Option<Head>,
}

const HEADS: [&[&str]; 5] = [
    &["dg/vd", "state"],
    &["eid:slt", "state"],
    &["dg", "type", "state"],
    &["model", "state"],
    &["ctl", "model", "hlth"],
];

impl Reader {
    fn line(&mut self, line: Line<'_>, next: Option<Line<'_>>) {
        if is_rule(line) {
            return;
        }
        // A title stands above a rule of `=`.
        if next.is_some_and(|next| is_rule(next) && next.text.starts_with('=')) {
            self.end_section();
            self.title = Some(line.text.trim_end_matches([':', ' ']).to_owned());
            return;
        }
        if let Some((key, value)) = line.text.split_once(" = ") {
            self.head = None;
            self.field(key.trim(), value.trim());
            return;
        }
        if let Some(head) = HEADS.iter().find_map(|names| Head::find(line, names)) {
            self.head = Some(head);
            return;
        }
        if line.text.contains('|') && line.text.contains('=') {
            // The legend below a table.
            self.head = None;
            return;
        }
        let Some(head) = &self.head else {
            self.property(line);
            return;
        };
        let wide = if head.names().iter().any(|name| name == "name") {
            "name"
        } else {
            "model"
        };
        let row = head.row(line, wide);
        let cells = row.cells().iter().map(|(name, cell)| {
            let value = match cell.parse::<u64>() {
                Ok(count) => Json::Count(count),
                Err(_) => Json::Text(cell.clone()),
            };
            (name.clone(), value)
        });
        self.rows.push(Json::Object(cells.collect()));
    }

    /// Rows of `Property Value` tables have their words in two columns of unknown width.
    fn property(&mut self, line: Line<'_>) {
        let Some((key, value)) = line.text.split_once("  ") else {
            return;
        };
        if plain(key) == "property" {
            return;
        }
        self.rows.push(Json::Object(vec![
            ("Property".into(), Json::Text(key.trim().to_owned())),
            ("Value".into(), Json::Text(value.trim().to_owned())),
        ]));
    }

    fn field(&mut self, key: &str, value: &str) {
        let value = Json::Text(value.to_owned());
        let in_status = [
            "controller",
            "status",
            "description",
            "cli version",
            "operating system",
        ];
        let name = plain(key);
        if name == "cli version" || (name == "controller" && self.title.is_none()) {
            // Another answer begins where one of these comes again.
            if self.status.iter().any(|(known, _)| plain(known) == name) {
                self.end_answer();
            }
        }
        if self.title.is_none() && in_status.contains(&name.as_str()) {
            self.status.push((key.to_owned(), value));
        } else if self.title.is_some() && name == "cli version" {
            self.end_answer();
            self.status.push((key.to_owned(), value));
        } else {
            self.fields.push((key.to_owned(), value));
        }
    }

    fn end_section(&mut self) {
        let title = self.title.take().unwrap_or_default();
        let fields = std::mem::take(&mut self.fields);
        let rows = std::mem::take(&mut self.rows);
        self.head = None;
        if !fields.is_empty() {
            self.data.push((title.clone(), Json::Object(fields)));
        }
        if !rows.is_empty() {
            self.data.push((title, Json::List(rows)));
        }
    }

    fn end_answer(&mut self) {
        self.end_section();
        let status = std::mem::take(&mut self.status);
        let data = std::mem::take(&mut self.data);
        if status.is_empty() && data.is_empty() {
            return;
        }
        self.answers.push(Json::Object(vec![
            ("Command Status".into(), Json::Object(status)),
            ("Response Data".into(), Json::Object(data)),
        ]));
    }

    fn finish(mut self) -> Json {
        self.end_answer();
        // Text that is nothing of storcli's has no status and no table either.
        let told = self.answers.iter().any(|answer| {
            answer.at(&["Command Status", "Status"]).is_some()
                || answer
                    .get("Response Data")
                    .is_some_and(|data| data.entries().iter().any(|(title, _)| !title.is_empty()))
        });
        let answers = if told { self.answers } else { Vec::new() };
        Json::Object(vec![("Controllers".into(), Json::List(answers))])
    }
}
