//! The user that an attempt runs as.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::libc::{gid_t, uid_t};
use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};

use crate::supervisor::sys;

/// Why an attempt cannot run as the user its manifest names. Another host may know the user, or
/// may be allowed to become it.
#[derive(Debug, thiserror::Error)]
pub(super) enum UserError {
    #[error(
        "the user `{user}` does not exist on host {host}: create it there, or name another one in `run.user`"
    )]
    Unknown { user: String, host: String },
    #[error("looking up the user `{user}` on host {host}")]
    LookUp {
        user: String,
        host: String,
        source: io::Error,
    },
    #[error(
        "the supervisor of host {host} runs as user {own} and may not start a process as `{user}`: run it as root, or leave `run.user` out"
    )]
    NotPermitted {
        user: String,
        host: String,
        own: Uid,
    },
    #[error("taking on {what} of the user `{user}` on host {host}")]
    TakeOn {
        user: String,
        host: String,
        what: &'static str,
        source: io::Error,
    },
}

/// A user of this host, as its directory of users has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    name: String,
    uid: uid_t,
    gid: gid_t,
    /// Every group, the one above among them; none where they cannot be taken on anyway.
    groups: Vec<gid_t>,
    home: PathBuf,
    shell: PathBuf,
}

impl Account {
    /// Asks the host's directory of users, which may be far away and slow.
    pub(super) fn look_up(name: &str, host: &str) -> Result<Account, UserError> {
        let (user, host) = (name.to_owned(), host.to_owned());
        let found = match User::from_name(name) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(UserError::Unknown { user, host }),
            Err(errno) => {
                let source = errno.into();
                return Err(UserError::LookUp { user, host, source });
            }
        };
        let own = geteuid();
        if !own.is_root() && own != found.uid {
            return Err(UserError::NotPermitted { user, host, own });
        }
        let mut groups = Vec::new();
        if own.is_root() {
            let listed = CString::new(found.name.as_str())
                .map_err(io::Error::other)
                .and_then(|name| Ok(getgrouplist(&name, found.gid)?));
            let listed = listed.map_err(|source| UserError::LookUp { user, host, source })?;
            groups = listed.into_iter().map(Gid::as_raw).collect();
        }
        Ok(Account {
            name: found.name,
            uid: found.uid.as_raw(),
            gid: found.gid.as_raw(),
            groups,
            home: found.dir,
            shell: found.shell,
        })
    }

    pub(super) fn uid(&self) -> Uid {
        Uid::from_raw(self.uid)
    }

    pub(super) fn gid(&self) -> Gid {
        Gid::from_raw(self.gid)
    }

    /// What a login would set.
    pub(super) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("HOME", self.home.display().to_string()),
            ("USER", self.name.clone()),
            ("LOGNAME", self.name.clone()),
            ("SHELL", self.shell.display().to_string()),
        ]
    }

    /// Becomes this user for good: its groups and no other, no capability, and none to be gained
    /// from a program that carries some (`bounding` are those that could be).
    pub(super) fn take_on(&self, host: &str, bounding: &[i32]) -> Result<(), UserError> {
        let failed = |what| {
            move |source: io::Error| {
                let (user, host) = (self.name.clone(), host.to_owned());
                match source.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EPERM) => UserError::NotPermitted {
                        user,
                        host,
                        own: geteuid(),
                    },
                    _ => UserError::TakeOn {
                        user,
                        host,
                        what,
                        source,
                    },
                }
            }
        };
        let uid = self.uid();
        if geteuid() == uid && !uid.is_root() {
            // It is the supervisor's own, which could not take on another's groups either.
            return Ok(());
        }
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(|errno| failed("the groups")(errno.into()))?;
        setgid(self.gid()).map_err(|errno| failed("the group")(errno.into()))?;
        if uid.is_root() {
            return Ok(());
        }
        sys::drop_from_bounding_set(bounding).map_err(failed("the capabilities"))?;
        setuid(uid).map_err(|errno| failed("the identity")(errno.into()))?;
        sys::drop_capabilities().map_err(failed("the capabilities"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_missing_is_named_with_host_and_remedy() {
        let error = Account::look_up("no-such-user", "web1").err().unwrap();
        assert_eq!(
            error.to_string(),
            "the user `no-such-user` does not exist on host web1: create it there, or name \
             another one in `run.user`"
        );
    }

    #[test]
    fn root_is_found_by_whoever_is_root() {
        let found = Account::look_up("root", "web1");
        if geteuid().is_root() {
            let account = found.ok().unwrap();
            assert_eq!(
                (account.uid(), account.gid()),
                (Uid::from_raw(0), Gid::from_raw(0))
            );
            assert!(
                account
                    .environment()
                    .contains(&("HOME", "/root".to_owned()))
            );
        } else {
            assert!(matches!(found, Err(UserError::NotPermitted { .. })));
        }
    }
}
