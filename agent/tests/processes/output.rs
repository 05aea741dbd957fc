//! What attempts write: all of it where it is little, bounded where it is much, and nobody waits.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::attempt::Exit;
use protocol::output::{Amount, Mark, Record, Stream};
use protocol::supervisor::{KillCause, SpawnFault};
use protocol::{BootMs, Token};

use crate::harness::{
    Agent, Home, OUTPUT_BYTES_MAX, Running, is_possible, launch_shell, launch_with, now_ms,
    wait_for,
};

/// What Matins says in an output.
fn marks(home: &Home, token: i64) -> Vec<Mark> {
    let records = home.records_of(token);
    let lines = records.split(|&byte| byte == b'\n');
    let records = lines.filter_map(Record::parse);
    let ours = records.filter(|record| record.stream == Stream::Matins);
    ours.map(|record| Mark::parse(record.content)).collect()
}

fn says(home: &Home, token: i64, text: &str) -> bool {
    let marks = marks(home, token);
    marks.iter().any(|mark| mark.to_string().contains(text))
}

fn bytes_on_disk(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

/// The log writer of this supervisor; `None` while there is none.
fn log_writer(supervisor: &Running) -> Option<Pid> {
    let tasks = fs::read_dir(format!("/proc/{}/task", supervisor.pid())).unwrap();
    let children = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = children.collect::<Vec<_>>().concat();
    pids.split_whitespace()
        .find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim() == "matins-logs")
        })
        .map(|pid| Pid::from_raw(pid.parse().unwrap()))
}

#[test]
fn every_byte_comes_back_whatever_it_is() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend_from_slice(b"\n\0\0\n\r\n\xf0\x9f");
    bytes.extend(vec![b'x'; 1 << 20]);
    bytes.extend_from_slice(b"\nno end");
    let input = home.path().join("input");
    fs::write(&input, &bytes).unwrap();
    let script = format!("cat {}", input.display());
    agent.send(&launch_with(&home, 1, &script, |l| {
        l.output_bytes_max = 64 << 20;
        l.env.push(("MATINS_JOB".to_owned(), "t/a".to_owned()));
    }));
    assert_eq!(agent.ended(1).exit, Some(Exit::Code(0)));
    assert!(home.raw_output_of(1) == bytes);
    let lines = bytes.iter().filter(|&&byte| byte == b'\n');
    let all = Amount {
        bytes: bytes.len() as u64,
        lines: lines.fold(0, |lines, _| lines + 1),
    };
    assert_eq!(marks(&home, 1), [Mark::Ended(all)]);
    let about = fs::read_to_string(home.output(1).join("about")).unwrap();
    assert!(
        about.contains("job: t/a\n") && about.contains("token: token-1\n"),
        "{about}"
    );
}

/// Prints so many bytes as fast as it can, then a last line.
fn prints(home: &Home, bytes: u64) {
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = format!("yes 'a line like any other' | head -c {bytes}; echo; echo the end");
    agent.send(&launch_shell(home, 1, &script));
    assert_eq!(agent.ended(1).exit, Some(Exit::Code(0)));
    let on_disk = bytes_on_disk(&home.output(1));
    assert!(on_disk <= OUTPUT_BYTES_MAX + 4096, "{on_disk}");
    assert!(on_disk > OUTPUT_BYTES_MAX / 2, "{on_disk}");
    let output = home.output_of(1);
    assert!(output.starts_with("a line like any other\na line"));
    assert!(output.ends_with("any other\nthe end\n") || output.ends_with("\nthe end\n"));
    let Some(Mark::Ended(all)) = marks(home, 1).pop() else {
        panic!("no end");
    };
    assert_eq!(all.bytes, bytes + 9);
}

#[test]
fn much_output_costs_a_bounded_file_and_its_ends_are_kept() {
    prints(&Home::new(), 300_000_000);
}

#[test]
#[ignore = "make test-full: ten gigabytes"]
fn ten_gigabytes_cost_a_bounded_file() {
    prints(&Home::new(), 10_000_000_000);
}

#[test]
fn what_goes_on_printing_when_the_agent_is_gone_is_kept() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    let script = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.01; done";
    agent.send(&launch_shell(&home, 1, script));
    agent.launched(1);
    drop(agent);
    wait_for("output without an agent", || {
        home.output_of(1).contains("line 50\n")
    });
}

#[test]
fn a_descriptor_given_to_a_stranger_does_not_hold_the_run_open() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    agent.send(&launch_shell(&home, 1, "echo pid=$$; exec sleep 1000"));
    wait_for("the attempt", || home.output_of(1).contains("pid="));
    let pid = home.pid_in_output(1);
    let mut escaped = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"))
        .unwrap();
    agent.cancel(1);
    let end = agent.ended(1);
    assert_eq!(end.killed, Some(KillCause::Cancelled));
    wait_for("the output to be let go", || {
        says(&home, 1, "the end of the output")
    });
    assert!(says(&home, 1, "none of the attempt's"));
    // Nobody reads any more, and who writes is told so.
    wait_for("the pipe to be closed", || escaped.write_all(b"x").is_err());
}

