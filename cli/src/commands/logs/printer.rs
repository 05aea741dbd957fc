//! Records of outputs as a person, a file or a program is to have them.
//!
//! A file gets the job's own bytes. A terminal gets them made harmless: what a job prints must not
//! be able to clear a screen, retitle a window or pretend to be something else. What Matins says
//! of an output is data to a program and talk to everybody else.

use base64::prelude::{BASE64_STANDARD, Engine};
use protocol::api::OutputLine;
use protocol::output::Stream;

use crate::failure::Failure;
use crate::text::harmless;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// They come from several shards, and each line says from which.
    pub(super) of_several: bool,
    pub(super) timestamps: bool,
    /// A terminal obeys what it is sent.
    pub(super) to_terminal: bool,
}

/// What is to be written, and what is to be said beside it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    pub(super) talk: Option<String>,
}

pub(super) struct Printer {
    style: Style,
    /// Whose line has been begun and not ended.
    begun: Option<(u32, Stream)>,
}

impl Printer {
    pub(super) fn new(style: Style) -> Printer {
        Printer { style, begun: None }
    }

    pub(super) fn print(&mut self, line: &OutputLine) -> Result<Printed, Failure> {
        if line.stream == Stream::Matins {
            let of = format!("shard {}, {}", line.shard, line.token);
            return Ok(Printed {
                bytes: Vec::new(),
                talk: Some(format!("[{of}: {}]", line.content)),
            });
        }
        let content = content(line)?;
        let mut bytes = Vec::new();
        self.begin(line, &mut bytes);
        if self.style.to_terminal {
            let text = String::from_utf8_lossy(&content);
            bytes.extend_from_slice(harmless(&text).as_bytes());
        } else {
            bytes.extend_from_slice(&content);
        }
        if line.partial {
            self.begun = Some((line.shard, line.stream));
        } else {
            self.begun = None;
            bytes.push(b'\n');
        }
        Ok(Printed { bytes, talk: None })
    }

    /// Goes on in a line that was begun, or begins one with what belongs before it.
    fn begin(&self, line: &OutputLine, bytes: &mut Vec<u8>) {
        let Style {
            of_several,
            timestamps,
            ..
        } = self.style;
        if !of_several && !timestamps {
            return;
        }
        match self.begun {
            Some(begun) if begun == (line.shard, line.stream) => return,
            Some(_) => bytes.push(b'\n'),
            None => {}
        }
        if of_several {
            bytes.extend_from_slice(format!("shard {} | ", line.shard).as_bytes());
        }
        if timestamps {
            bytes.extend_from_slice(format!("{} ", line.time).as_bytes());
        }
    }
}

/// What the attempt wrote of this line, without the line feed.
pub(super) fn content(line: &OutputLine) -> Result<Vec<u8>, Failure> {
    if line.base64 {
        return BASE64_STANDARD
            .decode(&line.content)
            .map_err(|error| not_understood(&error));
    }
    Ok(line.content.clone().into_bytes())
}

pub(super) fn not_understood(error: &dyn std::error::Error) -> Failure {
    Failure::failed(
        "reading an output",
        error.to_string(),
        "see that coordinator and command line are of one version: `matins --version`",
    )
}

#[cfg(test)]
mod tests {
    use protocol::{Token, WallMs};

    use super::*;

    fn line(shard: u32, stream: Stream, partial: bool, content: &[u8]) -> OutputLine {
        let text = std::str::from_utf8(content);
        OutputLine {
            time: "T".to_owned(),
            job: "t/a".parse().unwrap(),
            fire_time: WallMs(0),
            shard,
            attempt: 1,
            token: Token(7),
            stream,
            partial,
            content: text.map_or_else(|_| BASE64_STANDARD.encode(content), str::to_owned),
            base64: text.is_err(),
            dropped_bytes: None,
        }
    }

    fn printed(style: Style, lines: &[OutputLine]) -> Vec<u8> {
        let mut printer = Printer::new(style);
        let print = |line| printer.print(line).unwrap().bytes;
        lines.iter().flat_map(print).collect()
    }

    const PLAIN: Style = Style {
        of_several: false,
        timestamps: false,
        to_terminal: false,
    };

    #[test]
    fn a_file_gets_the_bytes_and_a_terminal_nothing_it_would_obey() {
        let hostile = b"\x1b]0;title\x07\x1b[2Jx\ty\r\xc2\x9b1m\xe2\x80\xaeabc\xff";
        let lines = [line(0, Stream::Stdout, false, hostile)];
        let raw = [&hostile[..], b"\n"].concat();
        assert_eq!(printed(PLAIN, &lines), raw);
        let style = Style {
            to_terminal: true,
            ..PLAIN
        };
        let shown = String::from_utf8(printed(style, &lines)).unwrap();
        let obeyed = |c: char| c.is_control() && c != '\t' && c != '\n';
        assert!(!shown.contains(obeyed), "{shown:?}");
        assert!(
            !shown.contains('\u{202e}') && shown.contains("x\ty"),
            "{shown:?}"
        );
    }

    #[test]
    fn lines_of_several_shards_are_told_apart_and_parts_are_put_together() {
        use Stream::{Stderr, Stdout};
        let style = Style {
            of_several: true,
            timestamps: true,
            ..PLAIN
        };
        let lines = [
            line(3, Stdout, true, b"one "),
            line(3, Stdout, false, b"line"),
            line(3, Stdout, true, b"cut"),
            line(1, Stderr, false, b"in"),
        ];
        let expected = "shard 3 | T one line\nshard 3 | T cut\nshard 1 | T in\n";
        assert_eq!(String::from_utf8(printed(style, &lines)).unwrap(), expected);
    }

    #[test]
    fn what_matins_says_is_talk() {
        let mut printer = Printer::new(PLAIN);
        let said = printer.print(&line(2, Stream::Matins, false, b"dropped: 9 bytes"));
        let expected = "[shard 2, token-7: dropped: 9 bytes]".to_owned();
        assert_eq!(said.unwrap().talk, Some(expected));
    }
}
