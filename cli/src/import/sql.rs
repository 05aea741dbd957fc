//! The rows of a dump.
//!
//! No database is asked and no SQL is understood: a dump is cut into statements, and of those only
//! `CREATE TABLE`, `INSERT`, `REPLACE` and PostgreSQL's `COPY` are looked into, far enough to have
//! columns and values. That is a tokenizer and no more, it reads what mysqldump, Navicat, DataGrip,
//! pg_dump and the consoles of others write, and it goes through history of gigabytes without
//! keeping it: rows are kept of the tables that are asked for.

use std::collections::BTreeMap;

use super::source::latin1;

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
    /// A number, a word or a call, as it stands.
    Bare(String),
    /// What is no text, such as a serialized object.
    Bytes,
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
    pub(crate) fn named(&self, forms: &[&[&str]]) -> Option<BTreeMap<String, Value>> {
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
    kept: usize,
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
            kept: 0,
        }
    }

    /// Whether more rows were met than are kept; those beyond are counted as of another table.
    pub(crate) fn is_full(&self) -> bool {
        self.kept >= ROWS_MAX
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
                    if is_wanted && self.kept < ROWS_MAX {
                        self.kept += 1;
                        rows.push(row);
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
            if is_wanted && self.kept < ROWS_MAX {
                self.kept += 1;
                rows.push(Row {
                    line,
                    through: line,
                    columns: columns.clone(),
                    values: copied(text),
                });
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

/// The values of a line that `COPY` writes.
fn copied(line: &[u8]) -> Vec<Value> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.split(|&b| b == b'\t')
        .take(VALUES_MAX)
        .map(|field| match field {
            b"\\N" => Value::Null,
            field if field.starts_with(b"\\\\x") => Value::Bytes,
            field => Value::Text(decoded(&unescaped(field))),
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Letters, digits and what goes with them.
    Word(&'a [u8]),
    /// In backticks, double quotes or square brackets: without them.
    Name(&'a [u8]),
    /// In single quotes: without them, escapes in place.
    Text(&'a [u8]),
    Sign(u8),
    /// The end of a statement, or of the dump.
    End,
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    backslash: bool,
    delimiter: Vec<u8>,
}

impl<'a> Lexer<'a> {
    fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn mark(&mut self) -> (usize, u32) {
        self.skip_space();
        (self.at, self.line)
    }

    fn back(&mut self, (at, line): (usize, u32)) {
        self.at = at;
        self.line = line;
    }

    /// The line in which the byte before this place stands.
    fn line_before(&self) -> u32 {
        let ends_line = self.at > 0 && self.bytes[self.at - 1] == b'\n';
        self.line - u32::from(ends_line && self.line > 1)
    }

    fn last_line(&self) -> u32 {
        self.line
            + u32::try_from(memchr::memchr_iter(b'\n', &self.bytes[self.at..]).count())
                .unwrap_or(u32::MAX)
            - u32::from(self.bytes.last() == Some(&b'\n'))
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn advance(&mut self, length: usize) {
        let passed = &self.rest()[..length];
        self.line += u32::try_from(memchr::memchr_iter(b'\n', passed).count()).unwrap_or(u32::MAX);
        self.at += length;
    }

    fn skip_space(&mut self) {
        let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x1a || *b == 0x0b;
        let length = self.rest().iter().take_while(|b| blank(b)).count();
        self.advance(length);
    }

    /// The rest of this line; the next one begins behind it.
    fn rest_of_line(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.advance((length + 1).min(rest.len()));
        &rest[..length]
    }

    /// Passes a comment, if one begins here.
    fn comment(&mut self) -> Option<Result<(), String>> {
        let rest = self.rest();
        if rest.starts_with(b"/*") {
            let Some(length) = memchr::memmem::find(&rest[2..], b"*/") else {
                let line = self.line;
                self.advance(rest.len());
                return Some(Err(format!(
                    "the comment that begins in line {line} is not closed"
                )));
            };
            self.advance(length + 4);
            return Some(Ok(()));
        }
        if rest.starts_with(b"--") || rest.starts_with(b"#") {
            self.rest_of_line();
            return Some(Ok(()));
        }
        None
    }

    fn token(&mut self) -> Result<Token<'a>, String> {
        loop {
            self.skip_space();
            match self.comment() {
                Some(Ok(())) => {}
                Some(Err(why)) => return Err(why),
                None => break,
            }
        }
        let rest = self.rest();
        let Some(&first) = rest.first() else {
            return Ok(Token::End);
        };
        if !self.delimiter.is_empty() && rest.starts_with(&self.delimiter) {
            self.advance(self.delimiter.len());
            return Ok(Token::End);
        }
        Ok(match first {
            b'\'' => Token::Text(self.quoted(b'\'')?),
            b'"' | b'`' => Token::Name(self.quoted(first)?),
            b'[' => {
                let length = memchr::memchr(b']', rest).unwrap_or(rest.len() - 1);
                self.advance(length + 1);
                Token::Name(&rest[1..length.max(1)])
            }
            b if is_word(b) => {
                let length = rest.iter().take_while(|&&b| is_word(b)).count();
                // A delimiter of one's own, as `$$`, may be made of what words are made of.
                let length = match memchr::memmem::find(&rest[..length], &self.delimiter) {
                    Some(end) if end > 0 => end,
                    _ => length,
                };
                self.advance(length);
                Token::Word(&rest[..length])
            }
            sign => {
                self.advance(1);
                Token::Sign(sign)
            }
        })
    }

    /// What is in quotes. Twice the quote is the quote; a backslash is what it is in this dump.
    fn quoted(&mut self, quote: u8) -> Result<&'a [u8], String> {
        let rest = self.rest();
        let escapes = self.backslash && quote == b'\'' || self.is_escape_string();
        let mut at = 1;
        loop {
            let found = memchr::memchr2(quote, b'\\', &rest[at..]).map(|found| at + found);
            match found {
                None => {
                    return Err(format!(
                        "the quote that opens in line {} is not closed",
                        self.line
                    ));
                }
                Some(found) if rest[found] == b'\\' => {
                    at = (found + 1 + usize::from(escapes)).min(rest.len());
                }
                Some(found) if rest.get(found + 1) == Some(&quote) => at = found + 2,
                Some(found) => {
                    self.advance(found + 1);
                    return Ok(&rest[1..found]);
                }
            }
        }
    }

    /// PostgreSQL's `E'...'`.
    fn is_escape_string(&self) -> bool {
        self.at > 0
            && matches!(self.bytes[self.at - 1], b'E' | b'e')
            && (self.at < 2 || !is_word(self.bytes[self.at - 2]))
    }

    fn skip_statement(&mut self) -> Result<(), String> {
        while self.token()? != Token::End {}
        Ok(())
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'@') || b >= 0x80
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

fn name_of(token: &Token) -> String {
    match token {
        Token::Word(name) | Token::Name(name) | Token::Text(name) => text_of(name),
        Token::Sign(_) | Token::End => String::new(),
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The tokens between two commas as a value.
fn value_of(tokens: &[Token], backslash: bool) -> Value {
    match tokens {
        [Token::Text(text)] => Value::Text(decoded(&unquoted(text, backslash))),
        [Token::Word(word)] if is_one_of(word, &["NULL"]) => Value::Null,
        [Token::Word(word)] if word.starts_with(b"0x") || word.starts_with(b"0X") => Value::Bytes,
        [Token::Word(word), Token::Text(text)] => {
            if is_one_of(word, &["X", "B", "_binary"]) {
                Value::Bytes
            } else {
                let escapes = backslash || is_one_of(word, &["E"]);
                Value::Text(decoded(&unquoted(text, escapes)))
            }
        }
        // `'text'::type`.
        [Token::Text(text), Token::Sign(b':'), ..] => {
            Value::Text(decoded(&unquoted(text, backslash)))
        }
        tokens => {
            let words: Vec<String> = tokens
                .iter()
                .map(|token| match token {
                    Token::Sign(sign) => char::from(*sign).to_string(),
                    token => name_of(token),
                })
                .collect();
            Value::Bare(words.concat())
        }
    }
}

/// The text between quotes with its escapes resolved.
fn unquoted(text: &[u8], backslash: bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\'' => {
                plain.push(b'\'');
                at += 2;
            }
            b'\\' if backslash => {
                let end = (at + 2).min(text.len());
                plain.extend(unescaped(&text[at..end]));
                at = end;
            }
            byte => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
}

/// Backslash and a letter as MySQL and `COPY` write them.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'r') => plain.push(b'\r'),
            Some(b'0') => plain.push(0),
            Some(b'Z') => plain.push(0x1a),
            Some(&other) => plain.push(other),
            None => plain.push(b'\\'),
        }
    }
    plain
}

/// Bytes as text, in whatever of the two encodings they are.
fn decoded(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
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
            ("X'00'", Value::Bytes),
            ("'x'::text", text("x")),
            ("NULL", Value::Null),
            ("null", Value::Null),
            ("-1", Value::Bare("-1".to_owned())),
            ("now(1, 2)", Value::Bare("now(1,2)".to_owned())),
            ("/* c */ 5", Value::Bare("5".to_owned())),
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
