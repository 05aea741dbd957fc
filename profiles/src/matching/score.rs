//! Which of several hosts with room is best.

use super::{Amounts, Offer};

/// How uneven a host's room becomes by a shard that takes so much, in thousandths of what it offers: 0
/// where of everything the same share is left, 1000 where of one thing all is left and of another none.
///
/// What is left of a host in one dimension is of no use when another is used up. So a shard goes
/// where its own shape is that of what is left: one that computes to a host with many processors, one
/// that holds much in memory to a host with much memory, without anybody saying so.
pub fn unevenness(offer: &Offer, room: &Amounts, takes: &Amounts) -> u32 {
    let left = room.less(takes);
    let shares = [
        share(left.cpu_milli.into(), offer.cpu_milli.map(u64::from)),
        share(left.memory_bytes, offer.memory_bytes),
    ];
    let known = shares.into_iter().flatten();
    let (least, most) = known.fold((1000, 0), |(least, most), share| {
        (share.min(least), share.max(most))
    });
    most.saturating_sub(least)
}

/// Thousandths.
fn share(left: u64, of: Option<u64>) -> Option<u32> {
    let of = of.filter(|&of| of > 0)?;
    let milli = u128::from(left) * 1000 / u128::from(of);
    Some(u32::try_from(milli).unwrap_or(1000).min(1000))
}
