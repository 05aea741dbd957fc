//! A dump as tokens.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
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

pub(super) struct Lexer<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) line: u32,
    pub(super) backslash: bool,
    pub(super) delimiter: Vec<u8>,
}

impl<'a> Lexer<'a> {
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn mark(&mut self) -> (usize, u32) {
        self.skip_space();
        (self.at, self.line)
    }

    pub(super) fn back(&mut self, (at, line): (usize, u32)) {
        self.at = at;
        self.line = line;
    }

    /// The line in which the byte before this place stands.
    pub(super) fn line_before(&self) -> u32 {
        let ends_line = self.at > 0 && self.bytes[self.at - 1] == b'\n';
        self.line - u32::from(ends_line && self.line > 1)
    }

    pub(super) fn last_line(&self) -> u32 {
        self.line
            + u32::try_from(memchr::memchr_iter(b'\n', &self.bytes[self.at..]).count())
                .unwrap_or(u32::MAX)
            - u32::from(self.bytes.last() == Some(&b'\n'))
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn advance(&mut self, length: usize) {
        let passed = &self.rest()[..length];
        self.line += u32::try_from(memchr::memchr_iter(b'\n', passed).count()).unwrap_or(u32::MAX);
        self.at += length;
    }

    pub(super) fn skip_space(&mut self) {
        let blank = |b: &u8| b.is_ascii_whitespace() || *b == 0x1a || *b == 0x0b;
        let length = self.rest().iter().take_while(|b| blank(b)).count();
        self.advance(length);
    }

    /// The rest of this line; the next one begins behind it.
    pub(super) fn rest_of_line(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.advance((length + 1).min(rest.len()));
        &rest[..length]
    }

    /// Passes a comment, if one begins here.
    pub(super) fn comment(&mut self) -> Option<Result<(), String>> {
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

    pub(super) fn token(&mut self) -> Result<Token<'a>, String> {
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

    pub(super) fn skip_statement(&mut self) -> Result<(), String> {
        while self.token()? != Token::End {}
        Ok(())
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'@') || b >= 0x80
}

pub(super) fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

pub(super) fn name_of(token: &Token) -> String {
    match token {
        Token::Word(name) | Token::Name(name) | Token::Text(name) => text_of(name),
        Token::Sign(_) | Token::End => String::new(),
    }
}

pub(super) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
