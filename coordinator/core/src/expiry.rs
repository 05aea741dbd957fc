//! When a lease ends of which its host says nothing any more.
//!
//! An agent counts a lease's deadline from when it sent the last acknowledged heartbeat that
//! listed it, and has killed by then; the leader counts from when it received that heartbeat, and
//! waits a margin longer. Both count lease by lease: a host that beats on without listing a lease
//! (its supervisor was killed, and what it ran could not be verified dead) keeps the others and
//! loses that one.
//!
//! Three things would break this and are ruled out here: a new leader has heard nothing
//! yet and gives every lease its full time again; a leader that stalled has a queue of unheard
//! heartbeats behind its late timers and does the same; and a leader that leads no more must find
//! out before it acts, so an expiry rides on a quorum round begun after it came due.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ledger::command::{Command, Expire};
use protocol::lease::{QUIET_HOST, STALLED_LEADER, TAKEOVER_MAX, TAKEOVER_MIN, leader_expiry};
use protocol::{AgentId, BootMs, DurationMs, Now, Rule, RunId, Token};

use crate::core::{Core, Flight};
use crate::queue::Key;
use crate::setbacks::Matter;

#[derive(Debug)]
pub(crate) struct Expiry {
    /// No lease's time counts from before this.
    counts_from: BootMs,
    /// Due, and waiting for a quorum round to begin, or riding on one.
    due: BTreeMap<Token, (AgentId, Key)>,
    riding: BTreeMap<Token, (AgentId, Key)>,
    /// Proposed: left out of every acknowledgement from now on.
    proposed: BTreeSet<Token>,
    /// Every lease, and when its host last listed it. Leases that have ended go when they are met.
    listed: BTreeMap<Token, Listed>,
    /// The same, longest unheard first.
    by_age: BTreeSet<(Option<BootMs>, Token)>,
}

#[derive(Clone, Copy, Debug)]
struct Listed {
    agent: AgentId,
    key: Key,
    /// Arrival of the last acknowledged beat of this reign that listed it, or on which it was
    /// granted.
    at: Option<BootMs>,
    /// What lists it after this keeps it no longer.
    until: BootMs,
}

/// What a host may need beyond the time-out of an attempt to begin it, to kill it and to say so.
const GRACE: DurationMs = DurationMs(60_000);

impl Expiry {
    pub(crate) fn new(now: BootMs) -> Expiry {
        Expiry {
            counts_from: now,
            due: BTreeMap::new(),
            riding: BTreeMap::new(),
            proposed: BTreeSet::new(),
            listed: BTreeMap::new(),
            by_age: BTreeSet::new(),
        }
    }

    /// A lease that this core has just learned of.
    pub(crate) fn begin_lease(
        &mut self,
        agent: AgentId,
        token: Token,
        key: Key,
        at: Option<BootMs>,
        until: BootMs,
    ) {
        if let Entry::Vacant(vacant) = self.listed.entry(token) {
            vacant.insert(Listed {
                agent,
                key,
                at,
                until,
            });
            self.by_age.insert((at, token));
        }
    }

    /// An acknowledged beat of this agent that arrived at `at` lists this lease. One that is
    /// another's it cannot keep.
    pub(crate) fn list(&mut self, agent: AgentId, token: Token, at: BootMs) {
        if let Some(listed) = self.listed.get_mut(&token)
            && listed.agent == agent
            && listed.at < Some(at)
            && at < listed.until
        {
            self.by_age.remove(&(listed.at, token));
            listed.at = Some(at);
            self.by_age.insert((listed.at, token));
        }
    }

    /// Whether a beat that arrived at `at` keeps this lease no longer, because its attempt should
    /// have ended long before.
    pub(crate) fn is_overlong(&self, token: Token, at: BootMs) -> bool {
        let listed = self.listed.get(&token);
        listed.is_some_and(|listed| at >= listed.until)
    }

    fn forget(&mut self, token: Token) {
        if let Some(listed) = self.listed.remove(&token) {
            self.by_age.remove(&(listed.at, token));
        }
    }

    pub(crate) fn begin_reign(&mut self, now: BootMs) {
        self.counts_from = now + STALLED_LEADER;
    }

    pub(crate) fn give_full_time(&mut self, now: BootMs) {
        self.counts_from = self.counts_from.max(now);
        self.due.clear();
        self.riding.clear();
    }

    pub(crate) fn counts_from(&self) -> BootMs {
        self.counts_from
    }

    pub(crate) fn is_proposed(&self, token: Token) -> bool {
        self.proposed.contains(&token)
    }

    pub(crate) fn landed(&mut self, token: Token) {
        self.proposed.remove(&token);
    }

    pub(crate) fn waits_for_round(&self) -> bool {
        !self.due.is_empty()
    }

