//! P2 and P4, on the way: a lease is a promise with two ends, and each end keeps it.
//!
//! The coordinator takes a lease away only when its host has given it up by its own clock. The
//! host lets nothing live past a deadline, and kills nothing before it without a reason.

use ledger::{Change, Command, Done, Outcome, Proposal, ShardRow, ShardState};
use protocol::supervisor::{KillCause, Request};
use protocol::{DurationMs, Token};

use super::p2_no_twice::{KILLED_WITHIN, is_excused};
use crate::world::World;

pub fn on_propose(world: &mut World, proposal: &Proposal) {
    if let Command::Expire(expire) = &proposal.command {
        world.truth.expiry_proposed.insert(expire.token);
        check_unheard(world, expire.token);
    }
}

pub fn before_commit(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    check_revoked(world, proposal, outcome);
    match (&proposal.command, &outcome.result) {
        (Command::Expire(_), Ok(_)) => {
            // Which lease ended is read from the rows: the command may have named another.
            for token in ended_leases(world, outcome) {
                check_given_up(world, token);
                taken(world, token);
            }
        }
        (Command::Quarantine(quarantine), Ok(_)) => {
            let name = &quarantine.name;
            let cloned = world.cloned.contains(name);
            world.require(cloned, "P4", "only clones are quarantined", || {
                format!("{name} is one process on one machine")
            });
        }
        (Command::AttachAgent(_), Ok(Done::Attached { released, .. })) => {
            for &(token, how) in released {
                let alive = world.alive.iter().find(|pid| {
                    let process = &world.processes[pid];
                    process.token == token && process.granted == world.truth.granted_at(token)
                });
                let alive = alive.copied();
                world.require(
                    alive.is_none(),
                    "P2",
                    "an attach releases what is dead",
                    || format!("{token} was released as {how:?} while process {alive:?} is alive"),
                );
                taken(world, token);
            }
        }
        _ => {}
    }
}

/// Who was revoked is let in no more and given nothing, and what it holds ends by its time alone.
fn check_revoked(world: &mut World, proposal: &Proposal, outcome: &Outcome) {
    let served = match (&proposal.command, &outcome.result) {
        (_, Ok(Done::Attached { agent_id, .. })) => Some(*agent_id),
        (Command::Grant(_), _) => outcome.changes.iter().find_map(|change| match change {
            Change::Shard(ShardRow {
                state: ShardState::Leased(lease),
                ..
            }) => Some(lease.agent_id),
            _ => None,
        }),
        _ => None,
    };
    let served = served.filter(|&agent_id| world.truth.is_revoked(agent_id));
    world.require(
        served.is_none(),
        "P2",
        "who was revoked is served no more",
        || format!("{served:?}: {:?}", proposal.command),
    );
    if matches!(proposal.command, Command::Expire(_)) {
        return;
    }
    let cut_short = ended_leases(world, outcome).into_iter().find(|token| {
        let grant = world.truth.grants.get(token);
        grant.is_some_and(|grant| world.truth.is_revoked(grant.agent_id))
    });
    world.require(
        cut_short.is_none(),
        "P2",
        "a lease of who was revoked ends by its time",
        || format!("{cut_short:?} ended by {:?}", proposal.command),
    );
}

fn ended_leases(world: &World, outcome: &Outcome) -> Vec<Token> {
    let shards = outcome.changes.iter().filter_map(|change| match change {
        Change::Shard(shard) => Some(shard),
        _ => None,
    });
    shards
        .filter_map(|shard| {
            let before = world.truth.lease_of(shard.run_id, shard.shard)?;
            let still = matches!(shard.state, ShardState::Leased(lease) if lease.token == before);
            (!still).then_some(before)
        })
        .collect()
}

fn taken(world: &mut World, token: Token) {
    let now = world.now;
    if let Some(grant) = world.truth.grants.get_mut(&token) {
        grant.taken_at = Some(now);
    }
}

