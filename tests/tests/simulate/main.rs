//! The simulation: both cores and the real ledger, in a world with virtual time.
//!
//! Nothing here is real but what is under test: the coordinator's core, the ledger with its
//! SQLite, the agent's and the supervisor's machines. Machines, clocks, networks, processes and
//! people are modelled, and misfortune is drawn from a seed, so that a failure can be replayed.
//!
//! | where | what |
//! |---|---|
//! | `world` | everything around the cores |
//! | `transition` | everything that can happen, as one enum |
//! | `invariants` | what must hold, one file a promise |
//! | `random` | worlds drawn from seeds |
//! | `week` | a machine room for a week |
//! | `sequences` | the named orders of events, each proven by switching off its rule |
//!
//! `MATINS_SIM_SEEDS=n` draws n worlds instead of the usual number, beginning with seed
//! `MATINS_SIM_FIRST=s`, and `MATINS_SIM_SEED=s` replays one.

// Nobody but this program sees its items, and it talks to whoever runs it.
#![allow(unreachable_pub, clippy::print_stdout)]
// What is true of a machine or a process at a moment is many small facts.
#![allow(clippy::struct_excessive_bools)]

mod invariants;
mod random;
mod rng;
mod sequences;
mod transition;
mod week;
mod world;
