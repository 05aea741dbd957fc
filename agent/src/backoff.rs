//! Waiting between attempts to reach somebody: longer each time, and never in step with others.

use std::time::Duration;

/// Doubles from the shortest to the longest; each wait is drawn from its upper half, so that a
/// fleet that lost its coordinator at one instant does not come back at one instant.
#[derive(Debug)]
pub(crate) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Backoff {
        Backoff {
            shortest,
            longest,
            next: shortest,
        }
    }

    /// How long to wait now; `random` is any number.
    pub(crate) fn wait(&mut self, random: u32) -> Duration {
        let wait = self
            .next
            .mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0);
        self.next = (self.next * 2).min(self.longest);
        wait
    }

    /// It went well: begin with the shortest again.
    pub(crate) fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_are_spread() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(2_000));
        for longest in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
            let mut again = Backoff { ..backoff };
            assert_eq!(again.wait(u32::MAX), ms(longest));
            assert_eq!(backoff.wait(0), ms(longest) / 2);
        }
        backoff.reset();
        assert_eq!(backoff.wait(u32::MAX), ms(100));
    }
}
