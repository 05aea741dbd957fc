//! The way to one other member: a connection that is made again whenever it is lost.
//!
//! Each member dials each other one and asks on its own connection; what it is asked itself comes on
//! the connections that it accepts. So nobody need agree on who dials, and a network that lets
//! through one way only is seen for what it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol::message::RenewAnswer;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, sleep, timeout};
use transport::{
    CertificateProblem, ConnectError, Connection, ControlReceiver, ControlSender, Dialer,
    HandshakeError, PeerName, ReceiveError, SendError, StreamError, Wanted,
};

use super::GOODBYE;
use super::hello::{Met, Refusal};
use super::table::Table;
use super::wire::{Answer, Answered, Ask, Asked, Greeting, Hello, Opening};
use crate::clock::read_now;
use crate::exit::causes;

/// Longest time for the other side's first words.
pub(super) const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How often the other side's clock is asked for.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// Questions that wait to be sent, and that wait for an answer. There are a few each second; so many
/// are there only where the other side answers nothing any more.
const ASKED_MAX: usize = 256;

/// Between two tries, at first and at last. A member that comes back is to be heard within a second.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_millis(800);

/// Of what one name stands for, so many are tried: a machine has an address of each family, or two.
const ADDRESSES_MAX: usize = 4;

/// How often it is looked at the dates of the certificates that a connection rests on.
const DATES_EVERY: Duration = Duration::from_secs(1);

/// How long a try is left alone, even where the member is heard meanwhile.
const TRY_AT_LEAST: Duration = Duration::from_millis(200);

/// Why a member is not connected to.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("this machine has no network to other members")]
    NoNetwork,
    #[error("its address is not known")]
    NoAddress,
    #[error("looking up its address {address}")]
    LookUp {
        address: String,
        source: std::io::Error,
    },
    #[error("its address {address} stands for no machine")]
    NoMachine { address: String },
    #[error(
        "connecting to it at {address}; where it is a control machine of this cluster, its certificate is older than its number: issue it again with `matins ca issue --node N`"
    )]
    NotControl {
        address: String,
        source: ConnectError,
    },
    #[error("connecting to it at {address}")]
    Connect {
        address: String,
        source: ConnectError,
    },
    #[error("the first words with {address}")]
    Stream {
        address: String,
        source: StreamError,
    },
    #[error("saying hello to {address}")]
    Say { address: String, source: SendError },
    #[error("hearing its hello from {address}")]
    Hear {
        address: String,
        source: ReceiveError,
    },
    #[error("{address} said no hello within {} s", HELLO_LIMIT.as_secs())]
    Silent { address: String },
    #[error("refused by {address}: {why}")]
    Refused { address: String, why: String },
    #[error(transparent)]
    Refusing(#[from] Refusal),
}

/// The way to one member. Clones share it; the last one ends it.
#[derive(Clone)]
pub(super) struct Link {
    line: watch::Receiver<Option<Arc<Line>>>,
    keeper: Arc<Keeper>,
}

struct Keeper {
    task: AbortHandle,
    hurry: Arc<Notify>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Keeps connecting to a member, for as long as somebody holds the link.
    pub(super) fn keep(node: u64, table: &Arc<Table>, dialer: Option<&Dialer>) -> Link {
        let (say, line) = watch::channel(None);
        let hurry = Arc::new(Notify::new());
        let keeping = keep(
            node,
            Arc::clone(table),
            dialer.cloned(),
            say,
            Arc::clone(&hurry),
        );
        let task = tokio::spawn(keeping).abort_handle();
        Link {
            line,
            keeper: Arc::new(Keeper { task, hurry }),
        }
    }

    /// The member has just been heard: where it is not connected to, that is tried at once.
    pub(super) fn hurry(&self) {
        if self.line.borrow().is_none() {
            self.keeper.hurry.notify_one();
        }
    }

    /// Ends the connection with a word, and makes no other.
    pub(super) fn close(&self, why: &str) {
        self.keeper.task.abort();
        if let Some(line) = &*self.line.borrow() {
            line.connection.close(why);
        }
    }

