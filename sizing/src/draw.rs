//! Numbers that look drawn and are always the same for a seed.

/// `SplitMix64`: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// One stream of a seed; streams of other numbers are others.
    pub(crate) fn new(seed: u64, stream: u64) -> Draw {
        let mut draw = Draw(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to and without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_their_own_and_fill_the_unit() {
        let mean = |stream| {
            let mut draw = Draw::new(7, stream);
            (0..10_000).map(|_| draw.unit()).sum::<f64>() / 10_000.0
        };
        assert!((mean(0) - 0.5).abs() < 0.02 && (mean(1) - 0.5).abs() < 0.02);
        assert_ne!(Draw::new(7, 0).next(), Draw::new(7, 1).next());
        assert_eq!(Draw::new(7, 1).next(), Draw::new(7, 1).next());
    }
}
