//! The thread that owns the scheduler's core, while there is one.
//!
//! Everything that happens becomes an [`Input`] in one queue; the thread takes one after the other,
//! hands it to the core with both clocks as they are at that moment, and carries out what the
//! core asks for. It never waits for anything but the next input: the ledger commits on a thread
//! of its own, and what is said to an agent goes into a queue that is bounded and never blocks.
//!
//! The queue itself has no bound, its sources have: each connection may have a few messages in
//! it, people's requests are counted, and of the ledger's batches one is under way at a time.
//!
//! **The thread outlives reigns.** It stands by without a core until this node has the lead and a
//! core has been made for it ([`crate::lead`]); it reigns with that core until the lead is lost or
//! given away, drops it whole, and stands by again. What answers something carries the number
//! of its reign, so that nothing of an old one reaches a new core. Connections of agents are kept
//! all the while, and shown to every new core.

mod reign;
mod scheduler;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use coordinator_core::clock::members::MemberClock;
use coordinator_core::clock::service::ServiceWord;
use coordinator_core::{Afterwards, Asked, ConnId, Core, NoSuccessor, RequestError, SeenMember};
use ledger::Done;
use protocol::message::{AgentMessage, Nonce};
use protocol::{AgentName, BootMs, Epoch, Lifetime, Now, WallMs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::committer::Committed;
use crate::consensus::ProposeError;

pub(crate) use scheduler::Scheduler;

/// Requests of people under way at a time; one more is told to come again.
const REQUESTS_MAX: usize = 256;

/// How long a request may wait for its commit.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// How long a question may wait for the core.
const QUESTION_LIMIT: Duration = Duration::from_secs(2);

type Answer = Result<Done, AskError>;
/// Asked without a core where this coordinator stands by.
type Question = Box<dyn FnOnce(Option<&Core>, Now) + Send>;

/// One of the reigns of this process, counted from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReignId(pub(crate) u64);

/// A core made from the state as this node found it when it had the lead.
pub(crate) struct Accession {
    pub(crate) reign: ReignId,
    /// In which this node leads; the reign ends with it.
    pub(crate) term: u64,
    pub(crate) core: Box<Core>,
}

/// How the thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// `idle`: nothing that an earlier reign proposed is on its way any more.
    Standby { idle: bool },
    /// It has a core, and its `BecomeActive` is on its way.
    Beginning,
    /// It acts.
    Reigning {
        term: u64,
        epoch: Epoch,
        since: WallMs,
    },
    /// It proposes nothing more, and gives the lead away as soon as another has everything.
    Leaving,
}

/// What everybody may know of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) standing: Standing,
    /// The last reign that has ended; 0 before the first.
    pub(crate) over: ReignId,
    /// The last term whose lead was given to another. Nothing can be proposed in it any more, and
    /// what was proposed meanwhile would keep the successor from leading.
    pub(crate) given_away: Option<u64>,
    /// When the lead was last to be given away for this machine's clock.
    pub(crate) yielded: Option<BootMs>,
}

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
    Committed {
        reign: ReignId,
        committed: Vec<Committed>,
    },
    /// Of a batch there are no outcomes.
    NotCommitted {
        reign: ReignId,
        error: ProposeError,
    },
    Quorum {
        reign: ReignId,
        round: u64,
    },
    Accede(Accession),
    /// This node leads no longer in this term.
    Lost {
        term: u64,
    },
    HandOver(HandOver),
    /// How the clocks of the other members stand.
    Clocks(Vec<MemberClock>),
    /// What this machine's own time service says of its clock.
    TimeService(ServiceWord),
    /// How the members of the group were found.
    Members(Vec<SeenMember>),
    Request {
        asked: Asked,
        waiting: Waiting,
    },
    Question(Question),
    /// Begin nothing new; end when what is in the ledger's hands has come back.
    Stop,
}

/// Somebody asks that the lead be given to another.
pub(crate) struct HandOver {
    /// To whom, where that is said.
    pub(crate) to: Option<u64>,
    afterwards: Afterwards,
    answer: oneshot::Sender<Result<u64, HandOverError>>,
}

/// Why the lead was not given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandOverError {
    #[error("this coordinator does not lead")]
    NotLeading,
    #[error(transparent)]
    NoSuccessor(#[from] NoSuccessor),
    #[error("node {to} did not catch up in time; this coordinator leads on")]
    Behind { to: u64 },
    #[error("node {to} was told to lead, and does not yet")]
    NotTaken { to: u64 },
    #[error("another hand-over is under way")]
    UnderWay,
    #[error("this coordinator is stopping")]
    Stopping,
}

/// Somebody who waits for an answer, and the room they take up until they have it.
pub(crate) struct Waiting {
    answer: oneshot::Sender<Answer>,
    _room: OwnedSemaphorePermit,
}

impl HandOver {
    /// To this node, or to whoever is fit, and nobody waits to hear what becomes of it.
    fn unasked(to: Option<u64>) -> HandOver {
        let (answer, _) = oneshot::channel();
        HandOver {
            to,
            afterwards: Afterwards::Stays,
            answer,
        }
    }

    pub(crate) fn tell(self, became: Result<u64, HandOverError>) {
        // Whoever asked may have gone.
        let _ = self.answer.send(became);
    }
}

impl Waiting {
    fn tell(self, answer: Answer) {
        // Whoever asked may have given up.
        let _ = self.answer.send(answer);
    }
}

/// Hands inputs to the thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    inputs: mpsc::Sender<Input>,
    requests: Arc<Semaphore>,
    post: watch::Receiver<Post>,
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
    #[error("this coordinator does not lead")]
    NotLeading,
    #[error("this coordinator lost the lead before it knew what became of it; it may be done")]
    Lost,
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
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(AskError::Stopping),
            Err(_) => Err(AskError::NotYet),
        }
    }

    /// Asks the core something that changes nothing. Keep it short: the scheduler waits.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core, Now) -> T + Send + 'static,
    ) -> Result<T, AskError> {
        let asked = self.ask_either(|core, now| core.map(|core| question(core, now)));
        asked.await?.ok_or(AskError::NotLeading)
    }

    /// As [`Engine::ask`], where it is answered without a core too.
    pub(crate) async fn ask_either<T: Send + 'static>(
        &self,
        question: impl FnOnce(Option<&Core>, Now) -> T + Send + 'static,
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

    /// Gives the lead to another, if there is one who could have it; answers to whom.
    pub(crate) async fn hand_over(
        &self,
        to: Option<u64>,
        afterwards: Afterwards,
    ) -> Result<u64, HandOverError> {
        let (answer, answered) = oneshot::channel();
        self.send(Input::HandOver(HandOver {
            to,
            afterwards,
            answer,
        }));
        answered.await.unwrap_or(Err(HandOverError::Stopping))
    }

    /// How the thread stands, and every change of it, though some may be passed over.
    pub(crate) fn post(&self) -> watch::Receiver<Post> {
        self.post.clone()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.post.borrow().standing
    }
}

/// The two ends of the queue, before the thread is there.
pub(crate) struct Inbox {
    inputs: mpsc::Receiver<Input>,
    post: watch::Sender<Post>,
}

pub(crate) fn channel() -> (Engine, Inbox) {
    let (sender, inputs) = mpsc::channel();
    let (post, seen) = watch::channel(Post {
        standing: Standing::Standby { idle: true },
        over: ReignId(0),
        given_away: None,
        yielded: None,
    });
    let engine = Engine {
        inputs: sender,
        requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        post: seen,
    };
    (engine, Inbox { inputs, post })
}

#[cfg(test)]
mod tests;
