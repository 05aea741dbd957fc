//! When the coordinator says that the address is to be here.

use std::collections::VecDeque;
use std::fmt;

use protocol::{BootMs, DurationMs, Epoch};

use super::{Fault, Report, Word};

/// How often a hold is said, at least.
const EVERY_MAX: DurationMs = DurationMs(500);

/// How long the keeper may take to answer.
const SILENCE_MAX: DurationMs = DurationMs(1_000);

/// How long the address may be in trouble before another machine had better lead: a cable that is
/// plugged over is no reason.
const TROUBLE_MAX: DurationMs = DurationMs(1_000);

/// Where every machine is in trouble, leadership is not passed around more often than this.
const HAND_OVER_EVERY: DurationMs = DurationMs::from_secs(60);

/// How often a hold is said, and how far it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub every: DurationMs,
    /// Counted from the beginning of the quorum round that a hold rests on.
    pub lasts: DurationMs,
}

impl Pace {
    /// Whoever answered a round supports nobody else for `election_max`, and who would be elected
    /// waits for at least `election_min` on top. So the address is gone before another leads; and a
    /// round is lost without anybody's noticing.
    pub fn of(election_min: DurationMs, election_max: DurationMs) -> Pace {
        let lasts = (election_min + election_max).clamp_to(EVERY_MAX + EVERY_MAX);
        Pace {
            every: DurationMs(lasts.0 / 2),
            lasts,
        }
    }
}

/// What the shell is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderAction {
    /// Have a quorum confirm that this machine leads, in a round that begins after this. Answered by
    /// [`Holder::handle_confirmed`].
    Confirm { round: u64 },
    /// Say so to the keeper; a hold only if it has not ended yet and the reign is still this one.
    Say { word: Word, reign: Option<Epoch> },
    /// The keeper does not answer: connect anew.
    CutLine,
    /// Have another machine lead, where there is one.
    HandOver { trouble: Trouble },
}

/// Why a leader does not have its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody answers on its socket.
    NoKeeper,
    Fault(Fault),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::NoKeeper => f.write_str("the address keeper does not answer on its socket"),
            Trouble::Fault(fault) => fault.fmt(f),
        }
    }
}

/// Says when the address is to be here. See [`super`].
#[derive(Debug)]
pub struct Holder {
    pace: Pace,
    reign: Option<Epoch>,
    /// The last round, and when it began.
    round: u64,
    asked: Option<BootMs>,
    next_round: BootMs,
    /// The keeper's last word, while there is a connection to it.
    keeper: Option<Report>,
    connected: bool,
    /// Since when the keeper owes an answer.
    unanswered: Option<BootMs>,
    troubled: Option<BootMs>,
    handed_over: Option<BootMs>,
    actions: VecDeque<HolderAction>,
}

impl Holder {
    pub fn new(pace: Pace) -> Holder {
        Holder {
            pace,
            reign: None,
            round: 0,
            asked: None,
            next_round: BootMs(0),
            keeper: None,
            connected: false,
            unanswered: None,
            troubled: None,
            handed_over: None,
            actions: VecDeque::new(),
        }
    }

    /// This machine reigns, or does not. It has stopped serving before it says that it does not.
    pub fn handle_reign(&mut self, reign: Option<Epoch>, now: BootMs) {
        if reign == self.reign {
            return;
        }
        if self.reign.is_some() && reign.is_none() && self.connected {
            self.say(Word::Release, now);
        }
        self.reign = reign;
        // A round of the reign before says nothing of this one.
        self.asked = None;
        self.next_round = now;
        self.troubled = None;
        self.handle_tick(now);
    }

    /// The quorum's answer to a round; `false` where there was none.
    pub fn handle_confirmed(&mut self, round: u64, confirmed: bool, now: BootMs) {
        if round == self.round
            && let Some(begun) = self.asked.take()
            && confirmed
        {
            let until = begun + self.pace.lasts;
            if self.connected && now < until {
                self.say(Word::Hold { until }, now);
            }
        }
        self.handle_tick(now);
    }

    /// A connection to the keeper is there.
    pub fn handle_connected(&mut self, now: BootMs) {
        self.connected = true;
        // It speaks first.
        self.unanswered = Some(now);
        self.next_round = now;
        self.handle_tick(now);
    }

    pub fn handle_report(&mut self, report: Report, now: BootMs) {
        self.unanswered = None;
        self.keeper = Some(report);
        self.handle_tick(now);
    }

    pub fn handle_disconnected(&mut self, now: BootMs) {
        self.lose_keeper();
        self.handle_tick(now);
    }

