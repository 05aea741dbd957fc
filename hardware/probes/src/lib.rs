//! Asking the machine itself: what takes time, may hang, costs writes, or needs a process or a socket.
//!
//! [`hardware`] reads and judges what somebody hands it; here is who fetches that. Every probe has a time
//! limit and a budget of bytes, and one that fails costs its own fact, which then says why.

pub mod clock;
pub mod measure;
mod profile;

pub use profile::{MEASURED, read_profile};
