//! What the privileged process does.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use protocol::{BootMs, DurationMs};

use super::{Fault, HOLD_MAX, Report};

/// When the neighbours are told, counted from the put. Until the kernel of a dead leader's machine
/// has dropped the address, it may still answer for it: whoever believed that is told once more
/// after it.
const ANNOUNCE_AT: [DurationMs; 6] = [
    DurationMs(0),
    DurationMs(500),
    DurationMs(1_000),
    DurationMs(2_000),
    DurationMs(3_000),
    DurationMs(5_000),
];

/// And from then on, for switches that forget.
const ANNOUNCE_EVERY: DurationMs = DurationMs::from_secs(30);

/// The interface as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up {
        /// The address of its hardware, which neighbours are told.
        hardware: [u8; 6],
    },
    NoCarrier,
    Down,
    Missing,
    NotEthernet,
}

impl Link {
    fn fault(self) -> Option<Fault> {
        match self {
            Link::Up { .. } => None,
            Link::NoCarrier => Some(Fault::NoCarrier),
            Link::Down => Some(Fault::Down),
            Link::Missing => Some(Fault::Missing),
            Link::NotEthernet => Some(Fault::NotEthernet),
        }
    }
}

/// What the shell is to do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have the kernel keep the address for [`super::PUT_GOOD_FOR`] from now, whether it is there or
    /// not; but not at `before` or later. Answered by [`Keeper::handle_put`].
    Put { address: IpAddr, before: BootMs },
    /// It may not be there.
    Remove { address: IpAddr },
    /// Tell all neighbours.
    Announce { address: IpAddr },
}

/// What became of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Done,
    /// It was too late, and not tried.
    Late,
    Failed(String),
}

/// Why a hold is not obeyed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it ended {0} ago")]
    Past(DurationMs),
    #[error("it reaches {0} ahead, and no hold may reach further than {HOLD_MAX}")]
    Ahead(DurationMs),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Keeps the addresses on one interface. See [`super`].
#[derive(Debug)]
pub struct Keeper {
    interface: String,
    addresses: Vec<IpAddr>,
    link: Link,
    /// `None`: nothing is to be held.
    until: Option<BootMs>,
    /// Of the addresses, those that the kernel has by our hand.
    held: BTreeSet<IpAddr>,
    /// The last thing that the kernel refused.
    refused: Option<Fault>,
    announcing: Option<Announcing>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug)]
struct Announcing {
    since: BootMs,
    /// How often it was done.
    rounds: usize,
    next: BootMs,
}

impl Announcing {
    fn begin(now: BootMs) -> Announcing {
        Announcing {
            since: now,
            rounds: 0,
            next: now,
        }
    }
}

impl Keeper {
    /// Begins with nothing held: what a predecessor may have left is removed.
    pub fn new(interface: String, addresses: Vec<IpAddr>, link: Link) -> Keeper {
        let actions = addresses.iter().map(|&address| Action::Remove { address });
        Keeper {
            actions: actions.collect(),
            interface,
            addresses,
            link,
            until: None,
            held: BTreeSet::new(),
            refused: None,
            announcing: None,
        }
    }

    /// The coordinator's word that the addresses are to be here until then.
    pub fn handle_hold(&mut self, until: BootMs, now: BootMs) -> Result<(), Refusal> {
        self.handle_tick(now);
        if until <= now {
            return Err(Refusal::Past(now - until));
        }
        if until > now + HOLD_MAX {
            return Err(Refusal::Ahead(until - now));
        }
        if let Some(fault) = self.link.fault() {
            return Err(fault.into());
        }
        self.until = Some(until);
        self.refused = None;
        let puts = self.addresses.iter().map(|&address| Action::Put {
            address,
            before: until,
        });
        self.actions.extend(puts);
        Ok(())
    }

    /// The coordinator's word that they are not, or its end.
    pub fn handle_release(&mut self) {
        self.until = None;
        self.announcing = None;
        self.held.clear();
        self.actions.clear();
        let removals = self.addresses.iter();
        self.actions
            .extend(removals.map(|&address| Action::Remove { address }));
    }

    /// What became of a put, and when the kernel had answered.
    pub fn handle_put(&mut self, address: IpAddr, put: Put, now: BootMs) {
        // The process may have been stopped between its look at the clock and the call.
        self.handle_tick(now);
        match put {
            // What has ended meanwhile is removed again, and nobody is told of it.
            Put::Done if self.until.is_some() => {
                if self.held.insert(address) {
                    self.announcing = Some(Announcing::begin(now));
                    self.handle_tick(now);
                }
            }
            Put::Done | Put::Late => {}
            Put::Failed(what) => {
                self.held.remove(&address);
                self.refused = Some(Fault::Refused { address, what });
            }
        }
    }

    /// Somebody else has removed an address. The next hold puts it back; whether it was held.
    pub fn handle_gone(&mut self, address: IpAddr) -> bool {
        self.held.remove(&address)
    }

