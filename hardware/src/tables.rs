//! Tables as tools print them: a head of names, a rule of dashes, rows.
//!
//! Cells are found by the names in the head, not by columns of the terminal: columns move with the
//! width of what stands in them. Blanks separate cells, and occur in them: a size and its unit are one
//! cell, and what a row has too many belongs to the last column, which holds the names of models.

use crate::lines::{Line, plain};

/// A head: the names of the columns, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    names: Vec<String>,
}

/// One row, by the names of its columns.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    cells: Vec<(String, String)>,
    /// Whether it has as many cells as the head has names.
    pub(crate) whole: bool,
}

impl Head {
    /// A line that is a head if it has all of these names.
    pub(crate) fn find(line: Line<'_>, names: &[&str]) -> Option<Self> {
        let said: Vec<String> = line.text.split_whitespace().map(plain).collect();
        names
            .iter()
            .all(|name| said.iter().any(|word| word == name))
            .then_some(Self { names: said })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// What a row has too many goes to the column `wide`, or to the last.
    pub(crate) fn row(&self, line: Line<'_>, wide: &str) -> Row {
        let mut cells: Vec<String> = Vec::new();
        for word in line.text.split_whitespace() {
            match cells.last_mut() {
                Some(cell) if is_unit(word) && cell.parse::<f64>().is_ok() => {
                    cell.push(' ');
                    cell.push_str(word);
                }
                _ => cells.push(word.to_owned()),
            }
        }
        let whole = cells.len() >= self.names.len();
        let surplus = cells.len().saturating_sub(self.names.len());
        if surplus > 0 {
            let at = self.names.iter().position(|name| name == wide);
            let at = at.unwrap_or(self.names.len() - 1);
            let merged = cells[at..=at + surplus].join(" ");
            cells.splice(at..=at + surplus, [merged]);
        }
        Row {
            cells: self.names.iter().cloned().zip(cells).collect(),
            whole,
        }
    }
}

impl Row {
    /// A cell, where it holds something.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let cell = self.cells.iter().find(|(column, _)| column == name);
        cell.map(|(_, cell)| cell.as_str())
            .filter(|cell| *cell != "-")
    }

    pub(crate) fn cells(&self) -> &[(String, String)] {
        &self.cells
    }
}

pub(crate) fn is_rule(line: Line<'_>) -> bool {
    line.text.len() >= 5 && line.text.chars().all(|c| matches!(c, '-' | '=' | '_'))
}

fn is_unit(word: &str) -> bool {
    matches!(
        word,
        "B" | "KB" | "MB" | "GB" | "TB" | "PB" | "KiB" | "MiB" | "GiB" | "TiB" | "PiB"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::lines;

    #[test]
    fn cells_are_found_by_name_whatever_their_width() {
        let text = "EID:Slt DID State DG     Size Intf Model            Sp\n\
                    252:0    34 Onln   0 14.551 TB SATA ST16000NM001G X2  U\n\
                    252:1    33 Onln   0 14.551\n";
        let mut read = lines(text);
        let head = Head::find(read.next().unwrap(), &["eid:slt", "state"]).unwrap();
        let row = head.row(read.next().unwrap(), "model");
        assert_eq!(row.get("size"), Some("14.551 TB"));
        assert_eq!(row.get("model"), Some("ST16000NM001G X2"));
        assert_eq!(row.get("sp"), Some("U"));
        assert!(row.whole);
        let cut = head.row(read.next().unwrap(), "model");
        assert!(!cut.whole);
        assert_eq!(cut.get("model"), None);
    }
}
