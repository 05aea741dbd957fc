//! Clients that take their time, and what that costs the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use protocol::api::Job;

use crate::house::{House, PATIENCE, wait_for};

/// More than the API serves at a time.
const SLOW: usize = 600;

/// Of these, so many are slow in the head already: the last to come, so that the others take up
/// every place. A slow head the HTTP library ends by itself.
const SLOW_HEADS: usize = 40;

/// Connections that the API serves at a time, as docs/API.md says.
const SERVED: usize = 512;

/// Sends a byte of a request's head, or of its body, to each stream now and then, until told to
/// stop.
fn trickle(mut streams: Vec<TcpStream>, token: &str, stop: &mpsc::Receiver<()>) -> Vec<TcpStream> {
    let head = format!(
        "PUT /api/v1/jobs/t/a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    );
    let (slow_bodies, slow_heads) = streams.split_at_mut(SLOW - SLOW_HEADS);
    for stream in slow_bodies {
        stream.write_all(head.as_bytes()).unwrap();
    }
    for stream in slow_heads {
        stream
            .write_all(b"GET /api/v1/jobs HTTP/1.1\r\nx-slow: ")
            .unwrap();
    }
    for byte in std::iter::repeat(&b'x') {
        for stream in &mut streams {
            // Who was given up is written to in vain.
            let _ = stream.write_all(&[*byte]);
        }
        match stop.recv_timeout(Duration::from_millis(500)) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            _ => break,
        }
    }
    streams
}

/// Connections that wait in the kernel's queue for the API to take them.
fn queued(port: u16) -> usize {
    const LISTEN: &str = "0A";
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let lengths = sockets.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, received) = fields.get(4)?.split_once(':')?;
        let ours = fields[1].ends_with(&local) && fields[3] == LISTEN;
        ours.then(|| usize::from_str_radix(received, 16).unwrap())
    });
    lengths.sum()
}

#[test]
fn six_hundred_slow_clients_do_not_keep_everybody_else_out() {
    let house = House::new();
    let coordinator = house.start();
    let address = coordinator.url.strip_prefix("http://").unwrap();
    let connect = |_| TcpStream::connect(address).unwrap();
    let streams: Vec<TcpStream> = (0..SLOW).map(connect).collect();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    wait_for("those who are too many to be left waiting", || {
        (queued(port) == SLOW - SERVED).then_some(())
    });
    let (stop, stopped) = mpsc::channel();
    let token = coordinator.token.clone();
    let trickling = thread::spawn(move || trickle(streams, &token, &stopped));
    let jobs: Vec<Job> = coordinator.get("/api/v1/jobs");
    assert_eq!(jobs, []);
    stop.send(()).unwrap();
    // The first of them have been given up: their streams have ended.
    let mut first = trickling.join().unwrap().swap_remove(0);
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = first.read_to_end(&mut Vec::new());
    assert!(!matches!(&end, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock));
}
