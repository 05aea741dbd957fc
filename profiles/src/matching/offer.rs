//! What a host offers to shards, from what it was found to be.

use protocol::HostFacts;

use super::Amounts;

/// Memory that is kept for the system and for Matins' own processes: a sixteenth of it, not less than
/// this, and not more: a large machine's kernel does not grow with it.
const MEMORY_KEPT_BYTES_MIN: u64 = 256 << 20;
const MEMORY_KEPT_BYTES_MAX: u64 = 4 << 30;

/// How many shards of class `io` run beside each other on a disk. Two that read in turn from a disk
/// that rotates are slower than one after the other; flash is at its best with a few; one of which a
/// single durable write takes long is soon full.
const IO_SLOTS_HDD: u32 = 1;
const IO_SLOTS_SSD: u32 = 4;
const IO_SLOTS_SLOW: u32 = 2;

/// What shards can be given of a host. `None`: it is unknown, and nothing of it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    pub slots: u32,
    pub cpu_milli: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub io_slots: Option<u32>,
}

impl Offer {
    /// `slots` is what its agent was told to take at once.
    pub fn of(slots: u32, facts: &HostFacts) -> Offer {
        Offer {
            slots,
            cpu_milli: processors(facts),
            memory_bytes: amount(facts, "memory.usable_bytes")
                .map(|usable| usable.saturating_sub(memory_kept(usable))),
            io_slots: io_slots(facts),
        }
    }

    /// What is unknown as nothing.
    pub fn amounts(&self) -> Amounts {
        Amounts {
            slots: self.slots,
            cpu_milli: self.cpu_milli.unwrap_or(0),
            memory_bytes: self.memory_bytes.unwrap_or(0),
            io_slots: self.io_slots.unwrap_or(0),
        }
    }
}

pub(super) fn memory_kept(usable_bytes: u64) -> u64 {
    (usable_bytes / 16).clamp(MEMORY_KEPT_BYTES_MIN, MEMORY_KEPT_BYTES_MAX)
}

pub(super) fn amount(facts: &HostFacts, name: &str) -> Option<u64> {
    facts
        .number(name)
        .and_then(|number| u64::try_from(number).ok())
}

/// One for each processor, but one and a half for each core at most: two threads of one core do about
/// as much together as one and a third cores, so that a job for each of them would find half of what
/// it was promised. Without a second thread that is one for each core, and nothing is given twice.
fn processors(facts: &HostFacts) -> Option<u32> {
    let usable_milli = amount(facts, "cpu.usable_milli")?;
    let per_core = amount(facts, "cpu.cores").zip(amount(facts, "cpu.threads"));
    let offered = match per_core {
        Some((cores, threads)) if cores > 0 && threads > cores => {
            let of_cores = u128::from(usable_milli) * 3 * u128::from(cores);
            let of_cores = of_cores / (2 * u128::from(threads));
            let of_cores = u64::try_from(of_cores).unwrap_or(u64::MAX);
            usable_milli.min(of_cores)
        }
        _ => usable_milli,
    };
    Some(u32::try_from(offered).unwrap_or(u32::MAX))
}

fn io_slots(facts: &HostFacts) -> Option<u32> {
    if facts.0.is_empty() {
        return None;
    }
    let is_slow = matches!(facts.text("disk.fsync_grade"), Some("C" | "D"));
    Some(match facts.text("disk.medium") {
        Some("hdd") => IO_SLOTS_HDD,
        Some("ssd") if !is_slow => IO_SLOTS_SSD,
        // Also where a hypervisor hides what the disk is.
        _ => IO_SLOTS_SLOW,
    })
}

#[cfg(test)]
mod tests {
    use protocol::host::Value;

    use super::*;

    const GIB: i64 = 1 << 30;

    #[test]
    fn offers() {
        type Row<'a> = (&'a [(&'static str, i64)], &'a [(&'static str, &'a str)]);
        type Offered = (Option<u32>, Option<u64>, Option<u32>);
        let rows: [(&str, Row, Offered); 7] = [
            ("nothing is known", (&[], &[]), (None, None, None)),
            (
                "one for each core that has one thread",
                (
                    &[
                        ("cpu.usable_milli", 8000),
                        ("cpu.cores", 8),
                        ("cpu.threads", 8),
                    ],
                    &[("disk.medium", "ssd"), ("disk.fsync_grade", "A")],
                ),
                (Some(8000), None, Some(4)),
            ),
            (
                "one and a half for each that has two",
                (
                    &[
                        ("cpu.usable_milli", 32_000),
                        ("cpu.cores", 16),
                        ("cpu.threads", 32),
                    ],
                    &[("disk.medium", "ssd"), ("disk.fsync_grade", "D")],
                ),
                (Some(24_000), None, Some(2)),
            ),
            (
                "of half the machine half of that",
                (
                    &[
                        ("cpu.usable_milli", 16_000),
                        ("cpu.cores", 16),
                        ("cpu.threads", 32),
                        ("memory.usable_bytes", 2 * GIB),
                    ],
                    &[("disk.medium", "hdd"), ("disk.fsync_grade", "A")],
                ),
                (Some(12_000), Some(1792 << 20), Some(1)),
            ),
            (
                "numbers that no machine has",
                (
                    &[
                        ("cpu.usable_milli", i64::MAX),
                        ("cpu.cores", i64::MAX - 1),
                        ("cpu.threads", i64::MAX),
                    ],
                    &[],
                ),
                (Some(u32::MAX), None, Some(2)),
            ),
            (
                "a sixteenth of the memory is kept",
                (&[("memory.usable_bytes", 32 * GIB)], &[]),
                (None, Some(30 << 30), Some(2)),
            ),
            (
                "but no more than 4 GiB, and a machine may have too little for any job",
                (
                    &[("memory.usable_bytes", 1024 * GIB), ("cpu.cores", 0)],
                    &[],
                ),
                (None, Some(1020 << 30), Some(2)),
            ),
        ];
        for (what, (numbers, words), (cpu_milli, memory_bytes, io_slots)) in rows {
            let mut facts = HostFacts::default();
            for &(name, number) in numbers {
                facts.know(name, Value::Number(number));
            }
            for &(name, word) in words {
                facts.know(name, Value::Text(word.to_owned()));
            }
            let expected = Offer {
                slots: 8,
                cpu_milli,
                memory_bytes,
                io_slots,
            };
            assert_eq!(Offer::of(8, &facts), expected, "{what}");
        }
    }
}
