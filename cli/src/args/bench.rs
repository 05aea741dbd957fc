//! Measuring.

use clap::Subcommand;

use super::Text;

#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Next fires of usual schedules, and manifests parsed, on one core
    Next {
        /// How the answer is written
        #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
        output: Text,
    },
}
