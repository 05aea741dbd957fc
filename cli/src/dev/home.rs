//! The directory of a `matins dev`.
//!
//! | path | what |
//! |---|---|
//! | `dev.lock` | locked while a `matins dev` runs on the directory; names its process |
//! | `dev.json` | what must stay the same when it is started again |
//! | `pki/` | the authority, and an identity for every part |
//! | `coordinator/` | data of the coordinator |
//! | `agents/NAME/`, `supervisors/NAME/` | data of each host's two parts |
//! | `logs/` | what each process wrote to its standard output and error |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use protocol::AgentName;
use serde::{Deserialize, Serialize};
use transport::Role;
use transport::ca::{self, CA_KEY_FILE, CA_LIFETIME, Subject, Validity};
use transport::identity::CA_FILE;

use crate::client::API_FILE;
use crate::clock;
use crate::commands::ca::{issue, of_ca};
use crate::failure::Failure;

const CLUSTER: &str = "dev";
const COORDINATOR: &str = "coordinator";

/// A directory that this process has to itself.
pub(super) struct Home {
    /// As the person wrote it, for messages.
    path: PathBuf,
    /// For children, who should not depend on where they are started.
    absolute: PathBuf,
    hosts: Vec<AgentName>,
    agents_address: SocketAddr,
    /// Released by the kernel when the process ends, however it ends.
    _lock: Flock<File>,
}

/// What must stay the same when it is started again.
#[derive(Serialize, Deserialize)]
struct Remembered {
    /// UDP port on loopback where agents find the coordinator.
    agents_port: u16,
}

impl Home {
    /// Makes the directory, the authority and the identities where they are missing.
    pub(super) fn open(path: &Path, agents: u32) -> Result<Home, Failure> {
        let failed = |error: io::Error| {
            Failure::of_error(
                format!("making ready {}", path.display()),
                &error,
                "name a directory that you may write to with --data",
            )
        };
        // Whoever a job runs as passes through it to the supervisors; what is secret in it has
        // its own mode.
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(path)
            .map_err(failed)?;
        let lock = take_lock(path)?;
        let absolute = fs::canonicalize(path).map_err(failed)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(absolute.join("logs"))
            .map_err(failed)?;
        let agents_address = choose_address(&absolute).map_err(failed)?;
        let hosts = (1..=agents)
            .map(|i| format!("host-{i}").parse())
            .collect::<Result<_, _>>()
            .expect("`host-` and a number is a name");
        let home = Home {
            path: path.to_owned(),
            absolute,
            hosts,
            agents_address,
            _lock: lock,
        };
        home.issue_identities()?;
        Ok(home)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn hosts(&self) -> &[AgentName] {
        &self.hosts
    }

    pub(super) fn agents_address(&self) -> SocketAddr {
        self.agents_address
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub(super) fn log_of(&self, process: &str) -> PathBuf {
        self.absolute.join("logs").join(format!("{process}.log"))
    }

    pub(super) fn coordinator(&self) -> PathBuf {
        self.absolute.join(COORDINATOR)
    }

    pub(super) fn agent(&self, host: &AgentName) -> PathBuf {
        self.absolute.join("agents").join(host.as_str())
    }

    pub(super) fn supervisor(&self, host: &AgentName) -> PathBuf {
        self.absolute.join("supervisors").join(host.as_str())
    }

    pub(super) fn identity_of(&self, who: &str) -> PathBuf {
        self.absolute.join("pki").join(who)
    }

    pub(super) fn coordinator_identity(&self) -> PathBuf {
        self.identity_of(COORDINATOR)
    }

    /// Where the coordinator says how its API is reached.
    pub(super) fn address_file(&self) -> PathBuf {
        self.coordinator().join(API_FILE)
    }

    /// Identities are issued anew at every start, so none is ever out of date.
    fn issue_identities(&self) -> Result<(), Failure> {
        let authority = self.identity_of("ca");
        let parts = [CA_FILE, CA_KEY_FILE].map(|file| authority.join(file));
        if !parts.iter().all(|part| part.exists()) {
            // Half of one, from a start that was interrupted, signs nothing.
            for part in &parts {
                let _ = fs::remove_file(part);
            }
            let validity = Validity {
                now: clock::now(),
                lifetime: CA_LIFETIME,
            };
            let cluster = CLUSTER.parse().expect("`dev` is a name");
            ca::create(&authority, &cluster, validity).map_err(|error| {
                of_ca(
                    format!("making an authority in {}", authority.display()),
                    &error,
                )
            })?;
        }
        let coordinator = COORDINATOR.parse().expect("`coordinator` is a name");
        issue(
            &authority,
            &Subject::new(Role::Coordinator, &coordinator),
            &self.coordinator_identity(),
        )?;
        for host in &self.hosts {
            issue(
                &authority,
                &Subject::new(Role::Agent, host),
                &self.identity_of(host.as_str()),
            )?;
        }
        Ok(())
    }
}

fn take_lock(path: &Path) -> Result<Flock<File>, Failure> {
    let what = || format!("starting `matins dev` on {}", path.display());
    let failed = |error: io::Error| {
        Failure::of_error(
            what(),
            &error,
            "name a directory that you may write to with --data",
        )
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join("dev.lock"))
        .map_err(failed)?;
    let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            // Without the name of the process the refusal stands all the same.
            let _ = file.read_to_string(&mut pid);
            return Err(Failure::failed(
                what(),
                format!("another one (process {}) runs on it", pid.trim()),
                "end that one, or give this one a directory of its own with --data",
            ));
        }
        Err((_, errno)) => return Err(failed(errno.into())),
    };
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(lock)
}

/// The port of last time if it is free, else one that is, remembered for the next time.
fn choose_address(home: &Path) -> io::Result<SocketAddr> {
    let file = home.join("dev.json");
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let remembered = fs::read(&file)
        .ok()
        .and_then(|content| serde_json::from_slice::<Remembered>(&content).ok());
    if let Some(Remembered { agents_port }) = remembered
        && UdpSocket::bind(at(agents_port)).is_ok()
    {
        return Ok(at(agents_port));
    }
    let agents_port = UdpSocket::bind(at(0))?.local_addr()?.port();
    let content = serde_json::to_vec(&Remembered { agents_port })?;
    let temporary = file.with_extension("new");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, &file)?;
    Ok(at(agents_port))
}
