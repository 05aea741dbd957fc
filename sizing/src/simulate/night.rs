//! What became of a night.

use protocol::run::RunState;
use protocol::{DurationMs, RunId, WallMs};

/// Hosts and jobs are named by their place in the scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Night {
    /// In the order in which they were admitted.
    pub runs: Vec<RunNight>,
    pub hosts: Vec<HostNight>,
    /// Every attempt, in the order of their ends.
    pub spans: Vec<Span>,
    /// What somebody asked for and did not get, and why.
    pub refused: Vec<String>,
    /// Attempts whose host was lost under them.
    pub lost: u32,
    /// Attempts that their time-out ended.
    pub timed_out: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunNight {
    pub run_id: RunId,
    pub job: usize,
    /// The arrival that asked for it; none of one that its schedule fired.
    pub arrival: Option<usize>,
    pub fire_time: WallMs,
    pub admitted: WallMs,
    pub started: Option<WallMs>,
    /// When it came to an end or to a person.
    pub ended: Option<WallMs>,
    pub state: RunState,
    pub shards: u32,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNight {
    pub slots: u32,
    /// All its attempts together.
    pub busy: DurationMs,
    /// Most attempts at once.
    pub peak: u32,
}

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub host: usize,
    pub job: usize,
    pub run: RunId,
    pub shard: u32,
    pub from: WallMs,
    pub until: WallMs,
}

impl RunNight {
    /// From when it was due until its first process began.
    pub fn wait(&self) -> Option<DurationMs> {
        self.started.map(|at| at - self.fire_time)
    }

    /// From when it was due to its end.
    pub fn makespan(&self) -> Option<DurationMs> {
        self.ended.map(|at| at - self.fire_time)
    }
}

impl Night {
    /// From the first process to the last.
    pub fn worked(&self) -> Option<(WallMs, WallMs)> {
        let from = self.spans.iter().map(|span| span.from).min()?;
        let until = self.spans.iter().map(|span| span.until).max()?;
        Some((from, until))
    }

    pub fn count(&self, state: RunState) -> usize {
        self.runs.iter().filter(|run| run.state == state).count()
    }

    /// Work done by what could have been done on these slots from the first process to the last; 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let Some((from, until)) = self.worked() else {
            return 0.0;
        };
        let slots: u64 = self.hosts.iter().map(|host| u64::from(host.slots)).sum();
        let busy: i64 = self.hosts.iter().map(|host| host.busy.0).sum();
        let room = slots as f64 * (until - from).0 as f64;
        if room > 0.0 { busy as f64 / room } else { 0.0 }
    }
}
