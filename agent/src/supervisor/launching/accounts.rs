//! Users that were looked up a moment ago.
//!
//! A look-up loads the C library's name services into the process that asks, each time, for it is
//! a process of its own each time: for a short job that is a tenth of all that its start costs. So
//! a process that has asked tells what it heard, and those that start soon after it do not ask
//! again. A user that was changed must be seen: an answer is good for [`LIFETIME`], and only as
//! long as the files that users commonly lie in are what they were when it was asked. Whether they
//! are is seen by the process that starts, and never by the supervisor, for files may hang. Clocks of
//! file systems tick slowly: one that was changed just now may change again and not show it, so what
//! was read then is not remembered. Nor is it ever that a user is missing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use protocol::{BootMs, DurationMs, WallMs};
use serde::{Deserialize, Serialize};

use super::user::Account;

/// A user that lies elsewhere than in [`FILES`] may have changed unseen for so long.
const LIFETIME: DurationMs = DurationMs(2_000);

/// Longer than the tick of any file system's clock.
const SETTLED: DurationMs = DurationMs(100);

/// Users remembered at once.
const ACCOUNTS_MAX: usize = 64;

/// Where users lie, and what says where else.
const FILES: [&str; 3] = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"];

/// An answer, and what it was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) account: Account,
    pub(super) sources: Sources,
}

/// How the files were when they were read; one that is not there is a state too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sources(Vec<Option<State>>);

/// Device, inode, length, and the moments of the last change of content and of inode.
type State = (u64, u64, u64, (i64, i64), (i64, i64));

impl Sources {
    pub(super) fn read() -> Sources {
        Sources(FILES.iter().map(|file| state(Path::new(file))).collect())
    }

    /// Whether a change that is made after `now` shows.
    pub(super) fn are_settled(&self, now: WallMs) -> bool {
        let mut files = self.0.iter().flatten();
        files.all(|(.., (s, ns))| now - WallMs(s * 1000 + ns / 1_000_000) > SETTLED)
    }
}

fn state(file: &Path) -> Option<State> {
    let found = file.metadata().ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.size(),
        (found.mtime(), found.mtime_nsec()),
        (found.ctime(), found.ctime_nsec()),
    ))
}

/// By the name that was asked for.
#[derive(Default)]
pub(super) struct Accounts(BTreeMap<String, Remembered>);

struct Remembered {
    found: Found,
    until: BootMs,
}

impl Accounts {
    /// What was found for this name, if that is not too long ago. Whether its sources are the
    /// same still is for the caller to see.
    pub(super) fn recall(&self, name: &str, now: BootMs) -> Option<&Found> {
        let remembered = self.0.get(name)?;
        (now < remembered.until).then_some(&remembered.found)
    }

    /// Remembers an answer to a question that was asked at `asked_at` or later.
    pub(super) fn remember(&mut self, name: &str, found: Found, asked_at: BootMs, now: BootMs) {
        self.0.retain(|_, remembered| now < remembered.until);
        if self.0.len() < ACCOUNTS_MAX || self.0.contains_key(name) {
            let until = asked_at + LIFETIME;
            self.0.insert(name.to_owned(), Remembered { found, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
        Found {
            account: Account::look_up(&user.unwrap().name, "web1").unwrap(),
            sources: Sources::read(),
        }
    }

    #[test]
    fn an_answer_is_good_for_a_moment_counted_from_the_question() {
        let mut accounts = Accounts::default();
        let (asked, heard) = (BootMs(1_000), BootMs(1_500));
        accounts.remember("batch", found(), asked, heard);
        let last = asked + LIFETIME;
        for (name, now, expected) in [
            ("batch", heard, true),
            ("batch", BootMs(last.0 - 1), true),
            ("batch", last, false),
            ("other", heard, false),
        ] {
            let recalled = accounts.recall(name, now);
            assert_eq!(recalled.is_some(), expected, "{name} at {now:?}");
        }
    }

    #[test]
    fn what_was_changed_just_now_is_not_settled() {
        let file = |s, ns| Some((1, 2, 3, (0, 0), (s, ns)));
        for (files, now, expected) in [
            (vec![file(5, 0), None], 5_101, true),
            (vec![file(5, 0), None], 5_100, false),
            (vec![file(1, 0), file(5, 900_000_000)], 5_950, false),
            // The clock was set back.
            (vec![file(5, 0)], 4_000, false),
            (vec![None], 0, true),
        ] {
            let sources = Sources(files);
            assert_eq!(
                sources.are_settled(WallMs(now)),
                expected,
                "{sources:?} at {now}"
            );
        }
    }

    #[test]
    fn the_old_make_room_and_the_many_are_not_remembered() {
        let mut accounts = Accounts::default();
        let first = BootMs(0);
        for n in 0..=ACCOUNTS_MAX {
            accounts.remember(&format!("u{n}"), found(), first, first);
        }
        assert_eq!(accounts.0.len(), ACCOUNTS_MAX);
        let later = first + LIFETIME;
        accounts.remember("new", found(), later, later);
        assert_eq!(accounts.0.len(), 1);
    }

    #[test]
    fn a_file_that_was_changed_replaced_or_removed_is_another_state() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("passwd");
        assert_eq!(state(&file), None);
        std::fs::write(&file, "a").unwrap();
        let before = state(&file);
        assert_eq!(state(&file), before);
        let other = home.path().join("passwd+");
        std::fs::write(&other, "b").unwrap();
        std::fs::rename(&other, &file).unwrap();
        let replaced = state(&file);
        assert_ne!(replaced, before);
        std::fs::write(&file, "bc").unwrap();
        assert_ne!(state(&file), replaced);
    }
}
