//! The coordinator's HTTP API as the commands use it.
//!
//! A coordinator leaves its address and token in a file of its data directory that only its own
//! user can read; whoever can read that file may command it. From elsewhere `--api` or the environment
//! say which addresses are asked, with which token.
//!
//! Whoever is asked and does not lead says who does, and is followed there; where one does not answer,
//! another that was named is asked ([`crate::route`]). What changes something is sent again only where
//! it is certain that it was not carried out: nobody took it, or who took it said that it does not
//! lead.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use protocol::api::{ErrorBody, NOT_LEADER};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use transport::https::{HttpsClient, HttpsError};
use ureq::http::header::LINK;
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithBody;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body, RequestBuilder};

use crate::failure::{Failure, Status, chain};
use crate::https::OverTls;
use crate::output::talk;
use crate::patience::Patience;
use crate::route::{Route, may_show_token, parse_addresses};

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

/// How long a command waits in all where nobody leads: an election takes less.
const ELECTION_LIMIT: Duration = Duration::from_secs(6);

/// Between two tries while nobody leads.
const ELECTION_LOOK: Duration = Duration::from_millis(300);

/// Which coordinator is meant.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// Address of a coordinator's API, such as https://c1.example:7412; several by
    /// commas or by giving it again. Any will do that answers [env: MATINS_API]
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    api: Vec<String>,
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
    route: Route,
    token: String,
    /// For an answer as a whole.
    limit: Duration,
    patience: Patience,
}

impl Target {
    /// Finds the coordinator: `--data`, else `--api` or MATINS_API with MATINS_TOKEN_FILE, else
    /// MATINS_DATA, else the directory that `matins dev` uses where it is started.
    pub(crate) fn find(&self) -> Result<Client, Failure> {
        if let Some(data) = &self.data {
            return Client::of_data(data);
        }
        if !self.api.is_empty() {
            return of_addresses("--api", &self.api.join(","));
        }
        if let Some(urls) = env::var_os("MATINS_API") {
            return of_environment(urls);
        }
        let data = env::var_os("MATINS_DATA").unwrap_or_else(|| DATA_DEFAULT.into());
        Client::of_data(Path::new(&data))
    }
}

fn of_environment(urls: std::ffi::OsString) -> Result<Client, Failure> {
    const NAME: &str = "MATINS_API";
    let urls = urls.into_string().map_err(|urls| {
        Failure::bad_input(
            format!("finding the coordinator by {NAME}"),
            format!("{} is not text", urls.display()),
            EXAMPLE,
        )
    })?;
    of_addresses(NAME, &urls)
}

const EXAMPLE: &str = "name for example https://c1.example:7412,https://c2.example:7412";

