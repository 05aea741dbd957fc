//! How many shards a job gets whose manifest says how much work there is and how long a piece of it
//! should last.
//!
//! The number is computed when the manifest is put and frozen in its version, whatever becomes of the
//! hosts: a shard that is run again must cover the very same part of the work.

use protocol::DurationMs;

/// Most shards that a computed number comes to.
const SHARDS_MAX: u64 = 1024;

/// Every host gets so many, for the slow ones to be made up for by the others...
const PER_HOST: u64 = 3;

/// ...as long as a shard lasts so long: below that, starting it costs more than it spreads.
const SHORTEST: DurationMs = DurationMs::from_secs(120);

/// `hosts`: how many could take a shard of it now.
pub(crate) fn computed(of: DurationMs, target: DurationMs, hosts: u32) -> u32 {
    let (of, target) = (of.0.max(1).unsigned_abs(), target.0.max(1).unsigned_abs());
    let hosts = u64::from(hosts).clamp(1, SHARDS_MAX);
    let wanted = of.div_ceil(target).next_multiple_of(hosts);
    let longest = of / SHORTEST.0.unsigned_abs();
    let spread = PER_HOST.min(longest / hosts) * hosts;
    let most = SHARDS_MAX / hosts * hosts;
    let shards = wanted.max(spread).min(most);
    u32::try_from(shards).expect("at most 1024")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (what, of_s, target_s, hosts, expected) in [
            ("as many as it takes", 5_400, 180, 1, 30),
            ("a whole number for each host", 5_400, 180, 7, 35),
            ("three for each host, if they last", 5_400, 1_800, 8, 24),
            ("fewer, if they would be short", 1_800, 900, 6, 12),
            ("one, if that is short already", 60, 60, 4, 4),
            ("no host yet", 600, 600, 0, 3),
            ("never none", 1, 3_600, 0, 1),
            ("never more than 1024", 864_000, 1, 3, 1_023),
            ("more hosts than shards may be", 60, 60, 5_000, 1_024),
        ] {
            let seconds = DurationMs::from_secs;
            let got = computed(seconds(of_s), seconds(target_s), hosts);
            assert_eq!(got, expected, "{what}");
        }
    }
}
