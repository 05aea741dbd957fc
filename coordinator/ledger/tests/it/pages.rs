//! Lists by page: whatever is asked for, the pages together are the whole list.

use ledger::command::{Grant, PutJob, PutResource, Settlement};
use ledger::{AuditFilter, Command, Done, JobFilter, Page, Reader, RunFilter, RunState, Store};
use protocol::{JobId, Reach, Rules, RunId, WallMs};

use crate::{MINUTE, at, fire, manifest, name, ok, put};

/// Two jobs of one namespace and one of another, with 12 fires each; some run by hand.
fn store() -> (Store, Reader, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let mut store = Store::open(&path, Rules::all()).unwrap();
    for job in ["t/a", "t/b", "u/c"] {
        ok(&mut store, put(manifest(job, 1, "queue", true)));
    }
    for minute in 1..=12 {
        for job in 1..=3 {
            ok(&mut store, fire(JobId(job), minute));
        }
    }
    let reader = Reader::open(&path).unwrap();
    (store, reader, directory)
}

/// All rows of a list, from page to page of at most `limit` rows. `page` begins where it is told.
pub(crate) fn whole<T, C>(limit: u32, mut page: impl FnMut(Option<C>) -> Page<T, C>) -> Vec<T> {
    let mut found = Vec::new();
    let mut place = None;
    loop {
        let Page { rows, next } = page(place);
        assert!(rows.len() <= limit as usize);
        found.extend(rows);
        if next.is_none() {
            return found;
        }
        place = next;
    }
}

/// What a token of these namespaces reaches.
pub(crate) fn reach(namespaces: &[&str]) -> Reach {
    let namespaces = namespaces.iter().map(|name| name.parse().unwrap());
    Reach::try_from(Some(namespaces.collect())).unwrap()
}

/// All runs of a list, `limit` rows at a time.
fn runs(reader: &Reader, filter: &RunFilter, limit: u32) -> Vec<RunId> {
    let rows = whole(limit, |before| {
        let filter = RunFilter {
            before,
            limit,
            ..filter.clone()
        };
        reader.runs(&filter).unwrap()
    });
    rows.iter().map(|run| run.run).collect()
}

#[test]
fn the_pages_of_runs_are_the_whole_list() {
    let (mut store, reader, _directory) = store();
    let (agent_id, session) = crate::reading::attach(&mut store);
    let grant = Grant {
        run_id: RunId(2),
        shard: 0,
        session,
        uses: Vec::new(),
    };
    let Done::Granted { token, .. } = ok(&mut store, at(13 * MINUTE, Command::Grant(grant))) else {
        panic!("it is granted");
    };
    let lost = protocol::attempt::AttemptOutcome::Lost;
    crate::reading::finish(&mut store, agent_id, token, lost);
    let all = RunFilter::default();
    let of = |change: &dyn Fn(&mut RunFilter)| {
        let mut filter = all.clone();
        change(&mut filter);
        filter
    };
    let minute = |minute: i64| Some(WallMs(minute * MINUTE));
    for (filter, count) in [
        (all.clone(), 36),
        (of(&|f| f.job = Some(name("t/a"))), 12),
        (of(&|f| f.namespace = Some("t".parse().unwrap())), 24),
        (of(&|f| f.namespace = Some("none".parse().unwrap())), 0),
        (of(&|f| f.within = reach(&["t"])), 24),
        (of(&|f| f.within = reach(&["u", "none"])), 12),
        (of(&|f| f.within = reach(&["t", "u"])), 36),
        (
            of(&|f| {
                f.within = reach(&["u"]);
                f.job = Some(name("t/a"));
            }),
            0,
        ),
        (of(&|f| f.state = Some(RunState::Waiting)), 33),
        (of(&|f| (f.from, f.to) = (minute(3), minute(5))), 6),
        (
            of(&|f| {
                f.job = Some(name("u/c"));
                (f.from, f.to) = (minute(3), minute(5));
            }),
            2,
        ),
        (of(&|f| f.agent = Some("h1".parse().unwrap())), 1),
        (of(&|f| f.agent = Some("h2".parse().unwrap())), 0),
    ] {
        let whole = runs(&reader, &filter, 1000);
        assert_eq!(whole.len(), count, "{filter:?}");
        assert!(whole.is_sorted_by(|a, b| a > b), "newest first");
        for limit in [1, 5] {
            assert_eq!(runs(&reader, &filter, limit), whole, "{filter:?}");
        }
    }
}