    /// Asks the member for the next certificate of this machine's key, or says why there is none.
    pub(super) async fn ask_for_certificate(&self) -> Result<String, String> {
        let line = self.line(HELLO_LIMIT).await.ok_or("it is not connected")?;
        let said = |error: &dyn std::error::Error| causes(error);
        let opened = line.connection.open_bulk().await;
        let (mut sender, mut receiver) = opened.map_err(|error| said(&error))?;
        let sent = sender.send(&Opening::Renew).await;
        sent.map_err(|error| said(&error))?;
        match receiver.receive().await.map_err(|error| said(&error))? {
            Some(RenewAnswer::Renewed { certificate }) => Ok(certificate),
            Some(RenewAnswer::Refused { reason }) => Err(reason),
            None => Err("it answered nothing".to_owned()),
        }
    }

    /// The connection there is now, or is within `limit`.
    pub(super) async fn line(&self, limit: Duration) -> Option<Arc<Line>> {
        let mut line = self.line.clone();
        let there = line.wait_for(Option::is_some);
        // The link is kept for as long as somebody may ask.
        timeout(limit, there).await.ok()?.ok()?.clone()
    }
}

async fn keep(
    node: u64,
    table: Arc<Table>,
    dialer: Option<Dialer>,
    say: watch::Sender<Option<Arc<Line>>>,
    hurry: Arc<Notify>,
) {
    let mut pause = PAUSE_FIRST;
    // It has said that it stops: nothing is wrong while it is away.
    let mut stopped = false;
    loop {
        let connected = tokio::select! {
            connected = connect(node, &table, dialer.as_ref()) => connected,
            // What was sent while it was away would be sent again later and later.
            () = heard_again(&hurry) => continue,
        };
        let error = match connected {
            Ok((line, carrier)) => {
                pause = PAUSE_FIRST;
                table.connected(node);
                tracing::info!(node, address = %line.connection.remote_address(), "connected to a member");
                say.send_replace(Some(line));
                let ended = carry(node, &table, dialer.as_ref(), &say, carrier).await;
                say.send_replace(None);
                stopped = ended.contains(GOODBYE);
                format!("the connection ended: {ended}")
            }
            Err(error) => causes(&error),
        };
        if table.trouble(node, &error) {
            if stopped {
                tracing::info!(node, error, "a member is not connected to");
            } else {
                tracing::warn!(node, error, "a member is not connected to");
            }
        }
        tokio::select! {
            () = sleep(jittered(pause)) => pause = (pause * 2).min(PAUSE_LAST),
            () = hurry.notified() => pause = PAUSE_FIRST,
        }
    }
}

/// Carries what is asked until the connection ends. Before one of the certificates that it rests on ends,
/// another connection takes its place: what had no answer yet is asked again there, as after any loss,
/// and nobody is without one.
async fn carry(
    node: u64,
    table: &Table,
    dialer: Option<&Dialer>,
    say: &watch::Sender<Option<Arc<Line>>>,
    mut carrier: Carrier,
) -> String {
    loop {
        let lifetime = carrier.connection.lifetime();
        // At the soonest then: nobody may have got a new one.
        let first = read_now().wall + lifetime.renews_again_after();
        let mut due = lifetime.replaced_at(u8::MAX).max(first);
        let mut carried = Box::pin(carrier.run(node, table));
        carrier = loop {
            tokio::select! {
                ended = &mut carried => return ended,
                () = sleep(DATES_EVERY) => {}
            }
            let now = read_now().wall;
            if now < due {
                continue;
            }
            due = now + lifetime.renews_again_after();
            tokio::select! {
                ended = &mut carried => return ended,
                connected = connect(node, table, dialer) => match connected {
                    Ok((line, carrier)) => {
                        say.send_replace(Some(line));
                        break carrier;
                    }
                    Err(error) => {
                        let error = causes(&error);
                        tracing::debug!(node, error, "a connection could not be replaced yet");
                    }
                },
            }
        };
    }
}

