use protocol::attempt::{Exit, Limits, Trigger, Work};
use protocol::lease::{HEARTBEAT, KILL_GRACE, QUIET_HOST, TAKEOVER_DEFAULT, margin};
use protocol::message::{CoordinatorBody, CoordinatorMessage, KeptProfile};
use protocol::supervisor::{End, Held, SpawnFault};
use protocol::{ExecutionId, RunId};

mod lines;
mod promises;
mod registering;

use super::*;

const TAKEOVER: DurationMs = TAKEOVER_DEFAULT;
const SESSION: SessionId = SessionId(500);
const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);
const THIRD: ConnectionId = ConnectionId(3);
const CONTROL: CoordinatorId = CoordinatorId(0);
const STANDBY: CoordinatorId = CoordinatorId(1);

/// Restated from the design, not taken from the code: send time plus takeover time, minus 1 %
/// and half a second and the kill grace.
const LIFE: i64 = 60_000 - 600 - 500 - 2_000;

pub(in crate::agent) fn work() -> Work {
    Work {
        user: None,
        limits: Limits::default(),
        job: "settlement/reconcile".parse().unwrap(),
        first_name: None,
        run_id: RunId(12),
        execution_id: ExecutionId(9),
        fire_time: WallMs::parse_rfc3339("2026-11-29T15:30:00Z").unwrap(),
        nominal: vec!["2026-11-29T23:30:00".to_owned()],
        timezone: "Asia/Shanghai".to_owned(),
        shard: 3,
        shards: 32,
        attempt: 2,
        trigger: Trigger::Scheduled,
        fence: Some(41),
        redo: None,
        exec: vec![
            "/opt/reconcile".to_owned(),
            "--shard".to_owned(),
            "3/32".to_owned(),
        ],
        timeout: DurationMs::from_secs(900),
        takeover: TAKEOVER,
    }
}

/// An agent with the times and the shorthand that the tests share.
struct Host {
    agent: Agent,
    boot: i64,
    /// The supervisor keeps its connection and answers nothing.
    hung: bool,
}

impl Host {
    fn new(rules: Rules) -> Host {
        let config = Config {
            incarnation: Incarnation(7),
            slots: 2,
            labels: Vec::new(),
            output_directory: "/data/output".to_owned(),
            output_bytes_max: 64 << 20,
            path: "/bin".to_owned(),
            policy: Policy::default(),
        };
        Host {
            agent: Agent::new(config, rules),
            boot: 1_000_000,
            hung: false,
        }
    }

    /// Attached in [`SESSION`], holding nothing; the attach was sent at `boot`.
    fn attached(rules: Rules) -> Host {
        let mut host = Host::new(rules);
        host.agent
            .handle_supervisor_up(table(1, vec![]), host.now());
        host.connects(FIRST);
        host.says(attached(&[]));
        host.actions();
        host
    }

    /// The same with token 10 started on the attach and running.
    fn running(rules: Rules) -> Host {
        let mut host = Host::attached(rules);
        host.says(start(10, 0));
        host.agent.handle_supervisor(launched(10), host.now());
        host.actions();
        host
    }

    /// Connected to the leader and invited there.
    fn connects(&mut self, connection: ConnectionId) {
        self.agent.handle_connected(connection, CONTROL, self.now());
        self.says_in(5, connection, invitation(connection.0));
    }

    fn now(&self) -> Now {
        Now {
            wall: WallMs(1_700_000_000_000 + self.boot),
            boot: BootMs(self.boot),
        }
    }

    fn pass(&mut self, ms: i64) {
        self.boot += ms;
    }

    fn says(&mut self, body: CoordinatorBody) {
        self.says_in(5, FIRST, body);
    }

    fn says_in(&mut self, epoch: i64, connection: ConnectionId, body: CoordinatorBody) {
        let epoch = Epoch(epoch);
        let message = CoordinatorMessage { epoch, body };
        self.agent.handle_message(connection, message, self.now());
    }

