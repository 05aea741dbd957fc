//! A directory with a cluster's certificates and a coordinator's data, and the coordinator in it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coordinator::{CoordinatorError, Options};
use protocol::api::{Run, RunDetail, Status};
use protocol::{RunState, WallMs};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use transport::ca::{self, CA_LIFETIME, CERTIFICATE_LIFETIME, Subject, Validity};
use transport::{Identity, Role};

/// How long anything here may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Outlives the coordinators that run on it, one after the other.
pub(crate) struct House {
    directory: TempDir,
}

/// A coordinator in a thread of its own. Dropped, it is asked to stop.
pub(crate) struct Coordinator {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) agents_address: SocketAddr,
    http: ureq::Agent,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), CoordinatorError>>>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The methods that the path knows, where this one is not among them.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl House {
    pub(crate) fn new() -> House {
        let house = House {
            directory: tempfile::tempdir().unwrap(),
        };
        ca::create(&house.ca(), &"test".parse().unwrap(), validity(CA_LIFETIME)).unwrap();
        house.issue(Role::Coordinator, "c1");
        house
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn ca(&self) -> PathBuf {
        self.directory.path().join("ca")
    }

    fn issue(&self, role: Role, name: &str) -> PathBuf {
        let out = self.directory.path().join("pki").join(name);
        if !out.exists() {
            let lifetime = validity(CERTIFICATE_LIFETIME);
            let subject = Subject::new(role, &name.parse().unwrap());
            ca::issue(&self.ca(), &subject, &out, lifetime).unwrap();
        }
        out
    }

    pub(crate) fn agent_identity(&self, name: &str) -> Identity {
        Identity::load(&self.issue(Role::Agent, name)).unwrap()
    }

    pub(crate) fn options(&self) -> Options {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Options {
            data_dir: self.data(),
            identity_dir: self.issue(Role::Coordinator, "c1"),
            agents_addr: any,
            api_addr: any,
            membership: coordinator::Membership::alone(),
            node: "c1".to_owned(),
            clock: coordinator::Thresholds::default(),
            classes: coordinator::ClassFile::built_in(),
            time_service: coordinator::TimeService::Unasked,
            fitness: None,
            address_keeper: None,
            backups: None,
            certificate_life: transport::ca::RENEWED_LIFETIME,
        }
    }

    pub(crate) fn start(&self) -> Coordinator {
        show_logs();
        let options = self.options();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            run(async {
                coordinator::run_until(options, async {
                    let _ = stopped.await;
                })
                .await
            })
        });
        let (url, token) = wait_for("the coordinator to be up", || {
            assert!(!thread.is_finished(), "the coordinator did not start");
            // One that was killed leaves its address behind.
            read_api_file(&self.data())
                .filter(|(url, _)| http().get(format!("{url}/healthz")).call().is_ok())
        });
        let mut coordinator = Coordinator {
            url,
            token,
            agents_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            http: http(),
            stop: Some(stop),
            thread: Some(thread),
        };
        let status: Status = coordinator.get("/api/v1/status");
        coordinator.agents_address = status.agents_address.parse().unwrap();
        coordinator
    }
}

/// Where the coordinator on this directory is, once it says so.
pub(crate) fn read_api_file(data: &Path) -> Option<(String, String)> {
    let text = fs::read_to_string(data.join("api.json")).ok()?;
    let file: Value = serde_json::from_str(&text).unwrap();
    let field = |name: &str| file[name].as_str().unwrap().to_owned();
    Some((field("url"), field("token")))
}

