//! Why a shard finds no place, in data and in words.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jobs::{show_milli, show_size_roughly};
use ledger::{Bar, Cordon};
use profiles::classes::{Classes, FindingKind, Standing as InClass};
use profiles::matching::{
    Amounts, Ask, Dimension, Lack, Offer, Strain, judge, left_in, without_margin,
};
use protocol::{AgentId, ClassName, DurationMs, HostFacts, Label, ResourceName, SessionId};

/// A host as dispatch sees it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub agent_id: AgentId,
    pub standing: Standing,
    pub labels: Arc<[Label]>,
    pub facts: Arc<HostFacts>,
    /// That it is in. In order.
    pub classes: Arc<[ClassName]>,
    pub offer: Offer,
    /// For leases that it holds, and for those on their way to it.
    pub set_aside: Amounts,
    pub strain: Strain,
}

/// What people and rules have said comes before what can be seen: an operator who has taken a host
/// out of service wants to read that, be it on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Attached, and heard within the last three beats.
    Ready(SessionId),
    Offline,
    Cordoned(Cordon),
    Barred(Bar),
}

/// Why a shard found no place: each host is counted under the first rule that rules it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub considered: u32,
    pub revoked: u32,
    pub quarantined: u32,
    pub cordoned: u32,
    pub draining: u32,
    pub offline: u32,
    /// Hosts that are not of the class.
    pub unclassed: u32,
    /// Why they are not, where a class is asked for.
    pub class: Option<ClassLack>,
    /// Hosts without all of the labels.
    pub unlabelled: u32,
    /// How many of those lack which.
    pub lacking: BTreeMap<Label, u32>,
    /// Hosts of which an array is being rebuilt, where it is their disk that is asked for.
    pub rebuilding: u32,
    /// Hosts where programs wait for memory, where some is asked for.
    pub pressed: u32,
    /// Hosts that have not so much, or not so much left, by dimension; but for slots.
    pub short: BTreeMap<(Dimension, Shortage), Short>,
    pub no_free_slot: u32,
    /// Hosts that could take it.
    pub free: u32,
    /// What is used up that it needs.
    pub exhausted: Vec<Exhausted>,
}

/// A class, and why hosts are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLack {
    pub class: ClassName,
    /// Whether there is such a class.
    pub exists: bool,
    /// How many hosts are kept out by what, in words.
    pub reasons: BTreeMap<String, u32>,
}

/// In which way a host has not what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// Its agent has not told how much it has.
    Unknown,
    /// Were nothing on it, it would be too small.
    TooSmall,
    /// Others have what it has.
    Exhausted,
}

impl Shortage {
    pub const fn as_str(self) -> &'static str {
        match self {
            Shortage::Unknown => "unknown",
            Shortage::TooSmall => "too_small",
            Shortage::Exhausted => "exhausted",
        }
    }
}

/// Hosts that lack so much of one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short {
    pub hosts: u32,
    /// Thousandths of a processor, bytes, or places at the disk.
    pub asked: u64,
    /// The most that any of them has, or has left.
    pub most: u64,
}

/// Too little is left of something that shards share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub resource: ResourceName,
    pub wanted: u32,
    pub in_use: u32,
    /// `None`: there is no such resource any more.
    pub capacity: Option<u32>,
    /// Enough would be left, but a shard before it waits for more.
    pub behind_another: bool,
}

impl Exhausted {
    /// Nothing that is given back would be enough.
    pub(crate) fn is_beyond_capacity(&self) -> bool {
        self.wanted > self.capacity.unwrap_or(0)
    }
}

/// What a pending shard waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The rest of its backoff.
    BacksOff(DurationMs),
    /// A grant of it is on its way.
    InHand,
    /// The end of an earlier attempt has been announced, and is about to be told.
    Receipt,
    /// What was decided about it was refused, and is tried again after so long.
    Rests(DurationMs),
    /// The ledger was restored, and every lease of before has run out after so long.
    Restored(DurationMs),
    Unreadable(String),
    Place(Report),
}

