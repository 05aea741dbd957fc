use profiles::classes::Classes;
use protocol::HostFacts;
use protocol::attempt::AttemptOutcome;

use super::*;
use crate::history::SeenAttempt;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;

/// 2026-11-30, 20:00 UTC.
const EVENING: WallMs = WallMs(1_796_068_800_000);

/// Of two shards, fired in this minute of the evening; each shard begins and ends so many seconds later.
fn run(id: i64, minute: i64, shards: [(i64, i64); 2]) -> SeenRun {
    let fire_time = EVENING + DurationMs(minute * MINUTE);
    let at = |seconds: i64| fire_time + DurationMs(seconds * SECOND);
    let attempt = |(shard, (began, ended)): (usize, &(i64, i64))| SeenAttempt {
        host: "a".parse().unwrap(),
        shard: shard as u32,
        granted: at(*began),
        started: at(*began),
        ended: at(*ended),
        outcome: Some(AttemptOutcome::Succeeded),
        cpu: DurationMs::ZERO,
        memory_bytes_peak: 0,
        operations: None,
        operations_partial: false,
        text_bytes: 0,
    };
    SeenRun {
        run: RunId(id),
        fire_time,
        nominal: None,
        admitted: fire_time,
        ended: shards.iter().map(|(_, ended)| at(*ended)).max(),
        succeeded: true,
        shards: 2,
        attempts: shards.iter().enumerate().map(attempt).collect(),
    }
}

fn job(name: &str, runs: Vec<SeenRun>) -> SeenJob {
    let text = format!(
        "name: {name}\npurpose: a test\nowner: ada\nrepeatable: {{ safe: true, how: nothing }}\n\
         schedule: {{ cron: \"* * * * *\", timezone: Etc/UTC }}\n\
         misfire: {{ policy: run_now, after: 60s }}\noverlap: forbid\nexpected_duration: 1m\n\
         timeout: 1h\nshards: 2\nrun: {{ exec: [\"/bin/true\"] }}\n"
    );
    SeenJob {
        manifest: Arc::new(jobs::parse_manifests("t.yaml", &text).unwrap().remove(0)),
        shards: 2,
        runs,
        has_older: false,
    }
}

/// One host of two slots.
fn history(jobs: Vec<SeenJob>) -> History {
    History {
        from: EVENING,
        to: EVENING + DurationMs(60 * MINUTE),
        hosts: vec![SeenHost {
            name: "a".parse().unwrap(),
            slots: 2,
            labels: Vec::new(),
            facts: HostFacts::default(),
            in_service: true,
        }],
        jobs,
        beside: Vec::new(),
        resources: BTreeMap::new(),
        classes: Arc::new(Classes::built_in()),
    }
}

/// Three runs of ten seconds, and then one that waited half a minute for the slots of another job.
fn crowded() -> (SeenJob, SeenRun) {
    let alone = |id| run(id, id, [(0, 10), (0, 8)]);
    let mut runs: Vec<SeenRun> = (1..=3).map(alone).collect();
    runs.push(run(4, 10, [(30, 40), (30, 38)]));
    (job("t/late", runs), run(5, 9, [(50, 90), (50, 90)]))
}

#[test]
fn what_ran_beside_it_is_simulated_beside_it() {
    let check = |beside: Option<SeenRun>, (runs, predicted): (usize, i64)| {
        let mut history = history(vec![crowded().0, job("t/long", Vec::new())]);
        let named = |run| ("t/long".parse().unwrap(), run);
        history.beside = beside.map(named).into_iter().collect();
        let told = check_predictions(&history, 1).unwrap();
        let [told] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((told.run, told.beside), (RunId(4), runs));
        assert_eq!(told.predicted_ms, predicted * SECOND);
        assert_eq!(told.replayed_ms, predicted * SECOND);
        assert_eq!(told.measured_ms, 40 * SECOND);
    };
    check(Some(crowded().1), (1, 40));
    check(None, (0, 10));
    // One that was over by then takes no slot of it.
    check(Some(run(5, 8, [(0, 90), (0, 90)])), (0, 10));
}

