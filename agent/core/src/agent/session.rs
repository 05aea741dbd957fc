//! What must be remembered of a session: when each beat was sent, and which tokens are done.

use std::collections::{BTreeSet, VecDeque};

use protocol::lease::{HEARTBEAT, TAKEOVER_MAX};
use protocol::{BootMs, DurationMs, Token};

/// A beat older than the longest takeover time can extend nothing, so it may be forgotten.
const BEATS_KEPT: usize = (TAKEOVER_MAX.0 / HEARTBEAT.0) as usize + 4;

/// Tokens kept to recognise a Start that is delivered twice.
const FINISHED_KEPT: usize = 4096;

/// Send times of the beats of one session, newest last. The attach is beat 0.
#[derive(Debug)]
pub(super) struct Beats {
    sent: VecDeque<(u64, BootMs)>,
    next: u64,
    next_at: BootMs,
    round_trip: DurationMs,
}

impl Beats {
    /// The attach, sent then and answered now, was beat 0.
    pub(super) fn after_attach(sent: BootMs, answered: BootMs) -> Beats {
        Beats {
            sent: VecDeque::from([(0, sent)]),
            round_trip: answered - sent,
            next: 1,
            next_at: sent + HEARTBEAT,
        }
    }

    pub(super) fn next_at(&self) -> BootMs {
        self.next_at
    }

    /// The number that the next beat will bear.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// The number of the beat to send now, if one is due. Its send time is this moment, before
    /// any socket has it: counting from too early is the safe side. After a stall one beat is
    /// sent, not all that were missed.
    pub(super) fn take_due(&mut self, now: BootMs) -> Option<u64> {
        if now < self.next_at {
            return None;
        }
        let beat = self.next;
        self.sent.push_back((beat, now));
        if self.sent.len() > BEATS_KEPT {
            self.sent.pop_front();
        }
        self.next += 1;
        self.next_at = now + HEARTBEAT;
        Some(beat)
    }

    /// A beat sent then is answered now.
    pub(super) fn note_answer(&mut self, sent: BootMs, now: BootMs) {
        self.round_trip = now - sent;
    }

    /// How long the newest answer took to come.
    pub(super) fn round_trip(&self) -> DurationMs {
        self.round_trip
    }

    /// When this beat was sent; `None` if it was not, or too long ago to matter.
    pub(super) fn sent(&self, beat: u64) -> Option<BootMs> {
        let (oldest, _) = *self.sent.front()?;
        let index = usize::try_from(beat.checked_sub(oldest)?).ok()?;
        self.sent.get(index).map(|&(_, sent)| sent)
    }
}

/// Tokens whose receipts are in the ledger. The newest few thousand are known exactly; of what
/// is older only the highest, because tokens rise and a Start that low is late beyond reason.
#[derive(Debug, Default)]
pub(super) struct Finished {
    recent: BTreeSet<Token>,
    floor: Option<Token>,
}

impl Finished {
    pub(super) fn insert(&mut self, token: Token) {
        self.recent.insert(token);
        if self.recent.len() > FINISHED_KEPT {
            self.floor = self.floor.max(self.recent.pop_first());
        }
    }

    pub(super) fn contains(&self, token: Token) -> bool {
        self.recent.contains(&token)
    }

    /// Whether the token is so low that it may have been here and is no longer remembered.
    pub(super) fn may_have_held(&self, token: Token) -> bool {
        self.floor.is_some_and(|floor| token <= floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_numbered_and_their_send_times_kept_as_long_as_they_can_matter() {
        let mut beats = Beats::after_attach(BootMs(1000), BootMs(1003));
        assert_eq!(beats.round_trip(), DurationMs(3));
        assert_eq!(beats.sent(0), Some(BootMs(1000)));
        assert_eq!(beats.sent(1), None);
        assert_eq!(beats.take_due(BootMs(5999)), None);
        let mut now = BootMs(6000);
        for number in 1..=400 {
            assert_eq!(beats.take_due(now), Some(number));
            assert_eq!(beats.sent(number), Some(now));
            now = now + HEARTBEAT;
        }
        let last_sent = beats.sent(400).unwrap();
        let within = (TAKEOVER_MAX.0 / HEARTBEAT.0) as u64;
        assert!(beats.sent(400 - within).unwrap() <= last_sent - TAKEOVER_MAX);
        assert_eq!(beats.sent(0), None);
    }

    #[test]
    fn a_stall_is_followed_by_one_beat() {
        let mut beats = Beats::after_attach(BootMs(0), BootMs(3));
        let woken = BootMs(0) + DurationMs::from_secs(60);
        assert_eq!(beats.take_due(woken), Some(1));
        assert_eq!(beats.take_due(woken), None);
        assert_eq!(beats.next_at(), woken + HEARTBEAT);
    }

    #[test]
    fn finished_tokens_are_remembered_in_bounded_space() {
        let mut finished = Finished::default();
        for token in 1..=FINISHED_KEPT as i64 + 10 {
            finished.insert(Token(token));
        }
        assert!(!finished.contains(Token(10)) && finished.may_have_held(Token(10)));
        assert!(finished.contains(Token(11)) && !finished.may_have_held(Token(11)));
        assert_eq!(finished.recent.len(), FINISHED_KEPT);
    }
}
