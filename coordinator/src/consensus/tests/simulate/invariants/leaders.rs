use std::collections::BTreeMap;

use super::super::super::super::Leadership;

/// In one term one node leads at most.
#[derive(Default)]
pub(in super::super) struct Leaders {
    terms: BTreeMap<u64, u64>,
}

impl Leaders {
    pub(in super::super) fn look(&mut self, node: u64, now: Leadership) {
        if now.leads {
            let leader = *self.terms.entry(now.term).or_insert(node);
            assert_eq!(leader, node, "two nodes lead in term {}", now.term);
        }
    }

    pub(in super::super) fn terms(&self) -> usize {
        self.terms.len()
    }
}
