//! Which of several hosts with room is best.

use super::{Amounts, Offer};

/// How much a shard costs a host; less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The shares that it takes of what the host offers, added up, in thousandths. It is least where
    /// there is much of what the shard takes: what computes goes to a host with many processors, what
    /// holds much in memory to one with much memory, without anybody saying so.
    share: u32,
    /// How uneven the host's room becomes, in thousandths: 0 where of everything the same share is
    /// left, 1000 where of one thing all is left and of another none. What is left of one thing is of
    /// no use when another is used up.
    unevenness: u32,
}

/// What a shard that takes so much costs a host with this room.
pub fn cost(offer: &Offer, room: &Amounts, takes: &Amounts) -> Cost {
    // Who takes nothing but a slot leaves everything else as it is.
    if takes.is_plain() {
        return Cost::default();
    }
    let whole = offer.amounts();
    let left = room.less(takes);
    let shares = [
        share(takes.cpu_milli.into(), whole.cpu_milli.into()),
        share(takes.memory_bytes, whole.memory_bytes),
        share(takes.io_slots.into(), whole.io_slots.into()),
    ];
    let left = [
        share(left.cpu_milli.into(), whole.cpu_milli.into()),
        share(left.memory_bytes, whole.memory_bytes),
    ];
    let known = left.into_iter().flatten();
    let (least, most) = known.fold((1000, 0), |(least, most), share| {
        (share.min(least), share.max(most))
    });
    Cost {
        share: shares.into_iter().flatten().sum(),
        unevenness: most.saturating_sub(least),
    }
}

/// Thousandths; `None` of what there is nothing of.
fn share(part: u64, of: u64) -> Option<u32> {
    let milli = (u128::from(part) * 1000).checked_div(u128::from(of))?;
    Some(u32::try_from(milli).unwrap_or(1000).min(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(cpu_milli: u32, memory_bytes: u64) -> Offer {
        Offer {
            slots: 8,
            cpu_milli: Some(cpu_milli),
            memory_bytes: Some(memory_bytes),
            io_slots: None,
        }
    }

    #[test]
    fn what_a_shard_takes_costs_least_where_there_is_much_of_it() {
        let (computes, holds) = (offer(32_000, 64), offer(8_000, 256));
        let takes = |cpu_milli, memory_bytes| Amounts {
            cpu_milli,
            memory_bytes,
            ..Amounts::SLOT
        };
        let cost_of = |offer: &Offer, takes: &Amounts| cost(offer, &offer.amounts(), takes);
        for (takes, computes_is_better) in [
            (takes(4_000, 1), true),
            (takes(4_000, 0), true),
            (takes(500, 32), false),
            (takes(0, 1), false),
        ] {
            let found = cost_of(&computes, &takes) < cost_of(&holds, &takes);
            assert_eq!(found, computes_is_better, "{takes:?}");
        }
        assert_eq!(cost_of(&computes, &Amounts::SLOT), Cost::default());
    }

    #[test]
    fn of_equal_hosts_the_one_whose_room_becomes_even_is_better() {
        let offer = offer(8_000, 64);
        let room = |cpu_milli, memory_bytes| Amounts {
            cpu_milli,
            memory_bytes,
            ..offer.amounts()
        };
        let takes = Amounts {
            memory_bytes: 16,
            ..Amounts::SLOT
        };
        let little_cpu = cost(&offer, &room(2_000, 64), &takes);
        let much_cpu = cost(&offer, &room(8_000, 64), &takes);
        assert!(much_cpu < little_cpu, "{much_cpu:?} {little_cpu:?}");
    }
}
