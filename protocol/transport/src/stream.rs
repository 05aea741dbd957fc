//! The two kinds of streams.
//!
//! A *control* stream carries messages, each in a frame, for as long as the connection lives. A
//! *bulk* stream carries one thing: a frame that says what, then raw bytes. They are types of
//! their own, so that nothing bulky can be put on the control stream by mistake.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use quinn::{RecvStream, SendStream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::{FrameReceiver, FrameSender, ReceiveError, SendError};

macro_rules! sender {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Dropped without [`finish`](Self::finish), it abandons the stream: what the peer has not
        /// received yet may be lost, and its receiver reports
        /// [`Abandoned`](ReceiveError::Abandoned) instead of a clean end.
        pub struct $name {
            pub(crate) frames: FrameSender,
        }

        impl $name {
            pub(crate) fn new(stream: SendStream) -> $name {
                $name { frames: FrameSender::new(stream) }
            }

            /// Sends one message in a frame of at most
            /// [`FRAME_BYTES_MAX`](protocol::message::FRAME_BYTES_MAX) bytes of JSON. `Ok` means
            /// that it is on its way, not that it has arrived.
            ///
            /// Dropped before it is done, the message is either not sent at all or stays here and
            /// goes out, whole, before the next one: the stream is never torn.
            pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), SendError> {
                self.frames.send(message).await
            }

            /// As [`send`](Self::send), several messages at once, each in a frame of its own.
            /// Where one is too large, nothing of them is sent.
            pub async fn send_all<T: Serialize>(
                &mut self,
                messages: &[T],
            ) -> Result<(), SendError> {
                self.frames.send_all(messages).await
            }

            /// Ends the stream cleanly and waits until the peer has received all of it.
            pub async fn finish(self) -> Result<(), SendError> {
                self.frames.finish().await
            }
        }
    };
}

macro_rules! receiver {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Dropped before the end, it tells the sender to stop.
        pub struct $name {
            pub(crate) frames: FrameReceiver,
        }

        impl $name {
            pub(crate) fn new(stream: RecvStream) -> $name {
                $name { frames: FrameReceiver::new(stream) }
            }

            /// The next message; `None` when the peer has finished the stream.
            ///
            /// Cancel-safe: dropped before it is done (in a branch of `tokio::select!`), it loses
            /// nothing, and the next call goes on where it was.
            pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ReceiveError> {
                self.frames.receive().await
            }
        }
    };
}

sender!(
    /// The sending half of a control stream.
    ControlSender
);
sender!(
    /// The sending half of a bulk stream: frames, then raw bytes through [`AsyncWrite`], whose
    /// `shutdown` ends the stream without waiting for the peer.
    BulkSender
);
receiver!(
    /// The receiving half of a control stream.
    ControlReceiver
);
receiver!(
    /// The receiving half of a bulk stream: frames, then raw bytes through [`AsyncRead`].
    BulkReceiver
);

#[cfg(feature = "unframed")]
impl ControlSender {
    /// Writes these bytes as they are: what a peer that is not one of ours may send.
    pub async fn send_unframed(&mut self, bytes: &[u8]) -> io::Result<()> {
        use tokio::io::AsyncWriteExt;
        self.frames.stream.write_all(bytes).await?;
        self.frames.stream.flush().await
    }
}

impl AsyncWrite for BulkSender {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.frames.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.frames.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.frames.poll_shutdown(cx)
    }
}

impl AsyncRead for BulkReceiver {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.frames.poll_read(cx, buffer)
    }
}
