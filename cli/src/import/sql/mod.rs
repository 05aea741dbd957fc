//! The rows of a dump.
//!
//! No database is asked and no SQL is understood: a dump is cut into statements, and of those only
//! `CREATE TABLE`, `INSERT`, `REPLACE` and PostgreSQL's `COPY` are looked into, far enough to have
//! columns and values. That is a tokenizer and no more, it reads what mysqldump, Navicat, DataGrip,
//! pg_dump and the consoles of others write, and it goes through history of gigabytes without
//! keeping it: rows are kept of the tables that are asked for.

mod lexer;
mod value;

use std::collections::BTreeMap;

use self::lexer::{Lexer, Token, is_one_of, name_of, text_of};
use self::value::{copied, value_of};

/// Most rows kept of one file. A scheduler with more jobs than this is exported in parts.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Most values of a row.
const VALUES_MAX: usize = 200;

/// A piece of a dump and the lines that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) line: u32,
    pub(crate) through: u32,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Blank,
    Comment,
    Create {
        table: String,
    },
    /// Rows of a table that was asked for.
    Rows {
        table: String,
        rows: Vec<Row>,
    },
    /// Rows of another table, and how many.
    OtherRows {
        table: String,
        count: u32,
    },
    /// A statement that holds no rows, by its first word.
    Statement(String),
    Unreadable(String),
}

/// One row: values by the names of their columns, in small letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) line: u32,
    pub(crate) through: u32,
    /// `None` where neither the statement nor a `CREATE TABLE` before it names them.
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) values: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
    /// A number, a word or a call, as it stands; a flag that is written as a bit or a byte as 0 or 1.
    Bare(String),
    /// What is no text, such as a serialized object.
    Bytes,
}

/// A row's values by the names of its columns.
pub(crate) type Columns = BTreeMap<String, Value>;

/// What stands in a column, without blanks about it; nothing where it is empty.
pub(crate) fn text<'a>(columns: &'a Columns, name: &str) -> Option<&'a str> {
    columns
        .get(name)?
        .text()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

impl Value {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Bare(text) => Some(text),
            Value::Null | Value::Bytes => None,
        }
    }
}

impl Row {
    /// Gives the values the names of columns, where it has none of its own: of these tables the one
    /// with as many columns.
    pub(crate) fn named(&self, forms: &[&[&str]]) -> Option<Columns> {
        let names: Vec<String> = match &self.columns {
            Some(columns) => columns.clone(),
            None => forms
                .iter()
                .find(|form| form.len() == self.values.len())?
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
        };
        (names.len() == self.values.len())
            .then(|| names.into_iter().zip(self.values.iter().cloned()).collect())
    }
}

/// Reads a dump piece by piece.
pub(crate) struct Dump<'a> {
    lexer: Lexer<'a>,
    wanted: &'a dyn Fn(&str) -> bool,
    /// Columns by table.
    created: BTreeMap<String, Vec<String>>,
    /// Line up to which everything was told.
    told: u32,
    /// Rows met of the tables that were asked for.
    met: usize,
}

