//! The numbers of the transport, and why they are what they are.
//!
//! **A lost network is noticed within 15 s; a blip of 20 s costs a reconnect and no more.** The
//! dialer sends something every [`KEEP_ALIVE`], and either side gives a connection up after
//! [`IDLE_TIMEOUT`] without a word: five keep-alives lost in a row. Sessions outlive connections,
//! so giving one up early is cheap, while giving it up late would eat into the shortest takeover
//! time (15 s) of the leases above it.
//!
//! **No peer makes the other hold much memory.** Streams are few, and each side promises to buffer
//! at most [`STREAM_WINDOW_BYTES`] a stream that it has not read.
//!
//! **Bulk cannot block control.** Besides its window a stream needs a share of the connection's
//! window, and a writer needs a share of the send buffer. Both are [`CONNECTION_WINDOW_BYTES`]:
//! every stream's window together and one more. So with all bulk streams full and nobody reading
//! them, control has still its own.
//!
//! **Control machines trust each other with more.** There are a handful of them, what travels between
//! them is the log and whole snapshots, and a lost network must be noticed sooner. The rest holds for
//! them too: what they have to tell each other about who leads is on the control stream.

use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

use crate::identity::Wanted;

/// The dialer sends at least this often.
pub const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A connection without a word from the other side for this long is lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// [`ANSWER_LIMIT`] between control machines, which wait for each other.
pub const CONTROL_ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// [`KEEP_ALIVE`] between control machines.
pub const CONTROL_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// [`IDLE_TIMEOUT`] between control machines.
pub const CONTROL_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time for a handshake, the other side's welcome included.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Longest time for a frame, from its first byte to its last. A peer that sends slower, or stops
/// in the middle, cannot be waited for by whoever reads it.
pub const FRAME_LIMIT: Duration = Duration::from_secs(10);

/// Longest time that a dialer waits for the first word of an answer. Each attempt repeats its first
/// packet at 0.3, 0.9 and 2.1 s, and would then wait longer and longer: where nobody listened yet
/// and somebody does now, a fresh attempt is sooner heard.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// What the time of a packet there and back is taken for before it is known. A third of QUIC's
/// usual guess: the machines are near each other, and the first packet is repeated by it.
pub(crate) const ROUND_TRIP_GUESS: Duration = Duration::from_millis(100);

/// Bulk streams that the listener may have open at a time on one connection; opening one more
/// waits. Two dozen people may follow what a host prints; the rest is for other bulk, and for the
/// eighth of all that may end before the listener hears of it.
pub const BULK_STREAMS_TO_DIALER_MAX: u32 = 28;

/// The same for the dialer, of whom there are many.
pub const BULK_STREAMS_TO_LISTENER_MAX: u32 = 4;

/// Bytes of one stream that may be under way or unread: two frames of the largest size.
pub const STREAM_WINDOW_BYTES: u32 = 128 * 1024;

/// Bytes of all streams of a connection that may be under way or unread, each way: control, the
/// bulk streams of both sides, and the welcome or retransmissions in the place of one more.
pub const CONNECTION_WINDOW_BYTES: u32 =
    STREAM_WINDOW_BYTES * (1 + BULK_STREAMS_TO_DIALER_MAX + BULK_STREAMS_TO_LISTENER_MAX + 1);

/// Bulk streams that one control machine may have open at a time on a connection to another: the log
/// and a snapshot, and each once more while the one before is being given up.
pub const CONTROL_BULK_STREAMS_MAX: u32 = 6;

/// [`STREAM_WINDOW_BYTES`] between control machines: what a line of 1 Gbit/s with a round trip of 30
/// ms holds.
pub const CONTROL_STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// [`CONNECTION_WINDOW_BYTES`] between control machines, by the same sum; the welcome's place
/// included. The answers on the other side's streams are small, and no streams are opened that way.
pub const CONTROL_CONNECTION_WINDOW_BYTES: u32 =
    CONTROL_STREAM_WINDOW_BYTES * (1 + CONTROL_BULK_STREAMS_MAX + 1);

/// Asked for as the listener's socket buffers, each way. The kernel grants at most
/// `net.core.rmem_max` and `net.core.wmem_max`. With its default of 208 KiB a fleet that
/// reconnects at once loses most of its handshake packets and takes ten times as long.
pub const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Handshakes begun and not yet handed out by [`Listener::accept`](crate::Listener::accept).
pub(crate) const INCOMING_MAX: usize = 8192;

/// Bytes kept for one of those, and for all of them together.
pub(crate) const INCOMING_BYTES: u64 = 16 * 1024;
pub(crate) const INCOMING_BYTES_TOTAL: u64 = 32 * 1024 * 1024;

/// A packet of a connection that the listener does not know (it restarted) is answered with a
/// reset at most this often.
pub(crate) const RESET_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) const CONTROL_PRIORITY: i32 = 1;
pub(crate) const BULK_PRIORITY: i32 = 0;
pub(crate) const BACKGROUND_PRIORITY: i32 = -1;

/// Which end of a connection is being set up.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Dialer,
    Listener,
}

pub(crate) fn transport(end: End, wanted: Wanted) -> Arc<TransportConfig> {
    let bounds = match wanted {
        Wanted::Only(_) => AGENTS,
        Wanted::Control => CONTROL,
    };
    let idle = IdleTimeout::try_from(bounds.idle).expect("some seconds fit QUIC's 62 bits of ms");
    let (keep_alive, bidirectional, welcomes) = match end {
        End::Dialer => (Some(bounds.keep_alive), bounds.to_dialer, 1),
        End::Listener => (None, bounds.to_listener + 1, 0),
    };
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(keep_alive)
        .initial_rtt(ROUND_TRIP_GUESS)
        .max_concurrent_bidi_streams(VarInt::from_u32(bidirectional))
        .max_concurrent_uni_streams(VarInt::from_u32(welcomes))
        .stream_receive_window(VarInt::from_u32(bounds.stream_window))
        .receive_window(VarInt::from_u32(bounds.connection_window))
        .send_window(u64::from(bounds.connection_window))
        .datagram_receive_buffer_size(None);
    Arc::new(config)
}

pub(crate) fn answer_limit(wanted: Wanted) -> Duration {
    match wanted {
        Wanted::Only(_) => ANSWER_LIMIT,
        Wanted::Control => CONTROL_ANSWER_LIMIT,
    }
}

/// What one kind of peers may use of the other side.
struct Bounds {
    keep_alive: Duration,
    idle: Duration,
    /// Bulk streams that the other side may have open, by which end it is.
    to_dialer: u32,
    to_listener: u32,
    stream_window: u32,
    connection_window: u32,
}

const AGENTS: Bounds = Bounds {
    keep_alive: KEEP_ALIVE,
    idle: IDLE_TIMEOUT,
    to_dialer: BULK_STREAMS_TO_DIALER_MAX,
    to_listener: BULK_STREAMS_TO_LISTENER_MAX,
    stream_window: STREAM_WINDOW_BYTES,
    connection_window: CONNECTION_WINDOW_BYTES,
};

const CONTROL: Bounds = Bounds {
    keep_alive: CONTROL_KEEP_ALIVE,
    idle: CONTROL_IDLE_TIMEOUT,
    to_dialer: 0,
    to_listener: CONTROL_BULK_STREAMS_MAX,
    stream_window: CONTROL_STREAM_WINDOW_BYTES,
    connection_window: CONTROL_CONNECTION_WINDOW_BYTES,
};
