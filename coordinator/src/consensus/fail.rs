//! Moments at which a crash would leave the files in a state of their own.
//!
//! A test starts a process that is killed when it comes to one of them for the n-th time, and then
//! looks at what it has left behind. Nothing of it is in a program that people run.

#[cfg(not(test))]
pub(super) fn point(_name: &'static str) {}

/// `NAME:N`, in the environment of the process that is to be killed.
#[cfg(test)]
pub(super) const KILL_AT: &str = "MATINS_KILL_AT";

#[cfg(test)]
pub(super) fn point(name: &'static str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use nix::sys::signal::{Signal, raise};

    static WANTED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let wanted = std::env::var(KILL_AT).ok()?;
        let (name, times) = wanted.rsplit_once(':')?;
        Some((name.to_owned(), times.parse().ok()?))
    });
    static PASSED: AtomicU64 = AtomicU64::new(0);
    if let Some((wanted, times)) = &*WANTED
        && wanted == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *times
    {
        raise(Signal::SIGKILL).expect("a process may kill itself");
    }
}
