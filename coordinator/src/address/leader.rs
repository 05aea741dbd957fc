//! What holding the address takes from the rest of a coordinator: its reigns, its quorum, and
//! somebody who hands over.

use std::path::PathBuf;

use coordinator_core::Afterwards;
use coordinator_core::address::{Pace, Trouble};
use protocol::Epoch;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Hold, hold};
use crate::clock::in_millis;
use crate::consensus::Timers;
use crate::engine::{self, Engine, HandOverError};
use crate::exit::causes;
use crate::lead::Lead;

/// Has the keeper hold the address in every reign of this coordinator. Ends with its engine.
pub(crate) async fn follow(
    socket: PathBuf,
    lead: Lead,
    timers: Timers,
    engine: Engine,
    trouble: watch::Sender<Option<Trouble>>,
) {
    let (reign, reigns) = watch::channel(None);
    let (hand_over, asked) = mpsc::channel(1);
    let holding = hold(Hold {
        socket,
        pace: pace(timers),
        reign: reigns,
        confirm: |limit| {
            let lead = lead.clone();
            async move { timeout(limit, lead.acts()).await == Ok(true) }
        },
        trouble,
        hand_over,
    });
    tokio::join!(
        follow_reigns(engine.clone(), reign),
        holding,
        hand_over_when_asked(engine, asked)
    );
}

fn pace(timers: Timers) -> Pace {
    Pace::of(
        in_millis(timers.election_min),
        in_millis(timers.election_max),
    )
}

async fn follow_reigns(engine: Engine, reign: watch::Sender<Option<Epoch>>) {
    let mut post = engine.post();
    loop {
        let standing = post.borrow_and_update().standing;
        let now = match standing {
            engine::Standing::Reigning { epoch, .. } => Some(epoch),
            // It leads until the other has everything, and perhaps on from there.
            engine::Standing::Leaving => *reign.borrow(),
            engine::Standing::Standby { .. } | engine::Standing::Beginning => None,
        };
        reign.send_replace(now);
        if post.changed().await.is_err() {
            return;
        }
    }
}

async fn hand_over_when_asked(engine: Engine, mut asked: mpsc::Receiver<Trouble>) {
    while let Some(trouble) = asked.recv().await {
        match engine.hand_over(None, Afterwards::Stays).await {
            Ok(to) => tracing::info!(to, %trouble, "the lead was given away for the address"),
            Err(HandOverError::NotLeading) => {}
            Err(error) => {
                let error = causes(&error);
                tracing::warn!(error, %trouble, "this coordinator leads on without its address");
            }
        }
    }
}
