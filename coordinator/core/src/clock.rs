//! Whether the wall clock may be believed.
//!
//! The wall clock decides one thing, that a fire time has come, and a wrong one must make no job
//! fire early, twice or never. Five things are seen from here.
//!
//! A *step*: the wall clock minus the boot clock stays constant but for slow steering; when it jumps by
//! more than a second, somebody or something set the clock. Whether the old or the new time is right
//! a step alone does not tell, so nothing fires until the clock has stood still for a minute.
//!
//! A *disagreement* among the control machines ([`members`]): the median of their clocks is right as
//! long as most of them are. A clock that most contradict fires nothing; nor does one that differs from
//! the only other one, where nothing tells which of the two is wrong, unless the hosts do.
//!
//! A *disagreement* with the fleet: where enough agents agree among themselves ([`hosts`]), they are a
//! reference, and a clock that is further from them than [`Thresholds::stop`] fires nothing, whatever
//! the control machines say: they may all have been set by one wrong server.
//!
//! A *contradiction by this machine's own time service* ([`service`]), which knows by how much it is still
//! to correct the clock. It knows by servers that may be wrong, so that it counts where nobody else has a
//! say: where the clocks of most control machines or of the fleet agree with this one, a person is told,
//! and it fires. One wrong server must not stop a group whose clocks are right.
//!
//! However a clock came to be contradicted, it goes on being held when those who did so fall silent:
//! silence is no consent. A new step is a new beginning.
//!
//! A *start of the machine*: what its clock showed before says nothing of what it shows now. Where the
//! ledger knows enough agents to be a reference, nothing fires until they have been one, or have had
//! [`FIRST_LOOK`] to speak; unless most of the control machines' clocks agree with this one, which is
//! what keeps a failover from waiting for the hosts. A reign that begins on a machine that has run since
//! the one before goes on from there: if the clock was set meanwhile, that is a step.
//!
//! A leader that is held and knows a coordinator with a better founded clock gives it the lead
//! ([`ClockGate::heir`]); where there is none, it stays and says so. What came due while the gate was
//! shut is late, not lost: the trigger works from the watermark.
//!
//! | stepped within a minute | the control machines | the fleet | the time service | verdict |
//! |---|---|---|---|---|
//! | yes | whatever they say | whatever it says | whatever it says | held |
//! | no | contradict, or did before they fell silent | whatever it says | whatever it says | held, and a person is told |
//! | no | whatever they say | contradicts, or did | whatever it says | held, and a person is told |
//! | no | are divided | is no reference | whatever it says | held, and a person is told |
//! | no | have no say | is no reference | contradicts, or did | held, and a person is told |
//! | no | have no say | may yet speak, for the first time since the machine was started | agrees, or has no say | held |
//! | no | differ by more than `warn`, | or it does, | or it does; or contradicts where others agree | fires, and a person is told |
//! | no | agree, | or it does, | or it does | fires |
//! | no | have no say | is no reference | has no say | fires, with a standing warning |
//!
//! The first line that fits holds. That the time service keeps the clock no longer is told to a person by
//! an alert of its own, whatever the verdict.

pub mod hosts;
pub mod members;
pub mod service;
mod told;
mod verdict;

use protocol::host::HostClock;
use protocol::{AgentId, BootMs, DurationMs, Now, Rule, Rules, WallMs};

use hosts::{Hosts, Reference};
use members::{Found, Looks, MemberClock, Members};
use service::{Service, ServiceWord};
use verdict::in_words;

pub use hosts::HostClockSeen;
pub(crate) use told::{ServiceTold, Tell, Told};
pub use verdict::{Difference, Doubt, Others, Verdict};

/// A jump of the wall clock against the boot clock beyond this is a step.
pub const STEP: DurationMs = DurationMs(1_000);

/// How long the clock must stand still after a step.
pub const STAND_STILL: DurationMs = DurationMs(60_000);

/// How long the agents have to speak when the machine was started: they attach, and beat twice.
pub const FIRST_LOOK: DurationMs = DurationMs(30_000);

/// Fastest steering that is not a step, in parts per million. The kernel slews at up to 500 ppm
/// and adjusts its tick by up to 10 %; NTP stays far below this.
const STEERING_PPM: i64 = 1_000;

