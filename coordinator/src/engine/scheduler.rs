//! The thread itself: standing by, reigning, and what leads from one to the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use coordinator_core::clock::ClockGate;
use coordinator_core::{ConnId, Effect};
use protocol::message::Nonce;
use protocol::{AgentName, BootMs, DurationMs, Lifetime, Now};

use super::reign::Reign;
use super::{Accession, AskError, HandOver, HandOverError, Inbox, Input, Post, ReignId, Standing};
use crate::clock::read_now;
use crate::committer::{Committed, Committer};
use crate::memory;
use crate::metrics::Metrics;
use crate::narrate;
use crate::quorum::Quorum;
use crate::roster::Roster;

/// Inputs taken in one go: what is concluded from them is concluded once. Few enough that nobody
/// who is to be told something waits for long.
const INPUTS_TAKEN_MAX: usize = 1024;

/// Shortest wait. What is due already and in the ledger's hands stays due until it has landed; to
/// wait for nothing would spin until then.
const WAIT_MIN: DurationMs = DurationMs(1);

/// Longest wait where no core says otherwise: a step of the clock is to be seen.
const WAIT_MAX: DurationMs = DurationMs(100);

/// A disk that has not answered for so long hangs. The slowest that may hold a ledger answer in
/// milliseconds, and in a second when they are in trouble.
const DISK_HANGS: DurationMs = DurationMs::from_secs(3);

/// Nobody took the lead of a coordinator whose disk hangs: it is offered again after this.
const OFFERED_AGAIN: DurationMs = DurationMs::from_secs(30);

/// How often is looked whether a successor has everything.
const SUCCESSOR_LOOK: DurationMs = DurationMs(2);

/// What the thread works with.
pub(crate) struct Scheduler {
    inbox: Inbox,
    committer: Committer,
    quorum: Quorum,
    roster: Arc<Roster>,
    metrics: Arc<Metrics>,
    /// Looks for steps a second time, for the record: the core only obeys.
    gate: ClockGate,
    callers: BTreeMap<ConnId, Caller>,
    reign: Option<Reign>,
    leaving: Option<Leaving>,
    over: ReignId,
    given_away: Option<u64>,
    yielded: Option<BootMs>,
    /// When the lead was last offered to another because the disk of this machine hangs.
    offered: Option<BootMs>,
    /// The committer has a batch, of this reign or of the last.
    committing: bool,
    stopping: bool,
}

/// An agent's connection, as every core is told of it.
struct Caller {
    name: AgentName,
    certificate: Lifetime,
    nonce: Nonce,
}

/// The lead is being given away.
struct Leaving {
    to: u64,
    until: BootMs,
    hand_over: HandOver,
}

impl Scheduler {
    pub(crate) fn new(
        inbox: Inbox,
        committer: Committer,
        quorum: Quorum,
        roster: Arc<Roster>,
        metrics: Arc<Metrics>,
    ) -> Scheduler {
        Scheduler {
            inbox,
            committer,
            quorum,
            roster,
            metrics,
            gate: ClockGate::default(),
            callers: BTreeMap::new(),
            reign: None,
            leaving: None,
            over: ReignId(0),
            given_away: None,
            yielded: None,
            offered: None,
            committing: false,
            stopping: false,
        }
    }

    /// Runs until [`Input::Stop`].
    pub(crate) fn run(mut self) {
        while self.committing || !self.stopping {
            let wait = Duration::from_millis(self.wait(read_now()).0.unsigned_abs());
            match self.inbox.inputs.recv_timeout(wait) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {
                    let now = read_now();
                    self.note_step(now);
                    if let Some(reign) = &mut self.reign {
                        reign.core.handle_tick(now);
                    }
                }
                // Nobody is left who could ask for anything.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.settle();
        }
        // Dropping the reign says to everybody who waits that this coordinator is stopping.
        self.over = self.reign.take().map_or(self.over, |reign| reign.id);
        self.tell();
    }

