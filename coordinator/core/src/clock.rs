//! Whether the wall clock may be believed.
//!
//! The wall clock decides one thing, that a fire time has come, and a wrong one must make no job
//! fire early, twice or never. Three things are seen from here.
//!
//! A *step*: the wall clock minus the boot clock stays constant but for slow steering; when it jumps by
//! more than a second, somebody or something set the clock. Whether the old or the new time is right
//! a step alone does not tell, so nothing fires until the clock has stood still for a minute.
//!
//! A *disagreement*: where enough agents agree among themselves ([`hosts`]), they are a reference, and a
//! clock that is further from them than [`Thresholds::stop`] fires nothing, however it got there. One that
//! was contradicted goes on being held when those who did so fall silent: silence is no consent. A new
//! step is a new beginning.
//!
//! A *start of the machine*: what its clock showed before says nothing of what it shows now. Where the
//! ledger knows enough agents to be a reference, nothing fires until they have been one, or have had
//! [`FIRST_LOOK`] to speak. A reign that begins on a machine that has run since the one before goes on
//! from there: if the clock was set meanwhile, that is a step.
//!
//! What came due while the gate was shut is late, not lost: the trigger works from the watermark.
//!
//! | stepped within a minute | the fleet | verdict |
//! |---|---|---|
//! | yes | whatever it says | held |
//! | no | may yet speak, for the first time since the machine was started | held |
//! | no | is no reference, and has not contradicted this clock | fires, with a standing warning |
//! | no | agrees to within `warn` | fires |
//! | no | differs by more than `warn` | fires, and a person is told |
//! | no | differs by more than `stop`, or did before it fell silent | held, and a person is told |

pub mod hosts;

use std::fmt;

use ledger::command::AlertKind;
use protocol::{AgentId, BootMs, DurationMs, Now, WallMs};

use hosts::{Hosts, Reference};

/// A jump of the wall clock against the boot clock beyond this is a step.
pub const STEP: DurationMs = DurationMs(1_000);

/// How long the clock must stand still after a step.
pub const STAND_STILL: DurationMs = DurationMs(60_000);

/// How long the agents have to speak when the machine was started: they attach, and beat twice.
pub const FIRST_LOOK: DurationMs = DurationMs(30_000);

/// Fastest steering that is not a step, in parts per million. The kernel slews at up to 500 ppm
/// and adjusts its tick by up to 10 %; NTP stays far below this.
const STEERING_PPM: i64 = 1_000;

/// How often what the fleet says is looked at: it costs a walk over all agents.
const LOOK_EVERY: DurationMs = DurationMs(1_000);

/// How far from the fleet's clock this one may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Beyond this a person is told.
    pub warn: DurationMs,
    /// Beyond this nothing fires.
    pub stop: DurationMs,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            warn: DurationMs(100),
            stop: DurationMs(1_000),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ClockGate {
    thresholds: Thresholds,
    seen: Option<Seen>,
    held_until: Option<BootMs>,
    /// Until when the hosts are waited for, who have not spoken since the machine was started.
    unheard_until: Option<BootMs>,
    hosts: Hosts,
    looked_at: Option<BootMs>,
    says: FleetSays,
}

/// What is known of the wall clock when a reign begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It was read since the machine was started, and stood so.
    Seen(Now),
    /// It was not, and there are hosts to ask.
    Hosts,
    /// It was not, and nobody can be asked.
    Nobody,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    boot: BootMs,
    /// Wall minus boot, in milliseconds, as far as steering explains it.
    offset: i64,
}

/// What the fleet said when it was last a reference, if it is one or has contradicted this clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FleetSays {
    #[default]
    Nothing,
    Agrees,
    Differs(Difference),
    Contradicts(Difference),
}

/// How this clock differs from those of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Negative where this clock is behind.
    pub ahead: DurationMs,
    /// How many hosts agree with each other on that.
    pub agents: usize,
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
}

impl Seen {
    fn of(now: Now) -> Seen {
        Seen {
            boot: now.boot,
            offset: now.wall.0.saturating_sub(now.boot.0),
        }
    }
}

impl Verdict {
    pub fn may_fire(self) -> bool {
        !matches!(self, Verdict::Held(_))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, way) = match self.ahead {
            DurationMs(..0) => (DurationMs(-self.ahead.0), "behind"),
            ahead => (ahead, "ahead of"),
        };
        write!(
            f,
            "{by} {way} the clocks of {} hosts, which agree with each other",
            self.agents
        )
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
        }
    }
}

