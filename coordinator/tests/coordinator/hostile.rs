//! Requests that no decent client sends. Each costs its own connection at the most.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::house::{Coordinator, House, PATIENCE};

/// Sends bytes as they are; answers all that came back until the connection ended.
fn answer_to(coordinator: &Coordinator, request: &[u8]) -> String {
    let address = coordinator.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Who is refused early may hear of it before all is sent.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn what_no_decent_client_sends_is_refused_and_harms_nobody() {
    let house = House::new();
    let coordinator = house.start();
    let token = &coordinator.token;
    let request = |target: &str, more: &str, body: &str| {
        format!(
            "{target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n{more}\r\n{body}"
        )
    };
    let get = |path: &str| request(&format!("GET {path}"), "", "");
    let post = |body: &str| {
        let length = format!("content-length: {}\r\n", body.len());
        request("POST /api/v1/jobs/t/a/plan", &length, body)
    };
    let deep = "[".repeat(100_000);
    let long = format!("x: {}\r\n", "y".repeat(1 << 20));
    let many = "x: y\r\n".repeat(500);
    for (what, request, status) in [
        ("a path that is no text", get("/api/v1/jobs/%ff/%fe"), "400"),
        ("a path upwards", get("/api/v1/../../etc/passwd"), "404"),
        (
            "a path upwards in disguise",
            get("/api/v1/jobs/..%2f..%2fetc/x"),
            "400",
        ),
        ("a path of nothing", get("//"), "404"),
        ("a path with an end", get("/api/v1/jobs/t/a%00"), "400"),
        ("JSON without bottom", post(&deep), "400"),
        ("JSON that is cut off", post("{\"manifest\":"), "400"),
        (
            "a length that is none",
            request("POST /api/v1/jobs/t/a/plan", "content-length: -1\r\n", ""),
            "400",
        ),
        (
            "two lengths",
            request(
                "POST /api/v1/jobs/t/a/plan",
                "content-length: 1\r\ncontent-length: 2\r\n",
                "{}",
            ),
            "400",
        ),
        (
            "a header without end",
            request("GET /api/v1/jobs", &long, ""),
            "431",
        ),
        (
            "headers without number",
            request("GET /api/v1/jobs", &many, ""),
            "431",
        ),
        (
            "a header with a NUL",
            request("GET /api/v1/jobs", "x: \0\r\n", ""),
            "400",
        ),
        (
            "a method of its own",
            request("BREW /api/v1/jobs", "", ""),
            "405",
        ),
    ] {
        let answer = answer_to(&coordinator, request.as_bytes());
        let told = answer.split(' ').nth(1).unwrap_or_default();
        assert_eq!(told, status, "{what}: {answer}");
    }
    let length = "content-length: 12\r\n";
    let mut garbled = request("POST /api/v1/jobs/t/a/plan", length, "").into_bytes();
    garbled.extend(b"{\"manif\xff\xfe\":1");
    let answer = answer_to(&coordinator, &garbled);
    assert!(answer.starts_with("HTTP/1.1 400"), "bad UTF-8: {answer}");
    assert_eq!(coordinator.call("GET", "/api/v1/jobs", None).status, 200);
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let house = House::new();
    let coordinator = house.start();
    let token = &coordinator.token;
    let one = |id: &str, last: &str| {
        format!(
            "GET /api/v1/status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nx-request-id: {id}\r\n{last}\r\n"
        )
    };
    let together = one("first", "") + &one("second", "") + &one("third", "connection: close\r\n");
    let answer = answer_to(&coordinator, together.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 3, "{answer}");
    let places: Vec<_> = ["first", "second", "third"]
        .map(|id| answer.find(&format!("x-request-id: {id}")).unwrap())
        .into();
    assert!(places.is_sorted(), "{answer}");
}

/// Whoever is refused may ask again on the same connection, also where the refusal was decided before
/// the body had arrived.
#[test]
fn a_refusal_leaves_the_connection_to_the_next_request() {
    let house = House::new();
    let coordinator = house.start();
    let address = coordinator.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let refused = "POST /api/v1/jobs/t/a/plan HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(refused.as_bytes()).unwrap();
    // Long enough for a refusal that does not wait for the body.
    std::thread::sleep(std::time::Duration::from_millis(100));
    stream
        .write_all(b"{}GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
}
