//! What is advised, and why.

mod classes;
mod control;
mod job;

pub use classes::{ClassReport, Dimension, Purchase, in_words, report_classes};
pub use control::{
    ControlReport, LEASE_BYTES, LEDGER_SYNCS, RUN_BYTES, bytes_in_words, report_control,
};
pub use job::{JobReport, ShardAdvice, Skew, WindowFit, report_job};

use serde::Serialize;

use crate::history::History;

/// Everything that is said of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub jobs: Vec<JobReport>,
    pub classes: Vec<ClassReport>,
    pub control: ControlReport,
    pub purchases: Vec<Purchase>,
}

pub fn report(history: &History) -> Report {
    let classes = report_classes(history);
    let control = report_control(history);
    let mut purchases: Vec<Purchase> = classes.iter().filter_map(Purchase::of_class).collect();
    purchases.push(Purchase::of_control(&control));
    Report {
        jobs: history
            .jobs
            .iter()
            .map(|job| report_job(job, history))
            .collect(),
        classes,
        control,
        purchases,
    }
}
