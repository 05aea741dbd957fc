//! Both ends over real loopback.

mod handshakes;
mod identities;
mod pair;
mod streams;
