use std::collections::BTreeSet;

/// What was acknowledged stays: a client keeps a journal of it, and every leader that a quorum has
/// confirmed holds all of it.
#[derive(Default)]
pub(in super::super) struct Acknowledged {
    epochs: BTreeSet<i64>,
}

impl Acknowledged {
    pub(in super::super) fn note(&mut self, epoch: i64) {
        self.epochs.insert(epoch);
    }

    pub(in super::super) fn so_far(&self) -> BTreeSet<i64> {
        self.epochs.clone()
    }

    /// `dump` is of a ledger whose leader was confirmed after everything of `epochs` was
    /// acknowledged.
    pub(in super::super) fn check(epochs: &BTreeSet<i64>, node: u64, dump: &str) {
        let held: BTreeSet<&str> = dump
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("epoch="))
            .collect();
        for epoch in epochs {
            assert!(
                held.contains(epoch.to_string().as_str()),
                "the epoch {epoch} was acknowledged, and node {node} leads without it"
            );
        }
    }
}
