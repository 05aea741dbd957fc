//! The stored manifests, read once per version. The text is not kept: of a hundred thousand jobs it
//! would be as much again.
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
    /// What versions ask for, and how many of them ask for the same: nearly all ask for one of few
    /// things.
    demands: BTreeMap<Arc<Demand>, u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) starts: WallMs,
    pub(crate) manifest: Result<Arc<Manifest>, String>,
    pub(crate) demand: Arc<Demand>,
    /// Higher goes first.
    pub(crate) priority: u8,
}

impl Catalogue {
    pub(crate) fn of(rows: BTreeMap<(JobId, u32), VersionRow>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        let versions = rows
            .into_iter()
            .map(|(key, row)| (key, catalogue.read(&row)))
            .collect();
        catalogue.versions = versions;
        catalogue
    }

    pub(crate) fn learn(&mut self, row: &VersionRow) {
        let key = (row.job_id, row.version);
        let entry = self.read(row);
        if let Some(before) = self.versions.insert(key, entry) {
            self.release(&before.demand);
        }
    }

    fn read(&mut self, row: &VersionRow) -> Entry {
        let manifest = Manifest::from_json(&row.manifest)
            .map(Arc::new)
            .map_err(|error| error.to_string());
        let demand = manifest.as_deref().map(Demand::of).unwrap_or_default();
        let priority = manifest.as_ref().map_or(0, |manifest| manifest.priority);
        Entry {
            starts: row.starts,
            manifest,
            demand: self.share(demand),
            priority,
        }
    }

    /// The one that all have who ask for the same.
    fn share(&mut self, demand: Demand) -> Arc<Demand> {
        let demand = match self.demands.get_key_value(&demand) {
            Some((shared, _)) => Arc::clone(shared),
            None => Arc::new(demand),
        };
        *self.demands.entry(Arc::clone(&demand)).or_default() += 1;
        demand
    }

    /// One version less asks for it.
    fn release(&mut self, demand: &Arc<Demand>) {
        if let Some(versions) = self.demands.get_mut(demand) {
            *versions -= 1;
            if *versions == 0 {
                self.demands.remove(demand);
            }
        }
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

    /// How many different things are asked for.
    pub(crate) fn demands(&self) -> usize {
        self.demands.len()
    }

    /// Drops a version that nobody needs any more.
    pub(crate) fn forget(&mut self, key: (JobId, u32)) {
        if let Some(entry) = self.versions.remove(&key) {
            self.release(&entry.demand);
        }
    }

    /// Whether it says of each version what its row says, and knows no other.
    pub(crate) fn check(&self, rows: &BTreeMap<(JobId, u32), VersionRow>) -> Result<(), String> {
        let afresh = Catalogue::of(rows.clone());
        if let Some(key) = self.versions.keys().find(|key| !rows.contains_key(key)) {
            return Err(format!("version {key:?} is kept, and nobody needs it"));
        }
        for (key, stored) in &afresh.versions {
            let kept = self.versions.get(key);
            if kept != Some(stored) {
                return Err(format!(
                    "version {key:?} is kept as {kept:?}, stored {stored:?}"
                ));
            }
        }
        if self.demands != afresh.demands {
            let (kept, afresh) = (&self.demands, &afresh.demands);
            return Err(format!("demands kept: {kept:?}, afresh: {afresh:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: i64, version: u32, needs: &str) -> VersionRow {
        let yaml = format!(
            "name: t/a\npurpose: x\nowner: x\nrepeatable: {{ safe: false }}\n\
             schedule: {{ cron: \"0 0 * * *\", timezone: Etc/UTC }}\nmisfire: {{ policy: run_now }}\n\
             overlap: queue\nexpected_duration: 1m\ntimeout: 1m\nrun: {{ exec: [\"/bin/true\"] }}\n{needs}"
        );
        let manifest = jobs::parse_manifests("t.yaml", &yaml).unwrap().remove(0);
        VersionRow {
            job_id: JobId(job),
            version,
            starts: WallMs(0),
            manifest: manifest.to_json().into(),
        }
    }

    #[test]
    fn what_many_ask_for_is_kept_once_and_no_longer_than_by_somebody() {
        const IO: &str = "needs: { class: io }";
        let rows = [row(1, 1, ""), row(2, 1, IO), row(3, 1, "")];
        let rows = rows.map(|row| ((row.job_id, row.version), row)).into();
        let mut catalogue = Catalogue::of(rows);
        let demand = |catalogue: &Catalogue, job| {
            let entry = catalogue.get(JobId(job), 1).unwrap();
            Arc::clone(&entry.demand)
        };
        assert!(Arc::ptr_eq(&demand(&catalogue, 1), &demand(&catalogue, 3)));
        assert_ne!(demand(&catalogue, 1), demand(&catalogue, 2));

        catalogue.learn(&row(1, 2, IO));
        assert_eq!(catalogue.demands(), 2);
        catalogue.forget((JobId(1), 1));
        catalogue.forget((JobId(3), 1));
        // It has been forgotten before.
        catalogue.forget((JobId(3), 1));
        assert_eq!(catalogue.demands(), 1);
        // A row that is learned again counts once.
        catalogue.learn(&row(1, 2, IO));
        catalogue.forget((JobId(1), 2));
        catalogue.forget((JobId(2), 1));
        assert_eq!((catalogue.len(), catalogue.demands()), (0, 0));
    }
}
