//! What a job is and when it is due: manifests, cron expressions, time zones.
//!
//! Everything here is pure. A [`Schedule`] answers which instants it names between two instants
//! it is given; whether one of them has come is for others to judge.

mod duration;
mod nearest;
pub mod schedule;

pub use duration::{DurationError, parse_duration};
pub use schedule::{Instant, Schedule, ScheduleError, ScheduleSpec, tzdata_version};
