//! How the fires of an expression lie in a piece of its zone's time: Vixie's rule for changes of
//! the clock is here and nowhere else.

use protocol::WallMs;

use super::Instant;
use super::cron::Cron;
use super::zone::{self, Piece};

/// Longest gap whose local times are caught up, in seconds.
const CAUGHT_UP_SECONDS_MAX: i64 = 3 * 3600;

/// A fire before its nominal times are written out.
#[derive(Clone, Copy)]
pub(super) struct Fire {
    /// Seconds since the epoch.
    pub(super) at: i64,
    piece: Piece,
}

impl Cron {
    /// Whether fixed times that the gap before this piece left out are fired at its start.
    fn catches_up(&self, piece: &Piece) -> bool {
        let gap = piece.local_start().saturating_sub(piece.seen);
        self.fixed
            && (1..=CAUGHT_UP_SECONDS_MAX).contains(&gap)
            && self
                .first_minute(minutes_up(piece.seen), minutes_up(piece.local_start()))
                .is_some()
    }

    /// The local minutes in which this expression may fire: a fixed time does not fire again in
    /// what the piece repeats.
    fn span(&self, piece: &Piece) -> (i64, i64) {
        let from = if self.fixed {
            piece.local_start().max(piece.seen)
        } else {
            piece.local_start()
        };
        (minutes_up(from), minutes_up(piece.local_end()))
    }

    pub(super) fn first_fire(&self, piece: &Piece, after: i64) -> Option<Fire> {
        let fire = |at| Fire { at, piece: *piece };
        if piece.start > after && self.catches_up(piece) {
            return Some(fire(piece.start));
        }
        let (from, to) = self.span(piece);
        let from = from.max(minutes_up(after + 1 + piece.offset));
        self.first_minute(from, to)
            .map(|minute| fire(minute * 60 - piece.offset))
    }

    pub(super) fn last_fire(&self, piece: &Piece, through: i64) -> Option<Fire> {
        let fire = |at| Fire { at, piece: *piece };
        let (from, to) = self.span(piece);
        let to = to.min(minutes_up(through + 1 + piece.offset));
        self.last_minute(from, to)
            .map(|minute| fire(minute * 60 - piece.offset))
            .or_else(|| {
                (piece.start <= through && self.catches_up(piece)).then(|| fire(piece.start))
            })
    }

    pub(super) fn count_fires(&self, piece: &Piece, after: i64, through: i64) -> u64 {
        let (from, to) = self.span(piece);
        let from = from.max(minutes_up(after + 1 + piece.offset));
        let to = to.min(minutes_up(through + 1 + piece.offset));
        let start = piece.local_start();
        let start_named =
            start % 60 == 0 && self.first_minute(start / 60, start / 60 + 1).is_some();
        let caught_up =
            piece.start > after && piece.start <= through && !start_named && self.catches_up(piece);
        self.count_minutes(from, to) + u64::from(caught_up)
    }

    /// The instant with every local time it stands for.
    pub(super) fn write_out(&self, fire: &Fire) -> Instant {
        let local = fire.at + fire.piece.offset;
        let from = if fire.at == fire.piece.start && self.catches_up(&fire.piece) {
            fire.piece.seen
        } else {
            local
        };
        let mut nominal = Vec::new();
        let (mut minute, end) = (minutes_up(from), minutes_up(local + 1));
        while let Some(named) = self.first_minute(minute, end) {
            nominal.push(zone::local_text(zone::local(named * 60_000)));
            minute = named + 1;
        }
        Instant {
            at: WallMs(fire.at * 1000),
            nominal,
        }
    }
}

/// The first whole minute at or after a second.
fn minutes_up(seconds: i64) -> i64 {
    seconds.div_euclid(60) + i64::from(seconds.rem_euclid(60) != 0)
}
