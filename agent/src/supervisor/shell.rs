//! The one loop of a supervisor: what happened goes into the core, what it decides is carried out.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use agent_core::Supervisor;
use agent_core::supervisor::{self, Action, SpawnError, Tree};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use protocol::supervisor::{Launch, Request, SpawnFault};
use protocol::{BootMs, DurationMs, Token};

use super::cgroups::{Account, Cgroups};
use super::launching::{Launcher, Outcome, Work};
use super::log_writer::LogWriter;
use super::place::{Door, Place};
use super::removal::Removal;
use super::socket::{self, Line};
use super::trees::Trees;
use super::{Error, kernel, sys};
use crate::chain::chain;
use crate::clock::{self, BootTimer};

/// After a failed accept (no descriptors left) the next is tried this much later.
const ACCEPT_PAUSE: DurationMs = DurationMs(200);

/// How often it is looked whether agents can still find this supervisor, and whether cgroups that
/// would not go do so now.
pub(super) const LOOK_AROUND: DurationMs = DurationMs(5_000);

/// How often memory is looked at where the kernel keeps no peak.
const MEMORY_LOOK: DurationMs = DurationMs(1_000);

/// How long an attempt must have taken for its IO and its stalls to be asked for.
const WORTH_A_WHOLE_ACCOUNT: DurationMs = DurationMs(100);

/// How long a stopping supervisor waits for the agent to take its last words, and for its
/// attempts' directories to go.
const LAST_WORDS_MS: u16 = 1_000;

/// See the text of the module above.
pub(super) struct Shell {
    pub(super) core: Supervisor,
    pub(super) trees: Trees,
    pub(super) log_writer: LogWriter,
    pub(super) cgroups: Cgroups,
    pub(super) launcher: Launcher,
    pub(super) removal: Removal,
    pub(super) place: Place,
    pub(super) door: Door,
    /// `None` where another supervisor has taken the place.
    pub(super) look_around: Option<BootMs>,
    /// When memory is looked at next; `None` where the kernel keeps its peak, or nothing runs.
    pub(super) memory_look: Option<BootMs>,
    pub(super) signals: SignalFd,
    pub(super) timer: BootTimer,
    pub(super) accept_after: Option<BootMs>,
    pub(super) line: Option<Line>,
    pub(super) done: bool,
}

/// What is ready.
#[derive(Default)]
struct Ready {
    signals: bool,
    connection: bool,
    readable: bool,
    /// Attempts whose process has something to say before it begins.
    reports: Vec<Token>,
}

impl Shell {
    pub(super) fn run(&mut self) -> Result<(), Error> {
        while !self.done {
            let ready = self.wait()?;
            // Signals are taken before children are looked for: one that ends after the look
            // has its signal still to come. The other way round its end could be overlooked.
            let told_to_stop = ready.signals && self.take_signals()?;
            self.reap();
            for token in &ready.reports {
                self.hear(*token);
            }
            self.trees.sightings.hear(clock::now().boot);
            if told_to_stop {
                self.stop();
            }
            // Asked again before every read: an agent may have come since this loop woke.
            let replaced = (ready.connection || ready.readable) && self.accept();
            if ready.readable && !replaced {
                self.read();
            }
            self.hear_log_writer();
            self.core.handle_tick(clock::now());
            self.obey();
            self.tend_log_writer();
            self.flush();
            self.send_out_helpers();
            self.look_around();
            self.look_at_memory();
        }
        self.say_last_words();
        self.wait_for_removal();
        self.cgroups.leave();
        Ok(())
    }

