//! The coordinator's HTTP API as the commands use it.
//!
//! A coordinator leaves its address and token in a file of its data directory that only its own
//! user can read; whoever can read that file may command it. From elsewhere the environment says
//! which address is asked, with which token.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use protocol::api::ErrorBody;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use transport::https::HttpsClient;
use ureq::http::header::LINK;
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithBody;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body, RequestBuilder};

use crate::failure::{Failure, Status, chain};
use crate::https::OverTls;
use crate::patience::Patience;

/// Where a coordinator says how it is reached, in its data directory.
pub(crate) const API_FILE: &str = "api.json";

/// Where `matins dev` keeps everything unless told otherwise.
pub(crate) const DATA_DEFAULT: &str = "./.matins";

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// For an answer as a whole; a write waits for its commit, which a busy disk can delay.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// For the next piece of something long, such as the output of an attempt.
pub(crate) const PIECE_LIMIT: Duration = Duration::from_secs(30);
/// Most rows of a list that one answer holds.
pub(crate) const PAGE_ROWS_MAX: usize = 1000;
/// Largest answer that is read whole.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Which coordinator is meant.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Data directory of the coordinator, or of `matins dev` [env: MATINS_DATA]
    /// [default: ./.matins]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What [`API_FILE`] holds.
#[derive(Deserialize)]
struct ApiFile {
    url: String,
    token: String,
    /// Of the authority to trust, where the address is https.
    #[serde(default)]
    ca: Option<PathBuf>,
}

#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: String,
    /// For an answer as a whole.
    limit: Duration,
    patience: Patience,
}

impl Target {
    /// Finds the coordinator: `--data`, else MATINS_URL with MATINS_TOKEN_FILE, else MATINS_DATA,
    /// else the directory that `matins dev` uses where it is started.
    pub(crate) fn find(&self) -> Result<Client, Failure> {
        if let Some(data) = &self.data {
            return Client::of_data(data);
        }
        if let Some(url) = env::var_os("MATINS_URL") {
            return of_environment(url);
        }
        let data = env::var_os("MATINS_DATA").unwrap_or_else(|| DATA_DEFAULT.into());
        Client::of_data(Path::new(&data))
    }
}

fn of_environment(url: std::ffi::OsString) -> Result<Client, Failure> {
    const WHAT: &str = "finding the coordinator by MATINS_URL";
    let url = url.into_string().map_err(|url| {
        Failure::bad_input(
            WHAT,
            format!("{} is not text", url.display()),
            "set it for example to http://127.0.0.1:7412",
        )
    })?;
    let Some(file) = env::var_os("MATINS_TOKEN_FILE") else {
        return Err(Failure::bad_input(
            WHAT,
            "MATINS_TOKEN_FILE is not set, and nothing is answered without a token",
            "set it to the file that holds the token, `api-token` in the coordinator's data \
             directory",
        ));
    };
    let token = fs::read_to_string(&file).map_err(|error| {
        Failure::of_error(
            format!("reading the token in {}", file.display()),
            &error,
            "set MATINS_TOKEN_FILE to a file that you may read",
        )
    })?;
    let ca = env::var_os("MATINS_CA").map(PathBuf::from);
    Client::trusting(&url, token.trim(), ca.as_deref())
}

impl Client {
    /// Trusts the authorities of the file `ca`.
    fn trusting(url: &str, token: &str, ca: Option<&Path>) -> Result<Client, Failure> {
        let trusted = ca.map(HttpsClient::trusting).transpose().map_err(|error| {
            Failure::of_error(
                format!("reading whom to trust at {url}"),
                &error,
                "name the cluster's ca.pem, as it lies in each identity's directory, in MATINS_CA",
            )
        })?;
        Ok(Client::new(url, token, trusted))
    }

