use std::collections::BTreeSet;

use proptest::prelude::*;
use protocol::attempt::Limits;

use super::*;

const GRACE: i64 = 2_000;
const START: i64 = 1_000_000;

/// A supervisor with a clock.
struct Machine {
    supervisor: Supervisor,
    boot: i64,
}

impl Machine {
    fn new(rules: Rules) -> Machine {
        let identity = Identity {
            incarnation: Incarnation(3),
            boot_id: "boot".to_owned(),
            swept: true,
        };
        let mut machine = Machine {
            supervisor: Supervisor::new(identity, rules),
            boot: START,
        };
        machine.supervisor.handle_connected(machine.now());
        machine.actions();
        machine
    }

    /// Token 1 runs, to live for a minute, with a time-out of ten. It writes nothing.
    fn running(rules: Rules) -> Machine {
        let mut machine = Machine::writing(rules);
        machine.drained();
        machine
    }

    /// The same, and its output is open.
    fn writing(rules: Rules) -> Machine {
        let mut machine = Machine::new(rules);
        machine.asks(Request::Launch(launch(1, START + 60_000)));
        machine.spawned(Ok(vec![]));
        machine.actions();
        machine
    }

    fn drained(&mut self) {
        self.supervisor.handle_output_drained(T);
    }

    fn now(&self) -> Now {
        Now {
            wall: WallMs(1_700_000_000_000 + self.boot),
            boot: BootMs(self.boot),
        }
    }

    fn asks(&mut self, request: Request) {
        self.supervisor.handle_request(request, self.now());
    }

    fn spawned(&mut self, result: Result<Vec<Limit>, SpawnError>) {
        self.supervisor.handle_spawned(T, result, self.now());
    }

    fn exits(&mut self, exit: Exit) {
        let usage = MainUsage {
            cpu: DurationMs(5),
            memory_bytes_peak: 6,
            read_bytes: 7,
            write_bytes: 8,
        };
        self.supervisor
            .handle_main_exited(T, exit, usage, self.now());
    }

    fn tree(&mut self, alive: u32) {
        let tree = Tree {
            alive,
            ..Tree::default()
        };
        self.supervisor.handle_tree(T, tree, self.now());
    }

