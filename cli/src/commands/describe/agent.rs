use protocol::WallMs;
use protocol::api::AgentDetail;

use super::{Facts, host};
use crate::amounts::rough;
use crate::output::Room;
use crate::text::Table;

/// An agent for people.
pub(super) fn show(detail: &AgentDetail, now: WallMs, room: Room) -> String {
    let agent = &detail.agent;
    let mut facts = Facts::under(&format!("{}  ({})", agent.agent, agent.id));
    facts.add_state("state", &agent.state);
    facts.add_some("reason", agent.reason.as_deref());
    facts.add(
        "slots",
        &format!("{}, {} in use", agent.slots, agent.leased),
    );
    if !agent.labels.is_empty() {
        facts.add("labels", &agent.labels.join(", "));
    }
    match (&agent.host, &detail.profile) {
        (Some(host), Some(profile)) => host::add(&mut facts, host, profile, now),
        _ => facts.add("host", "it has not told yet what it is"),
    }
    let mut text = facts.text;
    if let Some(profile) = &detail.profile {
        text.push_str(&host::changes(&profile.changes, room));
    }
    if detail.leases.is_empty() {
        return text;
    }
    let mut table = Table::new(&["RUN", "SHARD", "TOKEN", "FOR", "~JOB", "~IF INTERRUPTED"]);
    for lease in &detail.leases {
        let interrupted = match (lease.cancelling, lease.safe) {
            (true, _) => "it is being cancelled",
            (false, true) => "it runs elsewhere",
            (false, false) => "it goes to a person",
        };
        table.row(vec![
            lease.run.to_string(),
            lease.shard.to_string(),
            lease.token.to_string(),
            rough(now - lease.granted_at),
            lease.job.to_string(),
            interrupted.to_owned(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render_in(room));
    text
}
