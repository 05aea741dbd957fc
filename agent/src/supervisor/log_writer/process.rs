//! The log writer's own process: one loop over all pipes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::MsgFlags;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::read;
use protocol::output::{Stamp, Stream};
use protocol::{BootMs, DurationMs, Token};

use super::files::Files;
use super::keeper::{Keeper, Moment, Records};
use super::words::{Order, PACKET_BYTES_MAX, Word, receive, send};
use crate::clock;

/// Read at one go from one pipe, so that each has its turn.
const READ_BYTES: usize = 256 * 1024;

const EVENTS_AT_ONCE: usize = 64;

/// What has a time to it is looked after so often.
const TICK: DurationMs = DurationMs(100);

/// Held in memory of one output that comes too fast, and of all such outputs together.
const BURST_BYTES_MAX: usize = 512 * 1024;
const BURSTS_BYTES_MAX: usize = 8 * 1024 * 1024;
const BURST_BYTES_LEAST: usize = 64 * 1024;

/// Read of a pipe whose writer does not go away, before it is let go.
const LAST_BYTES_MAX: usize = 1024 * 1024;

/// Outputs that are over and wait for room to say so.
const UNSAID_MAX: usize = 1024;

/// The two pipes of an attempt are known to the kernel by its token and this.
const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];
const SOCKET: u64 = u64::MAX;

struct Output {
    keeper: Keeper,
    /// Standard output and standard error, until their writers are gone.
    pipes: [Option<OwnedFd>; 2],
}

pub(super) struct Process {
    socket: OwnedFd,
    epoll: Epoll,
    outputs: BTreeMap<Token, Output>,
    /// Those that want ticks.
    restless: BTreeSet<Token>,
    /// Those that come faster than they are kept.
    bursting: BTreeSet<Token>,
    /// Those that are over, and of which this cannot be written yet; the oldest first.
    unsaid: VecDeque<Keeper>,
    next_tick: BootMs,
    records: Records,
    input: Vec<u8>,
    packet: Vec<u8>,
    /// As the supervisor was told.
    in_trouble: bool,
}

/// Why the loop has ended.
enum Over {
    SupervisorGone,
    Failed(io::Error),
}

impl From<io::Error> for Over {
    fn from(error: io::Error) -> Over {
        Over::Failed(error)
    }
}

impl From<nix::Error> for Over {
    fn from(errno: nix::Error) -> Over {
        Over::Failed(errno.into())
    }
}

