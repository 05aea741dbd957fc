use std::collections::BTreeSet;

use super::super::super::super::Leadership;

/// A leader that a quorum has confirmed is the only one: whoever led before is never confirmed
/// again. A term is not enough to name a leader. Within one, a node of a higher number may take the
/// lead from a lower one, as openraft orders its votes, and never the other way.
#[derive(Default)]
pub(in super::super) struct Leaders {
    confirmed: BTreeSet<(u64, u64)>,
}

impl Leaders {
    /// A round that began after the last one ended has confirmed that `node` leads.
    pub(in super::super) fn confirmed(&mut self, node: u64, now: Leadership) {
        let leader = (now.term, node);
        if let Some(newest) = self.confirmed.last() {
            assert!(
                leader >= *newest,
                "{leader:?} was confirmed to lead after {newest:?} (term and node)"
            );
        }
        self.confirmed.insert(leader);
    }

    pub(in super::super) fn count(&self) -> usize {
        self.confirmed.len()
    }
}
