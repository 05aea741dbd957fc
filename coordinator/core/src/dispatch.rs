//! Why a shard finds no place, in data and in words.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ledger::{Bar, Cordon};
use protocol::{AgentId, DurationMs, Label, ResourceName, SessionId};

use crate::line::has_all;

/// A host as dispatch sees it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub agent_id: AgentId,
    pub standing: Standing,
    pub slots: u32,
    /// Leases it holds, and those on their way to it.
    pub used: u32,
    pub labels: Arc<[Label]>,
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
    /// Hosts without all of the labels.
    pub unlabelled: u32,
    /// How many of those lack which.
    pub lacking: BTreeMap<Label, u32>,
    pub no_free_slot: u32,
    /// Hosts that could take it.
    pub free: u32,
    /// What is used up that it needs.
    pub exhausted: Vec<Exhausted>,
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

/// Counts the hosts by what rules each out for a shard that asks for these labels.
pub fn survey(hosts: impl IntoIterator<Item = Host>, labels: &[Label]) -> Report {
    let mut report = Report::default();
    for host in hosts {
        report.considered += 1;
        match host.standing {
            Standing::Barred(Bar::Revoked) => report.revoked += 1,
            Standing::Barred(Bar::Quarantined) => report.quarantined += 1,
            Standing::Cordoned(Cordon::Cordoned) => report.cordoned += 1,
            Standing::Cordoned(Cordon::Draining | Cordon::DrainingNow) => report.draining += 1,
            Standing::Offline => report.offline += 1,
            Standing::Ready(_) if !has_all(&host.labels, labels) => {
                report.unlabelled += 1;
                let lacks = |label: &&Label| host.labels.binary_search(label).is_err();
                for label in labels.iter().filter(lacks) {
                    *report.lacking.entry(label.clone()).or_default() += 1;
                }
            }
            Standing::Ready(_) if host.used >= host.slots => report.no_free_slot += 1,
            Standing::Ready(_) => report.free += 1,
        }
    }
    report
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
        for (count, what) in [
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
    use super::*;

    fn host(id: i64, standing: Standing, used: u32, labels: &[&str]) -> Host {
        Host {
            agent_id: AgentId(id),
            standing,
            slots: 4,
            used,
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn every_host_is_counted_under_the_first_rule_that_rules_it_out() {
        let ready = Standing::Ready(SessionId(1));
        let hosts = [
            host(1, Standing::Offline, 0, &[]),
            host(2, Standing::Barred(Bar::Quarantined), 0, &[]),
            host(3, Standing::Barred(Bar::Revoked), 0, &[]),
            host(4, Standing::Cordoned(Cordon::Cordoned), 0, &[]),
            host(5, Standing::Cordoned(Cordon::DrainingNow), 0, &[]),
            host(6, ready, 4, &["ssd"]),
            host(7, ready, 4, &["jdk17", "ssd"]),
            host(8, ready, 0, &[]),
        ];
        let labels: Vec<Label> = ["jdk17", "ssd"].map(|label| label.parse().unwrap()).into();
        let report = survey(hosts.clone(), &labels);
        assert_eq!(
            report.to_string(),
            "8 hosts considered: 1 revoked, 1 quarantined, 1 cordoned, 1 draining, 1 offline, \
             2 without all labels (lacking `jdk17` 2, `ssd` 1), 1 without a free slot"
        );
        assert_eq!(
            survey(hosts, &labels[1..]).to_string(),
            "8 hosts considered: 1 revoked, 1 quarantined, 1 cordoned, 1 draining, 1 offline, \
             1 without label `ssd`, 2 without a free slot"
        );
        assert_eq!(survey([], &[]).to_string(), "no host has ever attached");
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
