//! Readers beside the writer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::command::{
    AlertKind, AttachAgent, ClearAlert, Decision, DeleteJob, Finish, Grant, On, PutJob, RaiseAlert,
    Settlement,
};
use ledger::{
    AlertFilter, AttemptSeen, Command, Done, JobFilter, PutKind, Reader, ReaderError, RunFilter,
    RunState, SEEN_RUNS_MAX, Store,
};
use protocol::attempt::{AttemptEnd, AttemptOutcome, Counted, Exit, Limit, Usage};
use protocol::message::Incarnation;
use protocol::{
    AgentId, AlertId, DurationMs, HostFacts, JobId, Rules, RunId, SessionId, Token, WallMs, api,
};

use crate::pages::{reach, whole};
use crate::{MINUTE, at, fire, manifest, name, ok, put};

struct OnDisk {
    store: Store,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

fn on_disk() -> OnDisk {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    OnDisk {
        store: Store::open(&path, Rules::all()).unwrap(),
        path,
        _directory: directory,
    }
}

pub(crate) fn attach(store: &mut Store) -> (AgentId, SessionId) {
    attach_host(store, "h1")
}

pub(crate) fn attach_host(store: &mut Store, host: &str) -> (AgentId, SessionId) {
    let attach = AttachAgent {
        name: host.parse().unwrap(),
        boot_id: "boot".to_owned(),
        agent: Incarnation(1),
        supervisor: Incarnation(2),
        swept: true,
        labels: Vec::new(),
        slots: 8,
        holds: Vec::new(),
    };
    match ok(store, at(0, Command::AttachAgent(attach))) {
        Done::Attached {
            agent_id, session, ..
        } => (agent_id, session),
        other => panic!("{other:?}"),
    }
}

fn grant(store: &mut Store, run: i64, shard: u32, session: SessionId) -> Token {
    let run_id = RunId(run);
    let grant = Command::Grant(Grant {
        run_id,
        shard,
        session,
        uses: Vec::new(),
    });
    match ok(store, at(run, grant)) {
        Done::Granted { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn finish(store: &mut Store, agent_id: AgentId, token: Token, outcome: AttemptOutcome) {
    let finish = Finish {
        agent_id,
        token,
        end: end(outcome),
    };
    ok(store, at(0, Command::Finish(finish)));
}

fn end(outcome: AttemptOutcome) -> AttemptEnd {
    AttemptEnd {
        outcome,
        exit: Some(Exit::Code(3)),
        started_at: Some(WallMs(1)),
        ended_at: WallMs(2),
        cpu: DurationMs(7),
        memory_bytes_peak: 9,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: "last words".to_owned(),
    }
}

#[test]
fn what_the_newest_runs_of_a_version_have_used() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    ok(&mut store, put(manifest("t/a", 2, "queue", true)));
    let (agent, session) = attach(&mut store);
    let usage = Usage {
        read_bytes: Some(5),
        partial: vec![Counted::Io],
        ..Usage::default()
    };
    for minute in 1..=3 {
        ok(&mut store, fire(JobId(1), minute));
        for shard in 0..2 {
            let token = grant(&mut store, minute, shard, session);
            let end = AttemptEnd {
                usage: (minute > 1).then(|| Box::new(usage.clone())),
                not_enforced: vec![Limit::Memory; usize::from(shard == 1)],
                ..end(AttemptOutcome::Succeeded)
            };
            let finish = Finish {
                agent_id: agent,
                token,
                end,
            };
            ok(&mut store, at(minute, Command::Finish(finish)));
        }
    }
    // What was missed teaches nothing, and leaves room for what ran.
    for minute in 4..=i64::from(SEEN_RUNS_MAX) + 4 {
        let mut missed = fire(JobId(1), minute);
        if let Command::Fire(fire) = &mut missed.command {
            fire.decisions = vec![Decision::Missed {
                fire_time: WallMs(minute * MINUTE),
                nominal: Vec::new(),
                reason: "late".to_owned(),
            }];
        }
        ok(&mut store, missed);
    }
    // One that is under way teaches nothing yet.
    ok(&mut store, fire(JobId(1), i64::from(SEEN_RUNS_MAX) + 5));
    let reader = Reader::open(&path).unwrap();
    let seen = reader.seen(&name("t/a")).unwrap().unwrap();
    assert_eq!((seen.job, seen.version), (name("t/a"), 1));
    let runs: Vec<i64> = seen.runs.iter().map(|run| run.run_id.0).collect();
    assert_eq!(runs, [1, 2, 3], "the newest last");
    assert!(seen.runs.iter().all(|run| run.succeeded));
    let expected = |shard| AttemptSeen {
        agent_id: agent,
        shard,
        outcome: AttemptOutcome::Succeeded,
        started_at: WallMs(1),
        ended_at: WallMs(2),
        cpu: DurationMs(7),
        memory_bytes_peak: 9,
        out_of_memory: false,
        memory_was_limited: shard == 0,
        usage: Some(usage.clone()),
    };
    assert_eq!(seen.runs[2].attempts, [expected(0), expected(1)]);
    assert_eq!(seen.runs[0].attempts[0].usage, None, "nobody has measured");
    assert_eq!(seen.hosts[&agent], HostFacts::default());
    assert_eq!(reader.seen(&name("t/none")).unwrap(), None);
}

fn ids(filter: &RunFilter, reader: &Reader) -> Vec<i64> {
    let runs = reader.runs(filter).unwrap().rows;
    runs.iter().map(|run| run.run.0).collect()
}

#[test]
fn a_reader_sees_whole_commands_while_the_writer_writes() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    ok(&mut store, put(manifest("t/a", 2, "queue", true)));
    let reader = Reader::open(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut minute = 1;
            while !stop.load(Ordering::Relaxed) {
                let batch: Vec<_> = (minute..minute + 3).map(|m| fire(JobId(1), m)).collect();
                store.propose(&batch).unwrap();
                minute += 3;
            }
        });
        let mut seen = 0;
        let mut grown = 0;
        while grown < 20 {
            let detail = reader.job(&name("t/a")).unwrap().unwrap();
            let newest = detail.runs.first().map_or(0, |run| run.fire_time.0);
            assert_eq!(detail.job.fired_through.0, newest);
            assert_eq!(newest / MINUTE % 3, 0, "half a batch was seen");
            assert!(newest >= seen);
            grown += usize::from(newest > seen);
            seen = newest;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn runs_are_listed_by_page_and_filter() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    ok(&mut store, put(manifest("t/a", 1, "queue", true)));
    ok(&mut store, put(manifest("t/b", 1, "forbid", true)));
    for minute in 1..=10 {
        ok(&mut store, fire(JobId(1), minute));
        ok(&mut store, fire(JobId(2), minute));
    }
    let reader = Reader::open(&path).unwrap();
    let all = RunFilter {
        limit: 1000,
        ..RunFilter::default()
    };
    let job = |job: &str| RunFilter {
        job: Some(name(job)),
        ..all.clone()
    };
    let state = |state| RunFilter {
        state: Some(state),
        ..all.clone()
    };
    let after = |after, limit| RunFilter {
        after_id: Some(RunId(after)),
        limit,
        ..all.clone()
    };
    let some = RunFilter {
        ids: Some([3, 99, 1].map(RunId).to_vec()),
        ..all.clone()
    };
    let none = RunFilter {
        ids: Some(Vec::new()),
        ..all.clone()
    };
    let both = RunFilter {
        state: Some(RunState::Skipped),
        limit: 2,
        ..job("t/b")
    };
    let newest_first: Vec<i64> = (1..=20).rev().collect();
    for (filter, expected) in [
        (all.clone(), newest_first.clone()),
        (
            RunFilter {
                limit: 3,
                ..all.clone()
            },
            vec![20, 19, 18],
        ),
        (
            RunFilter {
                limit: 0,
                ..all.clone()
            },
            vec![],
        ),
        (after(0, 3), vec![1, 2, 3]),
        (after(3, 3), vec![4, 5, 6]),
        (after(18, 3), vec![19, 20]),
        (after(20, 3), vec![]),
        (job("t/a"), (1..=19).rev().step_by(2).collect()),
        (job("t/none"), vec![]),
        (state(RunState::Ready), vec![2, 1]),
        (
            state(RunState::Waiting),
            (3..=19).rev().step_by(2).collect(),
        ),
        (state(RunState::Succeeded), vec![]),
        (some, vec![3, 1]),
        (none, vec![]),
        (both, vec![20, 18]),
    ] {
        assert_eq!(ids(&filter, &reader), expected, "{filter:?}");
    }
    let mut paged = Vec::new();
    while let Some(last) = paged.last().copied().or(Some(0)) {
        let page = ids(&after(last, 7), &reader);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    paged.reverse();
    assert_eq!(paged, newest_first);
}

#[test]
fn a_run_is_told_with_everything_that_happened_to_it() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    ok(&mut store, put(manifest("t/a", 2, "forbid", true)));
    let (agent_id, session) = attach(&mut store);
    ok(&mut store, fire(JobId(1), 1));
    let failed = grant(&mut store, 1, 0, session);
    finish(&mut store, agent_id, failed, AttemptOutcome::Failed);
    let live = grant(&mut store, 1, 0, session);

    let reader = Reader::open(&path).unwrap();
    let detail = reader.run(RunId(1)).unwrap().unwrap();
    assert_eq!(Some(detail.clone()), store.run(RunId(1)).unwrap());
    assert_eq!((detail.run.pending, detail.run.leased), (1, 1));
    assert_eq!(detail.run.state, RunState::Running);
    assert_eq!(detail.executions.len(), 1);
    let attempts = &detail.shard_list[0].attempts;
    let told: Vec<_> = attempts
        .iter()
        .map(|a| (a.token, a.attempt, a.outcome))
        .collect();
    assert_eq!(
        told,
        [(failed, 1, Some(AttemptOutcome::Failed)), (live, 2, None)]
    );
    assert_eq!(attempts[0].exit, Some(Exit::Code(3)));
    assert_eq!(attempts[0].tail.as_deref(), Some("last words"));
    assert_eq!(attempts[0].agent, "h1".parse().unwrap());
    assert!(detail.shard_list[1].attempts.is_empty());

    assert_eq!(reader.run(RunId(2)).unwrap(), None);
    let found = |minute| {
        reader
            .find_run(&name("t/a"), WallMs(minute * MINUTE))
            .unwrap()
    };
    assert_eq!((found(1), found(2)), (Some(RunId(1)), None));
    let agents = reader.agents(None, 9).unwrap().rows;
    assert_eq!((agents[0].leased, agents[0].slots), (1, 8));
    assert_eq!(agents[0].state, "ready");
}

#[test]
fn a_job_is_told_with_its_manifest_and_its_newest_run() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    ok(&mut store, put(manifest("t/a", 1, "forbid", true)));
    ok(&mut store, put(manifest("t/b", 1, "forbid", true)));
    ok(&mut store, fire(JobId(1), 1));

    let reader = Reader::open(&path).unwrap();
    let all = JobFilter {
        limit: 10,
        ..JobFilter::default()
    };
    let jobs = reader.jobs(&all).unwrap().rows;
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs[0].schedule, "* * * * *");
    assert_eq!(jobs[0].owner, "ada");
    assert_eq!(jobs[0].problem, None);
    assert_eq!(jobs[0].last_run.as_ref().unwrap().run, RunId(1));
    let detail = reader.job(&name("t/a")).unwrap().unwrap();
    assert_eq!(detail.manifest["name"], "t/a");
    assert_eq!(reader.job(&name("t/none")).unwrap(), None);
}