    /// What is to be done; the supervisor has answered its pings.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.agent.poll_action() {
            match action {
                Action::Supervise(Request::Ping) if !self.hung => {
                    self.agent.handle_supervisor(Event::Pong, self.now());
                }
                action => actions.push(action),
            }
        }
        actions
    }

    /// Waits for the next beat and sends it.
    fn beat(&mut self) -> u64 {
        self.boot = self.boot.max(self.agent.poll_timeout().unwrap().0);
        self.agent.handle_tick(self.now());
        for action in self.actions() {
            if let Action::Send {
                message: AgentMessage::Heartbeat(beat),
                ..
            } = action
            {
                return beat.beat;
            }
        }
        panic!("no beat was due");
    }

    fn deadline(&self, token: i64) -> Option<i64> {
        self.agent
            .attempts()
            .find(|(t, _)| *t == Token(token))
            .map(|(_, deadline)| deadline.0)
    }
}

fn table(incarnation: u64, attempts: Vec<Held>) -> Table {
    Table {
        incarnation: Incarnation(incarnation),
        boot_id: "boot".to_owned(),
        swept: true,
        attempts,
    }
}

fn held(token: i64, deadline: i64) -> Held {
    Held {
        token: Token(token),
        deadline: BootMs(deadline),
        takeover: TAKEOVER,
        started_at: Some(WallMs(1)),
        output: format!("/data/output/{token}"),
        end: None,
    }
}

fn ended_end(killed: Option<KillCause>, exit: Exit) -> End {
    End {
        killed,
        exit: Some(exit),
        spawn_error: None,
        spawn_fault: SpawnFault::Launch,
        started_at: Some(WallMs(1)),
        ended_at: WallMs(2),
        cpu: DurationMs(3),
        memory_bytes_peak: 4,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        leftovers: 0,
    }
}

fn launched(token: i64) -> Event {
    Event::Launched {
        token: Token(token),
        at: WallMs(1),
    }
}

fn ended(token: i64, end: End) -> Event {
    Event::Ended {
        token: Token(token),
        end,
    }
}

fn invitation(nonce: u64) -> CoordinatorBody {
    let nonce = Nonce(nonce);
    CoordinatorBody::NonceGiven { nonce }
}

fn nonce_query(nonce: u64) -> CoordinatorBody {
    let nonce = Nonce(nonce);
    CoordinatorBody::NonceQuery { nonce }
}

fn attached(kill: &[i64]) -> CoordinatorBody {
    CoordinatorBody::Attached {
        session: SESSION,
        kill: kill.iter().map(|&t| Token(t)).collect(),
        profile: KeptProfile::NotKept,
    }
}

fn start(token: i64, rests_on: u64) -> CoordinatorBody {
    start_in(SESSION, token, rests_on)
}

fn start_in(session: SessionId, token: i64, rests_on: u64) -> CoordinatorBody {
    CoordinatorBody::Start {
        session,
        token: Token(token),
        rests_on,
        work: Box::new(work()),
    }
}

fn ack(beat: u64, live: &[i64]) -> CoordinatorBody {
    CoordinatorBody::HeartbeatAck {
        session: SESSION,
        beat,
        live: live.iter().map(|&t| Token(t)).collect(),
    }
}

fn receipt_ack(token: i64) -> CoordinatorBody {
    CoordinatorBody::ReceiptAck {
        token: Token(token),
    }
}

fn kills(actions: &[Action]) -> Vec<(i64, KillCause)> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Supervise(Request::Kill { token, cause }) => Some((token.0, *cause)),
            _ => None,
        })
        .collect()
}

fn launches(actions: &[Action]) -> Vec<(i64, i64)> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Supervise(Request::Launch(l)) => Some((l.token.0, l.deadline.0)),
            _ => None,
        })
        .collect()
}

fn extends(actions: &[Action]) -> Vec<(i64, i64)> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Supervise(Request::Extend { token, deadline }) => Some((token.0, deadline.0)),
            _ => None,
        })
        .collect()
}

fn forgets(actions: &[Action]) -> Vec<i64> {
    actions
        .iter()
        .filter_map(|a| match a {
            Action::Supervise(Request::Forget { token }) => Some(token.0),
            _ => None,
        })
        .collect()
}