impl<'a> Dump<'a> {
    /// `wanted` is asked with the name of a table, in small letters and without its schema.
    /// `backslash`: whether in a text it takes the next character's meaning away, as in MySQL.
    pub(crate) fn new(
        bytes: &'a [u8],
        backslash: bool,
        wanted: &'a dyn Fn(&str) -> bool,
    ) -> Dump<'a> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Dump {
            lexer: Lexer {
                bytes,
                at: 0,
                line: 1,
                backslash,
                delimiter: b";".to_vec(),
            },
            wanted,
            created: BTreeMap::new(),
            told: 0,
            met: 0,
        }
    }

    /// Whether more rows were met than are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.met > ROWS_MAX
    }

    /// Keeps a row of a table that was asked for, while there is room.
    fn keep(&mut self, row: Row, rows: &mut Vec<Row>) {
        self.met += 1;
        if self.met <= ROWS_MAX {
            rows.push(row);
        }
    }

    /// Blank lines before whatever comes next.
    fn blank(&mut self) -> Option<Piece> {
        self.lexer.skip_space();
        let (line, last) = (self.told + 1, self.lexer.line - 1);
        // Where the next thing begins in a line that is told already, none is between.
        let last = if self.lexer.is_at_end() {
            self.lexer.last_line()
        } else {
            last
        };
        (line <= last).then(|| {
            self.told = last;
            Piece {
                line,
                through: last,
                what: What::Blank,
            }
        })
    }

    fn piece(&mut self) -> Option<Piece> {
        if let Some(blank) = self.blank() {
            return Some(blank);
        }
        let line = self.lexer.line;
        let what = match self.lexer.comment() {
            Some(Ok(())) => What::Comment,
            Some(Err(why)) => What::Unreadable(why),
            None if self.lexer.is_at_end() => return None,
            None => self.statement().unwrap_or_else(|why| {
                // What is not closed reaches to the end.
                self.lexer.advance(self.lexer.rest().len());
                What::Unreadable(why)
            }),
        };
        let through = self.lexer.line_before().max(line);
        self.told = through;
        Some(Piece {
            line,
            through,
            what,
        })
    }

    fn statement(&mut self) -> Result<What, String> {
        let token = self.lexer.token()?;
        let word = match &token {
            Token::Word(word) => word.to_ascii_uppercase(),
            Token::End => return Ok(What::Statement(String::new())),
            _ => Vec::new(),
        };
        match word.as_slice() {
            b"INSERT" | b"REPLACE" => self.insert(),
            b"CREATE" => self.create(),
            b"COPY" => self.copy(),
            b"DELIMITER" => {
                self.lexer.delimiter = self.lexer.rest_of_line().trim_ascii().to_vec();
                Ok(What::Statement("DELIMITER".to_owned()))
            }
            // A line of its own in scripts of SQL Server and Oracle.
            b"GO" => Ok(What::Statement("GO".to_owned())),
            _ => {
                self.lexer.skip_statement()?;
                Ok(What::Statement(text_of(&word)))
            }
        }
    }

    fn insert(&mut self) -> Result<What, String> {
        let table = loop {
            match self.lexer.token()? {
                Token::Word(word)
                    if is_one_of(word, &["INTO", "IGNORE", "LOW_PRIORITY", "DELAYED"]) => {}
                token @ (Token::Word(_) | Token::Name(_)) => break self.table(token)?,
                Token::End => return Ok(What::Statement("INSERT".to_owned())),
                _ => {
                    self.lexer.skip_statement()?;
                    return Ok(What::Statement("INSERT".to_owned()));
                }
            }
        };
        let is_wanted = (self.wanted)(&table);
        let mut columns = self.created.get(&table).cloned();
        let mut rows = Vec::new();
        let mut count = 0;
        let mut before_values = true;
        loop {
            let mark = self.lexer.mark();
            match self.lexer.token()? {
                Token::End => break,
                Token::Word(word) if before_values && is_one_of(word, &["VALUES", "VALUE"]) => {
                    before_values = false;
                }
                Token::Sign(b'(') if before_values => columns = Some(self.names()?),
                Token::Sign(b'(') => {
                    let row = self.row(mark.1, columns.as_ref(), is_wanted)?;
                    count += 1;
                    if is_wanted {
                        self.keep(row, &mut rows);
                    }
                }
                Token::Sign(b',') => {}
                // `ON DUPLICATE KEY`, `ON CONFLICT`, `RETURNING`, `SELECT`, `OVERRIDING SYSTEM VALUE`.
                Token::Word(word)
                    if before_values || is_one_of(word, &["ON", "RETURNING", "AS"]) =>
                {
                    if is_one_of(word, &["SELECT", "ON", "RETURNING", "AS", "SET"]) {
                        self.lexer.skip_statement()?;
                        break;
                    }
                }
                // Nothing ends this statement but the next one.
                _ => {
                    self.lexer.back(mark);
                    break;
                }
            }
        }
        Ok(if is_wanted {
            What::Rows { table, rows }
        } else {
            What::OtherRows { table, count }
        })
    }

    /// The name of a table, without the schemas before it.
    fn table(&mut self, first: Token) -> Result<String, String> {
        let mut name = name_of(&first);
        loop {
            let mark = self.lexer.mark();
            if self.lexer.token()? != Token::Sign(b'.') {
                self.lexer.back(mark);
                return Ok(name.to_ascii_lowercase());
            }
            name = name_of(&self.lexer.token()?);
        }
    }

    /// Names in brackets, the opening one read already.
    fn names(&mut self) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        loop {
            match self.lexer.token()? {
                Token::Sign(b')') | Token::End => return Ok(names),
                token @ (Token::Word(_) | Token::Name(_)) if names.len() < VALUES_MAX => {
                    names.push(name_of(&token).to_ascii_lowercase());
                }
                _ => {}
            }
        }
    }

    /// A row, its opening bracket read already.
    fn row(
        &mut self,
        line: u32,
        columns: Option<&Vec<String>>,
        is_wanted: bool,
    ) -> Result<Row, String> {
        let mut values = Vec::new();
        let mut value = Vec::new();
        let mut depth = 0;
        loop {
            let token = self.lexer.token()?;
            match token {
                Token::End => return Err("a row is not closed".to_owned()),
                Token::Sign(b')') if depth == 0 => break,
                Token::Sign(b',') if depth == 0 => {
                    if is_wanted && values.len() < VALUES_MAX {
                        values.push(value_of(&value, self.lexer.backslash));
                    }
                    value.clear();
                    continue;
                }
                Token::Sign(b'(') => depth += 1,
                Token::Sign(b')') => depth -= 1,
                _ => {}
            }
            if is_wanted && value.len() < 64 {
                value.push(token);
            }
        }
        if is_wanted {
            values.push(value_of(&value, self.lexer.backslash));
        }
        Ok(Row {
            line,
            through: self.lexer.line_before().max(line),
            columns: columns.filter(|_| is_wanted).cloned(),
            values,
        })
    }

    fn create(&mut self) -> Result<What, String> {
        let mut is_table = false;
        let table = loop {
            match self.lexer.token()? {
                Token::Word(word) if is_one_of(word, &["TABLE"]) => is_table = true,
                Token::Word(word)
                    if is_one_of(
                        word,
                        &["TEMPORARY", "UNLOGGED", "GLOBAL", "IF", "NOT", "EXISTS"],
                    ) => {}
                token @ (Token::Word(_) | Token::Name(_)) if is_table => {
                    break self.table(token)?;
                }
                Token::End => return Ok(What::Statement("CREATE".to_owned())),
                _ => {
                    self.lexer.skip_statement()?;
                    return Ok(What::Statement("CREATE".to_owned()));
                }
            }
        };
        let mut columns: Vec<String> = Vec::new();
        let mut depth = 0;
        let mut is_first = false;
        loop {
            let mark = self.lexer.mark();
            let token = self.lexer.token()?;
            match &token {
                Token::End => break,
                // A script without `;`, as SQL Server's: the next statement begins.
                Token::Word(word)
                    if depth == 0
                        && !columns.is_empty()
                        && is_one_of(word, &["GO", "INSERT", "CREATE", "ALTER", "DROP", "SET"]) =>
                {
                    self.lexer.back(mark);
                    break;
                }
                Token::Sign(b'(') => {
                    depth += 1;
                    is_first = depth == 1;
                    continue;
                }
                Token::Sign(b')') => depth -= 1,
                Token::Sign(b',') if depth == 1 => {
                    is_first = true;
                    continue;
                }
                Token::Name(_) if is_first && depth == 1 => columns.push(name_of(&token)),
                Token::Word(word) if is_first && depth == 1 => {
                    let keys = [
                        "PRIMARY",
                        "KEY",
                        "UNIQUE",
                        "INDEX",
                        "CONSTRAINT",
                        "FOREIGN",
                        "FULLTEXT",
                        "CHECK",
                        "SPATIAL",
                        "EXCLUDE",
                    ];
                    if !is_one_of(word, &keys) {
                        columns.push(name_of(&token));
                    }
                }
                _ => {}
            }
            is_first = false;
        }
        columns.truncate(VALUES_MAX);
        for column in &mut columns {
            column.make_ascii_lowercase();
        }
        if (self.wanted)(&table) && !columns.is_empty() {
            self.created.insert(table.clone(), columns);
        }
        Ok(What::Create { table })
    }

    /// `COPY table (columns) FROM stdin;` and the lines up to `\.`.
    fn copy(&mut self) -> Result<What, String> {
        let first = self.lexer.token()?;
        let table = self.table(first)?;
        let mut columns = self.created.get(&table).cloned();
        let mut is_stdin = false;
        loop {
            match self.lexer.token()? {
                Token::End => break,
                Token::Sign(b'(') => columns = Some(self.names()?),
                Token::Word(word) => is_stdin |= is_one_of(word, &["STDIN"]),
                _ => {}
            }
        }
        if !is_stdin {
            return Ok(What::Statement("COPY".to_owned()));
        }
        self.lexer.rest_of_line();
        let is_wanted = (self.wanted)(&table);
        let mut rows = Vec::new();
        let mut count = 0;
        while !self.lexer.is_at_end() {
            let line = self.lexer.line;
            let text = self.lexer.rest_of_line();
            if text.trim_ascii() == b"\\." {
                break;
            }
            count += 1;
            if is_wanted {
                let row = Row {
                    line,
                    through: line,
                    columns: columns.clone(),
                    values: copied(text),
                };
                self.keep(row, &mut rows);
            }
        }
        Ok(if is_wanted {
            What::Rows { table, rows }
        } else {
            What::OtherRows { table, count }
        })
    }
}

