//! A channel of the newest value that wakes those who wait in the order in which they came; tokio's
//! draws the order, and no seed would be the same history twice.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::task::{Poll, Waker};

use openraft_rt::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft_rt::{OptionalSend, OptionalSync};

pub(in crate::consensus) struct InOrder;

struct Shared<T> {
    value: RwLock<T>,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    version: u64,
    senders: usize,
    receivers: usize,
    wakers: Vec<Waker>,
}

impl<T> Shared<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap()
    }

    fn value(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap()
    }

    fn receiver(self: &Arc<Self>, seen: u64) -> Receiver<T> {
        self.waiting().receivers += 1;
        Receiver {
            shared: Arc::clone(self),
            seen,
        }
    }
}

pub(in crate::consensus) struct Sender<T>(Arc<Shared<T>>);

pub(in crate::consensus) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.waiting().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.senders -= 1;
        if waiting.senders == 0 {
            wake(waiting);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receiver(self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.waiting().receivers -= 1;
    }
}

fn wake(mut waiting: MutexGuard<'_, Waiting>) {
    let wakers = std::mem::take(&mut waiting.wakers);
    drop(waiting);
    for waker in wakers {
        waker.wake();
    }
}

impl Watch for InOrder {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let shared = Arc::new(Shared {
            value: RwLock::new(init),
            waiting: Mutex::new(Waiting {
                version: 0,
                senders: 1,
                receivers: 0,
                wakers: Vec::new(),
            }),
        });
        let receiver = shared.receiver(0);
        (Sender(shared), receiver)
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<InOrder, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.waiting().receivers == 0 {
            return Err(SendError(value));
        }
        self.send_if_modified(|current| {
            *current = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let modified = modify(&mut self.0.value.write().unwrap());
        if modified {
            let mut waiting = self.0.waiting();
            waiting.version += 1;
            wake(waiting);
        }
        modified
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.0.value()
    }

    fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.waiting().version;
        self.0.receiver(seen)
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<InOrder, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        let Receiver { shared, seen } = self;
        poll_fn(|context| {
            let mut waiting = shared.waiting();
            if waiting.version != *seen {
                *seen = waiting.version;
                return Poll::Ready(Ok(()));
            }
            if waiting.senders == 0 {
                return Poll::Ready(Err(RecvError(())));
            }
            if !waiting
                .wakers
                .iter()
                .any(|it| it.will_wake(context.waker()))
            {
                waiting.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        self.seen = self.shared.waiting().version;
        self.shared.value()
    }
}