#[test]
fn a_run_beside_it_is_that_of_its_own_job_too() {
    let mut late = crowded().0;
    // Admitted while the one before was under way, it waited for that by its overlap, and is told from
    // when it began.
    late.runs[2] = run(3, 9, [(0, 80), (0, 90)]);
    let told = check_predictions(&history(vec![late]), 1).unwrap();
    assert_eq!((told[0].beside, told[0].measured_ms), (0, 10 * SECOND));
}

#[test]
fn bounds_are_of_the_runs_before_it() {
    let seconds = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
    let runs = seconds.iter().zip(1..);
    let runs = runs.map(|(&lasts, id)| run(id, id * 5, [(0, lasts), (0, 1)]));
    let mut runs: Vec<SeenRun> = runs.collect();
    runs.push(run(11, 55, [(0, 200), (0, 1)]));
    let told = check_predictions(&history(vec![job("t/grows", runs)]), 1).unwrap();
    let newest = &told[0];
    assert_eq!(newest.run, RunId(11));
    assert_eq!(newest.predicted_ms, 60 * SECOND, "newer runs weigh more");
    let bounds = (newest.predicted_ms_least, newest.predicted_ms_most);
    assert_eq!(bounds, (20 * SECOND, 100 * SECOND));
    assert_eq!(newest.replayed_ms, 200 * SECOND);
    assert!((newest.error() + 0.7).abs() < 1e-9);
    let accuracy = Accuracy::of(&told);
    assert_eq!(
        (accuracy.runs, accuracy.within),
        (8, 0),
        "each is the longest"
    );
    assert_eq!(accuracy.worst, Some(0));
    assert_eq!(accuracy.replayed_median, Some(0.0));
    assert_eq!(Accuracy::of(&[]), Accuracy::default());
}

#[test]
fn processor_time_is_held_against_that_before() {
    let mut late = crowded().0;
    let check = |job: &SeenJob, expected: Option<f64>| {
        let told = check_predictions(&history(vec![job.clone()]), 1).unwrap();
        assert_eq!(told[0].cpu, expected);
    };
    check(&late, None);
    for (run, cpu) in late.runs.iter_mut().zip([100, 200, 900, 300]) {
        run.attempts[1].cpu = DurationMs(cpu);
    }
    check(&late, Some(1.5));
}

#[test]
fn what_cannot_be_told_is_left_out() {
    let check = |change: &dyn Fn(&mut SeenJob), expected: usize| {
        let (mut late, long) = crowded();
        change(&mut late);
        let mut history = history(vec![late]);
        history.beside = vec![("t/gone".parse().unwrap(), long)];
        let told = check_predictions(&history, 1).unwrap();
        assert_eq!(told.len(), expected);
        assert!(
            told.iter().all(|told| told.beside == 0),
            "it has no manifest"
        );
        assert_eq!(spans_to_see(&history).len(), expected);
    };
    check(&|_| {}, 1);
    check(&|job| job.runs[3].succeeded = false, 0);
    check(&|job| job.runs[3].shards = 3, 0);
    check(&|job| job.runs[1].succeeded = false, 0);
    check(
        &|job| {
            let again = job.runs[3].attempts[0].clone();
            job.runs[3].attempts.push(again);
        },
        0,
    );
}

#[test]
fn spans_that_meet_are_one() {
    let runs = (1..=8).map(|id| run(id, if id < 7 { id } else { 20 + id }, [(0, 70), (0, 1)]));
    let mut job = job("t/meets", runs.collect());
    let mut manifest = Manifest::clone(&job.manifest);
    manifest.overlap = Overlap::Allow;
    job.manifest = Arc::new(manifest);
    let spans = spans_to_see(&history(vec![job]));
    let minutes: Vec<i64> = spans
        .iter()
        .map(|span| (span.0 - EVENING).0 / MINUTE)
        .collect();
    assert_eq!(minutes.len(), 2, "{minutes:?}");
}