fn of_addresses(name: &str, urls: &str) -> Result<Client, Failure> {
    let what = format!("finding the coordinator by {name}");
    let urls = parse_addresses(urls).map_err(|why| Failure::bad_input(&what, why, EXAMPLE))?;
    let Some(file) = env::var_os("MATINS_TOKEN_FILE") else {
        return Err(Failure::bad_input(
            what,
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
    Client::trusting(urls, token.trim(), ca.as_deref())
}

impl Client {
    /// Trusts the authorities of the file `ca`.
    fn trusting(urls: Vec<String>, token: &str, ca: Option<&Path>) -> Result<Client, Failure> {
        let trusted = ca.map(HttpsClient::trusting).transpose().map_err(|error| {
            Failure::of_error(
                format!("reading whom to trust at {}", urls.join(", ")),
                &error,
                "name the cluster's ca.pem, as it lies in each identity's directory, in MATINS_CA",
            )
        })?;
        Ok(Client::new(urls, token, trusted))
    }

    /// At least one address.
    pub(crate) fn new(urls: Vec<String>, token: &str, trusted: Option<HttpsClient>) -> Client {
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
            route: Route::new(urls),
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
            "see that one runs on it (its log says why it does not; `matins dev --jobs DIR` is one to \
             try), or name the data directory of the one that runs with --data or MATINS_DATA",
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
        Client::trusting(vec![api.url], &api.token, api.ca.as_deref())
    }

    /// Who answered last, or is asked first.
    pub(crate) fn url(&self) -> String {
        self.route.first()
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, Failure> {
        let ask = |url: &str| self.started(self.agent.get(at(url, path)), query).call();
        let answer = self.walk(Effect::None, ask)?;
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
            let answer = self.walk(Effect::None, |url| match &next {
                None => self.started(self.agent.get(at(url, path)), &query).call(),
                // It names the whole question, where it goes on included.
                Some(next) => self.started(self.agent.get(at(url, next)), &[]).call(),
            })?;
            next = next_page(&answer);
            let page: Vec<T> = self.read(answer, Effect::None)?;
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
        self.send(|url| self.agent.put(at(url, path)), body, Effect::Some)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(|url| self.agent.post(at(url, path)), body, Effect::Some)
    }

    /// Asks with a body; whatever becomes of it, nothing is changed.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.send(|url| self.agent.post(at(url, path)), body, Effect::None)
    }

    pub(crate) fn delete(&self, path: &str, body: &impl Serialize) -> Result<(), Failure> {
        let ask = |url: &str| {
            let request = self.started(self.agent.delete(at(url, path)), &[]);
            request.force_send_body().send_json(body)
        };
        self.walk(Effect::Some, ask).map(drop)
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
        let answer = self.walk(Effect::None, |url| {
            let request = self.started(self.agent.get(at(url, path)), query).config();
            request
                .timeout_global(None)
                .timeout_recv_response(Some(ANSWER_LIMIT))
                .timeout_per_read(limit)
                .build()
                .call()
        })?;
        let mut body = answer.into_body().into_reader();
        sink(&[])?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => sink(&piece[..n])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreachable(&self.url(), &error, Effect::None)),
            }
        }
    }

    fn send<T: DeserializeOwned>(
        &self,
        request: impl Fn(&str) -> RequestBuilder<WithBody>,
        body: &impl Serialize,
        effect: Effect,
    ) -> Result<T, Failure> {
        let ask = |url: &str| self.started(request(url), &[]).send_json(body);
        let answer = self.walk(effect, ask)?;
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

    /// Asks until somebody answers who can: one coordinator after the other that was named, and the
    /// one that leads wherever it is. While nobody leads, waits for an election.
    fn walk(
        &self,
        effect: Effect,
        ask: impl Fn(&str) -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, Failure> {
        let mut left = self.patience.for_election(ELECTION_LIMIT);
        loop {
            let failed = match self.walk_once(effect, &ask) {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if !failed.nobody_leads || left < ELECTION_LOOK {
                return Err(failed.failure);
            }
            if left == ELECTION_LIMIT {
                talk("nobody leads: waiting for an election");
            }
            thread::sleep(ELECTION_LOOK);
            left -= ELECTION_LOOK;
        }
    }

    fn walk_once(
        &self,
        effect: Effect,
        ask: impl Fn(&str) -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, NoAnswer> {
        let mut walk = self.route.begin();
        // Of several that were asked one may name a leader that has just gone, too.
        let mut nobody_leads = false;
        let mut failures = Vec::new();
        loop {
            let (failure, goes_on) = match self.patience.ask(|| ask(walk.now())) {
                Ok(answer) if answer.status().is_success() => {
                    self.route.note(walk.now());
                    return Ok(answer);
                }
                Ok(answer) => match refused(walk.now(), answer) {
                    Refused::NotLeader { body } => {
                        let leader = body.leader.as_ref();
                        let follows = leader.is_some_and(|leader| walk.follow(&leader.api));
                        let reached = leader.is_some_and(|leader| may_show_token(&leader.api));
                        nobody_leads |= leader.is_none() || reached;
                        (Failure::from(body), follows || walk.go_on())
                    }
                    Refused::Otherwise(failure) => {
                        return Err(NoAnswer {
                            failure,
                            nobody_leads: false,
                        });
                    }
                },
                Err(error) => {
                    let failure = unreachable(walk.now(), &error, effect);
                    let again = effect == Effect::None || was_never_sent(&error);
                    (failure, again && walk.go_on())
                }
            };
            failures.push(failure);
            if !goes_on {
                let failure = Failure::of_several(walk.asked(), failures);
                return Err(NoAnswer {
                    failure,
                    nobody_leads,
                });
            }
        }
    }

    fn read<T: DeserializeOwned>(
        &self,
        mut answer: Response<Body>,
        effect: Effect,
    ) -> Result<T, Failure> {
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_json().map_err(|error| match error {
            ureq::Error::Json(error) => not_understood(&self.url(), &error),
            error => unreachable(&self.url(), &error, effect),
        })
    }
}

/// Nobody has answered who can.
struct NoAnswer {
    failure: Failure,
    /// Somebody has said so.
    nobody_leads: bool,
}

/// An answer that is no success.
enum Refused {
    NotLeader { body: ErrorBody },
    Otherwise(Failure),
}

/// The coordinator's own words.
fn refused(url: &str, mut answer: Response<Body>) -> Refused {
    match answer.body_mut().read_json::<ErrorBody>() {
        Ok(body) if body.kind == NOT_LEADER => Refused::NotLeader { body },
        Ok(body) => Refused::Otherwise(body.into()),
        Err(_) => Refused::Otherwise(not_of_matins(url, answer.status())),
    }
}

fn at(url: &str, path: &str) -> String {
    format!("{url}{path}")
}

fn unreachable(url: &str, error: &(dyn std::error::Error + 'static), effect: Effect) -> Failure {
    let mut why = chain(error);
    let may_be_done = effect == Effect::Some && !was_never_sent(error);
    if may_be_done {
        why.push_str("; whether it was done is not known");
    }
    Failure::new(
        Status::Unreachable,
        format!("asking the coordinator at {url}"),
        why,
        if may_be_done {
            "see that the coordinator runs, look whether it was done (`matins get runs`, \
             `matins get jobs`), and ask again"
        } else {
            "see that the coordinator runs, and ask again"
        },
    )
}

fn not_understood(url: &str, error: &serde_json::Error) -> Failure {
    Failure::failed(
        format!("reading the answer of the coordinator at {url}"),
        error.to_string(),
        "see that coordinator and command line are of one version: `matins version`",
    )
}

fn not_of_matins(url: &str, status: StatusCode) -> Failure {
    Failure::new(
        Status::Unreachable,
        format!("asking the coordinator at {url}"),
        format!("who answered ({status}) is not a coordinator of Matins"),
        "see that the coordinator runs: it may have ended without taking its address back",
    )
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
        Some(ureq::Error::Io(error)) => {
            // Whoever is there is not spoken to before both sides are sure of each other.
            let trusted_nobody = error
                .get_ref()
                .is_some_and(|inner| inner.downcast_ref::<HttpsError>().is_some());
            trusted_nobody || error.kind() == io::ErrorKind::ConnectionRefused
        }
        Some(
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::BadUri(_),
        ) => true,
        _ => false,
    }
}
