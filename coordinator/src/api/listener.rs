//! The API's connections, of which there are so many and no more.
//!
//! A client that connects and says nothing, or stops reading in the middle of an answer, would
//! keep its place for ever; so a connection on which nothing moves for a while is given up.

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

/// Connections at a time; more wait in the kernel's own queue.
const CONNECTIONS_MAX: usize = 512;

/// A connection on which nothing moves for this long is closed. Longer than any answer takes.
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
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl ApiStream {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> ApiStream {
        ApiStream {
            stream,
            idle: Box::pin(sleep(IDLE_LIMIT)),
            _place: place,
        }
    }

    /// Passes on what moved, and ends the wait for what does not.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_LIMIT);
            return polled;
        }
        self.idle
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
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, polled)
    }
}

impl AsyncWrite for ApiStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, polled)
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
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
