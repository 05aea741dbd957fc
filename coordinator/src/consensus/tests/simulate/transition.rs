//! Everything that can happen to three machines.

use std::time::Duration;

use super::draw::Draw;

/// One of the three places in which a machine stands.
pub(super) type Place = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// The process is killed; what it wrote is in the kernel's hands.
    Kill(Place),
    /// The power goes, and with it what was not synced.
    PowerCut(Place),
    /// For the whole room at once.
    PowerCutOfAll,
    Start(Place),
    /// Nothing comes through in one direction.
    CutOneWay(Place, Place),
    CutOff(Place),
    LoseMessages(u64),
    Mend,
    SlowDisk(Place, Duration),
    QuickDisk(Place),
    /// Whoever leads is to hand over.
    Transfer(Place),
    Snapshot(Place),
    /// The machine is lost with its disk; another one is put in its place.
    LoseDisk(Place),
}

impl Transition {
    pub(super) fn draw(draw: &mut Draw) -> Transition {
        let place = draw.below(3) as Place;
        let other = (place + 1 + draw.below(2) as Place) % 3;
        match draw.below(100) {
            0..12 => Transition::Kill(place),
            12..24 => Transition::PowerCut(place),
            24..28 => Transition::PowerCutOfAll,
            28..48 => Transition::Start(place),
            48..55 => Transition::CutOneWay(place, other),
            55..62 => Transition::CutOff(place),
            62..65 => Transition::LoseMessages(1 + draw.below(20)),
            65..75 => Transition::Mend,
            75..81 => {
                let by = Duration::from_millis(10 + draw.below(500));
                Transition::SlowDisk(place, by)
            }
            81..87 => Transition::QuickDisk(place),
            87..92 => Transition::Transfer(place),
            92..96 => Transition::Snapshot(place),
            _ => Transition::LoseDisk(place),
        }
    }
}