impl Process {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Process> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, SOCKET))?;
        Ok(Process {
            socket,
            epoll,
            outputs: BTreeMap::new(),
            restless: BTreeSet::new(),
            bursting: BTreeSet::new(),
            unsaid: VecDeque::new(),
            next_tick: clock::now().boot,
            records: Records::default(),
            input: vec![0; READ_BYTES],
            packet: vec![0; PACKET_BYTES_MAX],
            in_trouble: false,
        })
    }

    /// Keeps what comes until the supervisor is gone; what lies in the pipes then is kept too.
    pub(super) fn run(mut self) -> io::Result<()> {
        let over = loop {
            if let Err(over) = self.turn() {
                break over;
            }
        };
        let tokens: Vec<Token> = self.outputs.keys().copied().collect();
        for token in tokens {
            self.finish(token, Some("the supervisor is gone"));
        }
        for keeper in std::mem::take(&mut self.unsaid) {
            keeper.give_up();
        }
        match over {
            Over::SupervisorGone => Ok(()),
            Over::Failed(error) => Err(error),
        }
    }

    fn turn(&mut self) -> Result<(), Over> {
        let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
        let timeout = if self.is_at_rest() {
            EpollTimeout::NONE
        } else {
            let left = (self.next_tick - clock::now().boot).clamp_to(TICK);
            EpollTimeout::from(left.0.unsigned_abs() as u16)
        };
        let ready = match self.epoll.wait(&mut events, timeout) {
            Ok(ready) => ready,
            Err(nix::Error::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        for event in &events[..ready] {
            match event.data() {
                SOCKET => self.hear()?,
                data => self.read(Token((data >> 1) as i64), (data & 1) as usize)?,
            }
        }
        self.tick()
    }

    /// Takes one order.
    fn hear(&mut self) -> Result<(), Over> {
        let received = match receive(self.socket.as_fd(), &mut self.packet) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some((order, descriptors)) = received else {
            return Err(Over::SupervisorGone);
        };
        match order {
            Order::Open {
                token,
                directory,
                about,
                bytes_max,
                resumed,
            } => {
                let files = Files::new(directory.into(), about, bytes_max);
                self.open(token, files, resumed, descriptors)
            }
            Order::Close { token } => {
                let note = "a process that is none of the attempt's holds its output open: what it \
                            writes from here on is not kept";
                self.finish(token, Some(note));
                self.say_trouble()
            }
        }
    }

    fn open(
        &mut self,
        token: Token,
        files: Files,
        resumed: bool,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Over> {
        let Ok([stdout, stderr]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(io::Error::other("an order without its pipes").into());
        };
        let now = moment();
        let mut keeper = Keeper::new(files, now);
        keeper.begin(resumed, now);
        for (index, pipe) in [&stdout, &stderr].into_iter().enumerate() {
            nix::fcntl::fcntl(
                pipe,
                nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
            )?;
            let data = token.0.unsigned_abs() << 1 | index as u64;
            self.epoll
                .add(pipe, EpollEvent::new(EpollFlags::EPOLLIN, data))?;
        }
        let pipes = [Some(stdout), Some(stderr)];
        self.outputs.insert(token, Output { keeper, pipes });
        self.after(token)?;
        self.say(&Word::Opened { token })
    }

    /// Reads once from one pipe.
    fn read(&mut self, token: Token, index: usize) -> Result<(), Over> {
        let share = BURSTS_BYTES_MAX / self.bursting.len().max(1);
        let Some(output) = self.outputs.get_mut(&token) else {
            return Ok(());
        };
        let Some(pipe) = &output.pipes[index] else {
            return Ok(());
        };
        match read(pipe, &mut self.input) {
            Ok(0) => {
                self.epoll.delete(pipe)?;
                output.pipes[index] = None;
                if output.pipes.iter().all(Option::is_none) {
                    self.finish(token, None);
                    self.say(&Word::Drained { token })?;
                    return self.say_trouble();
                }
                Ok(())
            }
            Ok(count) => {
                output.keeper.take(
                    STREAMS[index],
                    &self.input[..count],
                    share.clamp(BURST_BYTES_LEAST, BURST_BYTES_MAX),
                    &mut self.records,
                    moment(),
                );
                self.after(token)
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads what is there and lets the output go.
    fn finish(&mut self, token: Token, note: Option<&str>) {
        self.restless.remove(&token);
        self.bursting.remove(&token);
        let Some(mut output) = self.outputs.remove(&token) else {
            return;
        };
        let mut is_held = false;
        for (index, pipe) in output.pipes.iter().enumerate() {
            let Some(pipe) = pipe else {
                continue;
            };
            let mut left = LAST_BYTES_MAX;
            is_held |= loop {
                match read(pipe, &mut self.input) {
                    Ok(0) => break false,
                    Err(nix::Error::EAGAIN) => break true,
                    Ok(count) => {
                        let bytes = &self.input[..count];
                        let (stream, share) = (STREAMS[index], BURST_BYTES_LEAST);
                        let records = &mut self.records;
                        output.keeper.take(stream, bytes, share, records, moment());
                        left = left.saturating_sub(count);
                        if left == 0 {
                            break true;
                        }
                    }
                    Err(nix::Error::EINTR) => {}
                    Err(errno) => {
                        tracing::error!(%token, %errno, "the last of an output cannot be read");
                        break false;
                    }
                }
            };
        }
        let note = note.filter(|_| is_held);
        let unsaid = output.keeper.end(note, &mut self.records, moment());
        self.unsaid.extend(unsaid);
        if self.unsaid.len() > UNSAID_MAX
            && let Some(oldest) = self.unsaid.pop_front()
        {
            oldest.give_up();
        }
    }

    fn is_at_rest(&self) -> bool {
        self.restless.is_empty() && self.unsaid.is_empty()
    }

    fn tick(&mut self) -> Result<(), Over> {
        let now = moment();
        if self.is_at_rest() || now.boot < self.next_tick {
            return Ok(());
        }
        self.next_tick = now.boot + TICK;
        let restless: Vec<Token> = self.restless.iter().copied().collect();
        for token in restless {
            if let Some(output) = self.outputs.get_mut(&token) {
                output.keeper.tick(&mut self.records, now);
            }
            self.after(token)?;
        }
        if self.unsaid.is_empty() {
            return Ok(());
        }
        let unsaid = std::mem::take(&mut self.unsaid).into_iter();
        self.unsaid = unsaid.filter_map(|k| k.say_last_words(now)).collect();
        self.say_trouble()
    }

    /// Notes what has become of an output by what was done to it.
    fn after(&mut self, token: Token) -> Result<(), Over> {
        let Some(output) = self.outputs.get(&token) else {
            return Ok(());
        };
        if output.keeper.is_restless() {
            self.restless.insert(token);
        } else {
            self.restless.remove(&token);
        }
        if output.keeper.is_bursting() {
            self.bursting.insert(token);
        } else {
            self.bursting.remove(&token);
        }
        if output.keeper.trouble().is_some() == self.in_trouble {
            return Ok(());
        }
        self.say_trouble()
    }

    /// Tells when nothing can be written, and when all can be again.
    fn say_trouble(&mut self) -> Result<(), Over> {
        let mut troubles = self.restless.iter().filter_map(|token| {
            let output = self.outputs.get(token)?;
            output.keeper.trouble()
        });
        let why = troubles
            .next()
            .or_else(|| self.unsaid.iter().find_map(Keeper::trouble))
            .map(str::to_owned);
        if why.is_some() == self.in_trouble {
            return Ok(());
        }
        self.in_trouble = why.is_some();
        self.say(&Word::Trouble { why })
    }

    /// Waits for a supervisor that does not read: it is stopped, or as good as dead.
    fn say(&self, word: &Word) -> Result<(), Over> {
        match send(self.socket.as_fd(), word, &[], MsgFlags::empty()) {
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Err(Over::SupervisorGone)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn moment() -> Moment {
    let micros = clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |now| now.tv_sec() * 1_000_000 + now.tv_nsec() / 1_000);
    Moment {
        boot: clock::now().boot,
        stamp: Stamp::from_micros(micros),
    }
}
