//! The local socket: one agent at a time, one JSON object a line.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use protocol::supervisor::{Event, Request};

/// Longest line in either direction. A table of two thousand attempts takes half of it.
pub(crate) const LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Words waiting for an agent that does not read. Past it the line is cut, and the agent finds
/// everything in the table when it comes back.
const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Read at one go, so that a talkative agent does not keep deadlines waiting.
const READ_BYTES: usize = 16 * 1024;
/// Room that is kept for what is to be said.
const KEPT_BYTES: usize = 4 * 1024;

/// Binds the socket in a directory that only its owner may enter.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Why a line to an agent was cut.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("the agent closed the connection")]
    Closed,
    #[error("the agent sent a line of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the agent sent a line that is no request: {0}")]
    NotARequest(serde_json::Error),
    #[error("the agent does not read: {0} bytes wait")]
    NotReading(usize),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// The connection to an agent.
pub(super) struct Line {
    pub(super) stream: UnixStream,
    /// The agent has said hello.
    pub(super) greeted: bool,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(true)?;
        Ok(Line {
            stream,
            greeted: false,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// Reads once. The requests that came before a failure are returned with it.
    pub(super) fn read(&mut self) -> (Vec<Request>, Result<(), LineError>) {
        let mut chunk = [0; READ_BYTES];
        let result = match self.stream.read(&mut chunk) {
            Ok(0) => Err(LineError::Closed),
            Ok(count) => {
                self.incoming.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(LineError::Io(error)),
        };
        let (requests, parsed) = self.take_requests();
        (requests, parsed.and(result))
    }

    fn take_requests(&mut self) -> (Vec<Request>, Result<(), LineError>) {
        let mut requests = Vec::new();
        let mut taken = 0;
        while let Some(length) = self.incoming[taken..].iter().position(|&b| b == b'\n') {
            let line = &self.incoming[taken..taken + length];
            match serde_json::from_slice(line) {
                Ok(request) => requests.push(request),
                Err(error) => return (requests, Err(LineError::NotARequest(error))),
            }
            taken += length + 1;
        }
        self.incoming.drain(..taken);
        if self.incoming.len() > LINE_BYTES_MAX {
            return (requests, Err(LineError::TooLong));
        }
        (requests, Ok(()))
    }

    pub(super) fn queue(&mut self, event: &Event) -> Result<(), LineError> {
        serde_json::to_writer(&mut self.outgoing, event)
            .expect("events are plain data, and a vector takes every write");
        self.outgoing.push(b'\n');
        if self.outgoing.len() > UNSENT_BYTES_MAX {
            return Err(LineError::NotReading(self.outgoing.len()));
        }
        Ok(())
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), LineError> {
        let mut written = 0;
        let result = loop {
            if written == self.outgoing.len() {
                break Ok(());
            }
            match self.stream.write(&self.outgoing[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(LineError::Io(error)),
            }
        };
        self.outgoing.drain(..written);
        // A thousand ends in one instant are no reason to keep room for them for ever.
        if self.outgoing.is_empty() {
            self.outgoing.shrink_to(KEPT_BYTES);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Token;

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let (mut agent, stream) = UnixStream::pair().unwrap();
        let mut line = Line::new(stream).unwrap();
        let text = b"{\"type\":\"hello\"}\n{\"type\":\"forget\",\"token\":7}\n{\"type\":";
        agent.write_all(&text[..20]).unwrap();
        let (requests, result) = line.read();
        assert_eq!(requests, [Request::Hello]);
        assert!(result.is_ok());
        agent.write_all(&text[20..]).unwrap();
        let (requests, result) = line.read();
        assert_eq!(requests, [Request::Forget { token: Token(7) }]);
        assert!(result.is_ok());
        drop(agent);
        assert!(matches!(line.read().1, Err(LineError::Closed)));
    }

    #[test]
    fn a_line_that_is_no_request_cuts_the_connection_after_those_before_it() {
        let (mut agent, stream) = UnixStream::pair().unwrap();
        let mut line = Line::new(stream).unwrap();
        agent
            .write_all(b"{\"type\":\"hello\"}\nnonsense\n")
            .unwrap();
        let (requests, result) = line.read();
        assert_eq!(requests, [Request::Hello]);
        assert!(matches!(result, Err(LineError::NotARequest(_))));
    }

    #[test]
    fn neither_side_can_make_the_other_remember_without_bound() {
        let (mut agent, stream) = UnixStream::pair().unwrap();
        let mut line = Line::new(stream).unwrap();
        let noise = vec![b'x'; READ_BYTES];
        let refused = (0..=LINE_BYTES_MAX / READ_BYTES + 1).any(|_| {
            agent.write_all(&noise).unwrap();
            matches!(line.read().1, Err(LineError::TooLong))
        });
        assert!(refused);

        let (_agent, stream) = UnixStream::pair().unwrap();
        let mut line = Line::new(stream).unwrap();
        let event = Event::Launched {
            token: Token(1),
            at: protocol::WallMs(0),
        };
        let refused = (0..UNSENT_BYTES_MAX).any(|_| line.queue(&event).is_err());
        assert!(refused);
    }
}
