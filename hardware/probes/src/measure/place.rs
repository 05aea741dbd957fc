//! The file that disks are measured by, and the thread that may hang over it.
//!
//! It has a name while it is used, because some file systems do less for the sync of a file without one. Its
//! name is always the same and it is locked: whoever was killed in the midst of measuring leaves one file,
//! which the next one takes over and removes, and two never measure the same disk at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, PosixFadviseAdvice, fallocate, posix_fadvise};
use nix::sys::statfs::{FsType, statfs};
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use super::device::Device;
use super::{Measured, Refusal, Skip};

const NAME: &str = ".matins-probe";

/// Below this share that is free nothing is measured.
const FREE_PER_MILLE_MIN: u32 = 50;

/// How much longer than it may take somebody waits for a measurement: a sync that was begun in time
/// ends when it does.
const GRACE: Duration = Duration::from_secs(5);
/// And from when somebody asked to stop.
const STOP_GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

const WRITTEN_AT_ONCE: usize = 1 << 20;

/// File systems that keep nothing on a disk.
const IN_MEMORY: [(i64, &str); 3] = [
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
];

/// A locked file on the disk that is measured, removed in the end.
pub(super) struct Place {
    path: PathBuf,
    pub(super) file: File,
    pub(super) device: Option<Device>,
    /// The file system keeps the room that was asked for.
    pub(super) is_reserved: bool,
}

impl Place {
    /// Makes the file, and room for so many bytes in it.
    pub(super) fn open(directory: &Path, bytes: u64) -> Result<Place, Refusal> {
        let said = directory.display();
        let kind = statfs(directory)
            .map_err(|errno| Refusal::because(format!("{said} cannot be looked at: {errno}")))?;
        if let Some(name) = in_memory(kind.filesystem_type()) {
            let why = format!("{said} is a {name}, which keeps nothing on a disk");
            return Err(Refusal::because(why));
        }
        if let Some(free_per_mille) = free_per_mille(directory)
            && free_per_mille < FREE_PER_MILLE_MIN
        {
            return Err(Skip::SpaceShort { free_per_mille }.into());
        }
        let path = directory.join(NAME);
        let file = lock_own(&path)?;
        let mut place = Place {
            file,
            device: Device::below(directory),
            is_reserved: true,
            path,
        };
        place.make_room(bytes)?;
        Ok(place)
    }

    fn make_room(&mut self, bytes: u64) -> Result<(), Refusal> {
        let path = self.path.display().to_string();
        let failed = |error: &dyn std::error::Error| {
            Refusal::because(format!(
                "there is no room for {} KiB in {path}: {error}",
                bytes.div_ceil(1024)
            ))
        };
        // What an earlier one left is not what this one asked for.
        self.file.set_len(0).map_err(|error| failed(&error))?;
        let length = i64::try_from(bytes).expect("measurements are small");
        match fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            Ok(()) => {}
            // Then whoever measures fills it.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.is_reserved = false,
            Err(errno) => return Err(failed(&errno)),
        }
        self.file.sync_all().map_err(|error| failed(&error))
    }

    /// Writes the file full, with bytes that no drive can make fewer of; not to its end where somebody
    /// gives up.
    pub(super) fn fill(&self, bytes: u64, give_up: impl Fn() -> bool) -> io::Result<()> {
        let mut noise = noise(WRITTEN_AT_ONCE);
        let mut file = &self.file;
        let mut left = bytes;
        while left > 0 && !give_up() {
            let part = left.min(WRITTEN_AT_ONCE as u64) as usize;
            noise[..8].copy_from_slice(&left.to_le_bytes());
            file.write_all(&noise[..part])?;
            left -= part as u64;
        }
        file.sync_all()?;
        // What the kernel keeps of it would be thrown out page by page under the writes that go past it.
        // That it may keep it after all costs speed and nothing else.
        let _ = posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        Ok(())
    }

    /// The same file once more, past the kernel's cache.
    pub(super) fn open_direct(&self, durable: bool) -> Result<File, Refusal> {
        let mut flags = OFlag::O_DIRECT | OFlag::O_NOFOLLOW;
        if durable {
            flags |= OFlag::O_DSYNC;
        }
        OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits())
            .open(&self.path)
            .map_err(|error| {
                let said = match error.raw_os_error() {
                    Some(code) if code == Errno::EINVAL as i32 => {
                        "its file system takes no direct writes (O_DIRECT)".to_owned()
                    }
                    _ => error.to_string(),
                };
                Refusal::because(format!(
                    "{} cannot be written past the cache: {said}",
                    self.path.display()
                ))
            })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Where it is gone already, that is what was wanted; where it cannot be removed, the next one
        // takes it over.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a file of our own under this name and locks it.
fn lock_own(path: &Path) -> Result<File, Refusal> {
    let said = path.display();
    // Between opening and locking, another one may have removed it.
    for _ in 0..8 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(path)
            .map_err(|error| Refusal::because(format!("{said} cannot be written: {error}")))?;
        let held = file
            .metadata()
            .map_err(|error| Refusal::because(format!("{said} cannot be looked at: {error}")))?;
        if !held.is_file() || held.uid() != geteuid().as_raw() || held.nlink() > 1 {
            return Err(Refusal::because(format!(
                "{said} is somebody else's: remove it"
            )));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Refusal::because(format!(
                    "{said} is locked: another measurement is under way, or hangs"
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(Refusal::because(format!(
                    "{said} cannot be locked: {error}"
                )));
            }
        }
        if path
            .symlink_metadata()
            .is_ok_and(|now| now.ino() == held.ino())
        {
            return Ok(file);
        }
    }
    Err(Refusal::because(format!("{said} vanishes again and again")))
}

/// Measures on a thread of its own, and waits for it no longer than `limit` and a little.
pub(super) fn on_a_thread<T: Send + 'static>(
    limit: Duration,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&AtomicBool) -> Result<T, Refusal> + Send + 'static,
) -> Measured<T> {
    let (answer, answers) = mpsc::channel();
    let told = Arc::clone(stop);
    // Nobody joins it: over a disk that hangs it may last until the machine is switched off.
    let begun = thread::Builder::new()
        .name("probe".to_owned())
        .spawn(move || {
            // Whoever waited may have given up.
            let _ = answer.send(work(&told));
        });
    if let Err(error) = begun {
        return Measured::Unknown(format!("no thread could be started: {error}"));
    }
    let mut until = Instant::now() + limit + GRACE;
    loop {
        match answers.recv_timeout(LOOK) {
            Ok(found) => return found.into(),
            Err(RecvTimeoutError::Disconnected) => {
                return Measured::Unknown("the thread that measured panicked".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) {
            until = until.min(now + STOP_GRACE);
        }
        if now >= until {
            return Measured::Unknown(format!(
                "the disk has not answered {} s after what a measurement may take: it hangs",
                GRACE.as_secs()
            ));
        }
    }
}

fn in_memory(kind: FsType) -> Option<&'static str> {
    #[allow(
        clippy::unnecessary_cast,
        reason = "its width differs between libraries"
    )]
    let kind = kind.0 as i64;
    let found = IN_MEMORY.iter().find(|(number, _)| *number == kind);
    found.map(|(_, name)| *name)
}

/// What of a file system an unprivileged process may still fill.
fn free_per_mille(directory: &Path) -> Option<u32> {
    let of = statvfs(directory).ok()?;
    let share = u128::from(of.blocks_available()) * 1000;
    Some(share.checked_div(u128::from(of.blocks()))?.min(1000) as u32)
}

/// Bytes without a pattern.
pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        noise.extend(x.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}
