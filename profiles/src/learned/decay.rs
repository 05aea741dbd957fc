//! Weights that halve every ten runs, in integers.
//!
//! What is there is not made smaller with each run; the next one weighs more. Only when weights grow
//! long, all of them are shortened together, and what then is nothing has long counted for nothing.

use serde::{Deserialize, Serialize};

/// 2^16 times 2^(i/10): what the runs of one halving weigh.
const WEIGHTS: [u64; 10] = [
    65536, 70240, 75281, 80684, 86475, 92682, 99334, 106_464, 114_105, 122_295,
];
const RUNS_PER_HALVING: u32 = 10;
/// Weights are shortened by so many bits once they have grown by twice as many.
const SHORTEN_BITS: u32 = 6;

/// How many runs were seen, and what the next one weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decay {
    pub(super) runs: u32,
    /// Halvings that have been shortened away.
    shortened: u32,
}

/// What a run weighs, at most 2^29, after all weights before it were shortened by so many bits.
pub(super) struct Step {
    pub(super) weight: u64,
    pub(super) shorten_bits: u32,
}

impl Decay {
    pub(super) fn next(&mut self) -> Step {
        let halvings = self.runs / RUNS_PER_HALVING;
        let within = (self.runs % RUNS_PER_HALVING) as usize;
        let shorten_bits = match halvings - self.shortened {
            bits if bits > 2 * SHORTEN_BITS => SHORTEN_BITS,
            _ => 0,
        };
        self.shortened += shorten_bits;
        self.runs += 1;
        Step {
            weight: WEIGHTS[within] << (halvings - self.shortened),
            shorten_bits,
        }
    }
}

/// Mean of one number a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mean {
    decay: Decay,
    weight: u64,
    total: u64,
}

/// With weights of 33 bits together, a total has room.
const VALUE_MAX: u64 = 1 << 30;

impl Mean {
    pub(super) fn observe(&mut self, value: u64) {
        let step = self.decay.next();
        self.weight = (self.weight >> step.shorten_bits) + step.weight;
        self.total = (self.total >> step.shorten_bits) + step.weight * value.min(VALUE_MAX);
    }

    pub(super) fn value(self) -> Option<u64> {
        (self.weight > 0).then(|| (self.total + self.weight / 2) / self.weight)
    }
}
