//! The API's connections, of which there are so many and no more.
//!
//! A client that connects and says nothing, sends a request a byte at a time, or stops reading in
//! the middle of an answer, would keep its place for ever. So a request must come soon, and the
//! answer to it must have begun soon after its first byte; and a connection on which nothing moves
//! is given up.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::engine::REQUEST_LIMIT;

/// Connections at a time; more wait in the kernel's own queue.
const CONNECTIONS_MAX: usize = 512;

/// How long a client that has just connected may take for the first byte of its request.
const FIRST_BYTE_LIMIT: Duration = Duration::from_secs(5);

/// Longest time from the first byte of a request to the first of its answer: what an answer may
/// wait for the ledger, and some seconds more for the request to arrive.
const ANSWER_LIMIT: Duration = Duration::from_secs(REQUEST_LIMIT.as_secs() + 5);

/// A connection that is kept between two requests, or in the middle of an answer, is closed when
/// nothing moves on it for this long.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct ApiListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl ApiListener {
    pub(crate) fn new(listener: TcpListener) -> ApiListener {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        ApiListener { listener, places }
    }
}

impl Listener for ApiListener {
    type Io = ApiStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ApiStream, SocketAddr) {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .expect("nobody closes this semaphore");
        // The listener of axum tells of errors (no file descriptors left) and tries again.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        (ApiStream::new(stream, place), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

pub(crate) struct ApiStream {
    stream: TcpStream,
    /// When it is given up.
    limit: Pin<Box<Sleep>>,
    /// A request is arriving or being carried out; its answer has not begun.
    asked: bool,
    _place: OwnedSemaphorePermit,
}

impl ApiStream {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> ApiStream {
        ApiStream {
            stream,
            limit: Box::pin(sleep(FIRST_BYTE_LIMIT)),
            asked: false,
            _place: place,
        }
    }

    fn give_up_in(&mut self, limit: Duration) {
        self.limit.as_mut().reset(Instant::now() + limit);
    }

    /// Something of a request has come. What comes after its first byte gains no time.
    fn note_read(&mut self) {
        if !self.asked {
            self.asked = true;
            self.give_up_in(ANSWER_LIMIT);
        }
    }

    /// Something of an answer has gone.
    fn note_written(&mut self) {
        self.asked = false;
        self.give_up_in(IDLE_LIMIT);
    }

    /// Passes on what is ready, and ends the wait for what is too late.
    fn until_limit<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        self.limit
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ApiStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.note_read();
        }
        self.until_limit(cx, polled)
    }
}

impl AsyncWrite for ApiStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if polled.is_ready() {
            self.note_written();
        }
        self.until_limit(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        if polled.is_ready() {
            self.note_written();
        }
        self.until_limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
