//! Starting, stopping, starting again; and the ends that cannot wait.

use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use coordinator::{CoordinatorError, DataDirError, LEDGER_FAILED, Options};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::RunState;
use protocol::api::{Job, Run, Status};
use serde_json::json;

use crate::agent::FakeAgent;
use crate::house::{House, PATIENCE, YEARLY, manifest, read_api_file, run, wait_for};

/// The house of a coordinator that runs as a process of its own.
const CHILD_DATA: &str = "MATINS_TEST_CHILD_DATA";
const CHILD_IDENTITY: &str = "MATINS_TEST_CHILD_IDENTITY";

#[test]
fn a_restart_keeps_everything() {
    let house = House::new();
    let first = house.start();
    let agent = FakeAgent::attach(&house, &first, "host-1", 8);
    first.put_job("t/tick", &manifest("t/tick", "@every 1s", ""));
    first.put_job("t/still", &manifest("t/still", YEARLY, ""));
    let (token, work) = agent.hear_start();
    agent.succeed(token);
    let done = first.wait_for_run("t/tick", RunState::Succeeded);
    assert_eq!(done.run, work.run_id);
    let (before, epoch) = (
        first.get::<Vec<Job>>("/api/v1/jobs"),
        first.get::<Status>("/api/v1/status").epoch,
    );
    let secret = first.token.clone();
    first.stop().unwrap();
    assert!(
        !house.data().join("api.json").exists(),
        "nobody listens there"
    );

    let second = house.start();
    assert_eq!(second.token, secret);
    let status: Status = second.get("/api/v1/status");
    assert!(status.epoch > epoch, "each reign has an epoch of its own");
    let after: Vec<Job> = second.get("/api/v1/jobs");
    let names = |jobs: &[Job]| {
        jobs.iter()
            .map(|job| (job.job.clone(), job.id))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&after), names(&before));
    let runs: Vec<Run> = second.get(&format!("/api/v1/runs?ids={}", done.run));
    assert_eq!(runs, [done]);

    // And it goes on: the agent attaches anew and is given what has come due.
    let agent = FakeAgent::attach(&house, &second, "host-1", 8);
    let (token, next) = agent.hear_start();
    assert!(next.fire_time > work.fire_time);
    agent.succeed(token);
}