#[test]
fn alerts_come_by_when_they_were_opened_and_are_chosen_by_what_they_are_about() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    for job in ["t/a", "t/b", "u/c"] {
        ok(&mut store, put(manifest(job, 1, "queue", true)));
    }
    for (minute, kind, on, text) in [
        (1, AlertKind::ClockBehind, On::All, "one"),
        (2, AlertKind::GivenUp, On::Job(JobId(1)), "two"),
        (3, AlertKind::GivenUp, On::Job(JobId(2)), "three"),
        (4, AlertKind::UnreadableJob, On::Job(JobId(3)), "four"),
        (5, AlertKind::ClockBehind, On::All, "one again"),
    ] {
        let text = text.to_owned();
        let alert = RaiseAlert { kind, on, text };
        ok(&mut store, at(minute, Command::RaiseAlert(alert)));
    }
    let clear = ClearAlert {
        alert_id: AlertId(2),
        by: "ada".to_owned(),
        reason: "known".to_owned(),
    };
    ok(&mut store, at(6, Command::ClearAlert(clear)));
    let reader = Reader::open(&path).unwrap();
    let list = |filter: &AlertFilter, limit| -> Vec<api::Alert> {
        whole(limit, |before| {
            let filter = AlertFilter {
                before,
                limit,
                ..filter.clone()
            };
            reader.alerts(&filter).unwrap()
        })
    };
    let open = AlertFilter::default;
    let all = || AlertFilter {
        cleared: true,
        ..open()
    };
    let of_kind = |kind, filter| AlertFilter {
        kind: Some(kind),
        ..filter
    };
    let of_job = |job, filter| AlertFilter {
        job: Some(name(job)),
        ..filter
    };
    let of_namespace = |namespace: &str, filter| AlertFilter {
        namespace: Some(namespace.parse().unwrap()),
        ..filter
    };
    // What is no job's is for those alone who may see everything.
    let within = |namespaces: &[&str]| AlertFilter {
        within: reach(namespaces),
        ..all()
    };
    let given_up = AlertKind::GivenUp;
    for (filter, expected) in [
        (open(), &["four", "three", "one again"][..]),
        (all(), &["four", "three", "two", "one again"]),
        (of_kind(given_up, open()), &["three"]),
        (of_kind(given_up, all()), &["three", "two"]),
        (of_kind(AlertKind::BacklogOld, all()), &[]),
        (of_job("t/a", open()), &[]),
        (of_job("t/a", all()), &["two"]),
        (of_job("t/none", all()), &[]),
        (of_namespace("t", open()), &["three"]),
        (of_namespace("t", all()), &["three", "two"]),
        (of_namespace("u", all()), &["four"]),
        (within(&["t"]), &["three", "two"]),
        (within(&["t", "u"]), &["four", "three", "two"]),
        (within(&["v"]), &[]),
        (
            of_namespace("t", of_kind(AlertKind::UnreadableJob, all())),
            &[],
        ),
    ] {
        for limit in [1, 3, 9] {
            let texts: Vec<String> = list(&filter, limit).into_iter().map(|a| a.text).collect();
            assert_eq!(texts, expected, "{filter:?}, {limit} a page");
        }
    }
    let alerts = list(&all(), 9);
    assert_eq!(alerts[0].kind, "unreadable_job");
    assert_eq!(alerts[2].cleared_by.as_deref(), Some("ada"));
    let again = &alerts[3];
    assert_eq!(again.count, 2);
    assert_eq!(again.last_at, Some(WallMs(again.at.0 + 4 * MINUTE)));
}