    /// Sleeps until something is ready or the core wants its tick.
    fn wait(&mut self) -> Result<Ready, Error> {
        let now = clock::now().boot;
        if self.accept_after.is_some_and(|at| at <= now) {
            self.accept_after = None;
        }
        let wake_at = self
            .core
            .poll_timeout()
            .into_iter()
            .chain(self.accept_after)
            .chain(self.trees.sightings.poll_timeout())
            .chain(self.log_writer.poll_timeout())
            .chain(self.look_around)
            .chain(self.memory_look);
        self.timer.set(wake_at.min()).map_err(kernel("a timer"))?;
        let wanted = |line: &Line| {
            let mut wanted = PollFlags::POLLIN;
            wanted.set(PollFlags::POLLOUT, line.has_unsent());
            wanted
        };
        let accepting = if self.accept_after.is_none() {
            PollFlags::POLLIN
        } else {
            PollFlags::empty()
        };
        let mut polled = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.timer.fd.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.door.listener.as_fd(), accepting),
        ];
        let line = self.line.as_ref().map(|line| {
            polled.push(PollFd::new(line.stream.as_fd(), wanted(line)));
            polled.len() - 1
        });
        if let Some(sightings) = self.trees.sightings.fd() {
            polled.push(PollFd::new(sightings, PollFlags::POLLIN));
        }
        if let Some((socket, wanted)) = self.log_writer.wanted() {
            polled.push(PollFd::new(socket, wanted));
        }
        let mut reporting = Vec::new();
        for (token, fd) in self.launcher.reports() {
            reporting.push((polled.len(), token));
            polled.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => return Ok(Ready::default()),
            Err(errno) => return Err(kernel("what is ready")(errno)),
        }
        let is = |index: usize, flags: PollFlags| {
            let got = polled.get(index).and_then(PollFd::revents);
            got.is_some_and(|got| got.intersects(flags))
        };
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        Ok(Ready {
            signals: is(0, PollFlags::POLLIN),
            connection: is(2, PollFlags::POLLIN),
            readable: line.is_some_and(|index| is(index, PollFlags::POLLIN | gone)),
            reports: reporting
                .into_iter()
                .filter(|(index, _)| is(*index, PollFlags::POLLIN | gone))
                .map(|(_, token)| token)
                .collect(),
        })
    }

    /// Takes every signal that waits; whether one of them says to stop.
    fn take_signals(&mut self) -> Result<bool, Error> {
        let mut told_to_stop = false;
        while let Some(signal) = self.signals.read_signal().map_err(kernel("its signals"))? {
            let number = signal.ssi_signo.cast_signed();
            told_to_stop |= number == Signal::SIGTERM as i32 || number == Signal::SIGINT as i32;
        }
        Ok(told_to_stop)
    }

    /// Children that do what may take long, and are none of any attempt's.
    fn send_out_helpers(&mut self) {
        let sent = [self.removal.work(), self.trees.sightings.ask()];
        for pid in sent.into_iter().flatten() {
            self.trees.insert_own(pid);
        }
    }

    /// Sees to it, now and then, that agents find this supervisor where they look for it.
    fn look_around(&mut self) {
        let now = clock::now().boot;
        if self.look_around.is_none_or(|at| at > now) {
            return;
        }
        self.look_around = Some(now + LOOK_AROUND);
        self.cgroups.remove_lingering();
        if self.door.can_be_found() {
            return;
        }
        match self.take_place_again() {
            Ok(()) => {
                tracing::warn!("the supervisor's directory or socket was gone and is made again");
            }
            Err(Error::AlreadyRunning { directory, .. }) => {
                tracing::error!(
                    directory = %directory.display(),
                    "another supervisor has taken the directory; this one stops"
                );
                self.look_around = None;
                self.stop();
            }
            Err(error) => {
                let error = chain(&error);
                tracing::error!(error, "no agent can find this supervisor");
            }
        }
    }

    /// Where the kernel keeps no peak: of what runs, once a second.
    fn look_at_memory(&mut self) {
        let now = clock::now().boot;
        if self.memory_look.is_none_or(|at| at > now) {
            return;
        }
        self.cgroups.look_at_memory(self.trees.running());
        let runs = self.trees.running().next().is_some();
        self.memory_look = runs.then_some(now + MEMORY_LOOK);
    }

    fn take_place_again(&mut self) -> Result<(), Error> {
        if self.place.is_held() {
            // The socket alone is gone.
            self.door = self.place.open_door()?;
            return Ok(());
        }
        let place = Place::take(self.place.directory())?;
        let door = place.open_door()?;
        self.removal
            .make_heap()
            .map_err(|source| Error::Directory {
                path: place.directory().to_owned(),
                source,
            })?;
        (self.place, self.door) = (place, door);
        self.cgroups.note_places_in(self.place.directory());
        Ok(())
    }

    fn stop(&mut self) {
        tracing::info!(running = self.core.alive(), "the supervisor is stopping");
        self.removal.end();
        self.core.handle_stop(clock::now());
        self.obey();
    }

    /// Reaps whatever has ended: main processes, and orphans that have become our children.
    fn reap(&mut self) {
        loop {
            match sys::reap() {
                Ok(Some(ended)) => {
                    self.removal.reaped(ended.pid);
                    if self.log_writer.is(ended.pid) {
                        // Its last words are still to be read.
                        self.hear_log_writer();
                        self.log_writer.handle_death(clock::now().boot);
                    }
                    let Some(token) = self.trees.reaped(ended.pid) else {
                        continue;
                    };
                    // Whether it had begun is known now at the latest.
                    if let Some(outcome) = self.launcher.reaped(token, clock::now().boot) {
                        self.tell_outcome(token, outcome);
                    }
                    self.core
                        .handle_main_exited(token, ended.exit, ended.usage, clock::now());
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "children cannot be reaped");
                    return;
                }
            }
        }
    }

    fn hear(&mut self, token: Token) {
        if let Some(outcome) = self.launcher.hear(token, clock::now().boot) {
            self.tell_outcome(token, outcome);
        }
    }

    fn tell_outcome(&mut self, token: Token, outcome: Outcome) {
        match &outcome {
            // What goes well is the ledger's to tell of; a busy host would drown in it.
            Ok(not_enforced) if not_enforced.is_empty() => {
                tracing::debug!(%token, "an attempt was started");
            }
            Ok(not_enforced) => {
                tracing::info!(%token, ?not_enforced, "an attempt was started without its limits");
            }
            Err(SpawnError { fault, why }) => {
                tracing::warn!(%token, ?fault, why, "an attempt could not be started");
            }
        }
        self.core.handle_spawned(token, outcome, clock::now());
    }

    fn hear_log_writer(&mut self) {
        for token in self.log_writer.read() {
            self.core.handle_output_drained(token);
        }
    }

    /// Replaces a log writer that is dead, and sends what waits for it.
    fn tend_log_writer(&mut self) {
        if let Some(pid) = self.log_writer.handle_tick(clock::now().boot) {
            self.trees.insert_own(pid);
        }
        self.log_writer.flush();
    }

    /// Takes the next agent that waits; whether there was one.
    fn accept(&mut self) -> bool {
        let accepted = self
            .door
            .listener
            .accept()
            .and_then(|(stream, _)| Line::new(stream));
        match accepted {
            Ok(line) => {
                if self.line.replace(line).is_some() {
                    tracing::debug!("a new connection takes the place of the agent's");
                }
                self.core.handle_disconnected(clock::now());
                self.obey();
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::error!(%error, "an agent's connection cannot be accepted");
                self.accept_after = Some(clock::now().boot + ACCEPT_PAUSE);
            }
        }
        false
    }

    fn read(&mut self) {
        let Some(line) = &mut self.line else {
            return;
        };
        let (requests, result) = line.read();
        for request in requests {
            self.handle_request(request);
        }
        self.obey();
        if let Err(error) = result {
            self.cut(&error);
        }
    }

    fn handle_request(&mut self, request: Request) {
        let greeted = match &mut self.line {
            Some(line) => std::mem::replace(&mut line.greeted, true),
            None => return,
        };
        let now = clock::now();
        match (greeted, request) {
            (false, Request::Hello) => self.core.handle_connected(now),
            (false, _) => {
                tracing::error!("an agent did not begin with hello");
                self.line = None;
            }
            (true, request) => self.core.handle_request(request, now),
        }
    }

    fn cut(&mut self, error: &socket::LineError) {
        match error {
            socket::LineError::Closed => tracing::info!("the agent is gone; deadlines stand"),
            error => tracing::warn!(%error, "the agent's line is cut; deadlines stand"),
        }
        self.line = None;
        self.core.handle_disconnected(clock::now());
        self.obey();
    }

    fn flush(&mut self) {
        if let Some(line) = &mut self.line
            && let Err(error) = line.flush()
        {
            self.cut(&error);
        }
    }

    /// Carries out what the core has decided, until it wants nothing more.
    ///
    /// Whatever is to be signalled or looked at is so together: a host that loses its coordinator
    /// has a thousand trees to kill in the same instant.
    fn obey(&mut self) {
        let (mut signals, mut looks) = (Vec::new(), Vec::new());
        loop {
            let Some(action) = self.core.poll_action() else {
                if signals.is_empty() && looks.is_empty() {
                    return;
                }
                self.signal(&std::mem::take(&mut signals));
                self.look(&std::mem::take(&mut looks));
                continue;
            };
            match action {
                Action::Spawn(launch) => self.spawn(&launch),
                Action::Signal { token, signal } => signals.push((token, signal)),
                Action::TellUnkillable { token } => {
                    let pids = self.trees.pids(token, &self.cgroups);
                    tracing::error!(
                        %token,
                        ?pids,
                        "an attempt does not die of SIGKILL; it is not told as ended while it lives"
                    );
                }
                Action::LookAtTree { token } => looks.push(token),
                Action::Clear { token } => {
                    self.trees.remove(token);
                    self.log_writer.close(token);
                    self.cgroups.remove(token);
                    self.removal.take_from(token, self.work_directory(token));
                }
                Action::Send(event) => {
                    if let Some(line) = &mut self.line
                        && let Err(error) = line.queue(&event)
                    {
                        tracing::warn!(%error, "the agent's line is cut; deadlines stand");
                        self.line = None;
                        self.core.handle_disconnected(clock::now());
                    }
                }
                Action::Exit => self.done = true,
            }
        }
    }

    /// Where an attempt works: made for it, and removed after it.
    fn work_directory(&self, token: Token) -> PathBuf {
        self.place.directory().join(format!("work/{}", token.0))
    }

    fn spawn(&mut self, launch: &Launch) {
        let token = launch.token;
        let directory = self.work_directory(token);
        let now = clock::now();
        let output = self.log_writer.open(launch, now.boot);
        let output = output.map_err(|error| SpawnError {
            fault: SpawnFault::Host,
            why: chain(&error),
        });
        let begun = output.and_then(|output| {
            let work = Work {
                directory: &directory,
                spare: self.removal.lend(token, launch.user.as_deref()),
            };
            self.launcher
                .begin(launch, &work, &output, &self.cgroups, now.boot)
        });
        match begun {
            Ok(pid) => {
                self.trees.insert(token, pid, now.boot);
                if self.memory_look.is_none() && self.cgroups.keeps_no_peak() {
                    self.memory_look = Some(now.boot + MEMORY_LOOK);
                }
                tracing::debug!(%token, pid, "an attempt prepares itself");
            }
            Err(error) => self.tell_outcome(token, Err(error)),
        }
    }

    fn look(&mut self, tokens: &[Token]) {
        if tokens.is_empty() {
            return;
        }
        // What has ended is out of the way, and its orphans are ours.
        self.reap();
        let orphans = match self.trees.orphans(&self.cgroups) {
            Ok(orphans) => orphans,
            Err(error) => {
                tracing::error!(%error, "the supervisor's children cannot be read");
                return;
            }
        };
        for &token in tokens {
            match self.trees.count(token, &orphans, &self.cgroups) {
                Ok(Some(alive)) => {
                    let mut tree = Tree {
                        alive,
                        ..Tree::default()
                    };
                    if alive == 0 {
                        let used = self.cgroups.used(token, self.account(token));
                        tree.cpu = used.cpu;
                        tree.memory_bytes_peak = used.memory_bytes_peak;
                        tree.out_of_memory = used.out_of_memory;
                        tree.memory_bytes_seen = used.memory_bytes_seen;
                        tree.counted = used.counted;
                    }
                    self.core.handle_tree(token, tree, clock::now());
                }
                // It is asked again when the answer may be there.
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%token, %error, "a process tree cannot be read");
                }
            }
        }
    }

    fn account(&self, token: Token) -> Account {
        let age = self.trees.age(token, clock::now().boot);
        if age.is_some_and(|age| age >= WORTH_A_WHOLE_ACCOUNT) {
            Account::Whole
        } else {
            Account::Brief
        }
    }

    fn signal(&mut self, sent: &[(Token, supervisor::Signal)]) {
        if sent.is_empty() {
            return;
        }
        let number = |signal| match signal {
            supervisor::Signal::Term => Signal::SIGTERM,
            supervisor::Signal::Kill => Signal::SIGKILL,
        };
        let sent: Vec<_> = sent.iter().map(|&(token, s)| (token, number(s))).collect();
        for (token, signal) in &sent {
            tracing::debug!(%token, %signal, "signalling a process tree");
        }
        for (token, error) in self.trees.signal(&sent, &self.cgroups) {
            tracing::error!(%token, %error, "a process cannot be signalled");
        }
    }

    fn wait_for_removal(&mut self) {
        let until = clock::now().boot + DurationMs(i64::from(LAST_WORDS_MS));
        while !self.removal.is_idle() && clock::now().boot < until {
            self.send_out_helpers();
            let mut polled = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // A signal is the end of a child; otherwise it is looked again.
            if let Err(error) = poll(&mut polled, 10_u16).and_then(|_| self.signals.read_signal()) {
                tracing::debug!(%error, "no word of the end of a child");
            }
            self.reap();
        }
    }

    /// The ends of what was interrupted are of use to the agent: it goes on holding them.
    fn say_last_words(&mut self) {
        while self.line.as_ref().is_some_and(Line::has_unsent) {
            self.flush();
            let Some(line) = self.line.as_ref().filter(|line| line.has_unsent()) else {
                return;
            };
            let mut polled = [PollFd::new(line.stream.as_fd(), PollFlags::POLLOUT)];
            if !matches!(poll(&mut polled, LAST_WORDS_MS), Ok(ready) if ready > 0) {
                tracing::warn!("the agent does not take the last words");
                return;
            }
        }
    }
}
