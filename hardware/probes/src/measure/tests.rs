//! Disks are measured for real here, in a directory that must be as empty after as before.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use super::*;

fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// A directory on a disk; the one for temporary files may be in memory.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn why<T: fmt::Debug>(measured: &Measured<T>) -> String {
    measured.why().unwrap_or_else(|| format!("{measured:?}"))
}

/// What a probe says where there is little room, as on a machine that runs many tests.
fn is_short_of_space<T>(measured: &Measured<T>) -> bool {
    matches!(measured, Measured::Skipped(Skip::SpaceShort { .. }))
}

#[test]
fn a_hundred_syncs_leave_figures_and_no_file() {
    let place = place();
    let found = probe_fsync(place.path(), &Conditions::default(), &never());
    if is_short_of_space(&found) {
        return;
    }
    let found = found.known().unwrap_or_else(|| panic!("{}", why(&found)));
    assert!(!found.latency.is_empty() && found.latency.len() <= HOURLY_WRITES);
    assert!(found.p50_us <= found.p99_us && found.p99_us <= found.max_us);
    assert_eq!(found.grade, Grade::of_p99_us(found.p99_us));
    assert_eq!(found.written_bytes, found.latency.len() * WRITE_BYTES);
    assert_eq!(names(place.path()), [""; 0]);
    let text = serde_json::to_string(found).unwrap();
    assert_eq!(&serde_json::from_str::<FsyncLatency>(&text).unwrap(), found);
}

#[test]
fn the_hourly_probe_is_left_out_by_rule() {
    let given = |disk_busy_per_mille, array_rebuilding, io_job_runs| Conditions {
        disk_busy_per_mille,
        array_rebuilding,
        io_job_runs,
    };
    for (conditions, expected) in [
        (
            given(Some(801), false, false),
            r#"{"skipped":{"reason":"disk_busy","busy_per_mille":801}}"#,
        ),
        (
            given(None, true, false),
            r#"{"skipped":{"reason":"array_rebuilding"}}"#,
        ),
        (
            given(Some(0), false, true),
            r#"{"skipped":{"reason":"io_job_runs"}}"#,
        ),
    ] {
        let place = place();
        let found = probe_fsync(place.path(), &conditions, &never());
        assert_eq!(serde_json::to_string(&found).unwrap(), expected);
        assert_eq!(names(place.path()), [""; 0]);
    }
}

#[test]
fn a_directory_that_is_none_is_told() {
    let place = place();
    let missing = place.path().join("missing");
    let file = place.path().join("file");
    File::create(&file).unwrap();
    for directory in [&missing, &file] {
        let found = measure_fsync(directory, &never());
        assert!(
            why(&found).contains(&*directory.to_string_lossy()),
            "{found:?}"
        );
        let found = measure_random_writes(directory, &never());
        assert!(
            why(&found).contains(&*directory.to_string_lossy()),
            "{found:?}"
        );
    }
}