fn messages(actions: Vec<Action>) -> Vec<(ConnectionId, AgentMessage)> {
    actions
        .into_iter()
        .filter_map(|a| match a {
            Action::Send {
                connection,
                message,
            } => Some((connection, message)),
            _ => None,
        })
        .collect()
}

fn attaches(actions: Vec<Action>) -> Vec<Vec<i64>> {
    messages(actions)
        .into_iter()
        .filter_map(|(_, m)| match m {
            AgentMessage::Attach(a) => Some(a.attempts.iter().map(|t| t.0).collect()),
            _ => None,
        })
        .collect()
}

fn receipts(actions: Vec<Action>) -> Vec<(i64, AttemptOutcome)> {
    messages(actions)
        .into_iter()
        .filter_map(|(_, m)| match m {
            AgentMessage::Receipt(r) => Some((r.token.0, r.end.outcome)),
            _ => None,
        })
        .collect()
}

use AttemptOutcome::{Failed, Lost, Refused, Succeeded};
use KillCause::{Cancelled, LeaseLost};

#[test]
fn life_is_the_arithmetic_that_both_ends_agreed_on() {
    assert_eq!(LIFE, (TAKEOVER - margin(TAKEOVER) - KILL_GRACE).0);
}

#[test]
fn an_attach_needs_a_connection_and_the_supervisors_table() {
    let mut host = Host::new(Rules::all());
    host.connects(FIRST);
    assert_eq!(host.actions(), []);
    let end = ended_end(None, Exit::Code(0));
    let mut done = held(4, 0);
    done.end = Some(end);
    host.agent
        .handle_supervisor_up(table(1, vec![held(3, 2_000_000), done]), host.now());
    assert_eq!(attaches(host.actions()), [vec![3, 4]]);
    // Until it is answered there is no beat and no receipt.
    host.pass(HEARTBEAT.0);
    host.agent.handle_tick(host.now());
    assert_eq!(host.actions(), []);
    host.says(attached(&[]));
    assert_eq!(receipts(host.actions()), [(4, Succeeded)]);
}

fn full(free_bytes: u64, floor_bytes: u64) -> DiskFull {
    DiskFull {
        directory: "/data/output".to_owned(),
        free_bytes,
        floor_bytes,
    }
}

#[test]
fn a_full_disk_is_named_with_what_is_left_and_what_to_do() {
    for (free, floor, sizes) in [
        (100 << 20, 256 << 20, "100 MiB are free and 256 MiB must be"),
        (0, 10_485, "0 bytes are free and 10 KiB must be"),
        (4_096, 10_000, "4096 bytes are free and 10000 bytes must be"),
        (500 << 10, 20 << 20, "500 KiB are free and 20 MiB must be"),
    ] {
        assert_eq!(
            full(free, floor).to_string(),
            format!(
                "the disk with `/data/output` is full: {sizes}; remove what is not needed there, \
                 or give the agent a data directory on a larger disk"
            )
        );
    }
}