/// Nothing that still lives under this lease may be entitled to.
fn check_given_up(world: &mut World, token: Token) {
    let granted = world.truth.granted_at(token);
    let entitled = world.alive.iter().copied().find(|pid| {
        let process = &world.processes[pid];
        let boot = world.host_now(process.host).boot;
        process.token == token
            && process.granted == granted
            && !is_excused(world, process)
            && world
                .entitled_until(process.host, token)
                .is_some_and(|until| boot < until)
    });
    world.require(
        entitled.is_none(),
        "P2",
        "a lease is taken when its host has given it up",
        || format!("{token} was taken while process {entitled:?} may live on"),
    );
}

/// A coordinator's own stall is not its agents' silence.
fn check_unheard(world: &mut World, token: Token) {
    const SLACK_MS: i64 = 100;
    let Some(grant) = world.truth.grants.get(&token).copied() else {
        return;
    };
    let set = &world.truth.set;
    // Of two that bear one name, one is not listened to.
    let holder = set.agents.get(&grant.agent_id);
    if holder.is_some_and(|agent| !world.is_listened_to(&agent.name)) {
        return;
    }
    if is_overlong(world, token) {
        return;
    }
    let manifest = world.truth.manifest_in_force(grant.run_id);
    let takeover = manifest.map(|manifest| manifest.takeover_after.0);
    let heard = world.heard.get(&token).map(|&(last, _)| last);
    let (Some(takeover), Some(heard)) = (takeover, heard) else {
        return;
    };
    let now = world.now;
    // Without a quorum nothing may be acknowledged, and what is not acknowledged expires.
    let quorum_stood = now - world.quorum_withheld_at > 2 * takeover;
    world.require(
        !quorum_stood || now - heard >= takeover - SLACK_MS,
        "P4",
        "a lease expires by its host's silence only",
        || {
            format!(
                "{token} expired though its host listed it {} ms before",
                now - heard
            )
        },
    );
}

/// Whether its attempt should have ended long ago, however slow its host.
fn is_overlong(world: &World, token: Token) -> bool {
    const LONG_MS: i64 = 55_000;
    let Some(grant) = world.truth.grants.get(&token) else {
        return false;
    };
    let manifest = world.truth.manifest_in_force(grant.run_id);
    manifest.is_some_and(|manifest| {
        let whole = manifest.takeover_after.0 + manifest.timeout.0 + LONG_MS;
        world.now - grant.at >= whole
    })
}

/// An agent asks something of its supervisor.
pub fn on_request(world: &mut World, host: usize, request: &Request) {
    match request {
        Request::Kill {
            token,
            cause: KillCause::LeaseLost,
        } => check_kill(world, host, *token),
        Request::Extend { token, deadline } => {
            let taken = world
                .truth
                .grants
                .get(token)
                .is_some_and(|grant| grant.taken_at.is_some());
            let ahead = *deadline > world.host_now(host).boot;
            world.require(
                !(taken && ahead),
                "P2",
                "a lease that was taken is not extended",
                || format!("host {host} extends {token} to {deadline:?}, and the lease has ended"),
            );
        }
        _ => {}
    }
}

fn check_kill(world: &mut World, host: usize, token: Token) {
    let Some(&deadline) = world.deadlines.get(&(host, token)) else {
        return;
    };
    let due = world.host_now(host).boot >= deadline - DurationMs(5);
    let known_to_end =
        world.truth.expiry_proposed.contains(&token) || !world.truth.is_current(token);
    let cloned = world.cloned.contains(&world.hosts[host].identity);
    world.require(
        due || known_to_end || cloned || is_overlong(world, token),
        "P4",
        "nothing is killed while its lease lives",
        || {
            format!(
                "host {host} kills {token}, whose lease lives and whose deadline is {deadline:?}"
            )
        },
    );
}

/// A deadline that has passed is final, whatever was said afterwards.
pub fn look(world: &mut World) {
    let mut outlived = None;
    for &pid in &world.alive {
        let process = &world.processes[&pid];
        let boot = world.host_now(process.host).boot;
        if let Some(until) = world.entitled_until(process.host, process.token)
            && boot > until + KILLED_WITHIN
            && !is_excused(world, process)
        {
            outlived = Some((pid, process.token, boot - until));
        }
    }
    world.require(
        outlived.is_none(),
        "P2",
        "a deadline that has passed is final",
        || format!("{outlived:?} lives on past deadline and grace"),
    );
}
