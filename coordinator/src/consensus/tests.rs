//! The stores under openraft's own suite, which asks whether they keep its contract while they
//! live; and groups of one and of three, of which the process is killed, the power cut, the files
//! exchanged.

mod crashes;
mod draw;
mod group;
mod lan;
mod members;
mod network;
mod relay;
mod several;
pub(super) mod simulate;
mod stores;
