//! Random moments, from a seed that is printed and can be given again.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::rng::Rng;

/// `MATINS_CHAOS_SEED`, or else another one every time.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("MATINS_CHAOS_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| u64::from(now.subsec_nanos()))
    })
}

/// The moments may differ a little from run to run, as machines do; the choices do not.
pub(crate) fn chance(seed: u64) -> Rng {
    println!("MATINS_CHAOS_SEED={seed}");
    Rng::new(seed)
}
