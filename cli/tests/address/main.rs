//! The leader's address on real interfaces: network namespaces on a switch, with the real keeper,
//! rid of every right but its two, and the real client on the coordinator's side.

// Helpers of tests are no tests to clippy.
#![allow(clippy::unwrap_used)]

mod lab;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use coordinator::address::{Fault, Trouble};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};

use lab::{BOTH, Lab, Machine, STRANGER, V4, V6, finish, is_possible, wait_for};

#[test]
fn it_is_where_the_leader_is_and_everybody_follows() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(2);
    let [m1, m2] = &lab.machines[..] else {
        unreachable!()
    };
    let _keepers = [m1.keep(), m2.keep()];
    let leaders = [m1.leader(), m2.leader()];
    let asking = BOTH.map(|address| lab.ask(address));
    leaders[0].reigns(1);
    for (reign, old, new) in [(2, 0, 1), (3, 1, 0)] {
        for asking in &asking {
            asking.wait_for(&lab.machines[old]);
        }
        leaders[old].abdicates();
        leaders[new].reigns(reign);
        for asking in &asking {
            asking.wait_for(&lab.machines[new]);
        }
        wait_for("the old one to be rid of it", || {
            !lab.machines[old].has_any()
        });
        for address in BOTH {
            assert_eq!(lab.neighbour(address), lab.machines[new].hardware());
        }
    }
    // Whoever asks nothing just then is told all the same.
    drop(asking);
    leaders[0].abdicates();
    leaders[1].reigns(4);
    for address in BOTH {
        wait_for("a neighbour to believe what it is told", || {
            lab.neighbour(address) == m2.hardware()
        });
    }
    assert!(!m1.has_any());
}

/// Whatever becomes of the processes, the address does not stay behind.
#[test]
fn it_goes_with_whoever_held_it() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let keeper = machine.keep();
    let leader = machine.leader();

    // Cut off from its quorum, the leader does not know yet that it is none.
    leader.reigns(1);
    wait_until_held(machine);
    leader.quorum.store(false, Ordering::SeqCst);
    wait_until_gone(machine);
    leader.quorum.store(true, Ordering::SeqCst);
    wait_until_held(machine);

    // The keeper is killed: the kernel drops it, and the coordinator knows.
    keeper.kill();
    wait_until_gone(machine);
    wait_for("the coordinator to notice", || {
        leader.trouble() == Some(Trouble::NoKeeper)
    });
    machine.forget_socket();
    let mut keeper = machine.keep();
    wait_until_held(machine);

    // The coordinator is gone: its end is the end of the address.
    drop(leader);
    wait_until_gone(machine);

    // The keeper is told to end.
    let leader = machine.leader();
    leader.reigns(2);
    wait_until_held(machine);
    keeper.signal(Signal::SIGTERM);
    assert!(keeper.0.wait().unwrap().success());
    assert!(!machine.has_any());
    assert!(!machine.socket.exists());
}

/// Real coordinators, of one voter: what they are confirmed by is themselves.
#[test]
fn a_coordinator_that_hangs_or_dies_leaves_no_address() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let keeper = machine.keep();
    let coordinator = lab.coordinate(machine);
    wait_until_held(machine);
    for stopped in [&[&coordinator][..], &[&keeper], &[&coordinator, &keeper]] {
        for process in stopped {
            process.signal(Signal::SIGSTOP);
        }
        wait_until_gone(machine);
        for process in stopped {
            process.signal(Signal::SIGCONT);
        }
        // It leads still, and a new round says so.
        wait_until_held(machine);
    }
    coordinator.kill();
    wait_until_gone(machine);

    let mut coordinator = lab.coordinate(machine);
    wait_until_held(machine);
    coordinator.signal(Signal::SIGTERM);
    assert!(coordinator.0.wait().unwrap().success());
    wait_until_gone(machine);
}

