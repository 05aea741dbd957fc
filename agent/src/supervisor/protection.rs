//! The agent and its supervisor must live and be heard while the attempts they started use a host
//! up. Where they may, they put themselves before everything else; attempts never inherit that.

use std::fs;
use std::io;

use super::sys::{self, Resource};

/// The kernel kills these two last when memory is used up. -1000 would mean never, and a defect
/// of ours that eats memory must not take the host with it.
const OWN_OOM_SCORE: i32 = -900;

/// Attempts go before whatever else runs on the host. Anybody may raise the score, so that this
/// also protects an agent that may not lower its own.
const ATTEMPT_OOM_SCORE: i32 = 200;

/// What nobody misses goes first of all.
const FIRST_OOM_SCORE: i32 = 1000;

/// Before attempts go those who look at the host: they look again.
const LOOK_OOM_SCORE: i32 = 300;
const LOOK_NICENESS: i32 = 10;

const LOWEST_PRIORITY: i32 = 19;

/// A beat must be sent and a deadline kept when every processor has a queue.
const OWN_NICENESS: i32 = -5;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// How this process was started, before it was given precedence: attempts are started the same.
pub(super) struct Inherited {
    files: Option<(u64, u64)>,
    niceness: i32,
    oom_score: i32,
}

/// Gives this process precedence over attempts, as far as it may take it.
pub(crate) fn protect_from_attempts() {
    protect();
}

/// Puts this process, a child of the agent's that looks at the host, behind the attempts: what it asks of processors
/// and disks waits for them, and it goes before them when memory is used up.
pub(crate) fn yield_to_attempts() {
    if sys::niceness() < LOOK_NICENESS
        && let Err(error) = sys::set_niceness(LOOK_NICENESS)
    {
        tracing::info!(%error, "not behind the attempts");
    }
    let is_lower = |score: i32| score < LOOK_OOM_SCORE;
    if read_oom_score().is_none_or(is_lower)
        && let Err(error) = write_oom_score(LOOK_OOM_SCORE)
    {
        tracing::info!(%error, "not the first to go when memory is used up");
    }
    sys::yield_disk();
}

/// Puts this process, a child of the agent's that is in no hurry and takes much memory, behind everybody
/// else. It keeps its turn at the disk, as far as niceness leaves it: one that waits for all others is measured
/// slower than it is.
pub(crate) fn yield_to_everybody() {
    let results = [
        sys::set_niceness(LOWEST_PRIORITY),
        write_oom_score(FIRST_OOM_SCORE),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        tracing::info!(%error, "not behind everybody else");
    }
}

pub(super) fn protect() -> Inherited {
    let inherited = Inherited {
        files: sys::limit(Resource::Files).ok(),
        niceness: sys::niceness(),
        oom_score: read_oom_score().unwrap_or(0),
    };
    let tell = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            tracing::info!(what, %error, "no precedence over attempts: it would take more rights");
        }
    };
    if inherited.oom_score > OWN_OOM_SCORE {
        tell("memory", write_oom_score(OWN_OOM_SCORE));
    }
    if inherited.niceness > OWN_NICENESS {
        tell("processors", sys::set_niceness(OWN_NICENESS));
    }
    // A few descriptors for each attempt.
    if let Some((soft, hard)) = inherited.files.filter(|(soft, hard)| soft < hard) {
        let raised = sys::set_limit(Resource::Files, (hard, hard));
        tell(
            "descriptors",
            raised.map_err(|e| io::Error::other(format!("{e} (of {soft})"))),
        );
    }
    inherited
}

impl Inherited {
    /// Takes all precedence from a child that is to become an attempt.
    ///
    /// Nor does it leave a core file by itself: its working directory goes when it ends, and what
    /// was in memory with it. It may raise that limit again.
    pub(super) fn shed(&self) {
        let attempts = self.oom_score.max(ATTEMPT_OOM_SCORE);
        let shed = [
            write_oom_score(attempts),
            sys::set_niceness(self.niceness),
            match self.files {
                Some(files) => sys::set_limit(Resource::Files, files),
                None => Ok(()),
            },
            sys::limit(Resource::CoreBytes)
                .and_then(|(_, hard)| sys::set_limit(Resource::CoreBytes, (0, hard))),
        ];
        for error in shed.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "an attempt is started with the precedence of its supervisor");
        }
    }
}

fn read_oom_score() -> Option<i32> {
    fs::read_to_string(OOM_SCORE).ok()?.trim().parse().ok()
}

fn write_oom_score(score: i32) -> io::Result<()> {
    fs::write(OOM_SCORE, score.to_string())
}
