//! What a fleet can carry: nights that have not happened yet, and what to buy for them.
//!
//! Advice that comes from another model than the one that schedules is a guess about the scheduler.
//! So [`simulate`] runs the coordinator's own core over a ledger in memory, on a clock that is
//! nothing but a number: fires, waiting, line, placing, retries, take-overs and every refusal are
//! those of a real night, and only hosts and programs are made up: how long an attempt lasts is what
//! has been learned of its job.
//!
//! | module | answers |
//! |---|---|
//! | [`scenario`] | which hosts there are, which jobs, how long they last, what happens when |
//! | [`simulate`] | what becomes of it |
//! | [`history`] | what was seen of hosts and jobs |
//! | [`report`] | what is advised by it: shards, windows, hosts, control machines, what to buy |
//! | [`plan_night`] | the next night as a scenario |
//! | [`check_predictions`] | how well nights that have been are told |
//! | [`what_if`] | what a file would have otherwise, and what that comes to |
//! | [`trace`] | nights that others had, in the Standard Workload Format, and their replay |
//!
//! Pure: no clock, no file; the same scenario with the same seed is the same night.

mod draw;
pub mod history;
mod plan;
mod predict;
pub mod report;
pub mod scenario;
pub mod simulate;
pub mod trace;
pub mod what_if;

pub use history::History;
pub use plan::{PlannedNight, plan_night};
pub use predict::{Accuracy, Prediction, check_predictions, spans_to_see};
pub use scenario::Scenario;
pub use simulate::{Night, simulate};