/// Counts the hosts by what rules each out for a shard that asks for this.
pub fn survey(hosts: impl IntoIterator<Item = Host>, ask: &Ask, classes: &Classes) -> Report {
    let mut report = Report::of_nobody(ask, classes);
    for host in hosts {
        report.considered += 1;
        match host.standing {
            Standing::Barred(Bar::Revoked) => report.revoked += 1,
            Standing::Barred(Bar::Quarantined) => report.quarantined += 1,
            Standing::Cordoned(Cordon::Cordoned | Cordon::Unwell) => report.cordoned += 1,
            Standing::Cordoned(Cordon::Draining | Cordon::DrainingNow) => report.draining += 1,
            Standing::Offline => report.offline += 1,
            Standing::Ready(_) => report.count_ready(&host, ask, classes),
        }
    }
    report
}

impl Report {
    pub(crate) fn of_nobody(ask: &Ask, classes: &Classes) -> Report {
        let class = ask.filter.class.as_ref();
        Report {
            class: class.map(|class| ClassLack {
                class: class.clone(),
                exists: classes.class(class).is_some(),
                reasons: BTreeMap::new(),
            }),
            ..Report::default()
        }
    }

    /// Under what rules it out though it is open and heard, if anything does.
    pub(crate) fn count_ready(&mut self, host: &Host, ask: &Ask, classes: &Classes) {
        let bearing = (&host.offer, &host.strain);
        match judge(ask, &host.classes, &host.labels, bearing, &host.set_aside) {
            None => self.free += 1,
            Some(Lack::Class) => {
                self.unclassed += 1;
                if let Some(lack) = &mut self.class
                    && let Some(class) = classes.class(&lack.class)
                {
                    let why = why_not(&class.standing(&host.facts));
                    *lack.reasons.entry(why).or_default() += 1;
                }
            }
            Some(Lack::Labels) => {
                self.unlabelled += 1;
                let lacks = |label: &&Label| host.labels.binary_search(label).is_err();
                for label in ask.filter.labels.iter().filter(lacks) {
                    *self.lacking.entry(label.clone()).or_default() += 1;
                }
            }
            Some(Lack::Rebuilding) => self.rebuilding += 1,
            Some(Lack::Pressed) => self.pressed += 1,
            Some(Lack::TooSmall(Dimension::Slots) | Lack::Exhausted(Dimension::Slots)) => {
                self.no_free_slot += 1;
            }
            Some(Lack::Unknown(dimension)) => {
                self.count_short(dimension, Shortage::Unknown, ask, 0);
            }
            Some(Lack::TooSmall(dimension)) => {
                let has = left_in(&host.offer.amounts(), dimension);
                self.count_short(dimension, Shortage::TooSmall, ask, has);
            }
            Some(Lack::Exhausted(dimension)) => {
                let room = host.strain.room(&host.offer, &host.set_aside);
                let has = left_in(&room, dimension);
                self.count_short(dimension, Shortage::Exhausted, ask, has);
            }
        }
    }

    fn count_short(&mut self, dimension: Dimension, shortage: Shortage, ask: &Ask, has: u64) {
        // Of memory as a manifest says it, without what is set aside beyond that.
        let plain = |amount| match dimension {
            Dimension::Memory => without_margin(amount),
            _ => amount,
        };
        let short = self.short.entry((dimension, shortage)).or_default();
        short.hosts += 1;
        short.asked = plain(left_in(&ask.takes, dimension));
        short.most = short.most.max(plain(has));
    }
}

