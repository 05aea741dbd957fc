//! In which order manifests are sent.

use std::collections::{BTreeMap, BTreeSet};

use jobs::Manifest;
use protocol::JobName;

use crate::failure::Failure;
use crate::text::count;

/// Those first that others name under `after`: a job is put only once what it waits for is known.
/// Otherwise the order stays. A circle among them is refused: no order would do.
pub(crate) fn in_order(manifests: Vec<Manifest>) -> Result<Vec<Manifest>, Failure> {
    let places: BTreeMap<&JobName, usize> = manifests
        .iter()
        .enumerate()
        .map(|(i, manifest)| (&manifest.name, i))
        .collect();
    let mut order = Vec::with_capacity(manifests.len());
    let mut seen = BTreeSet::new();
    let mut done = BTreeSet::new();
    for first in 0..manifests.len() {
        if !seen.insert(first) {
            continue;
        }
        // A stack of its own: a chain of manifests is as long as its owners like.
        let mut stack = vec![(first, 0)];
        while let Some((at, looked_at)) = stack.pop() {
            let Some(waited_for) = manifests[at].after.get(looked_at) else {
                order.push(at);
                done.insert(at);
                continue;
            };
            stack.push((at, looked_at + 1));
            let Some(&place) = places.get(&waited_for.job) else {
                continue;
            };
            if seen.insert(place) {
                stack.push((place, 0));
            } else if !done.contains(&place) {
                let way = stack.iter().map(|&(at, _)| at);
                let circle: Vec<usize> = way.skip_while(|&at| at != place).collect();
                return Err(of_circle(&manifests, &circle));
            }
        }
    }
    let mut manifests: Vec<Option<Manifest>> = manifests.into_iter().map(Some).collect();
    let taken = order.into_iter().filter_map(|i| manifests[i].take());
    Ok(taken.collect())
}

/// `circle`: each waits for the next, and the last for the first.
fn of_circle(manifests: &[Manifest], circle: &[usize]) -> Failure {
    let names: Vec<&str> = circle
        .iter()
        .chain(circle.first())
        .map(|&i| manifests[i].name.as_str())
        .collect();
    Failure::bad_input(
        format!("ordering {}", count(manifests.len() as u64, "job")),
        format!(
            "{} would wait for itself: {}; nothing is applied",
            names[0],
            names.join(" comes after ")
        ),
        "take one of these jobs out of another's `after`",
    )
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
        ] {
            let given = given.iter().map(|(name, after)| manifest(name, after));
            let ordered = in_order(given.collect()).unwrap();
            let names: Vec<&str> = ordered.iter().map(|m| m.name.as_str()).collect();
            assert_eq!(names.join(" "), expected);
        }
    }

    #[test]
    fn a_circle_is_named() {
        for (given, expected) in [
            (
                vec![("t/a", vec!["t/b"]), ("t/b", vec!["t/a"])],
                "t/a comes after t/b comes after t/a;",
            ),
            (
                vec![
                    ("t/x", vec!["t/done", "t/a"]),
                    ("t/done", vec![]),
                    ("t/a", vec!["t/done", "t/b"]),
                    ("t/b", vec!["t/c"]),
                    ("t/c", vec!["t/done", "t/a"]),
                ],
                "t/a comes after t/b comes after t/c comes after t/a;",
            ),
        ] {
            let given = given.iter().map(|(name, after)| manifest(name, after));
            let Err(Failure::Told(told)) = in_order(given.collect()) else {
                panic!("a circle was ordered");
            };
            assert!(told.why.contains(expected), "{told:?}");
        }
    }
}
