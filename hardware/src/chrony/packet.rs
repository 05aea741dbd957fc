//! Replies of chronyd's command protocol, version 6: big-endian, a header of 28 bytes and a body.
//!
//! Source: `candm.h` of chrony, of which the commands read here are declared stable across versions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::tracking::Tracking;
use crate::facts::{Leap, SourceState};

/// What a reply told.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Tracking(Tracking),
    Source(SourceData),
    /// How many sources there are to be asked for.
    Sources(u32),
}

/// One source, as `chronyc sources` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceData {
    /// An address, or the name of a reference clock.
    pub name: String,
    /// `server`, `peer`, `reference clock`.
    pub mode: &'static str,
    pub state: SourceState,
    pub stratum: u16,
    /// Logarithm to base 2 of the seconds between two questions.
    pub poll: i16,
    /// Its last eight answers, one bit each.
    pub reach: u16,
    /// Seconds; none if it never answered.
    pub since_sample_s: Option<u32>,
    /// Seconds, as measured.
    pub offset_measured_s: f64,
    /// Seconds, less what was corrected since.
    pub offset_s: f64,
    pub error_s: f64,
}

/// Why a reply tells nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// It is no reply of this protocol, or ends early.
    Form,
    /// chronyd refused: the status and the command.
    Refused { status: u16, command: u16 },
    /// A reply to a command that is not read here.
    Other { reply: u16 },
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Form => {
                formatter.write_str("it is no whole reply of chrony's command protocol, version 6")
            }
            Self::Refused { status: 2, command } => {
                write!(
                    formatter,
                    "chronyd refused command {command}: not authorised (status 2)"
                )
            }
            Self::Refused { status, command } => {
                write!(
                    formatter,
                    "chronyd refused command {command} with status {status}"
                )
            }
            Self::Other { reply } => {
                write!(formatter, "a reply of type {reply}, which is not read here")
            }
        }
    }
}

impl std::error::Error for ReplyError {}

/// Reads one datagram of chronyd.
pub fn parse_reply(datagram: &[u8]) -> Result<Reply, ReplyError> {
    let mut reader = Bytes(datagram);
    let head = (|| {
        let (version, kind) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let (command, reply, status) = (reader.u16()?, reader.u16()?, reader.u16()?);
        // Padding, the sequence, padding: the header has 28 bytes.
        reader.skip(18)?;
        Some((version, kind, command, reply, status))
    })();
    let Some((6, 2, command, reply, status)) = head else {
        return Err(ReplyError::Form);
    };
    if status != 0 {
        return Err(ReplyError::Refused { status, command });
    }
    let read = match reply {
        2 => reader.u32().map(Reply::Sources),
        3 => source(&mut reader).map(Reply::Source),
        5 => tracking(&mut reader).map(Reply::Tracking),
        _ => return Err(ReplyError::Other { reply }),
    };
    read.ok_or(ReplyError::Form)
}

fn source(reader: &mut Bytes<'_>) -> Option<SourceData> {
    let address = reader.address()?;
    let poll = reader.u16()? as i16;
    let stratum = reader.u16()?;
    let state = match reader.u16()? {
        0 => SourceState::Selected,
        2 => SourceState::Falseticker,
        3 => SourceState::Jittery,
        4 => SourceState::Combined,
        5 => SourceState::Excluded,
        _ => SourceState::Unselectable,
    };
    let mode = match reader.u16()? {
        0 => "server",
        1 => "peer",
        2 => "reference clock",
        _ => return None,
    };
    reader.skip(2)?;
    let reach = reader.u16()?;
    let since = reader.u32()?;
    let (measured, adjusted, error) = (reader.float()?, reader.float()?, reader.float()?);
    Some(SourceData {
        name: match address {
            // A reference clock's name stands where an address would.
            Address::Ip(IpAddr::V4(name)) if mode == "reference clock" => {
                reference_name(name.into())
            }
            other => other.name(),
        },
        mode,
        state,
        stratum,
        poll,
        reach,
        since_sample_s: (since != u32::MAX).then_some(since),
        offset_measured_s: measured,
        offset_s: adjusted,
        error_s: error,
    })
}

