//! A log that holds up nobody.
//!
//! Whoever logs may be the thread that grants leases, and standard error may be a terminal that
//! somebody has stopped, or a pipe that nobody reads: a write to it can take for ever. So lines go
//! through a queue to a thread that does nothing else. Where the queue is full, a line is lost, and
//! the log says how many were. What is broken (ERROR) may be a process's last word, and goes out at
//! once.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait: some megabytes at the most.
const WAITING_MAX: usize = 16 * 1024;

/// How long the end of a process waits for its log.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// Makes the ends into which lines go.
#[derive(Clone)]
pub(crate) struct LogThread {
    queue: SyncSender<Queued>,
    lost: Arc<AtomicU64>,
}

enum Queued {
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Farewell(SyncSender<()>),
}

/// Where one line goes.
pub(crate) enum Line<'a> {
    Queued(&'a LogThread),
    AtOnce(io::Stderr),
}

impl LogThread {
    /// Begins to write to `out`.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<LogThread> {
        let (queue, waiting) = mpsc::sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&lost);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(out, &waiting, &told))?;
        Ok(LogThread { queue, lost })
    }

    /// Waits until what has been logged is written, but for no longer than `FAREWELL_LIMIT`.
    pub(crate) fn finish(&self) {
        let (written, heard) = mpsc::sync_channel(1);
        if self.queue.try_send(Queued::Farewell(written)).is_ok() {
            // A reader that has not read until now is not waited for.
            let _ = heard.recv_timeout(FAREWELL_LIMIT);
        }
    }
}

fn write_all(mut out: impl Write, waiting: &Receiver<Queued>, lost: &AtomicU64) {
    while let Ok(queued) = waiting.recv() {
        match queued {
            Queued::Line(line) => {
                // There is nobody to tell that the log cannot be written.
                let _ = out.write_all(&line);
            }
            Queued::Farewell(written) => {
                let _ = out.flush();
                let _ = written.try_send(());
            }
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                out,
                "{lost} lines of the log are lost: nobody read it for so long"
            );
        }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::AtOnce(out) => out.write(bytes),
            Line::Queued(thread) => {
                match thread.queue.try_send(Queued::Line(bytes.to_vec())) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                        thread.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Line::AtOnce(out) => out.flush(),
            Line::Queued(_) => Ok(()),
        }
    }
}

impl<'a> MakeWriter<'a> for LogThread {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line::Queued(self)
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        if *meta.level() == Level::ERROR {
            Line::AtOnce(io::stderr())
        } else {
            Line::Queued(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes nothing until it is let go.
    struct Stopped {
        go: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the other end has gone, everything goes.
            let _ = self.go.recv();
            self.taken.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_holds_up_nobody_and_says_what_is_lost() {
        let (stopped, go) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let out = Stopped {
            go,
            taken: Arc::clone(&taken),
        };
        let log = LogThread::start(out).unwrap();
        for _ in 0..2 * WAITING_MAX {
            writeln!(log.make_writer(), "line").unwrap();
        }
        drop(stopped);
        while taken.lock().unwrap().is_empty() {
            thread::yield_now();
        }
        log.finish();
        let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        assert!(text.lines().count() <= WAITING_MAX + 3);
        assert!(text.contains("lines of the log are lost"), "{text:.200}");
    }
}
