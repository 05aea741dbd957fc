//! How many outputs of each host are being read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::AgentName;

/// Outputs of one host that are read at once. Its agent serves a few more streams than that, so
/// that other bulk has its own.
pub(super) const OPEN_MAX: u32 = 24;

/// Counts, by host. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OpenOutputs {
    counts: Arc<Mutex<BTreeMap<AgentName, u32>>>,
}

/// One that is being read, until it is dropped.
pub(super) struct OpenOutput {
    of: OpenOutputs,
    agent: AgentName,
}

impl OpenOutputs {
    /// `None` where so many of this host are being read that one more is too many.
    pub(super) fn open(&self, agent: &AgentName) -> Option<OpenOutput> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(agent.clone()).or_insert(0);
        if *count >= OPEN_MAX {
            return None;
        }
        *count += 1;
        Some(OpenOutput {
            of: self.clone(),
            agent: agent.clone(),
        })
    }
}

impl Drop for OpenOutput {
    fn drop(&mut self) {
        let mut counts = self
            .of
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.agent) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_own_bound_and_who_goes_makes_room() {
        let outputs = OpenOutputs::default();
        let (one, other) = ("host-1".parse().unwrap(), "host-2".parse().unwrap());
        let mut open: Vec<_> = (0..OPEN_MAX).map(|_| outputs.open(&one).unwrap()).collect();
        assert!(outputs.open(&one).is_none());
        assert!(outputs.open(&other).is_some());
        open.pop();
        assert!(outputs.open(&one).is_some());
        open.clear();
        assert!(outputs.counts.lock().unwrap().is_empty());
    }
}