#[test]
fn starts_and_what_refuses_them() {
    struct Row {
        what: &'static str,
        prepare: fn(&mut Host),
        start: CoordinatorBody,
        launched: bool,
        refused: bool,
    }
    let row = |what, prepare, start, launched, refused| Row {
        what,
        prepare,
        start,
        launched,
        refused,
    };
    let nothing: fn(&mut Host) = |_| {};
    for row in [
        row("in time", nothing, start(10, 0), true, false),
        row(
            "just in time",
            |h| h.pass(LIFE - 1),
            start(10, 0),
            true,
            false,
        ),
        row("too late", |h| h.pass(LIFE), start(10, 0), false, true),
        row(
            "rests on a beat to come",
            nothing,
            start(10, 1),
            false,
            true,
        ),
        row(
            "of another session",
            nothing,
            start_in(SessionId(499), 10, 0),
            false,
            true,
        ),
        row(
            "no slot",
            |h| {
                h.says(start(8, 0));
                h.says(start(9, 0));
            },
            start(10, 0),
            false,
            true,
        ),
        row(
            "disk full",
            |h| h.agent.handle_disk(Some(full(1 << 20, 256 << 20)), h.now()),
            start(10, 0),
            false,
            true,
        ),
        row(
            "disk full no longer",
            |h| {
                h.agent.handle_disk(Some(full(1 << 20, 256 << 20)), h.now());
                h.agent.handle_disk(None, h.now());
            },
            start(10, 0),
            true,
            false,
        ),
        row(
            "already running",
            |h| h.says(start(10, 0)),
            start(10, 0),
            false,
            false,
        ),
        row(
            "already done",
            |h| {
                h.says(start(10, 0));
                let end = ended_end(None, Exit::Code(0));
                h.agent.handle_supervisor(ended(10, end), h.now());
                h.says(receipt_ack(10));
            },
            start(10, 0),
            false,
            false,
        ),
        row(
            "supervisor away",
            |h| h.agent.handle_supervisor_down(h.now()),
            start(10, 0),
            false,
            true,
        ),
        row(
            "attach in flight",
            |h| h.connects(SECOND),
            start(10, 0),
            false,
            false,
        ),
        row(
            "connection closed",
            |h| h.agent.handle_disconnected(FIRST, h.now()),
            start(10, 0),
            false,
            false,
        ),
    ] {
        let mut host = Host::attached(Rules::all());
        (row.prepare)(&mut host);
        host.actions();
        host.says(row.start);
        let actions = host.actions();
        assert_eq!(!launches(&actions).is_empty(), row.launched, "{}", row.what);
        let refused = receipts(actions) == [(10, Refused)];
        assert_eq!(refused, row.refused, "{}", row.what);
    }
}

#[test]
fn without_the_rule_a_late_start_is_obeyed() {
    let mut host = Host::attached(Rules::without(Rule::LateStartRefused));
    host.pass(LIFE);
    host.says(start(10, 0));
    assert_eq!(launches(&host.actions()), [(10, host.boot + LIFE)]);
    host.agent.handle_disconnected(FIRST, host.now());
    host.says(start(11, 0));
    assert_eq!(launches(&host.actions()), [(11, host.boot + LIFE)]);
}

#[test]
fn an_attempt_lives_from_the_send_time_of_the_last_acked_beat_that_listed_it() {
    let mut host = Host::running(Rules::all());
    let attach_sent = host.boot;
    assert_eq!(host.deadline(10), Some(attach_sent + LIFE));
    let first = host.beat();
    let first_sent = host.boot;
    let second = host.beat();
    let second_sent = host.boot;
    host.says(ack(first, &[10]));
    assert_eq!(extends(&host.actions()), [(10, first_sent + LIFE)]);
    host.says(ack(second, &[10]));
    assert_eq!(extends(&host.actions()), [(10, second_sent + LIFE)]);
    // An older ack that comes late moves nothing back.
    host.says(ack(first, &[10]));
    assert_eq!(host.actions(), []);
    // Nor does the ack of a beat that was never sent, or of another session.
    host.says(ack(second + 1, &[10]));
    host.says(CoordinatorBody::HeartbeatAck {
        session: SessionId(499),
        beat: second,
        live: vec![],
    });
    assert_eq!(host.actions(), []);
    assert_eq!(host.deadline(10), Some(second_sent + LIFE));
}

#[test]
fn the_ack_kills_what_its_beat_reported_and_spares_the_newborn() {
    for (rules, killed) in [
        (Rules::all(), vec![(10, LeaseLost)]),
        (
            Rules::without(Rule::AckSparesNewborn),
            vec![(10, LeaseLost), (11, LeaseLost)],
        ),
    ] {
        let mut host = Host::running(rules);
        let beat = host.beat();
        host.says(start(11, beat));
        host.actions();
        host.says(ack(beat, &[]));
        assert_eq!(kills(&host.actions()), killed);
    }
}

