//! The clock of this machine: who keeps it, how well, and whether somebody set it.
//!
//! Asked are, in order, chronyd itself, `chronyc`, and the kernel; the first that answers is believed,
//! and why those before it did not stands beside what it says. chronyd knows how far the clock is off
//! and whom it listens to, the kernel hardly more than that somebody keeps it. So where chronyd has been
//! heard and is heard no more, the kernel's word is its own last one, and no word on now.

mod chronyc;
mod chronyd;
mod judge;
mod kernel;
mod steps;

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use hardware::facts::{ClockFacts, ClockVerdict};
use hardware::{Fact, Facts, Item, Tracking, judge_clock};
use protocol::host::{ClockStep, HostClock};
use protocol::{BootMs, DurationMs};

pub use chronyc::ChronycError;
pub use chronyd::{AskError, default_addresses};
pub use kernel::{KernelClock, read_kernel_clock};
pub use steps::{Reading, Seen, Step, StepMeter, StepTimer, read_clocks};

use judge::Steady;

use crate::profile::shortened;

/// Where there was no answer from chronyc, it is not started again before this.
const CHRONYC_RESTS: Duration = Duration::from_secs(60);

/// Who says how the clock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Chronyd,
    Chronyc,
    Kernel,
    Nobody,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chronyd => "chronyd",
            Self::Chronyc => "chronyc",
            Self::Kernel => "kernel",
            Self::Nobody => "nobody",
        }
    }
}

/// What one look at the clock showed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockLook {
    pub source: Source,
    pub verdict: ClockVerdict,
    /// Microseconds that the clock is slow (above 0) or fast.
    pub correction_us: Option<i64>,
    /// How wrong it can be at most, in microseconds: drift since the reference was heard included.
    pub bound_us: Option<i64>,
    /// What the verdict rests on, as half a sentence of which the clock is the subject.
    pub reason: String,
    /// Its reference has died: no second look is needed to believe that.
    pub stale: bool,
    /// Why those who know more said nothing.
    pub silent: Vec<String>,
    /// What chronyd told, where it did.
    pub tracking: Option<Tracking>,
}

impl ClockLook {
    /// The reason, and why nobody who knows more was heard.
    pub fn said(&self) -> String {
        let silent = self.silent.iter().map(|why| format!("; {why}"));
        format!("{}{}", self.reason, silent.collect::<String>())
    }

    /// As an item of a machine's report.
    pub fn item(&self) -> Item {
        let in_s = |us: i64| us as f64 / 1e6;
        let (correction, bound) = (self.correction_us.map(in_s), self.bound_us.map(in_s));
        let (health, _) = judge_clock(Some(self.verdict), correction, bound);
        let unknown = || Fact::Unknown(format!("{} does not tell", self.source.as_str()).into());
        let tracking = self.tracking.as_ref();
        let reference = tracking.map(|tracking| &tracking.reference);
        let facts = ClockFacts {
            verdict: Fact::Known(self.verdict),
            correction_s: correction.map_or_else(unknown, Fact::Known),
            bound_s: bound.map_or_else(unknown, Fact::Known),
            stratum: tracking
                .and_then(|tracking| tracking.stratum)
                .map_or_else(|| Fact::Unknown(self.not_told()), Fact::Known),
            leap: tracking
                .and_then(|tracking| tracking.leap)
                .map_or_else(|| Fact::Unknown(self.not_told()), Fact::Known),
            reference: reference
                .filter(|reference| !reference.is_empty())
                .map_or_else(
                    || Fact::Unknown(self.not_told()),
                    |it| Fact::Known(it.clone()),
                ),
        };
        Item {
            id: self.source.as_str().to_owned(),
            health,
            reason: self.said(),
            facts: Facts::Clock(facts),
        }
    }

    fn not_told(&self) -> hardware::Why {
        format!("{} does not tell", self.source.as_str()).into()
    }
}

/// Looks at the clock again and again.
#[derive(Debug)]
pub struct ClockWatch {
    addresses: Vec<SocketAddr>,
    /// Of the next question: an answer to an earlier one is none to this.
    sequence: u32,
    /// Why chronyc did not answer, and when.
    chronyc_silent: Option<(Instant, String)>,
    /// chronyd keeps this clock, or did: it has been heard.
    chronyd_heard: bool,
    steady: Steady,
}

impl ClockWatch {
    /// `addresses`: where chronyd is looked for, in order.
    pub fn new(addresses: Vec<SocketAddr>) -> ClockWatch {
        ClockWatch {
            addresses,
            sequence: std::process::id(),
            chronyc_silent: None,
            chronyd_heard: false,
            steady: Steady::default(),
        }
    }

    /// Asks who knows. Takes a second for each address at the longest, and one for chronyc.
    pub fn look(&mut self) -> ClockLook {
        let look = self.ask();
        self.steady.take(look)
    }

