use std::collections::BTreeMap;

/// Two ledgers that have come equally far hold the same, wherever and whenever they are looked at.
#[derive(Default)]
pub(in super::super) struct Agreement {
    seen: BTreeMap<u64, (u64, String)>,
}

impl Agreement {
    pub(in super::super) fn look(&mut self, node: u64, applied: u64, dump: String) {
        let (by, before) = self
            .seen
            .entry(applied)
            .or_insert_with(|| (node, dump.clone()));
        if *before != dump {
            let differs = before.lines().zip(dump.lines()).find(|(a, b)| a != b);
            panic!("nodes {by} and {node} differ after entry {applied}: {differs:?}");
        }
        // What is far behind is not looked at again but by who has lost its disk.
        while self.seen.len() > 200 {
            self.seen.pop_first();
        }
    }
}