    fn tick_at(&mut self, boot: i64) {
        self.boot = boot;
        self.supervisor.handle_tick(self.now());
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.supervisor.poll_action()).collect()
    }

    /// What the supervisor said of the end of token 1.
    fn end(&mut self) -> End {
        let actions = self.actions();
        actions
            .iter()
            .find_map(|a| match a {
                Action::Send(Event::Ended { token: T, end }) => Some(end.clone()),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no end in {actions:?}"))
    }
}

/// Of a tree that the kernel counts nothing of.
fn of_main() -> Usage {
    Usage {
        read_bytes: Some(7),
        write_bytes: Some(8),
        partial: Counted::ALL.to_vec(),
        ..Usage::default()
    }
}

const T: Token = Token(1);
const TERM: Action = Action::Signal {
    token: T,
    signal: Signal::Term,
};
const KILL: Action = Action::Signal {
    token: T,
    signal: Signal::Kill,
};
const LOOK: Action = Action::LookAtTree { token: T };
const UNKILLABLE: Action = Action::TellUnkillable { token: T };

fn launch(token: i64, deadline: i64) -> Launch {
    Launch {
        user: None,
        limits: Limits::default(),
        token: Token(token),
        exec: vec!["/bin/true".to_owned()],
        env: vec![],
        output: format!("/data/output/{token}"),
        output_bytes_max: 1 << 20,
        deadline: BootMs(deadline),
        takeover: DurationMs(60_000),
        timeout: DurationMs(600_000),
    }
}

fn extend(deadline: i64) -> Request {
    Request::Extend {
        token: T,
        deadline: BootMs(deadline),
    }
}

fn kill(cause: KillCause) -> Request {
    Request::Kill { token: T, cause }
}

use KillCause::{Cancelled, LeaseLost, SupervisorStopped, TimedOut};

#[test]
fn a_process_that_ends_by_itself_is_ended_when_its_tree_is_empty() {
    let mut m = Machine::new(Rules::all());
    let order = launch(1, START + 60_000);
    m.asks(Request::Launch(order.clone()));
    assert_eq!(m.actions(), [Action::Spawn(order)]);
    m.spawned(Ok(vec![]));
    let at = m.now().wall;
    assert_eq!(
        m.actions(),
        [Action::Send(Event::Launched { token: T, at })]
    );
    m.boot += 1_000;
    m.exits(Exit::Code(0));
    assert_eq!(m.actions(), [LOOK]);
    let ended_at = m.now().wall;
    m.boot += 1;
    m.tree(0);
    assert_eq!(m.actions(), [], "its output is still being written down");
    m.boot += 1;
    m.drained();
    let end = End {
        killed: None,
        exit: Some(Exit::Code(0)),
        spawn_error: None,
        spawn_fault: SpawnFault::Launch,
        started_at: Some(at),
        ended_at,
        cpu: DurationMs(5),
        memory_bytes_peak: 6,
        out_of_memory: false,
        usage: Some(Box::new(of_main())),
        not_enforced: Vec::new(),
        leftovers: 0,
    };
    assert_eq!(
        m.actions(),
        [
            Action::Clear { token: T },
            Action::Send(Event::Ended { token: T, end })
        ]
    );
    assert_eq!(m.supervisor.poll_timeout(), None);
}

#[test]
fn an_output_that_stays_open_holds_an_end_up_for_a_moment_only() {
    let mut m = Machine::writing(Rules::all());
    m.exits(Exit::Code(0));
    assert_eq!(m.actions(), [LOOK]);
    m.tree(0);
    let until = m.boot + OUTPUT_WAIT.0;
    assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(until)));
    let table = m.supervisor.table();
    assert_eq!(table.attempts[0].end, None);
    // There is nothing left to kill, whatever is asked for meanwhile.
    m.asks(kill(Cancelled));
    m.tick_at(until - 1);
    assert_eq!(m.actions(), []);
    m.tick_at(until);
    let end = m.end();
    assert_eq!((end.exit, end.killed), (Some(Exit::Code(0)), None));
    assert_eq!(m.supervisor.poll_timeout(), None);
    m.drained();
    assert_eq!(m.actions(), []);
}

#[test]
fn a_supervisor_that_is_stopping_waits_for_what_the_dead_have_written() {
    let mut m = Machine::writing(Rules::all());
    m.supervisor.handle_stop(m.now());
    m.exits(Exit::Signal(15));
    m.tree(0);
    assert!(!m.actions().contains(&Action::Exit));
    m.drained();
    assert_eq!(m.actions().last(), Some(&Action::Exit));
}

#[test]
fn leftovers_are_killed_and_counted_and_the_exit_stays_the_mains_own() {
    let mut m = Machine::running(Rules::all());
    m.exits(Exit::Code(0));
    assert_eq!(m.actions(), [LOOK]);
    m.tree(3);
    assert_eq!(m.actions(), [KILL]);
    let mut signals = 0;
    for _ in 0..5 {
        let at = m.supervisor.poll_timeout().unwrap().0;
        assert!(at > m.boot, "the timer spins");
        m.tick_at(at);
        let actions = m.actions();
        signals += actions.iter().filter(|a| **a == KILL).count();
        if actions.contains(&LOOK) {
            m.tree(1);
        }
    }
    assert!(signals >= 2, "SIGKILL is repeated");
    m.tree(0);
    let end = m.end();
    assert_eq!((end.killed, end.leftovers), (None, 3));
    assert_eq!(end.exit, Some(Exit::Code(0)));
}

