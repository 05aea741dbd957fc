//! `matins logs`: what attempts printed.

mod printer;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use protocol::Token;
use protocol::api::{OutputLine, RunDetail};
use protocol::output::Stream;

use crate::args::{Logs, Text};
use crate::client::{Client, PIECE_LIMIT};
use crate::commands::{MISSED_MAX, find_run, look_again, newest_run};
use crate::failure::{Failure, Status};
use crate::output::{print_bytes, talk};
use crate::subject::{RunRef, Subject};
use printer::{Printer, Style, not_understood};

/// While a shard that is followed waits for a host, it is looked again this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Lines of several shards that wait to be printed.
const WAITING_MAX: usize = 256;

pub(crate) fn logs(options: &Logs) -> Result<(), Failure> {
    let client = options.target.find()?;
    let run = find_of_subject(&client, &options.subject)?;
    let detail = find_run(&client, &run)?;
    let chosen = choose(options, &detail)?;
    let of_several = chosen.len() > 1;
    let reader = Reader {
        run: RunRef::Id(detail.run.run),
        options: options.clone(),
    };
    let mut writer = Writer {
        format: options.output,
        printer: Printer::new(Style {
            of_several,
            timestamps: options.timestamps,
            to_terminal: io::stdout().is_terminal(),
        }),
    };
    if of_several && options.follow {
        return follow_all(&reader, chosen, &mut writer);
    }
    let mut failed = None;
    for shard in chosen {
        let read = reader.read(shard, |line| writer.write(line));
        match read {
            Err(Failure::Told(told)) if of_several => {
                talk(&told.to_string());
                failed = Some(Failure::Told(told));
            }
            read => read?,
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Of a job the newest run is meant.
fn find_of_subject(client: &Client, subject: &Subject) -> Result<RunRef, Failure> {
    let job = match subject {
        Subject::Run(run) => return Ok(run.clone()),
        Subject::Job(job) => job,
    };
    Ok(RunRef::Id(newest_run(client, job)?.run))
}

/// Which shards, and of each which attempt if it is not the newest.
fn choose(options: &Logs, detail: &RunDetail) -> Result<Vec<Chosen>, Failure> {
    let what = || format!("choosing whose output of {} is meant", detail.run.run);
    let look = || {
        format!(
            "look for its shards and attempts with `matins describe {}`",
            detail.run.run
        )
    };
    let of_token = |shard: &protocol::api::Shard| {
        let mut attempts = shard.attempts.iter();
        options
            .token
            .is_none_or(|token| attempts.any(|attempt| attempt.token == token))
    };
    let of_number = |shard: &protocol::api::Shard| options.shard.is_none_or(|n| n == shard.shard);
    let shards = detail.shard_list.iter();
    let mut chosen = Vec::new();
    for shard in shards.filter(|shard| of_number(shard) && of_token(shard)) {
        let mut token = options.token;
        if let Some(number) = options.attempt {
            let mut attempts = shard.attempts.iter().rev();
            match attempts.find(|attempt| attempt.attempt == number) {
                Some(attempt) => token = Some(attempt.token),
                None => continue,
            }
        }
        chosen.push(Chosen {
            shard: shard.shard,
            token,
        });
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let why = match (options.token, options.attempt, options.shard) {
        (Some(token), _, _) => format!("{token} is no attempt of it"),
        (None, Some(attempt), _) => format!("there is no attempt {attempt}"),
        (None, None, Some(shard)) => format!("it has no shard {shard}"),
        (None, None, None) => format!("it is {} and has no shards", detail.run.state),
    };
    Err(Failure::bad_input(what(), why, look()))
}

#[derive(Clone, Copy, Debug)]
struct Chosen {
    shard: u32,
    token: Option<Token>,
}

/// Reads outputs of one run.
#[derive(Clone)]
struct Reader {
    run: RunRef,
    options: Logs,
}

/// How far an output has been read.
struct Place {
    token: Option<Token>,
    /// Bytes as the attempt wrote them.
    taken: u64,
    /// Looks in a row that brought nothing, since the output was first open; before that there is
    /// nothing to go on with.
    missed: Option<u32>,
}

impl Reader {
    /// Hands the records of one shard's output to `sink`, as lines of JSON. What is followed goes
    /// on where it stood when the coordinator has started again.
    fn read(
        &self,
        chosen: Chosen,
        mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.options.follow && chosen.token.is_none() && !self.wait_for_attempt(chosen.shard)? {
            return Ok(());
        }
        let mut place = Place {
            token: chosen.token,
            taken: 0,
            missed: None,
        };
        loop {
            // Found anew each time: it may have another address.
            let read = self
                .options
                .target
                .find()
                .and_then(|client| self.read_on(&client, chosen.shard, &mut place, &mut sink));
            match (&read, place.missed) {
                (Err(Failure::Told(told)), Some(missed))
                    if told.status == Status::Unreachable
                        && missed < MISSED_MAX
                        && self.can_go_on() =>
                {
                    place.missed = Some(missed + 1);
                }
                _ => return read,
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines are others by then.
    fn can_go_on(&self) -> bool {
        self.options.follow && self.options.tail.is_none()
    }

    fn read_on(
        &self,
        client: &Client,
        shard: u32,
        place: &mut Place,
        sink: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = format!("/api/v1/runs/{}/shards/{shard}/log", self.run);
        let mut query = vec![("format", "json".to_owned())];
        let options = &self.options;
        query.extend(place.token.map(|token| ("token", token.to_string())));
        query.extend(
            options
                .stream
                .map(|stream| ("stream", stream.as_str().to_owned())),
        );
        query.extend(options.since.map(|since| ("since", since.to_rfc3339())));
        query.extend(options.tail.map(|lines| ("tail", lines.to_string())));
        if options.follow {
            query.push(("follow", "true".to_owned()));
        }
        if place.taken > 0 {
            query.push(("offset", place.taken.to_string()));
        }
        let limit = (!options.follow).then_some(PIECE_LIMIT);
        let mut begun = Vec::new();
        client.stream(&path, &query, limit, |piece| {
            place.missed = Some(0);
            let mut rest = piece;
            while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                begun.extend_from_slice(&rest[..=end]);
                if self.can_go_on() {
                    place.pass(&begun)?;
                }
                sink(&begun)?;
                begun.clear();
                rest = &rest[end + 1..];
            }
            begun.extend_from_slice(rest);
            Ok(())
        })
    }

    /// Waits until a host has been given this shard; `false` if the run ends before that.
    fn wait_for_attempt(&self, shard: u32) -> Result<bool, Failure> {
        let mut missed = 0;
        loop {
            let look = |client: &Client| find_run(client, &self.run);
            if let Some(detail) = look_again(&self.options.target, &mut missed, look)? {
                let mut shards = detail.shard_list.iter();
                let found = shards.find(|known| known.shard == shard);
                if found.is_some_and(|shard| !shard.attempts.is_empty()) {
                    return Ok(true);
                }
                if detail.run.ended_at.is_some() {
                    return Ok(false);
                }
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Place {
    /// Goes on behind a record.
    fn pass(&mut self, record: &[u8]) -> Result<(), Failure> {
        let line: OutputLine =
            serde_json::from_slice(record).map_err(|error| not_understood(&error))?;
        self.token = Some(line.token);
        if line.stream != Stream::Matins {
            let line_feed = u64::from(!line.partial);
            self.taken += printer::content(&line)?.len() as u64 + line_feed;
        }
        Ok(())
    }
}

/// Reads all at once and prints what comes in the order it comes in.
fn follow_all(reader: &Reader, chosen: Vec<Chosen>, writer: &mut Writer) -> Result<(), Failure> {
    let (lines, waiting) = sync_channel::<Result<Vec<u8>, Failure>>(WAITING_MAX);
    for shard in chosen {
        let (reader, lines) = (reader.clone(), lines.clone());
        // They end with the process where nobody wants what they read any more.
        thread::spawn(move || follow_one(&reader, shard, &lines));
    }
    drop(lines);
    let mut failed = None;
    for line in waiting {
        match line {
            Ok(line) => writer.write(&line)?,
            Err(Failure::Told(told)) => {
                talk(&told.to_string());
                failed = Some(Failure::Told(told));
            }
            Err(failure) => return Err(failure),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn follow_one(reader: &Reader, shard: Chosen, lines: &SyncSender<Result<Vec<u8>, Failure>>) {
    let read = reader.read(shard, |line| {
        // Whoever prints is gone only when the process ends.
        let _ = lines.send(Ok(line.to_vec()));
        Ok(())
    });
    if let Err(failure) = read {
        let _ = lines.send(Err(failure));
    }
}

struct Writer {
    format: Text,
    printer: Printer,
}

impl Writer {
    /// Writes one record, which is one line of JSON.
    fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        if self.format == Text::Json {
            return print_bytes(line);
        }
        let line: OutputLine =
            serde_json::from_slice(line).map_err(|error| not_understood(&error))?;
        let printed = self.printer.print(&line)?;
        if let Some(said) = printed.talk {
            talk(&said);
        }
        print_bytes(&printed.bytes)
    }
}