    pub fn handle_tick(&mut self, now: BootMs) {
        if self
            .unanswered
            .is_some_and(|since| now - since >= SILENCE_MAX)
        {
            self.lose_keeper();
            self.actions.push_back(HolderAction::CutLine);
        }
        if self.reign.is_none() {
            return;
        }
        if self.connected && self.asked.is_none() && now >= self.next_round {
            self.round += 1;
            self.asked = Some(now);
            self.next_round = now + self.pace.every;
            self.actions
                .push_back(HolderAction::Confirm { round: self.round });
        }
        let Some(trouble) = self.trouble() else {
            self.troubled = None;
            return;
        };
        let since = *self.troubled.get_or_insert(now);
        if now >= self.hand_over_at(since) {
            self.handed_over = Some(now);
            self.actions.push_back(HolderAction::HandOver { trouble });
        }
    }

    pub fn poll_action(&mut self) -> Option<HolderAction> {
        self.actions.pop_front()
    }

    /// When [`Holder::handle_tick`] is to be called; `None`: something else comes first.
    pub fn poll_timeout(&self) -> Option<BootMs> {
        let silence = self.unanswered.map(|since| since + SILENCE_MAX);
        let reigning = self.reign.is_some();
        let round = (reigning && self.connected && self.asked.is_none()).then_some(self.next_round);
        let hand_over = self.troubled.map(|since| self.hand_over_at(since));
        let reigning = round.into_iter().chain(hand_over);
        silence.into_iter().chain(reigning).min()
    }

    /// What would keep, or keeps, the address from this machine.
    pub fn trouble(&self) -> Option<Trouble> {
        match &self.keeper {
            Some(report) => report.fault.clone().map(Trouble::Fault),
            // One that has just been connected to has not said anything yet.
            None if self.connected => None,
            None => Some(Trouble::NoKeeper),
        }
    }

    fn lose_keeper(&mut self) {
        self.connected = false;
        self.unanswered = None;
        self.keeper = None;
    }

    fn say(&mut self, word: Word, now: BootMs) {
        self.unanswered.get_or_insert(now);
        self.actions.push_back(HolderAction::Say {
            word,
            reign: self.reign,
        });
    }

