use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use coordinator_core::clock::Thresholds;
use coordinator_core::{Afterwards, NoSuccessor, Request};
use jobs::parse_manifests;
use ledger::Done;
use profiles::classes::Classes;
use protocol::JobName;
use protocol::message::Incarnation;
use tokio::runtime::Runtime;

use super::*;
use crate::committer;
use crate::consensus::{Begin, GroupOptions};
use crate::lead::{self, About, Lead};
use crate::member::Member;
use crate::metrics::Metrics;
use crate::quorum::Quorum;
use crate::roster::Roster;
use crate::time_service::{self, TimeService};

/// A scheduler on a group of one, without any agent.
struct Bed {
    engine: Engine,
    lead: Lead,
    member: Member,
    following: tokio::task::JoinHandle<()>,
    threads: [thread::JoinHandle<()>; 2],
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn start() -> Bed {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let member = runtime.block_on(member(directory.path()));
        let (engine, inbox) = channel();
        let metrics = Arc::new(Metrics::default());
        let (committer, write) =
            committer::prepare(member.proposer(), engine.clone(), Arc::clone(&metrics));
        let group = member.group();
        let quorum = Quorum::new(Arc::clone(group), member.runtime().clone(), engine.clone());
        let roster = Arc::new(Roster::default());
        let scheduler = Scheduler::new(inbox, committer, quorum, roster, metrics);
        let following = runtime.spawn(lead::follow(Arc::clone(group), engine.clone(), about()));
        Bed {
            lead: runtime.block_on(async { Lead::new(group, engine.clone()) }),
            following,
            threads: [thread::spawn(write), thread::spawn(move || scheduler.run())],
            engine,
            member,
            runtime,
            _directory: directory,
        }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Waits until a reign after this one has begun.
    fn reigns_after(&self, over: ReignId) -> Epoch {
        let begun = |post: &Post| match post.standing {
            Standing::Reigning { epoch, .. } if post.over >= over => Some(epoch),
            _ => None,
        };
        let mut post = self.engine.post();
        let post = self.run(post.wait_for(|post| begun(post).is_some()));
        let post = *post.unwrap();
        begun(&post).unwrap()
    }

    fn term(&self) -> u64 {
        self.member.group().leadership().borrow().term
    }

    /// Holds the thread until what `meanwhile` does is done: all of it is found in the queue at once.
    fn held<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let (go_on, waits) = mpsc::channel::<()>();
        self.engine.send(Input::Question(Box::new(move |_, _| {
            // The other end is dropped to say so.
            let _ = waits.recv();
        })));
        let done = meanwhile();
        drop(go_on);
        done
    }

    fn stop(self) {
        self.engine.send(Input::Stop);
        self.following.abort();
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.runtime.block_on(async {
            let _ = self.following.await;
            self.member.stop().await;
        });
    }
}

async fn member(directory: &Path) -> Member {
    let options = GroupOptions::in_directory(directory, 1, Begin::Alone);
    Member::start(options).await.unwrap()
}

fn about() -> About {
    About {
        node: "c1".to_owned(),
        incarnation: Incarnation(1),
        boot_id: "boot".to_owned(),
        clock: Thresholds::default(),
        classes: Arc::new(Classes::built_in()),
        time_service: time_service::ask(TimeService::Unasked).unwrap(),
    }
}

