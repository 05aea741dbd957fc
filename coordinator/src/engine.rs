//! The thread that owns the scheduler's core.
//!
//! Everything that happens becomes an [`Input`] in one queue; the thread takes one after the other,
//! hands it to the core with both clocks as they are at that moment, and carries out what the
//! core asks for. It never waits for anything but the next input: the ledger commits on a thread
//! of its own, and what is said to an agent goes into a queue that is bounded and never blocks.
//!
//! The queue itself has no bound, its sources have: each connection may have a few messages in
//! it, people's requests are counted, and of the ledger's batches one is under way at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use coordinator_core::clock::ClockGate;
use coordinator_core::{Asked, ConnId, Core, Effect, ProposalId, RequestError, RequestId};
use ledger::{Done, Proposal};
use protocol::message::{AgentMessage, Nonce};
use protocol::{AgentName, DurationMs, Epoch, Lifetime, Now};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::clock::read_now;
use crate::committer::{BATCH_MAX, Committed, Committer};
use crate::exit::{self, DEPOSED};
use crate::metrics::Metrics;
use crate::narrate;
use crate::roster::Roster;

/// Requests of people under way at a time; one more is told to come again.
const REQUESTS_MAX: usize = 256;

/// How long a request may wait for its commit.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// How long a question may wait for the core.
const QUESTION_LIMIT: Duration = Duration::from_secs(2);

/// Inputs taken in one go: what is concluded from them is concluded once. Few enough that nobody
/// who is to be told something waits for long.
const INPUTS_TAKEN_MAX: usize = 1024;

/// Shortest wait. What is due already and in the ledger's hands stays due until it has landed; to
/// wait for nothing would spin until then.
const WAIT_MIN: DurationMs = DurationMs(1);

type Answer = Result<Done, RequestError>;
type Question = Box<dyn FnOnce(&Core, Now) + Send>;

/// Something that happened.
pub(crate) enum Input {
    Connected {
        conn: ConnId,
        name: AgentName,
        certificate: Lifetime,
        nonce: Nonce,
    },
    Message {
        conn: ConnId,
        message: AgentMessage,
        /// Given back when the message has been handled.
        room: OwnedSemaphorePermit,
    },
    Disconnected {
        conn: ConnId,
    },
    Committed(Vec<Committed>),
    Quorum {
        round: u64,
    },
    Request {
        asked: Asked,
        waiting: Waiting,
    },
    Question(Question),
    /// Begin nothing new; end when what is in the ledger's hands has come back.
    Stop,
}

/// Somebody who waits for an answer, and the room they take up until they have it.
pub(crate) struct Waiting {
    answer: oneshot::Sender<Answer>,
    _room: OwnedSemaphorePermit,
}

/// Hands inputs to the thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    inputs: mpsc::Sender<Input>,
    requests: Arc<Semaphore>,
    reign: watch::Receiver<Option<Epoch>>,
}

/// Why there is no answer from the core.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Refused(#[from] RequestError),
    #[error("{REQUESTS_MAX} requests are under way already")]
    Busy,
    #[error("this coordinator is stopping")]
    Stopping,
    #[error(
        "it was not committed within {} s; it may still be carried out",
        REQUEST_LIMIT.as_secs()
    )]
    NotYet,
    #[error("the scheduler did not answer within {} s", QUESTION_LIMIT.as_secs())]
    Silent,
}

impl Engine {
    /// Hands over an input. After the end nobody is there to hear it, and that is no error: the
    /// connections that speak are being closed.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.inputs.send(input);
    }

    /// Carries out what a person asks; answers when it is committed or refused.
    pub(crate) async fn request(&self, asked: impl Into<Asked>) -> Result<Done, AskError> {
        let requests = Arc::clone(&self.requests);
        let room = requests.try_acquire_owned().map_err(|_| AskError::Busy)?;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            answer,
            _room: room,
        };
        self.send(Input::Request {
            asked: asked.into(),
            waiting,
        });
        match tokio::time::timeout(REQUEST_LIMIT, answered).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(AskError::Stopping),
            Err(_) => Err(AskError::NotYet),
        }
    }

    /// Asks the core something that changes nothing. Keep it short: the scheduler waits.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core, Now) -> T + Send + 'static,
    ) -> Result<T, AskError> {
        let (answer, answered) = oneshot::channel();
        self.send(Input::Question(Box::new(move |core, now| {
            // Whoever asked may have gone.
            let _ = answer.send(question(core, now));
        })));
        match tokio::time::timeout(QUESTION_LIMIT, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Stopping),
            Err(_) => Err(AskError::Silent),
        }
    }

    /// Waits until this coordinator leads; `false` where its thread ended first.
    pub(crate) async fn leads(&self) -> bool {
        self.reign.clone().wait_for(Option::is_some).await.is_ok()
    }
}

/// The two ends of the queue, before the thread is there.
pub(crate) struct Inbox {
    inputs: mpsc::Receiver<Input>,
    own: mpsc::Sender<Input>,
    reign: watch::Sender<Option<Epoch>>,
}

