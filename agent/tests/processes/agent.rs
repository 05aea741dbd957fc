//! The agent between a supervisor and a coordinator that is a test.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use protocol::attempt::{AttemptOutcome, Exit, Limits, Trigger, Work};
use protocol::message::{
    AgentMessage, Attach, BulkAnswer, BulkRequest, CoordinatorBody, CoordinatorMessage, Hello,
    KeptProfile, Nonce, PROTOCOL_VERSION, Receipt,
};
use protocol::output::{HEADER_BYTES, Mark, Record, Stream, Wanted};
use protocol::{DurationMs, Epoch, ExecutionId, RunId, SessionId, Token, WallMs};
use tokio::io::AsyncReadExt;
use transport::ca::{self, Subject, Validity};
use transport::{
    BulkReceiver, BulkSender, Connection, ControlReceiver, ControlSender, Identity, Listener, Role,
};

use crate::harness::{Home, PATIENCE, is_alive, wait_for};

/// An authority, an identity for the agent in its home, and a listener.
fn listen(home: &Home) -> Listener {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let validity = Validity {
        now: WallMs(now.as_millis() as i64),
        lifetime: DurationMs::from_secs(3600),
    };
    let authority = home.path().join("ca");
    ca::create(&authority, &"test".parse().unwrap(), validity).unwrap();
    let issue = |role, name: &str, out: &Path| {
        let subject = Subject::new(role, &name.parse().unwrap());
        ca::issue(&authority, &subject, out, validity).unwrap();
    };
    issue(Role::Agent, "host-1", &home.path().join("identity"));
    let control = home.path().join("control");
    issue(Role::Coordinator, "control-1", &control);
    listen_too(home)
}

/// The listener of one more coordinator of the same cluster.
fn listen_too(home: &Home) -> Listener {
    let identity = Identity::load(&home.path().join("control")).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Listener::bind(any, &identity, Role::Agent).unwrap()
}

/// One conversation with the agent, from the coordinator's side.
struct Conversation {
    connection: Connection,
    sender: ControlSender,
    receiver: ControlReceiver,
    session: SessionId,
    epoch: Epoch,
}

impl Conversation {
    /// Waits for the agent to connect, and accepts its attach.
    async fn begin(listener: &Listener, session: i64) -> (Conversation, Attach) {
        let mut conversation = Conversation::warm(listener, session).await;
        let attach = conversation.invite(Epoch(1)).await;
        (conversation, attach)
    }

    /// Waits for the agent to connect, and says nothing.
    async fn warm(listener: &Listener, session: i64) -> Conversation {
        let begin = async {
            let incoming = listener.accept().await.unwrap();
            let (peer, connection) = incoming.handshake().await.unwrap();
            assert_eq!(peer.name.as_str(), "host-1");
            let (sender, mut receiver) = connection.accept_control().await.unwrap();
            let hello: Hello = receiver.receive().await.unwrap().unwrap();
            assert_eq!(hello.protocol_version, PROTOCOL_VERSION);
            (connection, sender, receiver)
        };
        let (connection, sender, receiver) = tokio::time::timeout(PATIENCE, begin).await.unwrap();
        Conversation {
            connection,
            sender,
            receiver,
            session: SessionId(session),
            epoch: Epoch(0),
        }
    }

    /// Leads from now on, and accepts the agent's attach.
    async fn invite(&mut self, epoch: Epoch) -> Attach {
        self.epoch = epoch;
        let nonce = Nonce(self.session.0.unsigned_abs());
        self.says(CoordinatorBody::NonceGiven { nonce }).await;
        let AgentMessage::Attach(attach) = self.hears().await else {
            panic!("an attach comes first");
        };
        assert_eq!((attach.epoch, attach.nonce), (epoch, nonce));
        let (session, kill) = (self.session, vec![]);
        let profile = KeptProfile::NotKept;
        let body = CoordinatorBody::Attached {
            session,
            kill,
            profile,
        };
        self.says(body).await;
        attach
    }

    async fn says(&mut self, body: CoordinatorBody) {
        let epoch = self.epoch;
        let message = CoordinatorMessage { epoch, body };
        self.sender.send(&message).await.unwrap();
    }

    async fn hears(&mut self) -> AgentMessage {
        let message = tokio::time::timeout(PATIENCE, self.receiver.receive()).await;
        message.expect("a message in time").unwrap().unwrap()
    }

