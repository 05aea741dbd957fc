//! The ledger's dump as tables: the auditor reads what an operator could read, not what the
//! code under test hands over.

use std::collections::BTreeMap;

use crate::world::World;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Null,
    Number(i64),
    Text(String),
}

pub type Row = BTreeMap<String, Cell>;

#[derive(Debug, Default)]
pub struct Tables(BTreeMap<String, Vec<Row>>);

impl Tables {
    pub fn of(world: &World) -> Tables {
        Tables::parse(&world.store.dump().expect("the ledger can be read"))
    }

    fn parse(dump: &str) -> Tables {
        let mut tables = Tables::default();
        let mut name = String::new();
        for line in dump.lines() {
            if let Some(table) = line.strip_prefix("# ") {
                table.clone_into(&mut name);
                tables.0.entry(name.clone()).or_default();
            } else {
                tables.0.entry(name.clone()).or_default().push(row(line));
            }
        }
        tables
    }

    pub fn rows(&self, table: &str) -> &[Row] {
        self.0
            .get(table)
            .unwrap_or_else(|| panic!("no table {table} in the dump"))
    }
}

/// `a=1 b=- c="some text"`.
fn row(line: &str) -> Row {
    let mut row = Row::new();
    let mut rest = line;
    while let Some((column, after)) = rest.split_once('=') {
        let (cell, after) = cell(after);
        row.insert(column.trim_start().to_owned(), cell);
        rest = after;
    }
    row
}

fn cell(text: &str) -> (Cell, &str) {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' => return (Cell::Text(value), &quoted[at + 1..]),
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c)) => value.push(c),
                    None => {}
                },
                c => value.push(c),
            }
        }
        return (Cell::Text(value), "");
    }
    let end = text.find(' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let cell = word.parse().map_or(Cell::Null, Cell::Number);
    (cell, rest)
}

pub fn number(row: &Row, column: &str) -> i64 {
    number_or_null(row, column).unwrap_or_else(|| panic!("{column} is null in {row:?}"))
}

pub fn number_or_null(row: &Row, column: &str) -> Option<i64> {
    match row.get(column) {
        Some(Cell::Number(number)) => Some(*number),
        Some(Cell::Null) => None,
        other => panic!("{column} is {other:?} in {row:?}"),
    }
}

pub fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    match row.get(column) {
        Some(Cell::Text(text)) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_comes_back() {
        let tables = Tables::parse("# a\nx=1 y=- z=\"b \\\"c\\\" = d\"\n# b\n");
        let row = &tables.rows("a")[0];
        assert_eq!(number(row, "x"), 1);
        assert_eq!(number_or_null(row, "y"), None);
        assert_eq!(text(row, "z"), "b \"c\" = d");
        assert!(tables.rows("b").is_empty());
    }
}
