//! Which host gets a shard, and why none does.

use std::fmt;

use ledger::Bar;
use protocol::{AgentId, SessionId};

/// A host as dispatch sees it at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    pub agent_id: AgentId,
    pub standing: Standing,
    pub slots: u32,
    /// Leases it holds, and those on their way to it.
    pub used: u32,
    /// Of these, shards of the run in question.
    pub of_this_run: u32,
    /// Whether the shard in question has just ended there without success.
    pub failed_there: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Attached, and heard within the last three beats.
    Ready(SessionId),
    Offline,
    Barred(Bar),
}

/// Why a shard found no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub considered: u32,
    pub offline: u32,
    pub quarantined: u32,
    pub revoked: u32,
    pub no_free_slot: u32,
}

/// A host on which the shard has not just failed (a sick one that fails at once is always free,
/// and would swallow every retry); of these the one with the fewest shards of the same run, then
/// the most free slots, then the lowest id.
pub fn place(hosts: impl IntoIterator<Item = Host>) -> Result<(AgentId, SessionId), Report> {
    let mut report = Report::default();
    let mut best: Option<(Host, SessionId)> = None;
    for host in hosts {
        report.considered += 1;
        match host.standing {
            Standing::Offline => report.offline += 1,
            Standing::Barred(Bar::Quarantined) => report.quarantined += 1,
            Standing::Barred(Bar::Revoked) => report.revoked += 1,
            Standing::Ready(_) if host.used >= host.slots => report.no_free_slot += 1,
            Standing::Ready(session) => {
                if best.is_none_or(|(other, _)| preference(&host) < preference(&other)) {
                    best = Some((host, session));
                }
            }
        }
    }
    best.map(|(host, session)| (host.agent_id, session))
        .ok_or(report)
}

fn preference(host: &Host) -> (bool, u32, std::cmp::Reverse<u32>, AgentId) {
    (
        host.failed_there,
        host.of_this_run,
        std::cmp::Reverse(host.slots - host.used),
        host.agent_id,
    )
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.considered == 0 {
            return f.write_str("no host has ever attached");
        }
        let mut reasons = Vec::new();
        for (count, what) in [
            (self.offline, "offline"),
            (self.quarantined, "quarantined"),
            (self.revoked, "revoked"),
            (self.no_free_slot, "without a free slot"),
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
        write!(f, "{} {hosts} considered: {reasons}", self.considered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(id: i64, slots: u32, used: u32, of_this_run: u32) -> Host {
        let standing = Standing::Ready(SessionId(id));
        Host {
            agent_id: AgentId(id),
            standing,
            slots,
            used,
            of_this_run,
            failed_there: false,
        }
    }

    #[test]
    fn shards_of_a_run_spread_before_they_stack() {
        let placed = |hosts: &[Host]| place(hosts.iter().copied()).map(|(agent, _)| agent.0);
        assert_eq!(
            placed(&[host(1, 8, 0, 1), host(2, 8, 5, 0)]),
            Ok(2),
            "fewest of this run"
        );
        assert_eq!(
            placed(&[host(1, 4, 2, 1), host(2, 8, 2, 1)]),
            Ok(2),
            "then most free"
        );
        assert_eq!(
            placed(&[host(2, 4, 0, 0), host(1, 4, 0, 0)]),
            Ok(1),
            "then lowest id"
        );
    }

    #[test]
    fn a_shard_goes_back_to_where_it_failed_only_for_want_of_others() {
        let sick = Host {
            failed_there: true,
            ..host(1, 8, 0, 0)
        };
        let placed = |hosts: &[Host]| place(hosts.iter().copied()).map(|(agent, _)| agent.0);
        assert_eq!(placed(&[sick, host(2, 4, 3, 2)]), Ok(2));
        assert_eq!(placed(&[sick, host(2, 4, 4, 0)]), Ok(1));
    }

    #[test]
    fn a_refusal_says_why() {
        let offline = Host {
            standing: Standing::Offline,
            ..host(1, 4, 0, 0)
        };
        let quarantined = Host {
            standing: Standing::Barred(Bar::Quarantined),
            ..host(2, 4, 0, 0)
        };
        let report = place([offline, quarantined, host(3, 4, 4, 0)]).unwrap_err();
        assert_eq!(
            report.to_string(),
            "3 hosts considered: 1 offline, 1 quarantined, 1 without a free slot"
        );
        assert_eq!(
            place([]).unwrap_err().to_string(),
            "no host has ever attached"
        );
    }
}