#[test]
fn every_cause_climbs_the_same_ladder_and_is_named() {
    type Begin = fn(&mut Machine);
    let rows: [(KillCause, Begin); 4] = [
        (Cancelled, |m| m.asks(kill(Cancelled))),
        (SupervisorStopped, |m| m.supervisor.handle_stop(m.now())),
        (LeaseLost, |m| m.tick_at(START + 60_000)),
        (TimedOut, |m| {
            m.asks(extend(START + 1_000_000));
            m.tick_at(START + 599_999);
            assert_eq!(m.actions(), []);
            m.tick_at(START + 600_000);
        }),
    ];
    for (cause, begin) in rows {
        let mut m = Machine::running(Rules::all());
        begin(&mut m);
        assert_eq!(m.actions(), [TERM], "{cause:?}");
        let begun = m.boot;
        assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(begun + GRACE)));
        m.tick_at(begun + GRACE - 1);
        assert_eq!(m.actions(), [], "{cause:?}");
        m.tick_at(begun + GRACE);
        assert_eq!(m.actions(), [KILL], "{cause:?}");
        m.exits(Exit::Signal(9));
        m.tree(0);
        let end = m.end();
        assert_eq!(end.killed, Some(cause));
        assert_eq!(end.leftovers, 0, "killed with the tree, not left over");
    }
}

#[test]
fn the_tree_of_a_killed_main_has_the_rest_of_the_grace() {
    let mut m = Machine::running(Rules::all());
    m.asks(kill(Cancelled));
    let begun = m.boot;
    m.boot += 100;
    m.exits(Exit::Signal(15));
    m.actions();
    m.tree(2);
    let mut killed_at = None;
    while killed_at.is_none() {
        let at = m.supervisor.poll_timeout().unwrap().0;
        m.tick_at(at);
        let actions = m.actions();
        killed_at = actions.contains(&KILL).then_some(at);
        if actions.contains(&LOOK) {
            m.tree(2);
        }
    }
    assert_eq!(killed_at, Some(begun + GRACE));
}

#[test]
fn what_outlives_a_killed_main_for_a_moment_is_no_leftover_of_it() {
    let mut m = Machine::running(Rules::all());
    m.asks(kill(KillCause::Cancelled));
    m.exits(Exit::Signal(15));
    m.tree(2);
    m.tree(0);
    let end = m.end();
    assert_eq!((end.killed, end.leftovers), (Some(KillCause::Cancelled), 0));
}

#[test]
fn what_is_being_killed_is_given_no_more_time_in_the_table_either() {
    let mut m = Machine::running(Rules::all());
    m.asks(kill(KillCause::Cancelled));
    m.asks(extend(START + 90_000));
    let table = m.supervisor.table();
    assert_eq!(table.attempts[0].deadline, BootMs(START + 60_000));
}

#[test]
fn a_tree_that_cannot_be_read_is_looked_at_less_and_less_often() {
    let mut m = Machine::running(Rules::all());
    m.exits(Exit::Code(0));
    assert_eq!(m.actions(), [LOOK]);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let next = m.supervisor.poll_timeout().unwrap().0;
        pauses.push(next - m.boot);
        m.tick_at(next);
        assert_eq!(m.actions(), [LOOK]);
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
}

#[test]
fn an_exit_before_the_kill_is_the_jobs_own() {
    let mut m = Machine::running(Rules::all());
    m.exits(Exit::Code(0));
    m.asks(kill(Cancelled));
    m.tree(0);
    let end = m.end();
    assert_eq!((end.killed, end.exit), (None, Some(Exit::Code(0))));
}

/// As after a stop of the supervisor: every deadline has passed, and every process has ended.
#[test]
fn exits_that_are_handed_in_together_are_all_the_jobs_own() {
    let mut m = Machine::running(Rules::all());
    m.asks(Request::Launch(launch(2, START + 60_000)));
    let second = Token(2);
    m.supervisor.handle_spawned(second, Ok(vec![]), m.now());
    m.asks(Request::Launch(launch(3, START + 60_000)));
    m.boot = START + 90_000;
    for token in [T, second] {
        let exit = Exit::Code(0);
        m.supervisor
            .handle_main_exited(token, exit, MainUsage::default(), m.now());
        // Whatever else the machine has to tell may come between two of them.
        m.supervisor.handle_spawned(Token(3), Ok(vec![]), m.now());
        m.supervisor.handle_output_drained(T);
    }
    m.supervisor.handle_tick(m.now());
    for token in [T, second] {
        m.supervisor.handle_output_drained(token);
        m.supervisor.handle_tree(token, Tree::default(), m.now());
    }
    let killed: Vec<_> = m
        .actions()
        .into_iter()
        .filter_map(|action| match action {
            Action::Send(Event::Ended { end, .. }) => Some(end.killed),
            _ => None,
        })
        .collect();
    assert_eq!(killed, [None, None]);
}

