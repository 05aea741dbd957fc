//! What people would otherwise build: a table of work in PostgreSQL, claimed with SKIP LOCKED by
//! 64 clients at once, on the same disk and in the same run.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::{User, geteuid};

use crate::failure::Failure;
use crate::output::talk;

/// A claim and an end, each a transaction of its own, as a lease has two.
const SCRIPT: &str = "\
UPDATE work SET state = 1, token = token + 1 WHERE id = (
    SELECT id FROM work WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id AS claimed \\gset
UPDATE work SET state = 2, ended = now() WHERE id = :claimed;
";

/// More than anybody gets through.
const ROWS: u32 = 1_000_000;

const CLIENTS: u32 = 64;

/// Where Debian keeps the programs of the server, which are in nobody's PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Whom a server that must not be root runs as.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// The programs that are needed.
struct Programs {
    initdb: PathBuf,
    pg_ctl: PathBuf,
    psql: PathBuf,
    pgbench: PathBuf,
}

/// Claims a second; `None` where PostgreSQL is not installed.
pub(super) fn skip_locked(dir: &Path, seconds: u32) -> Result<Option<f64>, Failure> {
    let Some(programs) = Programs::find() else {
        return Ok(None);
    };
    let user = if geteuid().is_root() {
        let known = USERS.iter().find_map(|name| User::from_name(name).ok()?);
        let Some(user) = known else {
            return Ok(None);
        };
        Some(user)
    } else {
        None
    };
    let server = Server::start(&programs, dir.join("postgres"), user.as_ref())?;
    let result = server.claims_per_s(seconds);
    server.stop();
    result.map(Some)
}

impl Programs {
    fn find() -> Option<Programs> {
        Some(Programs {
            initdb: find("initdb")?,
            pg_ctl: find("pg_ctl")?,
            psql: find("psql")?,
            pgbench: find("pgbench")?,
        })
    }
}

/// A program in PATH, or else in the newest of Debian's directories.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.sort();
    std::env::split_paths(&path)
        .chain(versions.into_iter().rev())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// As [`find`], for a yardstick; says so where there is none.
pub(super) fn installed(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        talk(&format!("{program} is not installed: no figures of it"));
    }
    found
}

struct Server<'a> {
    programs: &'a Programs,
    dir: PathBuf,
    user: Option<&'a User>,
}

impl<'a> Server<'a> {
    /// Makes a cluster in `dir` and starts it, reached by a socket in the same directory alone.
    fn start(
        programs: &'a Programs,
        dir: PathBuf,
        user: Option<&'a User>,
    ) -> Result<Server<'a>, Failure> {
        let made = DirBuilder::new().mode(0o700).create(&dir);
        made.and_then(|()| match user {
            Some(user) => chown(&dir, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
            None => Ok(()),
        })
        .map_err(|error| failed(&error.to_string()))?;
        let server = Server {
            programs,
            dir,
            user,
        };
        let data = server.dir.join("data");
        server.run(
            &programs.initdb,
            &["--auth=trust", "--username=bench", "--pgdata", text(&data)],
        )?;
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c max_connections=100",
            text(&server.dir)
        );
        let log = server.dir.join("log");
        let arguments = [
            "start",
            "-w",
            "-D",
            text(&data),
            "-l",
            text(&log),
            "-o",
            &options,
        ];
        server.run(&programs.pg_ctl, &arguments)?;
        Ok(server)
    }

    fn claims_per_s(&self, seconds: u32) -> Result<f64, Failure> {
        let fill = format!(
            "CREATE TABLE work (id bigint PRIMARY KEY, state int NOT NULL, token bigint NOT NULL,
                ended timestamptz);
             INSERT INTO work SELECT n, 0, 0, NULL FROM generate_series(1, {ROWS}) n;
             CREATE INDEX work_ready ON work (id) WHERE state = 0;
             VACUUM ANALYZE work;"
        );
        // VACUUM stands alone.
        for statement in fill.split_inclusive(';') {
            let arguments = [
                "-h",
                text(&self.dir),
                "-U",
                "bench",
                "-d",
                "postgres",
                "-c",
                statement,
            ];
            self.run(&self.programs.psql, &arguments)?;
        }
        let script = self.dir.join("script");
        fs::write(&script, SCRIPT).map_err(|error| failed(&error.to_string()))?;
        let output = self.run(
            &self.programs.pgbench,
            &[
                "-n",
                "-h",
                text(&self.dir),
                "-U",
                "bench",
                "-c",
                &CLIENTS.to_string(),
                "-j",
                "2",
                "-T",
                &seconds.to_string(),
                "-f",
                text(&script),
                "postgres",
            ],
        )?;
        tps(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| failed("pgbench did not say how many transactions it made"))
    }

    fn stop(self) {
        let data = self.dir.join("data");
        // Whatever it says, its directory is removed next.
        let _ = self.run(
            &self.programs.pg_ctl,
            &["stop", "-w", "-m", "immediate", "-D", text(&data)],
        );
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<Output, Failure> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.dir)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        // A server that goes on would hold a pipe open, and nobody would see the end of it.
        let starts = program == self.programs.pg_ctl;
        let output = if starts {
            let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
            silent.status().map(|status| Output {
                status,
                stdout: Vec::new(),
                stderr: Vec::new(),
            })
        } else {
            command.output()
        };
        let output = output.map_err(|error: io::Error| failed(&error.to_string()))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it said nothing");
        Err(failed(&format!(
            "{} ended with {}: {last}",
            program.display(),
            output.status
        )))
    }
}

/// `tps = 3412.123456 (without initial connection time)`.
fn tps(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the site has made sure of it")
}

fn failed(why: &str) -> Failure {
    Failure::failed(
        "measuring PostgreSQL as a yardstick",
        why,
        "mend that, or measure without it by --no-yardstick",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_understood() {
        let said = "latency average = 18.7 ms\n\
                    tps = 3412.123456 (without initial connection time)\n";
        assert_eq!(tps(said), Some(3_412.123_456));
        assert_eq!(tps("no such database"), None);
    }
}
