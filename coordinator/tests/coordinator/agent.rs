//! An agent that does what a test tells it, in a thread of its own.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use protocol::attempt::{AttemptEnd, AttemptOutcome, Exit, Work};
use protocol::message::{
    AgentMessage, Attach, BulkAnswer, BulkRequest, CoordinatorBody, CoordinatorMessage, Heartbeat,
    Hello, Incarnation, Nonce, PROTOCOL_VERSION, Receipt, Started,
};
use protocol::output::Wanted;
use protocol::{DurationMs, Epoch, SessionId, Token, WallMs};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use transport::{BulkReceiver, BulkSender, Connection, Dialer, Role};

use crate::house::{Coordinator, House, PATIENCE, run};

pub(crate) struct FakeAgent {
    say: tokio::sync::mpsc::UnboundedSender<Say>,
    heard: mpsc::Receiver<Heard>,
    pub(crate) session: SessionId,
    outputs: Arc<Outputs>,
    _thread: JoinHandle<()>,
}

/// What can be fetched, and who is fetching what has no end.
#[derive(Default)]
struct Outputs {
    held: Mutex<BTreeMap<Token, (Vec<u8>, End)>>,
    readers: Mutex<Vec<Wanted>>,
}

/// What comes after what there is of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Orderly,
    /// None until nobody reads any more.
    Open,
}

enum Say {
    Json(Value),
    /// Read no more of what the coordinator sends.
    Deafen,
}

#[derive(Debug)]
pub(crate) enum Heard {
    Message(Box<CoordinatorMessage>),
    /// The connection is over.
    Closed(String),
}

fn attach_message(epoch: Epoch, nonce: Nonce, slots: u32, attempts: Vec<Token>) -> Attach {
    Attach {
        epoch,
        nonce,
        boot_id: "boot-1".to_owned(),
        agent_incarnation: Incarnation(1),
        supervisor_incarnation: Incarnation(2),
        swept: true,
        slots,
        labels: Vec::new(),
        wall: WallMs(0),
        attempts,
    }
}

impl FakeAgent {
    /// Connects and attaches.
    pub(crate) fn attach(
        house: &House,
        coordinator: &Coordinator,
        name: &str,
        slots: u32,
    ) -> FakeAgent {
        let mut agent = FakeAgent::connect(house, coordinator, name);
        agent.follow_invitation(slots, Vec::new());
        agent.session = agent.hear("to be attached", |body| match body {
            CoordinatorBody::Attached { session, kill, .. } => {
                assert_eq!(kill, []);
                Some(session)
            }
            _ => None,
        });
        agent
    }

    /// Connects, and says nothing but hello.
    pub(crate) fn connect(house: &House, coordinator: &Coordinator, name: &str) -> FakeAgent {
        let identity = house.agent_identity(name);
        let address = coordinator.agents_address;
        let (say, told) = tokio::sync::mpsc::unbounded_channel();
        let (tell, heard) = mpsc::channel();
        let outputs = Arc::new(Outputs::default());
        let served = Arc::clone(&outputs);
        let thread = std::thread::spawn(move || {
            run(async {
                let dialer = Dialer::new(&identity).unwrap();
                let (_, connection) = dialer.connect(address, Role::Coordinator).await.unwrap();
                live(connection, told, tell, served).await;
            });
        });
        FakeAgent {
            say,
            heard,
            session: SessionId(0),
            outputs,
            _thread: thread,
        }
    }

    /// Waits to be invited, and asks to be attached; answers the nonce.
    pub(crate) fn follow_invitation(&self, slots: u32, attempts: Vec<Token>) -> Nonce {
        loop {
            match self.heard.recv_timeout(PATIENCE) {
                Ok(Heard::Message(message)) => {
                    if let CoordinatorBody::NonceGiven { nonce } = message.body {
                        let attach = attach_message(message.epoch, nonce, slots, attempts);
                        self.say(AgentMessage::Attach(attach));
                        return nonce;
                    }
                }
                other => panic!("waited for the invitation, and heard {other:?}"),
            }
        }
    }

    pub(crate) fn say(&self, message: AgentMessage) {
        self.say_json(serde_json::to_value(message).unwrap());
    }

    pub(crate) fn say_json(&self, message: Value) {
        let _ = self.say.send(Say::Json(message));
    }

    pub(crate) fn deafen(&self) {
        let _ = self.say.send(Say::Deafen);
    }

    /// What the coordinator can fetch of an attempt, and how that ends.
    pub(crate) fn has_output(&self, token: Token, records: &[u8], end: End) {
        let output = (records.to_vec(), end);
        self.outputs.held.lock().unwrap().insert(token, output);
    }

    /// What is being read of outputs that have no end.
    pub(crate) fn readers(&self) -> Vec<Wanted> {
        self.outputs.readers.lock().unwrap().clone()
    }

    /// Waits for a message of a kind; others are passed over.
    pub(crate) fn hear<T>(&self, what: &str, wanted: impl Fn(CoordinatorBody) -> Option<T>) -> T {
        loop {
            match self.heard.recv_timeout(PATIENCE) {
                Ok(Heard::Message(message)) => {
                    if let Some(found) = wanted(message.body) {
                        return found;
                    }
                }
                other => panic!("waited for {what}, and heard {other:?}"),
            }
        }
    }

