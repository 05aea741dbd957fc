//! What of a host is not free although no lease has it.
//!
//! Leases say what is set aside; what really happens on a host its beats tell. A host that uses more
//! than what is set aside there (of jobs that asked for nothing, of programs that are not jobs, of jobs
//! that take more than they said) has that much less room. One that uses less has no more: what was
//! set aside is meant to be used, and a job that has just begun has not used it yet.
//!
//! The excess is held against what was set aside when the beat came, and stands until the next: so what
//! ends between two beats makes room at once.

use protocol::HostFacts;
use protocol::host::HostNow;

use super::offer::{amount, memory_kept};
use super::{Amounts, Offer};

/// From this share of a beat on in which some task waited for memory, in thousandths, a host is under
/// pressure. It is given nothing that asks for memory, and what asks for none only where nobody else
/// has a slot.
const MEMORY_PRESSURE_MILLI: u32 = 100;

/// The excess counts in steps of such a part of what is offered, rounded down: what a host does beside
/// jobs does not keep it from ever being used wholly, and not every beat changes something.
const CPU_STEPS: u32 = 8;
const MEMORY_STEPS: u64 = 32;

/// What the last beat of a host, and its facts, take off its room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    /// Used beyond what is set aside.
    pub cpu_milli: u32,
    pub memory_bytes: u64,
    /// Programs wait for memory.
    pub pressed: bool,
    /// An array is being filled or made to agree.
    pub rebuilding: bool,
}

impl Strain {
    /// `set_aside`: for the leases that it had when it told `now`.
    pub fn of(
        facts: &HostFacts,
        now: Option<&HostNow>,
        offer: &Offer,
        set_aside: &Amounts,
    ) -> Strain {
        let health = now.and_then(|now| now.health.as_ref());
        let mut strain = Strain {
            rebuilding: match health {
                Some(health) => health.rebuilding,
                None => facts.truth("storage.rebuilding").unwrap_or(false),
            },
            ..Strain::default()
        };
        let Some(load) = now.and_then(|now| now.load) else {
            return strain;
        };
        if let Some(offered) = offer.cpu_milli {
            let used = u64::from(load.cpu_used_milli).saturating_sub(out_of_reach_milli(facts));
            let used = u32::try_from(used).unwrap_or(u32::MAX);
            let excess = used.saturating_sub(set_aside.cpu_milli);
            let step = (offered / CPU_STEPS).max(1);
            strain.cpu_milli = excess / step * step;
        }
        if let (Some(usable), Some(offered)) =
            (amount(facts, "memory.usable_bytes"), offer.memory_bytes)
        {
            let used = usable.saturating_sub(load.memory_available_bytes);
            let explained = set_aside.memory_bytes.saturating_add(memory_kept(usable));
            let step = (offered / MEMORY_STEPS).max(1);
            strain.memory_bytes = used.saturating_sub(explained) / step * step;
        }
        let pressure = load.memory_pressure_milli.unwrap_or(0);
        strain.pressed = pressure >= MEMORY_PRESSURE_MILLI;
        strain
    }

    /// What is left of an offer, beside so much that is set aside.
    pub fn room(&self, offer: &Offer, set_aside: &Amounts) -> Amounts {
        let beyond = Amounts {
            slots: 0,
            cpu_milli: self.cpu_milli,
            memory_bytes: self.memory_bytes,
            io_slots: 0,
        };
        let mut room = offer.amounts().less(set_aside).less(&beyond);
        if self.pressed {
            room.memory_bytes = 0;
        }
        if self.rebuilding {
            room.io_slots = 0;
        }
        room
    }
}

/// Processors of the machine that jobs cannot have, for the quota or the affinity of the agent's group. A
/// load is of the whole machine: as much of it as there is room for elsewhere costs jobs nothing.
fn out_of_reach_milli(facts: &HostFacts) -> u64 {
    let all = amount(facts, "cpu.threads").map(|threads| threads.saturating_mul(1000));
    let all = all.zip(amount(facts, "cpu.usable_milli"));
    all.map_or(0, |(all, usable)| all.saturating_sub(usable))
}

