//! The numbers of control machines that were given, for ever.

use rusqlite::{OptionalExtension, params};

use crate::apply::{Context, Stop};
use crate::command::ControlMachine;

/// A machine that has, or had, a number.
pub(crate) struct GivenNumber {
    pub(crate) machine: ControlMachine,
    pub(crate) removed: bool,
}

impl Context<'_> {
    pub(crate) fn control_machine(&self, node: u64) -> Result<Option<GivenNumber>, Stop> {
        let found = self
            .conn
            .prepare_cached(
                "SELECT name, store, removed_at IS NOT NULL FROM control_machines WHERE node = ?1",
            )?
            .query_row([node.cast_signed()], |row| {
                Ok(GivenNumber {
                    machine: ControlMachine {
                        node,
                        name: row.get(0)?,
                        store: row.get(1)?,
                    },
                    removed: row.get(2)?,
                })
            })
            .optional()?;
        Ok(found)
    }

    /// The first word about a number stays.
    pub(crate) fn note_control_machine(
        &mut self,
        machine: &ControlMachine,
        by: &str,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "INSERT INTO control_machines (node, name, store, at, by) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (node) DO NOTHING",
            )?
            .execute(params![
                machine.node.cast_signed(),
                machine.name,
                machine.store,
                self.at.0,
                by
            ])?;
        Ok(())
    }

    pub(crate) fn note_removal(&mut self, node: u64, by: &str) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE control_machines SET removed_at = ?2, removed_by = ?3 \
                 WHERE node = ?1 AND removed_at IS NULL",
            )?
            .execute(params![node.cast_signed(), self.at.0, by])?;
        Ok(())
    }
}
