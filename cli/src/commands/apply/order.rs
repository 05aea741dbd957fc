//! In which order manifests are sent.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Manifest;
use protocol::JobName;

/// Those first that others name under `after`: a job is put only once what it waits for is known.
/// Otherwise the order stays. A circle stays as it is written; the coordinator refuses it.
pub(crate) fn in_order(manifests: Vec<Manifest>) -> Vec<Manifest> {
    let places: BTreeMap<&JobName, usize> = manifests
        .iter()
        .enumerate()
        .map(|(i, manifest)| (&manifest.name, i))
        .collect();
    let mut order = Vec::with_capacity(manifests.len());
    let mut seen = BTreeSet::new();
    for first in 0..manifests.len() {
        if !seen.insert(first) {
            continue;
        }
        // A stack of its own: a chain of manifests is as long as its owners like.
        let mut stack = vec![(first, 0)];
        while let Some((at, looked_at)) = stack.pop() {
            let Some(waited_for) = manifests[at].after.get(looked_at) else {
                order.push(at);
                continue;
            };
            stack.push((at, looked_at + 1));
            if let Some(&place) = places.get(&waited_for.job)
                && seen.insert(place)
            {
                stack.push((place, 0));
            }
        }
    }
    let mut manifests: Vec<Option<Manifest>> = manifests.into_iter().map(Some).collect();
    let taken = order.into_iter().filter_map(|i| manifests[i].take());
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, after: &[&str]) -> Manifest {
        let after: Vec<String> = after
            .iter()
            .map(|job| format!("{{ job: {job}, match: same_fire }}"))
            .collect();
        let after = match after.as_slice() {
            [] => String::new(),
            after => format!("after: [{}]\n", after.join(", ")),
        };
        let yaml = format!(
            "name: {name}\npurpose: To be ordered.\nowner: demo\n\
             repeatable: {{ safe: true, how: x }}\n\
             schedule: {{ cron: \"0 0 * * *\", timezone: Etc/UTC }}\n\
             misfire: {{ policy: skip, after: 30s }}\noverlap: queue\nexpected_duration: 1s\n\
             timeout: 30s\nretry: {{ at_most: 1, backoff: [1s] }}\n{after}run:\n  \
             exec: [\"/bin/true\"]\n"
        );
        jobs::parse_manifests("m.yaml", yaml).unwrap().remove(0)
    }

    #[test]
    fn what_is_waited_for_comes_first() {
        for (given, expected) in [
            (vec![("t/a", vec![]), ("t/b", vec![])], "t/a t/b"),
            (vec![("t/a", vec!["t/b"]), ("t/b", vec![])], "t/b t/a"),
            (
                vec![
                    ("t/a", vec!["t/c", "t/b"]),
                    ("t/b", vec!["t/c"]),
                    ("t/c", vec!["t/elsewhere"]),
                ],
                "t/c t/b t/a",
            ),
            (vec![("t/a", vec!["t/b"]), ("t/b", vec!["t/a"])], "t/b t/a"),
        ] {
            let given = given.iter().map(|(name, after)| manifest(name, after));
            let ordered = in_order(given.collect());
            let names: Vec<&str> = ordered.iter().map(|m| m.name.as_str()).collect();
            assert_eq!(names.join(" "), expected);
        }
    }
}