/// The member has been heard, and this try has had its time.
async fn heard_again(hurry: &Notify) {
    sleep(TRY_AT_LEAST).await;
    hurry.notified().await;
}

/// Between half of it and all of it, so that members that lost each other at once do not all dial at
/// once.
fn jittered(pause: Duration) -> Duration {
    // Without randomness they do; that costs nothing but some packets.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

async fn connect(
    node: u64,
    table: &Table,
    dialer: Option<&Dialer>,
) -> Result<(Arc<Line>, Carrier), LinkError> {
    let dialer = dialer.ok_or(LinkError::NoNetwork)?;
    let member = table.member(node).ok_or(LinkError::NoAddress)?;
    let (met, connection, streams) = dial(table, dialer, &member.facts.peers, Some(node)).await?;
    table.met(&met, connection.peer_lifetime());
    Ok(Line::new(connection, streams))
}

/// Dials an address and exchanges the first words.
pub(super) async fn dial(
    table: &Table,
    dialer: &Dialer,
    address: &str,
    expected: Option<u64>,
) -> Result<(Met, Connection, (ControlSender, ControlReceiver)), LinkError> {
    let (name, connection) = reach(dialer, address).await?;
    let greeted = timeout(HELLO_LIMIT, greet(table, address, expected, &connection));
    let (hello, streams) = greeted.await.map_err(|_| LinkError::Silent {
        address: address.to_owned(),
    })??;
    match table.judge(&name, connection.peer_node(), expected, &hello) {
        Ok(met) => Ok((met, connection, streams)),
        Err(refusal) => {
            connection.shutdown(&refusal.to_string()).await;
            Err(refusal.into())
        }
    }
}

async fn greet(
    table: &Table,
    address: &str,
    expected: Option<u64>,
    connection: &Connection,
) -> Result<(Hello, (ControlSender, ControlReceiver)), LinkError> {
    let address = || address.to_owned();
    let opened = connection.open_control().await;
    let (mut sender, mut receiver) = opened.map_err(|source| LinkError::Stream {
        address: address(),
        source,
    })?;
    let hello = table.hello(expected.or(connection.peer_node()));
    sender.send(&hello).await.map_err(|source| LinkError::Say {
        address: address(),
        source,
    })?;
    match receiver.receive().await {
        Ok(Some(Greeting::Welcome(hello))) => Ok((hello, (sender, receiver))),
        Ok(Some(Greeting::Refused { why })) => {
            let address = address();
            Err(LinkError::Refused { address, why })
        }
        Ok(None) => Err(LinkError::Silent { address: address() }),
        Err(source) => Err(LinkError::Hear {
            address: address(),
            source,
        }),
    }
}

/// Connects to the first that answers of what an address stands for.
async fn reach(dialer: &Dialer, address: &str) -> Result<(PeerName, Connection), LinkError> {
    if address.is_empty() {
        return Err(LinkError::NoAddress);
    }
    let named = || address.to_owned();
    let found = tokio::net::lookup_host(address).await;
    let found = found.map_err(|source| LinkError::LookUp {
        address: named(),
        source,
    })?;
    let mut failed = LinkError::NoMachine { address: named() };
    for resolved in found.take(ADDRESSES_MAX) {
        let address = named();
        failed = match dialer.connect(resolved, Wanted::Control).await {
            Ok(connected) => return Ok(connected),
            Err(
                source @ ConnectError::Handshake(HandshakeError::PeerCertificate {
                    problem: CertificateProblem::WrongName,
                    ..
                }),
            ) => LinkError::NotControl { address, source },
            Err(source) => LinkError::Connect { address, source },
        };
    }
    Err(failed)
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("the connection to it was lost")]
    Lost,
    #[error("it has not answered {ASKED_MAX} questions")]
    Mute,
    #[error("it did not answer in time")]
    Late,
    #[error("it could not: {what}")]
    Failed { what: String },
    #[error("it answered something else")]
    Other,
}

type Waiting = (Ask, oneshot::Sender<Answer>);

/// A connection to a member, on which this side asks.
pub(super) struct Line {
    pub(super) connection: Connection,
    asks: mpsc::Sender<Waiting>,
}

