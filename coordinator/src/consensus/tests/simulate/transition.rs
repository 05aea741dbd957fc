//! Everything that can happen to three machines.

use std::time::Duration;

use super::super::draw::Draw;

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
    SlowDisks(Duration),
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
        let slow = Duration::from_millis(10 + draw.below(500));
        match draw.below(100) {
            0..10 => Transition::Kill(place),
            10..20 => Transition::PowerCut(place),
            20..26 => Transition::PowerCutOfAll,
            26..46 => Transition::Start(place),
            46..53 => Transition::CutOneWay(place, other),
            53..60 => Transition::CutOff(place),
            60..63 => Transition::LoseMessages(1 + draw.below(20)),
            63..73 => Transition::Mend,
            73..78 => Transition::SlowDisk(place, slow),
            78..82 => Transition::SlowDisks(slow),
            82..87 => Transition::QuickDisk(place),
            87..92 => Transition::Transfer(place),
            92..96 => Transition::Snapshot(place),
            _ => Transition::LoseDisk(place),
        }
    }
}
