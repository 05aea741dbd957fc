//! TLS below the client's HTTP: the cluster's own authority is trusted, whatever the address is.
//!
//! The HTTP library speaks TLS too, but would hold the certificate against the host in the URL, which
//! no certificate of Matins names.

use std::fmt;
use std::io::{self, Read, Write};

use transport::https::{HttpsClient, HttpsSession};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// Puts TLS over a socket where the URL says `https`.
pub(crate) struct OverTls {
    /// Whom to trust; without anybody, `https` is refused.
    pub(crate) client: Option<HttpsClient>,
}

impl fmt::Debug for OverTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverTls")
    }
}

impl<In: Transport> Connector<In> for OverTls {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(socket) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() {
            return Ok(Some(Either::A(socket)));
        }
        let Some(client) = &self.client else {
            let why = "nobody is known whom an https address could be trusted by: name the \
                       cluster's ca.pem in MATINS_CA";
            return Err(Error::Io(io::Error::other(why)));
        };
        let mut socket = TransportAdapter::new(socket.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        let session = client
            .connect(socket)
            .map_err(|error| Error::Io(io::Error::other(error)))?;
        let config = details.config;
        Ok(Some(Either::B(TlsTransport {
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            session,
        })))
    }
}

pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    session: HttpsSession<TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.session.socket().set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        self.session.write_all(output)?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.session.socket().set_timeout(timeout);
        let input = self.buffers.input_append_buf();
        let amount = self.session.read(input)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.session.socket().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