/// What of the clock a person has been told: of each doubt once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// This reign has not looked yet: who led before may have told of anything.
    #[default]
    NotKnown,
    Nothing,
    Differs,
    Stepped,
    Contradicted,
}

impl Told {
    /// What is to be told of a verdict that has not been, and what is over with it.
    pub(crate) fn note(
        &mut self,
        verdict: Verdict,
    ) -> (Option<(AlertKind, String)>, Vec<AlertKind>) {
        let told = match verdict {
            Verdict::Trusted | Verdict::NoReference => Told::Nothing,
            Verdict::Warned(_) => Told::Differs,
            // The hosts are on their way: no matter for a person, and nothing is over yet.
            Verdict::Held(Doubt::Unheard { .. }) => return (None, Vec::new()),
            Verdict::Held(Doubt::Stepped { .. }) => Told::Stepped,
            Verdict::Held(Doubt::Contradicted(_)) => Told::Contradicted,
        };
        let before = std::mem::replace(self, told);
        if before == told {
            return (None, Vec::new());
        }
        let text = match verdict {
            Verdict::Trusted | Verdict::NoReference => None,
            Verdict::Warned(difference) => Some(format!(
                "the clock of the coordinator is {difference}; jobs still fire, by this clock: \
                 see that chrony runs on all of these machines"
            )),
            Verdict::Held(doubt) => Some(format!(
                "nothing fires: the clock of the coordinator {doubt}; what comes due meanwhile \
                 is late, not lost; see that chrony runs there and on the hosts"
            )),
        };
        let kinds = [AlertKind::ClockDiffers, AlertKind::ClockHeld];
        let over = kinds.into_iter().filter(|&kind| {
            let was_open = before == Told::NotKnown || before.kind() == Some(kind);
            was_open && told.kind() != Some(kind)
        });
        (told.kind().zip(text), over.collect())
    }

    fn kind(self) -> Option<AlertKind> {
        match self {
            Told::NotKnown | Told::Nothing => None,
            Told::Differs => Some(AlertKind::ClockDiffers),
            Told::Stepped | Told::Contradicted => Some(AlertKind::ClockHeld),
        }
    }
}

impl ClockGate {
    pub fn new(thresholds: Thresholds) -> ClockGate {
        ClockGate {
            thresholds,
            ..ClockGate::default()
        }
    }

    /// The first reading of a reign.
    pub(crate) fn begin(&mut self, before: Before, now: Now) {
        match before {
            Before::Seen(then) => self.seen = Some(Seen::of(then)),
            Before::Hosts => self.unheard_until = Some(now.boot + FIRST_LOOK),
            Before::Nobody => {}
        }
        self.observe(now);
    }

    /// Takes note of both clocks. Returns the size of the step if this reading shows one.
    pub fn observe(&mut self, now: Now) -> Option<DurationMs> {
        let step = self.observe_step(now);
        if step.is_some() {
            self.says = FleetSays::Nothing;
            self.looked_at = None;
        }
        let due = self.looked_at.is_none_or(|at| now.boot - at >= LOOK_EVERY);
        if due {
            self.looked_at = Some(now.boot);
            self.look_at_fleet(now);
        }
        step
    }

    /// A beat of an agent has arrived: see [`Hosts`].
    pub(crate) fn hear(
        &mut self,
        agent: AgentId,
        wall: WallMs,
        round_trip: Option<DurationMs>,
        now: Now,
    ) {
        self.hosts.hear(agent, wall, round_trip, now.boot);
    }

    pub fn verdict(&self, now: Now) -> Verdict {
        if let Some(until) = self.held_until
            && now.boot < until
        {
            return Verdict::Held(Doubt::Stepped {
                remaining: until - now.boot,
            });
        }
        match (self.says, self.unheard_until) {
            (FleetSays::Nothing, Some(until)) if now.boot < until => {
                Verdict::Held(Doubt::Unheard {
                    remaining: until - now.boot,
                })
            }
            (FleetSays::Nothing, _) => Verdict::NoReference,
            (FleetSays::Agrees, _) => Verdict::Trusted,
            (FleetSays::Differs(difference), _) => Verdict::Warned(difference),
            (FleetSays::Contradicts(difference), _) => {
                Verdict::Held(Doubt::Contradicted(difference))
            }
        }
    }

    fn look_at_fleet(&mut self, now: Now) {
        let reference = self.hosts.reference(now.boot);
        self.says = match (reference, self.says) {
            (None, FleetSays::Contradicts(difference)) => FleetSays::Contradicts(difference),
            (None, _) => FleetSays::Nothing,
            (Some(reference), before) => self.judge(reference, before, now),
        };
        if reference.is_some() {
            self.unheard_until = None;
        }
    }

