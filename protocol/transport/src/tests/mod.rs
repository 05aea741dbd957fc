//! Both ends over real loopback.

mod handshakes;
mod https;
mod identities;
mod pair;
mod streams;