/// One that is raised again while somebody turns the pages is still met once.
#[test]
fn an_alert_that_is_raised_again_keeps_its_place() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    let kinds = [
        AlertKind::ClockBehind,
        AlertKind::ClockHeld,
        AlertKind::BacklogOld,
    ];
    let raise = |store: &mut Store, minute, kind| {
        let (on, text) = (On::All, String::new());
        let alert = RaiseAlert { kind, on, text };
        ok(store, at(minute, Command::RaiseAlert(alert)));
    };
    for (minute, kind) in (1..).zip(kinds) {
        raise(&mut store, minute, kind);
    }
    let reader = Reader::open(&path).unwrap();
    let met = whole(1, |before| {
        let filter = AlertFilter {
            before,
            limit: 1,
            ..AlertFilter::default()
        };
        let page = reader.alerts(&filter).unwrap();
        raise(&mut store, 9, AlertKind::ClockBehind);
        page
    });
    let met: Vec<AlertId> = met.iter().map(|alert| alert.id).collect();
    assert_eq!(met, [AlertId(3), AlertId(2), AlertId(1)]);
}

#[test]
fn there_is_nothing_to_read_before_the_writer_has_created_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    assert!(matches!(Reader::open(&path), Err(ReaderError::Open { .. })));
    assert!(!path.exists());
}

