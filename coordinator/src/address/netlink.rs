//! The two things that are said to the kernel about addresses, as `rtnetlink(7)` has them.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use coordinator_core::address::PUT_GOOD_FOR;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Room for the kernel's messages of one read.
const READ_BYTES: usize = 16 * 1024;

/// Asks the kernel, and waits for its answer, which it gives before the call returns.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Netlink> {
        let socket = open(SockFlag::SOCK_CLOEXEC, 0)?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Puts the address on the interface, as one of its own, for [`PUT_GOOD_FOR`] from now. Where it
    /// is already, only its time is changed.
    pub(super) fn put(&mut self, address: IpAddr, interface: u32) -> io::Result<()> {
        self.ask(|sequence| put(address, interface, sequence))
    }

    /// Removes it; whether it was there.
    pub(super) fn remove(&mut self, address: IpAddr, interface: u32) -> io::Result<bool> {
        match self.ask(|sequence| remove(address, interface, sequence)) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error() {
                // Nor is it where the interface is not.
                Some(libc::EADDRNOTAVAIL | libc::ENODEV) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn ask(&mut self, message: impl FnOnce(u32) -> Vec<u8>) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = message(self.sequence);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answer = [0; READ_BYTES];
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                received => received?,
            };
            // An answer that was left behind by a call that failed half way is another's.
            if let Some(result) = parse_answer(&answer[..length], self.sequence) {
                return result;
            }
        }
    }
}

/// Hears that an interface has changed, or that an address was removed.
pub(super) struct Events {
    pub(super) socket: OwnedFd,
}

impl Events {
    pub(super) fn open() -> io::Result<Events> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = open(flags, groups.cast_unsigned())?;
        Ok(Events { socket })
    }

    /// Takes what has come up; whether it is a reason to look.
    pub(super) fn take(&self) -> io::Result<bool> {
        let mut reason = false;
        let mut messages = [0; READ_BYTES];
        loop {
            match recv(self.socket.as_raw_fd(), &mut messages, MsgFlags::empty()) {
                Ok(length) => reason |= has_reason_to_look(&messages[..length]),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(reason),
                // Some were lost.
                Err(Errno::ENOBUFS) => reason = true,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn open(flags: SockFlag, groups: u32) -> io::Result<OwnedFd> {
    let protocol = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

fn put(address: IpAddr, interface: u32, sequence: u32) -> Vec<u8> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWADDR, flags, sequence);
    message.address(address, interface);
    if address.is_ipv6() {
        // Whether somebody else has it is not asked: until a dead leader's kernel has dropped it,
        // somebody does.
        message.attribute(libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
    }
    // Preferred for no time: nothing that this machine says of its own accord comes from there.
    let good_for_s = u32::try_from(PUT_GOOD_FOR.0 / 1000).expect("it is two seconds");
    let times = [0, good_for_s, 0, 0].map(u32::to_ne_bytes).concat();
    message.attribute(libc::IFA_CACHEINFO, &times);
    message.finish()
}

fn remove(address: IpAddr, interface: u32, sequence: u32) -> Vec<u8> {
    let mut message = Message::new(libc::RTM_DELADDR, 0, sequence);
    message.address(address, interface);
    message.finish()
}

/// A message that is being written: `nlmsghdr`, `ifaddrmsg`, attributes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: libc::c_int, sequence: u32) -> Message {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
        let flags = u16::try_from(flags).expect("flags of a message have 16 bits");
        let mut bytes = Vec::with_capacity(128);
        // Its length is known in the end.
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        Message(bytes)
    }

    fn address(&mut self, address: IpAddr, interface: u32) {
        let (family, prefix, octets) = match address {
            IpAddr::V4(address) => (libc::AF_INET, 32, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, 128, address.octets().to_vec()),
        };
        let family = u8::try_from(family).expect("families have 8 bits here");
        // Family, length of the prefix, flags, scope: everywhere.
        self.0.extend([family, prefix, 0, libc::RT_SCOPE_UNIVERSE]);
        self.0.extend(interface.to_ne_bytes());
        self.attribute(libc::IFA_LOCAL, &octets);
        self.attribute(libc::IFA_ADDRESS, &octets);
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(4 + value.len()).expect("values are a few bytes");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        let aligned = self.0.len().next_multiple_of(4);
        self.0.resize(aligned, 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages are a few bytes");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// The messages of one read: their kind, sequence and body. What is cut off ends them.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(read_u32(rest, 0)?).ok()?;
        let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
        let sequence = read_u32(rest, 8)?;
        let body = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, sequence, body))
    })
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The kernel's answer to a request, where it is among these.
fn parse_answer(bytes: &[u8], wanted: u32) -> Option<io::Result<()>> {
    let error = libc::c_int::cast_unsigned(libc::NLMSG_ERROR);
    let (.., body) = messages(bytes)
        .find(|(kind, sequence, _)| u32::from(*kind) == error && *sequence == wanted)?;
    let status = read_u32(body, 0)?.cast_signed();
    Some(match status {
        0 => Ok(()),
        status => Err(io::Error::from_raw_os_error(-status)),
    })
}

