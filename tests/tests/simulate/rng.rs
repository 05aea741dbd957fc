//! The one source of chance. Everything that is drawn in a run comes from its seed.

/// SplitMix64: tiny, and good enough to choose between misfortunes.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `from..=to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + (self.next() % (to - from + 1) as u64) as i64
    }

    pub fn index(&mut self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// Each order of magnitude from `shortest` to `longest` is as likely.
    pub fn span(&mut self, shortest: i64, longest: i64) -> i64 {
        let mut magnitudes = vec![shortest.max(1)];
        while let Some(&last) = magnitudes.last()
            && last < longest
        {
            magnitudes.push((last * 4).min(longest));
        }
        let upper = self.pick(&magnitudes);
        self.between(shortest.min(upper), upper)
    }
}