#[test]
fn a_log_writer_that_is_killed_is_replaced_and_the_job_goes_on() {
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; sleep 0.005; done";
    agent.send(&launch_shell(&home, 1, script));
    agent.send(&launch_shell(&home, 2, "echo quiet; read line <&1"));
    for _ in 0..3 {
        let lines = home.output_of(1).lines().count();
        wait_for("output", || home.output_of(1).lines().count() > lines + 10);
        let pid = log_writer(&supervisor).unwrap();
        kill(pid, Signal::SIGKILL).unwrap();
        wait_for("the next log writer", || {
            log_writer(&supervisor).is_some_and(|next| next != pid)
        });
    }
    let end = agent.ended(1);
    assert_eq!((end.exit, end.killed), (Some(Exit::Code(0)), None));
    let output = home.output_of(1);
    assert!(output.ends_with("line 299\nline 300\n"), "{output}");
    // What was read and not yet written is all that may be missing.
    let missing = (1..=300).filter(|n| !output.contains(&format!("line {n}\n")));
    assert!(missing.count() <= 6, "{output}");
    assert!(says(&home, 1, "started anew"));
    agent.send(&launch_shell(&home, 3, "echo after"));
    assert_eq!(agent.ended(3).exit, Some(Exit::Code(0)));
    assert_eq!(home.output_of(3), "after\n");
}

/// Starts attempts until one ends as `wanted`.
fn starts_until(
    agent: &mut Agent,
    home: &Home,
    tokens: std::ops::Range<i64>,
    wanted: impl Fn(&protocol::supervisor::End) -> bool,
) -> protocol::supervisor::End {
    let mut found = None;
    let mut tokens = tokens;
    wait_for("the kind of end that is wanted", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let token = tokens.next().expect("enough tokens");
        agent.send(&launch_shell(home, token, "echo fine"));
        let end = agent.ended(token);
        found = wanted(&end).then_some(end);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_log_writer_that_hangs_holds_up_no_deadline_and_takes_no_more() {
    let home = Home::new();
    let supervisor = home.start();
    let mut agent = home.connect();
    let pid = {
        wait_for("the log writer", || log_writer(&supervisor).is_some());
        log_writer(&supervisor).unwrap()
    };
    kill(pid, Signal::SIGSTOP).unwrap();
    // It stalls on its own full pipe, and dies at its deadline.
    agent.send(&launch_with(&home, 1, "exec yes", |l| {
        l.deadline = BootMs(now_ms() + 1_000);
    }));
    let end = agent.ended(1);
    assert_eq!(end.killed, Some(KillCause::LeaseLost));
    agent.send(&launch_shell(&home, 2, "exec sleep 1000"));
    agent.launched(2);
    let refused = starts_until(&mut agent, &home, 10..100, |end| end.spawn_error.is_some());
    assert_eq!(refused.spawn_fault, SpawnFault::Host);
    let why = refused.spawn_error.unwrap();
    assert!(why.contains("the log writer has not answered"), "{why}");
    kill(pid, Signal::SIGCONT).unwrap();
    starts_until(&mut agent, &home, 100..200, |end| {
        end.exit == Some(Exit::Code(0))
    });
    agent.cancel(2);
    agent.ended(2);
}

#[test]
fn a_full_disk_costs_output_and_says_so_and_starts_are_refused_while_it_lasts() {
    if !is_possible("a full disk", true, &["/bin/mount"]) {
        return;
    }
    let home = Home::new();
    let disk = Disk::new(home.path().join("disk"));
    let _supervisor = home.start();
    let mut agent = home.connect();
    let filler = disk.0.join("filler");
    fs::write(&filler, vec![0; 1_500_000]).unwrap();
    let (full, go) = (home.path().join("full"), home.path().join("go"));
    let script = format!(
        "yes 0123456789012345678901234567890123456789 | head -c 3000000; : >{}; \
         while ! [ -e {} ]; do sleep 0.05; done; echo after",
        full.display(),
        go.display()
    );
    let on_disk = |token: i64| disk.0.join(token.to_string()).display().to_string();
    agent.send(&launch_with(&home, 1, &script, |l| {
        l.output = on_disk(1);
        l.output_bytes_max = 64 << 20;
    }));
    agent.launched(1);
    wait_for("all to be printed", || full.exists());
    let refused = starts_until(&mut agent, &home, 10..100, |end| end.spawn_error.is_some());
    assert_eq!(refused.spawn_fault, SpawnFault::Host);
    let why = refused.spawn_error.unwrap();
    assert!(why.contains("No space left on device"), "{why}");
    fs::remove_file(&filler).unwrap();
    starts_until(&mut agent, &home, 100..200, |end| {
        end.exit == Some(Exit::Code(0))
    });
    fs::write(&go, "").unwrap();
    let end = agent.ended(1);
    assert_eq!((end.exit, end.killed), (Some(Exit::Code(0)), None));
    let records = fs::read(disk.0.join("1/head")).unwrap();
    let text = String::from_utf8(records).unwrap();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(
        lines[0].contains("the end of the output: 3000006 bytes"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("stdout F after"), "{lines:?}");
    assert!(lines[2].contains("matins F dropped: ") && lines[2].contains("No space left"));
}

/// A small disk of its own.
struct Disk(PathBuf);

impl Disk {
    fn new(at: PathBuf) -> Disk {
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(&at)
            .status();
        assert!(mounted.unwrap().success());
        Disk(at)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The log writer may have a file of it open for a moment.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn an_end_waits_for_what_was_printed_last() {
    let home = Home::new();
    let _supervisor = home.start();
    let mut agent = home.connect();
    for token in 1..40 {
        // The last words come from a process that is left behind.
        let script =
            format!("(sleep 0.01; echo left) & echo main {token}; head -c 100000 /dev/zero");
        agent.send(&launch_shell(&home, token, &script));
        let end = agent.ended(token);
        assert_eq!(end.exit, Some(Exit::Code(0)));
        assert!(home.output_of(token).len() >= 100_000, "{:?}", Token(token));
        assert!(says(&home, token, "the end of the output"));
    }
}
