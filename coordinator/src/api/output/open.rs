//! How many outputs of each host are being read, and until when at the longest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::AgentName;
use tokio::sync::watch;

/// Outputs of one host that are read at once. Its agent serves a few more streams than that, so
/// that other bulk has its own.
pub(super) const OPEN_MAX: u32 = 24;

/// Counts, by host. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OpenOutputs {
    counts: Arc<Mutex<BTreeMap<AgentName, u32>>>,
    /// The coordinator stops.
    closing: Arc<watch::Sender<bool>>,
}

/// One that is being read, until it is dropped.
pub(super) struct OpenOutput {
    of: OpenOutputs,
    agent: AgentName,
}

impl OpenOutputs {
    /// Ends what is being followed: it might go on for hours.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

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

impl OpenOutput {
    /// Until the coordinator stops.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.of.closing.subscribe();
        async move {
            // The end of the sender counts as well.
            let _ = closing.wait_for(|closing| *closing).await;
        }
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

    #[tokio::test]
    async fn what_is_open_hears_of_the_coordinators_stop() {
        let outputs = OpenOutputs::default();
        let open = outputs.open(&"host-1".parse().unwrap()).unwrap();
        tokio::select! {
            biased;
            () = open.closing() => panic!("nobody stops"),
            () = tokio::task::yield_now() => {}
        }
        outputs.close();
        open.closing().await;
    }

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
