use std::io;
use std::sync::{Arc, Mutex};

use coordinator_core::ProposalId;
use jobs::parse_manifests;
use ledger::command::{
    AttachAgent, BecomeActive, Expire, Fire, Grant, Proposal, PutJob, RaiseAlert,
};
use ledger::{Store, command};
use protocol::attempt::{AttemptEnd, Exit, Trigger};
use protocol::message::Incarnation;
use protocol::{BootMs, DurationMs, Rules, SessionId, Token, WallMs};

use super::*;

const NOON: WallMs = WallMs(1_800_000_000_000);

const MANIFEST: &str = "
name: t/a
purpose: To be told of.
owner: tester
repeatable: { safe: true, how: it does nothing }
schedule: { cron: \"* * * * *\", timezone: Etc/UTC }
misfire: { policy: run_now }
overlap: queue
expected_duration: 1s
timeout: 1m
run: { exec: [\"/bin/true\"] }
";

/// A ledger whose every batch is told of.
struct Teller {
    store: Store,
    set: WorkingSet,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Teller {
    fn do_all(&mut self, commands: Vec<Command>) -> Vec<Done> {
        let proposal = |command| Proposal {
            epoch: self.set.epoch,
            at: NOON,
            source: None,
            command,
        };
        let proposals: Vec<Proposal> = commands.into_iter().map(proposal).collect();
        let outcomes = self.store.propose(&proposals).unwrap();
        let ids = vec![ProposalId(0); proposals.len()];
        let batch = Committed::all(ids, &proposals.into(), outcomes);
        tell(&self.set, &batch);
        batch
            .into_iter()
            .map(|committed| {
                for change in &committed.outcome.changes {
                    self.set.absorb(change);
                }
                committed.outcome.result.unwrap()
            })
            .collect()
    }

    fn grant(&mut self, run_id: RunId, session: SessionId) -> Token {
        let grant = Command::Grant(Grant {
            run_id,
            shard: 0,
            session,
            uses: Vec::new(),
        });
        match self.do_all(vec![grant]).pop() {
            Some(Done::Granted { token, .. }) => token,
            other => panic!("{other:?}"),
        }
    }
}

fn end(outcome: AttemptOutcome) -> AttemptEnd {
    AttemptEnd {
        outcome,
        exit: Some(Exit::Code(0)),
        started_at: Some(NOON),
        ended_at: NOON,
        cpu: DurationMs(1),
        memory_bytes_peak: 1,
        out_of_memory: false,
        usage: None,
        not_enforced: Vec::new(),
        reason: None,
        tail: String::new(),
    }
}

fn a_run_from_its_fire_to_its_end(teller: &mut Teller) {
    let manifest = parse_manifests("m", MANIFEST).unwrap().remove(0);
    let begin = BecomeActive {
        node: "c1".to_owned(),
        incarnation: Incarnation(1),
        boot_id: "boot".to_owned(),
        boot: BootMs(0),
        tzdata: "2026a".to_owned(),
        looked_at: None,
    };
    teller.do_all(vec![Command::BecomeActive(begin)]);
    let put = PutJob {
        shards: None,
        manifest,
        cut_over: NOON - DurationMs(60_000),
        settle: None,
        expected: None,
        by: "tester".to_owned(),
    };
    let attach = AttachAgent {
        name: "host-1".parse().unwrap(),
        boot_id: "boot".to_owned(),
        agent: Incarnation(1),
        supervisor: Incarnation(2),
        swept: true,
        slots: 4,
        labels: Vec::new(),
        holds: Vec::new(),
    };
    let done = teller.do_all(vec![
        Command::PutJob(Box::new(put)),
        Command::AttachAgent(attach),
    ]);
    let [
        Done::JobPut { job_id, .. },
        Done::Attached {
            agent_id, session, ..
        },
    ] = done[..]
    else {
        panic!("{done:?}");
    };
    let decision = Decision::Run {
        fire_time: NOON,
        nominal: vec!["2027-01-15T08:00:00".to_owned()],
        trigger: Trigger::Scheduled,
        start_deadline: None,
    };
    let fire = Fire {
        job_id,
        version: 1,
        from: NOON - DurationMs(60_000),
        through: NOON,
        decisions: vec![decision],
    };
    let done = teller.do_all(vec![Command::Fire(fire)]);
    let [Done::Fired { runs }] = &done[..] else {
        panic!("{done:?}");
    };
    let run_id = runs[0].0;
    let token = teller.grant(run_id, session);
    let expire = Command::Expire(Expire {
        run_id,
        shard: 0,
        token,
        reason: "host-1 was not heard of".to_owned(),
    });
    teller.do_all(vec![expire]);
    let token = teller.grant(run_id, session);
    let finish = Command::Finish(command::Finish {
        agent_id,
        token,
        end: end(AttemptOutcome::Succeeded),
    });
    let alert = Command::RaiseAlert(RaiseAlert {
        kind: command::AlertKind::FlappingLeader,
        on: On::Job(job_id),
        text: "look".to_owned(),
    });
    teller.do_all(vec![finish, alert]);
}

#[test]
fn the_log_tells_a_run_from_its_fire_to_its_end() {
    let lines = Lines::default();
    let written = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || written.clone())
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    let mut teller = Teller {
        store: Store::open_in_memory(Rules::all()).unwrap(),
        set: WorkingSet::default(),
    };
    tracing::subscriber::with_default(subscriber, || {
        a_run_from_its_fire_to_its_end(&mut teller);
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let told: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(
        told,
        [
            "INFO this coordinator leads epoch=epoch-1 node=\"c1\"",
            "INFO job changed job=\"t/a\" version=1 kind=\"created\" by=\"tester\"",
            "INFO agent attached agent=\"host-1\" session=session-2 slots=4 holds=0 kill=0 released=0 owed=0",
            "INFO run fired job=\"t/a\" fire_time=2027-01-15T08:00:00Z run=run-1 execution=1 trigger=\"scheduled\" manual=false shards=1 state=\"ready\"",
            "INFO lease expired job=\"t/a\" fire_time=\"2027-01-15T08:00:00Z\" shard=0 token=token-4 agent=\"host-1\" reason=\"host-1 was not heard of\"",
            "INFO run finished job=\"t/a\" fire_time=2027-01-15T08:00:00Z run=run-1 execution=1 state=\"succeeded\"",
            "WARN alert job=\"t/a\" text=\"look\"",
        ]
    );
}