#[test]
fn the_first_cause_stands() {
    let mut m = Machine::running(Rules::all());
    m.asks(kill(Cancelled));
    m.asks(kill(LeaseLost));
    m.tick_at(START + 60_000);
    m.exits(Exit::Signal(15));
    m.tree(0);
    assert_eq!(m.end().killed, Some(Cancelled));
}

#[test]
fn a_deadline_noticed_late_leaves_less_grace_or_none() {
    for (late, first, kill_at) in [
        (0, TERM, START + 62_000),
        (1_500, TERM, START + 62_000),
        (2_000, KILL, START + 62_000),
        (90_000, KILL, START + 150_000),
    ] {
        let mut m = Machine::running(Rules::all());
        m.tick_at(START + 60_000 + late);
        assert_eq!(m.actions(), [first], "{late}");
        if late < GRACE {
            assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(kill_at)), "{late}");
        }
    }
}

#[test]
fn extensions_move_forward_only_and_never_past_the_latch() {
    let mut m = Machine::running(Rules::all());
    m.asks(extend(START + 30_000));
    m.tick_at(START + 59_999);
    assert_eq!(m.actions(), []);
    m.asks(extend(START + 70_000));
    m.tick_at(START + 69_999);
    assert_eq!(m.actions(), []);
    // The supervisor stalled past the deadline and reads an old extension first.
    m.boot = START + 70_000;
    m.asks(extend(START + 130_000));
    assert_eq!(m.actions(), [TERM]);

    let mut m = Machine::running(Rules::without(Rule::DeadlineLatch));
    m.boot = START + 60_000;
    m.asks(extend(START + 130_000));
    m.supervisor.handle_tick(m.now());
    assert_eq!(m.actions(), []);
}

#[test]
fn without_the_rule_a_deadline_passes_unnoticed() {
    let mut m = Machine::running(Rules::without(Rule::SupervisorEnforcesDeadline));
    m.tick_at(START + 90_000);
    assert_eq!(m.actions(), []);
}

#[test]
fn losing_the_agent_is_no_command() {
    let mut m = Machine::running(Rules::all());
    m.supervisor.handle_disconnected(m.now());
    assert_eq!(m.actions(), []);
    assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(START + 60_000)));
    m.tick_at(START + 60_000);
    m.exits(Exit::Signal(15));
    m.tree(0);
    // Nobody is told, and the next agent finds it in the table.
    assert_eq!(m.actions(), [TERM, LOOK, Action::Clear { token: T }]);
    m.supervisor.handle_connected(m.now());
    let actions = m.actions();
    let [Action::Send(Event::Table(table))] = &actions[..] else {
        panic!("{actions:?}");
    };
    let [held] = &table.attempts[..] else {
        panic!("{table:?}");
    };
    assert_eq!(held.end.as_ref().unwrap().killed, Some(LeaseLost));
    assert_eq!(held.takeover, DurationMs(60_000));
    m.asks(Request::Forget { token: T });
    m.asks(Request::Hello);
    let empty = m.supervisor.table();
    assert_eq!(m.actions(), [Action::Send(Event::Table(empty.clone()))]);
    assert!(empty.attempts.is_empty());
}

#[test]
fn what_is_alive_is_not_forgotten() {
    let mut m = Machine::running(Rules::all());
    m.asks(Request::Forget { token: T });
    assert_eq!(m.supervisor.table().attempts.len(), 1);
}

