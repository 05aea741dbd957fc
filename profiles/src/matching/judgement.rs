//! Why a host is not given a shard.

use protocol::{ClassName, Label};

use super::{Amounts, Ask, Offer, Strain};

/// What a host has only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    Slots,
    Cpu,
    Memory,
    Io,
}

impl Dimension {
    pub const fn as_str(self) -> &'static str {
        match self {
            Dimension::Slots => "slots",
            Dimension::Cpu => "cpu",
            Dimension::Memory => "memory",
            Dimension::Io => "io",
        }
    }
}

/// The first rule that rules a host out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// It is not of the class that is asked for.
    Class,
    /// It has not all labels.
    Labels,
    /// How much it has of this is unknown.
    Unknown(Dimension),
    /// It has less of this than is asked for, were nothing else on it.
    TooSmall(Dimension),
    /// An array of it is being rebuilt, and the shard is for its disk.
    Rebuilding,
    /// Too little of this is left.
    Exhausted(Dimension),
    /// Programs on it wait for memory, and the shard asks for some.
    Pressed,
}

/// Why a host of these classes and labels, both in order, has no place for what is asked.
pub fn judge(
    ask: &Ask,
    classes: &[ClassName],
    labels: &[Label],
    (offer, strain): (&Offer, &Strain),
    set_aside: &Amounts,
) -> Option<Lack> {
    const ALL: [Dimension; 4] = [
        Dimension::Slots,
        Dimension::Memory,
        Dimension::Cpu,
        Dimension::Io,
    ];
    let takes = |dimension| left_in(&ask.takes, dimension);
    if !ask.filter.has_class(classes) {
        return Some(Lack::Class);
    }
    if !ask.filter.has_labels(labels) {
        return Some(Lack::Labels);
    }
    let asked = || ALL.into_iter().filter(|&dimension| takes(dimension) > 0);
    if let Some(dimension) = asked().find(|&dimension| !offer.knows(dimension)) {
        return Some(Lack::Unknown(dimension));
    }
    let whole = offer.amounts();
    if let Some(dimension) =
        asked().find(|&dimension| takes(dimension) > left_in(&whole, dimension))
    {
        return Some(Lack::TooSmall(dimension));
    }
    if strain.rebuilding && ask.takes.io_slots > 0 {
        return Some(Lack::Rebuilding);
    }
    if strain.pressed && ask.takes.memory_bytes > 0 {
        return Some(Lack::Pressed);
    }
    let room = strain.room(offer, set_aside);
    asked()
        .find(|&dimension| takes(dimension) > left_in(&room, dimension))
        .map(Lack::Exhausted)
}

/// How much these are of one dimension, in its unit.
pub fn left_in(amounts: &Amounts, dimension: Dimension) -> u64 {
    match dimension {
        Dimension::Slots => amounts.slots.into(),
        Dimension::Cpu => amounts.cpu_milli.into(),
        Dimension::Memory => amounts.memory_bytes,
        Dimension::Io => amounts.io_slots.into(),
    }
}

impl Offer {
    const fn knows(&self, dimension: Dimension) -> bool {
        match dimension {
            Dimension::Slots => true,
            Dimension::Cpu => self.cpu_milli.is_some(),
            Dimension::Memory => self.memory_bytes.is_some(),
            Dimension::Io => self.io_slots.is_some(),
        }
    }
}
