//! What people and programs ask of a coordinator.

pub(crate) mod act;
pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod ca;
pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod guard;
pub(crate) mod logs;
pub(crate) mod next;
pub(crate) mod schema;

use nix::unistd::{User, getuid};
use protocol::api::{Run, RunDetail};

use crate::client::Client;
use crate::clock::rough;
use crate::failure::Failure;
use crate::subject::RunRef;

/// Who asks: the user that this process runs as.
pub(crate) fn asking_user() -> String {
    let uid = getuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        // A user without a name, as in some containers.
        _ => format!("uid-{uid}"),
    }
}

fn find_run(client: &Client, run: &RunRef) -> Result<RunDetail, Failure> {
    match run {
        RunRef::Id(id) => client.get(&format!("/api/v1/runs/{id}"), &[]),
        RunRef::Fire { job, fire_time } => client.get(
            "/api/v1/runs/by-fire-time",
            &[
                ("job", job.to_string()),
                ("fire_time", fire_time.to_rfc3339()),
            ],
        ),
    }
}

/// `3/12`: shards that succeeded, of how many.
fn shards_done(run: &Run) -> String {
    format!("{}/{}", run.succeeded, run.shards)
}

/// From admission to end, nothing where it goes on.
fn took(run: &Run) -> String {
    run.ended_at
        .map_or_else(String::new, |end| rough(end - run.admitted_at))
}