    /// What was beyond a threshold comes back only well within it, lest it tells of the same thing
    /// over and over.
    fn judge(&self, reference: Reference, before: FleetSays, now: Now) -> FleetSays {
        let ahead = reference.ahead(now.wall, now.boot);
        let agents = reference.agents;
        let difference = Difference { ahead, agents };
        let beyond = |threshold: DurationMs, was: bool| {
            let threshold = if was { threshold.0 / 2 } else { threshold.0 };
            ahead.0.saturating_abs() > threshold
        };
        let contradicted = matches!(before, FleetSays::Contradicts(_));
        let differed = contradicted || matches!(before, FleetSays::Differs(_));
        if beyond(self.thresholds.stop, contradicted) {
            FleetSays::Contradicts(difference)
        } else if beyond(self.thresholds.warn, differed) {
            FleetSays::Differs(difference)
        } else {
            FleetSays::Agrees
        }
    }

    fn observe_step(&mut self, now: Now) -> Option<DurationMs> {
        let read = Seen::of(now);
        let Some(seen) = self.seen else {
            self.seen = Some(read);
            return None;
        };
        let moved = read.offset.saturating_sub(seen.offset);
        let elapsed = (now.boot - seen.boot).0.max(0);
        let steering = elapsed.saturating_mul(STEERING_PPM) / 1_000_000;
        if moved.abs() > STEP.0.saturating_add(steering) {
            self.seen = Some(read);
            self.held_until = Some(now.boot + STAND_STILL);
            return Some(DurationMs(moved));
        }
        if steering > 0 || moved == 0 {
            self.seen = Some(Seen {
                boot: now.boot,
                offset: seen.offset + moved.clamp(-steering, steering),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::WallMs;

    const START: i64 = 1_800_000_000_000;

    fn at(boot: i64, wall_error: i64) -> Now {
        Now {
            boot: BootMs(boot),
            wall: WallMs(START + boot + wall_error),
        }
    }

    /// Observes (boot, wall error) pairs in turn and says whether the last finds the gate open.
    fn open_after(readings: &[(i64, i64)]) -> bool {
        let mut gate = ClockGate::default();
        for &(boot, error) in readings {
            gate.observe(at(boot, error));
        }
        let &(boot, error) = readings.last().unwrap();
        gate.verdict(at(boot, error)).may_fire()
    }

    #[test]
    fn a_step_holds_until_the_clock_has_stood_still_for_a_minute() {
        assert!(
            open_after(&[(0, 0), (100, 900)]),
            "below a second is not a step"
        );
        assert!(!open_after(&[(0, 0), (100, 1_001)]));
        assert!(!open_after(&[(0, 0), (100, -1_001)]));
        assert!(!open_after(&[(0, 0), (100, 5_000), (60_099, 5_000)]));
        assert!(open_after(&[(0, 0), (100, 5_000), (60_100, 5_000)]));
        assert!(
            !open_after(&[(0, 0), (100, 5_000), (30_000, 0), (89_999, 0)]),
            "a second step"
        );
    }

    #[test]
    fn steering_is_no_step_and_small_steps_add_up() {
        let steering: Vec<_> = (0..4000).map(|i| (i * 1000, i / 2)).collect();
        assert!(
            open_after(&steering),
            "500 ppm for an hour moves 2 s and is steering"
        );
        assert!(
            !open_after(&[(0, 0), (100, 600), (200, 1_200)]),
            "two steps of 0.6 s"
        );
    }

    #[test]
    fn frequent_readings_do_not_hide_steering() {
        let mut gate = ClockGate::default();
        for i in 0..400_000 {
            assert_eq!(
                gate.observe(at(i * 10, i / 200)),
                None,
                "500 ppm read every 10 ms"
            );
        }
    }

    /// Three agents with the right time beat every 5 s; this clock is wrong by each error for 20 s.
    /// Answers with the verdict at the end of each stretch.
    fn verdicts(errors: &[(i64, bool)]) -> Vec<&'static str> {
        let mut gate = ClockGate::default();
        let mut boot = 0;
        let stretches = errors.iter().map(|&(error, heard)| {
            for second in 0..70 {
                boot += 1_000;
                if heard && second % 5 == 0 {
                    for agent in 1..=3 {
                        let trip = Some(DurationMs(10));
                        gate.hear(
                            AgentId(agent),
                            WallMs(START + boot - 5),
                            trip,
                            at(boot, error),
                        );
                    }
                }
                gate.observe(at(boot, error));
            }
            match gate.verdict(at(boot, error)) {
                Verdict::Trusted => "trusted",
                Verdict::NoReference => "no reference",
                Verdict::Warned(_) => "warned",
                Verdict::Held(Doubt::Stepped { .. }) => "stepped",
                Verdict::Held(Doubt::Unheard { .. }) => "unheard",
                Verdict::Held(Doubt::Contradicted(_)) => "contradicted",
            }
        });
        stretches.collect()
    }

    #[test]
    fn the_table_of_decisions() {
        // What moves by less than a second at once is no step.
        type Case = (&'static [(i64, bool)], &'static [&'static str]);
        let cases: &[Case] = &[
            (&[(0, false)], &["no reference"]),
            (&[(0, true), (105, true)], &["trusted", "trusted"]),
            (
                &[(0, true), (106, true), (60, true), (50, true)],
                &["trusted", "warned", "warned", "trusted"],
            ),
            (&[(0, true), (-900, true)], &["trusted", "warned"]),
            (
                &[
                    (0, true),
                    (900, true),
                    (1_100, true),
                    (600, true),
                    (450, true),
                ],
                &[
                    "trusted",
                    "warned",
                    "contradicted",
                    "contradicted",
                    "warned",
                ],
            ),
            // Who falls silent has not changed his mind; who never spoke has not contradicted.
            (
                &[(900, true), (1_100, true), (1_100, false), (50, true)],
                &["warned", "contradicted", "contradicted", "trusted"],
            ),
            (&[(900, true), (900, false)], &["warned", "no reference"]),
            // A step is a new beginning, and the fleet has the last word again.
            (
                &[(0, true), (3_600_000, true), (0, true)],
                &["trusted", "contradicted", "trusted"],
            ),
            (
                &[(0, true), (3_600_000, true), (3_600_000, false), (0, false)],
                &["trusted", "contradicted", "contradicted", "no reference"],
            ),
        ];
        for (errors, expected) in cases {
            assert_eq!(&verdicts(errors), expected, "{errors:?}");
        }
    }

    #[test]
    fn a_reign_begins_with_what_is_known_of_the_clock() {
        let after = |before, error, hours: i64| {
            let mut gate = ClockGate::default();
            gate.begin(before, at(hours * 3_600_000, error));
            gate
        };
        let held = |gate: &ClockGate, error, boot| match gate.verdict(at(boot, error)) {
            Verdict::Held(doubt) => Some(doubt),
            _ => None,
        };
        // Nobody can be asked, or the clock stands where it stood, but for an hour's steering.
        assert_eq!(held(&after(Before::Nobody, 0, 0), 0, 0), None);
        let seen = Before::Seen(at(0, 0));
        assert_eq!(held(&after(seen, 3_000, 1), 3_000, 3_600_000), None);
        // It was set meanwhile.
        let stepped = Doubt::Stepped {
            remaining: STAND_STILL,
        };
        assert_eq!(
            held(&after(seen, 6_000, 1), 6_000, 3_600_000),
            Some(stepped)
        );
        // The hosts are waited for, and not for ever.
        let mut gate = after(Before::Hosts, 0, 0);
        let unheard = |remaining| {
            Some(Doubt::Unheard {
                remaining: DurationMs(remaining),
            })
        };
        assert_eq!(held(&gate, 0, 0), unheard(30_000));
        assert_eq!(held(&gate, 0, 29_999), unheard(1));
        assert_eq!(held(&gate, 0, 30_000), None);
        for agent in 1..=3 {
            let trip = Some(DurationMs(10));
            gate.hear(AgentId(agent), WallMs(START + 4_995), trip, at(5_000, 0));
        }
        gate.observe(at(5_000, 0));
        assert_eq!(gate.verdict(at(5_000, 0)), Verdict::Trusted);
        // Once they have spoken their silence is no reason to wait again.
        gate.observe(at(29_000, 0));
        assert_eq!(gate.verdict(at(29_000, 0)), Verdict::NoReference);
    }

    #[test]
    fn a_doubt_says_who_differs_by_how_much() {
        let difference = |ahead| Difference {
            ahead: DurationMs(ahead),
            agents: 5,
        };
        let doubt = Doubt::Contradicted(difference(90_000_000));
        assert_eq!(
            doubt.to_string(),
            "is 1d1h ahead of the clocks of 5 hosts, which agree with each other"
        );
        assert_eq!(
            difference(-1_500).to_string(),
            "1s500ms behind the clocks of 5 hosts, which agree with each other"
        );
    }
}
