//! The process that puts and removes addresses. It has one thread, no runtime and no network but
//! the frames that it sends; its rights are `CAP_NET_ADMIN` and `CAP_NET_RAW`.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use coordinator_core::address::{Action, Keeper, Link, Put, Report, Word};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Uid;
use protocol::BootMs;

use super::announce::Announcer;
use super::door::{Door, DoorError, Line, LineError, Visitor};
use super::interface::{Interface, Look, bits_whole};
use super::netlink::{Events, Netlink};
use crate::clock::read_boot;
use crate::exit::causes;

/// Everything a keeper must be told.
#[derive(Clone, Debug)]
pub struct KeeperOptions {
    pub interface: String,
    /// Each stands for itself alone; none twice.
    pub addresses: Vec<IpAddr>,
    /// Where the coordinator connects. Its directory is there.
    pub socket: PathBuf,
    /// Whom the coordinator runs as, if not as root or as whom this process runs as.
    pub user: Option<Uid>,
}

/// Why a keeper did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("{address} cannot follow a leader: it is {what}")]
    Address { address: IpAddr, what: &'static str },
    #[error("this machine has no interface `{0}`; `ip link` lists those it has")]
    NoInterface(String),
    #[error("`{0}` is no Ethernet: neighbours could not be told that an address has moved to it")]
    NotEthernet(String),
    #[error(
        "{address}/{bits} stands on `{interface}` by somebody else's doing and would stay there; take \
         it out of this machine's own configuration: what is kept here is configured nowhere else"
    )]
    Elsewhere {
        address: IpAddr,
        interface: String,
        bits: u32,
    },
    #[error(transparent)]
    Door(#[from] DoorError),
    #[error("{what}; the keeper needs CAP_NET_ADMIN and CAP_NET_RAW, or root")]
    Right {
        what: &'static str,
        source: io::Error,
    },
    #[error("{what}")]
    Kernel {
        what: &'static str,
        source: io::Error,
    },
}

fn kernel<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> KeeperError {
    move |source| KeeperError::Kernel {
        what,
        source: source.into(),
    }
}

fn right(what: &'static str) -> impl FnOnce(io::Error) -> KeeperError {
    move |source| KeeperError::Right { what, source }
}

/// Keeps the addresses as the coordinator says, until SIGTERM or SIGINT; then they are removed.
pub fn keep(options: KeeperOptions) -> Result<(), KeeperError> {
    let mut shell = Shell::begin(options)?;
    let lived = shell.run();
    shell.core.handle_release();
    shell.obey();
    lived
}

/// Removes what a keeper that was killed may have left.
pub fn remove(interface: &str, addresses: &[IpAddr]) -> Result<(), KeeperError> {
    let look = Look::now().map_err(kernel("looking at this machine's interfaces"))?;
    let Some(index) = look.interface(interface).index() else {
        return Err(KeeperError::NoInterface(interface.to_owned()));
    };
    let mut netlink = Netlink::open().map_err(kernel("opening a netlink socket"))?;
    for &address in addresses {
        let removed = netlink.remove(address, index);
        if removed.map_err(right("removing an address"))? {
            tracing::info!(%address, interface, "an address was left and is removed");
        }
    }
    Ok(())
}

struct Shell {
    core: Keeper,
    addresses: Vec<IpAddr>,
    /// The interface's name, and as it was when last looked at.
    name: String,
    interface: Interface,
    netlink: Netlink,
    announcer: Announcer,
    events: Events,
    signals: SignalFd,
    timer: TimerFd,
    door: Door,
    line: Option<Line>,
    /// What was said last on the line.
    told: Option<Report>,
    /// What the log says.
    logged: bool,
    turned_away: Option<Uid>,
}

