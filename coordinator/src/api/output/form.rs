//! The forms in which an output can be had.

use base64::prelude::{BASE64_STANDARD, Engine};
use protocol::api::OutputLine;
use protocol::output::{Mark, RECORD_BYTES_MAX, Record, Stream};
use protocol::{JobName, Token, WallMs};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// What the attempt wrote, byte for byte.
    #[default]
    Raw,
    /// A line for each record: time, job, fire time, shard and attempt, stream, content.
    Text,
    /// A JSON object for each record, one a line.
    Json,
}

impl Form {
    pub(super) const ALL: [Form; 3] = [Form::Raw, Form::Text, Form::Json];

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Form::Raw => "application/octet-stream",
            Form::Text => "text/plain; charset=utf-8",
            Form::Json => "application/x-ndjson",
        }
    }
}

/// Whose output it is.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) job: JobName,
    pub(super) fire_time: WallMs,
    pub(super) shard: u32,
    pub(super) attempt: u32,
    pub(super) token: Token,
}

/// Which bytes of an output are wanted, as the attempt wrote them, whatever their form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Bytes yet to be passed over.
    pub(super) offset: u64,
    /// Bytes yet to come; `None` for all there are.
    pub(super) limit: Option<u64>,
}

impl Span {
    /// What of a record lies within. What Matins says of an output has no bytes of it, and comes
    /// where those about it do.
    fn cut<'a>(&mut self, record: Record<'a>) -> Option<Record<'a>> {
        let bytes: usize = record.raw().iter().map(|piece| piece.len()).sum();
        if record.stream == Stream::Matins {
            return (self.offset == 0 && !self.is_over()).then_some(record);
        }
        let from = usize::try_from(self.offset).map_or(bytes, |offset| offset.min(bytes));
        self.offset -= from as u64;
        let rest = (bytes - from) as u64;
        let taken = self.limit.map_or(rest, |limit| limit.min(rest));
        self.limit = self.limit.map(|limit| limit - taken);
        let to = from + usize::try_from(taken).expect("no more than what is left of a record");
        if from == to {
            return None;
        }
        let length = record.content.len();
        Some(Record {
            content: &record.content[from.min(length)..to.min(length)],
            // Its line feed is beyond.
            partial: record.partial || to < bytes,
            ..record
        })
    }

    fn is_over(&self) -> bool {
        self.limit == Some(0)
    }
}

/// Turns records, which come in pieces, into the form that was asked for.
pub(super) struct Former {
    form: Form,
    span: Span,
    source: Source,
    /// A record whose end has not come yet.
    begun: Vec<u8>,
}

impl Former {
    pub(super) fn new(form: Form, span: Span, source: Source) -> Former {
        Former {
            form,
            span,
            source,
            begun: Vec::new(),
        }
    }

