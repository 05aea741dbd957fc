//! Which host a shard may be given to, and which of them it is given to.
//!
//! What a shard takes of a host is *set aside* for it as long as it is leased, and a host has room for
//! a shard where all that it takes is left in every dimension: slots, processors, memory, and places
//! beside the disk. A shard that says nothing of a dimension takes nothing of it, so that whoever says
//! nothing goes by slots alone; and of a host whose facts are unknown nothing but slots is offered.
//!
//! Not all that a host does is known by leases. What it uses beyond what is set aside, as its last beat
//! tells, is taken off its room too ([`Strain`]).
//!
//! Amounts are integers in the unit of their name, so that what is decided by them is decided the same
//! way everywhere.

mod judgement;
mod offer;
mod score;
mod strain;

use std::sync::Arc;

use jobs::manifest::Needs;
use protocol::{ClassName, Label};

pub use judgement::{Dimension, Lack, judge, left_in};
pub use offer::Offer;
pub use score::{Cost, cost};
pub use strain::Strain;

/// What a shard asks of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    pub filter: Arc<Filter>,
    pub takes: Amounts,
}

/// A slot of any host.
impl Default for Ask {
    fn default() -> Ask {
        Ask {
            filter: Arc::default(),
            takes: Amounts::SLOT,
        }
    }
}

/// What a host must be, whatever room is on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    pub class: Option<ClassName>,
    /// A host must have all of them. In order, each once.
    pub labels: Vec<Label>,
}

/// So much of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts {
    pub slots: u32,
    pub cpu_milli: u32,
    pub memory_bytes: u64,
    /// Places beside its disk, for what reads and writes much.
    pub io_slots: u32,
}

impl Amounts {
    /// One slot and nothing else.
    pub const SLOT: Amounts = Amounts {
        slots: 1,
        cpu_milli: 0,
        memory_bytes: 0,
        io_slots: 0,
    };

    /// Whether so much is within this.
    pub const fn holds(&self, takes: &Amounts) -> bool {
        takes.slots <= self.slots
            && takes.cpu_milli <= self.cpu_milli
            && takes.memory_bytes <= self.memory_bytes
            && takes.io_slots <= self.io_slots
    }

    /// Nothing but slots.
    pub const fn is_plain(&self) -> bool {
        self.cpu_milli == 0 && self.memory_bytes == 0 && self.io_slots == 0
    }

    #[must_use]
    pub const fn plus(&self, more: &Amounts) -> Amounts {
        Amounts {
            slots: self.slots.saturating_add(more.slots),
            cpu_milli: self.cpu_milli.saturating_add(more.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(more.memory_bytes),
            io_slots: self.io_slots.saturating_add(more.io_slots),
        }
    }

    #[must_use]
    pub const fn less(&self, taken: &Amounts) -> Amounts {
        Amounts {
            slots: self.slots.saturating_sub(taken.slots),
            cpu_milli: self.cpu_milli.saturating_sub(taken.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(taken.memory_bytes),
            io_slots: self.io_slots.saturating_sub(taken.io_slots),
        }
    }
}

impl Ask {
    pub fn of(needs: &Needs) -> Ask {
        let class = needs.class.as_ref();
        let is = |name: &str| class.is_some_and(|class| class.as_str() == name);
        Ask {
            filter: Arc::new(Filter {
                class: class.cloned(),
                labels: needs.labels.iter().cloned().collect(),
            }),
            takes: Amounts {
                slots: 1,
                // What is for hosts that compute keeps a processor busy, if it says nothing else.
                cpu_milli: needs.cpu_milli.unwrap_or(if is("cpu") { 1000 } else { 0 }),
                memory_bytes: needs.memory_bytes.map_or(0, with_margin),
                io_slots: u32::from(is("io")),
            },
        }
    }
}

/// What is set aside for a shard that takes so much memory: a sixteenth more, for what the kernel holds
/// on its behalf and for the day on which it is a little larger. Advice from runs that were seen has a
/// margin of its own.
pub const fn with_margin(memory_bytes: u64) -> u64 {
    memory_bytes.saturating_add(memory_bytes / 16)
}

/// The largest ask that fits where so much memory is left: what [`with_margin`] makes no more of.
pub const fn without_margin(memory_bytes: u64) -> u64 {
    let rest = memory_bytes % 17;
    memory_bytes / 17 * 16 + if rest < 16 { rest } else { 15 }
}

impl Filter {
    /// Whether these labels, in order, hold all that are wanted.
    pub fn has_labels(&self, labels: &[Label]) -> bool {
        let has = |label: &Label| labels.binary_search(label).is_ok();
        self.labels.iter().all(has)
    }

    /// Whether these classes, in order, hold the one that is wanted.
    pub fn has_class(&self, classes: &[ClassName]) -> bool {
        let has = |class: &ClassName| classes.binary_search(class).is_ok();
        self.class.as_ref().is_none_or(has)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_manifest_leaves_out_is_not_taken() {
        let needs = |class: Option<&str>, cpu_milli, memory_bytes| Needs {
            class: class.map(|class| class.parse().unwrap()),
            cpu_milli,
            memory_bytes,
            ..Needs::default()
        };
        let amounts = |cpu_milli, memory_bytes, io_slots| Amounts {
            slots: 1,
            cpu_milli,
            memory_bytes,
            io_slots,
        };
        for (needs, expected) in [
            (needs(None, None, None), Amounts::SLOT),
            (needs(Some("general"), None, None), Amounts::SLOT),
            (needs(Some("cpu"), None, None), amounts(1000, 0, 0)),
            (needs(Some("cpu"), Some(250), None), amounts(250, 0, 0)),
            (needs(Some("io"), None, None), amounts(0, 0, 1)),
            (needs(None, None, Some(1600)), amounts(0, 1700, 0)),
        ] {
            assert_eq!(Ask::of(&needs).takes, expected, "{needs:?}");
        }
    }

    proptest! {
        #[test]
        fn the_largest_ask_that_fits_fits_and_a_larger_one_does_not(left in 0u64..=1 << 45) {
            let ask = without_margin(left);
            prop_assert!(with_margin(ask) <= left);
            prop_assert!(with_margin(ask + 1) > left);
        }
    }
}