/// How often what the others say is looked at: it costs a walk over all agents.
const LOOK_EVERY: DurationMs = DurationMs(1_000);

/// How far from the others' clocks this one may be.
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
    rules: Rules,
    seen: Option<Seen>,
    held_until: Option<BootMs>,
    /// Until when the hosts are waited for, who have not spoken since the machine was started.
    unheard_until: Option<BootMs>,
    looked_at: Option<BootMs>,
    members: Members,
    members_say: Says,
    hosts: Hosts,
    fleet_says: Says,
    service: Service,
    /// What the fleet agrees on, or did when it contradicted this clock.
    reference: Option<Reference>,
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

/// What others say of this clock, or said when they contradicted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Says {
    #[default]
    Nothing,
    Agree,
    Differ(Difference),
    Contradict(Difference),
    /// Of the control machines only.
    Divided(Difference),
}

impl Seen {
    fn of(now: Now) -> Seen {
        Seen {
            boot: now.boot,
            offset: now.wall.0.saturating_sub(now.boot.0),
        }
    }
}

impl Says {
    /// Whether this clock is further from the others' than it may be.
    fn stops(self) -> bool {
        matches!(self, Says::Contradict(_) | Says::Divided(_))
    }

    fn agree(self) -> bool {
        matches!(self, Says::Agree | Says::Differ(_))
    }
}

