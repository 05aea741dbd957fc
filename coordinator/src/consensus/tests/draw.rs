use std::ops::Range;
use std::time::Duration;

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Clone>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize].clone()
    }

    /// Whole milliseconds, of which the clock is made.
    pub(super) fn time(&mut self, millis: Range<u64>) -> Duration {
        Duration::from_millis(millis.start + self.below(millis.end - millis.start))
    }
}
