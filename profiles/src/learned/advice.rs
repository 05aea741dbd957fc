//! What a manifest should say, by what was seen.

use std::fmt;

use protocol::api::MemoryAdvice;
use protocol::attempt::Counted;
use serde::{Deserialize, Serialize};

use super::profile::JobProfile;

/// Below so many runs nothing is advised.
pub const RUNS_MIN: u32 = 5;

/// Advised memory, in hundredths of what was seen.
pub const MEMORY_FACTOR_PERCENT: u64 = 150;

const MEMORY_PERCENTILE: u32 = 98;

const MIB: u64 = 1 << 20;

/// After memory has run out: so much more than what was not enough, and at least by this.
const EXHAUSTED_PERCENT: u64 = 120;
const EXHAUSTED_MORE_BYTES: u64 = 100 * MIB;

/// An advice falls at most to this part of what the manifest says.
const FALL_PERCENT: u64 = 80;

/// Why there is no advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoAdvice {
    TooFewRuns {
        runs: u32,
        needed: u32,
    },
    /// Runs there were; what they used is not known.
    NotMeasured,
}

impl fmt::Display for NoAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAdvice::TooFewRuns { runs, needed } => write!(f, "too few runs ({runs} of {needed})"),
            NoAdvice::NotMeasured => write!(f, "not measured"),
        }
    }
}

impl JobProfile {
    /// How much memory an attempt should be given, where the manifest says `declared` now.
    pub fn memory_advice(&self, declared: Option<u64>) -> Result<MemoryAdvice, NoAdvice> {
        let exhausted = self
            .recent()
            .iter()
            .filter_map(|r| r.out_of_memory_at)
            .max();
        let enough = enough_runs(self.memory_bytes.runs());
        let seen = self.memory_bytes.percentile(MEMORY_PERCENTILE);
        let recent = self.recent().iter().filter_map(|r| r.memory_bytes).max();
        let (Some(p98_bytes), Some(recent_max_bytes)) = (seen, recent) else {
            return Err(enough.err().unwrap_or(NoAdvice::NotMeasured));
        };
        let usual =
            enough.map(|()| percent_of(p98_bytes.max(recent_max_bytes), MEMORY_FACTOR_PERCENT));
        let raised = exhausted.map(|at| {
            percent_of(at, EXHAUSTED_PERCENT).max(at.saturating_add(EXHAUSTED_MORE_BYTES))
        });
        // Memory that has run out does so again tonight: that is told after one run.
        let wanted = match (usual, raised) {
            (Ok(usual), raised) => usual.max(raised.unwrap_or(0)),
            (Err(_), Some(raised)) => raised.max(recent_max_bytes),
            (Err(why), None) => return Err(why),
        };
        let least = declared.map_or(0, |declared| percent_of(declared, FALL_PERCENT));
        Ok(MemoryAdvice {
            bytes: wanted.max(least).div_ceil(MIB).saturating_mul(MIB),
            p98_bytes,
            recent_max_bytes,
            exhausted_at_bytes: exhausted,
            falls_by_steps: least > wanted,
            partial: self.partial().contains(&Counted::Memory),
            cache_bytes: self.recent().iter().filter_map(|r| r.cache_bytes).max(),
        })
    }

    /// Processors to reserve, in thousandths: what it uses on average, or at most times where it must be
    /// done by an hour.
    pub fn cpu_advice_milli(&self, has_deadline: bool) -> Result<u64, NoAdvice> {
        enough_runs(self.cpu_milli.runs())?;
        let milli = if has_deadline {
            self.cpu_milli.percentile(95)
        } else {
            self.cpu_milli.mean()
        };
        milli.ok_or(NoAdvice::NotMeasured)
    }
}

fn enough_runs(runs: u32) -> Result<(), NoAdvice> {
    if runs < RUNS_MIN {
        return Err(NoAdvice::TooFewRuns {
            runs,
            needed: RUNS_MIN,
        });
    }
    Ok(())
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}