    fn wait(&self, now: Now) -> DurationMs {
        let wait = match &self.reign {
            Some(reign) => reign.core.poll_timeout(now) - now.boot,
            None => WAIT_MAX,
        };
        match self.leaving {
            Some(_) => wait.min(SUCCESSOR_LOOK),
            None => wait,
        }
        .max(WAIT_MIN)
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
            } => {
                let caller = Caller {
                    name,
                    certificate,
                    nonce,
                };
                if let Some(reign) = &mut self.reign {
                    caller.show(conn, reign, now);
                }
                self.callers.insert(conn, caller);
            }
            Input::Disconnected { conn } => {
                self.callers.remove(&conn);
                if let Some(reign) = &mut self.reign {
                    reign.core.handle_disconnected(conn, now);
                }
            }
            Input::Message {
                conn,
                message,
                room,
            } => {
                // What is said to nobody is forgotten: an agent says it again to the next core.
                if let Some(reign) = &mut self.reign {
                    reign.core.handle_message(conn, message, now);
                    reign.hold(room);
                }
            }
            Input::Committed { reign, committed } => self.land(reign, committed, now),
            Input::NotCommitted { reign, error } => {
                self.committing = false;
                if self.reigns(reign) {
                    self.end_reign(&error.to_string());
                }
            }
            Input::Quorum { reign, round } => {
                let current = self.reign.as_mut().filter(|current| current.id == reign);
                match current {
                    Some(reign) if self.leaving.is_some() => reign.round_kept = Some(round),
                    Some(reign) => reign.core.handle_quorum(round, now),
                    None => {}
                }
            }
            Input::Accede(accession) => self.accede(accession, now),
            Input::Lost { term } => {
                if self.reign.as_ref().is_some_and(|reign| reign.term == term) {
                    self.end_reign("another leads, or nobody does");
                }
            }
            Input::HandOver(hand_over) => self.leave(hand_over, now),
            Input::Clocks(clocks) => {
                if let Some(reign) = &mut self.reign {
                    reign.core.handle_clocks(&clocks, now);
                }
            }
            Input::TimeService(word) => {
                if let Some(reign) = &mut self.reign {
                    reign.core.handle_time_service(word, now);
                }
            }
            Input::Members(seen) => {
                if let Some(reign) = &mut self.reign {
                    reign.core.handle_group(&seen, now);
                }
            }
            // Dropping who waits says that this coordinator is stopping.
            Input::Request { .. } | Input::Question(_) if self.stopping => {}
            Input::Request { asked, waiting } => match &mut self.reign {
                Some(reign) if self.leaving.is_none() => reign.request(asked, waiting, now),
                _ => waiting.tell(Err(AskError::NotLeading)),
            },
            Input::Question(question) => {
                question(self.reign.as_ref().map(|reign| &reign.core), now);
            }
            Input::Stop => self.stopping = true,
        }
    }

    fn reigns(&self, id: ReignId) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.id == id)
    }

    fn land(&mut self, id: ReignId, committed: Vec<Committed>, now: Now) {
        self.committing = false;
        let Some(reign) = self.reign.as_mut().filter(|reign| reign.id == id) else {
            // It stands in the ledger, where the next reign reads it.
            return;
        };
        let set = reign.core.working_set();
        self.metrics.note_committed(set, &committed, now);
        narrate::tell(set, &committed);
        let outcomes = committed
            .into_iter()
            .map(|done| (done.id, done.outcome))
            .collect();
        reign.core.handle_outcomes(outcomes, now);
    }

    fn accede(&mut self, accession: Accession, now: Now) {
        if self.stopping {
            return;
        }
        debug_assert!(self.reign.is_none() && !self.committing);
        tracing::info!(term = accession.term, "this coordinator has the lead");
        let mut reign = Reign::new(accession);
        for (&conn, caller) in &self.callers {
            caller.show(conn, &mut reign, now);
        }
        self.reign = Some(reign);
    }

    /// From here on nothing is said or done in its name.
    fn end_reign(&mut self, why: &str) {
        let Some(reign) = self.reign.take() else {
            return;
        };
        let term = reign.term;
        // As it was asked to.
        if self.given_away == Some(term) {
            tracing::info!(term, why, "this coordinator's reign has ended");
        } else {
            tracing::warn!(term, why, "this coordinator's reign has ended");
        }
        self.over = reign.id;
        reign.end();
        if let Some(leaving) = self.leaving.take() {
            leaving.hand_over.tell(Err(HandOverError::NotLeading));
        }
        memory::give_back();
    }

    /// Begins to give the lead away: nothing new is proposed, and no heartbeat acknowledged, until
    /// the successor has all there is or the time for it is over.
    fn leave(&mut self, hand_over: HandOver, now: Now) {
        match self.successor(&hand_over, now) {
            Ok(to) => {
                tracing::info!(to, "this coordinator gives the lead away");
                self.leaving = Some(Leaving {
                    to,
                    until: now.boot + self.quorum.patience(),
                    hand_over,
                });
            }
            Err(refusal) => hand_over.tell(Err(refusal)),
        }
    }

    /// The others go on committing without this machine's disk, but nothing of it is applied here, and
    /// so nothing happens until somebody else leads.
    fn leave_if_disk_hangs(&mut self) {
        let hangs = self.quorum.disk_hangs();
        if self.reign.is_none() || self.leaving.is_some() || hangs < DISK_HANGS {
            return;
        }
        let now = read_now();
        let rests = |offered| now.boot - offered < OFFERED_AGAIN;
        if self.offered.is_some_and(rests) {
            return;
        }
        self.offered = Some(now.boot);
        let term = self.reign.as_ref().map(|reign| reign.term);
        tracing::error!(
            term,
            hangs = %hangs,
            "the disk of this machine does not answer: nothing happens until it does, or another leads"
        );
        self.leave(HandOver::unasked(None), now);
    }

    fn successor(&self, hand_over: &HandOver, now: Now) -> Result<u64, HandOverError> {
        if self.leaving.is_some() {
            return Err(HandOverError::UnderWay);
        }
        let reign = self.reign.as_ref().ok_or(HandOverError::NotLeading)?;
        let candidates = self.quorum.candidates(hand_over.to);
        let chosen = reign
            .core
            .choose_successor(&candidates, hand_over.afterwards, now)?;
        let to = chosen.node;
        if let Some(amiss) = chosen.amiss {
            tracing::warn!(to, %amiss, "the clock of whoever is to lead is wrong: nothing fires there until it is right");
        }
        Ok(to)
    }

    /// Carries out what the core has decided, and keeps the ledger busy.
    fn settle(&mut self) {
        self.carry_out_all();
        self.leave_if_disk_hangs();
        self.go_on_leaving();
        if let Some(reign) = self.reign.as_mut().filter(|_| self.leaving.is_none()) {
            if reign.since.is_none() && reign.core.epoch().is_some() {
                reign.since = Some(read_now().wall);
            }
            reign.gather();
            if !self.committing
                && !self.stopping
                && let Some(batch) = reign.next_batch()
            {
                self.committing = true;
                self.committer.commit(reign.id, reign.term, batch);
            }
            reign.release();
        }
        self.tell();
    }

    fn tell(&self) {
        let post = Post {
            standing: self.standing(),
            over: self.over,
            given_away: self.given_away,
            yielded: self.yielded,
        };
        self.inbox
            .post
            .send_if_modified(|known| std::mem::replace(known, post) != post);
    }

    fn standing(&self) -> Standing {
        match &self.reign {
            None => Standing::Standby {
                idle: !self.committing,
            },
            Some(_) if self.leaving.is_some() => Standing::Leaving,
            Some(reign) => match (reign.core.epoch(), reign.since) {
                (Some(epoch), Some(since)) => Standing::Reigning {
                    term: reign.term,
                    epoch,
                    since,
                },
                _ => Standing::Beginning,
            },
        }
    }

    /// Once the last batch is back and the successor has it, the reign ends and the lead is given
    /// away: nothing can be proposed any more under a term whose leader has told another to lead.
    ///
    /// A batch that waits for a disk that hangs is not waited for. What becomes of it is the same as
    /// with a leader that dies: whoever has it in its log commits it.
    fn go_on_leaving(&mut self) {
        let Some(leaving) = &self.leaving else {
            return;
        };
        let batch_is_back = !self.committing || self.quorum.disk_hangs() >= DISK_HANGS;
        if batch_is_back && self.quorum.has_everything(leaving.to) {
            let Some(leaving) = self.leaving.take() else {
                return;
            };
            self.given_away = self.reign.as_ref().map(|reign| reign.term);
            self.end_reign("the lead is given to another");
            self.quorum.transfer(leaving.to, leaving.hand_over);
        } else if read_now().boot >= leaving.until {
            self.stay();
        }
    }

    /// Goes on as before: the successor has not caught up, or the batch has not come back. Where the
    /// others are gone it never does, and whoever asked must not wait for that.
    fn stay(&mut self) {
        let Some(leaving) = self.leaving.take() else {
            return;
        };
        let to = leaving.to;
        tracing::warn!(to, "the successor is behind; this coordinator leads on");
        leaving.hand_over.tell(Err(HandOverError::Behind { to }));
        if let Some(reign) = &mut self.reign
            && let Some(round) = reign.round_kept.take()
        {
            self.quorum.begin_round(reign.id, reign.term, round);
        }
    }

    fn carry_out_all(&mut self) {
        while let Some(effect) = self
            .reign
            .as_mut()
            .and_then(|reign| reign.core.poll_effect())
        {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let Some(reign) = &mut self.reign else {
            return;
        };
        match effect {
            Effect::Send { conn, message } => self.roster.send(conn, message),
            Effect::Close { conn, reason } => self.roster.close(conn, reason),
            Effect::Reply { request, answer } => {
                reign.answer(request, answer.map_err(AskError::from));
            }
            Effect::ConfirmQuorum { round } if self.leaving.is_some() => {
                reign.round_kept = Some(round);
            }
            Effect::ConfirmQuorum { round } => {
                self.quorum.begin_round(reign.id, reign.term, round);
            }
            Effect::HandOver { to } => {
                let now = read_now();
                let term = reign.term;
                tracing::warn!(
                    to,
                    term,
                    "the clock of this machine is not believed, and another coordinator's is: it is to lead"
                );
                self.yielded = Some(now.boot);
                self.leave(HandOver::unasked(Some(to)), now);
            }
            Effect::StepDown => self.end_reign("the ledger knows another's"),
        }
    }
}

impl Caller {
    fn show(&self, conn: ConnId, reign: &mut Reign, now: Now) {
        let name = self.name.clone();
        let (certificate, nonce) = (self.certificate, self.nonce);
        reign
            .core
            .handle_connected(conn, name, certificate, nonce, now);
    }
}
