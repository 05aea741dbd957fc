//! chronyd, asked in its own words: command protocol 6 over UDP, which any user may speak on the machine
//! itself.
//!
//! A request has the length of the longest reply (chronyd answers nothing shorter, so that nobody is
//! flooded in another's name). An answer counts only with the sequence number of its question: one that
//! comes late is of another moment.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hardware::{Reply, ReplyError, SourceData, Tracking, parse_reply};

/// All questions of one look together take at most so long.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Sources that are asked for; who has more is judged by these.
pub(super) const SOURCES_MAX: u32 = 16;

const REQUEST_BYTES: usize = 504;
/// Longer than any reply that is read here.
const REPLY_BYTES_MAX: usize = 1024;

const TRACKING: u16 = 33;
const N_SOURCES: u16 = 14;
const SOURCE_DATA: u16 = 15;

/// What chronyd says of its clock, and of those it listens to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) tracking: Tracking,
    pub(super) sources: Vec<SourceData>,
}

/// Why chronyd told nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("nothing listens on {0}")]
    NobodyListens(SocketAddr),
    #[error("{address} did not answer within {} s", TIME_LIMIT.as_secs())]
    NoAnswer { address: SocketAddr },
    #[error("asking {address}")]
    Network {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("the answer of {address}: {refused}")]
    Answer {
        address: SocketAddr,
        refused: ReplyError,
    },
    #[error("{address} answered another question than was asked")]
    AnotherAnswer { address: SocketAddr },
}

/// Where chronyd listens unless it is told otherwise.
pub fn default_addresses() -> Vec<SocketAddr> {
    vec![
        (Ipv4Addr::LOCALHOST, 323).into(),
        (Ipv6Addr::LOCALHOST, 323).into(),
    ]
}

/// Asks at one address. `first` is the sequence number of the first question.
pub(super) fn ask(address: SocketAddr, first: u32) -> Result<Told, AskError> {
    let mut line = Line::open(address, first)?;
    let Reply::Tracking(tracking) = line.ask(TRACKING, None)? else {
        return Err(AskError::AnotherAnswer { address });
    };
    let Reply::Sources(count) = line.ask(N_SOURCES, None)? else {
        return Err(AskError::AnotherAnswer { address });
    };
    let mut sources = Vec::new();
    for index in 0..count.min(SOURCES_MAX) {
        match line.ask(SOURCE_DATA, Some(index)) {
            Ok(Reply::Source(source)) => sources.push(source),
            Ok(_) => return Err(AskError::AnotherAnswer { address }),
            // It went away since they were counted.
            Err(AskError::Answer {
                refused: ReplyError::Refused { .. },
                ..
            }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Told { tracking, sources })
}

struct Line {
    socket: UdpSocket,
    address: SocketAddr,
    until: Instant,
    sequence: u32,
}

impl Line {
    fn open(address: SocketAddr, sequence: u32) -> Result<Line, AskError> {
        let any: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            // Only what comes from there is heard, and that nobody listens is told.
            socket.connect(address)?;
            Ok(socket)
        };
        Ok(Line {
            socket: open().map_err(|error| failed(address, error))?,
            address,
            until: Instant::now() + TIME_LIMIT,
            sequence,
        })
    }

    fn ask(&mut self, command: u16, argument: Option<u32>) -> Result<Reply, AskError> {
        let address = self.address;
        self.sequence = self.sequence.wrapping_add(1);
        let question = request(command, self.sequence, argument);
        self.socket
            .send(&question)
            .map_err(|error| failed(address, error))?;
        let mut buffer = [0; REPLY_BYTES_MAX];
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AskError::NoAnswer { address });
            }
            let heard = self
                .socket
                .set_read_timeout(Some(left))
                .and_then(|()| self.socket.recv(&mut buffer));
            let datagram = match heard {
                Ok(length) => &buffer[..length],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(address, error)),
            };
            if sequence_of(datagram) != Some(self.sequence) {
                continue;
            }
            return parse_reply(datagram).map_err(|refused| AskError::Answer { address, refused });
        }
    }
}

fn failed(address: SocketAddr, source: io::Error) -> AskError {
    match source.kind() {
        ErrorKind::ConnectionRefused => AskError::NobodyListens(address),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AskError::NoAnswer { address },
        _ => AskError::Network { address, source },
    }
}

/// Version 6, a request, padding; the command and which attempt this is; the sequence; padding up to the
/// body.
fn request(command: u16, sequence: u32, argument: Option<u32>) -> [u8; REQUEST_BYTES] {
    let mut datagram = [0; REQUEST_BYTES];
    datagram[0] = 6;
    datagram[1] = 1;
    datagram[4..6].copy_from_slice(&command.to_be_bytes());
    datagram[8..12].copy_from_slice(&sequence.to_be_bytes());
    if let Some(argument) = argument {
        datagram[20..24].copy_from_slice(&argument.to_be_bytes());
    }
    datagram
}

/// The number of the question that a reply answers.
fn sequence_of(datagram: &[u8]) -> Option<u32> {
    let bytes = datagram.get(16..20)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chronyd that knows no more than how to answer: first with somebody else's number.
    fn answer(socket: &UdpSocket, replies: u16) {
        let mut buffer = [0; 2048];
        for _ in 0..replies {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(length, REQUEST_BYTES);
            assert_eq!(buffer[..2], [6, 1]);
            let command = u16::from_be_bytes([buffer[4], buffer[5]]);
            let (kind, body) = match command {
                TRACKING => (5_u16, vec![0; 76]),
                N_SOURCES => (2, 1_u32.to_be_bytes().to_vec()),
                SOURCE_DATA => {
                    assert_eq!(buffer[20..24], [0; 4]);
                    (3, vec![0; 48])
                }
                other => panic!("{other}"),
            };
            let mut reply = vec![6, 2, 0, 0];
            reply.extend(command.to_be_bytes());
            reply.extend(kind.to_be_bytes());
            reply.resize(28, 0);
            reply.extend(body);
            reply[16] = buffer[8] ^ 0x80;
            socket.send_to(&reply, from).unwrap();
            reply[16..20].copy_from_slice(&buffer[8..12]);
            socket.send_to(&reply, from).unwrap();
        }
    }

    #[test]
    fn what_is_asked_is_answered_and_what_another_asked_is_not_heard() {
        let chronyd = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = chronyd.local_addr().unwrap();
        let server = std::thread::spawn(move || answer(&chronyd, 3));
        let told = ask(address, u32::MAX).unwrap();
        server.join().unwrap();
        assert_eq!(told.sources.len(), 1);
        assert_eq!(told.tracking.reference_id, Some(0));
    }

    #[test]
    fn that_nobody_listens_is_told_at_once_and_where() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap();
        drop(taken);
        let error = ask(address, 0).unwrap_err();
        assert_eq!(error.to_string(), format!("nothing listens on {address}"));
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = silent.local_addr().unwrap();
        let error = ask(address, 0).unwrap_err();
        assert!(matches!(error, AskError::NoAnswer { .. }), "{error}");
    }
}