#[test]
fn a_passed_deadline_is_a_latch() {
    for (rules, revived) in [
        (Rules::all(), false),
        (Rules::without(Rule::DeadlineLatch), true),
    ] {
        let mut host = Host::running(rules);
        let attach_sent = host.boot;
        let beat = host.beat();
        let sent = host.boot;
        // The host stalls past the deadline, and the ack that lay in the socket is read first.
        host.boot = attach_sent + LIFE + 500;
        assert!(host.boot < sent + LIFE);
        host.says(ack(beat, &[10]));
        let actions = host.actions();
        assert_eq!(kills(&actions).is_empty(), revived);
        assert_eq!(!extends(&actions).is_empty(), revived);
        // Killed once, or alive until the timer of the revived deadline.
        host.agent.handle_tick(host.now());
        assert_eq!(kills(&host.actions()), []);
        host.boot = sent + LIFE;
        host.agent.handle_tick(host.now());
        assert_eq!(!kills(&host.actions()).is_empty(), revived);
    }
}

#[test]
fn timers_kill_at_the_deadline_and_not_before() {
    let mut host = Host::running(Rules::all());
    host.agent.handle_disconnected(FIRST, host.now());
    let deadline = host.boot + LIFE;
    assert_eq!(host.agent.poll_timeout(), Some(BootMs(deadline)));
    host.boot = deadline - 1;
    host.agent.handle_tick(host.now());
    assert_eq!(host.actions(), []);
    host.boot = deadline;
    host.agent.handle_tick(host.now());
    assert_eq!(kills(&host.actions()), [(10, LeaseLost)]);
    assert_eq!(host.agent.poll_timeout(), None);
}

#[test]
fn lower_epochs_are_not_obeyed() {
    for (rules, obeyed) in [
        (Rules::all(), false),
        (Rules::without(Rule::EpochChecked), true),
    ] {
        let mut host = Host::running(rules);
        host.says_in(6, FIRST, nonce_query(77));
        host.actions();
        let cancel = CoordinatorBody::Cancel {
            session: SESSION,
            token: Token(10),
        };
        host.says_in(5, FIRST, cancel.clone());
        assert_eq!(!kills(&host.actions()).is_empty(), obeyed);
        host.says_in(6, FIRST, cancel);
        assert_eq!(!kills(&host.actions()).is_empty(), !obeyed);
    }
}

#[test]
fn a_new_attach_lists_and_renews_what_lives_and_kills_what_is_not_current() {
    let mut host = Host::running(Rules::all());
    host.says(start(11, 0));
    host.agent.handle_disconnected(FIRST, host.now());
    host.actions();
    host.pass(30_000);
    host.connects(SECOND);
    let sent = host.boot;
    assert_eq!(attaches(host.actions()), [vec![10, 11]]);
    host.pass(700);
    host.says_in(5, SECOND, attached(&[11]));
    let actions = host.actions();
    assert_eq!(kills(&actions), [(11, LeaseLost)]);
    assert_eq!(extends(&actions), [(10, sent + LIFE)]);
    let told = messages(actions);
    assert!(
        matches!(&told[..], [(SECOND, AgentMessage::Started(s))] if s.token == Token(10)),
        "{told:?}"
    );
    // The new session numbers its beats from 1 again.
    assert_eq!(host.beat(), 1);
}

#[test]
fn receipts_are_resent_after_every_attach_until_acknowledged_and_then_forgotten() {
    let mut host = Host::running(Rules::all());
    let end = ended_end(None, Exit::Code(0));
    host.agent.handle_supervisor(ended(10, end), host.now());
    assert_eq!(receipts(host.actions()), [(10, Succeeded)]);
    host.agent.handle_disconnected(FIRST, host.now());
    host.connects(SECOND);
    assert_eq!(attaches(host.actions()), [vec![10]]);
    host.says_in(5, SECOND, attached(&[]));
    assert_eq!(receipts(host.actions()), [(10, Succeeded)]);
    host.says_in(5, SECOND, receipt_ack(10));
    assert_eq!(forgets(&host.actions()), [10]);
    // The word to forget it was lost: it is said again, and no receipt is made of it.
    host.agent.handle_supervisor_down(host.now());
    let mut done = held(10, 0);
    done.end = Some(ended_end(None, Exit::Code(0)));
    host.agent
        .handle_supervisor_up(table(1, vec![done]), host.now());
    let actions = host.actions();
    assert_eq!(forgets(&actions), [10]);
    assert_eq!(receipts(actions), []);
}

