//! Telling every neighbour where an address is: as ARP for IPv4 (RFC 826, 5227), as an unsolicited
//! neighbour advertisement for IPv6 (RFC 4861).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};

const EVERYBODY: [u8; 6] = [0xff; 6];

/// Every IPv6 node of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_HARDWARE: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// The shortest frame that Ethernet knows, without its checksum.
const FRAME_BYTES_MIN: usize = 60;

const ICMPV6: u8 = 58;

/// Sends frames as they are.
pub(super) struct Announcer {
    socket: OwnedFd,
}

impl Announcer {
    pub(super) fn open() -> io::Result<Announcer> {
        // For no protocol: nothing is received.
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        Ok(Announcer { socket })
    }

    pub(super) fn announce(
        &self,
        address: IpAddr,
        hardware: [u8; 6],
        place: LinkAddr,
    ) -> io::Result<()> {
        for frame in frames(address, hardware) {
            sendto(self.socket.as_raw_fd(), &frame, &place, MsgFlags::empty())?;
        }
        Ok(())
    }
}

fn frames(address: IpAddr, hardware: [u8; 6]) -> Vec<Vec<u8>> {
    match address {
        // Some learn from requests only, others from replies only.
        IpAddr::V4(address) => vec![
            arp(Arp::Request, address, hardware),
            arp(Arp::Reply, address, hardware),
        ],
        IpAddr::V6(address) => vec![advertisement(address, hardware)],
    }
}

#[derive(Clone, Copy)]
enum Arp {
    Request = 1,
    Reply = 2,
}

/// An address that asks for, or answers to, itself.
fn arp(operation: Arp, address: Ipv4Addr, hardware: [u8; 6]) -> Vec<u8> {
    let target = match operation {
        Arp::Request => [0; 6],
        Arp::Reply => EVERYBODY,
    };
    let mut frame = ethernet(EVERYBODY, hardware, ETHERTYPE_ARP);
    // Ethernet, for IPv4, and how long the addresses of both are.
    frame.extend([0, 1]);
    frame.extend(ETHERTYPE_IPV4);
    frame.extend([6, 4, 0, operation as u8]);
    frame.extend(hardware);
    frame.extend(address.octets());
    frame.extend(target);
    frame.extend(address.octets());
    frame.resize(FRAME_BYTES_MIN, 0);
    frame
}

/// Not asked for, and to be believed against what was known before.
fn advertisement(address: Ipv6Addr, hardware: [u8; 6]) -> Vec<u8> {
    const ADVERTISEMENT: u8 = 136;
    const OVERRIDE: u8 = 0x20;
    const TARGET_HARDWARE: u8 = 2;
    let mut message = vec![ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0];
    message.extend(address.octets());
    // The option's length in units of 8 bytes.
    message.extend([TARGET_HARDWARE, 1]);
    message.extend(hardware);
    let sum = checksum(address, ALL_NODES, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());

    let length = u16::try_from(message.len()).expect("it has 32 bytes");
    let mut frame = ethernet(ALL_NODES_HARDWARE, hardware, ETHERTYPE_IPV6);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(length.to_be_bytes());
    // A neighbour believes only what no router has passed on.
    frame.extend([ICMPV6, 255]);
    frame.extend(address.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(message);
    frame
}

fn ethernet(to: [u8; 6], from: [u8; 6], kind: [u8; 2]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(96);
    frame.extend(to);
    frame.extend(from);
    frame.extend(kind);
    frame
}

/// Over the message and what RFC 8200 (8.1) puts before it; the message's own field is zero.
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).expect("a message is short");
    let before = [
        &from.octets()[..],
        &to.octets(),
        &length.to_be_bytes(),
        &[0, 0, 0, ICMPV6],
    ]
    .concat();
    let words = before.chunks(2).chain(message.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u32::from(low)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).expect("folded twice, it has 16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: [u8; 6] = [2, 0, 0, 0xaa, 0xbb, 1];

    #[test]
    fn arp_is_sent_as_request_and_as_reply() {
        let frames = frames("10.77.0.5".parse().unwrap(), HARDWARE);
        let [request, reply] = &frames[..] else {
            panic!("{frames:?}");
        };
        let address = [10, 77, 0, 5];
        let expected = [
            &EVERYBODY[..],
            &HARDWARE,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
            &HARDWARE,
            &address,
            &[0; 6],
            &address,
        ];
        assert_eq!(request[..42], expected.concat());
        assert_eq!(request.len(), FRAME_BYTES_MIN);
        assert_eq!(reply[20..22], [0, 2]);
        assert_eq!(reply[32..38], EVERYBODY);
    }

    #[test]
    fn an_advertisement_sums_to_nothing_as_its_reader_checks() {
        let address: Ipv6Addr = "fd00:77::5".parse().unwrap();
        let frames = frames(address.into(), HARDWARE);
        let [frame] = &frames[..] else {
            panic!("{frames:?}");
        };
        assert_eq!(frame.len(), 14 + 40 + 32);
        assert_eq!(frame[..6], ALL_NODES_HARDWARE);
        assert_eq!(frame[21], 255);
        // With its sum in place, a right message sums to all ones, of which this is the complement.
        assert_eq!(checksum(address, ALL_NODES, &frame[54..]), 0);
    }
}