#[test]
fn launches_that_start_nothing() {
    let in_time = START + 60_000;
    // Known already, running or ended.
    let mut m = Machine::running(Rules::all());
    m.asks(Request::Launch(launch(1, in_time)));
    assert_eq!(m.actions(), []);
    m.exits(Exit::Code(0));
    m.tree(0);
    m.actions();
    m.asks(Request::Launch(launch(1, in_time)));
    assert_eq!(m.actions(), []);

    let mut m = Machine::new(Rules::all());
    m.asks(Request::Launch(launch(1, START)));
    let end = m.end();
    assert_eq!(
        (end.killed, end.exit, end.started_at),
        (Some(LeaseLost), None, None)
    );
    assert!(end.spawn_error.is_some());

    let mut m = Machine::new(Rules::all());
    m.supervisor.handle_stop(m.now());
    m.asks(Request::Launch(launch(1, in_time)));
    assert_eq!(m.end().killed, Some(SupervisorStopped));

    let mut m = Machine::new(Rules::all());
    let mut order = launch(1, in_time);
    order.exec.clear();
    m.asks(Request::Launch(order));
    assert!(m.end().spawn_error.is_some());

    for fault in [SpawnFault::Launch, SpawnFault::Host] {
        let mut m = Machine::new(Rules::all());
        m.asks(Request::Launch(launch(1, in_time)));
        m.spawned(Err(SpawnError {
            fault,
            why: "for a reason".to_owned(),
        }));
        let end = m.end();
        assert_eq!((end.killed, end.exit), (None, None));
        assert_eq!(end.spawn_error.as_deref(), Some("for a reason"));
        assert_eq!(end.spawn_fault, fault);
    }
}

/// Token 1 was launched, and what is to become its process still prepares itself.
fn spawning() -> Machine {
    let mut m = Machine::new(Rules::all());
    m.asks(Request::Launch(launch(1, START + 60_000)));
    m.actions();
    m
}

#[test]
fn what_still_prepares_itself_is_killed_like_what_runs() {
    type Begin = fn(&mut Machine);
    let rows: [(KillCause, Begin); 3] = [
        (Cancelled, |m| m.asks(kill(Cancelled))),
        (SupervisorStopped, |m| m.supervisor.handle_stop(m.now())),
        (LeaseLost, |m| {
            assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(START + 60_000)));
            m.tick_at(START + 60_000);
        }),
    ];
    for (cause, begin) in rows {
        let mut m = spawning();
        begin(&mut m);
        assert_eq!(m.actions(), [TERM], "{cause:?}");
        m.tick_at(m.boot + GRACE);
        assert_eq!(m.actions(), [KILL], "{cause:?}");
        m.spawned(Err(SpawnError {
            fault: SpawnFault::Host,
            why: "it was killed".to_owned(),
        }));
        let end = m.end();
        assert_eq!((end.killed, end.exit), (Some(cause), None));
    }
}

#[test]
fn a_program_that_began_before_the_kill_arrived_climbs_the_same_ladder() {
    let mut m = spawning();
    m.asks(kill(Cancelled));
    assert_eq!(m.actions(), [TERM]);
    let begun = m.boot;
    m.boot += 10;
    m.spawned(Ok(vec![]));
    assert_eq!(
        m.actions().len(),
        1,
        "told as started, and not signalled again"
    );
    assert_eq!(m.supervisor.poll_timeout(), Some(BootMs(begun + GRACE)));
    m.tick_at(begun + GRACE);
    assert_eq!(m.actions(), [KILL]);
}

#[test]
fn what_hangs_before_it_has_begun_is_killed_again_and_again_and_never_called_dead() {
    let mut m = spawning();
    m.tick_at(START + 60_000 + GRACE);
    let mut told = 0;
    for _ in 0..20 {
        let at = m.supervisor.poll_timeout().unwrap().0;
        m.tick_at(at);
        let actions = m.actions();
        assert!(actions.contains(&KILL), "{actions:?}");
        told += actions.iter().filter(|a| **a == UNKILLABLE).count();
    }
    assert_eq!(told, 1);
    assert!(m.boot > START + 60_000 + GRACE + 10_000);
    assert_eq!(m.supervisor.table().attempts[0].end, None);
}

#[test]
fn the_whole_tree_is_told_where_the_host_counts_it_and_what_was_not_enforced() {
    let mut m = spawning();
    m.spawned(Ok(vec![Limit::Pids]));
    m.drained();
    m.exits(Exit::Code(0));
    m.actions();
    let tree = Tree {
        alive: 0,
        cpu: Some(DurationMs(500)),
        memory_bytes_peak: Some(600),
        out_of_memory: true,
        memory_bytes_seen: None,
        counted: Usage {
            read_bytes: Some(70),
            write_bytes: Some(0),
            stall_io_ms: Some(9),
            ..Usage::default()
        },
    };
    m.supervisor.handle_tree(T, tree, m.now());
    let end = m.end();
    assert_eq!((end.cpu, end.memory_bytes_peak), (DurationMs(500), 600));
    assert!(end.out_of_memory);
    assert_eq!(end.not_enforced, [Limit::Pids]);
    let usage = Usage {
        read_bytes: Some(70),
        // The kernel writes what is in the cache when it likes; the process has asked for it.
        write_bytes: Some(8),
        stall_io_ms: Some(9),
        ..Usage::default()
    };
    assert_eq!(end.usage, Some(Box::new(usage)));
}

