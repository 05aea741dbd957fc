//! A group's machines as network namespaces on a switch, and who looks at the leader's address there.
//!
//! The measurement moves into a namespace of its own, with the switch in it, and each control machine
//! has one behind a cable. A namespace lives as long as a process that holds it, and the holder ends
//! with the measurement, however that ends. It needs root; without, a group is on loopback, and no
//! address is measured.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::SockaddrIn;
use nix::unistd::geteuid;
use protocol::WallMs;

use super::yardstick::find;
use crate::clock;
use crate::failure::Failure;

/// The leader's address, and the port where whoever has it answers.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 5);
const PORT: u16 = 7419;

/// How often is looked, and asked.
const LOOK: Duration = Duration::from_millis(1);

/// The interface of each machine.
pub(super) const INTERFACE: &str = "eth0";

const PROGRAMS: [&str; 4] = ["ip", "nsenter", "setpriv", "unshare"];

/// Namespaces of machines, in their order.
pub(super) struct Net {
    holders: Vec<Child>,
}

impl Net {
    /// Moves this thread, and whatever it starts from now on, into a namespace with a switch and so
    /// many machines on it. `Err` says why that cannot be.
    pub(super) fn enter(machines: usize) -> Result<Net, String> {
        if !geteuid().is_root() {
            return Err("only root can make network namespaces".to_owned());
        }
        if let Some(missing) = PROGRAMS.iter().find(|program| find(program).is_none()) {
            return Err(format!("`{missing}` is not installed"));
        }
        let made = || -> io::Result<Net> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            ip("link set lo up")?;
            ip("link add br0 type bridge")?;
            ip("address add 10.77.1.1/24 dev br0")?;
            ip("link set br0 up")?;
            let mut net = Net {
                holders: Vec::new(),
            };
            for machine in 0..machines {
                net.add(machine)?;
            }
            Ok(net)
        };
        made().map_err(|error| format!("making network namespaces: {error}"))
    }

    fn add(&mut self, machine: usize) -> io::Result<()> {
        // cat ends when the pipe to it is closed, which the kernel does if nobody else does.
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = holder.stdout.take();
        self.holders.push(holder);
        let mut line = String::new();
        said.map(|said| BufReader::new(said).read_line(&mut line))
            .transpose()?;
        let (pid, address) = (self.holders[machine].id(), Net::address(machine));
        ip(&format!(
            "link add m{machine} type veth peer name {INTERFACE} netns {pid}"
        ))?;
        ip(&format!("link set m{machine} master br0 up"))?;
        for command in [
            "link set lo up".to_owned(),
            format!("address add {address}/24 dev {INTERFACE}"),
            format!("link set {INTERFACE} up"),
        ] {
            self.ip(machine, &command)?;
        }
        Ok(())
    }

    pub(super) fn address(machine: usize) -> IpAddr {
        let number = u8::try_from(machine).unwrap_or(u8::MAX);
        Ipv4Addr::new(10, 77, 1, 11 + number).into()
    }

    /// Runs `ip` on a machine.
    pub(super) fn ip(&self, machine: usize, arguments: &str) -> io::Result<()> {
        let mut command = enter(&self.path(machine));
        done(command.arg("ip").args(arguments.split(' ')))
    }

    /// The beginning of a command on a machine, which is killed when the measurement ends.
    pub(super) fn tied(&self, machine: usize) -> Command {
        let mut command = enter(&self.path(machine));
        command.args(["setpriv", "--pdeathsig", "KILL"]);
        command
    }

    /// What names the namespace of a machine.
    pub(super) fn path(&self, machine: usize) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holders[machine].id()))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            // It can only have ended.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// The beginning of a command in a namespace. nsenter becomes the program, so the child is the program
/// itself.
pub(super) fn enter(namespace: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace.display()));
    command
}

fn ip(arguments: &str) -> io::Result<()> {
    done(Command::new("ip").args(arguments.split(' ')))
}

fn done(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}

/// From when on an address was there, or gone.
type Changes = Vec<(WallMs, bool)>;

/// When which machine answered.
type Answer = (WallMs, usize);

