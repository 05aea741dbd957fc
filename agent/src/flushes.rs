//! Whether a disk of this host has become slow in flushing, by what the kernel counts anyway.
//!
//! Each short look reads the counters; [`FlushDrift`] holds the mean of the last five minutes against
//! those of seven days. The days are kept in the agent's directory, written once an hour: a file that
//! may be thrown away, then a disk is held against the hour that comes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use hardware::DiskCounters;
use probes::measure::{Drift, FlushDrift};
use serde::{Deserialize, Serialize};

const FILE: &str = "flushes.json";

/// A file that is larger is none of ours.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Each takes some 10 KB of memory.
const DISKS_MAX: usize = 64;

const WRITTEN_EVERY_MS: i64 = 3_600_000;

/// The flushes of all disks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flushes {
    disks: BTreeMap<String, FlushDrift>,
    /// Disks that are slow now, as it was told last.
    #[serde(skip)]
    slow: BTreeMap<String, Drift>,
    #[serde(skip)]
    written_at_ms: Option<i64>,
}

impl Flushes {
    /// What is kept in a directory; nothing, where that is not to be read.
    pub(crate) fn read(data_directory: &Path) -> Flushes {
        let read = || {
            let file = fs::File::open(data_directory.join(FILE)).ok()?;
            let mut text = Vec::new();
            file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
            serde_json::from_slice(&text).ok()
        };
        read().unwrap_or_default()
    }

    /// Takes what was counted at a time of the wall clock, which a restart does not set back. Answers
    /// with the disks that are slow and were not before.
    pub(crate) fn handle_counters(
        &mut self,
        now_ms: i64,
        counters: BTreeMap<String, DiskCounters>,
    ) -> Vec<String> {
        // One that is gone, and comes again, is another one.
        self.disks.retain(|disk, _| counters.contains_key(disk));
        self.slow.retain(|disk, _| counters.contains_key(disk));
        let mut news = Vec::new();
        for (disk, counters) in counters.into_iter().take(DISKS_MAX) {
            let of = self.disks.entry(disk.clone()).or_default();
            let told = of.handle_reading(now_ms, counters);
            if !of.is_slow() {
                self.slow.remove(&disk);
            } else if let Some(drift) = told
                && self.slow.insert(disk.clone(), drift).is_none()
            {
                news.push(said(&disk, &drift));
            }
        }
        news
    }

    /// A line for each disk that is slow.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = String> {
        self.slow.iter().map(|(disk, drift)| said(disk, drift))
    }

    /// Keeps the days, where the last time is an hour ago. Half a file is never read: it takes its name when
    /// it is whole.
    pub(crate) fn write(&mut self, data_directory: &Path, now_ms: i64) -> io::Result<()> {
        let written_at_ms = *self.written_at_ms.get_or_insert(now_ms);
        if (0..WRITTEN_EVERY_MS).contains(&now_ms.saturating_sub(written_at_ms)) {
            return Ok(());
        }
        self.written_at_ms = Some(now_ms);
        let new = data_directory.join("flushes.json.new");
        // Keys are texts and numbers are finite.
        let text = serde_json::to_vec(self).expect("flushes are JSON");
        fs::write(&new, text)?;
        fs::rename(&new, data_directory.join(FILE))
    }
}

fn said(disk: &str, drift: &Drift) -> String {
    let ms = |us: u64| us as f64 / 1000.0;
    format!(
        "{disk} flushes slower than it did: {:.1} ms in the last five minutes, and {:.1} ms in those of \
         seven days",
        ms(drift.mean_us),
        ms(drift.median_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: i64 = 300_000;

    /// A host whose disks flush a thousand times in each window.
    #[derive(Default)]
    struct Watched {
        flushes: Flushes,
        now_ms: i64,
        counters: BTreeMap<String, DiskCounters>,
    }

    impl Watched {
        fn windows(&mut self, number: u32, disks: &[(&str, u64)]) -> Vec<String> {
            let mut news = Vec::new();
            for _ in 0..number {
                self.now_ms += WINDOW_MS;
                self.counters
                    .retain(|disk, _| disks.iter().any(|(name, _)| name == disk));
                for (disk, mean_us) in disks {
                    let counted = self.counters.entry((*disk).to_owned()).or_default();
                    counted.flushes = Some(counted.flushes.unwrap_or(0) + 1_000);
                    counted.flush_ms = Some(counted.flush_ms.unwrap_or(0) + mean_us);
                }
                let counters = self.counters.clone();
                news.extend(self.flushes.handle_counters(self.now_ms, counters));
            }
            news
        }

        fn reasons(&self) -> Vec<String> {
            self.flushes.reasons().collect()
        }
    }

    const SLOW: &str = "sda flushes slower than it did: 9.0 ms in the last five minutes, and 2.0 ms in those \
                        of seven days";

    #[test]
    fn a_disk_that_became_slow_is_told_once_and_for_as_long_as_it_is() {
        let mut watched = Watched::default();
        let well = [("sda", 2_000), ("sdb", 400)];
        let ill = [("sda", 9_000), ("sdb", 400)];
        assert_eq!(watched.windows(30, &well), [""; 0]);
        assert_eq!(watched.windows(1, &ill), [""; 0]);
        assert_eq!(watched.windows(1, &ill), [SLOW]);
        assert_eq!(watched.windows(3, &ill), [""; 0]);
        assert_eq!(watched.reasons(), [SLOW]);
        watched.windows(1, &well);
        assert_eq!(watched.reasons(), [""; 0]);
        // One that was pulled says nothing any more.
        watched.windows(2, &ill);
        assert_eq!(watched.reasons(), [SLOW]);
        watched.windows(1, &[("sdb", 400)]);
        assert_eq!(watched.reasons(), [""; 0]);
    }

    #[test]
    fn the_days_outlast_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let well = [("sda", 2_000)];
        let mut watched = Watched::default();
        watched.windows(30, &well);
        let write =
            |watched: &mut Watched, at_ms| watched.flushes.write(place.path(), at_ms).unwrap();
        write(&mut watched, 0);
        write(&mut watched, WRITTEN_EVERY_MS - 1);
        assert!(!place.path().join(FILE).exists());
        write(&mut watched, WRITTEN_EVERY_MS);
        watched.flushes = Flushes::read(place.path());
        assert_eq!(watched.windows(2, &[("sda", 9_000)]), [SLOW]);
        fs::write(place.path().join(FILE), "{\"disks\":").unwrap();
        watched.flushes = Flushes::read(place.path());
        assert_eq!(watched.windows(3, &[("sda", 30_000)]), [""; 0]);
    }
}
