//! The binary as people and programs meet it: what it prints, where, and how it ends.

// Helpers of tests are no tests to clippy.
#![allow(clippy::unwrap_used)]

mod access;
mod asking;
mod dev;
mod hardware;
mod hosts;
mod import;
mod leader;
mod manifests;
mod memory;
mod next;
mod parts;
mod patience;
mod place;
mod plan;
mod schema;
mod sizing;
mod usage;