    pub(crate) fn hear_start(&self) -> (Token, Work) {
        self.hear("a start", |body| match body {
            CoordinatorBody::Start {
                token,
                work,
                session,
                ..
            } => {
                assert_eq!(session, self.session);
                Some((token, *work))
            }
            _ => None,
        })
    }

    pub(crate) fn hear_end(&self) -> String {
        loop {
            match self.heard.recv_timeout(PATIENCE) {
                Ok(Heard::Message(_)) => {}
                Ok(Heard::Closed(reason)) => return reason,
                Err(error) => panic!("waited for the connection's end: {error}"),
            }
        }
    }

    /// Why the connection is over, if that is what was heard last.
    pub(crate) fn ended_with(&self) -> Option<String> {
        match self.heard.try_recv() {
            Ok(Heard::Closed(reason)) => Some(reason),
            Ok(Heard::Message(_)) | Err(_) => None,
        }
    }

    pub(crate) fn beat(&self, beat: u64, attempts: Vec<Token>) {
        self.say(AgentMessage::Heartbeat(Heartbeat {
            round_trip: None,
            host: None,
            session: self.session,
            beat,
            wall: WallMs(0),
            attempts,
        }));
    }

    pub(crate) fn started(&self, token: Token) {
        let at = WallMs(1_800_000_000_000);
        self.say(AgentMessage::Started(Started { token, at }));
    }

    /// Reports the end of an attempt and waits until the ledger has it.
    pub(crate) fn ended(&self, token: Token, outcome: AttemptOutcome, exit: Option<Exit>) {
        let tail = match outcome {
            AttemptOutcome::Succeeded => "",
            _ => "it went wrong",
        };
        let end = AttemptEnd {
            outcome,
            exit,
            started_at: Some(WallMs(1_800_000_000_000)),
            ended_at: WallMs(1_800_000_001_000),
            cpu: DurationMs(12),
            memory_bytes_peak: 4096,
            out_of_memory: false,
            usage: None,
            not_enforced: Vec::new(),
            reason: None,
            tail: tail.to_owned(),
        };
        self.say(AgentMessage::Receipt(Receipt { token, end }));
        self.hear("the receipt's acknowledgement", |body| {
            (body == CoordinatorBody::ReceiptAck { token }).then_some(())
        });
    }

    pub(crate) fn succeed(&self, token: Token) {
        self.started(token);
        self.ended(token, AttemptOutcome::Succeeded, Some(Exit::Code(0)));
    }
}

async fn live(
    connection: Connection,
    mut told: tokio::sync::mpsc::UnboundedReceiver<Say>,
    tell: mpsc::Sender<Heard>,
    outputs: Arc<Outputs>,
) {
    let (mut sender, mut receiver) = connection.open_control().await.unwrap();
    let protocol_version = PROTOCOL_VERSION;
    // Where the connection is over, its end is heard below.
    let _ = sender.send(&Hello { protocol_version }).await;
    let bulk = tokio::spawn(serve_outputs(connection.clone(), outputs));
    let mut deaf = false;
    loop {
        tokio::select! {
            said = told.recv() => match said {
                Some(Say::Json(message)) => {
                    // Where the connection is over, its end is heard beside this.
                    let _ = sender.send(&message).await;
                }
                Some(Say::Deafen) => deaf = true,
                None => break,
            },
            received = receiver.receive::<CoordinatorMessage>(), if !deaf => {
                let heard = if let Ok(Some(message)) = received {
                    Heard::Message(Box::new(message))
                } else {
                    deaf = true;
                    Heard::Closed(connection.closed().await.to_string())
                };
                let _ = tell.send(heard);
            }
            reason = connection.closed(), if deaf => {
                let _ = tell.send(Heard::Closed(reason.to_string()));
                break;
            }
        }
    }
    bulk.abort();
    connection.shutdown("the test's agent goes").await;
}

async fn serve_outputs(connection: Connection, outputs: Arc<Outputs>) {
    while let Ok((sender, receiver)) = connection.accept_bulk().await {
        tokio::spawn(serve_output(sender, receiver, Arc::clone(&outputs)));
    }
}

async fn serve_output(mut sender: BulkSender, mut receiver: BulkReceiver, outputs: Arc<Outputs>) {
    let Ok(Some(BulkRequest::Output(wanted))) = receiver.receive().await else {
        return;
    };
    let output = outputs.held.lock().unwrap().get(&wanted.token).cloned();
    let Some((records, end)) = output else {
        let reason = "no such output".to_owned();
        sender.send(&BulkAnswer::NotFound { reason }).await.unwrap();
        let _ = sender.finish().await;
        return;
    };
    sender.send(&BulkAnswer::Found).await.unwrap();
    sender.write_all(&records).await.unwrap();
    match end {
        // Whoever reads may go before the end.
        End::Orderly => drop(sender.finish().await),
        End::Open => {
            sender.flush().await.unwrap();
            outputs.readers.lock().unwrap().push(wanted);
            let ended = receiver.receive::<BulkRequest>().await;
            assert!(ended.is_err(), "{ended:?}");
            outputs
                .readers
                .lock()
                .unwrap()
                .retain(|reader| *reader != wanted);
        }
    }
}
