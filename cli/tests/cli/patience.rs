//! A coordinator that is asked too fast says when to ask again, and is asked again then.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::place::{Place, Said};

const TOO_FAST: &str = r#"{"kind":"throttled","what":"GET /x","why":"this client asks faster than it is answered","remedy":"wait"}"#;

const AGAIN: &str = "429 Too Many Requests\r\nretry-after: 1";

/// Takes one request and answers it, or hangs up where the answer has no head; what was asked.
pub(crate) fn serve(stream: TcpStream, head: &str, body: &str) -> String {
    let mut reader = BufReader::new(&stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_lowercase()),
        }
    }
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut sent = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut sent).unwrap();
    if head.is_empty() {
        return lines.swap_remove(0);
    }
    write!(
        &stream,
        "HTTP/1.1 {head}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    lines.swap_remove(0)
}

/// Runs the command against one that answers so, in turn: a head and a body each.
fn ask(arguments: &[&str], answers: &[(&str, &str)]) -> (Said, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    place.write("token", "t");
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let answered = answers.iter().map(|(head, body)| {
                let (stream, _) = listener.accept().unwrap();
                serve(stream, head, body)
            });
            answered.collect()
        });
        let said = place
            .command(arguments)
            .env("MATINS_API", url)
            .env("MATINS_TOKEN_FILE", place.path("token"))
            .output()
            .unwrap();
        (said.into(), serving.join().unwrap())
    })
}

#[test]
fn whatever_is_asked_is_asked_again_when_the_answer_says() {
    let reason = ["--reason", "its disk"];
    for (arguments, answer, asked) in [
        (vec!["get", "agents"], "[]", "get /api/v1/agents"),
        (
            [&["cordon", "h1"], &reason[..]].concat(),
            r#"{"agent":"h1","state":"cordoned","leased":0}"#,
            "post /api/v1/agents/h1/cordon",
        ),
        (
            vec!["resource", "set", "db", "3"],
            r#"{"resource":"db","capacity":3,"in_use":0}"#,
            "put /api/v1/resources/db",
        ),
        (
            vec!["resource", "delete", "db"],
            r#"{"resource":"db"}"#,
            "delete /api/v1/resources/db",
        ),
    ] {
        let answers = [(AGAIN, TOO_FAST), (AGAIN, TOO_FAST), ("200 OK", answer)];
        let (said, requests) = ask(&arguments, &answers);
        assert_eq!(said.status, 0, "{arguments:?}: {said:?}");
        for request in requests {
            assert!(request.starts_with(asked), "{request}");
        }
        let told = said.stderr.matches("waiting 1 s").count();
        assert_eq!(told, 1, "once: {}", said.stderr);
    }
}

/// An output comes in another way than everything else does.
#[test]
fn an_output_is_asked_for_again_too() {
    let run = include_str!("../../src/commands/describe/sample_run.json");
    let line = r#"{"time":"2026-11-29T02:10:01.000000Z","job":"a/b","fire_time":"2026-11-29T02:10:00Z","shard":0,"attempt":1,"token":"token-31","stream":"stdout","partial":false,"content":"done"}"#;
    let line = format!("{line}\n");
    let answers = [("200 OK", run), (AGAIN, TOO_FAST), ("200 OK", &line)];
    let (said, requests) = ask(&["logs", "run-12", "--shard", "0"], &answers);
    assert_eq!(requests[1], requests[2]);
    assert_eq!(
        (said.stdout.as_str(), said.status),
        ("done\n", 0),
        "{said:?}"
    );
}

#[test]
fn who_is_told_to_wait_too_long_is_told_so_at_once() {
    let refusal = "429 Too Many Requests\r\nretry-after: 3600";
    let (said, requests) = ask(&["get", "agents"], &[(refusal, TOO_FAST)]);
    assert_eq!(requests.len(), 1);
    assert_ne!(said.status, 0);
    assert!(said.stderr.contains("asks faster"), "{}", said.stderr);
}