#[test]
fn one_coordinator_at_a_time() {
    let house = House::new();
    let first = house.start();
    let error = refused(house.options());
    let CoordinatorError::DataDir(DataDirError::InUse { pid, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(pid, Some(std::process::id().to_string()));
    let still: Status = first.get("/api/v1/status");
    assert_eq!(still.node, "c1");
    assert!(
        house.data().join("api.json").exists(),
        "the first one's address stays"
    );
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let house = House::new();
    let another = Options {
        api_addr: "192.0.2.1:7412".parse().unwrap(),
        ..house.options()
    };
    let error = refused(another).to_string();
    assert!(error.contains("the API on 192.0.2.1:7412"), "{error}");
    let nobody = Options {
        identity_dir: house.data(),
        ..house.options()
    };
    let error = refused(nobody).to_string();
    assert!(error.contains("identity"), "{error}");
}

/// Why a coordinator does not start; one that does is stopped after a while.
fn refused(options: Options) -> CoordinatorError {
    let started = run(async {
        let a_while = tokio::time::sleep(PATIENCE);
        coordinator::run_until(options, a_while).await
    });
    started.expect_err("it must not start")
}

#[test]
fn secrets_are_private() {
    let house = House::new();
    let _coordinator = house.start();
    for file in [
        "api-token",
        "api.json",
        "lock",
        "ledger.db",
        "ledger.db-wal",
        "log.db",
        "log.db-wal",
        "snapshots/snapshot.db",
        "reserve",
    ] {
        let mode = fs::metadata(house.data().join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let mode = fs::metadata(house.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let house = House::new();
        let mut child = spawn(&house);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = wait_for_end(&mut child);
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        assert!(!house.data().join("api.json").exists());
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_the_process() {
    let house = House::new();
    let mut child = spawn(&house);
    let (url, token) = read_api_file(&house.data()).unwrap();
    // Held by somebody else, SQLite's lock of the writer makes the next batch fail.
    let shm = OpenOptions::new()
        .read(true)
        .write(true)
        .open(house.data().join("log.db-shm"))
        .unwrap();
    const WRITER: i64 = 120;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: WRITER,
        l_len: 1,
        l_pid: 0,
    };
    wait_for("the lock", || fcntl(&shm, FcntlArg::F_SETLK(&lock)).ok());
    let http = crate::house::http();
    let asked = http
        .put(format!("{url}/api/v1/jobs/t/a"))
        .header("authorization", format!("Bearer {token}"))
        .send_json(json!({ "manifest": manifest("t/a", YEARLY, ""), "by": "x" }));
    assert!(
        asked.is_err(),
        "the process ended in the middle of the request"
    );
    let status = wait_for_end(&mut child);
    assert_eq!(status.code(), Some(LEDGER_FAILED), "{status}");
    assert!(shm.as_raw_fd() >= 0, "the lock was held until here");

    drop(shm);
    let next = house.start();
    let jobs: Vec<Job> = next.get("/api/v1/jobs");
    assert_eq!(jobs, [], "what was not answered was not done");
}

#[test]
fn what_was_answered_before_the_stop_is_there_after_it() {
    let house = House::new();
    let first = house.start();
    let (url, token) = (first.url.clone(), first.token.clone());
    let askers: Vec<JoinHandle<u32>> = (0..4)
        .map(|asker| {
            let (url, token) = (url.clone(), token.clone());
            thread::spawn(move || put_until_refused(asker, &url, &token))
        })
        .collect();
    wait_for("each to have put a few", || {
        let jobs: Vec<Job> = first.get("/api/v1/jobs");
        (jobs.len() > 20).then_some(())
    });
    first.stop().unwrap();
    let answered: Vec<u32> = askers
        .into_iter()
        .map(|asker| asker.join().unwrap())
        .collect();

    let second = house.start();
    let jobs: Vec<Job> = second.get("/api/v1/jobs");
    for (asker, count) in answered.into_iter().enumerate() {
        for number in 0..count {
            let name = format!("t/j{asker}-{number}");
            assert!(
                jobs.iter().any(|job| job.job.as_str() == name),
                "{name} is lost"
            );
        }
    }
}

/// Puts one job after the other; answers how many were accepted.
fn put_until_refused(asker: usize, url: &str, token: &str) -> u32 {
    let http = crate::house::http();
    for number in 0.. {
        let name = format!("t/j{asker}-{number}");
        let body = json!({ "manifest": manifest(&name, YEARLY, ""), "by": "x" });
        let put = http
            .put(format!("{url}/api/v1/jobs/{name}"))
            .header("authorization", format!("Bearer {token}"))
            .send_json(body);
        match put {
            Ok(answer) if answer.status() == 200 => {}
            _ => return number,
        }
    }
    unreachable!("the coordinator stops before numbers run out")
}

/// Not a test: what [`spawn`] runs in a process of its own.
#[test]
#[ignore = "runs a coordinator for the tests above"]
fn child_coordinator() {
    let (Ok(data), Ok(identity)) = (std::env::var(CHILD_DATA), std::env::var(CHILD_IDENTITY))
    else {
        return;
    };
    let options = Options {
        data_dir: data.into(),
        identity_dir: identity.into(),
        agents_addr: "127.0.0.1:0".parse().unwrap(),
        api_addr: "127.0.0.1:0".parse().unwrap(),
        membership: coordinator::Membership::alone(),
        node: "child".to_owned(),
        clock: coordinator::Thresholds::default(),
        classes: coordinator::ClassFile::built_in(),
        time_service: coordinator::TimeService::Unasked,
        fitness: None,
        address_keeper: None,
        backups: None,
        certificate_life: transport::ca::RENEWED_LIFETIME,
    };
    run(coordinator::run(options)).unwrap();
}

fn spawn(house: &House) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::child_coordinator", "--ignored"])
        .env(CHILD_DATA, house.data())
        .env(CHILD_IDENTITY, house.options().identity_dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let data = house.data();
    wait_for("the child to be up", || {
        assert_eq!(child.try_wait().unwrap(), None, "the child did not start");
        up(&data)
    });
    child
}

fn up(data: &Path) -> Option<()> {
    read_api_file(data).map(drop)
}

fn wait_for_end(child: &mut Child) -> ExitStatus {
    wait_for("the child to end", || child.try_wait().unwrap())
}
