//! How long the leader's address answers nobody when it moves, and how long it stays when its holder
//! is dead; beside keepalived on the same switch, where that is installed. Needs root.

#![allow(clippy::print_stdout)] // figures are its output
#![allow(clippy::unwrap_used)]

#[path = "../tests/address/lab.rs"]
#[allow(dead_code)] // the tests use the rest
mod lab;

#[path = "../src/commands/bench/keepalived.rs"]
mod keepalived;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use lab::{Asking, BOTH, Lab, Machine, Running, V4, is_possible, wait_for};

const MOVES: i64 = 20;
const DEATHS: usize = 10;
const ROUNDS_OF_KEEPALIVED: usize = 5;

/// How long a dead machine is watched for an address that does not go.
const WATCH_MS: f64 = 10_000.0;

fn main() {
    if !is_possible() {
        return;
    }
    moves();
    for death in [
        Death::KeeperKilled,
        Death::KeeperStopped,
        Death::CoordinatorGone,
        Death::CoordinatorSilent,
    ] {
        deaths(death);
    }
    if Command::new("keepalived")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("keepalived is not installed: no figures of it");
        return;
    }
    for advert_s in [1.0, 0.1] {
        beside_keepalived(advert_s);
    }
}

/// From one leader to another that is ready, as in a planned hand-over.
fn moves() {
    let lab = Lab::new(2);
    let _keepers = [lab.machines[0].keep(), lab.machines[1].keep()];
    let leaders = [lab.machines[0].leader(), lab.machines[1].leader()];
    let asking = BOTH.map(|address| lab.ask(address));
    leaders[0].reigns(1);
    let mut gaps = [Vec::new(), Vec::new()];
    for n in 0..MOVES {
        let [old, new] = if n % 2 == 0 { [0, 1] } else { [1, 0] };
        for asking in &asking {
            asking.wait_for(&lab.machines[old]);
        }
        // Until most of what neighbours are told again has been told.
        sleep(Duration::from_millis(1_500));
        let begun = boot_ms();
        leaders[old].abdicates();
        leaders[new].reigns(n + 2);
        for (asking, gaps) in asking.iter().zip(&mut gaps) {
            asking.wait_for(&lab.machines[new]);
            gaps.push(longest_gap(asking, begun));
        }
    }
    let [v4, v6] = gaps;
    say("moved by the leaders' will, nobody answers for, IPv4", v4);
    say("the same, IPv6", v6);
}

#[derive(Clone, Copy)]
enum Death {
    KeeperKilled,
    KeeperStopped,
    CoordinatorGone,
    CoordinatorSilent,
}

/// From the death to the last answer.
fn deaths(death: Death) {
    let lab = Lab::new(1);
    let machine = &lab.machines[0];
    let asking = lab.ask(V4);
    let mut took = Vec::new();
    for n in 0..DEATHS {
        let mut keeper = Some(machine.keep());
        let mut leader = Some(machine.leader());
        leader.as_ref().unwrap().reigns(1);
        asking.wait_for(machine);
        // At any moment between two holds.
        sleep(Duration::from_millis(1_000 + 97 * n as u64));
        let died = boot_ms();
        match death {
            Death::KeeperKilled => keeper.take().unwrap().kill(),
            Death::KeeperStopped => keeper.as_ref().unwrap().signal(Signal::SIGSTOP),
            Death::CoordinatorGone => leader = None,
            Death::CoordinatorSilent => {
                let quorum = &leader.as_ref().unwrap().quorum;
                quorum.store(false, Ordering::SeqCst);
            }
        }
        wait_for("the address to be gone", || !machine.has(V4));
        let last = asking.heard.lock().unwrap().last().unwrap().0;
        took.push(last - died);
        drop(leader);
        if let Some(keeper) = keeper {
            keeper.kill();
        }
        machine.forget_socket();
    }
    let what = match death {
        Death::KeeperKilled => "keeper killed, last answer of its machine after",
        Death::KeeperStopped => "keeper stopped, the same",
        Death::CoordinatorGone => "coordinator's connection gone, the same",
        Death::CoordinatorSilent => "coordinator stopped or cut off, the same",
    };
    say(what, took);
}

