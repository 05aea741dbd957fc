//! What attempts have written, through the API.

use std::io::Read;

use protocol::Token;
use protocol::api::OutputLine;
use protocol::output::{Record, Stamp, Stream};

use crate::agent::{End, FakeAgent};
use crate::fires::run_by_hand;
use crate::house::{Coordinator, House, YEARLY, http, manifest, wait_for};

/// Records of what was printed to standard output, as an agent sends them.
pub(crate) fn printed(raw: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    for line in raw.split_inclusive(|&byte| byte == b'\n') {
        let whole = line.strip_suffix(b"\n");
        Record {
            stamp: Stamp::from_micros(1_000_000),
            stream: Stream::Stdout,
            partial: whole.is_none(),
            content: whole.unwrap_or(line),
        }
        .write_to(&mut records);
    }
    records
}

/// A coordinator with a host on which one attempt runs; the path of its output.
fn running(house: &House) -> (Coordinator, FakeAgent, Token, String) {
    let coordinator = house.start();
    let agent = FakeAgent::attach(house, &coordinator, "host-1", 8);
    coordinator.put_job("t/a", &manifest("t/a", YEARLY, ""));
    let run = run_by_hand(&coordinator, "t/a");
    let (token, _) = agent.hear_start();
    let path = format!("/api/v1/runs/{run}/shards/0/log");
    (coordinator, agent, token, path)
}

fn ask(coordinator: &Coordinator, path: &str) -> ureq::http::Response<ureq::Body> {
    http()
        .get(format!("{}{path}", coordinator.url))
        .header("authorization", format!("Bearer {}", coordinator.token))
        .call()
        .unwrap()
}

#[test]
fn an_output_comes_raw_as_text_and_as_json_and_one_that_breaks_off_shows() {
    let house = House::new();
    let (coordinator, agent, token, path) = running(&house);
    agent.has_output(token, &printed(b"one\n\x00\xff"), End::Orderly);
    let bytes = |query: &str| {
        let mut answer = ask(&coordinator, &format!("{path}{query}"));
        assert_eq!(answer.status(), 200);
        answer.body_mut().read_to_vec().unwrap()
    };
    assert_eq!(bytes(""), b"one\n\x00\xff");
    let text = bytes("?format=text");
    assert!(text.starts_with(b"1970-01-01T00:00:01.000000Z t/a "));
    assert!(text.ends_with(b" 0/1 stdout+ \x00\xff\n"));
    let json = String::from_utf8(bytes("?format=json")).unwrap();
    let lines: Vec<OutputLine> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((lines[0].content.as_str(), lines[0].token), ("one", token));
    assert!(lines[1].base64 && lines[1].partial);

    for (query, expected) in [
        ("?offset=2", &b"e\n\x00\xff"[..]),
        ("?limit=3", b"one"),
        ("?offset=3&limit=2", b"\n\x00"),
        ("?offset=6", b""),
        ("?offset=5&limit=99", b"\xff"),
    ] {
        assert_eq!(bytes(query), expected, "{query}");
    }

    let whole = printed(b"and then\n");
    for sent in [&whole[..whole.len() - 1], b"not a record\n"] {
        agent.has_output(token, sent, End::Orderly);
        let mut answer = ask(&coordinator, &path);
        assert_eq!(answer.status(), 200);
        let read = answer.body_mut().read_to_vec();
        assert!(read.is_err(), "{read:?}");
    }
}

#[test]
fn a_follower_gets_what_is_there_at_once_and_its_going_reaches_the_host() {
    let house = House::new();
    let (coordinator, agent, token, path) = running(&house);
    agent.has_output(token, &printed(b"so far\n"), End::Open);
    let query = "?follow=true&stream=stdout&tail=7&since=1970-01-01T00:00:00.5Z";
    let answer = ask(&coordinator, &format!("{path}{query}"));
    let mut body = answer.into_body().into_reader();
    let mut came = [0; 7];
    body.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"so far\n");
    let readers = wait_for("the reader", || agent.readers().pop());
    assert!(readers.follow);
    assert_eq!(
        (readers.stream, readers.tail),
        (Some(Stream::Stdout), Some(7))
    );
    assert_eq!(readers.since, Some(protocol::WallMs(500)));
    drop(body);
    wait_for("the reader's going", || {
        agent.readers().is_empty().then_some(())
    });
}

#[test]
#[ignore = "make test-full: waits for longer than the API keeps a connection on which nothing moves"]
fn a_follower_of_a_silent_output_is_kept() {
    let house = House::new();
    let (coordinator, agent, token, path) = running(&house);
    agent.has_output(token, &printed(b"so far\n"), End::Open);
    let _followed = ask(&coordinator, &format!("{path}?follow=true"));
    wait_for("the reader", || agent.readers().pop());
    std::thread::sleep(std::time::Duration::from_secs(63));
    assert_eq!(agent.readers().len(), 1);
}

#[test]
fn more_readers_of_one_host_than_it_can_serve_are_refused_and_told_so() {
    let house = House::new();
    let (coordinator, agent, token, path) = running(&house);
    agent.has_output(token, &printed(b"so far\n"), End::Open);
    let follow = format!("{path}?follow=true");
    let mut readers: Vec<_> = (0..24).map(|_| ask(&coordinator, &follow)).collect();
    assert!(readers.iter().all(|answer| answer.status() == 200));
    let why = coordinator
        .call("GET", &follow, None)
        .refused(503, "unavailable");
    assert!(why.contains("24 outputs of host-1 are being read"), "{why}");
    readers.pop();
    wait_for("a place", || {
        (ask(&coordinator, &follow).status() == 200).then_some(())
    });
}

#[test]
fn what_no_output_can_be_asked_for_is_refused() {
    let house = House::new();
    let (coordinator, _agent, _token, path) = running(&house);
    for query in [
        "?stream=stdin",
        "?since=yesterday",
        "?tail=-1",
        "?offset=-1",
        "?limit=0",
        "?format=xml",
        "?follow=perhaps",
        "?flow=1",
    ] {
        let answer = coordinator.call("GET", &format!("{path}{query}"), None);
        answer.refused(400, "invalid");
    }
}

/// Of an output that goes on no more is read than was asked for.
#[test]
fn a_span_of_what_is_followed_ends_with_its_last_byte() {
    let house = House::new();
    let (coordinator, agent, token, path) = running(&house);
    agent.has_output(token, &printed(b"so far\n"), End::Open);
    let query = "?follow=true&offset=3&limit=4";
    let mut answer = ask(&coordinator, &format!("{path}{query}"));
    assert_eq!(answer.body_mut().read_to_vec().unwrap(), b"far\n");
    wait_for("the reader's going", || {
        agent.readers().is_empty().then_some(())
    });
}
