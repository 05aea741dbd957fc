//! The keeper's end of the socket: who may speak to it, and lines.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use coordinator_core::address::{Report, Word};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;
use serde::Serialize;

/// Longest line in either direction.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024;

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    #[error("another keeper listens on {0}; end that one first")]
    Taken(PathBuf),
    #[error("{0} is there and is no socket; name another place, or take it away")]
    NoSocket(PathBuf),
    #[error("listening on {path}")]
    Listen { path: PathBuf, source: io::Error },
}

/// The socket. Its file goes with it.
pub(super) struct Door {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Who may come in, beside root and whom this process runs as.
    user: Option<Uid>,
}

/// Somebody who wants to come in.
pub(super) enum Visitor {
    Welcome(Line),
    Stranger(Uid),
}

impl Door {
    pub(super) fn open(path: &Path, user: Option<Uid>) -> Result<Door, DoorError> {
        let failed = |source| DoorError::Listen {
            path: path.to_owned(),
            source,
        };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(DoorError::NoSocket(path.to_owned()));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(DoorError::Taken(path.to_owned()));
            }
            // A predecessor that was killed left it.
            Ok(_) => fs::remove_file(path).map_err(failed)?,
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        // Whoever knocks is looked at; that is what keeps strangers out.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        Ok(Door {
            listener,
            path: path.to_owned(),
            user,
        })
    }

    /// Takes the next one who waits.
    pub(super) fn accept(&self) -> io::Result<Option<Visitor>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let uid = Uid::from_raw(getsockopt(&stream, PeerCredentials)?.uid());
        let known = [Some(Uid::from_raw(0)), Some(Uid::effective()), self.user];
        if !known.contains(&Some(uid)) {
            return Ok(Some(Visitor::Stranger(uid)));
        }
        Ok(Some(Visitor::Welcome(Line::new(stream)?)))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // The next keeper takes away what stays.
        let _ = fs::remove_file(&self.path);
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("it was closed")]
    Closed,
    #[error("a line has more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("a line says nothing that is understood")]
    Parse(#[source] serde_json::Error),
    #[error("nothing is read at the other end")]
    NotRead,
    #[error("it failed")]
    Io(#[source] io::Error),
}

/// The connection to a coordinator.
pub(super) struct Line {
    pub(super) stream: UnixStream,
    incoming: Lines,
}

impl Line {
    fn new(stream: UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(true)?;
        Ok(Line {
            stream,
            incoming: Lines::default(),
        })
    }

    /// Reads once. The words that came before a failure are returned with it.
    pub(super) fn read(&mut self) -> (Vec<Word>, Result<(), LineError>) {
        let mut chunk = [0; 4096];
        let read = match self.stream.read(&mut chunk) {
            Ok(0) => Err(LineError::Closed),
            Ok(length) => self.incoming.extend(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(LineError::Io(error)),
        };
        let mut words = Vec::new();
        while let Some(line) = self.incoming.next() {
            match serde_json::from_slice(&line) {
                Ok(word) => words.push(word),
                Err(error) => return (words, Err(LineError::Parse(error))),
            }
        }
        (words, read)
    }

    /// A coordinator that does not read has long been cut off before the socket is full.
    pub(super) fn say(&mut self, report: &Report) -> Result<(), LineError> {
        say(report, |line| self.stream.write(line))
    }
}

/// Says anything as a line by one call of `write`, which does not wait: all of it at once, or the
/// connection is over.
pub(super) fn say(
    what: &impl Serialize,
    write: impl FnOnce(&[u8]) -> io::Result<usize>,
) -> Result<(), LineError> {
    let mut line = serde_json::to_vec(what).expect("what is said is plain data");
    line.push(b'\n');
    match write(&line) {
        Ok(length) if length == line.len() => Ok(()),
        Ok(_) => Err(LineError::NotRead),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(LineError::NotRead),
        Err(error) => Err(LineError::Io(error)),
    }
}

/// Bytes as they come, lines as they are whole.
#[derive(Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), LineError> {
        self.0.extend_from_slice(bytes);
        let whole = self.0.iter().rposition(|&byte| byte == b'\n');
        let unfinished = self.0.len() - whole.map_or(0, |at| at + 1);
        if unfinished > LINE_BYTES_MAX {
            return Err(LineError::TooLong);
        }
        Ok(())
    }

    /// The next whole line, without its end.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|&byte| byte == b'\n')?;
        let mut line: Vec<u8> = self.0.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use protocol::BootMs;

    use super::*;

    fn pair() -> (UnixStream, Line) {
        let (coordinator, stream) = UnixStream::pair().unwrap();
        (coordinator, Line::new(stream).unwrap())
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let (mut coordinator, mut line) = pair();
        coordinator
            .write_all(b"{\"type\":\"release\"}\n{\"type\":\"ho")
            .unwrap();
        let (words, read) = line.read();
        assert_eq!(words, [Word::Release]);
        assert!(read.is_ok());
        coordinator.write_all(b"ld\",\"until\":7}\n").unwrap();
        let (words, read) = line.read();
        assert_eq!(words, [Word::Hold { until: BootMs(7) }]);
        assert!(read.is_ok());
        coordinator
            .write_all(b"{\"type\":\"release\"}\nx\n")
            .unwrap();
        let (words, read) = line.read();
        assert_eq!(words, [Word::Release]);
        assert!(matches!(read, Err(LineError::Parse(_))));
        drop(coordinator);
        assert!(matches!(line.read(), (_, Err(LineError::Closed))));
    }

    #[test]
    fn neither_side_can_make_the_keeper_remember_without_bound() {
        let (mut coordinator, mut line) = pair();
        let refused = (0..=LINE_BYTES_MAX / 4096).any(|_| {
            coordinator.write_all(&[b'x'; 4096]).unwrap();
            matches!(line.read().1, Err(LineError::TooLong))
        });
        assert!(refused);

        let (_coordinator, mut line) = pair();
        let report = Report {
            interface: "eth0".to_owned(),
            addresses: Vec::new(),
            holds: false,
            fault: None,
        };
        let refused = (0..100_000).any(|_| line.say(&report).is_err());
        assert!(refused);
    }

    #[test]
    fn a_place_is_taken_over_from_the_dead_and_from_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keeper.sock");
        let door = Door::open(&path, None).unwrap();
        assert!(matches!(Door::open(&path, None), Err(DoorError::Taken(_))));
        assert!(path.exists());
        drop(door);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        assert!(Door::open(&path, None).is_ok());
        fs::write(&path, "kept").unwrap();
        assert!(matches!(
            Door::open(&path, None),
            Err(DoorError::NoSocket(_))
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }
}