    pub fn handle_link(&mut self, link: Link, now: BootMs) {
        let before = std::mem::replace(&mut self.link, link);
        if link.fault().is_some() {
            if self.until.is_some() {
                self.handle_release();
            }
        } else if let Some(announcing) = &mut self.announcing
            && before != link
        {
            // Other hardware has the address now.
            *announcing = Announcing::begin(now);
        }
        self.handle_tick(now);
    }

    pub fn handle_tick(&mut self, now: BootMs) {
        if self.until.is_some_and(|until| until <= now) {
            self.handle_release();
        }
        let Some(announcing) = &mut self.announcing else {
            return;
        };
        if announcing.next > now {
            return;
        }
        // What was missed while the process stood still is said once.
        while announcing.next <= now {
            announcing.rounds += 1;
            announcing.next = match ANNOUNCE_AT.get(announcing.rounds) {
                Some(&after) => announcing.since + after,
                None => announcing.next + ANNOUNCE_EVERY,
            };
        }
        let announcements = self.held.iter();
        self.actions
            .extend(announcements.map(|&address| Action::Announce { address }));
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Keeper::handle_tick`] is to be called; `None`: something else comes first.
    pub fn poll_timeout(&self) -> Option<BootMs> {
        let announce = self.announcing.map(|announcing| announcing.next);
        self.until.into_iter().chain(announce).min()
    }

    /// All addresses are here by our hand.
    pub fn holds(&self) -> bool {
        self.until.is_some() && self.held.len() == self.addresses.len()
    }

    pub fn report(&self) -> Report {
        Report {
            interface: self.interface.clone(),
            addresses: self.addresses.clone(),
            holds: self.holds(),
            fault: self.link.fault().or_else(|| self.refused.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 5));
    const V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5));
    const UP: Link = Link::Up {
        hardware: [2, 0, 0, 0, 0, 1],
    };

    /// A keeper that has done away with what was left, and an obedient kernel.
    struct World {
        keeper: Keeper,
        now: BootMs,
        kernel: BTreeSet<IpAddr>,
        announced: Vec<(i64, IpAddr)>,
    }

    impl World {
        fn new() -> World {
            let mut world = World {
                keeper: Keeper::new("eth0".to_owned(), vec![V4, V6], UP),
                now: BootMs(0),
                kernel: BTreeSet::from([V4]),
                announced: Vec::new(),
            };
            world.obey();
            assert_eq!(world.kernel, BTreeSet::new(), "what was left is removed");
            world
        }

        fn obey(&mut self) {
            while let Some(action) = self.keeper.poll_action() {
                match action {
                    Action::Put { address, before } => {
                        let put = if self.now < before {
                            self.kernel.insert(address);
                            Put::Done
                        } else {
                            Put::Late
                        };
                        self.keeper.handle_put(address, put, self.now);
                    }
                    Action::Remove { address } => {
                        self.kernel.remove(&address);
                    }
                    Action::Announce { address } => self.announced.push((self.now.0, address)),
                }
            }
        }

        fn hold(&mut self, until: i64) -> Result<(), Refusal> {
            let said = self.keeper.handle_hold(BootMs(until), self.now);
            self.obey();
            said
        }

        fn go_to(&mut self, at: i64) {
            while let Some(due) = self.keeper.poll_timeout().filter(|due| due.0 <= at) {
                assert!(
                    due > self.now || self.now.0 == 0,
                    "it stands still at {due:?}"
                );
                self.now = due;
                self.keeper.handle_tick(self.now);
                self.obey();
            }
            self.now = BootMs(at);
        }

        fn holds(&self) -> bool {
            let holds = self.keeper.report().holds;
            assert_eq!(holds, self.kernel.len() == 2, "{:?}", self.kernel);
            holds
        }
    }

    #[test]
    fn a_hold_is_obeyed_to_its_end_and_no_longer() {
        let mut world = World::new();
        assert_eq!(world.hold(900), Ok(()));
        assert!(world.holds());
        world.go_to(450);
        assert_eq!(world.hold(1350), Ok(()));
        world.go_to(1349);
        assert!(world.holds());
        world.go_to(1350);
        assert!(!world.holds());
        assert_eq!(world.kernel, BTreeSet::new());
        assert_eq!(world.keeper.poll_timeout(), None);
    }

    #[test]
    fn a_hold_that_is_over_or_reaches_too_far_is_refused() {
        let mut world = World::new();
        world.go_to(10_000);
        for (until, expected) in [
            (9_000, Err(Refusal::Past(DurationMs(1_000)))),
            (10_000, Err(Refusal::Past(DurationMs(0)))),
            (12_001, Err(Refusal::Ahead(DurationMs(2_001)))),
            (10_001, Ok(())),
            (12_000, Ok(())),
        ] {
            assert_eq!(world.hold(until), expected, "{until}");
            assert_eq!(world.holds(), expected.is_ok(), "{until}");
        }
    }

    #[test]
    fn a_process_that_was_stopped_puts_nothing_back() {
        let mut world = World::new();
        world.hold(900).unwrap();
        // It wakes late, with more of the coordinator's words unread.
        world.now = BootMs(5_000);
        for until in [1350, 1800] {
            assert!(matches!(world.hold(until), Err(Refusal::Past(_))));
            assert_eq!(world.kernel, BTreeSet::new());
        }
        // It is stopped between its look at the clock and the call.
        world.keeper.handle_hold(BootMs(5_900), world.now).unwrap();
        let put = world.keeper.poll_action().unwrap();
        assert_eq!(
            put,
            Action::Put {
                address: V4,
                before: BootMs(5_900)
            }
        );
        world.kernel.insert(V4);
        world.now = BootMs(9_000);
        world.announced.clear();
        world.keeper.handle_put(V4, Put::Done, world.now);
        world.obey();
        assert_eq!(world.announced, []);
        assert_eq!(world.kernel, BTreeSet::new());
        assert!(!world.holds());
    }

    #[test]
    fn a_release_is_obeyed_at_once() {
        let mut world = World::new();
        world.hold(900).unwrap();
        world.keeper.handle_release();
        world.obey();
        assert!(!world.holds());
        assert_eq!(world.kernel, BTreeSet::new());
        assert_eq!(world.keeper.poll_timeout(), None);
    }

    #[test]
    fn neighbours_are_told_again_and_again() {
        let mut world = World::new();
        for at in (0..70_000).step_by(450) {
            world.go_to(at);
            world.hold(at + 900).unwrap();
        }
        let told: Vec<i64> = world
            .announced
            .iter()
            .filter(|(_, address)| *address == V4)
            .map(|(at, _)| *at)
            .collect();
        // The second address is put a moment after the first, and begins the row anew.
        assert_eq!(
            told,
            [0, 0, 500, 1_000, 2_000, 3_000, 5_000, 35_000, 65_000]
        );
        let v6 = world.announced.iter().filter(|(_, address)| *address == V6);
        assert_eq!(v6.count(), told.len() - 1);
    }

    #[test]
    fn what_somebody_removes_is_put_back_and_told_anew() {
        let mut world = World::new();
        world.hold(900).unwrap();
        world.go_to(450);
        world.kernel.remove(&V4);
        assert!(world.keeper.handle_gone(V4));
        assert!(!world.keeper.handle_gone(V4), "once");
        assert!(!world.holds());
        world.announced.clear();
        world.hold(1_350).unwrap();
        assert!(world.holds());
        assert_eq!(world.announced, [(450, V4), (450, V6)]);
    }

    #[test]
    fn a_link_that_is_down_holds_nothing_and_says_why() {
        for (link, fault) in [
            (Link::NoCarrier, Fault::NoCarrier),
            (Link::Down, Fault::Down),
            (Link::Missing, Fault::Missing),
            (Link::NotEthernet, Fault::NotEthernet),
        ] {
            let mut world = World::new();
            world.hold(900).unwrap();
            world.keeper.handle_link(link, world.now);
            world.obey();
            assert!(!world.holds());
            assert_eq!(world.kernel, BTreeSet::new());
            assert_eq!(world.keeper.report().fault, Some(fault.clone()));
            assert_eq!(world.hold(900), Err(Refusal::Fault(fault)));
            world.keeper.handle_link(UP, world.now);
            assert_eq!(world.keeper.report().fault, None);
            world.announced.clear();
            assert_eq!(world.hold(900), Ok(()));
            assert!(world.holds() && !world.announced.is_empty());
        }
    }

    #[test]
    fn neighbours_are_told_of_other_hardware() {
        let mut world = World::new();
        world.hold(2_000).unwrap();
        world.go_to(1_200);
        world.announced.clear();
        world.keeper.handle_link(UP, world.now);
        world.obey();
        assert_eq!(world.announced, []);
        let hardware = [2, 0, 0, 0, 0, 2];
        world.keeper.handle_link(Link::Up { hardware }, world.now);
        world.obey();
        assert_eq!(world.announced, [(1_200, V4), (1_200, V6)]);
    }

    #[test]
    fn what_the_kernel_refuses_is_said_until_it_no_longer_does() {
        let mut world = World::new();
        world.keeper.handle_hold(BootMs(900), world.now).unwrap();
        while let Some(action) = world.keeper.poll_action() {
            if let Action::Put { address, .. } = action {
                let what = "not permitted".to_owned();
                let put = if address == V4 {
                    Put::Failed(what)
                } else {
                    Put::Done
                };
                world.keeper.handle_put(address, put, world.now);
            }
        }
        let report = world.keeper.report();
        assert!(!report.holds);
        assert!(
            matches!(report.fault, Some(Fault::Refused { address: V4, .. })),
            "{report:?}"
        );
        world.hold(900).unwrap();
        let report = world.keeper.report();
        assert!(report.holds && report.fault.is_none(), "{report:?}");
    }
}