impl Shell {
    fn begin(options: KeeperOptions) -> Result<Shell, KeeperError> {
        let KeeperOptions {
            interface: name,
            addresses,
            socket,
            user,
        } = options;
        check_addresses(&addresses)?;
        // Before the look: what changes after it is heard.
        let events = Events::open().map_err(kernel("listening to changes of interfaces"))?;
        let look = Look::now().map_err(kernel("looking at this machine's interfaces"))?;
        let interface = look.interface(&name);
        match interface.link {
            Link::Missing => return Err(KeeperError::NoInterface(name)),
            Link::NotEthernet => return Err(KeeperError::NotEthernet(name)),
            Link::Up { .. } | Link::NoCarrier | Link::Down => {}
        }
        check_places(&look, &name, &addresses)?;
        let mut netlink = Netlink::open().map_err(kernel("opening a netlink socket"))?;
        for &address in addresses.iter().filter(|&&a| look.has(&name, a)) {
            tracing::warn!(%address, interface = name, "an address was there already and is removed");
            let index = interface.index().expect("what has an address is there");
            netlink
                .remove(address, index)
                .map_err(right("removing an address that was there already"))?;
        }
        let announcer = Announcer::open().map_err(right("opening a packet socket"))?;
        let signals = catch_signals().map_err(kernel("catching signals"))?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        // On the clock that goes on through a suspend: what ended meanwhile ends on waking.
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, flags).map_err(kernel("making a timer"))?;
        let door = Door::open(&socket, user)?;
        tracing::info!(
            interface = name,
            ?addresses,
            socket = %socket.display(),
            "the address keeper is up"
        );
        Ok(Shell {
            core: Keeper::new(name.clone(), addresses.clone(), interface.link),
            addresses,
            name,
            interface,
            netlink,
            announcer,
            events,
            signals,
            timer,
            door,
            line: None,
            told: None,
            logged: false,
            turned_away: None,
        })
    }

    fn run(&mut self) -> Result<(), KeeperError> {
        self.obey();
        loop {
            self.wait()?;
            // Whatever else has happened, what is over is over first.
            self.core.handle_tick(read_boot());
            self.obey();
            if self.is_told_to_stop()? {
                return Ok(());
            }
            self.look()?;
            // Before the line is read: what an old one still has to say is not heard any more.
            self.let_in();
            self.hear();
            self.tell_if_changed();
        }
    }

    /// Sleeps until something is ready or the core wants its tick. Nothing that is read waits itself.
    fn wait(&self) -> Result<(), KeeperError> {
        self.set_timer().map_err(kernel("setting a timer"))?;
        let mut polled = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.events.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.door.listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.timer.as_fd(), PollFlags::POLLIN),
        ];
        if let Some(line) = &self.line {
            polled.push(PollFd::new(line.stream.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(errno) => Err(kernel("waiting for what is ready")(errno)),
        }
    }

    fn set_timer(&self) -> nix::Result<()> {
        let Some(BootMs(at)) = self.core.poll_timeout() else {
            return self.timer.unset();
        };
        let at = TimeSpec::new(at / 1000, at % 1000 * 1_000_000);
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        self.timer.set(Expiration::OneShot(at), flags)
    }

    fn is_told_to_stop(&self) -> Result<bool, KeeperError> {
        let signal = self.signals.read_signal();
        let signal = signal.map_err(kernel("reading a signal"))?;
        if signal.is_some() {
            tracing::info!("asked to stop");
        }
        Ok(signal.is_some())
    }

    /// Looks at the interface, and whether what is held is there.
    fn look(&mut self) -> Result<(), KeeperError> {
        let events = self.events.take();
        if !events.map_err(kernel("hearing of changes of interfaces"))? {
            return Ok(());
        }
        let look = Look::now().map_err(kernel("looking at this machine's interfaces"))?;
        self.interface = look.interface(&self.name);
        self.core.handle_link(self.interface.link, read_boot());
        for &address in &self.addresses {
            if !look.has(&self.name, address) && self.core.handle_gone(address) {
                tracing::warn!(
                    %address,
                    interface = self.name,
                    "somebody else has removed the address; it is put back"
                );
            }
        }
        self.obey();
        Ok(())
    }

    /// Takes whoever waits at the door. The newest is the one that is heard.
    fn let_in(&mut self) {
        match self.door.accept() {
            Ok(Some(Visitor::Welcome(line))) => {
                tracing::info!("a coordinator is connected");
                self.line = Some(line);
                self.core.handle_release();
                self.obey();
                self.tell();
            }
            Ok(Some(Visitor::Stranger(uid))) => {
                if self.turned_away.replace(uid) != Some(uid) {
                    tracing::warn!(
                        %uid,
                        "a user who is not the coordinator's was turned away; --user names the right one"
                    );
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a connection cannot be accepted"),
        }
    }

    fn hear(&mut self) {
        let Some(line) = &mut self.line else {
            return;
        };
        let (words, read) = line.read();
        for word in words {
            match word {
                Word::Hold { until } => {
                    if let Err(refusal) = self.core.handle_hold(until, read_boot()) {
                        tracing::debug!(%refusal, "a hold is refused");
                    }
                }
                Word::Release => self.core.handle_release(),
            }
            self.obey();
            self.tell();
        }
        if let Err(error) = read {
            self.hang_up(&error);
        }
    }

    /// Carries out what the core has decided.
    fn obey(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Put { address, before } => {
                    let put = self.put(address, before);
                    self.core.handle_put(address, put, read_boot());
                }
                Action::Remove { address } => self.remove(address),
                Action::Announce { address } => self.announce(address),
            }
        }
        let holds = self.core.holds();
        if std::mem::replace(&mut self.logged, holds) != holds {
            let (interface, addresses) = (&self.name, &self.addresses);
            if holds {
                tracing::info!(interface, ?addresses, "the address is here");
            } else {
                tracing::info!(interface, ?addresses, "the address is no longer here");
            }
        }
    }

    fn put(&mut self, address: IpAddr, before: BootMs) -> Put {
        let Some(index) = self.interface.index() else {
            return Put::Failed("the interface is gone".to_owned());
        };
        if read_boot() >= before {
            return Put::Late;
        }
        match self.netlink.put(address, index) {
            Ok(()) => Put::Done,
            Err(error) => {
                tracing::warn!(%address, %error, "the kernel refuses the address");
                Put::Failed(error.to_string())
            }
        }
    }

    fn remove(&mut self, address: IpAddr) {
        let Some(index) = self.interface.index() else {
            return;
        };
        if let Err(error) = self.netlink.remove(address, index) {
            tracing::error!(
                %address,
                %error,
                "an address cannot be removed; the kernel drops it within two seconds"
            );
        }
    }

    fn announce(&self, address: IpAddr) {
        let (Link::Up { hardware }, Some(place)) = (self.interface.link, self.interface.place)
        else {
            return;
        };
        if let Err(error) = self.announcer.announce(address, hardware, place) {
            tracing::warn!(%address, %error, "neighbours cannot be told of the address");
        }
    }

    fn tell_if_changed(&mut self) {
        if self.line.is_some() && self.told.as_ref() != Some(&self.core.report()) {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let Some(line) = &mut self.line else {
            return;
        };
        let report = self.core.report();
        let said = line.say(&report);
        self.told = Some(report);
        if let Err(error) = said {
            self.hang_up(&error);
        }
    }

    /// Without a coordinator nothing is held.
    fn hang_up(&mut self, error: &LineError) {
        tracing::info!(
            why = causes(error),
            "the connection to the coordinator is over"
        );
        self.line = None;
        self.told = None;
        self.core.handle_release();
        self.obey();
    }
}

fn catch_signals() -> nix::Result<SignalFd> {
    let mut caught = SigSet::empty();
    caught.add(Signal::SIGTERM);
    caught.add(Signal::SIGINT);
    caught.thread_block()?;
    SignalFd::with_flags(&caught, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

fn check_addresses(addresses: &[IpAddr]) -> Result<(), KeeperError> {
    for (n, &address) in addresses.iter().enumerate() {
        let what = if address.is_unspecified() {
            "no address of a machine"
        } else if address.is_loopback() {
            "for this machine alone"
        } else if address.is_multicast() || matches!(address, IpAddr::V4(v4) if v4.is_broadcast()) {
            "for many machines at once"
        } else if addresses[..n].contains(&address) {
            "named twice"
        } else {
            continue;
        };
        return Err(KeeperError::Address { address, what });
    }
    Ok(())
}

/// What is on another interface, or there with its whole network, nobody here would remove.
fn check_places(look: &Look, interface: &str, addresses: &[IpAddr]) -> Result<(), KeeperError> {
    for &address in addresses {
        let mut places = look.places(address);
        let whole = (interface, bits_whole(address));
        if let Some((interface, bits)) = places.find(|&place| place != whole) {
            return Err(KeeperError::Elsewhere {
                address,
                interface: interface.to_owned(),
                bits,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_move_is_taken() {
        for (addresses, expected) in [
            (&["10.0.0.5", "fd00::5"][..], None),
            (&["0.0.0.0"], Some("no address of a machine")),
            (&["::"], Some("no address of a machine")),
            (&["127.0.0.2"], Some("for this machine alone")),
            (&["224.0.0.1"], Some("for many machines at once")),
            (&["255.255.255.255"], Some("for many machines at once")),
            (&["ff02::1"], Some("for many machines at once")),
            (&["10.0.0.5", "10.0.0.5"], Some("named twice")),
        ] {
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            let found = match check_addresses(&addresses) {
                Err(KeeperError::Address { what, .. }) => Some(what),
                other => {
                    assert!(other.is_ok());
                    None
                }
            };
            assert_eq!(found, expected, "{addresses:?}");
        }
    }

    #[test]
    fn an_address_that_stands_elsewhere_is_not_taken() {
        let look = Look::now().unwrap();
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        let found = check_places(&look, "eth0", &[address]);
        let Err(KeeperError::Elsewhere {
            interface, bits, ..
        }) = found
        else {
            panic!("{found:?}");
        };
        assert_eq!((interface.as_str(), bits), ("lo", 8));
        // Nor with its whole network where it belongs.
        assert!(check_places(&look, "lo", &[address]).is_err());
        assert!(check_places(&look, "lo", &["192.0.2.9".parse().unwrap()]).is_ok());
    }
}
