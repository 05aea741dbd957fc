//! How the fires of an expression lie in a piece of its zone's time: Vixie's rule for changes of
//! the clock is here and nowhere else.

use protocol::WallMs;

use super::Instant;
use super::cron::Cron;
use super::zone::{self, Piece};

/// Longest gap whose local times are caught up, in seconds.
pub(super) const CAUGHT_UP_SECONDS_MAX: i64 = 3 * 3600;

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
            && self.first_time(piece.seen, piece.local_start()).is_some()
    }

    /// The local seconds in which this expression may fire: a fixed time does not fire again in
    /// what the piece repeats.
    fn span(&self, piece: &Piece) -> (i64, i64) {
        let from = if self.fixed {
            piece.local_start().max(piece.seen)
        } else {
            piece.local_start()
        };
        (from, piece.local_end())
    }

    pub(super) fn first_fire(&self, piece: &Piece, after: i64) -> Option<Fire> {
        let fire = |at| Fire { at, piece: *piece };
        if piece.start > after && self.catches_up(piece) {
            return Some(fire(piece.start));
        }
        let (from, to) = self.span(piece);
        self.first_time(from.max(after + 1 + piece.offset), to)
            .map(|time| fire(time - piece.offset))
    }

    pub(super) fn last_fire(&self, piece: &Piece, through: i64) -> Option<Fire> {
        let fire = |at| Fire { at, piece: *piece };
        let (from, to) = self.span(piece);
        self.last_time(from, to.min(through + 1 + piece.offset))
            .map(|time| fire(time - piece.offset))
            .or_else(|| {
                (piece.start <= through && self.catches_up(piece)).then(|| fire(piece.start))
            })
    }

    pub(super) fn count_fires(&self, piece: &Piece, after: i64, through: i64) -> u64 {
        let (from, to) = self.span(piece);
        let from = from.max(after + 1 + piece.offset);
        let to = to.min(through + 1 + piece.offset);
        let start = piece.local_start();
        let start_named = self.first_time(start, start + 1).is_some();
        let caught_up =
            piece.start > after && piece.start <= through && !start_named && self.catches_up(piece);
        self.count_times(from, to) + u64::from(caught_up)
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
        let mut time = from;
        while let Some(named) = self.first_time(time, local + 1) {
            nominal.push(zone::local_text(zone::local(named * 1000)));
            time = named + 1;
        }
        Instant {
            at: WallMs(fire.at * 1000),
            nominal,
        }
    }
}
