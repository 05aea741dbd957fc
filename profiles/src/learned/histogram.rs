//! A histogram of which the runs fade.
//!
//! Values lie in buckets, each a twentieth wider than the one below it, so a percentile is at most 5 %
//! above the truth and never below it. Buckets are the same in every profile: two of them can be
//! compared and one be drawn from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decay::Decay;

const BUCKETS: usize = 1024;

/// The largest value in each bucket: one for each number up to forty, then 5 % more from one to the next.
const EDGES: [u64; BUCKETS] = edges();

const fn edges() -> [u64; BUCKETS] {
    let mut edges = [0; BUCKETS];
    let mut index = 1;
    while index < BUCKETS {
        let below: u64 = edges[index - 1];
        let width = if below < 40 { 1 } else { below / 20 };
        edges[index] = below.saturating_add(width);
        index += 1;
    }
    edges
}

/// A run's weight is divided among its values, of which there may be many.
const SPLIT_BITS: u32 = 16;

/// Values of runs, the newer ones heavier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    decay: Decay,
    /// Weight by bucket.
    weights: BTreeMap<u16, u64>,
    /// The largest value ever, which no percentile is above.
    max: u64,
}

impl Histogram {
    /// The values of one run; none is no run.
    pub fn observe(&mut self, values: &[u64]) {
        if values.is_empty() {
            return;
        }
        let step = self.decay.next();
        if step.shorten_bits > 0 {
            self.weights.retain(|_, weight| {
                *weight >>= step.shorten_bits;
                *weight > 0
            });
        }
        let share = ((step.weight << SPLIT_BITS) / values.len() as u64).max(1);
        for &value in values {
            *self.weights.entry(bucket_of(value)).or_default() += share;
            self.max = self.max.max(value);
        }
    }

    /// How many runs it has values of.
    pub fn runs(&self) -> u32 {
        self.decay.runs
    }

    /// The largest value of all runs, old ones too.
    pub fn max(&self) -> Option<u64> {
        (self.runs() > 0).then_some(self.max)
    }

    /// The value that so many of a hundred are at most: up to 5 % above it, never below. `None` of an
    /// empty histogram.
    pub fn percentile(&self, percent: u32) -> Option<u64> {
        let total: u128 = self.weights.values().map(|w| u128::from(*w)).sum();
        let mut below = 0_u128;
        for (bucket, weight) in &self.weights {
            below += u128::from(*weight);
            if below * 100 >= total * u128::from(percent) {
                return Some(EDGES[usize::from(*bucket)].min(self.max));
            }
        }
        None
    }

    pub fn mean(&self) -> Option<u64> {
        let (mut total, mut sum) = (0_u128, 0_u128);
        for (largest, weight) in self.buckets() {
            let index = usize::from(bucket_of(largest));
            let smallest = if index == 0 { 0 } else { EDGES[index - 1] + 1 };
            let middle = u128::from(smallest) + u128::from(largest.max(smallest) - smallest) / 2;
            sum += middle * u128::from(weight);
            total += u128::from(weight);
        }
        (total > 0).then(|| u64::try_from(sum / total).unwrap_or(u64::MAX))
    }

    /// The largest value and the weight of each bucket that has any, the smallest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let largest = |bucket: &u16| EDGES[usize::from(*bucket)].min(self.max);
        self.weights.iter().map(move |(b, w)| (largest(b), *w))
    }
}

fn bucket_of(value: u64) -> u16 {
    let index = EDGES.partition_point(|edge| *edge < value);
    u16::try_from(index).expect("there are 1,024 buckets, and the last ends at the largest number")
}