/// A preview says what the put then does, and changes nothing.
#[test]
fn a_put_is_previewed_as_it_then_comes() {
    let OnDisk {
        mut store,
        path,
        _directory,
    } = on_disk();
    let reader = Reader::open(&path).unwrap();
    let renamed = |from: &str, to: &str| {
        let json = manifest(to, 2, "queue", true).to_json();
        let json = json.replacen(
            "\"purpose\"",
            &format!("\"renamed_from\":\"{from}\",\"purpose\""),
            1,
        );
        jobs::Manifest::from_json(&json).unwrap()
    };
    let delete = |job_id: i64, version: u32| {
        let delete = DeleteJob {
            job_id: JobId(job_id),
            cut_over: WallMs(0),
            settle: Settlement {
                version,
                from: WallMs(0),
                decisions: Vec::new(),
            },
            by: "ada".to_owned(),
        };
        at(0, Command::DeleteJob(delete))
    };
    let settled = |manifest: &jobs::Manifest, before: Option<u32>| {
        let put = PutJob {
            shards: None,
            manifest: manifest.clone(),
            cut_over: WallMs(0),
            settle: before.map(|version| Settlement {
                version,
                from: WallMs(0),
                decisions: Vec::new(),
            }),
            expected: None,
            by: "ada".to_owned(),
        };
        at(0, Command::PutJob(Box::new(put)))
    };
    let a = |shards| manifest("t/a", shards, "queue", true);
    let uses_what_is_not_there = || {
        let mut manifest = a(4);
        manifest.needs.uses.insert("db".parse().unwrap(), 1);
        manifest
    };
    let mut previewed = Vec::new();
    for manifest in [
        a(1),
        a(1),
        a(2),
        uses_what_is_not_there(),
        renamed("t/a", "t/b"),
        a(3),
        renamed("t/never", "t/c"),
        renamed("t/b", "t/c"),
    ] {
        let applied = store.last_applied().unwrap();
        let preview = reader.preview_put(&manifest).unwrap();
        assert_eq!(store.last_applied().unwrap(), applied);
        let before = preview.as_ref().ok().and_then(|p| p.standing.as_ref());
        let version = before.map(|standing| standing.job.version);
        let outcome = store
            .propose(&[settled(&manifest, version)])
            .unwrap()
            .remove(0);
        let kind = match outcome.result {
            Ok(Done::JobPut { kind, .. }) => Ok(kind),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal),
        };
        assert_eq!(preview.clone().map(|preview| preview.kind), kind);
        previewed.push(preview.map(|p| (p.kind, version)).ok());
    }
    assert_eq!(
        previewed,
        [
            Some((PutKind::Created, None)),
            Some((PutKind::Unchanged, Some(1))),
            Some((PutKind::Changed, Some(1))),
            None,
            Some((PutKind::Renamed, Some(2))),
            None,
            Some((PutKind::Created, None)),
            None,
        ]
    );
    // What is open is told of, and a deleted job is one that would be revived.
    let job = reader.standing(&name("t/b")).unwrap().unwrap();
    assert_eq!((job.open_runs, job.leases), (0, 0));
    ok(&mut store, delete(1, 3));
    assert_eq!(reader.standing(&name("t/b")).unwrap(), None);
    let preview = reader.preview_put(&manifest("t/b", 1, "queue", true));
    assert_eq!(preview.unwrap().unwrap().kind, PutKind::Revived);
    let (_, session) = attach(&mut store);
    ok(&mut store, put(manifest("t/d", 2, "queue", true)));
    for minute in 1..3 {
        ok(&mut store, fire(JobId(3), minute));
    }
    grant(&mut store, 1, 0, session);
    let job = reader.standing(&name("t/d")).unwrap().unwrap();
    assert_eq!((job.open_runs, job.leases), (2, 1));
}
