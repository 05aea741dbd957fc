//! How the host fares: gathered beside the agent, and told with its beats.
//!
//! Files of the kernel and questions to the time service can hold up whoever reads and asks. So it is
//! done on a thread of its own, and what was found last is what a beat tells.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use probes::clock::{ClockWatch, Seen, StepWatch, default_addresses, host_clock, verdict_word};
use protocol::host::HostNow;
use tokio::sync::mpsc;

use crate::clock::now;
use crate::load::LoadMeter;
use crate::run::Input;

/// Steps of the clock are looked for this often; it reads four clocks.
const STEPS_EVERY: Duration = Duration::from_secs(1);

/// The host is looked at whenever steps have been looked for so often.
const LOOK_AFTER: u32 = 5;

/// A step of this size is worth a warning, in nanoseconds.
const STEP_WARNED_NS: i64 = 100_000_000;

/// Begins to look, and goes on until nobody takes what is found.
pub(crate) fn watch(root: PathBuf, inputs: mpsc::Sender<Input>) -> io::Result<()> {
    let host = thread::Builder::new().name("host".to_owned());
    host.spawn(move || {
        let mut host = Host::new(&root);
        while !inputs.is_closed() {
            let found = host.look();
            if let Some(found) = found
                && inputs.blocking_send(Input::Host(found)).is_err()
            {
                return;
            }
            thread::sleep(STEPS_EVERY);
        }
    })?;
    Ok(())
}

struct Host {
    load: LoadMeter,
    steps: StepWatch,
    clock: ClockWatch,
    /// What of the clock was logged last.
    told: &'static str,
    /// Turns until the host is looked at again.
    rests: u32,
}

impl Host {
    fn new(root: &Path) -> Host {
        Host {
            load: LoadMeter::new(root),
            steps: StepWatch::default(),
            clock: ClockWatch::new(default_addresses()),
            told: "",
            rests: 0,
        }
    }

    fn look(&mut self) -> Option<HostNow> {
        let seen = self.steps.look();
        log(seen);
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        self.rests = LOOK_AFTER - 1;
        let look = self.clock.look();
        let verdict = verdict_word(look.verdict);
        if self.told != verdict {
            let (source, why) = (look.source.as_str(), look.said());
            tracing::info!(verdict, source, why, "how the clock of this host is kept");
            self.told = verdict;
        }
        Some(HostNow {
            clock: Some(host_clock(&look, &self.steps, now().boot)),
            load: self.load.read(),
            ..HostNow::default()
        })
    }
}

fn log(seen: Seen) {
    if let Some(suspended_ns) = seen.suspended_ns {
        let suspended_ms = suspended_ns / 1_000_000;
        tracing::warn!(suspended_ms, "this host was suspended");
    }
    let Some(step) = seen.step else {
        return;
    };
    let by_us = step.by_ns / 1_000;
    let leap_second = step.leap_second;
    if step.by_ns.abs() >= STEP_WARNED_NS {
        tracing::warn!(by_us, leap_second, "the clock of this host was set");
    } else {
        tracing::info!(by_us, leap_second, "the clock of this host was set");
    }
}
