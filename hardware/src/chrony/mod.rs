//! The clock by chronyd's word: `chronyc tracking` and `chronyc sources`, as text, as `-c` writes
//! them, and as the packets of the command protocol, in hexadecimal.
//!
//! "Leap status: Normal" does not mean synchronised: it is said for minutes after all sources died. What
//! counts is how old the reference is, and that can be judged only by who knows what time it was: see
//! [`Tracking::verdict`]. The number that matters is the correction not yet made ("System time"), not the
//! last offset, which is 0 while a quarter of a second is being slewed away.

mod packet;
mod sources;
mod tracking;

pub use packet::{Reply, ReplyError, SourceData, parse_reply};
pub use sources::parse_chrony_sources;
pub use tracking::{Tracking, judge_clock, parse_chrony_tracking};

/// The packets in a text of hexadecimal digits, one a line. None if it is anything else.
fn packets(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    for line in crate::lines::lines(text) {
        let digits = line.text.as_bytes();
        // The shortest reply has 28 bytes.
        if digits.len() < 16 || digits.len() % 2 != 0 {
            return None;
        }
        let bytes = digits.chunks_exact(2).map(|pair| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        });
        packets.push(bytes.collect::<Option<Vec<u8>>>()?);
    }
    (!packets.is_empty()).then_some(packets)
}
