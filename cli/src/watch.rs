//! `--watch`: the same answer again and again.
//!
//! On a terminal the page is drawn anew in place; on a pipe it is written again whenever it has
//! changed. A coordinator that cannot be reached for a while is waited for: that is when somebody
//! watches. Ctrl-C ends it, and is no failure.

use std::io::{self, IsTerminal, Write};
use std::process;
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use protocol::DurationMs;
use terminal_size::{Height, terminal_size};

use crate::args::parse_length;
use crate::failure::{Failure, Status, Told};
use crate::output::{Page, print, talk};
use crate::{amounts, clock};

/// Shortest time between two looks.
const PAUSE_MIN: DurationMs = DurationMs(200);

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Watching {
    /// Look again and again, each time after this long, until Ctrl-C
    #[arg(
        long,
        short = 'w',
        value_name = "DURATION",
        value_parser = parse_length,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s"
    )]
    watch: Option<DurationMs>,
}

impl Watching {
    /// Shows what `look` finds: once, or for as long as somebody watches.
    pub(crate) fn show(self, look: impl Fn() -> Result<Page, Failure>) -> Result<(), Failure> {
        let Some(pause) = self.watch else {
            return look()?.print();
        };
        end_on_interrupt();
        let pause = pause.max(PAUSE_MIN);
        let mut face = if io::stdout().is_terminal() {
            Face::Screen
        } else {
            Face::Pipe { last: None }
        };
        let mut is_first = true;
        loop {
            match look() {
                Ok(page) => face.show(&page, pause)?,
                // Where nothing was ever seen there is nothing to wait for.
                Err(Failure::Told(told)) if told.status == Status::Unreachable && !is_first => {
                    face.show_failure(&told, pause)?;
                }
                Err(failure) => return Err(failure),
            }
            is_first = false;
            thread::sleep(Duration::from_millis(pause.0.unsigned_abs()));
        }
    }
}

/// Where the pages go.
enum Face {
    Screen,
    Pipe { last: Option<Page> },
}

impl Face {
    fn show(&mut self, page: &Page, pause: DurationMs) -> Result<(), Failure> {
        match self {
            Face::Screen => {
                let whole = format!("{}{}", page.data, lines(&page.talk));
                draw(&whole, pause)
            }
            Face::Pipe { last } => {
                if last.as_ref() == Some(page) {
                    return Ok(());
                }
                if last.is_some() {
                    print("\n")?;
                }
                page.print()?;
                *last = Some(page.clone());
                Ok(())
            }
        }
    }

    fn show_failure(&mut self, told: &Told, pause: DurationMs) -> Result<(), Failure> {
        let page = Page {
            data: String::new(),
            talk: vec![told.to_string()],
        };
        match self {
            Face::Screen => self.show(&page, pause),
            // Said once, and the page that comes after it is written whatever it is.
            Face::Pipe { last } => {
                if last.as_ref() != Some(&page) {
                    talk(&page.talk[0]);
                    *last = Some(page);
                }
                Ok(())
            }
        }
    }
}

fn lines(texts: &[impl AsRef<str>]) -> String {
    let lines = texts.iter().flat_map(|text| [text.as_ref(), "\n"]);
    lines.collect()
}

/// Draws from the upper left corner, as much as the screen holds.
fn draw(text: &str, pause: DurationMs) -> Result<(), Failure> {
    let height = terminal_size().map_or(24, |(_, Height(height))| usize::from(height));
    let head = format!(
        "every {}, last at {}; ^C ends it\n\n",
        amounts::rough(pause),
        clock::time_of_day(clock::now(), clock::local_zone())
    );
    print(&format!(
        "\x1b[H\x1b[2J{head}{}",
        fit(text, height.saturating_sub(3))
    ))
}

/// The first lines, and how many there are besides.
fn fit(text: &str, height: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    if all.len() <= height {
        return text.to_owned();
    }
    let shown = height.saturating_sub(1);
    format!(
        "{}and {} lines more\n",
        lines(&all[..shown]),
        all.len() - shown
    )
}

/// Ctrl-C and SIGTERM end the process with success, wherever it is. The signals are blocked in all
/// threads and taken by one of their own.
fn end_on_interrupt() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        return;
    }
    thread::spawn(move || {
        if signals.wait().is_ok() {
            let _ = io::stdout().flush();
            // The `^C` of the terminal stays on a line of its own.
            if io::stderr().is_terminal() {
                talk("");
            }
            process::exit(0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_screen_does_not_hold_is_counted() {
        for (text, height, expected) in [
            ("a\nb\n", 2, "a\nb\n"),
            ("a\nb\nc\n", 2, "a\nand 2 lines more\n"),
            ("a\nb\n", 0, "and 2 lines more\n"),
            ("", 0, ""),
        ] {
            assert_eq!(fit(text, height), expected, "{text:?} in {height}");
        }
    }
}