    /// A quorum round begins: what is due now rides on it.
    pub(crate) fn board(&mut self) {
        self.riding.append(&mut self.due);
    }

    fn knows(&self, token: Token) -> bool {
        self.due.contains_key(&token)
            || self.riding.contains_key(&token)
            || self.proposed.contains(&token)
    }
}

impl Core {
    pub(crate) fn advance_expiry(&mut self, now: Now) {
        let oldest = now.boot - TAKEOVER_MIN;
        let unheard: Vec<Token> = self
            .expiry
            .by_age
            .iter()
            .take_while(|(at, _)| at.is_none_or(|at| at <= oldest))
            .map(|&(_, token)| token)
            .filter(|&token| !self.expiry.knows(token))
            .collect();
        for token in unheard {
            let Some(&Listed { agent, key, .. }) = self.expiry.listed.get(&token) else {
                continue;
            };
            if self.queue.lease_of(key) != Some((agent, token)) {
                self.expiry.forget(token);
            } else if self.lease_is_due(token, key, now.boot)
                && !self.setbacks.rests(Matter::shard(key), now)
            {
                self.expiry.due.insert(token, (agent, key));
            }
        }
        if !self.rules.on(Rule::ExpiryAfterQuorum) {
            self.expiry.board();
            self.expire_riding(now);
        }
        if self.expiry.waits_for_round() {
            self.begin_round();
        }
    }

    /// The quorum answered: this core still led after these leases came due.
    pub(crate) fn expire_riding(&mut self, now: Now) {
        for (token, (agent, key)) in std::mem::take(&mut self.expiry.riding) {
            let still_current = self.queue.lease_of(key) == Some((agent, token));
            if !still_current || !self.lease_is_due(token, key, now.boot) {
                continue;
            }
            let reason = self.why_expired(agent, token, key.0, now);
            self.expiry.proposed.insert(token);
            let expire = Expire {
                run_id: key.0,
                shard: key.1,
                token,
                reason,
            };
            self.propose(Flight::Expire(key, token), Command::Expire(expire), now);
        }
    }

    fn why_expired(&self, agent: AgentId, token: Token, run_id: RunId, now: Now) -> String {
        let agent = self.set.agents.get(&agent);
        let name = agent.map_or("its agent", |agent| agent.name.as_str());
        if self.expiry.is_overlong(token, now.boot) {
            return format!(
                "{name} has not ended it within {GRACE} after its time-out: what runs there may not \
                 be killed, look at it"
            );
        }
        format!("{name} was not heard of for {}", self.takeover(run_id))
    }

    /// From when on nothing that a host lists keeps this lease: what its attempt may take, and what
    /// its host may need besides. A supervisor ends its attempts at their time-out; where it does
    /// not, or cannot because the kernel does not let go of a process, its shard would otherwise
    /// wait for as long as the host beats. A new leader counts anew: how long a lease had been held
    /// before, only the wall clock could tell it, and what that says must kill nothing.
    pub(crate) fn lease_until(&self, run_id: RunId, now: Now) -> BootMs {
        let run = self.set.runs.get(&run_id);
        let manifest = run.and_then(|run| self.catalogue.readable(run.job_id, run.version));
        let Some(manifest) = manifest.filter(|_| self.rules.on(Rule::TimeoutBoundsLease)) else {
            return BootMs(i64::MAX);
        };
        let timeout = DurationMs(manifest.timeout.0 + manifest.timeout.0 / 100);
        let whole = manifest.takeover_after + timeout + GRACE;
        now.boot + whole
    }

    fn lease_is_due(&self, token: Token, key: Key, now: BootMs) -> bool {
        let from = self.lease_counts_from(token);
        if self.rules.on(Rule::ExpiryWaitsFullTime) {
            now >= leader_expiry(from, self.takeover(key.0))
        } else {
            now >= from + QUIET_HOST
        }
    }

    /// Arrival of the last acknowledged heartbeat that listed this lease, as far as this reign knows.
    fn lease_counts_from(&self, token: Token) -> BootMs {
        let heard = self.expiry.listed.get(&token).and_then(|listed| listed.at);
        if self.rules.on(Rule::NewLeaderGivesFullTime) {
            heard.map_or(self.expiry.counts_from, |at| {
                at.max(self.expiry.counts_from)
            })
        } else {
            heard.unwrap_or(self.expiry.counts_from - TAKEOVER_MAX - TAKEOVER_MAX)
        }
    }

    /// The job's takeover time; the longest where the manifest cannot be read.
    fn takeover(&self, run_id: RunId) -> DurationMs {
        self.set
            .runs
            .get(&run_id)
            .and_then(|run| self.catalogue.readable(run.job_id, run.version))
            .map_or(TAKEOVER_MAX, |manifest| manifest.takeover_after)
    }
}