    async fn starts(&mut self, token: i64, script: &str) {
        self.starts_work(token, work(script)).await;
    }

    async fn starts_work(&mut self, token: i64, work: Work) {
        self.says(CoordinatorBody::Start {
            session: self.session,
            token: Token(token),
            rests_on: 0,
            work: Box::new(work),
        })
        .await;
    }

    /// Waits for the word that this attempt runs, skipping beats.
    async fn hears_started(&mut self, token: i64) {
        loop {
            match self.hears().await {
                AgentMessage::Started(started) => {
                    assert_eq!(started.token, Token(token));
                    return;
                }
                AgentMessage::Heartbeat(_) => {}
                other => panic!("not a start: {other:?}"),
            }
        }
    }

    /// The next beats of a session in which attempt 10 runs, each acknowledged. One that came too
    /// late would find its attempt killed, and a receipt in its place.
    async fn hears_beats_in_time(&mut self, count: u64) {
        for expected in 1..=count {
            let AgentMessage::Heartbeat(beat) = self.hears().await else {
                panic!("a beat comes next");
            };
            let attempts = &beat.attempts[..];
            assert_eq!((beat.beat, attempts), (expected, &[Token(10)][..]));
            self.says(CoordinatorBody::HeartbeatAck {
                session: self.session,
                beat: beat.beat,
                live: vec![Token(10)],
            })
            .await;
        }
    }

    async fn hears_receipt(&mut self) -> Receipt {
        loop {
            match self.hears().await {
                AgentMessage::Receipt(receipt) => return receipt,
                AgentMessage::Heartbeat(_) => {}
                other => panic!("not a receipt: {other:?}"),
            }
        }
    }

    /// What the agent has of this attempt's output, as the attempt wrote it.
    async fn output(&self, token: i64) -> Result<String, String> {
        let records = self.records(wanted(token)).await?;
        let lines = records.split(|&byte| byte == b'\n');
        let raw = lines
            .filter_map(Record::parse)
            .map(|record| record.raw().concat());
        Ok(String::from_utf8(raw.collect::<Vec<_>>().concat()).unwrap())
    }

    async fn records(&self, wanted: Wanted) -> Result<Vec<u8>, String> {
        let (_sender, mut receiver) = self.ask_for(wanted).await?;
        let mut records = Vec::new();
        receiver.read_to_end(&mut records).await.unwrap();
        Ok(records)
    }

    async fn ask_for(&self, wanted: Wanted) -> Result<(BulkSender, BulkReceiver), String> {
        let (mut sender, mut receiver) = self.connection.open_bulk().await.unwrap();
        sender.send(&BulkRequest::Output(wanted)).await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, receiver.receive::<BulkAnswer>()).await;
        match answer.unwrap().unwrap().unwrap() {
            BulkAnswer::NotFound { reason } => Err(reason),
            BulkAnswer::Found => Ok((sender, receiver)),
        }
    }
}

/// All of an attempt's output.
fn wanted(token: i64) -> Wanted {
    Wanted {
        token: Token(token),
        stream: None,
        since: None,
        tail: None,
        follow: false,
    }
}

fn work(script: &str) -> Work {
    Work {
        user: None,
        limits: Limits::default(),
        job: "test/job".parse().unwrap(),
        first_name: None,
        run_id: RunId(1),
        execution_id: ExecutionId(1),
        fire_time: WallMs(0),
        nominal: vec![],
        timezone: "UTC".to_owned(),
        shard: 0,
        shards: 1,
        attempt: 1,
        trigger: Trigger::Manual,
        fence: None,
        redo: None,
        exec: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        timeout: DurationMs::from_secs(600),
        takeover: DurationMs::from_secs(60),
    }
}