    /// Takes a piece of records and appends what can be said of it to `out`; `None` where they
    /// are no records.
    pub(super) fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if self.begun.is_empty() {
                self.say(Record::parse(&rest[..end])?, out);
            } else {
                self.begun.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.begun);
                self.say(Record::parse(&line)?, out);
            }
            rest = &rest[end + 1..];
        }
        self.begun.extend_from_slice(rest);
        (self.begun.len() <= RECORD_BYTES_MAX).then_some(())
    }

    /// Whether all that was taken has been said.
    pub(super) fn is_between_records(&self) -> bool {
        self.begun.is_empty()
    }

    /// Whether nothing more of it is wanted.
    pub(super) fn is_over(&self) -> bool {
        self.span.is_over()
    }

    fn say(&mut self, record: Record<'_>, out: &mut Vec<u8>) {
        let Some(record) = self.span.cut(record) else {
            return;
        };
        match self.form {
            Form::Raw => record
                .raw()
                .iter()
                .for_each(|piece| out.extend_from_slice(piece)),
            Form::Text => self.say_text(record, out),
            Form::Json => {
                let line = self.line(record);
                // A vector takes every write, and the line is plain data.
                let _ = serde_json::to_writer(&mut *out, &line);
                out.push(b'\n');
            }
        }
    }

    fn say_text(&self, record: Record<'_>, out: &mut Vec<u8>) {
        let Source {
            job,
            fire_time,
            shard,
            attempt,
            ..
        } = &self.source;
        let time = record.stamp.as_str();
        let stream = record.stream.as_str();
        // A line in several records goes on after a `+`.
        let more = if record.partial { "+" } else { "" };
        let start = format!("{time} {job} {fire_time} {shard}/{attempt} {stream}{more} ");
        out.extend_from_slice(start.as_bytes());
        out.extend_from_slice(record.content);
        out.push(b'\n');
    }

    fn line(&self, record: Record<'_>) -> OutputLine {
        let (content, base64) = match std::str::from_utf8(record.content) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (BASE64_STANDARD.encode(record.content), true),
        };
        let dropped_bytes = match record.stream {
            Stream::Matins => match Mark::parse(record.content) {
                Mark::Dropped(amount, _) => Some(amount.bytes),
                _ => None,
            },
            Stream::Stdout | Stream::Stderr => None,
        };
        OutputLine {
            time: record.stamp.as_str().to_owned(),
            job: self.source.job.clone(),
            fire_time: self.source.fire_time,
            shard: self.source.shard,
            attempt: self.source.attempt,
            token: self.source.token,
            stream: record.stream,
            partial: record.partial,
            content,
            base64,
            dropped_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::output::{Amount, Stamp};

    use super::*;

    fn formed(form: Form, records: &[u8], piece_bytes: usize) -> Option<String> {
        formed_within(form, Span::default(), records, piece_bytes)
    }

    fn formed_within(form: Form, span: Span, records: &[u8], piece_bytes: usize) -> Option<String> {
        let source = Source {
            job: "t/a".parse().unwrap(),
            fire_time: WallMs(0),
            shard: 3,
            attempt: 2,
            token: Token(7),
        };
        let mut former = Former::new(form, span, source);
        let mut out = Vec::new();
        for piece in records.chunks(piece_bytes) {
            former.take(piece, &mut out)?;
        }
        Some(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends a record of what an attempt wrote.
    fn write(stream: Stream, partial: bool, content: &[u8], records: &mut Vec<u8>) {
        let record = Record {
            stamp: Stamp::from_micros(1),
            stream,
            partial,
            content,
        };
        record.write_to(records);
    }

    /// Appends what Matins says where something was dropped.
    fn mark_dropped(records: &mut Vec<u8>) {
        let amount = Amount { bytes: 9, lines: 1 };
        Mark::Dropped(amount, "why".to_owned()).write_to(Stamp::from_micros(1), records);
    }

    #[test]
    fn the_three_forms_whatever_the_pieces() {
        let mut records = Vec::new();
        write(Stream::Stdout, false, b"a \xffline", &mut records);
        write(Stream::Stderr, true, b"half", &mut records);
        mark_dropped(&mut records);
        let text = "1970-01-01T00:00:00.000001Z t/a 1970-01-01T00:00:00Z 3/2 stdout a \u{fffd}line\n\
                    1970-01-01T00:00:00.000001Z t/a 1970-01-01T00:00:00Z 3/2 stderr+ half\n\
                    1970-01-01T00:00:00.000001Z t/a 1970-01-01T00:00:00Z 3/2 matins dropped: \
                    9 bytes, 1 lines: why\n";
        for piece in [1, 7, 1000] {
            let raw = formed(Form::Raw, &records, piece).unwrap();
            assert_eq!(raw, "a \u{fffd}line\nhalf");
            assert_eq!(formed(Form::Text, &records, piece).unwrap(), text);
        }
        let json = formed(Form::Json, &records, 5).unwrap();
        let lines: Vec<OutputLine> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (lines[0].content.as_str(), lines[0].base64),
            ("YSD/bGluZQ==", true)
        );
        assert_eq!(
            (lines[1].content.as_str(), lines[1].partial),
            ("half", true)
        );
        assert_eq!(lines[1].stream, Stream::Stderr);
        assert_eq!(lines[2].dropped_bytes, Some(9));
        assert_eq!(
            (lines[2].shard, lines[2].attempt, lines[2].token),
            (3, 2, Token(7))
        );
    }

    /// Every span of an output is what the same bytes of the whole are.
    #[test]
    fn a_span_is_cut_out_of_the_whole() {
        let mut records = Vec::new();
        for (partial, content) in [
            (false, &b"one"[..]),
            (false, b""),
            (true, b"tw"),
            (true, b"o"),
        ] {
            write(Stream::Stdout, partial, content, &mut records);
        }
        let whole = "one\n\ntwo";
        assert_eq!(formed(Form::Raw, &records, 3).unwrap(), whole);
        for offset in 0..=whole.len() + 1 {
            for limit in (1..=whole.len() + 1).map(Some).chain([None]) {
                let span = Span {
                    offset: offset as u64,
                    limit: limit.map(|limit| limit as u64),
                };
                let from = offset.min(whole.len());
                let to = limit.map_or(whole.len(), |limit| (from + limit).min(whole.len()));
                let raw = formed_within(Form::Raw, span, &records, 3).unwrap();
                assert_eq!(raw, whole[from..to], "{span:?}");
                let json = formed_within(Form::Json, span, &records, 3).unwrap();
                let lines = json
                    .lines()
                    .map(|line| -> OutputLine { serde_json::from_str(line).unwrap() });
                let told: String = lines
                    .map(|line| line.content + if line.partial { "" } else { "\n" })
                    .collect();
                assert_eq!(told, whole[from..to], "{span:?}");
            }
        }
    }

    #[test]
    fn what_matins_says_comes_where_the_bytes_about_it_do() {
        let mut records = Vec::new();
        for content in [b"a", b"b"] {
            write(Stream::Stdout, false, content, &mut records);
            mark_dropped(&mut records);
        }
        for (offset, limit, marks) in [(0, None, 2), (0, Some(2), 0), (0, Some(3), 1), (3, None, 1)]
        {
            let span = Span { offset, limit };
            let text = formed_within(Form::Text, span, &records, 9).unwrap();
            assert_eq!(text.matches("dropped").count(), marks, "{span:?}");
        }
    }

    #[test]
    fn what_is_no_record_is_not_passed_off_as_output() {
        assert_eq!(formed(Form::Raw, b"an answer of something else\n", 9), None);
        let endless = vec![b'x'; 2 * RECORD_BYTES_MAX];
        assert_eq!(formed(Form::Raw, &endless, 4096), None);
    }
}
