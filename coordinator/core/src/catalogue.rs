//! The stored manifests, read once per version.
//!
//! A manifest that cannot be read (written by another build, damaged on disk) stops its own job
//! and no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::Manifest;
use ledger::VersionRow;
use protocol::{JobId, WallMs};

use crate::line::Demand;

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    versions: BTreeMap<(JobId, u32), Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) starts: WallMs,
    pub(crate) manifest: Result<Arc<Manifest>, String>,
    pub(crate) demand: Arc<Demand>,
    /// Higher goes first.
    pub(crate) priority: u8,
}

impl Entry {
    fn read(row: &VersionRow) -> Entry {
        let manifest = Manifest::from_json(&row.manifest)
            .map(Arc::new)
            .map_err(|error| error.to_string());
        let demand = manifest.as_deref().map(Demand::of).unwrap_or_default();
        let priority = manifest.as_ref().map_or(0, |manifest| manifest.priority);
        Entry {
            starts: row.starts,
            manifest,
            demand: Arc::new(demand),
            priority,
        }
    }
}

impl Catalogue {
    pub(crate) fn of(rows: &BTreeMap<(JobId, u32), VersionRow>) -> Catalogue {
        let versions = rows.iter().map(|(key, row)| (*key, Entry::read(row)));
        Catalogue {
            versions: versions.collect(),
        }
    }

    pub(crate) fn learn(&mut self, row: &VersionRow) {
        let key = (row.job_id, row.version);
        self.versions.insert(key, Entry::read(row));
    }

    pub(crate) fn get(&self, job_id: JobId, version: u32) -> Option<&Entry> {
        self.versions.get(&(job_id, version))
    }

    pub(crate) fn len(&self) -> usize {
        self.versions.len()
    }

    pub(crate) fn readable(&self, job_id: JobId, version: u32) -> Option<&Arc<Manifest>> {
        self.get(job_id, version)
            .and_then(|entry| entry.manifest.as_ref().ok())
    }

    /// Drops a version that the working set no longer holds.
    pub(crate) fn forget(&mut self, key: (JobId, u32)) {
        self.versions.remove(&key);
    }
}
