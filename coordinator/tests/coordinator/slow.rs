//! Clients that take their time, and what that costs the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use protocol::api::Job;

use crate::house::{House, PATIENCE};

/// More than the API serves at a time.
const SLOW: usize = 600;

/// Of these, so many are slow in the head already. The others alone take up every place: a slow
/// head the HTTP library ends by itself.
const SLOW_HEADS: usize = 40;

/// Sends a byte of a request's head, or of its body, to each stream now and then, until told to
/// stop.
fn trickle(mut streams: Vec<TcpStream>, token: &str, stop: &mpsc::Receiver<()>) -> Vec<TcpStream> {
    let head = format!(
        "PUT /api/v1/jobs/t/a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    );
    let (slow_heads, slow_bodies) = streams.split_at_mut(SLOW_HEADS);
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

#[test]
fn six_hundred_slow_clients_do_not_keep_everybody_else_out() {
    let house = House::new();
    let coordinator = house.start();
    let address = coordinator.url.strip_prefix("http://").unwrap();
    let connect = |_| TcpStream::connect(address).unwrap();
    let streams: Vec<TcpStream> = (0..SLOW).map(connect).collect();
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
