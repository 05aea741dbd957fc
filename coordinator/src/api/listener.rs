//! The API's connections, of which there are so many and no more.
//!
//! A client that connects and says nothing, sends a request a byte at a time, or stops reading in
//! the middle of an answer, would keep its place for ever. So a request must come soon, and the
//! answer to it must have begun soon after its first byte; and a connection on which nothing moves
//! is given up. Only while an output is followed may there be nothing to move for hours.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use transport::https::{HttpStream, HttpsServer};

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
    /// Where the API is not spoken in the clear.
    https: Option<HttpsServer>,
    places: Arc<Semaphore>,
}

impl ApiListener {
    pub(crate) fn new(listener: TcpListener, https: Option<HttpsServer>) -> ApiListener {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        ApiListener {
            listener,
            https,
            places,
        }
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
        let stream = match &self.https {
            Some(https) => https.wrap(stream),
            None => HttpStream::Http(stream),
        };
        (ApiStream::new(stream, place), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) patience: Patience,
}

impl Peer {
    /// What the audit and the log call it by.
    pub(crate) fn source(&self) -> String {
        self.address.ip().to_string()
    }
}

/// Whether the answer that a connection carries waits for what others write, for as long as they
/// like. One request at a time is carried out on it.
#[derive(Clone, Default)]
pub(crate) struct Patience(Arc<AtomicBool>);

/// Ends with the answer.
pub(crate) struct Patient(Patience);

impl Patience {
    pub(crate) fn begin(self) -> Patient {
        self.0.store(true, Ordering::Relaxed);
        Patient(self)
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, ApiListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, ApiListener>) -> Peer {
        Peer {
            address: *stream.remote_addr(),
            patience: stream.io().patience.clone(),
        }
    }
}

pub(crate) struct ApiStream {
    stream: HttpStream,
    patience: Patience,
    /// When it is given up.
    limit: Pin<Box<Sleep>>,
    /// A request is arriving or being carried out; its answer has not begun.
    asked: bool,
    /// As of the last look.
    is_patient: bool,
    /// While patient: the client has left no room for what is to be written.
    is_full: bool,
    _place: OwnedSemaphorePermit,
}

impl ApiStream {
    fn new(stream: HttpStream, place: OwnedSemaphorePermit) -> ApiStream {
        ApiStream {
            stream,
            patience: Patience::default(),
            limit: Box::pin(sleep(FIRST_BYTE_LIMIT)),
            asked: false,
            is_patient: false,
            is_full: false,
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
        self.is_full = false;
        self.give_up_in(IDLE_LIMIT);
    }

    /// Looks whether an output is followed. The last movement may be hours ago when that ends.
    fn note_patience(&mut self) {
        if self.is_patient != self.patience.is_asked() {
            self.is_patient = !self.is_patient;
            self.give_up_in(IDLE_LIMIT);
        }
    }

    /// Looks what became of a write. Where an output is followed, the last movement may be hours
    /// ago when the client first leaves no room.
    fn note_write<T>(&mut self, polled: &Poll<io::Result<T>>) {
        self.note_patience();
        if polled.is_ready() {
            self.note_written();
        } else if self.is_patient && !self.is_full {
            self.is_full = true;
            self.give_up_in(IDLE_LIMIT);
        }
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
        self.note_patience();
        if self.is_patient {
            return polled;
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
        self.note_write(&polled);
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
        self.note_write(&polled);
        self.until_limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn connected() -> (ApiStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (mut stream, _) = ApiListener::new(listener, None).accept().await;
        stream.note_written();
        (stream, client)
    }

    /// As though nothing had moved for longer than anything may take.
    fn pass_time(stream: &mut ApiStream) {
        let before = Instant::now() - IDLE_LIMIT;
        stream.limit.as_mut().reset(before);
    }

    /// Whether the connection is given up by whoever waits for something to read, or to write.
    fn gives_up(stream: &mut ApiStream, write: bool) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut stream = Pin::new(stream);
        let result = if write {
            // Few and large: a task that does very much in one go is made to wait.
            let large = vec![b'x'; 1 << 20];
            let mut polled = Poll::Ready(Ok(0));
            while let Poll::Ready(Ok(_)) = polled {
                polled = stream.as_mut().poll_write(&mut cx, &large);
            }
            polled.map(|written| written.map(drop))
        } else {
            let mut room = [0; 16];
            stream.poll_read(&mut cx, &mut ReadBuf::new(&mut room))
        };
        match result {
            Poll::Pending => false,
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut => true,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_connection_on_which_nothing_moves_is_given_up() {
        let (mut stream, _client) = connected().await;
        assert!(!gives_up(&mut stream, false));
        pass_time(&mut stream);
        assert!(gives_up(&mut stream, false));
    }

    #[tokio::test]
    async fn a_request_that_comes_a_byte_at_a_time_gains_no_time_by_it() {
        let (mut stream, mut client) = connected().await;
        let idle = stream.limit.deadline();
        let mut byte = [0];
        client.write_all(b"G").await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        let asked = stream.limit.deadline();
        assert!(asked < idle, "its first byte begins a time of its own");
        client.write_all(b"E").await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        assert_eq!(stream.limit.deadline(), asked);
        pass_time(&mut stream);
        assert!(gives_up(&mut stream, false));
    }

    #[tokio::test]
    async fn where_an_output_is_followed_silence_is_no_reason_to_give_up() {
        let (mut stream, _client) = connected().await;
        let patient = stream.patience.clone().begin();
        assert!(!gives_up(&mut stream, false));
        pass_time(&mut stream);
        assert!(!gives_up(&mut stream, false));
        drop(patient);
        assert!(
            !gives_up(&mut stream, false),
            "its end counts as a movement"
        );
        pass_time(&mut stream);
        assert!(gives_up(&mut stream, false));
    }

    #[tokio::test]
    async fn who_follows_and_does_not_read_is_given_up() {
        let (mut stream, _client) = connected().await;
        let _patient = stream.patience.clone().begin();
        assert!(!gives_up(&mut stream, false));
        pass_time(&mut stream);
        assert!(!gives_up(&mut stream, true), "until now there was room");
        pass_time(&mut stream);
        assert!(gives_up(&mut stream, true));
    }
}