impl Iterator for Dump<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        self.piece()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(u32, u32, What)> {
        let wanted = |table: &str| table == "t";
        Dump::new(text.as_bytes(), true, &wanted)
            .map(|piece| (piece.line, piece.through, piece.what))
            .collect()
    }

    fn rows(text: &str) -> Vec<BTreeMap<String, Value>> {
        let forms: [&[&str]; 1] = [&["a", "b"]];
        pieces(text)
            .into_iter()
            .filter_map(|(_, _, what)| match what {
                What::Rows { rows, .. } => Some(rows),
                _ => None,
            })
            .flatten()
            .map(|row| row.named(&forms).unwrap())
            .collect()
    }

    fn text(value: &str) -> Value {
        Value::Text(value.to_owned())
    }

    fn bare(value: &str) -> Value {
        Value::Bare(value.to_owned())
    }

    #[test]
    fn values_are_read_as_the_database_reads_them() {
        for (value, expected) in [
            ("'x'", text("x")),
            ("''", text("")),
            ("'it''s'", text("it's")),
            ("'it\\'s'", text("it's")),
            ("'a\\nb\\\\'", text("a\nb\\")),
            ("'a);('", text("a);(")),
            ("N'x'", text("x")),
            ("_binary 'x'", Value::Bytes),
            ("0xACED", Value::Bytes),
            ("X'0001'", Value::Bytes),
            ("X'02'", Value::Bytes),
            ("b'10'", Value::Bytes),
            ("b'000000001'", Value::Bytes),
            ("b''", Value::Bytes),
            ("b'1'", bare("1")),
            ("B'0'", bare("0")),
            ("b'00000001'", bare("1")),
            ("x'01'", bare("1")),
            ("X'00'", bare("0")),
            ("0x1", bare("1")),
            ("0x01", bare("1")),
            ("_binary '\x01'", bare("1")),
            ("_binary '\\0'", bare("0")),
            ("'x'::text", text("x")),
            ("NULL", Value::Null),
            ("null", Value::Null),
            ("-1", bare("-1")),
            ("now(1, 2)", bare("now(1,2)")),
            ("/* c */ 5", bare("5")),
        ] {
            let statement = format!("INSERT INTO `t` VALUES ({value}, 2);");
            let found = rows(&statement);
            assert_eq!(found.len(), 1, "{value}");
            assert_eq!(found[0]["a"], expected, "{value}");
        }
    }

    #[test]
    fn columns_come_from_where_they_are_named() {
        for statements in [
            "INSERT INTO t VALUES ('1', '2');",
            "insert into S.T (`B`, `A`) values ('2', '1')",
            "CREATE TABLE IF NOT EXISTS `db`.`t` (`b` int(11) COMMENT 'x, y', `a` text, PRIMARY KEY (`b`), KEY i (`a`));\nINSERT IGNORE INTO `t` VALUES ('2', '1');",
            "COPY public.t (b, a) FROM stdin;\n2\t1\n\\.\nSELECT 1;",
            "INSERT INTO [dbo].[t] ([b], [a]) VALUES (N'2', N'1')\nGO\nINSERT INTO u VALUES (1)\nGO\n",
            "REPLACE INTO t (a, b) VALUES ('1', '2') ON DUPLICATE KEY UPDATE a = VALUES(a);",
            "DELIMITER $$\nCREATE TRIGGER x BEGIN SET a = 1; END$$\nDELIMITER ;\nINSERT INTO t VALUES ('1','2');",
        ] {
            let found = rows(statements);
            assert_eq!(found.len(), 1, "{statements}");
            assert_eq!(found[0]["a"], text("1"), "{statements}");
            assert_eq!(found[0]["b"], text("2"), "{statements}");
        }
        assert_eq!(rows("INSERT INTO t VALUES (1,2),\n(3,4) , (5,6);").len(), 3);
    }

    #[test]
    fn pieces_cover_every_line() {
        let dump = "-- a\n\n# b\n/* c\nd */ SET x = 1;\nCREATE TABLE t (a int,\n b int);\nINSERT INTO u VALUES\n(1),\n(2);\n\n\nINSERT INTO t VALUES ('x\ny', 2); \n";
        let found = pieces(dump);
        let mut next = 1;
        for (line, through, what) in &found {
            assert!(*line <= next && line <= through, "{what:?} {line}");
            next = next.max(through + 1);
        }
        assert_eq!(next, dump.lines().count() as u32 + 1, "{found:?}");
        assert!(found.contains(&(
            8,
            10,
            What::OtherRows {
                table: "u".to_owned(),
                count: 2
            }
        )));
    }

    #[test]
    fn as_many_rows_as_are_kept_are_not_too_many() {
        let wanted = |_: &str| true;
        for (met, is_full) in [(ROWS_MAX, false), (ROWS_MAX + 1, true)] {
            let text = format!("INSERT INTO t VALUES {};", "(1),".repeat(met));
            let mut dump = Dump::new(text.as_bytes(), true, &wanted);
            let rows = |piece: Piece| match piece.what {
                What::Rows { rows, .. } => rows.len(),
                _ => 0,
            };
            let kept: usize = dump.by_ref().map(rows).sum();
            assert_eq!((kept, dump.is_full()), (ROWS_MAX, is_full));
        }
    }

    #[test]
    fn what_is_not_closed_is_told_with_its_line() {
        for (dump, words) in [
            ("SET a;\nINSERT INTO t VALUES ('x, 2);\n", "opens in line 2"),
            ("INSERT INTO t VALUES (1,\n2", "not closed"),
            ("\n\n/* x", "begins in line 3"),
        ] {
            let found = pieces(dump);
            let Some((_, _, What::Unreadable(why))) = found.last() else {
                panic!("{found:?}");
            };
            assert!(why.contains(words), "{why}");
        }
        // Elsewhere a backslash means nothing.
        let wanted = |_: &str| true;
        let dump = b"INSERT INTO t VALUES ('C:\\', E'a\\'b');";
        let found: Vec<Piece> = Dump::new(dump, false, &wanted).collect();
        let What::Rows { rows, .. } = &found[0].what else {
            panic!("{found:?}");
        };
        assert_eq!(rows[0].values, [text("C:\\"), text("a'b")]);
    }
}
