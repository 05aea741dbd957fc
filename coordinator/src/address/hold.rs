//! The coordinator's side: says to the keeper how long the address is to be here.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use coordinator_core::address::{Holder, HolderAction, Pace, Report, Trouble, Word};
use protocol::{BootMs, DurationMs, Epoch};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use super::door::{LineError, Lines, say};
use crate::clock::read_boot;
use crate::exit::causes;

/// How often a keeper is looked for that is not there.
const CONNECT_EVERY: DurationMs = DurationMs(500);

/// What [`hold`] works with.
pub struct Hold<C> {
    /// The keeper's.
    pub socket: PathBuf,
    pub pace: Pace,
    /// The reign that is under way here. It is set when the ledger knows of it, and unset when
    /// nothing of it is served any more.
    pub reign: watch::Receiver<Option<Epoch>>,
    /// Has a quorum confirm, in a round that begins after the call and within so long, that this
    /// machine leads.
    pub confirm: C,
    /// Where it is said what would keep, or keeps, the address from this machine.
    pub trouble: watch::Sender<Option<Trouble>>,
    /// Where it is said that another machine had better lead. What finds no room is not said.
    pub hand_over: mpsc::Sender<Trouble>,
}

/// Holds the address while this machine reigns, for as long as there is somebody who says whether it
/// does. Needs a tokio runtime with IO and time. When it is dropped the keeper removes the address.
pub async fn hold<C, F>(hold: Hold<C>)
where
    C: Fn(Duration) -> F,
    F: Future<Output = bool>,
{
    let Hold {
        socket,
        pace,
        mut reign,
        confirm,
        trouble: told,
        hand_over,
    } = hold;
    let mut holder = Holder::new(pace);
    let mut line: Option<Line> = None;
    let mut connect_at = Some(read_boot());
    let mut round: Option<(u64, Pin<Box<F>>)> = None;
    let limit = Duration::from_millis(pace.lasts.0.unsigned_abs());
    loop {
        if connect_at.is_some_and(|at| at <= read_boot()) {
            connect_at = None;
            line = connect(&socket).await;
            if line.is_some() {
                holder.handle_connected(read_boot());
            }
        }
        holder.handle_reign(*reign.borrow_and_update(), read_boot());
        while let Some(action) = holder.poll_action() {
            match action {
                HolderAction::Confirm { round: number } => {
                    round = Some((number, Box::pin(confirm(limit))));
                }
                HolderAction::Say { word, reign: of } => {
                    let is_still_true = match word {
                        Word::Hold { until } => *reign.borrow() == of && read_boot() < until,
                        Word::Release => true,
                    };
                    if is_still_true
                        && let Some(open) = &line
                        && let Err(error) = open.say(word)
                    {
                        lose(&mut line, &error);
                        holder.handle_disconnected(read_boot());
                    }
                }
                HolderAction::CutLine => lose(&mut line, &LineError::NotRead),
                HolderAction::HandOver { trouble } => {
                    tracing::warn!(
                        %trouble,
                        "the leader's address cannot be here; another machine had better lead"
                    );
                    // Whoever leads learns of it; where nobody listens, there is nobody else.
                    let _ = hand_over.try_send(trouble);
                }
            }
        }
        tell(&told, holder.trouble());
        if line.is_none() && connect_at.is_none() {
            connect_at = Some(read_boot() + CONNECT_EVERY);
        }
        let wake = holder.poll_timeout().into_iter().chain(connect_at).min();
        tokio::select! {
            changed = reign.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            (number, confirmed) = answer(&mut round) => {
                round = None;
                holder.handle_confirmed(number, confirmed, read_boot());
            }
            heard = hear(&mut line) => match heard {
                Ok(report) => holder.handle_report(report, read_boot()),
                Err(error) => {
                    lose(&mut line, &error);
                    holder.handle_disconnected(read_boot());
                }
            },
            () = sleep_until(wake) => holder.handle_tick(read_boot()),
        }
    }
}

fn tell(told: &watch::Sender<Option<Trouble>>, now: Option<Trouble>) {
    told.send_if_modified(|known| {
        if *known == now {
            return false;
        }
        if let Some(trouble) = &now {
            tracing::warn!(%trouble, "this machine cannot have the address");
        } else {
            tracing::info!("this machine can have the address");
        }
        *known = now;
        true
    });
}

/// A connection to the keeper.
struct Line {
    stream: UnixStream,
    incoming: Lines,
}

impl Line {
    /// Nothing waits between the look at the clock and this.
    fn say(&self, word: Word) -> Result<(), LineError> {
        say(&word, |line| self.stream.try_write(line))
    }

    /// The next report. Loses nothing when it is dropped half way.
    async fn hear(&mut self) -> Result<Report, LineError> {
        loop {
            if let Some(line) = self.incoming.next() {
                return serde_json::from_slice(&line).map_err(LineError::Parse);
            }
            self.stream.readable().await.map_err(LineError::Io)?;
            let mut chunk = [0; 4096];
            match self.stream.try_read(&mut chunk) {
                Ok(0) => return Err(LineError::Closed),
                Ok(length) => self.incoming.extend(&chunk[..length])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(LineError::Io(error)),
            }
        }
    }
}

async fn connect(socket: &Path) -> Option<Line> {
    let connected: io::Result<UnixStream> = UnixStream::connect(socket).await;
    match connected {
        Ok(stream) => Some(Line {
            stream,
            incoming: Lines::default(),
        }),
        Err(error) => {
            tracing::debug!(%error, "the address keeper cannot be reached");
            None
        }
    }
}

fn lose(line: &mut Option<Line>, error: &LineError) {
    if line.take().is_some() {
        tracing::warn!(
            why = causes(error),
            "the connection to the address keeper is over"
        );
    }
}

async fn hear(line: &mut Option<Line>) -> Result<Report, LineError> {
    match line {
        Some(line) => line.hear().await,
        None => std::future::pending().await,
    }
}

async fn answer<F>(round: &mut Option<(u64, Pin<Box<F>>)>) -> (u64, bool)
where
    F: Future<Output = bool>,
{
    match round {
        Some((number, answer)) => (*number, answer.await),
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<BootMs>) {
    let Some(at) = at else {
        return std::future::pending().await;
    };
    let left = (at - read_boot()).0.max(0).unsigned_abs();
    tokio::time::sleep(Duration::from_millis(left)).await;
}