#[tokio::test]
async fn a_start_becomes_a_process_a_receipt_and_an_output() {
    let home = Home::new();
    let listener = listen(&home);
    let _supervisor = home.start();
    let agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, attach) = Conversation::begin(&listener, 1).await;
    assert!(attach.swept && attach.attempts.is_empty());
    assert_eq!(attach.slots, 4);

    conversation
        .starts(10, "echo $MATINS_JOB $MATINS_TOKEN $TZ; exit 3")
        .await;
    conversation.hears_started(10).await;
    let receipt = conversation.hears_receipt().await;
    assert_eq!(receipt.token, Token(10));
    assert_eq!(receipt.end.outcome, AttemptOutcome::Failed);
    assert_eq!(receipt.end.exit, Some(Exit::Code(3)));
    assert_eq!(receipt.end.tail, "test/job 10 UTC\n");

    let long = "x".repeat(300_000);
    conversation
        .starts(11, "printf '%300000d' 0 | tr ' 0' xx")
        .await;
    conversation.hears_started(11).await;
    let receipt = conversation.hears_receipt().await;
    assert_eq!(receipt.end.outcome, AttemptOutcome::Succeeded);
    assert_eq!(receipt.end.tail, "");
    assert_eq!(conversation.output(11).await, Ok(long));
    assert_eq!(
        conversation.output(10).await.unwrap(),
        "test/job 10 UTC\n",
        "held beside the tail"
    );
    assert!(conversation.output(12).await.is_err());

    // Unacknowledged, both come again after the next attach; acknowledged, they do not.
    for acknowledged in [false, true] {
        conversation.connection.close("the test goes on");
        let (next, attach) = Conversation::begin(&listener, 2).await;
        conversation = next;
        assert_eq!(attach.attempts, [Token(10), Token(11)]);
        for token in [10, 11].map(Token) {
            assert_eq!(conversation.hears_receipt().await.token, token);
            if acknowledged {
                conversation
                    .says(CoordinatorBody::ReceiptAck { token })
                    .await;
            }
        }
    }
    // Orders keep their order, so what was to be forgotten is when the next attempt has run.
    conversation.starts(12, "exit 0").await;
    conversation.hears_started(12).await;
    conversation.hears_receipt().await;
    agent.signal(Signal::SIGTERM);
    agent.wait();
    let (_, table) = home.connect_for_table();
    let held: Vec<Token> = table.attempts.iter().map(|held| held.token).collect();
    assert_eq!(held, [Token(12)]);
}

#[tokio::test]
async fn a_stopped_agent_leaves_its_attempts_and_the_next_one_finds_them() {
    for how in [Signal::SIGTERM, Signal::SIGKILL] {
        let home = Home::new();
        let listener = listen(&home);
        let _supervisor = home.start();
        let coordinator = listener.local_addr().to_string();
        let first = home.start_agent(&coordinator);
        let (mut conversation, before) = Conversation::begin(&listener, 1).await;
        conversation
            .starts(10, "echo pid=$$; exec sleep 1000")
            .await;
        conversation.hears_started(10).await;
        wait_for("the process", || home.output_of(10).contains("pid="));
        let pid = home.pid_in_output(10);

        first.signal(how);
        assert_eq!(first.wait(), how == Signal::SIGTERM);
        assert!(is_alive(pid), "{how}");

        let _second = home.start_agent(&coordinator);
        let (mut conversation, after) = Conversation::begin(&listener, 2).await;
        assert_eq!(after.attempts, [Token(10)]);
        assert_eq!(after.supervisor_incarnation, before.supervisor_incarnation);
        assert_ne!(after.agent_incarnation, before.agent_incarnation);
        conversation.hears_started(10).await;
        conversation
            .says(CoordinatorBody::Cancel {
                session: conversation.session,
                token: Token(10),
            })
            .await;
        let receipt = conversation.hears_receipt().await;
        assert_eq!(receipt.end.outcome, AttemptOutcome::Cancelled);
        assert!(!is_alive(pid));
    }
}