/// What keeps a host out of a class, in words: the first thing that does.
fn why_not(standing: &InClass) -> String {
    standing.against().next().map_or_else(
        || "it is not known why".to_owned(),
        |finding| match finding.kind {
            FindingKind::Unjudged => format!("cannot be judged, {}", finding.says),
            _ => finding.says.clone(),
        },
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.considered == 0 {
            return f.write_str("no host has ever attached");
        }
        let mut reasons = Vec::new();
        for (count, what) in [
            (self.revoked, "revoked"),
            (self.quarantined, "quarantined"),
            (self.cordoned, "cordoned"),
            (self.draining, "draining"),
            (self.offline, "offline"),
        ] {
            if count > 0 {
                reasons.push(format!("{count} {what}"));
            }
        }
        if let Some(class) = self.class.as_ref().filter(|_| self.unclassed > 0) {
            reasons.push(format!("{} not of class {class}", self.unclassed));
        }
        let mut lacking = self.lacking.iter();
        match (lacking.next(), self.lacking.len()) {
            (Some((label, count)), 1) => {
                reasons.push(format!("{count} without label `{}`", label.as_str()));
            }
            (Some(_), _) => {
                let each = self.lacking.iter();
                let each = each.map(|(label, count)| format!("`{}` {count}", label.as_str()));
                let each: Vec<String> = each.collect();
                reasons.push(format!(
                    "{} without all labels (lacking {})",
                    self.unlabelled,
                    each.join(", ")
                ));
            }
            (None, _) => {}
        }
        let short = self.short.iter();
        reasons.extend(short.map(|((dimension, shortage), short)| {
            format!("{} {}", short.hosts, short.words(*dimension, *shortage))
        }));
        for (count, what) in [
            (self.rebuilding, "with an array that is being rebuilt"),
            (self.pressed, "where programs wait for memory"),
            (self.no_free_slot, "without a free slot"),
            (self.free, "with a free slot"),
        ] {
            if count > 0 {
                reasons.push(format!("{count} {what}"));
            }
        }
        let hosts = if self.considered == 1 {
            "host"
        } else {
            "hosts"
        };
        let reasons = reasons.join(", ");
        write!(f, "{} {hosts} considered: {reasons}", self.considered)?;
        self.exhausted
            .iter()
            .try_for_each(|exhausted| write!(f, "; {exhausted}"))
    }
}

/// `io` (2: the disk is slow; 1: cannot be judged, ...).
impl fmt::Display for ClassLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REASONS_MAX: usize = 3;
        write!(f, "`{}`", self.class.as_str())?;
        if !self.exists {
            return f
                .write_str(" (there is no such class: `matins classes` lists those there are)");
        }
        let mut reasons: Vec<(&String, u32)> = self
            .reasons
            .iter()
            .map(|(why, hosts)| (why, *hosts))
            .collect();
        reasons.sort_by_key(|&(_, hosts)| std::cmp::Reverse(hosts));
        let others: u32 = reasons
            .iter()
            .skip(REASONS_MAX)
            .map(|&(_, hosts)| hosts)
            .sum();
        let mut told: Vec<String> = reasons
            .iter()
            .take(REASONS_MAX)
            .map(|(why, hosts)| format!("{hosts}: {why}"))
            .collect();
        if others > 0 {
            told.push(format!("{others} for other reasons"));
        }
        write!(f, " ({})", told.join("; "))
    }
}

