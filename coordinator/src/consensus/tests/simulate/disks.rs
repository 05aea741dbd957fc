//! The threads that work on the files, as tasks: each order takes the time that a disk takes, and
//! is then carried out at once, by the very code that the threads run.

use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use tokio::time::sleep;

use super::super::super::start::Workers;
use super::super::draw::Draw;
use super::runtime::Runtime;

/// Between two rounds of checkpoints: rarely, so that a cut of the power takes much.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(3);

/// How long a disk takes.
#[derive(Clone)]
pub(super) struct Speed(Arc<Mutex<(Draw, Duration)>>);

impl Speed {
    pub(super) fn new(draw: Draw) -> Speed {
        Speed(Arc::new(Mutex::new((draw, Duration::ZERO))))
    }

    /// Each sync takes so much longer from now on.
    pub(super) fn slow_down(&self, by: Duration) {
        self.0.lock().unwrap().1 = by;
    }

    /// As long as a write takes that is not synced.
    async fn write(&self) {
        let time = self.0.lock().unwrap().0.time(0..3);
        sleep(time).await;
    }

    /// As long as a sync takes.
    async fn sync(&self) {
        self.write().await;
        let slow = self.0.lock().unwrap().1;
        sleep(slow).await;
    }
}

/// Works on the files of a machine for as long as it lives.
pub(super) fn work(workers: Workers, speed: &Speed) {
    let Workers {
        mut log,
        mut ledger,
        checkpoints,
        stop,
    } = workers;
    let disk = speed.clone();
    Runtime::spawn(async move {
        while let Some(order) = log.next().await {
            disk.sync().await;
            log.write(order);
        }
    });
    let disk = speed.clone();
    Runtime::spawn(async move {
        while let Some(order) = ledger.next().await {
            disk.write().await;
            ledger.carry_out(order);
        }
    });
    Runtime::spawn(async move {
        while stop.try_recv() != Err(TryRecvError::Disconnected) {
            sleep(CHECKPOINT_EVERY).await;
            checkpoints.round();
        }
    });
}