    pub(crate) fn new(url: &str, token: &str, trusted: Option<HttpsClient>) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // A proxy of the environment must not see the token.
            .proxy(None)
            .user_agent(concat!("matins/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_LIMIT))
            .build();
        let connector = TcpConnector::default().chain(OverTls { client: trusted });
        Client {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            url: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
            limit: ANSWER_LIMIT,
            patience: Patience::default(),
        }
    }

    /// The same for who cannot wait longer.
    pub(crate) fn within(self, limit: Duration) -> Client {
        Client {
            limit,
            patience: Patience::none(),
            ..self
        }
    }

    /// The coordinator with this data directory, or the one of the `matins dev` that has it.
    pub(crate) fn of_data(data: &Path) -> Result<Client, Failure> {
        let files = [data.join("coordinator").join(API_FILE), data.join(API_FILE)];
        for file in &files {
            match fs::read(file) {
                Ok(content) => return Client::of_api_file(file, &content),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Failure::of_error(
                        format!("reading the coordinator's address in {}", file.display()),
                        &error,
                        "ask as the user that runs the coordinator",
                    ));
                }
            }
        }
        Err(Failure::new(
            Status::Unreachable,
            format!("finding a coordinator by its data in {}", data.display()),
            format!("no coordinator that runs has left its address there in {API_FILE}"),
            "start one with `matins dev --jobs DIR`, or name the data directory of the one that \
             runs with --data or MATINS_DATA",
        ))
    }

    fn of_api_file(file: &Path, content: &[u8]) -> Result<Client, Failure> {
        let api: ApiFile = serde_json::from_slice(content).map_err(|error| {
            Failure::of_error(
                format!("reading the coordinator's address in {}", file.display()),
                &error,
                "start the coordinator again: it writes the file anew",
            )
        })?;
        Client::trusting(&api.url, &api.token, api.ca.as_deref())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, Failure> {
        let ask = || self.started(self.agent.get(self.at(path)), query).call();
        let answer = self.patience.ask(ask);
        self.read(answer, Effect::None)
    }

    /// Rows of a list, at most so many, page by page. Answers whether there are more.
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        rows_max: usize,
    ) -> Result<(Vec<T>, bool), Failure> {
        let mut query = query.to_vec();
        query.push(("limit", rows_max.min(PAGE_ROWS_MAX).to_string()));
        let mut rows: Vec<T> = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let answer = self.patience.ask(|| match &next {
                None => self.started(self.agent.get(self.at(path)), &query).call(),
                // It names the whole question, where it goes on included.
                Some(next) => self.started(self.agent.get(self.at(next)), &[]).call(),
            });
            let answer = self.checked(answer, Effect::None)?;
            next = next_page(&answer);
            let page: Vec<T> = self.read(Ok(answer), Effect::None)?;
            rows.extend(page);
            if rows.len() >= rows_max || next.is_none() {
                let more = rows.len() > rows_max || next.is_some();
                rows.truncate(rows_max);
                return Ok((rows, more));
            }
        }
    }

    /// All rows of a list.
    pub(crate) fn list_all<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Vec<T>, Failure> {
        Ok(self.list(path, query, usize::MAX)?.0)
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(|| self.agent.put(self.at(path)), body, Effect::Some)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(|| self.agent.post(self.at(path)), body, Effect::Some)
    }

    /// Asks with a body; whatever becomes of it, nothing is changed.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(|| self.agent.post(self.at(path)), body, Effect::None)
    }

    pub(crate) fn delete(&self, path: &str, body: &impl Serialize) -> Result<(), Failure> {
        let answer = self.patience.ask(|| {
            let request = self.started(self.agent.delete(self.at(path)), &[]);
            request.force_send_body().send_json(body)
        });
        self.checked(answer, Effect::Some).map(drop)
    }

    /// Hands a long answer to `sink` as it comes, piece by piece, each within `limit` if there is
    /// one. The first piece is empty and says that the answer has begun.
    pub(crate) fn stream(
        &self,
        path: &str,
        query: &[(&str, String)],
        limit: Option<Duration>,
        mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let answer = self.patience.ask(|| {
            let request = self.started(self.agent.get(self.at(path)), query).config();
            request
                .timeout_global(None)
                .timeout_recv_response(Some(ANSWER_LIMIT))
                .timeout_per_read(limit)
                .build()
                .call()
        });
        let mut body = self
            .checked(answer, Effect::None)?
            .into_body()
            .into_reader();
        sink(&[])?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => sink(&piece[..n])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreachable(&error, Effect::None)),
            }
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn send<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> RequestBuilder<WithBody>,
        body: &impl Serialize,
        effect: Effect,
    ) -> Result<T, Failure> {
        let ask = || self.started(request(), &[]).send_json(body);
        let answer = self.patience.ask(ask);
        self.read(answer, effect)
    }

    fn started<B>(
        &self,
        request: RequestBuilder<B>,
        query: &[(&str, String)],
    ) -> RequestBuilder<B> {
        request
            .query_pairs(query.iter().map(|(key, value)| (*key, value.as_str())))
            .header("authorization", format!("Bearer {}", self.token))
            .config()
            .timeout_global(Some(self.limit))
            .build()
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
        effect: Effect,
    ) -> Result<T, Failure> {
        let mut answer = self.checked(answer, effect)?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_json().map_err(|error| match error {
            ureq::Error::Json(error) => self.not_understood(&error),
            error => self.unreachable(&error, effect),
        })
    }

    /// The answer, if it is a success; the coordinator's own words, if it is not.
    fn checked(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
        effect: Effect,
    ) -> Result<Response<Body>, Failure> {
        let mut answer = answer.map_err(|error| self.unreachable(&error, effect))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        match answer.body_mut().read_json::<ErrorBody>() {
            Ok(body) => Err(body.into()),
            Err(_) => Err(self.not_of_matins(answer.status())),
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static), effect: Effect) -> Failure {
        let mut why = chain(error);
        if effect == Effect::Some && !was_never_sent(error) {
            why.push_str("; whether it was done is not known");
        }
        Failure::new(
            Status::Unreachable,
            format!("asking the coordinator at {}", self.url),
            why,
            match effect {
                Effect::None => "see that the coordinator runs, and ask again",
                Effect::Some => {
                    "see that the coordinator runs, look whether it was done (`matins get runs`, \
                     `matins get jobs`), and ask again"
                }
            },
        )
    }

    fn not_understood(&self, error: &serde_json::Error) -> Failure {
        Failure::failed(
            format!("reading the answer of the coordinator at {}", self.url),
            error.to_string(),
            "see that coordinator and command line are of one version: `matins version`",
        )
    }

    fn not_of_matins(&self, status: StatusCode) -> Failure {
        Failure::new(
            Status::Unreachable,
            format!("asking the coordinator at {}", self.url),
            format!("who answered ({status}) is not a coordinator of Matins"),
            "see that the coordinator runs: it may have ended without taking its address back",
        )
    }
}

/// Where a list goes on: the target of its `Link` header, as Matins writes it.
fn next_page(answer: &Response<Body>) -> Option<String> {
    let link = answer.headers().get(LINK)?.to_str().ok()?;
    let (target, _) = link.strip_prefix('<')?.split_once(">; rel=\"next\"")?;
    target.starts_with('/').then(|| target.to_owned())
}

/// Whether a request, once sent, may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    Some,
}

/// Whether the request has certainly not reached anybody.
fn was_never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(ureq::Error::Io(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
        Some(
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::BadUri(_),
        ) => true,
        _ => false,
    }
}