fn put(name: &str) -> Request {
    let yaml = format!(
        "name: {name}
purpose: To be put.
owner: tester
repeatable: {{ safe: false }}
schedule: {{ cron: \"0 0 29 2 *\", timezone: Etc/UTC }}
misfire: {{ policy: skip }}
overlap: forbid
expected_duration: 1s
timeout: 1m
run: {{ exec: [\"/bin/true\"] }}"
    );
    Request::PutJob {
        manifest: Arc::new(parse_manifests("m", &yaml).unwrap().remove(0)),
        expected: None,
        by: "tester".to_owned(),
    }
}

#[test]
fn a_request_is_answered_when_it_is_committed_and_none_after_the_stop() {
    let bed = Bed::start();
    bed.reigns_after(ReignId(0));
    bed.run(async {
        let engine = &bed.engine;
        assert!(bed.lead.acts().await);
        let done = engine.request(put("t/a")).await.unwrap();
        assert!(matches!(done, Done::JobPut { version: 1, .. }), "{done:?}");
        let jobs = engine.ask(|core, _| core.working_set().jobs.len()).await;
        assert_eq!(jobs.unwrap(), 1);
        let none = Request::DeleteJob {
            job: "t/none".parse::<JobName>().unwrap(),
            by: "tester".to_owned(),
        };
        let refused = engine.request(none).await;
        assert!(
            matches!(refused, Err(AskError::Refused(RequestError::NoSuchJob(_)))),
            "{refused:?}"
        );
        engine.send(Input::Stop);
        let late = engine.request(put("t/b")).await;
        assert!(matches!(late, Err(AskError::Stopping)), "{late:?}");
        let late = engine.ask(|_, _| ()).await;
        assert!(matches!(late, Err(AskError::Stopping)), "{late:?}");
        assert!(!bed.lead.acts().await);
    });
    bed.stop();
}

#[test]
fn who_loses_the_lead_stands_by_and_reigns_again_in_the_same_process() {
    let bed = Bed::start();
    let first = bed.reigns_after(ReignId(0));
    bed.run(bed.engine.request(put("t/a"))).unwrap();
    // The request is in the core's hands when the lead is lost.
    let mut asked = bed.held(|| {
        let engine = bed.engine.clone();
        let mut asked = Box::pin(async move { engine.request(put("t/b")).await });
        bed.run(async {
            tokio::select! {
                biased;
                answer = &mut asked => panic!("{answer:?}"),
                () = tokio::task::yield_now() => {}
            }
        });
        bed.engine.send(Input::Lost { term: bed.term() });
        asked
    });
    let answer = bed.run(&mut asked);
    assert!(matches!(answer, Err(AskError::Lost)), "{answer:?}");

    let second = bed.reigns_after(ReignId(1));
    assert!(second > first);
    let jobs = bed.run(
        bed.engine
            .ask(|core, _| core.working_set().jobs.keys().copied().collect::<Vec<_>>()),
    );
    assert_eq!(jobs.unwrap().len(), 1, "what was committed is there");
    bed.run(bed.engine.request(put("t/c"))).unwrap();
    bed.stop();
}

#[test]
fn nothing_of_an_old_reign_reaches_a_new_one() {
    let bed = Bed::start();
    bed.reigns_after(ReignId(0));
    bed.engine.send(Input::Lost { term: bed.term() });
    let epoch = bed.reigns_after(ReignId(1));
    for late in [
        Input::Lost {
            term: bed.term() - 1,
        },
        Input::Quorum {
            reign: ReignId(1),
            round: 1,
        },
        Input::Committed {
            reign: ReignId(1),
            committed: Vec::new(),
        },
        Input::NotCommitted {
            reign: ReignId(1),
            error: ProposeError::Unknown,
        },
    ] {
        bed.engine.send(late);
    }
    bed.run(bed.engine.request(put("t/a"))).unwrap();
    assert_eq!(bed.reigns_after(ReignId(1)), epoch);
    assert_eq!(bed.engine.post().borrow().over, ReignId(1));
    bed.stop();
}

#[test]
fn on_standby_nothing_is_carried_out_and_everybody_is_told() {
    let bed = Bed::start();
    bed.reigns_after(ReignId(0));
    // With nobody to follow the lead, the reign that is lost is the last one.
    bed.following.abort();
    bed.engine.send(Input::Lost { term: bed.term() });
    bed.run(async {
        let refused = bed.engine.request(put("t/a")).await;
        assert!(matches!(refused, Err(AskError::NotLeading)), "{refused:?}");
        let refused = bed.engine.ask(|_, _| ()).await;
        assert!(matches!(refused, Err(AskError::NotLeading)), "{refused:?}");
        let lives = bed.engine.ask_either(|core, _| core.is_none()).await;
        assert!(lives.unwrap());
        assert!(!bed.lead.acts().await && !bed.lead.reigns());
        let refused = bed.engine.hand_over(None, Afterwards::Stays).await;
        assert_eq!(refused, Err(HandOverError::NotLeading));
    });
    bed.stop();
}

#[test]
fn alone_there_is_nobody_to_give_the_lead_to() {
    let bed = Bed::start();
    bed.reigns_after(ReignId(0));
    for to in [None, Some(1), Some(2)] {
        let refused = bed.run(bed.engine.hand_over(to, Afterwards::Ends));
        assert_eq!(refused, Err(NoSuccessor::Nobody.into()), "{to:?}");
    }
    bed.run(bed.engine.request(put("t/a"))).unwrap();
    bed.stop();
}

#[test]
fn so_many_requests_at_a_time() {
    let (engine, inbox) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let waiting: Vec<_> = (0..REQUESTS_MAX)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.request(put("t/a")).await })
            })
            .collect();
        while engine.requests.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let one_more = engine.request(put("t/a")).await;
        assert!(matches!(one_more, Err(AskError::Busy)), "{one_more:?}");
        // Nobody serves the queue; its end answers everybody.
        drop(inbox);
        for asked in waiting {
            let answer = asked.await.unwrap();
            assert!(matches!(answer, Err(AskError::Stopping)), "{answer:?}");
        }
        let after = engine.request(put("t/a")).await;
        assert!(matches!(after, Err(AskError::Stopping)), "{after:?}");
    });
}