fn beside_keepalived(advert_s: f64) {
    let (mut asked, mut killed, mut stayed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS_OF_KEEPALIVED {
        let lab = Lab::new(2);
        let [m1, m2] = &lab.machines[..] else {
            unreachable!()
        };
        let asking = lab.ask(V4);
        let first = Keepalived::start(m1, advert_s);
        asking.wait_for(m1);
        let second = Keepalived::start(m2, advert_s);
        sleep(Duration::from_millis(2_500));
        let begun = boot_ms();
        first.signal(Signal::SIGTERM);
        asking.wait_for(m2);
        asked.push(longest_gap(&asking, begun));
        drop(first);

        let _third = Keepalived::start(m1, advert_s);
        sleep(Duration::from_millis(2_500));
        let begun = boot_ms();
        second.signal(Signal::SIGKILL);
        // Until then the dead one's machine answers.
        asking.wait_for(m1);
        let heard = asking.heard.lock().unwrap().clone();
        let other = heard
            .iter()
            .find(|(at, name)| *at > begun && *name == m1.name);
        killed.push(other.unwrap().0 - begun);
        while boot_ms() < begun + WATCH_MS && m2.has(V4) {
            sleep(Duration::from_millis(50));
        }
        stayed += usize::from(m2.has(V4));
    }
    say(
        &format!("keepalived, advert {advert_s} s, SIGTERM, nobody answers for"),
        asked,
    );
    say(
        &format!("keepalived, advert {advert_s} s, SIGKILL, the other answers after"),
        killed,
    );
    println!(
        "  the dead one's machine still had it after 10 s: {stayed} of {ROUNDS_OF_KEEPALIVED}"
    );
}

/// keepalived with its children, as a process group.
struct Keepalived {
    running: Running,
    _directory: tempfile::TempDir,
}

impl Keepalived {
    /// Starts it, and waits until it stands by.
    fn start(machine: &Machine, advert_s: f64) -> Keepalived {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut command = machine.net.command("keepalived");
        keepalived::complete(&mut command, directory.path(), V4, advert_s).unwrap();
        let running = command
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        wait_for("keepalived to stand by", || {
            let said = fs::read_to_string(&log).unwrap();
            said.contains(keepalived::STANDS_BY)
        });
        Keepalived {
            running: Running(running),
            _directory: directory,
        }
    }

    fn signal(&self, signal: Signal) {
        if signal == Signal::SIGKILL {
            killpg(self.group(), signal).unwrap();
        } else {
            self.running.signal(signal);
        }
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.running.0.id().cast_signed())
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        // What has ended already is no matter.
        let _ = killpg(self.group(), Signal::SIGKILL);
    }
}

/// Between two answers, from then on.
fn longest_gap(asking: &Asking, since: f64) -> f64 {
    let heard = asking.heard.lock().unwrap();
    let times: Vec<f64> = heard.iter().map(|(at, _)| *at).collect();
    let after = times.partition_point(|at| *at < since).saturating_sub(1);
    let pairs = times[after..].windows(2).map(|pair| pair[1] - pair[0]);
    pairs.fold(0.0, f64::max)
}

fn say(what: &str, mut took: Vec<f64>) {
    took.sort_by(f64::total_cmp);
    let [least, median, most] = [0, took.len() / 2, took.len() - 1].map(|n| took[n].round());
    println!(
        "{what}: p50 {median} ms, {least} to {most} ms, {} times",
        took.len()
    );
}

fn boot_ms() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    time.tv_sec() as f64 * 1000.0 + time.tv_nsec() as f64 / 1e6
}