#[tokio::test]
async fn a_change_of_leader_moves_the_session_and_interrupts_nothing() {
    let home = Home::new();
    let (one, other) = (listen(&home), listen_too(&home));
    let addresses = [&one, &other].map(|listener| listener.local_addr().to_string());
    let _supervisor = home.start();
    let _agent = home.start_agent(&addresses.join(" "));
    let mut leader = Conversation::warm(&one, 1).await;
    let mut standby = Conversation::warm(&other, 2).await;
    assert!(leader.invite(Epoch(3)).await.attempts.is_empty());
    leader.starts(10, "echo pid=$$; exec sleep 1000").await;
    leader.hears_started(10).await;
    wait_for("the process", || home.output_of(10).contains("pid="));
    let pid = home.pid_in_output(10);

    // The standby leads now, over a connection that was there; then the first one again.
    let before = standby.invite(Epoch(7)).await;
    assert_eq!(before.attempts, [Token(10)]);
    standby.hears_started(10).await;
    leader.session = SessionId(3);
    let after = leader.invite(Epoch(9)).await;
    assert_eq!(after.attempts, [Token(10)]);
    assert_eq!(after.agent_incarnation, before.agent_incarnation);
    leader.hears_started(10).await;

    // The standby is restarted, and the agent is back before anybody needs it.
    standby.connection.close("the test goes on");
    let _standby = Conversation::warm(&other, 4).await;
    assert!(is_alive(pid));
    let (session, token) = (leader.session, Token(10));
    leader
        .says(CoordinatorBody::Cancel { session, token })
        .await;
    let receipt = leader.hears_receipt().await;
    assert_eq!(receipt.end.outcome, AttemptOutcome::Cancelled);
}

#[tokio::test]
async fn an_agent_attaches_anew_when_its_supervisor_was_replaced() {
    let home = Home::new();
    let listener = listen(&home);
    let supervisor = home.start();
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, before) = Conversation::begin(&listener, 1).await;
    conversation
        .starts(10, "setsid sh -c 'echo pid=$$; sleep 1000' & sleep 1000")
        .await;
    conversation.hears_started(10).await;
    wait_for("the process", || home.output_of(10).contains("pid="));
    let pid = home.pid_in_output(10);
    supervisor.signal(Signal::SIGKILL);
    supervisor.wait();
    let _next = home.start();
    let (_conversation, after) = Conversation::begin(&listener, 2).await;
    assert_ne!(after.supervisor_incarnation, before.supervisor_incarnation);
    assert!(after.swept && after.attempts.is_empty());
    assert!(!is_alive(pid), "said to be dead while {pid} lives");
}

#[tokio::test]
async fn beats_come_and_say_what_runs() {
    let home = Home::new();
    let listener = listen(&home);
    let _supervisor = home.start();
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, _) = Conversation::begin(&listener, 1).await;
    conversation.starts(10, "exec sleep 1000").await;
    conversation.hears_started(10).await;
    let AgentMessage::Heartbeat(beat) = conversation.hears().await else {
        panic!("a beat comes next");
    };
    assert_eq!((beat.session, beat.beat), (SessionId(1), 1));
    assert_eq!(beat.attempts, [Token(10)]);
    // An ack that leaves the attempt out is the order to kill it.
    conversation
        .says(CoordinatorBody::HeartbeatAck {
            session: SessionId(1),
            beat: 1,
            live: vec![],
        })
        .await;
    let receipt = tokio::time::timeout(Duration::from_secs(30), conversation.hears_receipt());
    assert_eq!(receipt.await.unwrap().end.outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn beats_are_on_time_while_attempts_use_every_processor() {
    let home = Home::new();
    let listener = listen(&home);
    let _supervisor = home.start();
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, _) = Conversation::begin(&listener, 1).await;
    let burners = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait";
    let mut work = work(burners);
    work.takeover = DurationMs::from_secs(15);
    conversation.starts_work(10, work).await;
    conversation.hears_started(10).await;
    conversation.hears_beats_in_time(3).await;
}

/// Two dozen people follow a job that prints as fast as it can. Their streams give way.
#[tokio::test]
async fn beats_are_on_time_while_as_many_follow_an_output_as_may() {
    let home = Home::new();
    let listener = listen(&home);
    let _supervisor = home.start();
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, _) = Conversation::begin(&listener, 1).await;
    let mut work = work("exec yes 'a line like any other'");
    work.takeover = DurationMs::from_secs(15);
    conversation.starts_work(10, work).await;
    conversation.hears_started(10).await;
    wait_for("the output", || !home.records_of(10).is_empty());
    let mut followers = tokio::task::JoinSet::new();
    for _ in 0..24 {
        let followed = Wanted {
            follow: true,
            ..wanted(10)
        };
        let (sender, mut receiver) = conversation.ask_for(followed).await.unwrap();
        followers.spawn(async move {
            let read = tokio::io::copy(&mut receiver, &mut tokio::io::sink()).await;
            drop(sender);
            read
        });
    }
    conversation.hears_beats_in_time(3).await;
    assert!(followers.try_join_next().is_none(), "they read on");
}