#[test]
fn an_agent_that_stops_takes_no_more_kills_nothing_and_hands_in_what_has_ended() {
    let mut host = Host::running(Rules::all());
    host.agent.handle_stop(host.now());
    assert!(host.agent.is_settled());
    assert_eq!(kills(&host.actions()), []);

    host.says(start(11, 0));
    let actions = host.actions();
    assert_eq!(launches(&actions), []);
    assert_eq!(receipts(actions), [(11, AttemptOutcome::Refused)]);
    assert!(!host.agent.is_settled());
    host.says(receipt_ack(11));
    assert!(host.agent.is_settled());
}

#[test]
fn without_the_rule_a_receipt_is_said_once() {
    let mut host = Host::running(Rules::without(Rule::ReceiptHeldUntilAcked));
    let end = ended_end(None, Exit::Code(0));
    host.agent.handle_supervisor(ended(10, end), host.now());
    let actions = host.actions();
    assert_eq!(forgets(&actions), [10]);
    assert_eq!(receipts(actions), [(10, Succeeded)]);
    host.connects(SECOND);
    host.says_in(5, SECOND, attached(&[]));
    assert_eq!(receipts(host.actions()), []);
}

#[test]
fn the_receipt_of_a_failure_waits_for_the_tail_of_its_output() {
    let mut host = Host::running(Rules::all());
    let end = ended_end(None, Exit::Code(3));
    host.agent.handle_supervisor(ended(10, end), host.now());
    let output = "/data/output/10".to_owned();
    let token = Token(10);
    assert_eq!(host.actions(), [Action::ReadTail { token, output }]);
    // One byte too many in front, and the cut would fall inside a letter.
    let tail = "é".repeat(OUTPUT_TAIL_BYTES_MAX / 2) + "x";
    host.agent.handle_tail(token, tail, host.now());
    let told = messages(host.actions());
    let [(_, AgentMessage::Receipt(receipt))] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(receipt.end.outcome, Failed);
    assert_eq!(receipt.end.tail.len(), OUTPUT_TAIL_BYTES_MAX - 1);
    assert!(receipt.end.tail.ends_with("éx"));
}

#[test]
fn a_cancel_names_its_cause_and_the_first_cause_stands() {
    let mut host = Host::running(Rules::all());
    let beat = host.beat();
    let cancel = |session| CoordinatorBody::Cancel {
        session,
        token: Token(10),
    };
    host.says(cancel(SessionId(499)));
    assert_eq!(host.actions(), []);
    host.says(cancel(SESSION));
    host.says(ack(beat, &[]));
    assert_eq!(kills(&host.actions()), [(10, Cancelled)]);
}

#[test]
fn an_agent_that_was_restarted_goes_on_with_what_the_supervisor_holds() {
    let mut host = Host::new(Rules::all());
    let soon = host.boot + 4_000;
    let overdue = host.boot - 1;
    let mut dead = held(12, 0);
    dead.end = Some(ended_end(Some(LeaseLost), Exit::Signal(9)));
    let held = vec![held(10, soon), held(11, overdue), dead];
    host.agent.handle_supervisor_up(table(1, held), host.now());
    let actions = host.actions();
    assert_eq!(kills(&actions), [(11, LeaseLost)]);
    host.agent.handle_tail(Token(12), String::new(), host.now());
    host.connects(FIRST);
    let sent = host.boot;
    assert_eq!(attaches(host.actions()), [vec![10, 11, 12]]);
    host.says(attached(&[]));
    let actions = host.actions();
    assert_eq!(extends(&actions), [(10, sent + LIFE)]);
    assert_eq!(receipts(actions), [(12, Lost)]);
}

#[test]
fn a_supervisor_that_was_replaced_forces_a_new_attach_with_its_own_table() {
    let mut host = Host::running(Rules::all());
    host.agent.handle_supervisor_down(host.now());
    host.agent
        .handle_supervisor_up(table(2, vec![]), host.now());
    assert_eq!(
        host.actions(),
        [Action::Disconnect {
            connection: FIRST,
            reason: DisconnectReason::SupervisorReplaced
        }]
    );
    assert!(!host.agent.has_line_to(CONTROL));
    host.connects(SECOND);
    let told = messages(host.actions());
    let [(SECOND, AgentMessage::Attach(attach))] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(attach.supervisor_incarnation, Incarnation(2));
    assert!(attach.swept && attach.attempts.is_empty());
}