impl Coordinator {
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string);
        self.call_raw(method, path, Some(&format!("Bearer {}", self.token)), body)
    }

    pub(crate) fn call_raw(
        &self,
        method: &str,
        path: &str,
        authorization: Option<&str>,
        body: Option<String>,
    ) -> Answer {
        let authorization = authorization.map(|value| ("authorization", value));
        let headers: Vec<(&str, &str)> = authorization.into_iter().collect();
        self.call_with(method, path, &headers, body)
    }

    pub(crate) fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.unwrap_or_default()).unwrap();
        let request = self
            .http
            .configure_request(request)
            .allow_non_standard_methods(true)
            .build();
        let mut answer = self.http.run(request).unwrap();
        let status = answer.status().as_u16();
        let headers = answer.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let text = answer.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer {
            status,
            headers,
            body,
        }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.call("GET", path, None).ok()
    }

    pub(crate) fn put_job(&self, name: &str, manifest: &str) -> Value {
        let body = json!({ "manifest": manifest, "by": "tester" });
        self.call("PUT", &format!("/api/v1/jobs/{name}"), Some(&body))
            .ok()
    }

    pub(crate) fn ask_run(&self, run: &str, verb: &str, mut more: Value) -> Answer {
        more["by"] = json!("tester");
        more["reason"] = json!("a test");
        self.call("POST", &format!("/api/v1/runs/{run}/{verb}"), Some(&more))
    }

    pub(crate) fn runs_of(&self, job: &str) -> Vec<Run> {
        self.get(&format!("/api/v1/runs?job={job}&limit=1000"))
    }

    pub(crate) fn run(&self, run: &str) -> RunDetail {
        self.get(&format!("/api/v1/runs/{run}"))
    }

    /// Waits until a run of the job is in this state.
    pub(crate) fn wait_for_run(&self, job: &str, state: RunState) -> Run {
        wait_for(&format!("a run of {job} to be {state}"), || {
            self.runs_of(job).into_iter().find(|run| run.state == state)
        })
    }

    pub(crate) fn wait_for_state(&self, run: &str, state: RunState) -> RunDetail {
        wait_for(&format!("{run} to be {state}"), || {
            Some(self.run(run)).filter(|detail| detail.run.state == state)
        })
    }

    pub(crate) fn stop(mut self) -> Result<(), CoordinatorError> {
        self.ask_to_stop();
        self.thread.take().unwrap().join().unwrap()
    }

    fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                thread::panicking() || matches!(ended, Ok(Ok(()))),
                "the coordinator ended with {ended:?}"
            );
        }
    }
}

impl Answer {
    pub(crate) fn ok<T: DeserializeOwned>(self) -> T {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_value(self.body).unwrap()
    }

    /// Checks status and kind, that all four words are there, and answers the `why`.
    pub(crate) fn refused(self, status: u16, kind: &str) -> String {
        assert_eq!(
            (self.status, self.body["kind"].as_str()),
            (status, Some(kind)),
            "{}",
            self.body
        );
        assert_eq!(self.headers["content-type"], "application/json");
        for field in ["what", "why", "remedy"] {
            let text = self.body[field].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{field} is empty in {}", self.body);
        }
        self.body["why"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn http() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .proxy(None)
        .build()
        .into()
}

/// Runs a future on a runtime of its own.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Looks again and again, for a bounded time.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A job of the tests; `more` replaces or adds lines.
pub(crate) fn manifest(name: &str, schedule: &str, more: &str) -> String {
    let given: Vec<&str> = more
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, _)| key)
        .collect();
    let lines = [
        format!("name: {name}"),
        "purpose: To be tested.".to_owned(),
        "owner: tester".to_owned(),
        "repeatable: { safe: true, how: it does nothing }".to_owned(),
        format!("schedule: {{ cron: \"{schedule}\", timezone: Etc/UTC }}"),
        "misfire: { policy: run_now }".to_owned(),
        "overlap: queue".to_owned(),
        "expected_duration: 1s".to_owned(),
        "timeout: 1m".to_owned(),
        "run: { exec: [\"/bin/true\", \"{shard}\"] }".to_owned(),
    ];
    let own = lines.iter().map(String::as_str).filter(|line| {
        let key = line.split_once(':').map_or("", |(key, _)| key);
        !given.contains(&key)
    });
    own.chain(more.lines()).collect::<Vec<_>>().join("\n") + "\n"
}

/// A schedule that does not fire during a test.
pub(crate) const YEARLY: &str = "0 0 29 2 *";

fn validity(lifetime: protocol::DurationMs) -> Validity {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Validity {
        now: WallMs(now.as_millis() as i64),
        lifetime,
    }
}

/// `MATINS_LOG=debug` shows what the coordinators of a test say.
fn show_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(filter) = std::env::var("MATINS_LOG") {
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_test_writer()
                .init();
        }
    });
}
