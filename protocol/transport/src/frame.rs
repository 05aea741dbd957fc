//! Messages in a stream of bytes: a length of four bytes, big-endian, then so much JSON.
//!
//! Both halves keep what is half done in themselves and not in a future, so that a future may be
//! dropped at any await without tearing the stream. The receiver never reads beyond a frame: raw
//! bytes may follow it on the same stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use protocol::message::FRAME_BYTES_MAX;
use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};

use crate::connection::CloseReason;
use crate::excerpt::excerpt;
use crate::settings::FRAME_LIMIT;

const HEADER_BYTES: usize = 4;

/// What a frame is given room for at once.
const FRAME_BYTES_USUAL: usize = 768;

/// Stream error codes.
const ABANDONED: VarInt = VarInt::from_u32(1);
const FRAME_TOO_LARGE: VarInt = VarInt::from_u32(2);

/// A message that was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("writing a message as JSON")]
    Encode(#[source] serde_json::Error),
    /// Nothing of it was sent; the stream can be used further.
    #[error("a message of {bytes} bytes exceeds the {FRAME_BYTES_MAX} that a frame may have")]
    TooLarge { bytes: usize },
    #[error("the peer does not want more on this stream")]
    Stopped,
    #[error("the connection is over")]
    Lost(#[from] CloseReason),
}

/// A message that was not received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// Nothing more can be read from the stream, and the peer is told so.
    #[error(
        "the peer announces a frame of {bytes} bytes, more than the {FRAME_BYTES_MAX} that a frame may have"
    )]
    TooLarge { bytes: usize },
    /// The frame is consumed; the next can be received.
    #[error("a frame is not the message expected here; it begins `{excerpt}`")]
    Unreadable {
        excerpt: String,
        source: serde_json::Error,
    },
    #[error("the stream ended in the middle of a frame, after {bytes} bytes of it")]
    Truncated { bytes: usize },
    /// Nothing more can be read from the stream.
    #[error(
        "a frame was not whole within {} s of its first byte: only {bytes} bytes of it came",
        FRAME_LIMIT.as_secs()
    )]
    Slow { bytes: usize },
    /// The sender was dropped, or its process ended, before it finished.
    #[error("the peer abandoned the stream")]
    Abandoned,
    #[error("the connection is over")]
    Lost(#[from] CloseReason),
}

pub(crate) struct FrameSender {
    pub(crate) stream: SendStream,
    /// A frame that is being sent: whole, with its header.
    pending: Vec<u8>,
    /// Bytes of it that are sent.
    sent: usize,
    finished: bool,
}

impl FrameSender {
    pub(crate) fn new(stream: SendStream) -> FrameSender {
        FrameSender {
            stream,
            pending: Vec::new(),
            sent: 0,
            finished: false,
        }
    }

    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), SendError> {
        let frame = encode(message)?;
        self.flush().await?;
        self.pending = frame;
        self.flush().await
    }

    /// The frames of all these behind each other, so that they share packets and locks.
    pub(crate) async fn send_all<T: Serialize>(&mut self, messages: &[T]) -> Result<(), SendError> {
        let mut frames = Vec::with_capacity(messages.len() * FRAME_BYTES_USUAL);
        for message in messages {
            append(&mut frames, message)?;
        }
        self.flush().await?;
        self.pending = frames;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        std::future::poll_fn(|cx| self.poll_pending(cx)).await?;
        Ok(())
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        while self.sent < self.pending.len() {
            let rest = &self.pending[self.sent..];
            self.sent += ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
        }
        self.pending = Vec::new();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    pub(crate) async fn finish(mut self) -> Result<(), SendError> {
        self.flush().await?;
        self.end()?;
        match self.stream.stopped().await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(SendError::Stopped),
            Err(error) => Err(WriteError::from(error).into()),
        }
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.finished = true;
        self.stream.finish()?;
        Ok(())
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes)
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        if !self.finished {
            self.end()?;
        }
        Poll::Ready(Ok(()))
    }

    #[cfg(test)]
    pub(crate) fn priority(&self) -> i32 {
        self.stream.priority().unwrap()
    }
}

impl Drop for FrameSender {
    /// A stream dropped by quinn itself ends cleanly, so a sender that failed halfway would look
    /// as if it had said everything.
    fn drop(&mut self) {
        if !self.finished {
            // An error here says that the stream or the connection is over already.
            let _ = self.stream.reset(ABANDONED);
        }
    }
}

/// A message as it stands in a stream: for whoever sends it together with the raw bytes after it.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, SendError> {
    let mut frame = Vec::with_capacity(FRAME_BYTES_USUAL);
    append(&mut frame, message)?;
    Ok(frame)
}