#[test]
fn a_broken_line_to_the_same_supervisor_is_mended_without_a_new_session() {
    let mut host = Host::running(Rules::all());
    host.says(start(11, 0));
    host.actions();
    host.agent.handle_supervisor_down(host.now());
    let beat = host.beat();
    let sent = host.boot;
    host.says(ack(beat, &[10, 11]));
    host.says(CoordinatorBody::Cancel {
        session: SESSION,
        token: Token(10),
    });
    assert_eq!(host.actions(), []);
    // Launch 11 was never read; 10 runs with its first deadline.
    host.agent
        .handle_supervisor_up(table(1, vec![held(10, sent)]), host.now());
    let actions = host.actions();
    assert_eq!(extends(&actions), [(10, sent + LIFE)]);
    assert_eq!(kills(&actions), [(10, Cancelled)]);
    assert_eq!(receipts(actions), [(11, Refused)]);
    assert_eq!(host.agent.session(), Some(SESSION));
}

#[test]
fn a_supervisor_that_hangs_ends_the_session_and_its_next_word_is_answered_with_a_question() {
    let mut host = Host::running(Rules::all());
    host.hung = true;
    let asked = host.boot + HEARTBEAT.0;
    while host.agent.has_line_to(CONTROL) {
        host.boot = host.agent.poll_timeout().unwrap().0;
        host.agent.handle_tick(host.now());
        // The coordinator is there all the while.
        if let Some(session) = host.agent.session() {
            let (beat, live) = (u64::MAX, vec![Token(10)]);
            host.says(CoordinatorBody::HeartbeatAck {
                session,
                beat,
                live,
            });
        }
    }
    assert_eq!(host.boot, asked + QUIET_HOST.0);
    assert!(host.actions().contains(&Action::Disconnect {
        connection: FIRST,
        reason: DisconnectReason::SupervisorAway,
    }));
    // Nobody attaches on what it said before.
    host.connects(ConnectionId(2));
    assert_eq!(host.actions(), []);
    host.agent.handle_supervisor(Event::Pong, host.now());
    assert_eq!(host.actions(), [Action::Supervise(Request::Hello)]);
    host.hung = false;
    let deadline = host.boot + 60_000;
    let table = table(1, vec![held(10, deadline)]);
    host.agent
        .handle_supervisor(Event::Table(table), host.now());
    assert!(matches!(
        host.actions()[..],
        [Action::Send {
            message: AgentMessage::Attach(_),
            ..
        }]
    ));
}

#[test]
fn silence_of_three_beats_ends_a_connection() {
    let mut host = Host::attached(Rules::all());
    host.pass(QUIET_HOST.0 - 1);
    host.agent.handle_tick(host.now());
    host.actions();
    host.says(ack(1, &[]));
    host.pass(QUIET_HOST.0 - 1);
    host.agent.handle_tick(host.now());
    host.actions();
    host.pass(1);
    host.agent.handle_tick(host.now());
    assert_eq!(
        host.actions(),
        [Action::Disconnect {
            connection: FIRST,
            reason: DisconnectReason::Silent
        }]
    );
    // An attach that nobody answers ends the same way.
    host.connects(SECOND);
    host.actions();
    assert_eq!(
        host.agent.poll_timeout(),
        Some(BootMs(host.boot) + QUIET_HOST)
    );
}