/// A coordinator that stands still, then a keeper that does, with the coordinator's words unread.
#[test]
fn what_was_stopped_does_not_put_it_back() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let keeper = machine.keep();
    let mut stream = None;
    // Its socket is there a moment before it listens.
    wait_for("the keeper to take a call", || {
        stream = UnixStream::connect(&machine.socket).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    let mut reports = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut read_report = || reports.next().unwrap().unwrap();
    assert!(read_report().contains("\"holds\":false"));

    // It says one word, and no more; its connection stays.
    let until = say_hold(&mut stream);
    assert!(read_report().contains("\"holds\":true"));
    wait_for("the hold to end", || boot_ms() >= until);
    assert!(read_report().contains("\"holds\":false"));
    assert!(!machine.has_any());

    say_hold(&mut stream);
    assert!(read_report().contains("\"holds\":true"));
    keeper.signal(Signal::SIGSTOP);
    let mut last = 0;
    for _ in 0..20 {
        last = say_hold(&mut stream);
    }
    wait_until_gone(machine);
    wait_for("the last hold to end", || boot_ms() >= last);
    let monitor = machine.monitor();
    keeper.signal(Signal::SIGCONT);
    for _ in 0..20 {
        assert!(read_report().contains("\"holds\":false"));
    }
    assert_eq!(monitor.puts(), 0, "{:?}", monitor.told());

    // It has not been harmed.
    say_hold(&mut stream);
    assert!(read_report().contains("\"holds\":true"));
    assert_ne!(monitor.puts(), 0, "{:?}", monitor.told());
    // A hold for longer than any may last is not obeyed, nor does it prolong the one before.
    writeln!(
        stream,
        r#"{{"type":"hold","until":{}}}"#,
        boot_ms() + 60_000
    )
    .unwrap();
    wait_until_gone(machine);
}

#[test]
fn what_somebody_removes_comes_back() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let _keeper = machine.keep();
    let leader = machine.leader();
    leader.reigns(1);
    wait_until_held(machine);
    for (address, bits) in [(V4, 32), (V6, 128)] {
        let monitor = machine.monitor();
        machine
            .net
            .ip(&format!("address del {address}/{bits} dev eth0"));
        wait_for("the address to be put back", || {
            let told = monitor.told();
            let here = format!(" {address}/");
            let of_it: Vec<_> = told.iter().filter(|line| line.contains(&here)).collect();
            let gone = of_it.iter().position(|line| line.starts_with("Deleted"));
            gone.is_some_and(|gone| of_it.len() > gone + 1)
        });
    }
}

#[test]
fn a_cable_that_is_pulled_is_a_reason_for_another_to_lead() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let _keeper = machine.keep();
    let mut leader = machine.leader();
    leader.reigns(1);
    wait_until_held(machine);
    assert_eq!(leader.is_asked_to_hand_over(), None);
    lab.cable("m1", "down");
    wait_for("a word to hand over", || {
        leader.is_asked_to_hand_over() == Some(Trouble::Fault(Fault::NoCarrier))
    });
    assert!(!machine.has_any());
    lab.cable("m1", "up");
    wait_until_held(machine);
    wait_for("the trouble to be over", || leader.trouble().is_none());

    machine.net.ip("link set eth0 down");
    wait_for("the interface to be down", || {
        leader.trouble() == Some(Trouble::Fault(Fault::Down))
    });
    assert!(!machine.has_any());
}

#[test]
fn nobody_but_the_coordinator_is_heard() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let _keeper = machine.keep();
    let leader = machine.leader();
    leader.reigns(1);
    wait_until_held(machine);
    let knock = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
                 connect(S, sockaddr_un($ARGV[0])) or die; sysread(S, $said, 4096); \
                 print length($said)";
    let as_user = |user: &str| {
        let mut command = std::process::Command::new("setpriv");
        command
            .args([&format!("--reuid={user}"), "--clear-groups"])
            .args(["perl", "-e", knock])
            .arg(&machine.socket);
        finish(&mut command).trim().parse::<usize>().unwrap()
    };
    assert_eq!(as_user(STRANGER), 0);
    assert!(machine.has(V4) && machine.has(V6));
    assert_ne!(as_user(lab::COORDINATOR), 0);
    // Its connection takes the place of the one before, which finds its way back.
    wait_until_held(machine);

    // What says nothing that is understood is cut off.
    let mut stream = UnixStream::connect(&machine.socket).unwrap();
    stream.write_all(b"hold it for ever\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().count(), 1);
    wait_until_held(machine);
}

#[test]
fn what_a_predecessor_left_is_removed() {
    if !is_possible() {
        return;
    }
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let leave = || {
        machine.net.ip(&format!("address add {V4}/32 dev eth0"));
        machine.net.ip(&format!("address add {V6}/128 dev eth0"));
    };
    leave();
    let keeper = machine.keep();
    wait_for("it to be removed", || !machine.has_any());
    keeper.kill();
    leave();
    let remove = |interface: &str| {
        let mut command = machine.net.command(env!("CARGO_BIN_EXE_matins"));
        command.args(["address-keeper", "--remove", "--interface", interface]);
        command.args(["--address", V4, "--address", V6]);
        command
    };
    finish(&mut remove("eth0"));
    assert!(!machine.has_any());
    finish(&mut remove("eth0"));
    let refused = remove("eth7").output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("`eth7`"), "{why}");
}

#[track_caller]
fn wait_until_held(machine: &Machine) {
    wait_for("the address", || machine.has(V4) && machine.has(V6));
}

#[track_caller]
fn wait_until_gone(machine: &Machine) {
    wait_for("the address to be gone", || !machine.has_any());
}

fn boot_ms() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000
}

/// Says that the address is to be held for a while; until when.
fn say_hold(stream: &mut UnixStream) -> i64 {
    let until = boot_ms() + 900;
    writeln!(stream, r#"{{"type":"hold","until":{until}}}"#).unwrap();
    until
}