    fn ask(&mut self) -> ClockLook {
        let mut silent = Vec::new();
        for &address in &self.addresses {
            self.sequence = self.sequence.wrapping_add(0x100);
            match chronyd::ask(address, self.sequence) {
                Ok(told) => {
                    self.chronyd_heard = true;
                    return judge::of_chronyd(&told, wall_s());
                }
                Err(error) => silent.push(with_sources(&error)),
            }
        }
        if !silent.is_empty() {
            silent = vec![format!("chronyd is not there: {}", silent.join(", "))];
        }
        match self.ask_chronyc() {
            Ok(tracking) => {
                self.chronyd_heard = true;
                let look = judge::of_tracking(&tracking, Source::Chronyc, wall_s());
                return ClockLook { silent, ..look };
            }
            Err(why) => silent.push(why),
        }
        let look = match read_kernel_clock() {
            Ok(kernel) if self.chronyd_heard => judge::left_by_chronyd(judge::of_kernel(kernel)),
            Ok(kernel) => judge::of_kernel(kernel),
            Err(error) => ClockLook {
                source: Source::Nobody,
                verdict: ClockVerdict::Unsynchronised,
                correction_us: None,
                bound_us: None,
                reason: format!("the kernel tells nothing of it: {error}"),
                stale: false,
                silent: Vec::new(),
                tracking: None,
            },
        };
        ClockLook { silent, ..look }
    }

    fn ask_chronyc(&mut self) -> Result<Tracking, String> {
        if let Some((at, why)) = &self.chronyc_silent
            && at.elapsed() < CHRONYC_RESTS
        {
            return Err(why.clone());
        }
        chronyc::ask().map_err(|error| {
            let why = with_sources(&error);
            self.chronyc_silent = Some((Instant::now(), why.clone()));
            why
        })
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text = format!("{text}: {error}");
        below = error.source();
    }
    text
}

fn wall_s() -> f64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0.0, |time| time.as_secs_f64())
}

/// Watches for steps; to be looked at every second.
#[derive(Debug)]
pub struct StepWatch {
    /// None where the kernel gives none: then two steps that undo each other are not seen.
    timer: Option<StepTimer>,
    meter: StepMeter,
    last: Option<Step>,
}

impl Default for StepWatch {
    fn default() -> StepWatch {
        StepWatch {
            timer: StepTimer::new().ok(),
            meter: StepMeter::default(),
            last: None,
        }
    }
}

impl StepWatch {
    pub fn look(&mut self) -> Seen {
        let seen = self.meter.handle_reading(read_clocks(self.timer.as_ref()));
        // What is too small to be measured is no news to who asks for the last.
        self.last = seen.step.filter(|step| step.by_ns != 0).or(self.last);
        seen
    }

    /// How fast the clock is being steered, in parts per million; above 0 it runs fast.
    fn steered_ppm(&self) -> Option<i64> {
        self.meter.slew_ppm().map(|ppm| ppm.round() as i64)
    }

    /// The last step there was, and how long ago it was seen.
    fn last(&self, now: BootMs) -> Option<ClockStep> {
        let step = self.last?;
        Some(ClockStep {
            by_us: step.by_ns / 1_000,
            ago: DurationMs((now.0 - step.boottime_ns / 1_000_000).max(0)),
        })
    }
}

/// What a host tells of its clock with its beats.
pub fn host_clock(look: &ClockLook, steps: &StepWatch, now: BootMs) -> HostClock {
    HostClock {
        verdict: verdict_word(look.verdict).to_owned(),
        correction_us: look.correction_us,
        bound_us: look.bound_us,
        source: look.source.as_str().to_owned(),
        reason: shortened(look.said()),
        steered_ppm: steps.steered_ppm(),
        step: steps.last(now),
    }
}

/// One of [`protocol::host::CLOCK_VERDICTS`].
pub fn verdict_word(verdict: ClockVerdict) -> &'static str {
    match verdict {
        ClockVerdict::Synchronised => "synchronised",
        ClockVerdict::FreeRunning => "free-running",
        ClockVerdict::Unsynchronised => "unsynchronised",
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn where_chronyd_is_not_the_next_is_asked_and_why_is_told() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap();
        drop(taken);
        let look = ClockWatch::new(vec![address]).look();
        assert_ne!(look.source, Source::Chronyd);
        let why = format!("chronyd is not there: nothing listens on {address}");
        assert!(look.said().contains(&why), "{}", look.said());
    }

    #[test]
    fn the_words_are_those_of_the_protocol() {
        use ClockVerdict::{FreeRunning, Synchronised, Unsynchronised};
        let words = [Synchronised, FreeRunning, Unsynchronised].map(verdict_word);
        assert_eq!(words, protocol::host::CLOCK_VERDICTS);
    }

    #[test]
    fn what_is_told_with_beats_is_short() {
        let long = "\u{e4}".repeat(1000);
        let short = shortened(long);
        assert_eq!(short.len(), protocol::host::FACT_TEXT_BYTES_MAX);
    }
}