#[cfg(test)]
mod tests {
    use protocol::host::{HostHealth, HostLoad, Value};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn facts() -> HostFacts {
        let mut facts = HostFacts::default();
        facts.know("cpu.usable_milli", Value::Number(8000));
        facts.know("memory.usable_bytes", Value::Number(32 << 30));
        facts.know("disk.medium", Value::Text("ssd".to_owned()));
        facts
    }

    fn amounts(slots: u32, cpu_milli: u32, memory_gib: u64, io_slots: u32) -> Amounts {
        Amounts {
            slots,
            cpu_milli,
            memory_bytes: memory_gib * GIB,
            io_slots,
        }
    }

    fn load(cpu_used_milli: u32, available_gib: u64, pressure: Option<u32>) -> HostNow {
        HostNow {
            load: Some(HostLoad {
                cpu_used_milli,
                memory_available_bytes: available_gib * GIB,
                memory_pressure_milli: pressure,
                ..HostLoad::default()
            }),
            ..HostNow::default()
        }
    }

    #[test]
    fn what_is_used_beyond_what_is_set_aside_is_no_room() {
        let offer = Offer::of(8, &facts());
        for (what, now, set_aside, left) in [
            (
                "no beat yet",
                None,
                amounts(2, 3000, 10, 1),
                amounts(6, 5000, 20, 3),
            ),
            (
                "it does what was set aside for it, and the system its own",
                Some(load(3900, 20, Some(99))),
                amounts(2, 3000, 10, 1),
                amounts(6, 5000, 20, 3),
            ),
            (
                "less than that is no more room",
                Some(load(0, 32, Some(0))),
                amounts(2, 3000, 10, 1),
                amounts(6, 5000, 20, 3),
            ),
            (
                "programs that nothing is set aside for",
                Some(load(5500, 15, None)),
                amounts(2, 3000, 10, 1),
                // 2.5 processors in whole eighths of 8; of 17 GiB used 10 are set aside and 2 the
                // system's, and 5 in whole steps of 30 GiB / 32 are 5 of them.
                Amounts {
                    memory_bytes: 20 * GIB - 5 * (30 * GIB / 32),
                    ..amounts(6, 3000, 0, 3)
                },
            ),
            (
                "programs wait for memory",
                Some(load(3000, 20, Some(100))),
                amounts(2, 3000, 10, 1),
                amounts(6, 5000, 0, 3),
            ),
            (
                "more is set aside than there is",
                Some(load(9000, 1, None)),
                amounts(9, 9000, 40, 5),
                amounts(0, 0, 0, 0),
            ),
        ] {
            let strain = Strain::of(&facts(), now.as_ref(), &offer, &set_aside);
            assert_eq!(strain.room(&offer, &set_aside), left, "{what}");
        }
    }

    /// The agent may use 8 of 64 processors.
    #[test]
    fn what_others_do_on_their_own_processors_takes_nothing_off() {
        let mut facts = facts();
        facts.know("cpu.threads", Value::Number(64));
        let offer = Offer::of(8, &facts);
        for (cpu_used_milli, excess_milli) in [
            (0, 0),
            (30_000, 0),
            (56_000, 0),
            (58_000, 2_000),
            (64_000, 8_000),
        ] {
            let now = load(cpu_used_milli, 32, None);
            let strain = Strain::of(&facts, Some(&now), &offer, &Amounts::default());
            assert_eq!(strain.cpu_milli, excess_milli, "{cpu_used_milli}");
        }
    }

    #[test]
    fn beside_an_array_that_is_rebuilt_there_is_no_place_at_the_disk() {
        let mut facts = facts();
        facts.know("storage.rebuilding", Value::Truth(true));
        let offer = Offer::of(8, &facts);
        let now = |rebuilding| HostNow {
            health: Some(HostHealth {
                look: 1,
                health: "ok".to_owned(),
                reasons: Vec::new(),
                rebuilding,
            }),
            ..HostNow::default()
        };
        // The newest look knows better than the profile, which is made once a day.
        for (now, io_slots) in [(None, 0), (Some(now(false)), 4), (Some(now(true)), 0)] {
            let strain = Strain::of(&facts, now.as_ref(), &offer, &Amounts::default());
            let room = strain.room(&offer, &Amounts::default());
            assert_eq!(room, amounts(8, 8000, 30, io_slots));
        }
    }
}