fn append<T: Serialize>(frames: &mut Vec<u8>, message: &T) -> Result<(), SendError> {
    let begins = frames.len();
    frames.extend_from_slice(&[0; HEADER_BYTES]);
    serde_json::to_writer(&mut *frames, message).map_err(SendError::Encode)?;
    let bytes = frames.len() - begins - HEADER_BYTES;
    let too_large = || SendError::TooLarge { bytes };
    if bytes > FRAME_BYTES_MAX {
        return Err(too_large());
    }
    let header = u32::try_from(bytes).map_err(|_| too_large())?;
    frames[begins..begins + HEADER_BYTES].copy_from_slice(&header.to_be_bytes());
    Ok(())
}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> SendError {
        match error {
            WriteError::Stopped(_) => SendError::Stopped,
            WriteError::ConnectionLost(error) => SendError::Lost(error.into()),
            other @ (WriteError::ClosedStream | WriteError::ZeroRttRejected) => {
                SendError::Lost(CloseReason::Broken {
                    detail: other.to_string(),
                })
            }
        }
    }
}

pub(crate) struct FrameReceiver {
    stream: RecvStream,
    header: [u8; HEADER_BYTES],
    body: Vec<u8>,
    /// Bytes of the current frame that are read, header included.
    filled: usize,
    /// When a frame that has begun must be whole.
    whole_by: Option<Instant>,
}

impl FrameReceiver {
    pub(crate) fn new(stream: RecvStream) -> FrameReceiver {
        FrameReceiver {
            stream,
            header: [0; HEADER_BYTES],
            body: Vec::new(),
            filled: 0,
            whole_by: None,
        }
    }

    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ReceiveError> {
        let Some(frame) = self.next_frame().await? else {
            return Ok(None);
        };
        match serde_json::from_slice(&frame) {
            Ok(message) => Ok(Some(message)),
            Err(source) => Err(ReceiveError::Unreadable {
                excerpt: excerpt(&frame),
                source,
            }),
        }
    }

    /// Waits for a frame to begin for as long as it takes, and then for the rest so long and no
    /// longer.
    async fn next_frame(&mut self) -> Result<Option<Vec<u8>>, ReceiveError> {
        if self.filled == 0 {
            match self.stream.read(&mut self.header).await? {
                Some(read) => self.filled = read,
                None => return Ok(None),
            }
        }
        let whole_by = *self
            .whole_by
            .get_or_insert_with(|| Instant::now() + FRAME_LIMIT);
        match timeout_at(whole_by, self.fill()).await {
            Ok(filled) => filled?,
            Err(_) => return Err(ReceiveError::Slow { bytes: self.filled }),
        }
        self.filled = 0;
        self.whole_by = None;
        Ok(Some(std::mem::take(&mut self.body)))
    }

    /// Reads the rest of a frame that has begun.
    async fn fill(&mut self) -> Result<(), ReceiveError> {
        while self.filled < HEADER_BYTES {
            match self.stream.read(&mut self.header[self.filled..]).await? {
                Some(read) => self.filled += read,
                None => return Err(ReceiveError::Truncated { bytes: self.filled }),
            }
        }
        let bytes = u32::from_be_bytes(self.header) as usize;
        if bytes > FRAME_BYTES_MAX {
            // The header is kept, so that every later call ends here as well. An error of `stop`
            // says that it was called before.
            let _ = self.stream.stop(FRAME_TOO_LARGE);
            return Err(ReceiveError::TooLarge { bytes });
        }
        self.body.resize(bytes, 0);
        while self.filled < HEADER_BYTES + bytes {
            let rest = &mut self.body[self.filled - HEADER_BYTES..];
            match self.stream.read(rest).await? {
                Some(read) => self.filled += read,
                None => return Err(ReceiveError::Truncated { bytes: self.filled }),
            }
        }
        Ok(())
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.filled != 0 {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "reading raw bytes in the middle of a frame",
            )));
        }
        AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buffer)
    }

    #[cfg(test)]
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }
}

impl From<ReadError> for ReceiveError {
    fn from(error: ReadError) -> ReceiveError {
        match error {
            ReadError::Reset(_) => ReceiveError::Abandoned,
            ReadError::ConnectionLost(error) => ReceiveError::Lost(error.into()),
            other @ (ReadError::ClosedStream
            | ReadError::IllegalOrderedRead
            | ReadError::ZeroRttRejected) => ReceiveError::Lost(CloseReason::Broken {
                detail: other.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_length_and_json() {
        assert_eq!(encode(&"ab").unwrap(), b"\0\0\0\x04\"ab\"");
    }

    #[test]
    fn the_largest_frame_passes_and_one_byte_more_does_not() {
        let largest = "x".repeat(FRAME_BYTES_MAX - 2);
        assert_eq!(
            encode(&largest).unwrap().len(),
            HEADER_BYTES + FRAME_BYTES_MAX
        );
        let error = encode(&(largest + "x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a message of 65537 bytes exceeds the 65536 that a frame may have"
        );
    }
}
