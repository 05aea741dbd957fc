//! How long many things took, each to within three per cent.
//!
//! A mean hides the one sync in a hundred that a coordinator waits for, and samples cannot be joined
//! over hosts and hours without growing. So latencies are counted in buckets that are 1/32 of a power of
//! two wide: exact below 32 microseconds, and at most 3.2 % too long above. The longest is kept as it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets to a power of two, as a power of two.
const PRECISION_BITS: u32 = 5;
const PRECISION: u64 = 1 << PRECISION_BITS;

/// Counts of latencies. In JSON a list of buckets, each with its upper end, which belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Histogram {
    /// By number of the bucket.
    counts: BTreeMap<u32, u64>,
    sum_us: u64,
    max_us: u64,
}

/// What is written of a histogram.
#[derive(Clone, Serialize, Deserialize)]
struct Form {
    sum_us: u64,
    max_us: u64,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Bucket {
    up_to_us: u64,
    count: u64,
}

impl Histogram {
    pub fn count_one(&mut self, us: u64) {
        *self.counts.entry(bucket_of(us)).or_default() += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds what another one counted.
    pub fn join(&mut self, other: &Histogram) {
        for (bucket, count) in &other.counts {
            let held = self.counts.entry(*bucket).or_default();
            *held = held.saturating_add(*count);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    pub fn len(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The longest; 0 of none.
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    pub fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.len())
    }

    /// What so many of a thousand did not exceed: the upper end of the bucket in which the last of them
    /// is. None of none.
    pub fn quantile_us(&self, per_mille: u32) -> Option<u64> {
        let wanted = u128::from(self.len()) * u128::from(per_mille.min(1000));
        let rank = wanted.div_ceil(1000).max(1);
        let mut seen = 0_u128;
        for (bucket, count) in &self.counts {
            seen += u128::from(*count);
            if seen >= rank {
                return Some(end_of(*bucket).min(self.max_us));
            }
        }
        None
    }
}

/// The number of the bucket that a latency belongs to.
fn bucket_of(us: u64) -> u32 {
    if us < PRECISION {
        return us as u32;
    }
    let shift = us.ilog2() - PRECISION_BITS;
    (shift << PRECISION_BITS) + (us >> shift) as u32
}

/// The longest latency that belongs to a bucket.
fn end_of(bucket: u32) -> u64 {
    if u64::from(bucket) < PRECISION {
        return u64::from(bucket);
    }
    let shift = (bucket >> PRECISION_BITS) - 1;
    let within = u64::from(bucket) % PRECISION + PRECISION;
    // Of the last bucket of all, the end is the largest number there is.
    u64::try_from(((u128::from(within) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

impl From<Histogram> for Form {
    fn from(of: Histogram) -> Form {
        let bucket = |(bucket, count): (&u32, &u64)| Bucket {
            up_to_us: end_of(*bucket),
            count: *count,
        };
        Form {
            sum_us: of.sum_us,
            max_us: of.max_us,
            buckets: of.counts.iter().map(bucket).collect(),
        }
    }
}

impl TryFrom<Form> for Histogram {
    type Error = String;

    fn try_from(form: Form) -> Result<Histogram, String> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for Bucket { up_to_us, count } in form.buckets {
            let bucket = bucket_of(up_to_us);
            if end_of(bucket) != up_to_us {
                return Err(format!("no bucket ends at {up_to_us} microseconds"));
            }
            let held = counts.entry(bucket).or_default();
            *held = held.saturating_add(count);
        }
        counts.retain(|_, count| *count > 0);
        Ok(Histogram {
            counts,
            sum_us: form.sum_us,
            max_us: form.max_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latencies_us: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for us in latencies_us {
            histogram.count_one(us);
        }
        histogram
    }

    #[test]
    fn every_latency_lies_in_a_bucket_that_ends_close_above_it() {
        let mut last = 0;
        for exponent in 0..64 {
            for us in [1 << exponent, (1 << exponent) + 1, u64::MAX >> exponent] {
                let end = end_of(bucket_of(us));
                assert!(end >= us && end - us <= us / 32, "{us} in one up to {end}");
            }
        }
        for bucket in 0..1_920 {
            let end = end_of(bucket);
            assert_eq!(bucket_of(end), bucket);
            assert!(bucket == 0 || end > last, "{bucket}");
            last = end;
        }
        assert_eq!(last, u64::MAX);
    }

    #[test]
    fn quantiles_are_of_what_was_counted() {
        let hundred = of(1..=100);
        for (per_mille, exact) in [(0, 1), (10, 1), (500, 50), (990, 99), (1000, 100)] {
            let found = hundred.quantile_us(per_mille).unwrap();
            assert!(
                found >= exact && found - exact <= exact / 32,
                "{per_mille}: {found}"
            );
        }
        // One slow sync of 500 is beyond the 99th percentile; six are not.
        let mut syncs = of((0..499).map(|_| 600).chain([3_000_000]));
        assert_eq!(syncs.quantile_us(990).unwrap(), end_of(bucket_of(600)));
        assert_eq!(syncs.max_us(), 3_000_000);
        syncs.join(&of([2_000_000; 5]));
        assert!(syncs.quantile_us(990).unwrap() >= 2_000_000);
        assert_eq!((syncs.len(), syncs.max_us()), (505, 3_000_000));
        assert_eq!(of([1, 2, 6]).mean_us(), Some(3));
    }

    #[test]
    fn of_none_nothing_is_said() {
        let none = Histogram::default();
        assert_eq!(
            (none.quantile_us(500), none.mean_us(), none.len()),
            (None, None, 0)
        );
    }

    #[test]
    fn it_is_the_same_after_a_journey() {
        let sent = of([0, 31, 32, 33, 1_000, 999_999, 12_345_678]);
        let text = serde_json::to_string(&sent).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), sent);
        let foreign = r#"{"sum_us":0,"max_us":0,"buckets":[{"up_to_us":64,"count":1}]}"#;
        let refused = serde_json::from_str::<Histogram>(foreign).unwrap_err();
        assert!(
            refused.to_string().contains("no bucket ends at 64"),
            "{refused}"
        );
    }
}
