//! What is thought of the clock, and how it is said.

use std::fmt;

use protocol::DurationMs;

/// How this clock differs from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Negative where this clock is behind.
    pub ahead: DurationMs,
    pub from: Others,
}

/// Whose clocks this one was held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// So many hosts, which agree with each other.
    Hosts(usize),
    /// So many other control machines, which agree with each other.
    ControlMachines(usize),
    /// One node, and there is nobody to say which of the two is right.
    Node(u64),
    /// What this machine's own time service takes for the right time.
    TimeService,
    /// The same, which does not say that it is off, but that it may be by so much.
    TimeServiceAtMost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Trusted,
    /// Nobody is there to compare with; it fires.
    NoReference,
    /// It differs, but not so much that it must not fire.
    Warned(Difference),
    /// Nothing fires, and nothing sets a watermark.
    Held(Doubt),
}

/// Why the clock is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It was set; if it stands still, it is believed after this long yet.
    Stepped {
        remaining: DurationMs,
    },
    /// The machine was started, and the hosts have not spoken since; they have this long yet.
    Unheard {
        remaining: DurationMs,
    },
    Contradicted(Difference),
    /// It differs from the only other one that is heard.
    Divided(Difference),
}

impl Verdict {
    pub fn may_fire(self) -> bool {
        !matches!(self, Verdict::Held(_))
    }
}

/// What people are told of how far a clock is ahead; of much, no fractions.
pub(super) fn in_words(ahead: DurationMs) -> (DurationMs, &'static str) {
    const MUCH: i64 = 10_000;
    let by = ahead.0.saturating_abs();
    let by = if by < MUCH {
        by
    } else {
        by.saturating_add(500) / 1_000 * 1_000
    };
    let way = if ahead.0 < 0 { "behind" } else { "ahead of" };
    (DurationMs(by), way)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, way) = in_words(self.ahead);
        if self.from == Others::TimeServiceAtMost {
            return write!(f, "wrong by up to {by}, as its own time service reckons");
        }
        write!(f, "{by} {way} ")?;
        match self.from {
            Others::Hosts(hosts) => write!(
                f,
                "the clocks of {hosts} hosts, which agree with each other"
            ),
            Others::ControlMachines(1) => write!(f, "the clock of another control machine"),
            Others::ControlMachines(machines) => write!(
                f,
                "the clocks of {machines} other control machines, which agree with each other"
            ),
            Others::Node(node) => write!(f, "the clock of node {node}"),
            Others::TimeService | Others::TimeServiceAtMost => {
                f.write_str("the time that its own time service takes for right")
            }
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Stepped { remaining } => write!(
                f,
                "was set, and is believed when it has stood still for another {remaining}"
            ),
            Doubt::Unheard { remaining } => write!(
                f,
                "has not been held against the hosts' since its machine was started; if they do not \
                 speak it is believed in {remaining}"
            ),
            Doubt::Contradicted(difference) => write!(f, "is {difference}"),
            Doubt::Divided(difference) => write!(
                f,
                "is {difference}, and there are neither a third control machine nor enough hosts to \
                 say which of the two is right"
            ),
        }
    }
}
