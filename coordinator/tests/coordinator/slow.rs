//! Clients that take their time, and what that costs the others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use protocol::api::Job;

use crate::house::{Coordinator, House, PATIENCE, http};

/// As many connections as the API serves at a time.
const SERVED: usize = 512;

/// More than that.
const SLOW: usize = 600;

/// Of these, so many are slow in the head already, which only the connection's own limit ends. The
/// others take up the rest of the places by themselves, and a slow body has a limit of its own.
const SLOW_HEADS: usize = 40;

/// Descriptors of both ends of them, and of the tests beside this one in its process.
const DESCRIPTORS: u64 = (SLOW + SERVED + 400) as u64;

/// Between a byte of each client and its next.
const PAUSE: Duration = Duration::from_millis(500);

/// A client that sends its request a byte now and then.
struct Slow {
    stream: TcpStream,
    answer: Vec<u8>,
    has_ended: bool,
}

impl Slow {
    fn begin(address: &str, request: &str) -> Slow {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Slow {
            stream,
            answer: Vec::new(),
            has_ended: false,
        }
    }

    /// Takes what has come, and sends a byte more unless that was the end.
    fn go_on(&mut self) {
        self.look();
        if !self.has_ended {
            // Who was given up in between is written to in vain.
            let _ = self.stream.write_all(b"x");
        }
    }

    fn look(&mut self) {
        if self.has_ended {
            return;
        }
        match self.stream.read_to_end(&mut self.answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(_) => self.has_ended = true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                self.has_ended = true;
            }
        }
    }
}

/// All of them go on until there is what is waited for, for a bounded time.
fn go_on_until(what: &str, slow: &mut [Slow], is_there: impl Fn(&[Slow]) -> bool) {
    let begun = Instant::now();
    while !is_there(slow) {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        slow.iter_mut().for_each(Slow::go_on);
        thread::sleep(PAUSE);
    }
}

/// What somebody is answered who has no connection yet: the coordinator's own client may have kept
/// its place.
fn ask_anew(coordinator: &Coordinator) -> Vec<Job> {
    let mut answer = http()
        .get(format!("{}/api/v1/jobs", coordinator.url))
        .header("authorization", format!("Bearer {}", coordinator.token))
        .call()
        .unwrap();
    assert_eq!(answer.status(), 200);
    serde_json::from_reader(answer.body_mut().as_reader()).unwrap()
}

/// Takes as many descriptors as this process may have. Whether they are enough; says so where they
/// are not.
#[allow(clippy::print_stderr)] // says why it is skipped
fn has_descriptors() -> bool {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    if most >= DESCRIPTORS {
        return true;
    }
    let why = format!("{SLOW} slow clients need {DESCRIPTORS} descriptors, the most are {most}");
    assert!(std::env::var_os("CI").is_none(), "{why}");
    eprintln!("skipped: {why} (ulimit -Hn)");
    false
}

#[test]
fn six_hundred_slow_clients_do_not_keep_everybody_else_out() {
    if !has_descriptors() {
        return;
    }
    let house = House::new();
    let coordinator = house.start();
    let address = coordinator.url.strip_prefix("http://").unwrap();
    let slow_head = "GET /api/v1/jobs HTTP/1.1\r\nx-slow: ";
    let slow_body = format!(
        "PUT /api/v1/jobs/t/a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100000\r\n\r\n",
        coordinator.token
    );
    let mut slow: Vec<Slow> = (0..SLOW)
        .map(|i| match i {
            ..SLOW_HEADS => Slow::begin(address, slow_head),
            _ => Slow::begin(address, &slow_body),
        })
        .collect();
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask_anew(&coordinator));
        go_on_until("an answer to somebody else", &mut slow, |_| {
            asked.is_finished()
        });
        assert_eq!(asked.join().unwrap(), []);
    });
    // Connections are served in the order in which they came, so all the slow ones came before.
    slow.iter_mut().for_each(Slow::look);
    let given_up = slow.iter().filter(|client| client.has_ended).count();
    assert!(
        given_up > SLOW - SERVED,
        "{given_up} were given up before a place was free"
    );
    go_on_until("slow heads to be given up", &mut slow, |slow| {
        slow[..SLOW_HEADS].iter().all(|client| client.has_ended)
    });
    for client in &slow[..SLOW_HEADS] {
        let answer = String::from_utf8_lossy(&client.answer);
        assert_eq!(answer, "", "a slow head is given up");
    }
    let answer = String::from_utf8_lossy(&slow[SLOW_HEADS].answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}
