//! What may be wrong with the machines of the control group, told of by whoever leads.
//!
//! Each may be lost without anything being lost with it, so nothing else would say that one is: the
//! others go on, until the next is lost. The shell says how each was found last; what of that is a
//! matter for a person, and for how long, is decided here.

use ledger::command::{AlertKind, On, Over, RaiseAlert};
use protocol::{BootMs, DurationMs, Now};

use crate::alerts::REMIND_EVERY;
use crate::core::Core;

/// Not to have been heard for less is a hiccup.
const HEARD_WITHIN: DurationMs = DurationMs::from_secs(5);

/// Whoever lacks so many entries would take over late.
const BEHIND_MIN: u64 = 1_000;

/// A member of the control group as it was found last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenMember {
    pub node: u64,
    pub name: String,
    /// When it was last heard. The one that leads is heard whenever it looks.
    pub heard: Option<BootMs>,
    /// Entries of the log that it lacks, where that is known.
    pub behind: Option<u64>,
    /// What is left of its disk, where that is too little.
    pub spare_bytes: Option<u64>,
    /// Why the leader's address cannot be on it, where it is to be.
    pub address_trouble: Option<String>,
}

impl SeenMember {
    fn who(&self) -> String {
        format!("{} (node {})", self.name, self.node)
    }
}

/// One thing that may be wrong with a member. Those that it is wrong with are told of in one alert.
struct Watch {
    kind: AlertKind,
    /// For so long it is no matter for a person yet.
    after: DurationMs,
    /// Whether it is wrong now, in words that name the member.
    ails: fn(&SeenMember, BootMs) -> Option<String>,
    /// What to do about it, or what it means for others.
    remedy: &'static str,
}

const WATCHES: [Watch; 4] = [
    Watch {
        kind: AlertKind::MemberMissing,
        // A machine that is restarted is away for less.
        after: DurationMs::from_secs(60),
        ails: is_missing,
        remedy: "start it again; what one more loss would mean says `matins cluster status`",
    },
    Watch {
        kind: AlertKind::MemberBehind,
        // It catches up with fewer, and with more it is given a snapshot; both take less.
        after: DurationMs::from_secs(120),
        ails: is_behind,
        remedy: "it would take over late; see to its disk and to the network to it",
    },
    Watch {
        kind: AlertKind::RoomShort,
        after: DurationMs::ZERO,
        ails: is_short_of_room,
        remedy: "make room; when a disk is full its machine ends",
    },
    Watch {
        kind: AlertKind::AddressAway,
        // A cable that is put back, or a keeper that is restarted, is away for less.
        after: DurationMs::from_secs(15),
        ails: is_without_address,
        remedy: "people and programs that ask for that address find nobody",
    },
];

fn is_missing(member: &SeenMember, now: BootMs) -> Option<String> {
    let who = member.who();
    match member.heard {
        Some(heard) if now - heard < HEARD_WITHIN => None,
        Some(_) => Some(format!("{who} is not heard any more")),
        None => Some(format!(
            "{who} has not been heard by the coordinator that leads"
        )),
    }
}

fn is_behind(member: &SeenMember, _: BootMs) -> Option<String> {
    let behind = member.behind.filter(|&behind| behind >= BEHIND_MIN)?;
    let who = member.who();
    Some(format!(
        "{who} is heard, and lacks {behind} entries of the log"
    ))
}

fn is_short_of_room(member: &SeenMember, _: BootMs) -> Option<String> {
    let mebibytes = member.spare_bytes? >> 20;
    let who = member.who();
    Some(format!(
        "the ledger's disk of {who} has {mebibytes} MiB left"
    ))
}

fn is_without_address(member: &SeenMember, _: BootMs) -> Option<String> {
    let trouble = member.address_trouble.as_ref()?;
    let who = member.who();
    Some(format!(
        "the leader's address cannot be on {who}: {trouble}"
    ))
}

#[derive(Debug)]
pub(crate) struct Watched {
    begun: BootMs,
    /// What was found, watch by watch.
    matters: [Matter; WATCHES.len()],
}

#[derive(Debug, Default)]
struct Matter {
    /// Since when something is wrong with each of these.
    ailing: Vec<(u64, BootMs)>,
    /// Of whom a person was told, and when.
    told: Option<(BootMs, Vec<u64>)>,
    /// What was open of it before is over, and that is said.
    settled: bool,
}

impl Watched {
    pub(crate) fn new(now: BootMs) -> Watched {
        Watched {
            begun: now,
            matters: Default::default(),
        }
    }
}

impl Matter {
    /// Who has been ailing for long enough.
    fn note(&mut self, ailing: &[u64], after: DurationMs, now: BootMs) -> Vec<u64> {
        self.ailing.retain(|(node, _)| ailing.contains(node));
        for &node in ailing {
            if !self.ailing.iter().any(|&(known, _)| known == node) {
                self.ailing.push((node, now));
            }
        }
        let for_long = self
            .ailing
            .iter()
            .filter(|&&(_, since)| now - since >= after);
        for_long.map(|&(node, _)| node).collect()
    }

    /// Whether a person is to be told of these now; notes that they were.
    fn tell(&mut self, of: &[u64], now: BootMs) -> bool {
        let tells = match &self.told {
            Some((at, known)) => known != of || now - *at >= REMIND_EVERY,
            None => true,
        };
        if tells {
            self.told = Some((now, of.to_vec()));
            self.settled = false;
        }
        tells
    }
}

impl Core {
    /// How the members of the control group were found, this one among them; to be said every few
    /// seconds.
    pub fn handle_group(&mut self, seen: &[SeenMember], now: Now) {
        self.observe(now);
        if self.epoch().is_some() {
            for (place, watch) in WATCHES.iter().enumerate() {
                self.tell_of_members(place, watch, seen, now);
            }
        }
        self.stir(now);
    }

    fn tell_of_members(&mut self, place: usize, watch: &Watch, seen: &[SeenMember], now: Now) {
        let begun = self.watched.begun;
        let ailing: Vec<(u64, String)> = seen
            .iter()
            .filter_map(|member| Some((member.node, (watch.ails)(member, now.boot)?)))
            .collect();
        let nodes: Vec<u64> = ailing.iter().map(|&(node, _)| node).collect();
        let matter = &mut self.watched.matters[place];
        let for_long = matter.note(&nodes, watch.after, now.boot);
        if for_long.is_empty() {
            matter.told = None;
            // What a new leader finds open stays so until it has looked for long enough itself.
            if nodes.is_empty() && !matter.settled && now.boot - begun >= watch.after {
                matter.settled = true;
                self.settle_alerts(watch.kind, Over::AllBut(Vec::new()), now);
            }
            return;
        }
        if !matter.tell(&for_long, now.boot) {
            return;
        }
        let told: Vec<&str> = ailing
            .iter()
            .filter(|(node, _)| for_long.contains(node))
            .map(|(_, text)| text.as_str())
            .collect();
        let text = format!("{}: {}", told.join("; "), watch.remedy);
        self.alert(
            RaiseAlert {
                kind: watch.kind,
                on: On::All,
                text,
            },
            now,
        );
    }
}
