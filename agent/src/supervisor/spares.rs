//! Working directories that are used again.
//!
//! To make a directory and to remove it costs a file system more than all else that it does for a
//! short job; on some disks the kernel even waits for each one that is freed. Most jobs leave their
//! working directory as they found it, and the next attempt of the same user can have that one.
//!
//! As they found it means: empty, owned and permitted as it was made, without attributes or flags of
//! its own, and not grown. All of it is looked at twice, when the directory is put aside and again
//! when it is taken, for a process of the same user that is of no attempt may hold it open. It goes
//! to the same user only: to whoever holds an empty directory open its later content can be listed,
//! and between attempts of one user that is no secret, for each could enter the other's by its path.
//!
//! Those put aside lie in a directory that nobody else can enter. A supervisor that starts removes
//! what it finds there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;

use super::sys;

/// So many are kept.
pub(super) const SPARES_MAX: usize = 64;

/// What a working directory is made with.
pub(super) const MODE: u32 = 0o700;

/// A directory that has held many names stays long, and slow to read.
const BYTES_MAX: u64 = 4096;

/// Moves a working directory into `aside` if it is as it was made; under which name.
pub(super) fn put_aside(directory: &Path, aside: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let kept = aside.join(name);
    open_unused(directory).ok()??;
    let moved = match fs::rename(directory, &kept) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => DirBuilder::new()
            .mode(0o700)
            .create(aside)
            .and_then(|()| fs::rename(directory, &kept)),
        moved => moved,
    };
    moved.is_ok().then(|| name.to_owned())
}

/// Makes a directory that was put aside the working directory of this user and group; whether it
/// was fit to be.
pub(super) fn take(spare: &Path, directory: &Path, owner: (u32, u32)) -> io::Result<bool> {
    let Some(found) = open_unused(spare)? else {
        return Ok(false);
    };
    let metadata = found.metadata()?;
    if (metadata.uid(), metadata.gid()) != owner {
        return Ok(false);
    }
    fs::rename(spare, directory)?;
    Ok(true)
}

/// `None` if it is not as it was made.
fn open_unused(path: &Path) -> io::Result<Option<File>> {
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path)?;
    let metadata = directory.metadata()?;
    let is_unused = metadata.mode() & 0o7777 == MODE
        && metadata.size() <= BYTES_MAX
        && !sys::has_attributes(directory.as_fd())?
        && fs::read_dir(path)?.next().is_none();
    Ok(is_unused.then_some(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{getegid, geteuid};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    struct Place(tempfile::TempDir);

    impl Place {
        /// With a working directory in it, and a name for the next.
        fn new() -> Place {
            let home = tempfile::tempdir().unwrap();
            fs::create_dir(home.path().join("work")).unwrap();
            let place = Place(home);
            DirBuilder::new().mode(MODE).create(place.work(7)).unwrap();
            place
        }

        fn work(&self, token: u32) -> PathBuf {
            self.0.path().join(format!("work/{token}"))
        }

        fn put_aside(&self) -> Option<PathBuf> {
            let aside = self.0.path().join("spare");
            Some(aside.join(put_aside(&self.work(7), &aside)?))
        }
    }

    fn own() -> (u32, u32) {
        (geteuid().as_raw(), getegid().as_raw())
    }

    #[test]
    fn one_that_is_as_it_was_made_serves_again() {
        let place = Place::new();
        let before = fs::metadata(place.work(7)).unwrap().ino();
        let spare = place.put_aside().unwrap();
        assert!(!place.work(7).exists());
        assert!(take(&spare, &place.work(8), own()).unwrap());
        assert!(!spare.exists());
        assert_eq!(fs::metadata(place.work(8)).unwrap().ino(), before);
    }

    #[test]
    fn one_that_somebody_has_changed_does_not() {
        type Change = fn(&Path) -> io::Result<()>;
        let changes: [(&str, Change); 6] = [
            ("a file", |path| fs::write(path.join("f"), "")),
            ("a hidden directory", |path| fs::create_dir(path.join(".d"))),
            ("a broken link", |path| symlink("nowhere", path.join("l"))),
            ("its mode", |path| {
                fs::set_permissions(path, Permissions::from_mode(0o770))
            }),
            ("an attribute", sys::tests::set_attribute),
            ("a flag", sys::tests::set_flag),
        ];
        for (what, change) in changes {
            let place = Place::new();
            match change(&place.work(7)) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    eprintln!("skipped: {what}, which this disk does not know");
                    continue;
                }
                changed => changed.unwrap(),
            }
            assert_eq!(place.put_aside(), None, "{what}");
            assert!(place.work(7).exists(), "{what}");

            // Somebody may have held it open when it was put aside.
            let place = Place::new();
            let spare = place.put_aside().unwrap();
            change(&spare).unwrap();
            assert!(!take(&spare, &place.work(8), own()).unwrap(), "{what}");
            assert!(!place.work(8).exists(), "{what}");
        }
    }

    #[test]
    fn it_is_nobody_elses() {
        let place = Place::new();
        let spare = place.put_aside().unwrap();
        for (uid, gid) in [(own().0 + 1, own().1), (own().0, own().1 + 1)] {
            assert!(!take(&spare, &place.work(8), (uid, gid)).unwrap());
        }
        assert!(spare.exists());
    }

    #[test]
    fn a_link_in_its_place_is_not_followed_and_what_is_in_use_is_not_replaced() {
        let place = Place::new();
        let spare = place.put_aside().unwrap();
        fs::create_dir_all(place.work(8).join("x")).unwrap();
        assert!(take(&spare, &place.work(8), own()).is_err());
        symlink(&spare, place.work(9)).unwrap();
        let aside = place.0.path().join("spare");
        assert_eq!(put_aside(&place.work(9), &aside), None);
        assert!(place.work(9).is_symlink());
    }
}
