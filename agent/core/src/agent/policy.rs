//! What this host lets jobs do, whatever a coordinator says.
//!
//! A coordinator is trusted with a great deal: whoever holds it can have any program run on every host. A
//! policy is the host's own word against that. It is written by whoever administers the host, where no
//! coordinator can write, and it only takes away: what it does not speak of is as before.
//!
//! It judges what is started, not what runs: a process that has begun is ended by its lease and by
//! nothing here.

use std::collections::BTreeSet;

use protocol::attempt::Work;
use protocol::{JobName, NamespaceName};

/// What may be started here; where something is unset, everything of that kind may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Users that attempts may run as.
    pub users: Option<BTreeSet<String>>,
    /// Programs, each by its own path or that of a directory somewhere above it.
    pub exec: Option<Vec<Program>>,
    /// Namespaces whose jobs may run here.
    pub namespaces: Option<BTreeSet<NamespaceName>>,
}

/// The path of a program, or of a directory with programs: absolute, and without a detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(String);

/// A path that a policy cannot go by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("`{0}` is not a whole path: it begins with `/`")]
    NotAbsolute(String),
    #[error("`{0}` takes a detour: write it without `.`, `..` and empty parts")]
    Detour(String),
    #[error("`/` is every program: leave `exec` out for that")]
    Everything,
}

/// What of an attempt the policy of its host does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("jobs run here as {}, and not as `{user}`", listed(.allowed))]
    User {
        user: String,
        allowed: BTreeSet<String>,
    },
    #[error("jobs run here as {} and say so: this one names no user", listed(.allowed))]
    NoUser { allowed: BTreeSet<String> },
    #[error("`{program}` is none of the programs that may be started here")]
    Program { program: String },
    #[error("`{program}` is not a whole path without a detour, as the programs here are named by")]
    Roundabout { program: String },
    #[error("`{job}` is of none of the namespaces whose jobs run here")]
    Namespace { job: JobName },
}

fn listed(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

impl Program {
    pub fn new(path: &str) -> Result<Program, ProgramError> {
        let Some(below) = path.strip_prefix('/') else {
            return Err(ProgramError::NotAbsolute(path.to_owned()));
        };
        let below = below.strip_suffix('/').unwrap_or(below);
        if below.is_empty() {
            return Err(ProgramError::Everything);
        }
        if takes_detour(below) {
            return Err(ProgramError::Detour(path.to_owned()));
        }
        Ok(Program(format!("/{below}")))
    }

    /// Whether it is this program, or a directory somewhere above it.
    fn holds(&self, program: &str) -> bool {
        let rest = program.strip_prefix(self.0.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Of a path below the root.
fn takes_detour(below: &str) -> bool {
    below.split('/').any(|part| matches!(part, "" | "." | ".."))
}

impl Policy {
    /// Whether this attempt may be started here.
    pub fn judge(&self, work: &Work) -> Result<(), Forbidden> {
        if let Some(namespaces) = &self.namespaces
            && !namespaces
                .iter()
                .any(|namespace| namespace.holds(&work.job))
        {
            let job = work.job.clone();
            return Err(Forbidden::Namespace { job });
        }
        if let Some(allowed) = &self.users {
            match &work.user {
                Some(user) if allowed.contains(user) => {}
                Some(user) => {
                    let (user, allowed) = (user.clone(), allowed.clone());
                    return Err(Forbidden::User { user, allowed });
                }
                // It would run as whoever the supervisor runs as, often root.
                None => {
                    let allowed = allowed.clone();
                    return Err(Forbidden::NoUser { allowed });
                }
            }
        }
        let Some(programs) = &self.exec else {
            return Ok(());
        };
        // Without arguments there is nothing to start; the supervisor says so.
        let Some(program) = work.exec.first() else {
            return Ok(());
        };
        let named = || program.clone();
        match program.strip_prefix('/') {
            Some(below) if !takes_detour(below) => {}
            // It would be looked for, or lead somewhere else than it seems to.
            _ => return Err(Forbidden::Roundabout { program: named() }),
        }
        if programs.iter().any(|allowed| allowed.holds(program)) {
            return Ok(());
        }
        Err(Forbidden::Program { program: named() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::work;
    use super::*;

    fn policy() -> Policy {
        Policy {
            users: Some(["batch", "reports"].map(str::to_owned).into()),
            exec: Some(vec![
                Program::new("/opt/jobs/").unwrap(),
                Program::new("/usr/bin/true").unwrap(),
            ]),
            namespaces: Some(["team", "finance"].map(|name| name.parse().unwrap()).into()),
        }
    }

    fn judged(policy: &Policy, job: &str, user: Option<&str>, program: &str) -> String {
        let work = Work {
            job: job.parse().unwrap(),
            user: user.map(str::to_owned),
            exec: vec![program.to_owned(), "/opt/jobs/argument".to_owned()],
            ..work()
        };
        match policy.judge(&work) {
            Ok(()) => "allowed".to_owned(),
            Err(forbidden) => forbidden.to_string(),
        }
    }

    #[test]
    fn what_a_policy_names_is_allowed_and_nothing_beside_it() {
        for (job, user, program, expected) in [
            ("team/a", Some("batch"), "/opt/jobs/close", "allowed"),
            ("finance/a", Some("reports"), "/opt/jobs/a/b", "allowed"),
            ("team/a", Some("batch"), "/opt/jobs", "allowed"),
            ("team/a", Some("batch"), "/usr/bin/true", "allowed"),
            (
                "team/a",
                Some("batch"),
                "/usr/bin/true2",
                "none of the programs",
            ),
            (
                "team/a",
                Some("batch"),
                "/opt/jobs2/x",
                "none of the programs",
            ),
            ("team/a", Some("batch"), "/bin/sh", "none of the programs"),
            (
                "team/a",
                Some("batch"),
                "/opt/jobs/../../bin/sh",
                "without a detour",
            ),
            ("team/a", Some("batch"), "/opt/jobs/./x", "without a detour"),
            ("team/a", Some("batch"), "//opt/jobs/x", "without a detour"),
            ("team/a", Some("batch"), "true", "not a whole path"),
            (
                "team/a",
                Some("root"),
                "/opt/jobs/x",
                "as `batch`, `reports`, and not as `root`",
            ),
            ("team/a", None, "/opt/jobs/x", "names no user"),
            (
                "teams/a",
                Some("batch"),
                "/opt/jobs/x",
                "none of the namespaces",
            ),
        ] {
            let said = judged(&policy(), job, user, program);
            assert!(said.contains(expected), "{job} {user:?} {program}: {said}");
        }
    }

    #[test]
    fn what_a_policy_does_not_speak_of_is_as_before() {
        let said = judged(&Policy::default(), "x/y", None, "sh");
        assert_eq!(said, "allowed");
        let users = Policy {
            users: policy().users,
            ..Policy::default()
        };
        assert_eq!(judged(&users, "x/y", Some("batch"), "sh"), "allowed");
    }

    #[test]
    fn a_policy_goes_by_whole_paths_only() {
        for (path, why) in [
            ("opt/jobs", "not a whole path"),
            ("", "not a whole path"),
            ("/", "every program"),
            ("/opt/../etc", "takes a detour"),
            ("/opt//jobs", "takes a detour"),
        ] {
            let refused = Program::new(path).unwrap_err().to_string();
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }
}