    fn hand_over_at(&self, troubled: BootMs) -> BootMs {
        let again = self.handed_over.map(|at| at + HAND_OVER_EVERY);
        (troubled + TROUBLE_MAX).max(again.unwrap_or(troubled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        every: DurationMs(450),
        lasts: DurationMs(900),
    };
    const REIGN: Option<Epoch> = Some(Epoch(7));

    fn fine(holds: bool) -> Report {
        Report {
            interface: "eth0".to_owned(),
            addresses: Vec::new(),
            holds,
            fault: None,
        }
    }

    /// A keeper that answers at once, and a quorum that confirms after a while.
    struct World {
        holder: Holder,
        now: BootMs,
        quorum: Option<i64>,
        /// What it answers within that time.
        confirms: bool,
        answers: Report,
        listens: bool,
        under_way: Option<(BootMs, u64)>,
        said: Vec<(i64, Word)>,
        cut: Vec<i64>,
        handed_over: Vec<i64>,
    }

    impl World {
        fn new() -> World {
            World {
                holder: Holder::new(PACE),
                now: BootMs(0),
                quorum: Some(10),
                confirms: true,
                answers: fine(false),
                listens: true,
                under_way: None,
                said: Vec::new(),
                cut: Vec::new(),
                handed_over: Vec::new(),
            }
        }

        fn connected() -> World {
            let mut world = World::new();
            world.holder.handle_connected(world.now);
            world.holder.handle_report(fine(false), world.now);
            world
        }

        fn reign(&mut self, reign: Option<Epoch>) {
            self.holder.handle_reign(reign, self.now);
            self.obey();
        }

        fn obey(&mut self) {
            while let Some(action) = self.holder.poll_action() {
                match action {
                    HolderAction::Confirm { round } => {
                        assert_eq!(self.under_way, None, "one round at a time");
                        let took = self.quorum.unwrap_or(PACE.lasts.0);
                        self.under_way = Some((self.now + DurationMs(took), round));
                    }
                    HolderAction::Say { word, .. } => {
                        self.said.push((self.now.0, word));
                        if self.listens {
                            self.holder.handle_report(self.answers.clone(), self.now);
                        }
                    }
                    HolderAction::CutLine => self.cut.push(self.now.0),
                    HolderAction::HandOver { .. } => self.handed_over.push(self.now.0),
                }
            }
        }

        fn go_to(&mut self, at: i64) {
            loop {
                let answer = self.under_way.map(|(at, _)| at);
                let tick = self.holder.poll_timeout();
                let Some(next) = answer.into_iter().chain(tick).min() else {
                    break;
                };
                if next.0 > at {
                    break;
                }
                self.now = next.max(self.now);
                match self.under_way {
                    Some((due, round)) if due == next => {
                        self.under_way = None;
                        let confirmed = self.confirms && self.quorum.is_some();
                        self.holder.handle_confirmed(round, confirmed, self.now);
                    }
                    _ => self.holder.handle_tick(self.now),
                }
                self.obey();
            }
            self.now = BootMs(at);
        }

        fn holds(&self) -> Vec<(i64, i64)> {
            let holds = self.said.iter().filter_map(|(at, word)| match word {
                Word::Hold { until } => Some((*at, until.0)),
                Word::Release => None,
            });
            holds.collect()
        }
    }

    #[test]
    fn a_hold_counts_from_the_beginning_of_the_round_it_rests_on() {
        let mut world = World::connected();
        world.go_to(5_000);
        assert_eq!(world.said, [], "nothing is said without a reign");
        world.reign(REIGN);
        world.go_to(6_000);
        assert_eq!(
            world.holds(),
            [(5_010, 5_900), (5_460, 6_350), (5_910, 6_800)]
        );
        world.quorum = Some(600);
        world.said.clear();
        world.go_to(7_300);
        // A slow round is followed by the next one at once.
        assert_eq!(
            world.holds(),
            [(6_410, 6_710 + 540)].map(|_| (6_950, 7_250))
        );
    }

    #[test]
    fn without_a_quorum_nothing_is_said() {
        let mut world = World::connected();
        world.reign(REIGN);
        world.go_to(100);
        world.said.clear();
        world.quorum = None;
        world.go_to(10_000);
        assert_eq!(world.said, []);
        world.quorum = Some(10);
        world.confirms = false;
        world.go_to(15_000);
        assert_eq!(world.said, []);
        world.confirms = true;
        // A round that takes as long as a hold lasts is worth nothing.
        world.quorum = Some(PACE.lasts.0);
        world.go_to(20_000);
        assert_eq!(world.said, []);
    }

    #[test]
    fn the_end_of_a_reign_is_said_at_once_and_no_round_of_it_counts() {
        let mut world = World::connected();
        world.reign(REIGN);
        world.go_to(455);
        let (_, late) = world.under_way.take().expect("a round is under way");
        world.said.clear();
        world.reign(None);
        assert_eq!(world.said, [(455, Word::Release)]);
        world.holder.handle_confirmed(late, true, world.now);
        world.obey();
        world.reign(Some(Epoch(9)));
        world.holder.handle_confirmed(late, true, world.now);
        world.obey();
        assert_eq!(world.holds(), []);
    }

    #[test]
    fn a_keeper_that_comes_is_told_at_once() {
        let mut world = World::new();
        world.reign(REIGN);
        world.go_to(300);
        assert_eq!(world.under_way, None, "there is nobody to say it to");
        world.holder.handle_connected(world.now);
        world.holder.handle_report(fine(false), world.now);
        world.obey();
        world.go_to(320);
        assert_eq!(world.holds(), [(310, 1_200)]);
    }

    #[test]
    fn a_keeper_that_does_not_answer_is_cut_off() {
        let mut world = World::connected();
        world.reign(REIGN);
        world.go_to(100);
        world.listens = false;
        world.go_to(1_459);
        assert_eq!(world.cut, [] as [i64; 0]);
        world.go_to(1_460);
        assert_eq!(world.cut, [1_460]);
        assert_eq!(world.holder.trouble(), Some(Trouble::NoKeeper));
        // One that lets itself be connected to and says nothing is none either.
        world.now = BootMs(2_000);
        world.holder.handle_connected(world.now);
        world.go_to(3_000);
        assert_eq!(world.cut, [1_460, 3_000]);
    }

    #[test]
    fn trouble_that_lasts_is_a_reason_to_hand_over_once_a_minute() {
        let broken = Report {
            fault: Some(Fault::NoCarrier),
            ..fine(false)
        };
        let mut world = World::connected();
        world.holder.handle_report(broken.clone(), world.now);
        world.go_to(10_000);
        assert_eq!(world.handed_over, [] as [i64; 0], "it does not lead");
        world.answers = broken;
        world.reign(REIGN);
        world.go_to(10_900);
        assert_eq!(world.handed_over, [] as [i64; 0], "it may be over soon");
        world.go_to(20_000);
        assert_eq!(world.handed_over, [11_000]);
        world.reign(None);
        world.go_to(30_000);
        world.reign(Some(Epoch(9)));
        world.go_to(70_999);
        assert_eq!(world.handed_over, [11_000], "the others are no better off");
        world.go_to(80_000);
        assert_eq!(world.handed_over, [11_000, 71_000]);

        let mut world = World::new();
        world.reign(REIGN);
        world.go_to(5_000);
        assert_eq!(
            world.handed_over,
            [1_000],
            "nor is a keeper that is not there"
        );
    }

    #[test]
    fn a_hold_ends_before_another_can_lead() {
        for (min, max, every, lasts) in [
            (300, 600, 450, 900),
            (150, 300, 225, 450),
            (900, 1_800, 500, 1_000),
        ] {
            let pace = Pace::of(DurationMs(min), DurationMs(max));
            let expected = Pace {
                every: DurationMs(every),
                lasts: DurationMs(lasts),
            };
            assert_eq!(pace, expected);
        }
    }
}
