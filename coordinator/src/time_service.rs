//! This machine's time service, asked every second on a thread of its own: an answer may be a second in
//! coming, and nobody who decides waits for that.

use std::io;
use std::net::SocketAddr;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

use coordinator_core::clock::service::{Keeping, ServiceWord};
use hardware::facts::ClockVerdict;
use probes::clock::{ClockLook, ClockWatch, Seen, Source, StepWatch, host_clock, verdict_word};
use protocol::BootMs;
use protocol::host::HostClock;
use tokio::sync::watch;

use crate::clock::read_boot;
use crate::consensus::Group;

const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long a core that is to lead waits for the first answer: it may be that this clock is wrong.
const FIRST_ANSWER: Duration = Duration::from_millis(1_500);

/// A step of this size is worth a warning, in nanoseconds; the gate's own log has those of a second.
const STEP_WARNED_NS: i64 = 100_000_000;

/// Who is asked how this machine's clock is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeService {
    /// Nobody: what a clock is worth, others say, or nobody does.
    Unasked,
    /// chronyd at the first of these addresses that answers; else `chronyc`, else the kernel.
    Chronyd(Vec<SocketAddr>),
}

impl TimeService {
    /// chronyd where it listens unless it is told otherwise.
    pub fn on_loopback() -> TimeService {
        TimeService::Chronyd(probes::clock::default_addresses())
    }
}

/// What was said last, and when.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) word: ServiceWord,
    /// The same in the words in which hosts tell of theirs.
    pub(crate) clock: HostClock,
    pub(crate) at: BootMs,
}

/// Follows what the time service says; `None` until it has said anything.
pub(crate) type Saying = watch::Receiver<Option<Said>>;

/// Begins to ask, until nobody listens any more. Of [`TimeService::Unasked`] nothing is ever said.
pub(crate) fn ask(of: TimeService) -> io::Result<Saying> {
    let (say, saying) = watch::channel(None);
    let TimeService::Chronyd(addresses) = of else {
        return Ok(saying);
    };
    let asker = thread::Builder::new().name("time-service".to_owned());
    asker.spawn(move || {
        let mut clock = ClockWatch::new(addresses);
        let mut steps = StepWatch::default();
        let mut told = None;
        while !say.is_closed() {
            log_step(steps.look());
            let look = clock.look();
            if told.replace(look.verdict) != Some(look.verdict) {
                log_verdict(&look);
            }
            let at = read_boot();
            say.send_replace(Some(Said {
                word: word(&look),
                clock: host_clock(&look, &steps, at),
                at,
            }));
            thread::sleep(ASK_EVERY);
        }
    })?;
    Ok(saying)
}

/// What was said last; where it is asked and has not answered yet, that is waited for, not long.
pub(crate) async fn first_word(saying: &Saying) -> Option<ServiceWord> {
    let mut saying = saying.clone();
    let heard = saying.wait_for(Option::is_some);
    match tokio::time::timeout(FIRST_ANSWER, heard).await {
        Ok(Ok(said)) => said.as_ref().map(|said| said.word.clone()),
        // It is not asked, or is slow.
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Tells the other control machines how this one's clock is kept, whenever that was found out.
pub(crate) async fn tell(group: Weak<Group>, mut saying: Saying) {
    while saying.changed().await.is_ok() {
        let Some(group) = group.upgrade() else {
            return;
        };
        let kept = saying
            .borrow_and_update()
            .as_ref()
            .map(|said| said.clock.clone());
        group.tell(|condition| condition.kept = kept);
    }
}

fn word(look: &ClockLook) -> ServiceWord {
    ServiceWord {
        keeping: match look.verdict {
            ClockVerdict::Synchronised => Keeping::Synchronised,
            ClockVerdict::FreeRunning => Keeping::FreeRunning,
            ClockVerdict::Unsynchronised => Keeping::Unsynchronised,
        },
        // What is to be added to a clock that is slow.
        ahead_us: look.correction_us.map(i64::saturating_neg),
        // The kernel's grows by half a millisecond a second between any two words of who keeps the clock:
        // it is no estimate, and would shut the gate on machines that are asked for the time rarely.
        bound_us: look.bound_us.filter(|_| look.source != Source::Kernel),
        reason: look.said(),
    }
}

fn log_verdict(look: &ClockLook) {
    let (verdict, source) = (verdict_word(look.verdict), look.source.as_str());
    let why = look.said();
    tracing::info!(verdict, source, why, "how this machine's clock is kept");
}

fn log_step(seen: Seen) {
    if let Some(step) = seen.step {
        let (by_us, leap_second) = (step.by_ns / 1_000, step.leap_second);
        if step.by_ns.abs() >= STEP_WARNED_NS {
            tracing::warn!(by_us, leap_second, "the wall clock was set");
        } else {
            tracing::info!(by_us, leap_second, "the wall clock was set");
        }
    }
}