fn tracking(reader: &mut Bytes<'_>) -> Option<Tracking> {
    let reference = reader.u32()?;
    let address = reader.address()?;
    let stratum = reader.u16()?;
    let leap = match reader.u16()? {
        0 => Leap::Normal,
        1 => Leap::Insert,
        2 => Leap::Delete,
        3 => Leap::Unsynchronised,
        _ => return None,
    };
    let (high, low, nanoseconds) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let seconds = (u64::from(high) << 32) | u64::from(low);
    let correction_s = reader.float()?;
    // Last offset, its mean, frequency, its residue and skew.
    reader.skip(5 * 4)?;
    let (root_delay_s, root_dispersion_s, update_interval_s) =
        (reader.float()?, reader.float()?, reader.float()?);
    Some(Tracking {
        reference_id: Some(reference),
        reference: match address {
            Address::None => reference_name(reference),
            other => other.name(),
        },
        stratum: Some(u64::from(stratum)),
        leap: Some(leap),
        // High is all ones where the seconds are few enough for 32 bits in old versions.
        reference_time_s: Some(seconds as f64 + f64::from(nanoseconds) / 1e9)
            .filter(|_| high != 0x7fff_ffff),
        correction_s: Some(correction_s),
        root_delay_s: Some(root_delay_s),
        root_dispersion_s: Some(root_dispersion_s),
        update_interval_s: Some(update_interval_s),
    })
}

/// Four letters in an identifier: `GPS0`.
fn reference_name(id: u32) -> String {
    let bytes = id.to_be_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(4);
    let letters = &bytes[..end];
    if !letters.is_empty() && letters.iter().all(u8::is_ascii_graphic) {
        letters.iter().map(|byte| char::from(*byte)).collect()
    } else {
        format!("{id:08X}")
    }
}

enum Address {
    None,
    Ip(IpAddr),
    /// A source whose name has no address yet.
    Unresolved(u32),
}

impl Address {
    fn name(&self) -> String {
        match self {
            Self::None => "no address".into(),
            Self::Ip(ip) => ip.to_string(),
            Self::Unresolved(id) => format!("ID#{id:010}"),
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// Seven bits of exponent and 25 of coefficient, both signed.
    fn float(&mut self) -> Option<f64> {
        let bits = self.u32()?.cast_signed();
        let exponent = bits >> 25;
        let coefficient = bits << 7 >> 7;
        Some(f64::from(coefficient) * 2_f64.powi(exponent - 25))
    }

    fn address(&mut self) -> Option<Address> {
        let bytes: [u8; 16] = self.take()?;
        let family = self.u16()?;
        self.skip(2)?;
        let first: [u8; 4] = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Some(match family {
            1 => Address::Ip(Ipv4Addr::from(first).into()),
            2 => Address::Ip(Ipv6Addr::from(bytes).into()),
            3 => Address::Unresolved(u32::from_be_bytes(first)),
            _ => Address::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, reply: u16, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![6, 2, 0, 0, 0, 15];
        datagram.extend(reply.to_be_bytes());
        datagram.extend(status.to_be_bytes());
        datagram.resize(28, 0);
        datagram.extend(body);
        datagram
    }

    fn source_body() -> Vec<u8> {
        let mut body = b"GPS0".to_vec();
        body.resize(16, 0);
        body.extend([
            0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff,
        ]);
        // Exponent 1 and half the coefficient's range: 1.0. Then 0, then -1.0.
        body.extend(0x0300_0000_u32.to_be_bytes());
        body.extend(0_u32.to_be_bytes());
        body.extend(0x0500_0000_u32.wrapping_sub(0x0200_0000).to_be_bytes());
        body
    }

    #[test]
    fn a_source_and_its_floats() {
        let Ok(Reply::Source(source)) = parse_reply(&reply(0, 3, &source_body())) else {
            panic!()
        };
        assert_eq!(source.name, "GPS0");
        assert_eq!(source.state, SourceState::Selected);
        assert_eq!(
            (source.poll, source.reach, source.since_sample_s),
            (4, 255, None)
        );
        assert!((source.offset_s).abs() < f64::EPSILON);
    }

    #[test]
    fn what_is_cut_or_refused_tells_nothing() {
        let whole = reply(0, 3, &source_body());
        for length in 0..whole.len() {
            assert_eq!(
                parse_reply(&whole[..length]),
                Err(ReplyError::Form),
                "{length}"
            );
        }
        let refused = parse_reply(&reply(2, 1, &[]));
        assert_eq!(
            refused,
            Err(ReplyError::Refused {
                status: 2,
                command: 15
            })
        );
        assert_eq!(
            parse_reply(&reply(0, 99, &[])),
            Err(ReplyError::Other { reply: 99 })
        );
    }
}
