//! Reading and writing rows: what the commands share. Each write also notes the row's after-image
//! in the outcome.

pub(crate) mod agent;
pub(crate) mod alert;
pub(crate) mod attempt;
pub(crate) mod control_machines;
pub(crate) mod held;
pub(crate) mod host;
pub(crate) mod job;
pub(crate) mod join;
pub(crate) mod record;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod shard;
pub(crate) mod token;
