//! `matins import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
#[command(after_help = "\
Every job begins paused. Importing again finds the same jobs: files that you
have edited are kept while their source says the same, and are never overwritten
without --force.

Exit status: 0, or 1 where something in the source could not be read; what could
was written all the same.")]
pub(crate) struct Import {
    /// What the files are of
    #[arg(value_name = "FROM", value_enum)]
    pub(crate) from: ImportFrom,
    /// Files to read; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Directory of the manifests, and of report.json with an account of every line
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Zone of schedules that name none themselves, such as Asia/Shanghai
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// Whether crontabs name a user before each command
    #[arg(long, value_name = "ANSWER", value_enum, default_value_t)]
    pub(crate) user_field: UserField,
    /// Whose crontab it is, where it does not say
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Team or person who is asked about the jobs
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// Namespace of jobs of which the source names none [default: cron, default,
    /// xxl or quartz]
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Overwrite files that were edited or that no import wrote
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFrom {
    /// Crontabs, of the system or of users
    Crontab,
    /// CronJobs of Kubernetes, YAML or JSON
    K8s,
    /// A dump of xxl-job's database
    Xxl,
    /// Quartz: its XML, or a dump of its tables
    Quartz,
}

impl ImportFrom {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ImportFrom::Crontab => "crontab",
            ImportFrom::K8s => "k8s",
            ImportFrom::Xxl => "xxl",
            ImportFrom::Quartz => "quartz",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum UserField {
    /// As in /etc/crontab and /etc/cron.d
    Yes,
    /// As in `crontab -l`
    No,
    /// By evidence; where the lines disagree, you are asked
    #[default]
    Detect,
}
