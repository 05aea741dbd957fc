//! What a job is and when it is due: manifests, cron expressions, time zones.
//!
//! Everything here is pure. A [`Schedule`] answers which instants it names between two instants
//! it is given; whether one of them has come is for others to judge. A [`Manifest`] is what a
//! job's owner hands over; past [`parse_manifests`] it cannot be wrong in any way that shows
//! without running it.

mod duration;
pub mod manifest;
mod nearest;
pub mod schedule;
mod shown;
mod size;

pub use duration::{DurationError, parse_duration};
pub use manifest::{
    After, Begins, CatchUp, FireContext, Manifest, ManifestJsonError, Misfire, MisfirePolicy,
    Needs, Overlap, ParamError, Params, Previous, Problem, Serial, Shards, Which, manifest_schema,
    parse_manifests, show_milli,
};
pub use nearest::nearest;
pub use schedule::{
    ClockNote, Dialect, DialectError, Explanation, Face, Instant, Missed, Schedule, ScheduleError,
    ScheduleSpec, Warning, tzdata_version,
};
pub use shown::shown;
pub use size::{SizeError, parse_size, show_size_roughly};
