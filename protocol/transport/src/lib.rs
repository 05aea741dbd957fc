//! QUIC and TLS: how agents and coordinators reach each other, and how each knows the other.
//!
//! One connection carries one *control* stream (heartbeats, starts, receipts) and a few *bulk*
//! streams (output of jobs). Bulk can never hold up control: control goes first where both have
//! something to send, and the windows are sized so that bulk streams nobody reads leave room for
//! it (see [`settings`]).
//!
//! ```text
//! agent                                         coordinator
//! Dialer::connect ──── mutual TLS 1.3 ────▶ Listener::accept, Incoming::handshake
//!                 ◀──────── welcome ────────
//! open_control    ════════ control ═════════ accept_control     priority 1
//! accept_bulk     ════════ bulk 0..4 ═══════ open_bulk          priority 0
//! open_bulk       ════════ bulk 0..4 ═══════ accept_bulk        priority 0
//! ```
//!
//! Both sides show a certificate, and both check it: signature, dates, cluster and role. In TLS
//! 1.3 a client is done before the server has looked at the client's certificate, so a dialer
//! could believe itself connected and be thrown out a moment later. The listener therefore sends a
//! *welcome* (an empty stream) once it is content, and [`Dialer::connect`] answers only then: its
//! `Ok` means that both sides have agreed, its error says which side refused whom and why.
//!
//! Sessions are never resumed and nothing is sent before the handshake is done: each connection
//! checks the certificates afresh, and no message can be replayed.
//!
//! This crate decides nothing about sessions: a connection may come and go beneath a session that
//! lives on. It is the only one that names quinn and rustls.

pub mod ca;
mod connection;
mod dialer;
mod excerpt;
mod expiry;
mod files;
mod frame;
mod handshake;
pub mod https;
pub mod identity;
mod listener;
pub mod settings;
mod stream;
mod tls;

pub use connection::{CloseReason, Connection, StreamError};
pub use dialer::{ConnectError, Dialer};
pub use frame::{ReceiveError, SendError, encode as encode_frame};
pub use handshake::{CertificateProblem, HandshakeError};
pub use identity::{Identity, IdentityError, PeerName, Role, Unfit, Wanted};
pub use listener::{Incoming, ListenError, Listener};
pub use stream::{BulkReceiver, BulkSender, ControlReceiver, ControlSender};
pub use tls::TlsError;

#[cfg(test)]
mod tests;
