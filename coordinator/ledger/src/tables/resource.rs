//! What shards share and of which there is only so much, and what leases hold of it.

use jobs::Manifest;
use protocol::{JobName, ResourceName};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{json_option, named};
use crate::outcome::Refusal;
use crate::rows::ResourceRow;

/// Units of resources, as JSON in a column; NULL where there are none.
pub(crate) type Units = Vec<(ResourceName, u32)>;

pub(crate) fn read_units(row: &Row<'_>, column: usize) -> rusqlite::Result<Units> {
    Ok(json_option(row, column)?.unwrap_or_default())
}

pub(crate) fn write_units(units: &[(ResourceName, u32)]) -> Option<String> {
    let json = || serde_json::to_string(units).expect("names and integers are always JSON");
    (!units.is_empty()).then(json)
}

pub(crate) const RESOURCE_COLUMNS: &str = "name, capacity, in_use";

pub(crate) fn read_resource(row: &Row<'_>) -> rusqlite::Result<ResourceRow> {
    Ok(ResourceRow {
        name: named(row, 0)?,
        capacity: row.get(1)?,
        in_use: row.get(2)?,
    })
}

/// By name.
pub(crate) fn list_resources(conn: &Connection) -> rusqlite::Result<Vec<ResourceRow>> {
    conn.prepare_cached(&format!(
        "SELECT {RESOURCE_COLUMNS} FROM resources ORDER BY name"
    ))?
    .query_map([], read_resource)?
    .collect()
}

fn find_resource(conn: &Connection, name: &ResourceName) -> rusqlite::Result<Option<ResourceRow>> {
    conn.prepare_cached(&format!(
        "SELECT {RESOURCE_COLUMNS} FROM resources WHERE name = ?1"
    ))?
    .query_row([name.as_str()], read_resource)
    .optional()
}

/// Refuses a manifest whose shards ask for what there is not, or for more than there ever is.
pub(crate) fn check_uses(conn: &Connection, manifest: &Manifest) -> Result<(), Stop> {
    for (name, &wanted) in &manifest.needs.uses {
        let resource = name.clone();
        let Some(known) = find_resource(conn, name)? else {
            return Err(Refusal::UnknownResource { resource }.into());
        };
        if wanted > known.capacity {
            let capacity = known.capacity;
            return Err(Refusal::BeyondCapacity {
                resource,
                wanted,
                capacity,
            }
            .into());
        }
    }
    Ok(())
}

impl Context<'_> {
    pub(crate) fn resource(&self, name: &ResourceName) -> Result<Option<ResourceRow>, Stop> {
        Ok(find_resource(self.conn, name)?)
    }

    pub(crate) fn write_resource(&mut self, row: &ResourceRow) -> Result<(), Stop> {
        self.conn
            .prepare_cached("REPLACE INTO resources VALUES (?1, ?2, ?3)")?
            .execute(params![row.name.as_str(), row.capacity, row.in_use])?;
        self.changes.resource(&row.name, Some(row));
        Ok(())
    }

    pub(crate) fn delete_resource(&mut self, name: &ResourceName) -> Result<(), Stop> {
        self.conn
            .prepare_cached("DELETE FROM resources WHERE name = ?1")?
            .execute([name.as_str()])?;
        self.changes.resource(name, None);
        Ok(())
    }

    /// A job whose version in force uses this.
    pub(crate) fn user_of(&self, name: &ResourceName) -> Result<Option<JobName>, Stop> {
        let mut statement = self.conn.prepare_cached(
            "SELECT j.name, v.uses FROM versions v INDEXED BY versions_using JOIN jobs j USING (job_id)
             WHERE v.uses IS NOT NULL AND v.version = j.version AND NOT j.deleted
             ORDER BY j.job_id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if read_units(row, 1)?.iter().any(|(used, _)| used == name) {
                return Ok(Some(named(row, 0)?));
            }
        }
        Ok(None)
    }

    /// Takes units for a lease, or refuses because too little is left.
    pub(crate) fn take_units(
        &mut self,
        units: &[(ResourceName, u32)],
        is_bounded: bool,
    ) -> Result<(), Stop> {
        for (name, wanted) in units {
            let resource = name.clone();
            let Some(mut row) = self.resource(name)? else {
                return Err(Refusal::UnknownResource { resource }.into());
            };
            let held = row.in_use.saturating_add(*wanted);
            if held > row.capacity && is_bounded {
                return Err(Refusal::Exhausted {
                    resource,
                    wanted: *wanted,
                    in_use: row.in_use,
                    capacity: row.capacity,
                }
                .into());
            }
            row.in_use = held;
            self.write_resource(&row)?;
        }
        Ok(())
    }

    /// Gives back what a lease held.
    pub(crate) fn give_back_units(&mut self, units: &[(ResourceName, u32)]) -> Result<(), Stop> {
        for (name, held) in units {
            // While units of it are held, nobody can delete it.
            if let Some(mut row) = self.resource(name)? {
                row.in_use = row.in_use.saturating_sub(*held);
                self.write_resource(&row)?;
            }
        }
        Ok(())
    }
}
