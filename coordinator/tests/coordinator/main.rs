//! A coordinator run for real on loopback: HTTP on one side, scripted agents over QUIC on the other.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

mod access;
mod agent;
mod agents;
mod fires;
mod garbage;
mod heads;
mod hostile;
mod house;
mod lifecycle;
mod outputs;
mod pages;
mod requests;
mod slow;
mod watched;
mod wishes;