/// Looks on every machine whether an address is there, and asks who answers on it, all the time.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    /// Of each machine.
    seen: Vec<Arc<Mutex<Changes>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Watch {
    pub(super) fn begin(net: &Net, machines: usize, address: Ipv4Addr) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut seen, mut threads) = (Vec::new(), Vec::new());
        for machine in 0..machines {
            let changes = Arc::new(Mutex::new(Vec::new()));
            seen.push(Arc::clone(&changes));
            let (inside, until) = (net.path(machine), Arc::clone(&stop));
            threads.push(thread::spawn(move || {
                move_into(&inside)?;
                look(address, &changes, &until)
            }));
            let (inside, until) = (net.path(machine), Arc::clone(&stop));
            threads.push(thread::spawn(move || {
                move_into(&inside)?;
                answer(machine, &until)
            }));
        }
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (heard, until) = (Arc::clone(&answers), Arc::clone(&stop));
        threads.push(thread::spawn(move || ask(address, &heard, &until)));
        Watch {
            stop,
            seen,
            answers,
            threads,
        }
    }

    pub(super) fn is_at(&self, machine: usize) -> bool {
        locked(&self.seen[machine])
            .last()
            .is_some_and(|(_, there)| *there)
    }

    /// How long after `at` the address was on a machine that had it then; `None` where it had not, or
    /// has it still.
    pub(super) fn gone_after(&self, machine: usize, at: WallMs) -> Option<i64> {
        gone_after(&locked(&self.seen[machine]), at)
    }

    /// The longest time without an answer of those in [`from`, `until`).
    pub(super) fn longest_silence(&self, from: WallMs, until: WallMs) -> Option<i64> {
        let answers = locked(&self.answers);
        let times: Vec<WallMs> = answers.iter().map(|(at, _)| *at).collect();
        super::longest_gap(&times, from, until)
    }

    /// How long after `at` a machine answered first.
    pub(super) fn first_answer(&self, machine: usize, at: WallMs) -> Option<i64> {
        first_answer(&locked(&self.answers), machine, at)
    }

    /// Ends it; an error where somebody could not look or ask.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let looked = thread.join().expect("those who look do not panic");
            looked.map_err(|error| {
                Failure::of_error(
                    "looking where the leader's address is",
                    &error,
                    "see the error, and measure again",
                )
            })?;
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Whoever wants to know what went wrong has ended it before.
        let _ = self.end();
    }
}

fn gone_after(seen: &[(WallMs, bool)], at: WallMs) -> Option<i64> {
    let then = seen.partition_point(|(since, _)| *since <= at);
    let was_there = then > 0 && seen[then - 1].1;
    let gone = seen[then..].iter().find(|(_, there)| !there);
    gone.filter(|_| was_there).map(|(since, _)| (*since - at).0)
}

fn first_answer(answers: &[Answer], machine: usize, at: WallMs) -> Option<i64> {
    let since = answers.partition_point(|(when, _)| *when <= at);
    let mut after = answers[since..].iter();
    let first = after.find(|(_, who)| *who == machine);
    first.map(|(when, _)| (*when - at).0)
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in it is whole, whoever panicked.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn move_into(namespace: &Path) -> io::Result<()> {
    Ok(setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?)
}

fn look(address: Ipv4Addr, changes: &Mutex<Changes>, stop: &AtomicBool) -> io::Result<()> {
    let mut known = false;
    while !stop.load(Ordering::Relaxed) {
        let there = getifaddrs()?.any(|interface| {
            let found = interface
                .address
                .and_then(|it| it.as_sockaddr_in().map(SockaddrIn::ip));
            found == Some(address)
        });
        if there != known {
            known = there;
            locked(changes).push((clock::now(), there));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn answer(machine: usize, stop: &AtomicBool) -> io::Result<()> {
    let answer = [u8::try_from(machine).unwrap_or(u8::MAX)];
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    socket.set_read_timeout(Some(100 * LOOK))?;
    let mut question = [0; 8];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((_, asker)) = socket.recv_from(&mut question) {
            // The address may have gone between question and answer.
            let _ = socket.send_to(&answer, asker);
        }
    }
    Ok(())
}

fn ask(address: Ipv4Addr, heard: &Mutex<Vec<Answer>>, stop: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(LOOK))?;
    let leader = SocketAddr::from((address, PORT));
    let mut said = [0];
    while !stop.load(Ordering::Relaxed) {
        // Nobody has it, or not yet.
        let answered = socket
            .send_to(&[0], leader)
            .and_then(|_| socket.recv_from(&mut said));
        if answered.is_ok() {
            locked(heard).push((clock::now(), said[0].into()));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_when_it_is_next_seen_to_be_gone() {
        let seen = [(10, true), (50, false), (60, true)].map(|(at, there)| (WallMs(at), there));
        for (at, expected) in [
            (5, None),
            (10, Some(40)),
            (49, Some(1)),
            (50, None),
            (70, None),
        ] {
            assert_eq!(gone_after(&seen, WallMs(at)), expected, "{at}");
        }
        assert_eq!(gone_after(&[], WallMs(1)), None);
    }

    #[test]
    fn a_machine_answers_first_when_it_does_so_and_no_other() {
        let answers = [(10, 0), (20, 1), (30, 0), (45, 1)].map(|(at, who)| (WallMs(at), who));
        for (machine, at, expected) in [
            (0, 5, Some(5)),
            (0, 10, Some(20)),
            (1, 10, Some(10)),
            (1, 20, Some(25)),
            (0, 30, None),
            (2, 0, None),
        ] {
            let first = first_answer(&answers, machine, WallMs(at));
            assert_eq!(first, expected, "{machine} after {at}");
        }
    }
}