impl Line {
    /// A line, and the work that carries its questions and answers.
    fn new(
        connection: Connection,
        (sender, receiver): (ControlSender, ControlReceiver),
    ) -> (Arc<Line>, Carrier) {
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        let line = Line {
            connection: connection.clone(),
            asks,
        };
        let carrier = Carrier {
            connection,
            sender,
            receiver,
            asked,
            open: Mutex::default(),
        };
        (Arc::new(line), carrier)
    }

    /// Asks what cannot wait behind the log.
    pub(super) async fn ask(&self, ask: Ask, limit: Duration) -> Result<Answer, AskError> {
        let (answer, answered) = oneshot::channel();
        match self.asks.try_send((ask, answer)) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(AskError::Mute),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(AskError::Lost),
        }
        match timeout(limit, answered).await {
            Ok(Ok(Answer::Failed { what })) => Err(AskError::Failed { what }),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Lost),
            Err(_) => Err(AskError::Late),
        }
    }
}

/// Carries questions to the other side and answers back.
struct Carrier {
    connection: Connection,
    sender: ControlSender,
    receiver: ControlReceiver,
    asked: mpsc::Receiver<Waiting>,
    open: Mutex<Open>,
}

/// Questions without an answer yet.
#[derive(Default)]
struct Open {
    last: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
}

impl Carrier {
    /// Answers why the connection is over.
    async fn run(self, node: u64, table: &Table) -> String {
        let Carrier {
            connection,
            mut sender,
            mut receiver,
            mut asked,
            open,
        } = self;
        let (clock, mut clocks) = mpsc::channel(1);
        let asking = async {
            loop {
                let (ask, answer) = tokio::select! {
                    Some(waiting) = asked.recv() => waiting,
                    Some(waiting) = clocks.recv() => waiting,
                };
                let Some(id) = open_up(&open).put(answer) else {
                    return format!("{ASKED_MAX} questions have no answer");
                };
                if let Err(error) = sender.send(&Asked { id, ask }).await {
                    return causes(&error);
                }
            }
        };
        let hearing = async {
            loop {
                match receiver.receive::<Answered>().await {
                    Ok(Some(Answered { id, answer })) => {
                        table.heard(node);
                        if let Some(waiting) = open_up(&open).waiting.remove(&id) {
                            // Whoever asked may not wait any more.
                            let _ = waiting.send(answer);
                        }
                    }
                    Ok(None) => return "it said that it is done".to_owned(),
                    Err(error) => return causes(&error),
                }
            }
        };
        let reading = read_clock(node, table, &clock);
        let ended = tokio::select! {
            ended = asking => ended,
            ended = hearing => ended,
            () = reading => "nobody asks any more".to_owned(),
            reason = connection.closed() => return reason.to_string(),
        };
        // Where it is over, why says more than what could not be sent or heard for that reason.
        if let Ok(reason) = timeout(Duration::ZERO, connection.closed()).await {
            return reason.to_string();
        }
        connection.close(&ended);
        ended
    }
}

fn open_up(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().expect("nobody panics while holding it")
}

impl Open {
    /// The number under which the question is asked.
    fn put(&mut self, answer: oneshot::Sender<Answer>) -> Option<u64> {
        if self.waiting.len() >= ASKED_MAX {
            self.waiting.retain(|_, waiting| !waiting.is_closed());
        }
        if self.waiting.len() >= ASKED_MAX {
            return None;
        }
        self.last += 1;
        self.waiting.insert(self.last, answer);
        Some(self.last)
    }
}

/// Asks for the other side's clock again and again.
async fn read_clock(node: u64, table: &Table, asks: &mpsc::Sender<Waiting>) {
    let mut interval = tokio::time::interval(CLOCK_EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let asked = read_now();
        let (answer, answered) = oneshot::channel();
        if asks.send((Ask::Clock, answer)).await.is_err() {
            return;
        }
        if let Ok(Answer::Clock(clock)) = answered.await {
            table.heard_clock(node, asked, *clock);
        }
    }
}
