//! Somebody who asks the coordinator over HTTP, as programs do.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::site::PATIENCE;

/// A question to a coordinator that is stopped must not wait for ever.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Connections for any number of clients.
pub(crate) fn http() -> Agent {
    Agent::config_builder()
        .timeout_global(Some(ANSWER_LIMIT))
        .http_status_as_error(false)
        .build()
        .into()
}

#[derive(Clone)]
pub(crate) struct Client {
    http: Agent,
    /// Where the coordinator that runs by then has written its address and its token.
    api_file: PathBuf,
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
}

impl Client {
    pub(crate) fn new(http: Agent, api_file: PathBuf) -> Client {
        Client { http, api_file }
    }

    /// GETs `/api/v1/<path>`.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.ask(&format!("/api/v1/{path}"), Ask::Get)?;
        ensure!(answer.is_success(), "GET {path}: {answer:?}");
        serde_json::from_str(&answer.text).with_context(|| answer.text)
    }

    /// The whole answer; waits where it was told that it asks too fast.
    pub(crate) fn ask(&self, path: &str, ask: Ask<'_>) -> Result<Answer> {
        let begun = Instant::now();
        loop {
            let mut response = self.begin(path, ask)?;
            let status = response.status().as_u16();
            let wait = response.headers().get("retry-after");
            if let Some(wait) = wait.filter(|_| status == 429 && begun.elapsed() < PATIENCE) {
                sleep(Duration::from_secs(wait.to_str()?.parse()?));
                continue;
            }
            let text = response.body_mut().read_to_string()?;
            return Ok(Answer { status, text });
        }
    }

    /// The head of the answer; its body is still to be read, or to be left.
    pub(crate) fn begin(&self, path: &str, ask: Ask<'_>) -> Result<Response<Body>> {
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
}