#[test]
fn what_is_known_of_a_part_of_the_tree_only_is_marked_so() {
    for (seen, peak) in [(None, 6), (Some(3), 6), (Some(60), 60)] {
        let mut m = spawning();
        m.spawned(Ok(vec![]));
        m.drained();
        m.exits(Exit::Code(0));
        m.actions();
        let tree = Tree {
            memory_bytes_seen: seen,
            ..Tree::default()
        };
        m.supervisor.handle_tree(T, tree, m.now());
        let end = m.end();
        assert_eq!((end.cpu, end.memory_bytes_peak), (DurationMs(5), peak));
        assert_eq!(end.usage, Some(Box::new(of_main())));
    }
}

#[test]
fn a_stop_interrupts_everything_and_exits_when_nothing_is_alive() {
    let mut m = Machine::running(Rules::all());
    m.supervisor.handle_stop(m.now());
    assert_eq!(m.actions(), [TERM]);
    m.exits(Exit::Signal(15));
    m.tree(0);
    let actions = m.actions();
    assert_eq!(actions.last(), Some(&Action::Exit));
    assert!(matches!(
        actions[actions.len() - 2],
        Action::Send(Event::Ended { .. })
    ));

    let mut idle = Machine::new(Rules::all());
    idle.supervisor.handle_stop(idle.now());
    assert_eq!(idle.actions(), [Action::Exit]);
}

/// A process tree that dies of SIGKILL, and of SIGTERM if it does not ignore it.
#[derive(Debug, Default)]
struct World {
    /// By token: whether the main process is alive, and how many others are.
    trees: BTreeMap<Token, (bool, u32)>,
    /// Whose main process has not begun its program.
    preparing: BTreeSet<Token>,
    deadlines: BTreeMap<Token, i64>,
}

#[derive(Clone, Debug)]
enum Input {
    Pass(i64),
    Launch { token: i64, life: i64 },
    Extend { token: i64, life: i64 },
    Kill(i64),
    ProgramBegins(i64),
    MainExits(i64),
    Forks(i64),
    Drained(i64),
    Reconnect,
}

fn input() -> impl Strategy<Value = Input> {
    let token = || 1..5i64;
    prop_oneof![
        6 => (0..5_000i64).prop_map(Input::Pass),
        4 => (token(), -1_000..20_000i64).prop_map(|(token, life)| Input::Launch { token, life }),
        4 => (token(), -1_000..20_000i64).prop_map(|(token, life)| Input::Extend { token, life }),
        1 => token().prop_map(Input::Kill),
        4 => token().prop_map(Input::ProgramBegins),
        2 => token().prop_map(Input::MainExits),
        2 => token().prop_map(Input::Forks),
        2 => token().prop_map(Input::Drained),
        1 => Just(Input::Reconnect),
    ]
}

