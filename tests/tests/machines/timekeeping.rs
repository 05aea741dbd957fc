//! A time server that lies as a trial wants, and a real chronyd that follows it and leaves this
//! machine's clock alone.
//!
//! To be started on a network of the trial's own: both listen where everybody looks for them.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Not chronyd's own address: nobody follows himself.
const SERVER: &str = "127.0.0.2";

/// Seconds from 1900, by which NTP counts, to 1970.
const FROM_1900_S: u64 = 2_208_988_800;

/// Tells the server's thread to answer nothing, or to end.
const SILENT: i64 = i64::MIN;
const ENDS: i64 = i64::MIN + 1;

/// An NTP server.
pub(crate) struct Server {
    /// How far ahead of this machine's clock it is, in milliseconds.
    ahead_ms: Arc<AtomicI64>,
}

impl Server {
    pub(crate) fn start() -> Result<Server> {
        let socket = UdpSocket::bind((SERVER, 123)).context("listening for NTP")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let ahead_ms = Arc::new(AtomicI64::new(0));
        let ahead = Arc::clone(&ahead_ms);
        // It inherits the network of the thread that starts it.
        thread::spawn(move || serve(&socket, &ahead));
        Ok(Server { ahead_ms })
    }

    pub(crate) fn set(&self, ahead: i64) {
        self.ahead_ms.store(ahead, Ordering::Relaxed);
    }

    pub(crate) fn fall_silent(&self) {
        self.set(SILENT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.set(ENDS);
    }
}

fn serve(socket: &UdpSocket, ahead: &AtomicI64) {
    let mut asked = [0; 512];
    loop {
        let heard = socket.recv_from(&mut asked);
        let ahead_ms = ahead.load(Ordering::Relaxed);
        if ahead_ms == ENDS {
            return;
        }
        let Ok((48.., from)) = heard else {
            continue;
        };
        if ahead_ms == SILENT {
            continue;
        }
        let now = timestamp(ahead_ms);
        // Version 4, a server, of stratum 1; precision, root delay and dispersion; who it is by.
        let mut answer = vec![0x24, 1, 0, 0xec, 0, 0, 0, 1, 0, 0, 0, 1];
        answer.extend(b"FAKE");
        answer.extend(timestamp(ahead_ms - 100));
        answer.extend(&asked[40..48]);
        answer.extend(now);
        answer.extend(timestamp(ahead_ms));
        // Who has gone meanwhile misses nothing.
        let _ = socket.send_to(&answer, from);
    }
}

fn timestamp(ahead_ms: i64) -> [u8; 8] {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = since_1970.map_or(0, |now| now.as_micros() as i64) + ahead_ms * 1_000;
    let (seconds, micros) = (now_ms.div_euclid(1_000_000), now_ms.rem_euclid(1_000_000));
    let seconds = (seconds as u64 + FROM_1900_S) as u32;
    let fraction = ((micros as u64) << 32) / 1_000_000;
    let stamp = (u64::from(seconds) << 32) | fraction;
    stamp.to_be_bytes()
}

/// A chronyd that asks the server every second, and only looks.
pub(crate) struct Chronyd(Child);

impl Chronyd {
    /// With its files in a directory of its own below this one.
    pub(crate) fn start(below: &Path) -> Result<Chronyd> {
        let directory = below.join("chrony");
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o750))?;
        let at = |name: &str| directory.join(name).display().to_string();
        let configuration = format!(
            "server {SERVER} minpoll 0 maxpoll 0 iburst\nport 0\npidfile {}\ndriftfile {}\n\
             bindcmdaddress {}\nbindcmdaddress 127.0.0.1\n",
            at("pid"),
            at("drift"),
            at("chronyd.sock"),
        );
        let file = at("chrony.conf");
        fs::write(&file, configuration)?;
        let log = fs::File::create(at("log"))?;
        let started = Command::new("chronyd")
            .args(["-x", "-U", "-u", "root", "-d", "-f", &file])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        Ok(Chronyd(started.context("starting chronyd")?))
    }

    pub(crate) fn end(mut self) -> Result<()> {
        self.terminate()
    }

    fn terminate(&mut self) -> Result<()> {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM)?;
        let ended = self.0.wait()?;
        ensure!(ended.success(), "chronyd ended with {ended}");
        Ok(())
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // The trial has failed, or is over.
            let _ = self.terminate();
        }
    }
}