pub(crate) fn channel() -> (Engine, Inbox) {
    let (sender, inputs) = mpsc::channel();
    let (reign, reign_seen) = watch::channel(None);
    let engine = Engine {
        inputs: sender.clone(),
        requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        reign: reign_seen,
    };
    let inbox = Inbox {
        inputs,
        own: sender,
        reign,
    };
    (engine, inbox)
}

/// What the thread works with.
pub(crate) struct Scheduler {
    core: Core,
    inbox: Inbox,
    committer: Committer,
    roster: Arc<Roster>,
    metrics: Arc<Metrics>,
    /// Looks for steps a second time, for the record: the core only obeys.
    gate: ClockGate,
    proposals: VecDeque<(ProposalId, Proposal)>,
    committing: bool,
    /// Room of messages whose commands do not fit the next batch: who sends faster than the disk
    /// writes waits with them.
    held: Vec<OwnedSemaphorePermit>,
    answers: BTreeMap<RequestId, Waiting>,
    next_request: u64,
    stopping: bool,
}

impl Scheduler {
    pub(crate) fn new(
        core: Core,
        inbox: Inbox,
        committer: Committer,
        roster: Arc<Roster>,
        metrics: Arc<Metrics>,
    ) -> Scheduler {
        Scheduler {
            core,
            inbox,
            committer,
            roster,
            metrics,
            gate: ClockGate::default(),
            proposals: VecDeque::new(),
            committing: false,
            held: Vec::new(),
            answers: BTreeMap::new(),
            next_request: 0,
            stopping: false,
        }
    }

    /// Runs until [`Input::Stop`].
    pub(crate) fn run(mut self) {
        self.settle();
        while self.committing || !self.stopping {
            let now = read_now();
            let wait = (self.core.poll_timeout(now) - now.boot).0.max(WAIT_MIN.0);
            let wait = Duration::from_millis(wait.unsigned_abs());
            match self.inbox.inputs.recv_timeout(wait) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {
                    let now = read_now();
                    self.note_step(now);
                    self.core.handle_tick(now);
                }
                // This thread holds a sender itself.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.settle();
        }
    }

    /// Takes an input and those that have come up behind it, each at its own time: nothing may
    /// seem to have arrived before it was sent.
    fn take(&mut self, first: Input) {
        let mut next = Some(first);
        let mut left = INPUTS_TAKEN_MAX;
        while let Some(input) = next {
            let now = read_now();
            self.note_step(now);
            self.handle(input, now);
            left -= 1;
            next = if left > 0 {
                self.inbox.inputs.try_recv().ok()
            } else {
                None
            };
        }
    }

    fn note_step(&mut self, now: Now) {
        if let Some(step) = self.gate.observe(now) {
            self.metrics.note_clock_step();
            tracing::warn!(
                step = %step,
                wall = %now.wall,
                "the wall clock was stepped; nothing fires until it has stood still for a minute"
            );
        }
    }

    fn handle(&mut self, input: Input, now: Now) {
        match input {
            Input::Connected {
                conn,
                name,
                certificate,
                nonce,
            } => self
                .core
                .handle_connected(conn, name, certificate, nonce, now),
            Input::Message {
                conn,
                message,
                room,
            } => {
                self.core.handle_message(conn, message, now);
                self.held.push(room);
            }
            Input::Disconnected { conn } => self.core.handle_disconnected(conn, now),
            Input::Committed(committed) => {
                self.committing = false;
                let set = self.core.working_set();
                self.metrics.note_committed(set, &committed, now);
                narrate::tell(set, &committed);
                let outcomes = committed
                    .into_iter()
                    .map(|done| (done.id, done.outcome))
                    .collect();
                self.core.handle_outcomes(outcomes, now);
            }
            Input::Quorum { round } => self.core.handle_quorum(round, now),
            // Dropping who waits says that this coordinator is stopping.
            Input::Request { .. } if self.stopping => {}
            Input::Request { asked, waiting } => {
                let id = RequestId(self.next_request);
                self.next_request += 1;
                self.answers.insert(id, waiting);
                self.core.handle_request(id, asked, now);
            }
            Input::Question(question) => question(&self.core, now),
            Input::Stop => self.stopping = true,
        }
    }