fn obey(m: &mut Machine, world: &mut World) -> Result<(), TestCaseError> {
    while let Some(action) = m.supervisor.poll_action() {
        match action {
            Action::Spawn(l) => {
                let known = world.trees.insert(l.token, (true, 0));
                prop_assert_eq!(known, None, "spawned twice");
                world.preparing.insert(l.token);
            }
            Action::Signal { token, signal } => {
                let tree = world.trees.get_mut(&token).expect("signals name trees");
                // The programs of even tokens ignore SIGTERM.
                let preparing = world.preparing.contains(&token);
                if signal == Signal::Kill || preparing || token.0 % 2 == 1 {
                    let main_died = std::mem::take(tree).0;
                    if world.preparing.remove(&token) {
                        let error = SpawnError {
                            fault: SpawnFault::Host,
                            why: "killed".to_owned(),
                        };
                        m.supervisor.handle_spawned(token, Err(error), m.now());
                    } else if main_died {
                        let exit = Exit::Signal(9);
                        m.supervisor
                            .handle_main_exited(token, exit, MainUsage::default(), m.now());
                    }
                }
            }
            Action::LookAtTree { token } => {
                let (main, others) = world.trees[&token];
                let tree = Tree {
                    alive: u32::from(main) + others,
                    ..Tree::default()
                };
                m.supervisor.handle_tree(token, tree, m.now());
            }
            Action::Send(Event::Ended { token, .. }) => {
                let tree = world.trees.get(&token).copied().unwrap_or_default();
                prop_assert_eq!(tree, (false, 0), "{} ended while alive", token);
            }
            Action::Clear { .. }
            | Action::Send(_)
            | Action::TellUnkillable { .. }
            | Action::Exit => {}
        }
    }
    Ok(())
}

fn check(rules: Rules, inputs: Vec<Input>) -> Result<(), TestCaseError> {
    let mut m = Machine::new(rules);
    let mut world = World::default();
    for input in inputs {
        match input {
            Input::Pass(ms) => {
                // A machine that runs: every timer is served when it is due.
                let until = m.boot + ms;
                while let Some(at) = m.supervisor.poll_timeout().filter(|at| at.0 <= until) {
                    m.boot = m.boot.max(at.0);
                    m.supervisor.handle_tick(m.now());
                    obey(&mut m, &mut world)?;
                    prop_assert!(m.supervisor.poll_timeout().is_none_or(|next| next > at));
                }
                m.boot = until;
            }
            Input::Launch { token, life } => {
                let deadline = m.boot + life;
                world.deadlines.entry(Token(token)).or_insert(deadline);
                m.asks(Request::Launch(launch(token, deadline)));
            }
            Input::Extend { token, life } => {
                let deadline = m.boot + life;
                if let Some(latest) = world.deadlines.get_mut(&Token(token))
                    && *latest > m.boot
                {
                    *latest = (*latest).max(deadline);
                }
                m.asks(Request::Extend {
                    token: Token(token),
                    deadline: BootMs(deadline),
                });
            }
            Input::Kill(token) => m.asks(Request::Kill {
                token: Token(token),
                cause: Cancelled,
            }),
            Input::ProgramBegins(token) => {
                if world.preparing.remove(&Token(token)) {
                    m.supervisor
                        .handle_spawned(Token(token), Ok(vec![]), m.now());
                }
            }
            Input::MainExits(token) => {
                if !world.preparing.contains(&Token(token))
                    && let Some(tree) = world.trees.get_mut(&Token(token))
                    && std::mem::take(&mut tree.0)
                {
                    let usage = MainUsage::default();
                    m.supervisor
                        .handle_main_exited(Token(token), Exit::Code(0), usage, m.now());
                }
            }
            Input::Forks(token) => {
                if !world.preparing.contains(&Token(token))
                    && let Some(tree) = world.trees.get_mut(&Token(token))
                    && tree.0
                {
                    tree.1 += 1;
                }
            }
            Input::Drained(token) => m.supervisor.handle_output_drained(Token(token)),
            Input::Reconnect => {
                m.supervisor.handle_disconnected(m.now());
                m.supervisor.handle_connected(m.now());
            }
        }
        obey(&mut m, &mut world)?;
        for (token, tree) in &world.trees {
            let over = m.boot > world.deadlines[token] + GRACE;
            prop_assert!(!over || *tree == (false, 0), "{token} outlives D and grace");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_alive_after_deadline_and_grace(
        inputs in prop::collection::vec(input(), 0..80)
    ) {
        check(Rules::all(), inputs)?;
    }
}

/// The property above is worth something only if it can fail. The cases are the same every time,
/// so that this does not depend on luck.
#[test]
fn the_property_notices_a_rule_that_is_off() {
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let noticed = TestRunner::new_with_rng(config, rng)
        .run(&prop::collection::vec(input(), 0..80), |inputs| {
            check(Rules::without(Rule::SupervisorEnforcesDeadline), inputs)
        })
        .is_err();
    assert!(noticed);
}
