//! Somebody who asks over HTTP, as programs do: one coordinator, or whichever of two leads.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::site::PATIENCE;

/// A question to a coordinator that is stopped must not wait for ever.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Who leads answers that at once, on a machine that is not busy.
const WORD_LIMIT: Duration = Duration::from_secs(3);

/// One coordinator, as somebody on its machine asks it. Clones share connections.
#[derive(Clone)]
pub(crate) struct Door {
    http: Agent,
    /// Where the coordinator that runs by then has written its address and its token.
    api_file: PathBuf,
    /// The network namespace in which that address means something, where it is not the trial's.
    network: Option<PathBuf>,
}

#[derive(Clone)]
pub(crate) struct Client {
    doors: Vec<Door>,
    /// Who has answered last.
    answered: Arc<AtomicUsize>,
}

#[derive(serde::Deserialize)]
struct ApiFile {
    url: String,
    token: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    Get,
    Post(&'a Value),
    Put(&'a Value),
    Delete(&'a Value),
}

/// What came back, whatever it says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Another coordinator answers this, and here nothing was done.
    pub(crate) fn is_of_another(&self) -> bool {
        self.status == 503 && self.text.contains("\"not_leader\"")
    }
}

impl Door {
    pub(crate) fn new(api_file: PathBuf, network: Option<PathBuf>) -> Door {
        let http = Agent::config_builder()
            .timeout_global(Some(ANSWER_LIMIT))
            .http_status_as_error(false)
            .build();
        Door {
            http: http.into(),
            api_file,
            network,
        }
    }

    /// The whole answer; waits where it was told that it asks too fast.
    pub(crate) fn ask(&self, path: &str, ask: Ask<'_>) -> Result<Answer> {
        let begun = Instant::now();
        loop {
            let (answer, wait) = self.on_its_network(|| {
                let mut response = self.begin(path, ask)?;
                let status = response.status().as_u16();
                let wait = response.headers().get("retry-after").cloned();
                let text = response.body_mut().read_to_string()?;
                Ok((Answer { status, text }, wait))
            })?;
            match wait.filter(|_| answer.status == 429 && begun.elapsed() < PATIENCE) {
                Some(wait) => sleep(Duration::from_secs(wait.to_str()?.parse()?)),
                None => return Ok(answer),
            }
        }
    }

    /// Whether it says yes, without having to think about it.
    pub(crate) fn affirms(&self, path: &str) -> bool {
        let asked = self.on_its_network(|| {
            let api: ApiFile = serde_json::from_str(&fs::read_to_string(&self.api_file)?)?;
            let ask = self.http.get(format!("{}{path}", api.url));
            let ask = ask.config().timeout_global(Some(WORD_LIMIT)).build();
            Ok(ask.call()?.status().is_success())
        });
        asked.unwrap_or(false)
    }

    /// The head of the answer; its body is still to be read, or to be left.
    fn begin(&self, path: &str, ask: Ask<'_>) -> Result<Response<Body>> {
        let api: ApiFile = serde_json::from_str(&fs::read_to_string(&self.api_file)?)?;
        let url = format!("{}{path}", api.url);
        let bearer = format!("Bearer {}", api.token);
        let bearer = ("authorization", bearer.as_str());
        let http = &self.http;
        let response = match ask {
            Ask::Get => http.get(url).header(bearer.0, bearer.1).call(),
            Ask::Post(body) => http.post(url).header(bearer.0, bearer.1).send_json(body),
            Ask::Put(body) => http.put(url).header(bearer.0, bearer.1).send_json(body),
            Ask::Delete(body) => http
                .delete(url)
                .header(bearer.0, bearer.1)
                .force_send_body()
                .send_json(body),
        };
        Ok(response?)
    }

    /// By a thread of its own where that is another network: what moves there does not come back.
    fn on_its_network<T: Send>(&self, ask: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let Some(network) = &self.network else {
            return ask();
        };
        let moved = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(fs::File::open(network)?, CloneFlags::CLONE_NEWNET)?;
                ask()
            });
            thread.join()
        });
        moved.map_err(|_| anyhow!("a question panicked"))?
    }
}

impl Client {
    pub(crate) fn new(doors: Vec<Door>) -> Client {
        Client {
            doors,
            answered: Arc::default(),
        }
    }

    /// GETs `/api/v1/<path>`.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.ask(&format!("/api/v1/{path}"), Ask::Get)?;
        ensure!(answer.is_success(), "GET {path}: {answer:?}");
        serde_json::from_str(&answer.text).with_context(|| answer.text)
    }

    /// The answer of whoever leads. What may have been carried out is not asked for twice.
    pub(crate) fn ask(&self, path: &str, ask: Ask<'_>) -> Result<Answer> {
        let first = self.answered.load(Ordering::Relaxed);
        let mut said = Err(anyhow!("there is nobody to ask"));
        for step in 0..self.doors.len() {
            let at = (first + step) % self.doors.len();
            said = self.doors[at].ask(path, ask);
            match &said {
                Ok(answer) if !answer.is_of_another() => {
                    self.answered.store(at, Ordering::Relaxed);
                    break;
                }
                Err(_) if !matches!(ask, Ask::Get) => break,
                _ => {}
            }
        }
        said
    }

    /// The head of the answer; its body is still to be read, or to be left.
    pub(crate) fn begin(&self, path: &str, ask: Ask<'_>) -> Result<Response<Body>> {
        let door = self.doors.get(self.answered.load(Ordering::Relaxed));
        door.context("there is nobody to ask")?.begin(path, ask)
    }
}