#[test]
fn memory_is_no_disk() {
    let Ok(place) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let found = measure_fsync(place.path(), &never());
    assert!(why(&found).contains("is a tmpfs"), "{found:?}");
    let found = measure_random_writes(place.path(), &never());
    assert!(why(&found).contains("is a tmpfs"), "{found:?}");
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn a_stop_in_the_midst_leaves_nothing() {
    let place = place();
    let file = place.path().join(".matins-probe");
    let stop = never();
    let found = thread::scope(|scope| {
        let measured = scope.spawn(|| measure_random_writes(place.path(), &stop));
        // It exists for seconds, unless there is no room for it.
        while !file.exists() && !measured.is_finished() {
            thread::yield_now();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        measured.join().unwrap()
    });
    if is_short_of_space(&found) {
        return;
    }
    assert_eq!(found, Measured::Skipped(Skip::Stopped));
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn one_measures_at_a_time() {
    let place = place();
    let other = File::create(place.path().join(".matins-probe")).unwrap();
    other.lock().unwrap();
    let found = measure_fsync(place.path(), &never());
    if is_short_of_space(&found) {
        return;
    }
    assert!(why(&found).contains("another measurement"), "{found:?}");
    // The one that holds it still has its file.
    assert_eq!(names(place.path()), [".matins-probe"]);
    drop(other);
    let found = probe_fsync(place.path(), &Conditions::default(), &never());
    assert!(found.known().is_some(), "{found:?}");
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn files_of_others_are_left_alone() {
    let place = place();
    let precious = place.path().join("precious");
    let probe = place.path().join(".matins-probe");
    fs::write(&precious, "all of it").unwrap();
    type Link = fn(&Path, &Path) -> std::io::Result<()>;
    let hard: Link = |to, link| fs::hard_link(to, link);
    let soft: Link = |to, link| symlink(to, link);
    for link in [hard, soft] {
        link(&precious, &probe).unwrap();
        let found = measure_fsync(place.path(), &never());
        assert!(found.known().is_none(), "{found:?}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "all of it");
        fs::remove_file(&probe).unwrap();
    }
}

#[test]
fn facts_are_told_with_their_reasons() {
    let scores = Scores {
        cpu: Measured::Skipped(Skip::ProcessorsBusy {
            busy_per_mille: 423,
        }),
        memory: Measured::Known(Bandwidth {
            bytes_per_s: 12_000_000_000,
            nodes: Vec::new(),
        }),
        random_writes: Measured::Unknown("there is no room".to_owned()),
        fsync: Measured::Skipped(Skip::Stopped),
        wear: None,
    };
    let facts = serde_json::to_value(scores.facts()).unwrap();
    let busy = "not measured: the processors were 42.3 % busy before, and more than 10 % makes a score \
                say less than it should";
    let expected = serde_json::json!({
        "cpu.score_all": {"unknown": busy},
        "cpu.score_single": {"unknown": busy},
        "disk.fsync_grade": {"unknown": "not measured: it was asked to stop"},
        "disk.fsync_p99_us": {"unknown": "not measured: it was asked to stop"},
        "disk.fsync_while_busy": {"unknown": "not measured: it was asked to stop"},
        "disk.probe_bytes_per_year": {"unknown": "not measured: it was asked to stop"},
        "disk.random_write_iops": {"unknown": "there is no room"},
        "memory.bandwidth_bytes_per_s": {"known": 12_000_000_000_u64},
    });
    assert_eq!(facts, expected);
    let told: Vec<String> = scores.facts().0.into_keys().collect();
    let mut measured: Vec<&str> = crate::MEASURED.to_vec();
    measured.sort_unstable();
    assert_eq!(told, measured);
}

#[test]
fn a_busy_host_has_a_grade_that_its_disk_is_no_worse_than() {
    let syncs = |p99_us, processors_busy_per_mille| {
        Measured::Known(FsyncLatency {
            latency: Histogram::default(),
            p50_us: p99_us,
            p99_us,
            max_us: p99_us,
            grade: Grade::of_p99_us(p99_us),
            slow_syncs: 0,
            cut_short: false,
            elapsed_ms: 1,
            written_bytes: 1,
            device_written_bytes: None,
            device: None,
            device_busy_per_mille: None,
            device_flush_mean_us: None,
            processors_busy_per_mille,
        })
    };
    for (p99_us, busy_per_mille, grade, while_busy) in [
        (1_000, None, Some("A"), Some(false)),
        (30_000, Some(500), Some("D"), Some(false)),
        (1_000, Some(501), Some("A"), Some(true)),
        (20_000, Some(900), Some("C"), Some(true)),
        (30_000, Some(501), None, None),
    ] {
        let scores = Scores {
            cpu: Measured::Skipped(Skip::Stopped),
            memory: Measured::Skipped(Skip::Stopped),
            random_writes: Measured::Skipped(Skip::Stopped),
            fsync: syncs(p99_us, busy_per_mille),
            wear: Some(Wear {
                bytes_a_year: 9_000_000_000,
                rated_per_mille: 0.03,
            }),
        };
        let facts = scores.facts();
        let case = format!("{p99_us} us, {busy_per_mille:?}");
        assert_eq!(facts.text("disk.fsync_grade"), grade, "{case}");
        assert_eq!(facts.truth("disk.fsync_while_busy"), while_busy, "{case}");
        let written = facts.number("disk.probe_bytes_per_year");
        assert_eq!(written, Some(9_000_000_000), "{case}");
    }
}
