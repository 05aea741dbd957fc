//! Several coordinators, of which one leads: a command finds it, and changes nothing twice.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::patience::serve;
use crate::place::{Place, Said};

const REFUSED: &str = "503 Service Unavailable";
const CORDONED: (&str, &str) = ("200 OK", r#"{"agent":"h1","state":"cordoned","leased":0}"#);
const CORDON: &[&str] = &["cordon", "h1", "--reason", "its disk"];
const GET: &[&str] = &["get", "agents"];

/// One that answers so, in turn, and at last always the same; with an empty head it hangs up when it
/// has heard the request.
struct Stand {
    url: String,
    heard: Arc<AtomicUsize>,
}

impl Stand {
    fn new(answers: &[(&str, &str)]) -> Stand {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(AtomicUsize::new(0));
        let answers: Vec<(String, String)> = answers
            .iter()
            .map(|(head, body)| ((*head).to_owned(), (*body).to_owned()))
            .collect();
        let hearing = Arc::clone(&heard);
        // It ends with the test's process.
        thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let (head, body) = &answers[n.min(answers.len() - 1)];
                // Before whoever asked can have its answer.
                hearing.fetch_add(1, Ordering::SeqCst);
                serve(stream.unwrap(), head, body);
            }
        });
        Stand { url, heard }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }
}

fn not_leader(leader: Option<&str>) -> String {
    let leader = leader.map_or_else(String::new, |api| {
        format!(r#","leader":{{"name":"c9","api":"{api}"}}"#)
    });
    format!(
        r#"{{"kind":"not_leader","what":"POST /x","why":"this coordinator does not lead","remedy":"ask who leads"{leader}}}"#
    )
}

fn ask(arguments: &[&str], urls: &[&str]) -> Said {
    let place = Place::new();
    place.write("token", "t");
    let mut command = place.command(arguments);
    command.env("MATINS_TOKEN_FILE", place.path("token"));
    for url in urls {
        command.args(["--api", url]);
    }
    command.output().unwrap().into()
}

/// An address that nobody listens on.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn who_does_not_lead_is_left_for_who_does() {
    for (arguments, answer) in [(CORDON, CORDONED), (GET, ("200 OK", "[]"))] {
        let leader = Stand::new(&[answer]);
        let refusal = not_leader(Some(&leader.url));
        let standby = Stand::new(&[(REFUSED, &refusal)]);
        let said = ask(arguments, &[&standby.url]);
        assert_eq!(said.status, 0, "{said:?}");
        assert_eq!((standby.heard(), leader.heard()), (1, 1));
    }
}

#[test]
fn another_is_asked_where_one_does_not_answer() {
    let leader = Stand::new(&[CORDONED]);
    let gone = nobody();
    let both = format!("{gone},{}", leader.url);
    for urls in [&[&*gone, &*leader.url][..], &[&*both]] {
        let said = ask(CORDON, urls);
        assert_eq!(said.status, 0, "{said:?}");
    }
    assert_eq!(leader.heard(), 2);

    let said = ask(CORDON, &[&nobody(), &nobody()]);
    said.refused_with_remedy(
        3,
        &[
            "asking the coordinators at",
            "see that the coordinator runs",
        ],
    );
    assert_eq!(said.stderr.matches("refused").count(), 2, "{said:?}");
}

/// It may have been done by who hung up.
#[test]
fn what_changes_something_is_sent_once_where_nobody_knows_what_became_of_it() {
    let mute = Stand::new(&[("", "")]);
    let other = Stand::new(&[CORDONED]);
    let said = ask(CORDON, &[&mute.url, &other.url]);
    said.refused_with_remedy(3, &["whether it was done is not known"]);
    assert_eq!((mute.heard(), other.heard()), (1, 0));

    // A question does no harm.
    let other = Stand::new(&[("200 OK", "[]")]);
    let said = ask(GET, &[&mute.url, &other.url]);
    assert_eq!(said.status, 0, "{said:?}");
    assert_eq!(other.heard(), 1);
}

#[test]
fn while_nobody_leads_an_election_is_waited_for() {
    let nobody_leads = not_leader(None);
    let coming = Stand::new(&[(REFUSED, &nobody_leads), (REFUSED, &nobody_leads), CORDONED]);
    let said = ask(CORDON, &[&coming.url]);
    assert_eq!(said.status, 0, "{said:?}");
    assert!(said.stderr.contains("waiting for an election"), "{said:?}");
    assert_eq!(coming.heard(), 3);

    // The leader has just died, and the other one does not know it yet.
    let refusal = not_leader(Some(&nobody()));
    let coming = Stand::new(&[(REFUSED, &refusal), (REFUSED, &nobody_leads), CORDONED]);
    let said = ask(CORDON, &[&coming.url]);
    assert_eq!(said.status, 0, "{said:?}");
    assert_eq!(coming.heard(), 3);
}

#[test]
fn a_token_goes_nowhere_in_the_clear() {
    let refusal = not_leader(Some("http://192.0.2.1:7412"));
    let standby = Stand::new(&[(REFUSED, &refusal)]);
    let said = ask(CORDON, &[&standby.url]);
    said.refused_with_remedy(3, &["c9 leads", "--api-listen"]);
}

#[test]
fn an_address_that_is_none_is_refused() {
    ask(GET, &["ftp://c1"]).refused_with_remedy(2, &["`ftp://c1` is no address of an API"]);
    let both = [GET, &["--data", "x"]].concat();
    ask(&both, &["http://127.0.0.1:9"]).refused(2, &["cannot be used with"]);
}