    /// Carries out what the core has decided, and keeps the ledger busy.
    fn settle(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            self.carry_out(effect);
        }
        while let Some(proposal) = self.core.poll_proposal() {
            self.proposals.push_back(proposal);
        }
        if !self.committing && !self.stopping && !self.proposals.is_empty() {
            let size = self.proposals.len().min(BATCH_MAX);
            self.committing = true;
            self.committer
                .commit(self.proposals.drain(..size).collect());
        }
        if self.proposals.len() < BATCH_MAX {
            self.held.clear();
        }
        let epoch = self.core.epoch();
        self.inbox.reign.send_if_modified(|known| {
            let changed = *known != epoch;
            *known = epoch;
            changed
        });
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send { conn, message } => self.roster.send(conn, message),
            Effect::Close { conn, reason } => self.roster.close(conn, reason),
            Effect::Reply { request, answer } => {
                if let Some(waiting) = self.answers.remove(&request) {
                    // Whoever asked may have given up.
                    let _ = waiting.answer.send(answer);
                }
            }
            Effect::ConfirmQuorum { round } => {
                // The one voter is this process, and it is alive. The answer takes its turn behind
                // every heartbeat that has arrived by now.
                let _ = self.inbox.own.send(Input::Quorum { round });
            }
            Effect::StepDown => exit::now(
                DEPOSED,
                "another process leads on this ledger; this one must not speak any more",
                None,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use coordinator_core::clock::Thresholds;
    use coordinator_core::{Config, Request};
    use jobs::parse_manifests;
    use ledger::Store;
    use protocol::message::Incarnation;
    use protocol::{JobName, Rules, WallMs};

    use super::*;
    use crate::committer;
    use crate::consensus::{Begin, GroupOptions};
    use crate::member::Member;

    /// A scheduler on a group of one, without any agent.
    fn start(directory: &Path) -> (Engine, [thread::JoinHandle<()>; 2]) {
        let options = GroupOptions::in_directory(directory, 1, Begin::Alone);
        let member = run(Member::start(options)).unwrap();
        run(member.lead()).unwrap();
        let set = run(member.group().look(Store::working_set))
            .unwrap()
            .unwrap();
        let config = Config {
            node: "c1".to_owned(),
            incarnation: Incarnation(1),
            boot_id: "boot".to_owned(),
            last_clock: None,
            certificate: Lifetime {
                from: WallMs(0),
                until: WallMs(i64::MAX),
            },
            clock: Thresholds::default(),
        };
        let core = Core::new(config, set, read_now(), Rules::all());
        let (engine, inbox) = channel();
        let metrics = Arc::new(Metrics::default());
        let (committer, write) =
            committer::prepare(member.proposer(), engine.clone(), Arc::clone(&metrics));
        let roster = Arc::new(Roster::default());
        let scheduler = Scheduler::new(core, inbox, committer, roster, metrics);
        let write = move || {
            write();
            run(member.stop());
        };
        let threads = [thread::spawn(write), thread::spawn(move || scheduler.run())];
        (engine, threads)
    }

    fn put(name: &str) -> Request {
        let yaml = format!(
            "name: {name}
purpose: To be put.
owner: tester
repeatable: {{ safe: false }}
schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}
misfire: {{ policy: skip }}
overlap: forbid
expected_duration: 1s
timeout: 1m
run: {{ exec: [\"/bin/true\"] }}"
        );
        Request::PutJob {
            manifest: Arc::new(parse_manifests("m", &yaml).unwrap().remove(0)),
            expected: None,
            by: "tester".to_owned(),
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_request_is_answered_when_it_is_committed_and_none_after_the_stop() {
        let directory = tempfile::tempdir().unwrap();
        let (engine, threads) = start(directory.path());
        run(async {
            assert!(engine.leads().await);
            let done = engine.request(put("t/a")).await.unwrap();
            assert!(matches!(done, Done::JobPut { version: 1, .. }), "{done:?}");
            let jobs = engine.ask(|core, _| core.working_set().jobs.len()).await;
            assert_eq!(jobs.unwrap(), 1);
            let none = Request::DeleteJob {
                job: "t/none".parse::<JobName>().unwrap(),
                by: "tester".to_owned(),
            };
            let refused = engine.request(none).await;
            assert!(
                matches!(refused, Err(AskError::Refused(RequestError::NoSuchJob(_)))),
                "{refused:?}"
            );
            engine.send(Input::Stop);
            let late = engine.request(put("t/b")).await;
            assert!(matches!(late, Err(AskError::Stopping)), "{late:?}");
            let late = engine.ask(|_, _| ()).await;
            assert!(matches!(late, Err(AskError::Stopping)), "{late:?}");
        });
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn so_many_requests_at_a_time() {
        let (engine, inbox) = channel();
        run(async {
            let waiting: Vec<_> = (0..REQUESTS_MAX)
                .map(|_| {
                    let engine = engine.clone();
                    tokio::spawn(async move { engine.request(put("t/a")).await })
                })
                .collect();
            while engine.requests.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            let one_more = engine.request(put("t/a")).await;
            assert!(matches!(one_more, Err(AskError::Busy)), "{one_more:?}");
            // Nobody serves the queue; its end answers everybody.
            drop(inbox);
            for asked in waiting {
                let answer = asked.await.unwrap();
                assert!(matches!(answer, Err(AskError::Stopping)), "{answer:?}");
            }
            let after = engine.request(put("t/a")).await;
            assert!(matches!(after, Err(AskError::Stopping)), "{after:?}");
        });
    }
}