fn has_reason_to_look(bytes: &[u8]) -> bool {
    const REASONS: [u16; 3] = [libc::RTM_NEWLINK, libc::RTM_DELLINK, libc::RTM_DELADDR];
    messages(bytes).any(|(kind, ..)| REASONS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u16, body: usize) -> Vec<u8> {
        let mut message = Message::new(kind, 0, 7);
        message.0.resize(HEADER + body, 0);
        let mut message = message.finish();
        // The next one begins where it is aligned; the length says where this one ends.
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn answer(sequence: u32, status: i32) -> Vec<u8> {
        let kind = u16::try_from(libc::NLMSG_ERROR).unwrap();
        let mut message = Message::new(kind, 0, sequence);
        message.0.extend(status.to_ne_bytes());
        message.finish()
    }

    #[test]
    fn messages_are_as_the_kernel_wants_them() {
        let v4 = put("10.0.0.5".parse().unwrap(), 3, 9);
        // Header 16, ifaddrmsg 8, two addresses of 8, the times 20.
        assert_eq!(v4.len(), 16 + 8 + 8 + 8 + 20);
        assert_eq!(read_u32(&v4, 0), Some(60));
        assert_eq!(read_u32(&v4, 20), Some(3));
        assert_eq!(read_u32(&v4, 44), Some(0), "preferred");
        assert_eq!(read_u32(&v4, 48), Some(2), "valid");
        let v6 = put("fd00::5".parse().unwrap(), 3, 9);
        assert_eq!(v6.len(), 16 + 8 + 20 + 20 + 8 + 20);
        let (kind, sequence, body) = messages(&v6).next().unwrap();
        assert_eq!((kind, sequence), (libc::RTM_NEWADDR, 9));
        assert_eq!(body[..4], [10, 128, 0, 0]);
        let removal = remove("fd00::5".parse().unwrap(), 3, 9);
        assert_eq!(removal.len(), 16 + 8 + 20 + 20);
    }

    #[test]
    fn an_answer_is_found_by_its_number() {
        let both = [answer(4, -libc::EEXIST), answer(5, -libc::EPERM)].concat();
        let found = |wanted| parse_answer(&both, wanted).map(|r| r.map_err(|e| e.raw_os_error()));
        assert_eq!(found(5), Some(Err(Some(libc::EPERM))));
        assert_eq!(found(4), Some(Err(Some(libc::EEXIST))));
        assert_eq!(found(6), None);
        assert!(matches!(parse_answer(&answer(6, 0), 6), Some(Ok(()))));
    }

    #[test]
    fn what_changes_nothing_is_no_reason_to_look() {
        for (messages, reason) in [
            (vec![event(libc::RTM_NEWADDR, 30)], false),
            (vec![event(libc::RTM_DELADDR, 30)], true),
            (
                vec![event(libc::RTM_NEWADDR, 30), event(libc::RTM_NEWLINK, 5)],
                true,
            ),
            (vec![event(libc::RTM_DELLINK, 0)], true),
        ] {
            assert_eq!(has_reason_to_look(&messages.concat()), reason);
        }
        // Cut off at any place, nothing is made up and nothing panics.
        let whole = event(libc::RTM_NEWLINK, 8);
        for length in 0..whole.len() {
            assert!(!has_reason_to_look(&whole[..length]), "{length}");
        }
        assert!(!has_reason_to_look(&[0; 64]), "a length of nothing ends it");
    }
}