#[test]
fn a_supervisor_that_stays_away_ends_the_session_and_nobody_vouches_for_its_attempts() {
    for (away, ends) in [(QUIET_HOST.0 - 1, false), (QUIET_HOST.0, true)] {
        let mut host = Host::running(Rules::all());
        host.agent.handle_supervisor_down(host.now());
        assert!(host.agent.poll_timeout() <= Some(BootMs(host.boot) + QUIET_HOST));
        while host.boot < 1_000_000 + away {
            host.pass(HEARTBEAT.0.min(1_000_000 + away - host.boot));
            host.says(ack(0, &[10]));
            host.agent.handle_tick(host.now());
        }
        let ended = host.actions().iter().any(|action| {
            matches!(action, Action::Disconnect { reason, .. }
                if *reason == DisconnectReason::SupervisorAway)
        });
        assert_eq!(ended, ends, "away for {away} ms");
    }

    // A new connection waits for the supervisor before it attaches.
    let mut host = Host::running(Rules::all());
    host.agent.handle_supervisor_down(host.now());
    host.pass(QUIET_HOST.0);
    host.agent.handle_tick(host.now());
    host.connects(SECOND);
    host.pass(QUIET_HOST.0);
    host.agent.handle_tick(host.now());
    assert!(attaches(host.actions()).is_empty());
    host.agent
        .handle_supervisor_up(table(1, vec![held(10, host.boot + 1_000)]), host.now());
    assert_eq!(attaches(host.actions()), [vec![10]]);
}

#[test]
fn a_refused_attach_is_not_hurried() {
    let mut host = Host::new(Rules::all());
    host.agent
        .handle_supervisor_up(table(1, vec![]), host.now());
    host.connects(FIRST);
    host.actions();
    host.says(CoordinatorBody::AttachRefused {
        reason: "quarantined".to_owned(),
    });
    let actions = host.actions();
    let [Action::Disconnect { reason, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(reason.pause(), REFUSED_PAUSE);
}

/// A second agent on the same supervisor took the line, heard the end and let it be forgotten.
#[test]
fn what_began_and_was_forgotten_is_lost_and_never_called_unread() {
    let mut host = Host::attached(Rules::all());
    host.says(start(10, 0));
    host.says(start(11, 0));
    host.agent.handle_supervisor(
        Event::Launched {
            token: Token(10),
            at: WallMs(5),
        },
        host.now(),
    );
    host.actions();
    host.agent.handle_supervisor_down(host.now());
    host.agent
        .handle_supervisor_up(table(1, vec![]), host.now());
    host.agent
        .handle_tail(Token(10), "its last words".to_owned(), host.now());
    let mut got = receipts(host.actions());
    got.sort_by_key(|(token, _)| *token);
    assert_eq!(got, [(10, Lost), (11, Refused)]);
}

#[test]
fn what_the_policy_forbids_is_refused_whatever_a_coordinator_says() {
    let mut host = Host::attached(Rules::all());
    host.agent.config.policy = Policy {
        exec: Some(vec![Program::new("/opt/nothing").unwrap()]),
        ..Policy::default()
    };
    host.says(start(10, 0));
    let actions = host.actions();
    assert_eq!(launches(&actions), []);
    let [(_, AgentMessage::Receipt(receipt))] = &messages(actions)[..] else {
        panic!("one receipt and nothing else");
    };
    assert_eq!(receipt.end.outcome, Refused);
    let reason = receipt.end.reason.as_deref().unwrap();
    assert!(
        reason.starts_with("the policy of this host forbids it: "),
        "{reason}"
    );
}

/// Before the certificates that it rests on end, a connection is made anew.
#[test]
fn a_new_connection_takes_the_place_of_an_idle_one_and_the_attached_one_stays_until_it_is() {
    let mut host = Host::attached(Rules::all());
    let (idle, newer) = (ConnectionId(50), ConnectionId(51));
    host.agent.handle_connected(idle, STANDBY, host.now());
    assert_eq!(host.actions(), []);
    host.agent.handle_connected(newer, STANDBY, host.now());
    let left = |connection| Action::Disconnect {
        connection,
        reason: DisconnectReason::Superseded,
    };
    assert_eq!(host.actions(), [left(idle)]);

    // The leader's: nothing is left before the attach on the new one is through.
    let again = ConnectionId(52);
    host.agent.handle_connected(again, CONTROL, host.now());
    assert_eq!(host.actions(), []);
    assert_eq!(host.agent.attached_on(), Some(FIRST));
    host.says_in(5, again, invitation(9));
    assert_eq!(attaches(host.actions()).len(), 1);
    host.says_in(5, again, attached(&[]));
    assert_eq!(host.agent.attached_on(), Some(again));
    assert!(host.actions().contains(&left(FIRST)));
    assert!(host.agent.has_line_to(STANDBY));
}