/// A coordinator that sends what is no message loses its connection; the agent says why, comes back,
/// and its attempts run on.
#[tokio::test]
async fn garbage_from_the_coordinator_costs_a_connection_and_no_attempt() {
    let home = Home::new();
    let _supervisor = home.start();
    let listener = listen(&home);
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let header = |bytes: u32| bytes.to_be_bytes().to_vec();
    let (mut conversation, first) = Conversation::begin(&listener, 1).await;
    conversation.starts(10, "sleep 60").await;
    conversation.hears_started(10).await;
    for (session, garbage, why) in [
        (2, header(65_537), "more than the 65536"),
        (
            3,
            [header(2), b"{}".to_vec()].concat(),
            "is not the message expected",
        ),
        (4, vec![0xff; 500], "more than the 65536"),
        (
            5,
            [header(9), b"{".to_vec()].concat(),
            "was not whole within 10 s",
        ),
    ] {
        conversation.sender.send_unframed(&garbage).await.unwrap();
        let end = tokio::time::timeout(PATIENCE, conversation.connection.closed());
        let end = end.await.expect("it is closed in time").to_string();
        assert!(end.contains(why), "{end}");
        let (next, attach) = Conversation::begin(&listener, session).await;
        assert_eq!(attach.agent_incarnation, first.agent_incarnation);
        assert_eq!(attach.attempts, [Token(10)]);
        conversation = next;
    }
}

/// What a follower gets of an output that turns over while it is read: all of it in its order,
/// and the word of what it was too slow for.
#[tokio::test]
async fn a_follower_reads_on_while_files_turn_over_and_knows_what_it_missed() {
    let home = Home::new();
    let listener = listen(&home);
    let _supervisor = home.start();
    let _agent = home.start_agent(&listener.local_addr().to_string());
    let (mut conversation, _) = Conversation::begin(&listener, 1).await;
    let script = "echo first; while ! [ -e go ]; do sleep 0.02; done; \
                  yes 'a line like any other' | head -c 20000000; echo; echo last";
    conversation.starts(10, script).await;
    conversation.hears_started(10).await;
    wait_for("the output", || home.output_of(10).contains("first"));
    let followed = Wanted {
        follow: true,
        ..wanted(10)
    };
    let (_sender, mut receiver) = conversation.ask_for(followed).await.unwrap();
    let mut records = vec![0; HEADER_BYTES + "first\n".len()];
    receiver.read_exact(&mut records).await.unwrap();
    std::fs::write(home.directory().join("work/10/go"), "").unwrap();
    let rest = tokio::time::timeout(PATIENCE, receiver.read_to_end(&mut records));
    rest.await.unwrap().unwrap();
    let lines = records.split(|&byte| byte == b'\n');
    let (mut got, mut missed, mut content) = (0, 0, Vec::new());
    for record in lines.filter_map(Record::parse) {
        content = record.raw().concat();
        got += content.len() as u64;
        if let (Stream::Matins, Mark::Dropped(amount, _)) =
            (record.stream, Mark::parse(record.content))
        {
            missed += amount.bytes;
        }
    }
    assert_eq!(content, b"last\n");
    assert_eq!(got + missed, 20_000_000 + "first\n\nlast\n".len() as u64);
    assert!(missed > 0);

    // Parts of it, once it is over.
    let lines = |records: Vec<u8>| {
        let lines = records.split(|&byte| byte == b'\n');
        let raw = lines
            .filter_map(Record::parse)
            .map(|record| record.raw().concat());
        String::from_utf8(raw.collect::<Vec<_>>().concat()).unwrap()
    };
    let tail = Wanted {
        tail: Some(2),
        ..wanted(10)
    };
    let tail = lines(conversation.records(tail).await.unwrap());
    assert!(
        tail.ends_with("\nlast\n") && tail.lines().count() == 2,
        "{tail}"
    );
    let stderr = Wanted {
        stream: Some(Stream::Stderr),
        ..wanted(10)
    };
    assert_eq!(lines(conversation.records(stderr).await.unwrap()), "");
    let late = Wanted {
        since: Some(WallMs(i64::MAX / 1000)),
        ..wanted(10)
    };
    assert!(conversation.records(late).await.unwrap().is_empty());
}
