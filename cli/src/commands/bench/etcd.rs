//! What people would otherwise elect a leader with: three members of etcd on the same disk and in the
//! same run, asked over the HTTP side of their API.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};
use ureq::Agent;

use super::yardstick::installed;
use crate::failure::Failure;
use crate::output::talk;

const PROGRAM: &str = "etcd";

const MEMBERS: usize = 3;

/// Who swap values at once.
const CLIENTS: usize = 64;

/// Who try to write while there is no leader, one a little after the other, each this long at a time:
/// when one is heard is known to some tens of milliseconds.
const WRITERS: u32 = 4;
const TRY: Duration = Duration::from_millis(150);

const START_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long the group is left alone before its leader is killed.
const REIGN: Duration = Duration::from_secs(2);

pub(super) struct Etcd {
    program: PathBuf,
    dir: PathBuf,
    members: Vec<Member>,
    agent: Agent,
}

struct Member {
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Etcd {
    /// Three members that have elected a leader; `None` where etcd is not installed.
    pub(super) fn start(dir: &Path) -> Result<Option<Etcd>, Failure> {
        let Some(program) = installed(PROGRAM) else {
            return Ok(None);
        };
        let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        // Held until all are known, so that they differ.
        let held: io::Result<Vec<_>> = (0..MEMBERS).map(|_| Ok((bind()?, bind()?))).collect();
        let url = |it: &TcpListener| it.local_addr().map(|it| format!("http://{it}"));
        let members = held.and_then(|held| {
            let member = |(client, peer): &(TcpListener, TcpListener)| {
                Ok(Member {
                    client: url(client)?,
                    peer: url(peer)?,
                    child: None,
                })
            };
            held.iter().map(member).collect()
        });
        let config = Agent::config_builder()
            .http_status_as_error(true)
            .proxy(None)
            .max_idle_connections(2 * CLIENTS)
            .max_idle_connections_per_host(2 * CLIENTS)
            .build();
        let mut etcd = Etcd {
            program,
            dir: dir.to_owned(),
            members: members.map_err(|error| failed(&error.to_string()))?,
            agent: Agent::new_with_config(config),
        };
        for member in 0..MEMBERS {
            etcd.start_member(member)?;
        }
        etcd.wait_for_leader()?;
        Ok(Some(etcd))
    }

    fn start_member(&mut self, member: usize) -> Result<(), Failure> {
        let all = self.members.iter().enumerate();
        let cluster: Vec<String> = all.map(|(n, it)| format!("e{n}={}", it.peer)).collect();
        let Member { client, peer, .. } = &self.members[member];
        let start = || {
            let log = File::create(self.dir.join(format!("etcd-{member}.log")))?;
            Command::new(&self.program)
                .arg(format!("--name=e{member}"))
                .arg(format!(
                    "--data-dir={}",
                    self.dir.join(format!("etcd-{member}")).display()
                ))
                .arg(format!("--listen-client-urls={client}"))
                .arg(format!("--advertise-client-urls={client}"))
                .arg(format!("--listen-peer-urls={peer}"))
                .arg(format!("--initial-advertise-peer-urls={peer}"))
                .arg(format!("--initial-cluster={}", cluster.join(",")))
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
        };
        let child = start().map_err(|error| failed(&error.to_string()))?;
        self.members[member].child = Some(child);
        Ok(())
    }

    /// Which member leads, as each says that lives; waits until all of these have a leader.
    fn wait_for_leader(&self) -> Result<usize, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < START_LIMIT {
            let said: Vec<_> = (0..MEMBERS).map(|member| self.status(member)).collect();
            let leader = said
                .iter()
                .position(|said| said.as_ref().is_some_and(|(own, leader)| own == leader));
            if let Some(leader) = leader.filter(|_| said.iter().all(Option::is_some)) {
                return Ok(leader);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(failed("its members do not elect a leader"))
    }

    /// A member's own id and its leader's.
    fn status(&self, member: usize) -> Option<(String, String)> {
        let path = "/v3/maintenance/status";
        let said = self
            .ask(member, path, &json!({}), Duration::from_secs(1))
            .ok()?;
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        Some((text(&said["header"]["member_id"])?, text(&said["leader"])?))
    }

    fn ask(
        &self,
        member: usize,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<Value, ureq::Error> {
        let url = format!("{}{path}", self.members[member].client);
        let request = self.agent.post(url).config().timeout_global(Some(limit));
        let mut answer = request.build().send_json(body)?;
        answer.body_mut().read_json()
    }

    /// Swaps a second, of values that each client reads back in what it expects next.
    pub(super) fn swaps_per_s(&self, seconds: u32) -> Result<f64, Failure> {
        let (done, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        let trouble = Mutex::new(None);
        let begun = Instant::now();
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (done, stop, trouble) = (&done, &stop, &trouble);
                scope.spawn(move || {
                    if let Err(error) = self.swap(client, done, stop) {
                        let mut trouble = trouble.lock().expect("nobody panics with it");
                        *trouble = Some(error.to_string());
                    }
                });
            }
            thread::sleep(Duration::from_secs(seconds.into()));
            stop.store(true, Ordering::Relaxed);
        });
        let took = begun.elapsed().as_secs_f64();
        match trouble.into_inner().expect("nobody panics with it") {
            Some(error) => Err(failed(&error)),
            None => Ok(f64::from(done.into_inner()) / took),
        }
    }

    fn swap(&self, client: usize, done: &AtomicU32, stop: &AtomicBool) -> Result<(), ureq::Error> {
        let key = text(&format!("client-{client}"));
        let (path, member) = ("/v3/kv/txn", client % MEMBERS);
        let mut version = 0;
        while !stop.load(Ordering::Relaxed) {
            let swap = json!({
                "compare": [{ "key": key, "target": "VERSION", "version": version.to_string() }],
                "success": [{ "requestPut": { "key": key, "value": text(&version.to_string()) } }],
            });
            let said = self.ask(member, path, &swap, ANSWER_LIMIT)?;
            version += i32::from(said["succeeded"] == json!(true));
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Kills the leader again and again; how long it took each time until a write was acknowledged.
    pub(super) fn failover(&mut self, rounds: u32) -> Result<Vec<i64>, Failure> {
        talk(&format!("killing the leader of etcd {rounds} times"));
        let mut took = Vec::new();
        for _ in 0..rounds {
            let leader = self.wait_for_leader()?;
            thread::sleep(REIGN);
            let leads = self.wait_for_leader()? == leader;
            if !leads {
                continue;
            }
            let begun = Instant::now();
            self.kill(leader);
            took.push(self.first_write(leader, begun)?);
            self.start_member(leader)?;
        }
        Ok(took)
    }

    fn first_write(&self, dead: usize, begun: Instant) -> Result<i64, Failure> {
        let first = Mutex::new(None);
        let put = json!({ "key": text("failover"), "value": text("x") });
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (first, put) = (&first, &put);
                scope.spawn(move || {
                    thread::sleep(TRY * writer / WRITERS);
                    let known = || *first.lock().expect("nobody panics with it");
                    let mut member = dead;
                    while known().is_none() && begun.elapsed() < START_LIMIT {
                        member = (member + 1) % MEMBERS;
                        if member == dead {
                            continue;
                        }
                        let written = self.ask(member, "/v3/kv/put", put, TRY);
                        if written.is_ok() {
                            let took = begun.elapsed();
                            let mut first = first.lock().expect("nobody panics with it");
                            first.get_or_insert(took);
                        }
                    }
                });
            }
        });
        let first = first.into_inner().expect("nobody panics with it");
        first
            .and_then(|took: Duration| i64::try_from(took.as_millis()).ok())
            .ok_or_else(|| failed("nobody takes a write after its leader was killed"))
    }

    fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            // It can only have died by itself, and then the wait says so.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..MEMBERS {
            self.kill(member);
            // The measurement's directory is removed with all that is in it.
            let _ = fs::remove_dir_all(self.dir.join(format!("etcd-{member}")));
        }
    }
}

fn text(of: &str) -> String {
    STANDARD.encode(of)
}

fn failed(why: &str) -> Failure {
    Failure::failed(
        "measuring etcd as a yardstick",
        why,
        "mend that, or measure without it by --no-yardstick",
    )
}
