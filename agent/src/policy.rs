//! The host's policy, read from a file.
//!
//! Everything that is wrong with it is said at once, each with its line. An agent whose policy cannot be
//! read does not start: one that went on without it would allow what its host forbids. So does one
//! whose policy somebody else could change.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent_core::agent::{Policy, Program};
use nix::unistd::geteuid;
use protocol::NamespaceName;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where it is looked for when nobody names another place.
pub const POLICY_FILE: &str = "/etc/matins/policy.toml";

const FIELDS: &str = "users, exec and namespaces";

/// A policy that the agent does not start with.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("reading the policy {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the policy {path} {why}, who could allow what this host forbids")]
    Untrusted { path: PathBuf, why: &'static str },
    #[error("the policy {path}: {problems}")]
    Wrong { path: PathBuf, problems: Problems },
}

/// All that is wrong with a policy.
#[derive(Debug)]
pub struct Problems(Vec<(usize, String)>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (line, what)) in self.0.iter().enumerate() {
            let between = if i == 0 { "" } else { "; " };
            write!(f, "{between}line {line}: {what}")?;
        }
        Ok(())
    }
}

/// Reads the policy of a host. Where nobody has named a file, and there is none at its usual place,
/// everything is allowed.
pub(crate) fn read(named: Option<&Path>) -> Result<Policy, PolicyError> {
    let path = named.unwrap_or_else(|| Path::new(POLICY_FILE));
    let failed = |source| PolicyError::Read {
        path: path.to_owned(),
        source,
    };
    let untrusted = |why| PolicyError::Untrusted {
        path: path.to_owned(),
        why,
    };
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(Policy::default());
        }
        opened => opened.map_err(failed)?,
    };
    refuse_others(&file.metadata().map_err(failed)?, false).map_err(untrusted)?;
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        refuse_others(&fs::metadata(directory).map_err(failed)?, true).map_err(untrusted)?;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    parse(&text).map_err(|problems| PolicyError::Wrong {
        path: path.to_owned(),
        problems,
    })
}

/// Whether anybody but root and the agent's own user can change it.
fn refuse_others(about: &Metadata, is_directory: bool) -> Result<(), &'static str> {
    const STICKY: u32 = 0o1000;
    if about.uid() != 0 && about.uid() != geteuid().as_raw() {
        return Err(if is_directory {
            "is in a directory of another user"
        } else {
            "is another user's"
        });
    }
    let by_others = about.mode() & 0o022 != 0;
    if by_others && !(is_directory && about.mode() & STICKY != 0) {
        return Err(if is_directory {
            "is in a directory that others can write to"
        } else {
            "can be written by others"
        });
    }
    Ok(())
}

fn parse(text: &str) -> Result<Policy, Problems> {
    let mut reading = Reading {
        text,
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reading.note(at, error.message().to_owned());
    }
    let mut policy = Policy::default();
    for (key, value) in table.get_ref() {
        match &**key.get_ref() {
            "users" => policy.users = Some(reading.texts("users", value, user)),
            "exec" => {
                let programs = reading.texts("exec", value, |path| {
                    Program::new(path).map_err(|error| error.to_string())
                });
                policy.exec = Some(programs);
            }
            "namespaces" => {
                let names = reading.texts("namespaces", value, |name| {
                    let name = name.strip_suffix("/*").unwrap_or(name);
                    name.parse::<NamespaceName>()
                        .map_err(|error| error.to_string())
                });
                policy.namespaces = Some(names);
            }
            other => {
                let what = format!("`{other}` is no field of a policy: there are {FIELDS}");
                reading.note(key.span().start, what);
            }
        }
    }
    if reading.problems.is_empty() {
        return Ok(policy);
    }
    reading.problems.sort();
    Err(Problems(reading.problems))
}

fn user(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ':' || c == '/') {
        return Err(format!("`{name}` is no name of a user"));
    }
    Ok(name.to_owned())
}

struct Reading<'a> {
    text: &'a str,
    problems: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn note(&mut self, at: usize, what: String) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        self.problems.push((line, what));
    }

    /// The texts of a list, each as what it stands for.
    fn texts<T, C: FromIterator<T>>(
        &mut self,
        field: &str,
        value: &Spanned<DeValue<'_>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> C {
        let Some(list) = value.get_ref().as_array() else {
            let what = format!("`{field}` is a list of texts, such as {field} = [\"a\", \"b\"]");
            self.note(value.span().start, what);
            return C::from_iter([]);
        };
        if list.is_empty() {
            let what = format!(
                "`{field}` is empty, and nothing could ever be started: leave it out for all"
            );
            self.note(value.span().start, what);
        }
        let mut texts = Vec::new();
        for item in list {
            let read = match item.get_ref().as_str() {
                Some(text) => read(text),
                None => Err(format!("`{field}` holds texts only")),
            };
            match read {
                Ok(text) => texts.push(text),
                Err(what) => self.note(item.span().start, what),
            }
        }
        texts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        let policy = parse(
            "# Whom, what and whose.\nusers = [\"batch\", \"reports\"]\nexec = [\"/opt/jobs/\"]\n\
             namespaces = [\"finance\", \"data/*\"]\n",
        );
        let expected = Policy {
            users: Some(["batch", "reports"].map(str::to_owned).into()),
            exec: Some(vec![Program::new("/opt/jobs").unwrap()]),
            namespaces: Some(["finance", "data"].map(|name| name.parse().unwrap()).into()),
        };
        assert_eq!(policy.unwrap(), expected);
        assert_eq!(parse("# nothing\n").unwrap(), Policy::default());
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once_with_its_line() {
        let text = "users = []\nexec = [\"/opt/../x\", 3,\n  \"bin\"]\nclasses = [\"io\"]\nnamespaces = 5\n";
        let said = parse(text).unwrap_err().to_string();
        for what in [
            "line 1: `users` is empty",
            "line 2: `/opt/../x` takes a detour",
            "line 2: `exec` holds texts only",
            "line 3: `bin` is not a whole path",
            "line 4: `classes` is no field of a policy: there are users, exec and namespaces",
            "line 5: `namespaces` is a list of texts",
        ] {
            assert!(said.contains(what), "{what}: {said}");
        }
        for (text, line) in [
            ("users = [\"a\"\nexec = [\"/x\"]\n", "line "),
            ("users = [\"a\"]\nusers = [\"b\"]\n", "line 2"),
            ("a b = 1\n", "line 1"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(line), "{text}: {said}");
        }
    }

    #[test]
    fn a_policy_that_others_can_change_is_none() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("policy.toml");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let missing = read(Some(&file)).unwrap_err();
        assert!(matches!(missing, PolicyError::Read { .. }), "{missing:?}");
        fs::write(&file, "users = [\"batch\"]\n").unwrap();
        for (directory, own, why) in [
            (0o755, 0o644, None),
            (0o755, 0o664, Some("can be written by others")),
            (0o755, 0o646, Some("can be written by others")),
            (
                0o775,
                0o644,
                Some("in a directory that others can write to"),
            ),
            (0o1777, 0o644, None),
        ] {
            set(home.path(), directory);
            set(&file, own);
            let read = read(Some(&file)).map_err(|error| error.to_string());
            match why {
                None => assert!(read.unwrap().users.is_some()),
                Some(why) => assert!(read.unwrap_err().contains(why), "{directory:o} {own:o}"),
            }
        }
    }
}