impl Short {
    /// Continues a number of hosts.
    fn words(&self, dimension: Dimension, shortage: Shortage) -> String {
        let amount = |amount: u64| match dimension {
            Dimension::Memory => show_size_roughly(amount),
            Dimension::Cpu => {
                let milli = u32::try_from(amount).unwrap_or(u32::MAX);
                match milli {
                    1000 => "1 processor".to_owned(),
                    milli => format!("{} processors", show_milli(milli)),
                }
            }
            Dimension::Slots | Dimension::Io => amount.to_string(),
        };
        let (asked, most) = (amount(self.asked), amount(self.most));
        let asked = match dimension {
            Dimension::Memory => format!("{asked} of memory"),
            Dimension::Io => "a place at its disk".to_owned(),
            _ => asked,
        };
        match shortage {
            Shortage::Unknown => match dimension {
                Dimension::Slots => "of unknown slots",
                Dimension::Cpu => "of which nobody knows the processors",
                Dimension::Memory => "of which nobody knows the memory",
                Dimension::Io => "of which nobody knows the disk",
            }
            .to_owned(),
            Shortage::TooSmall => format!("too small for {asked} (the largest offers {most})"),
            Shortage::Exhausted if dimension == Dimension::Io => format!("without {asked} left"),
            Shortage::Exhausted => format!("without {asked} left (at most {most})"),
        }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, in_use, wanted) = (self.resource.as_str(), self.in_use, self.wanted);
        match self.capacity {
            None => write!(
                f,
                "there is no resource `{name}`: make it with `matins resource set {name} CAPACITY`"
            ),
            Some(capacity) if self.behind_another => write!(
                f,
                "resource `{name}`: {in_use} of {capacity} in use, and a shard before it waits for more"
            ),
            Some(capacity) if self.is_beyond_capacity() => write!(
                f,
                "resource `{name}`: it needs {wanted}, and the capacity is {capacity}: \
                 `matins resource set {name} {wanted}`, or let the job ask for less"
            ),
            Some(capacity) => write!(
                f,
                "resource `{name}`: {in_use} of {capacity} in use, it needs {wanted}"
            ),
        }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waits::BacksOff(left) => {
                write!(f, "it rests for another {left} before it is tried again")
            }
            Waits::InHand => f.write_str("it is just being granted"),
            Waits::Receipt => f.write_str("the end of an earlier attempt is about to be told"),
            Waits::Rests(left) => write!(f, "the ledger refused it; it is tried again in {left}"),
            Waits::Restored(left) => write!(
                f,
                "the ledger was restored: nothing is granted for another {left}, until every lease of before has run out"
            ),
            Waits::Unreadable(error) => write!(f, "its manifest cannot be read: {error}"),
            Waits::Place(report) => write!(f, "no host can take it now: {report}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jobs::Needs;
    use protocol::host::Value;

    use super::*;

    const READY: Standing = Standing::Ready(SessionId(1));
    const GIB: u64 = 1 << 30;

    fn host(id: i64, standing: Standing, used: u32, labels: &[&str]) -> Host {
        let offer = Offer {
            slots: 4,
            ..Offer::default()
        };
        Host {
            agent_id: AgentId(id),
            standing,
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
            facts: Arc::default(),
            classes: Arc::from([]),
            offer,
            set_aside: Amounts {
                slots: used,
                ..Amounts::default()
            },
            strain: Strain::default(),
        }
    }

    /// A host with facts, of which so much memory is set aside.
    fn known(id: i64, facts: &[(&'static str, Value)], memory_set_aside: u64) -> Host {
        let mut host = host(id, READY, 0, &[]);
        let mut all = HostFacts::default();
        for (name, value) in facts {
            all.know(name, value.clone());
        }
        let classes = Classes::built_in().of(&all);
        host.classes = classes.classes().cloned().collect();
        host.offer = Offer::of(4, &all);
        host.set_aside.memory_bytes = memory_set_aside;
        host.strain = Strain::of(&all, None, &host.offer, &host.set_aside);
        host.facts = Arc::new(all);
        host
    }

    fn ask(class: Option<&str>, labels: &[&str], cpu_milli: u32, memory_bytes: u64) -> Ask {
        Ask::of(&Needs {
            class: class.map(|class| class.parse().unwrap()),
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
            cpu_milli: (cpu_milli > 0).then_some(cpu_milli),
            memory_bytes: (memory_bytes > 0).then_some(memory_bytes),
            ..Needs::default()
        })
    }

    fn said(hosts: &[Host], ask: &Ask) -> String {
        survey(hosts.to_vec(), ask, &Classes::built_in()).to_string()
    }

    #[test]
    fn every_host_is_counted_under_the_first_rule_that_rules_it_out() {
        let hosts = [
            host(1, Standing::Offline, 0, &[]),
            host(2, Standing::Barred(Bar::Quarantined), 0, &[]),
            host(3, Standing::Barred(Bar::Revoked), 0, &[]),
            host(4, Standing::Cordoned(Cordon::Cordoned), 0, &[]),
            host(5, Standing::Cordoned(Cordon::DrainingNow), 0, &[]),
            host(6, READY, 4, &["ssd"]),
            host(7, READY, 4, &["jdk17", "ssd"]),
            host(8, READY, 0, &[]),
        ];
        assert_eq!(
            said(&hosts, &ask(None, &["jdk17", "ssd"], 0, 0)),
            "8 hosts considered: 1 revoked, 1 quarantined, 1 cordoned, 1 draining, 1 offline, \
             2 without all labels (lacking `jdk17` 2, `ssd` 1), 1 without a free slot"
        );
        assert_eq!(
            said(&hosts, &ask(None, &["ssd"], 0, 0)),
            "8 hosts considered: 1 revoked, 1 quarantined, 1 cordoned, 1 draining, 1 offline, \
             1 without label `ssd`, 2 without a free slot"
        );
        assert_eq!(said(&[], &Ask::default()), "no host has ever attached");
    }

    #[test]
    fn what_a_host_is_not_and_what_it_has_not_is_said() {
        let number = Value::Number;
        let disk = |iops| [("disk.random_write_iops", number(iops))];
        let hosts = [
            known(1, &disk(800), 0),
            known(2, &disk(800), 0),
            known(3, &disk(5_000), 0),
            host(4, READY, 0, &[]),
        ];
        assert_eq!(
            said(&hosts, &ask(Some("io"), &[], 0, 0)),
            "4 hosts considered: 3 not of class `io` (2: disk.random_write_iops is 800 and must be at \
             least 1000; 1: cannot be judged, disk.random_write_iops is unknown, the host has not told \
             what it is), 1 with a free slot"
        );
        assert_eq!(
            said(&hosts, &ask(Some("fast"), &[], 0, 0)),
            "4 hosts considered: 4 not of class `fast` \
             (there is no such class: `matins classes` lists those there are)"
        );

        let memory = |gib: i64| {
            [
                ("memory.usable_bytes", number(gib << 30)),
                ("cpu.usable_milli", number(8000)),
            ]
        };
        let hosts = [
            known(1, &memory(16), 0),
            known(2, &memory(64), 59 * GIB),
            known(3, &memory(64), 55 * GIB),
            known(4, &memory(64), 20 * GIB),
            host(5, READY, 0, &[]),
        ];
        assert_eq!(
            said(&hosts, &ask(None, &[], 0, 16 * GIB)),
            "5 hosts considered: 1 of which nobody knows the memory, \
             1 too small for 16GiB of memory (the largest offers 14.1GiB), \
             2 without 16GiB of memory left (at most 4.7GiB), 1 with a free slot"
        );
        assert_eq!(
            said(&hosts[..4], &ask(None, &[], 9500, 0)),
            "4 hosts considered: 4 too small for 9.5 processors (the largest offers 8 processors)"
        );
    }

    #[test]
    fn what_a_host_suffers_from_is_said() {
        let rebuilt = [
            ("disk.random_write_iops", Value::Number(5_000)),
            ("storage.rebuilding", Value::Truth(true)),
        ];
        let mut full = known(2, &rebuilt[..1], 0);
        full.set_aside.io_slots = 2;
        let mut pressed = known(3, &[("memory.usable_bytes", Value::Number(64 << 30))], 0);
        pressed.strain.pressed = true;
        let hosts = [known(1, &rebuilt, 0), full, pressed];
        assert_eq!(
            said(&hosts[..2], &ask(Some("io"), &[], 0, 0)),
            "2 hosts considered: 1 without a place at its disk left, \
             1 with an array that is being rebuilt"
        );
        assert_eq!(
            said(&hosts[2..], &ask(None, &[], 0, GIB)),
            "1 host considered: 1 where programs wait for memory"
        );
    }

    #[test]
    fn what_is_used_up_is_said_with_figures() {
        let exhausted = |capacity, behind_another| Exhausted {
            resource: "ledger-db".parse().unwrap(),
            wanted: 4,
            in_use: 16,
            capacity,
            behind_another,
        };
        let report = Report {
            considered: 1,
            free: 1,
            exhausted: vec![
                exhausted(Some(16), false),
                exhausted(Some(32), true),
                exhausted(Some(3), false),
                exhausted(None, false),
            ],
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "1 host considered: 1 with a free slot; \
             resource `ledger-db`: 16 of 16 in use, it needs 4; \
             resource `ledger-db`: 16 of 32 in use, and a shard before it waits for more; \
             resource `ledger-db`: it needs 4, and the capacity is 3: \
             `matins resource set ledger-db 4`, or let the job ask for less; \
             there is no resource `ledger-db`: make it with `matins resource set ledger-db CAPACITY`"
        );
    }
}
