//! Colours, for terminals only and never against NO_COLOR.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

/// What a word says to somebody who only glances at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    /// Not as it should be, and by itself nothing changes.
    Bad,
    /// Something is still under way or stands aside.
    Aside,
    Faint,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Aside => "33",
            Tone::Faint => "2",
        }
    }

    /// The tone of a state, an outcome or a verdict, by its first word.
    pub(crate) fn of(word: &str) -> Option<Tone> {
        let end = word.find(|c: char| !c.is_ascii_alphabetic() && c != '_');
        Some(match &word[..end.unwrap_or(word.len())] {
            "succeeded" | "fine" | "ok" | "created" | "changed" | "revived" => Tone::Good,
            "failed" | "needs_" | "needs_confirmation" | "missed" | "lost" | "timed_out"
            | "quarantined" | "revoked" | "never" | "half" | "cut" | "ran" | "refused" => Tone::Bad,
            "waiting" | "skipped" | "cancelled" | "interrupted" | "never_started" | "offline"
            | "cordoned" | "draining" | "paused" | "deleted" | "degraded" | "rebuilding" => {
                Tone::Aside
            }
            "unchanged" => Tone::Faint,
            _ => return None,
        })
    }
}

/// The text in the colour of its tone, where standard output is a terminal that shows colours.
pub(crate) fn toned(text: &str, tone: Option<Tone>) -> String {
    static WANTED: OnceLock<bool> = OnceLock::new();
    match tone {
        Some(tone) if *WANTED.get_or_init(|| wanted(io::stdout().is_terminal())) => {
            in_colour(text, tone)
        }
        _ => text.to_owned(),
    }
}

/// A state, an outcome or a verdict in its own tone.
pub(crate) fn in_tone(word: &str) -> String {
    toned(word, Tone::of(word))
}

/// [`toned`] for standard error.
pub(crate) fn toned_talk(text: &str, tone: Tone) -> String {
    if wanted(io::stderr().is_terminal()) {
        in_colour(text, tone)
    } else {
        text.to_owned()
    }
}

fn in_colour(text: &str, tone: Tone) -> String {
    format!("\x1b[{}m{text}\x1b[0m", tone.code())
}

fn wanted(is_terminal: bool) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_of_words() {
        for (word, expected) in [
            ("succeeded", Some(Tone::Good)),
            ("failed, status 3", Some(Tone::Bad)),
            ("needs_\nconfirmation", Some(Tone::Bad)),
            ("needs_confirmation", Some(Tone::Bad)),
            ("waiting", Some(Tone::Aside)),
            ("running", None),
            ("", None),
        ] {
            assert_eq!(Tone::of(word), expected, "{word}");
        }
    }
}
