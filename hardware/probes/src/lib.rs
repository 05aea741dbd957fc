//! Asking the machine itself: what takes time, may hang, costs writes, or needs a process or a socket.
//!
//! [`hardware`] reads and judges what somebody hands it; here is who fetches that. Every probe has a time
//! limit and a budget of bytes, and one that fails costs its own fact, which then says why.

pub mod clock;
mod filling;
mod machine;
pub mod measure;
mod nvme;
mod process;
mod profile;
mod space;
mod tools;

pub use filling::{Filling, Forecast};
pub use machine::Probes;
pub use profile::{MEASURED, measured_things, profile_of, read_profile};
pub use space::{Answer, Space, Spaces};