#[test]
fn jobs_are_paged_by_their_present_names() {
    let (mut store, reader, _directory) = store();
    let json = manifest("t/z", 1, "queue", true).to_json();
    let json = json.replacen("\"purpose\"", "\"renamed_from\":\"t/a\",\"purpose\"", 1);
    let moved = PutJob {
        shards: None,
        manifest: jobs::Manifest::from_json(&json).unwrap(),
        cut_over: WallMs(12 * MINUTE),
        settle: Some(Settlement {
            version: 1,
            from: WallMs(12 * MINUTE),
            decisions: Vec::new(),
        }),
        expected: None,
        by: "ada".to_owned(),
    };
    ok(
        &mut store,
        at(13 * MINUTE, Command::PutJob(Box::new(moved))),
    );
    let list = |namespace: Option<&str>| {
        let rows = whole(1, |after| {
            let filter = JobFilter {
                namespace: namespace.map(|name| name.parse().unwrap()),
                after,
                limit: 1,
                ..JobFilter::default()
            };
            reader.jobs(&filter).unwrap()
        });
        let names = rows.iter().map(|job| job.job.to_string());
        names.collect::<Vec<String>>()
    };
    assert_eq!(list(None), ["t/b", "t/z", "u/c"]);
    assert_eq!(list(Some("t")), ["t/b", "t/z"]);
    assert_eq!(list(Some("t-1")), Vec::<String>::new());
    for (namespaces, expected) in [
        (&["t"][..], &["t/b", "t/z"][..]),
        (&["u", "t"], &["t/b", "t/z", "u/c"]),
        (&["v"], &[]),
    ] {
        let rows = whole(1, |after| {
            let filter = JobFilter {
                within: reach(namespaces),
                after,
                limit: 1,
                ..JobFilter::default()
            };
            reader.jobs(&filter).unwrap()
        });
        let names: Vec<String> = rows.iter().map(|job| job.job.to_string()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn the_audit_is_paged_and_filtered() {
    let (_store, reader, _directory) = store();
    let list = |change: &dyn Fn(&mut AuditFilter)| {
        let rows = whole(2, |before| {
            let mut filter = AuditFilter {
                before,
                limit: 2,
                ..AuditFilter::default()
            };
            change(&mut filter);
            reader.audit(&filter).unwrap()
        });
        let names = rows.into_iter().map(|entry| entry.job.unwrap().to_string());
        names.collect::<Vec<String>>()
    };
    assert_eq!(list(&|_| ()), ["u/c", "t/b", "t/a"]);
    assert_eq!(list(&|f| f.job = Some(name("t/b"))), ["t/b"]);
    assert!(list(&|f| f.by = Some("nobody".to_owned())).is_empty());
    assert!(list(&|f| f.run = Some(RunId(1))).is_empty());
    assert_eq!(list(&|f| f.within = reach(&["t"])), ["t/b", "t/a"]);
}

#[test]
fn agents_and_resources_are_paged_by_their_names() {
    let (mut store, reader, _directory) = store();
    for (resource, capacity) in [("db", 3), ("api", 1), ("licences", 7)] {
        let put = PutResource {
            name: resource.parse().unwrap(),
            capacity,
            by: "ada".to_owned(),
        };
        ok(&mut store, at(1, Command::PutResource(put)));
    }
    for host in ["h2", "h10", "h1"] {
        crate::reading::attach_host(&mut store, host);
    }
    for limit in [1, 2, 3, 9] {
        let agents = whole(limit, |after| reader.agents(after.as_ref(), limit).unwrap());
        let agents: Vec<&str> = agents.iter().map(|agent| agent.agent.as_str()).collect();
        assert_eq!(agents, ["h1", "h10", "h2"], "{limit} a page");
        let resources = whole(limit, |after| {
            reader.resources(after.as_ref(), limit).unwrap()
        });
        let resources: Vec<(&str, u32)> = resources
            .iter()
            .map(|row| (row.resource.as_str(), row.capacity))
            .collect();
        let known = [("api", 1), ("db", 3), ("licences", 7)];
        assert_eq!(resources, known, "{limit} a page");
    }
    let one = |name: &str| reader.agent(&name.parse().unwrap()).unwrap();
    assert_eq!(one("h10").unwrap().agent.as_str(), "h10");
    assert_eq!(one("h3"), None);
}
