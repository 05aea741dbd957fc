use protocol::Epoch;
use protocol::message::Incarnation;
use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::tables::agent::list_agents;

/// A leader begins its reign: mints the epoch that every later command of its scheduler carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BecomeActive {
    pub node: String,
    pub incarnation: Incarnation,
    /// Version of the time zone rules that it computes instants with.
    pub tzdata: String,
}

impl BecomeActive {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let epoch = Epoch(context.meta.mint_position());
        context.meta.epoch = Some(epoch);
        context.conn.execute(
            "INSERT INTO reigns VALUES (?1, ?2, ?3, ?4)",
            params![
                epoch.0,
                clip(&self.node),
                self.incarnation.0.cast_signed(),
                context.at.0
            ],
        )?;
        context.conn.execute(
            "UPDATE meta SET tzdata = ?1 WHERE id = 1",
            [clip(&self.tzdata)],
        )?;
        context.changes.epoch(epoch);
        // Of an agent that is never heard of again this counts how often its leases were given
        // their full time anew.
        for mut agent in list_agents(context.conn)? {
            agent.row.silent_reigns = agent.row.silent_reigns.saturating_add(1);
            context.write_agent(&agent)?;
        }
        Ok(Done::Active { epoch })
    }
}
