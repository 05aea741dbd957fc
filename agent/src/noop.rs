//! What stands in for a supervisor when `matins bench` measures what is around a process.
//!
//! It answers every launch as ended well, at once and without a process. No manifest can ask for
//! it: it is chosen when an agent is started, by a flag that only the benchmark gives, and the
//! agent says so as loudly as a log can.

use protocol::attempt::Exit;
use protocol::message::Incarnation;
use protocol::supervisor::{End, Event, Request, SpawnFault, Table};
use protocol::{DurationMs, WallMs};

/// Holds nothing: what it was asked for has ended when it was asked.
#[derive(Debug)]
pub(crate) struct Noop {
    incarnation: Incarnation,
}

impl Noop {
    pub(crate) fn new(incarnation: Incarnation) -> Noop {
        tracing::error!(
            "this agent runs NOTHING: it answers every start as a success, for `matins bench` \
             alone; stop it if it was started for anything else"
        );
        Noop { incarnation }
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            incarnation: self.incarnation,
            boot_id: "noop".to_owned(),
            swept: true,
            attempts: Vec::new(),
        }
    }

    pub(crate) fn answer(&self, request: Request, now: WallMs) -> Option<Event> {
        match request {
            Request::Hello => Some(Event::Table(self.table())),
            Request::Ping => Some(Event::Pong),
            Request::Launch(launch) => Some(Event::Ended {
                token: launch.token,
                end: done_at(now),
            }),
            // Of what has ended already.
            Request::Extend { .. } | Request::Kill { .. } | Request::Forget { .. } => None,
        }
    }
}

fn done_at(now: WallMs) -> End {
    End {
        killed: None,
        exit: Some(Exit::Code(0)),
        spawn_error: None,
        spawn_fault: SpawnFault::default(),
        started_at: Some(now),
        ended_at: now,
        cpu: DurationMs::ZERO,
        memory_bytes_peak: 0,
        out_of_memory: false,
        not_enforced: Vec::new(),
        leftovers: 0,
    }
}
