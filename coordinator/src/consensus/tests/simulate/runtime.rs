//! tokio, as openraft uses it in tests: what a simulated machine spawns ends with the machine, and
//! what it draws comes from its seed. Whoever is no simulated machine notices nothing of that.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::{TokioInstant, TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime};
use tokio::task::{AbortHandle, JoinError, JoinHandle};

use super::super::draw::Draw;
use super::watch::InOrder;

tokio::task_local! {
    static MACHINE: Arc<Machine>;
}

/// One life of a machine, from its start to its end.
#[derive(Debug)]
pub(super) struct Machine {
    draw: Mutex<Draw>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Arc<Machine> {
        Arc::new(Machine {
            draw: Mutex::new(Draw::new(seed)),
            tasks: Mutex::default(),
        })
    }

    /// Has something done by this machine.
    pub(super) async fn does<T>(self: &Arc<Machine>, work: impl Future<Output = T>) -> T {
        MACHINE.scope(Arc::clone(self), work).await
    }

    /// Ends all that it does, in the middle of it.
    pub(super) fn end(&self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

#[derive(Debug)]
pub(in crate::consensus) struct Runtime(TokioRuntime);

type Drawing = DeterministicRng<TokioRuntime>;

impl AsyncRuntime for Runtime {
    type JoinError = JoinError;
    type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
    type Sleep = tokio::time::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = tokio::time::error::Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = tokio::time::Timeout<T>;
    type ThreadLocalRng = <Drawing as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = TokioMpsc;
    type Watch = InOrder;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let Ok(machine) = MACHINE.try_with(Arc::clone) else {
            return tokio::spawn(future);
        };
        let task = tokio::spawn(MACHINE.scope(Arc::clone(&machine), future));
        machine.tasks.lock().unwrap().push(task.abort_handle());
        task
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: TokioInstant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F>(duration: Duration, future: F) -> Self::Timeout<R, F>
    where
        F: Future<Output = R> + OptionalSend,
    {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F>(deadline: TokioInstant, future: F) -> Self::Timeout<R, F>
    where
        F: Future<Output = R> + OptionalSend,
    {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        let seed = MACHINE
            .try_with(|machine| machine.draw.lock().unwrap().next())
            .unwrap_or_else(|_| getrandom::u64().unwrap());
        Drawing::scope(seed, async { Drawing::thread_rng() })
            .now_or_never()
            .expect("it waits for nothing")
    }

    fn new(threads: usize) -> Runtime {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}
