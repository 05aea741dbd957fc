//! What may be wrong with the machines of the control group, told of by whoever leads.
//!
//! Each may be lost without anything being lost with it, so nothing else would say that one is: the
//! others go on, until the next is lost. The shell says how each was found last; what of that is a
//! matter for a person, and for how long, is decided here.

use ledger::command::{AlertKind, On, Over, RaiseAlert};
use protocol::{BootMs, DurationMs, Now};

use crate::core::Core;

/// A machine that is restarted is away for less.
const MISSING_AFTER: DurationMs = DurationMs::from_secs(60);

/// Not to have been heard for less is a hiccup.
const HEARD_WITHIN: DurationMs = DurationMs::from_secs(5);

/// Whoever lacks so many entries would take over late.
const BEHIND_MIN: u64 = 1_000;

/// It catches up with fewer, and with more it is given a snapshot; both take less.
const BEHIND_AFTER: DurationMs = DurationMs::from_secs(120);

/// A cable that is put back, or a keeper that is restarted, is away for less.
const ADDRESS_AFTER: DurationMs = DurationMs::from_secs(15);

/// A person is reminded this often.
const REMIND: DurationMs = DurationMs(86_400_000);

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

/// Everything that is told of a member, each a matter of its own.
const KINDS: [AlertKind; 4] = [
    AlertKind::MemberMissing,
    AlertKind::MemberBehind,
    AlertKind::RoomShort,
    AlertKind::AddressAway,
];

#[derive(Debug)]
pub(crate) struct Watched {
    begun: BootMs,
    matters: [Matter; KINDS.len()],
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
            Some((at, known)) => known != of || now - *at >= REMIND,
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
            for (place, kind) in KINDS.into_iter().enumerate() {
                self.tell_of_members(place, kind, seen, now);
            }
        }
        self.stir(now);
    }

    fn tell_of_members(&mut self, place: usize, kind: AlertKind, seen: &[SeenMember], now: Now) {
        let begun = self.watched.begun;
        let ailing: Vec<(u64, String)> = seen
            .iter()
            .filter_map(|member| Some((member.node, ails(kind, member, now.boot)?)))
            .collect();
        let nodes: Vec<u64> = ailing.iter().map(|&(node, _)| node).collect();
        let matter = &mut self.watched.matters[place];
        let for_long = matter.note(&nodes, after(kind), now.boot);
        if for_long.is_empty() {
            matter.told = None;
            // What a new leader finds open stays so until it has looked for long enough itself.
            if nodes.is_empty() && !matter.settled && now.boot - begun >= after(kind) {
                matter.settled = true;
                self.settle_alerts(kind, Over::AllBut(Vec::new()), now);
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
        let text = format!("{}: {}", told.join("; "), remedy(kind));
        self.alert(
            RaiseAlert {
                kind,
                on: On::All,
                text,
            },
            now,
        );
    }
}

fn after(kind: AlertKind) -> DurationMs {
    match kind {
        AlertKind::MemberMissing => MISSING_AFTER,
        AlertKind::MemberBehind => BEHIND_AFTER,
        AlertKind::AddressAway => ADDRESS_AFTER,
        _ => DurationMs(0),
    }
}

/// What of this kind is wrong with a member now, in words.
fn ails(kind: AlertKind, member: &SeenMember, now: BootMs) -> Option<String> {
    let who = format!("{} (node {})", member.name, member.node);
    match kind {
        AlertKind::MemberMissing => match member.heard {
            Some(heard) if now - heard < HEARD_WITHIN => None,
            Some(_) => Some(format!("{who} is not heard any more")),
            None => Some(format!(
                "{who} has not been heard by the coordinator that leads"
            )),
        },
        AlertKind::MemberBehind => {
            let behind = member.behind.filter(|&behind| behind >= BEHIND_MIN)?;
            Some(format!(
                "{who} is heard, and lacks {behind} entries of the log"
            ))
        }
        AlertKind::RoomShort => {
            let mebibytes = member.spare_bytes? >> 20;
            Some(format!(
                "the ledger's disk of {who} has {mebibytes} MiB left"
            ))
        }
        AlertKind::AddressAway => {
            let trouble = member.address_trouble.as_ref()?;
            Some(format!(
                "the leader's address cannot be on {who}: {trouble}"
            ))
        }
        _ => None,
    }
}

fn remedy(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::MemberMissing => {
            "start it again; what one more loss would mean says `matins cluster status`"
        }
        AlertKind::MemberBehind => {
            "it would take over late; see to its disk and to the network to it"
        }
        AlertKind::RoomShort => "make room; when a disk is full its machine ends",
        _ => "people and programs that ask for that address find nobody",
    }
}
