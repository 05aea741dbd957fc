//! One night, on a clock that is a number.

mod night;
mod world;

use ledger::{Store, StoreError};
use protocol::{JobName, Rules};

pub use night::{HostNight, Night, RunNight, Span};

use crate::scenario::Scenario;

/// Why there is no night to tell of.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error("keeping the ledger of a simulated night")]
    Ledger(#[from] StoreError),
    #[error("the simulated coordinator refused the host `{host}`: {reason}")]
    Host { host: String, reason: String },
    #[error("the simulated coordinator refused what the host `{host}` was found to be: {reason}")]
    Facts { host: String, reason: String },
    #[error("the simulated coordinator refused the job `{}`: {reason}", job.as_str())]
    Job { job: JobName, reason: String },
    #[error("the simulated coordinator refused the resource `{resource}`: {reason}")]
    Resource { resource: String, reason: String },
    #[error("the simulated coordinator gave up its lead: {0}")]
    Deposed(&'static str),
}

/// Lets the night happen. Costs about a hundred microseconds a lease.
pub fn simulate(scenario: &Scenario) -> Result<Night, SimulateError> {
    simulate_over(Store::open_in_memory(Rules::all())?, scenario)
}

/// The same over an empty ledger of the caller's, to see what is left in it.
pub fn simulate_over(store: Store, scenario: &Scenario) -> Result<Night, SimulateError> {
    let mut world = world::World::new(store, scenario)?;
    world.set_up()?;
    world.pass()?;
    Ok(world.into_night())
}
