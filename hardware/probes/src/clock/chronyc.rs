//! `chronyc -c -n tracking`, for where chronyd listens on no port and speaks by its socket alone, which
//! root may use and chronyc knows how.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hardware::Tracking;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

pub(super) const TIME_LIMIT: Duration = Duration::from_secs(1);
/// One line of fourteen numbers is expected.
const OUTPUT_BYTES_MAX: usize = 4096;

/// Why chronyc told nothing.
#[derive(Debug, thiserror::Error)]
pub enum ChronycError {
    #[error("chronyc is not installed")]
    Absent,
    #[error("starting chronyc")]
    Start(#[source] io::Error),
    #[error("reading what chronyc prints")]
    Read(#[source] io::Error),
    #[error("chronyc had not ended after {} s", TIME_LIMIT.as_secs())]
    TooLong,
    #[error("chronyc says {0:?}")]
    Refused(String),
}

pub(super) fn ask() -> Result<Tracking, ChronycError> {
    let started = Command::new("chronyc")
        .args(["-c", "-n", "tracking"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ChronycError::Absent,
        _ => ChronycError::Start(error),
    })?;
    let printed = read_within(&mut child, Instant::now() + TIME_LIMIT);
    // It has ended, or nobody waits for it any longer; either way it is to be reaped.
    let killed = child.kill();
    child.wait().map_err(ChronycError::Read)?;
    let printed = printed?;
    killed.map_err(ChronycError::Read)?;
    let said = String::from_utf8_lossy(&printed);
    let said = said.trim();
    Tracking::of_comma_separated(said).ok_or_else(|| ChronycError::Refused(said.to_owned()))
}

fn read_within(child: &mut Child, until: Instant) -> Result<Vec<u8>, ChronycError> {
    let mut stdout = child.stdout.take().expect("it was asked for above");
    let mut printed = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut waits = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waits, timeout) {
            Ok(0) => return Err(ChronycError::TooLong),
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(ChronycError::Read(error.into())),
        }
        match stdout.read(&mut buffer).map_err(ChronycError::Read)? {
            0 => return Ok(printed),
            length => printed.extend(&buffer[..length]),
        }
        if printed.len() > OUTPUT_BYTES_MAX {
            return Ok(printed);
        }
    }
}
