//! Waiting between attempts to reach somebody: never in step with others, and never for long.
//!
//! A fleet that lost its coordinator at one instant must not come back at one instant. Waits that
//! only double keep whoever began together nearly together; so each wait is drawn anew between
//! the shortest and three times the one before (*decorrelated jitter*): who was early once is not
//! early again.

use std::time::Duration;

/// Draws the waits. The first is drawn as if the one before had been [`Backoff::before_first`]: a
/// fleet is spread from the start, over more than a second.
#[derive(Debug)]
pub(crate) struct Backoff {
    shortest: Duration,
    longest: Duration,
    before_first: Duration,
    last: Duration,
}

impl Backoff {
    pub(crate) fn new(shortest: Duration, before_first: Duration, longest: Duration) -> Backoff {
        Backoff {
            shortest,
            longest,
            before_first,
            last: before_first,
        }
    }

    /// How long to wait now; `random` is any number, all equally likely.
    pub(crate) fn wait(&mut self, random: u32) -> Duration {
        let highest = (self.last * 3).min(self.longest).max(self.shortest);
        let share = f64::from(random) / f64::from(u32::MAX);
        self.last = self.shortest + highest.saturating_sub(self.shortest).mul_f64(share);
        self.last
    }

    /// It went well: begin anew.
    pub(crate) fn reset(&mut self) {
        self.last = self.before_first;
    }
}

#[cfg(test)]
mod tests {
    use transport::settings::ANSWER_LIMIT;

    use super::*;
    use crate::run::redial_backoff;

    const MS: Duration = Duration::from_millis(1);

    /// Plain and good enough to draw from: xorshift.
    struct Random(u32);

    impl Random {
        fn draw(&mut self) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 17;
            self.0 ^= self.0 << 5;
            self.0
        }
    }

    #[test]
    fn waits_lie_between_the_shortest_and_three_times_the_last() {
        let new = || Backoff::new(100 * MS, 400 * MS, 2_000 * MS);
        let mut highest = new();
        for expected in [1_200, 2_000, 2_000] {
            assert_eq!(highest.wait(u32::MAX), expected * MS);
        }
        assert_eq!(highest.wait(0), 100 * MS);
        assert_eq!(highest.wait(u32::MAX), 300 * MS);
        highest.reset();
        assert_eq!(highest.wait(u32::MAX), 1_200 * MS);
        let mut random = Random(1);
        let mut backoff = new();
        for _ in 0..10_000 {
            let wait = backoff.wait(random.draw());
            assert!((100 * MS..=2_000 * MS).contains(&wait), "{wait:?}");
        }
    }

    /// When an agent that lost the coordinator at 0 is first heard by one that is back at `back`.
    /// An attempt repeats its first packet and is then given up for a fresh one.
    fn heard_at(back: Duration, random: &mut Random) -> Duration {
        let repeats = [0, 300, 900, 2_100].map(|after| after * MS);
        let mut backoff = redial_backoff();
        let mut at = Duration::ZERO;
        loop {
            at += backoff.wait(random.draw());
            if let Some(sent) = repeats.iter().map(|&after| at + after).find(|&t| t >= back) {
                return sent;
            }
            at += ANSWER_LIMIT;
        }
    }

    #[test]
    fn five_hundred_agents_do_not_come_back_in_the_same_tenth_of_a_second() {
        const AGENTS: usize = 500;
        for seed in 1..=40 {
            let mut random = Random(seed * 7_919);
            for back in [0, 200, 1_000, 3_000, 8_000, 60_000].map(|back| back * MS) {
                let mut tenths = std::collections::BTreeMap::new();
                let mut latest = Duration::ZERO;
                for _ in 0..AGENTS {
                    let heard = heard_at(back, &mut random);
                    latest = latest.max(heard.saturating_sub(back));
                    *tenths.entry(heard.as_millis() / 100).or_insert(0) += 1;
                }
                let most = tenths.values().copied().max().unwrap_or(0);
                assert!(most <= AGENTS / 3, "seed {seed}, {back:?}: {most} at once");
                assert!(latest < 4_000 * MS, "seed {seed}, {back:?}: {latest:?}");
            }
        }
    }
}