impl ClockGate {
    pub fn new(thresholds: Thresholds, rules: Rules) -> ClockGate {
        ClockGate {
            thresholds,
            rules,
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
            self.members.begin_anew();
            self.service.begin_anew();
            self.members_say = Says::Nothing;
            self.fleet_says = Says::Nothing;
            self.looked_at = None;
        }
        let due = self.looked_at.is_none_or(|at| now.boot - at >= LOOK_EVERY);
        if due {
            self.look(now);
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

    /// What the time service of an agent's host says: see [`HostClockSeen`].
    pub(crate) fn note_told(&mut self, agent: AgentId, told: &HostClock, now: Now) {
        self.hosts.note_told(agent, told, now.boot);
    }

    /// The clocks of all hosts that were heard lately.
    pub(crate) fn host_clocks(&self, now: Now) -> Vec<HostClockSeen> {
        self.hosts.seen(now)
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// How the clocks of all other members of the group were read last.
    pub(crate) fn hear_members(&mut self, clocks: &[MemberClock], now: Now) {
        self.members.hear(clocks);
        self.look(now);
    }

    /// What this machine's own time service said just now.
    pub(crate) fn hear_service(&mut self, word: ServiceWord, now: Now) {
        self.service.hear(word, self.thresholds, now);
    }

    /// What it said last, unless that is long ago.
    pub(crate) fn service_word(&self, now: Now) -> Option<&ServiceWord> {
        self.service.word(now.boot)
    }

    pub fn verdict(&self, now: Now) -> Verdict {
        let stepped = self.held_until.filter(|&until| now.boot < until);
        if let Some(until) = stepped.filter(|_| self.rules.on(Rule::ClockGate)) {
            let remaining = until - now.boot;
            return Verdict::Held(Doubt::Stepped { remaining });
        }
        let (members, fleet) = (self.members_say, self.fleet_says);
        if let Says::Contradict(difference) = members {
            return Verdict::Held(Doubt::Contradicted(difference));
        }
        if let Says::Contradict(difference) = fleet
            && self.rules.on(Rule::FleetContradicts)
        {
            return Verdict::Held(Doubt::Contradicted(difference));
        }
        if let Says::Divided(difference) = members
            && !fleet.agree()
        {
            return Verdict::Held(Doubt::Divided(difference));
        }
        let service = self.service_says(now);
        let others_agree = members.agree() || fleet.agree();
        let outweighed = others_agree && self.rules.on(Rule::AgreementOutweighsTimeService);
        if let Says::Contradict(difference) = service
            && !outweighed
        {
            return Verdict::Held(Doubt::Contradicted(difference));
        }
        if let Some(until) = self.unheard_until.filter(|&until| now.boot < until) {
            let remaining = until - now.boot;
            return Verdict::Held(Doubt::Unheard { remaining });
        }
        match (members, fleet, service) {
            (Says::Differ(difference), _, _)
            | (_, Says::Differ(difference), _)
            | (_, _, Says::Differ(difference) | Says::Contradict(difference)) => {
                Verdict::Warned(difference)
            }
            _ if others_agree || service.agree() => Verdict::Trusted,
            _ => Verdict::NoReference,
        }
    }

    fn service_says(&self, now: Now) -> Says {
        if self.rules.on(Rule::TimeServiceContradicts) {
            self.service.says(now.boot)
        } else {
            Says::Nothing
        }
    }

    /// The coordinator that should lead instead of this one, whose clock is held: one whose clock has
    /// stood still, and agrees with a witness's or with the fleet's; where there is neither, with what
    /// this machine's time service takes for the right time.
    pub(crate) fn heir(&self, now: Now) -> Option<u64> {
        if self.verdict(now).may_fire() {
            return None;
        }
        self.members
            .heir(self.reference, self.service.offset(now), now.boot)
    }

    /// How the clock of another coordinator looks from here. Where this machine's own is not believed it
    /// says nothing of others', but by whose it would be better.
    pub(crate) fn looks(&self, node: u64, now: Now) -> Looks {
        if self.verdict(now).may_fire() {
            self.members.looks(node, self.thresholds.stop, now)
        } else if self.heir(now) == Some(node) {
            Looks::Good
        } else {
            Looks::Unread
        }
    }

    /// A control machine whose clock is wrong as far as this one knows, and by how much it is ahead of
    /// this one's.
    pub(crate) fn odd_one(&self) -> Option<(u64, DurationMs)> {
        self.members.odd_one()
    }

    fn look(&mut self, now: Now) {
        self.looked_at = Some(now.boot);
        if self.rules.on(Rule::ControlClocksContradict) {
            self.look_at_members(now);
        }
        self.look_at_fleet(now);
    }

    fn look_at_members(&mut self, now: Now) {
        let before = self.members_say;
        let stop = self.thresholds.stop;
        let stop = if before.stops() {
            DurationMs(stop.0 / 2)
        } else {
            stop
        };
        let says = |ahead, from| Difference { ahead, from };
        self.members_say = match self.members.find(stop, before.agree(), now) {
            Found::Nothing => match before {
                Says::Contradict(_) if !self.members.is_alone() => before,
                Says::Divided(Difference {
                    from: Others::Node(node),
                    ..
                }) if self.members.has(node) => before,
                _ => Says::Nothing,
            },
            Found::With { ahead, others } => {
                self.judge(says(ahead, Others::ControlMachines(others)), before)
            }
            Found::Against { ahead, others } => {
                Says::Contradict(says(ahead, Others::ControlMachines(others)))
            }
            // Who was contradicted is not acquitted by one of those who did so falling silent.
            Found::Divided { .. } if matches!(before, Says::Contradict(_)) => before,
            Found::Divided { ahead, node } => Says::Divided(says(ahead, Others::Node(node))),
        };
        let waives = self.rules.on(Rule::ControlClocksSpareHosts);
        if self.members_say.agree() && waives {
            self.unheard_until = None;
        }
    }

    fn look_at_fleet(&mut self, now: Now) {
        let before = self.fleet_says;
        let reference = self.hosts.reference(now.boot);
        self.fleet_says = match reference {
            None if before.stops() => return,
            None => Says::Nothing,
            Some(reference) => {
                let ahead = reference.ahead(now.wall, now.boot);
                let from = Others::Hosts(reference.agents);
                self.judge(Difference { ahead, from }, before)
            }
        };
        self.reference = reference;
        if reference.is_some() {
            self.unheard_until = None;
        }
    }

    /// What was beyond a threshold comes back only well within it, lest it tells of the same thing
    /// over and over.
    fn judge(&self, difference: Difference, before: Says) -> Says {
        let beyond = |threshold: DurationMs, was: bool| {
            let threshold = if was { threshold.0 / 2 } else { threshold.0 };
            difference.ahead.0.saturating_abs() > threshold
        };
        let stopped = before.stops();
        let differed = stopped || matches!(before, Says::Differ(_));
        if beyond(self.thresholds.stop, stopped) {
            Says::Contradict(difference)
        } else if beyond(self.thresholds.warn, differed) {
            Says::Differ(difference)
        } else {
            Says::Agree
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
mod tests;
