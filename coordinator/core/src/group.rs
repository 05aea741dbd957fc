//! What may be wrong with the machines of the control group, told of by whoever leads.
//!
//! Each may be lost without anything being lost with it, so nothing else would say that one is: the
//! others go on, until the next is lost. The shell says how each was found last; what of that is a
//! matter for a person, and for how long, is decided here.

use ledger::command::{AlertKind, On, Over, RaiseAlert};
use protocol::{BootMs, DurationMs, Lifetime, Now};

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
    /// When the certificate is good that it has shown last.
    pub certificate: Option<Lifetime>,
    /// Digest of the classes of hosts that it goes by, where they are others than the leader's.
    pub other_classes: Option<String>,
    /// Why its machine is not what a control machine should be.
    pub unfit: Option<String>,
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
    ails: fn(&SeenMember, Now) -> Option<String>,
    /// It follows from the wall clock, and where that is not believed nothing is known of it.
    by_wall_clock: bool,
    /// What to do about it, or what it means for others.
    remedy: &'static str,
}

const WATCHES: [Watch; 7] = [
    Watch {
        kind: AlertKind::MemberMissing,
        // A machine that is restarted is away for less.
        after: DurationMs::from_secs(60),
        ails: is_missing,
        by_wall_clock: false,
        remedy: "start it again; what one more loss would mean says `matins cluster status`",
    },
    Watch {
        kind: AlertKind::MemberBehind,
        // It catches up with fewer, and with more it is given a snapshot; both take less.
        after: DurationMs::from_secs(120),
        ails: is_behind,
        by_wall_clock: false,
        remedy: "it would take over late; see to its disk and to the network to it",
    },
    Watch {
        kind: AlertKind::RoomShort,
        after: DurationMs::ZERO,
        ails: is_short_of_room,
        by_wall_clock: false,
        remedy: "make room; when a disk is full its machine ends",
    },
    Watch {
        kind: AlertKind::AddressAway,
        // A cable that is put back, or a keeper that is restarted, is away for less.
        after: DurationMs::from_secs(15),
        ails: is_without_address,
        by_wall_clock: false,
        remedy: "people and programs that ask for that address find nobody",
    },
    Watch {
        kind: AlertKind::CertificateEnds,
        // Whoever has begun to lead has met every other member that is there by then.
        after: DurationMs::from_secs(60),
        ails: is_about_to_be_unknown,
        by_wall_clock: true,
        remedy: "the log of the machine says why it is not renewed: see that a coordinator has ca.key, or \
                 issue it again under the same name and number (`matins ca issue`), copy it over and \
                 restart its process",
    },
    Watch {
        kind: AlertKind::ClassesDiffer,
        // A new class file is put on one machine after the other.
        after: DurationMs::from_secs(300),
        ails: goes_by_other_classes,
        by_wall_clock: false,
        remedy: "were it to lead, hosts would be of other classes: give all coordinators the same class file \
                 and restart those that had another",
    },
    Watch {
        kind: AlertKind::MemberUnfit,
        after: DurationMs::from_secs(60),
        ails: is_unfit,
        by_wall_clock: false,
        remedy: "it takes part all the same; `matins classes --here coordinator` on that machine says more",
    },
];

fn is_missing(member: &SeenMember, now: Now) -> Option<String> {
    let who = member.who();
    match member.heard {
        Some(heard) if now.boot - heard < HEARD_WITHIN => None,
        Some(_) => Some(format!("{who} is not heard any more")),
        None => Some(format!(
            "{who} has not been heard by the coordinator that leads"
        )),
    }
}

fn is_behind(member: &SeenMember, _: Now) -> Option<String> {
    let behind = member.behind.filter(|&behind| behind >= BEHIND_MIN)?;
    let who = member.who();
    Some(format!(
        "{who} is heard, and lacks {behind} entries of the log"
    ))
}

fn is_short_of_room(member: &SeenMember, _: Now) -> Option<String> {
    let mebibytes = member.spare_bytes? >> 20;
    let who = member.who();
    Some(format!(
        "the ledger's disk of {who} has {mebibytes} MiB left"
    ))
}

fn is_without_address(member: &SeenMember, _: Now) -> Option<String> {
    let trouble = member.address_trouble.as_ref()?;
    let who = member.who();
    Some(format!(
        "the leader's address cannot be on {who}: {trouble}"
    ))
}

/// The transport ends every connection with the certificates that it rests on.
fn is_about_to_be_unknown(member: &SeenMember, now: Now) -> Option<String> {
    let ending = |lifetime: &Lifetime| now.wall >= lifetime.warns_from();
    let until = member.certificate.filter(ending)?.until;
    let who = member.who();
    Some(format!(
        "the certificate of {who} ends at {until}, and its connections with it"
    ))
}

fn goes_by_other_classes(member: &SeenMember, _: Now) -> Option<String> {
    let digest = member.other_classes.as_ref()?;
    let who = member.who();
    Some(format!(
        "{who} goes by other classes of hosts (digest {digest}) than the coordinator that leads"
    ))
}

fn is_unfit(member: &SeenMember, _: Now) -> Option<String> {
    let unfit = member.unfit.as_ref()?;
    let who = member.who();
    Some(format!("{who} is not of class coordinator: {unfit}"))
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
            let clock_is_believed = self.clock_verdict(now).may_fire();
            for (place, watch) in WATCHES.iter().enumerate() {
                if clock_is_believed || !watch.by_wall_clock {
                    self.tell_of_members(place, watch, seen, now);
                }
            }
        }
        self.stir(now);
    }

    fn tell_of_members(&mut self, place: usize, watch: &Watch, seen: &[SeenMember], now: Now) {
        let begun = self.watched.begun;
        let ailing: Vec<(u64, String)> = seen
            .iter()
            .filter_map(|member| Some((member.node, (watch.ails)(member, now)?)))
            .collect();
        let nodes: Vec<u64> = ailing.iter().map(|&(node, _)| node).collect();
        let matter = &mut self.watched.matters[place];
        let for_long = matter.note(&nodes, watch.after, now.boot);
        if for_long.is_empty() {
            matter.told = None;
            // What a new leader finds open stays so until it has looked for long enough itself.
            if nodes.is_empty() && !matter.settled && now.boot - begun >= watch.after {
                matter.settled = true;
                self.settle_alerts(watch.kind, Over::These(vec![On::All]), now);
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
