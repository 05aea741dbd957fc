//! Disks that lose what was not synced, for tests.
//!
//! Between a write and its sync a file is in the hands of the kernel, and no test that copies files
//! or kills processes sees what a power cut leaves of it. So SQLite's own way to the file system is
//! wrapped here: for the databases below a watched directory it is remembered what has been written
//! since the last sync, and a cut of the power takes back any part of that. A sync costs nothing.
//!
//! What counts as lost is a write as a whole. That a file exists, is gone, or has another name is
//! taken to be durable at once, and what is not written by SQLite is not seen.
//!
//! SQLite offers this seam in C only, and hence the unsafe code: every function below is called by
//! SQLite with a file that `open` has prepared, and hands it on to the file system that was there
//! before.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::{fs, io, mem, ptr, slice};

use rusqlite::ffi;

/// The disk below a directory, as long as somebody watches it.
pub struct Disk {
    directory: PathBuf,
}

/// What is known of a watched directory.
struct Watched {
    /// Falls when the power does; files that are opened later have another.
    power: Arc<AtomicBool>,
    files: BTreeMap<PathBuf, Vec<Change>>,
}

/// What was done to a file since it was last synced.
enum Change {
    Write {
        offset: usize,
        old: Vec<u8>,
        new: Vec<u8>,
        length_before: usize,
    },
    Truncate {
        length: usize,
        tail: Vec<u8>,
    },
}

static WATCHED: Mutex<BTreeMap<PathBuf, Watched>> = Mutex::new(BTreeMap::new());

fn watched() -> MutexGuard<'static, BTreeMap<PathBuf, Watched>> {
    WATCHED.lock().expect("nobody panics while holding it")
}

impl Disk {
    /// Watches the databases that are opened in `directory` from now on.
    pub fn watch(directory: &Path) -> Disk {
        static WRAP: Once = Once::new();
        WRAP.call_once(wrap);
        let disk = Disk {
            directory: directory.to_owned(),
        };
        disk.switch_on();
        disk
    }

    /// Whoever has a file open reaches it no longer, though he is not told.
    pub fn switch_off(&self) {
        if let Some(watched) = watched().get(&self.directory) {
            watched.power.store(false, Ordering::SeqCst);
        }
    }

    /// Whether nobody has a file open that was opened since the power was last switched on.
    pub fn is_closed(&self) -> bool {
        let watched = watched();
        let watched = watched.get(&self.directory);
        watched.is_none_or(|watched| Arc::strong_count(&watched.power) == 1)
    }

    /// Loses of what was not synced whatever `survives` says no to. Everything is closed by now.
    pub fn lose(&self, mut survives: impl FnMut() -> bool) -> io::Result<()> {
        let mut watched = watched();
        let Some(watched) = watched.get_mut(&self.directory) else {
            return Ok(());
        };
        for (path, changes) in mem::take(&mut watched.files) {
            if !changes.is_empty() && path.exists() {
                let mut content = fs::read(&path)?;
                for change in changes.iter().rev() {
                    change.undo(&mut content);
                }
                for change in changes.iter().filter(|_| survives()) {
                    change.redo(&mut content);
                }
                fs::write(&path, content)?;
            }
        }
        Ok(())
    }

    /// What is opened from now on works.
    pub fn switch_on(&self) {
        let power = Arc::new(AtomicBool::new(true));
        watched()
            .entry(self.directory.clone())
            .and_modify(|watched| watched.power = Arc::clone(&power))
            .or_insert(Watched {
                power,
                files: BTreeMap::new(),
            });
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        watched().remove(&self.directory);
    }
}

impl Change {
    fn undo(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write {
                offset,
                old,
                length_before,
                ..
            } => {
                put(content, *offset, old);
                content.truncate(*length_before);
            }
            Change::Truncate { tail, .. } => content.extend_from_slice(tail),
        }
    }

    fn redo(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, new, .. } => put(content, *offset, new),
            Change::Truncate { length, .. } => content.truncate(*length),
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// What SQLite is given as a file; behind it, in the same memory, lies the file of the file system
/// that was there before.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// Owned by `open` and `close`; null for a file that is not watched.
    watch: *mut Watch,
}

struct Watch {
    directory: PathBuf,
    path: PathBuf,
    power: Arc<AtomicBool>,
}

/// The file system that was there before.
static BEFORE: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

fn before() -> *mut ffi::sqlite3_vfs {
    BEFORE.load(Ordering::SeqCst)
}

fn wrap() {
    // SAFETY: SQLite keeps a file system that is registered for ever, so it is leaked; the copy
    // differs from the one found in what is set here only.
    unsafe {
        let found = ffi::sqlite3_vfs_find(ptr::null());
        BEFORE.store(found, Ordering::SeqCst);
        let mut wrapped = ptr::read(found);
        wrapped.zName = c"matins-power".as_ptr();
        wrapped.pNext = ptr::null_mut();
        wrapped.szOsFile += size_of::<File>() as c_int;
        wrapped.xOpen = Some(open);
        wrapped.xDelete = Some(delete);
        ffi::sqlite3_vfs_register(Box::into_raw(Box::new(wrapped)), 1);
    }
}

/// The directory of a file that is watched, if it is a database or the log of one.
fn watched_directory(path: &Path) -> Option<PathBuf> {
    let extension = path.extension()?;
    let directory = path.parent()?;
    let is_database = extension == "db" || extension == "db-wal";
    (is_database && watched().contains_key(directory)).then(|| directory.to_owned())
}

unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite names files by texts that end with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: `file` has the size that `wrap` asked for.
    unsafe {
        let own = file.cast::<File>();
        (*own).base.pMethods = ptr::null();
        (*own).watch = ptr::null_mut();
        let open = (*before()).xOpen.expect("every file system opens files");
        let answer = open(before(), name, inner(file), flags, out);
        if answer != ffi::SQLITE_OK {
            return answer;
        }
        (*own).base.pMethods = &raw const METHODS;
        let path = path_of(name);
        if let Some((path, directory)) =
            path.and_then(|path| Some((path, watched_directory(path)?)))
            && let Some(watched) = watched().get(&directory)
        {
            let watch = Watch {
                path: path.to_owned(),
                power: Arc::clone(&watched.power),
                directory,
            };
            (*own).watch = Box::into_raw(Box::new(watch));
        }
        answer
    }
}

unsafe extern "C" fn delete(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync: c_int,
) -> c_int {
    // SAFETY: as SQLite calls it.
    unsafe {
        if let Some(path) = path_of(name)
            && let Some(directory) = watched_directory(path)
            && let Some(watched) = watched().get_mut(&directory)
        {
            if !watched.power.load(Ordering::SeqCst) {
                return ffi::SQLITE_OK;
            }
            watched.files.remove(path);
        }
        let delete = (*before())
            .xDelete
            .expect("every file system deletes files");
        delete(before(), name, sync)
    }
}

/// The file of the file system that was there before.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `wrap` has asked for room for both.
    unsafe { file.byte_add(size_of::<File>()) }
}

unsafe fn watch<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a Watch> {
    // SAFETY: set by `open`, and freed by `close` after which SQLite does not use the file.
    unsafe { (*file.cast::<File>()).watch.as_ref() }
}

/// Calls the method of the file that was there before.
macro_rules! inner {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {
        // SAFETY: the file was opened, and its methods are those of the file system before.
        unsafe {
            let inner = inner($file);
            let method = (*(*inner).pMethods).$method;
            method.expect("the file system before knows write-ahead logs")(inner, $($argument),*)
        }
    };
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let answer = inner!(file.xClose());
    // SAFETY: made by `open`, and no longer used.
    unsafe {
        let watch = mem::replace(&mut (*file.cast::<File>()).watch, ptr::null_mut());
        if !watch.is_null() {
            drop(Box::from_raw(watch));
        }
    }
    answer
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    inner!(file.xRead(into, length, offset))
}

/// What the file holds from `offset` on, as far as there is something.
unsafe fn content(file: *mut ffi::sqlite3_file, offset: usize, length: usize) -> Vec<u8> {
    let total = unsafe { length_of(file) };
    let mut bytes = vec![0; length.min(total.saturating_sub(offset))];
    if !bytes.is_empty() {
        let into = bytes.as_mut_ptr().cast::<c_void>();
        let read = inner!(file.xRead(into, bytes.len() as c_int, offset as ffi::sqlite3_int64));
        assert_eq!(read, ffi::SQLITE_OK, "what is to be written over is read");
    }
    bytes
}

unsafe fn length_of(file: *mut ffi::sqlite3_file) -> usize {
    let mut length: ffi::sqlite3_int64 = 0;
    let asked = inner!(file.xFileSize(&raw mut length));
    assert_eq!(asked, ffi::SQLITE_OK, "a file says how long it is");
    length as usize
}

fn note(watch: &Watch, change: Change) {
    if let Some(watched) = watched().get_mut(&watch.directory) {
        watched
            .files
            .entry(watch.path.clone())
            .or_default()
            .push(change);
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: as SQLite calls it: `from` has `length` bytes.
    unsafe {
        if let Some(watch) = watch(file) {
            if !watch.power.load(Ordering::SeqCst) {
                return ffi::SQLITE_OK;
            }
            let (at, size) = (offset as usize, length as usize);
            let change = Change::Write {
                offset: at,
                old: content(file, at, size),
                new: slice::from_raw_parts(from.cast::<u8>(), size).to_vec(),
                length_before: length_of(file),
            };
            note(watch, change);
        }
    }
    inner!(file.xWrite(from, length, offset))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: ffi::sqlite3_int64) -> c_int {
    // SAFETY: as SQLite calls it.
    unsafe {
        if let Some(watch) = watch(file) {
            if !watch.power.load(Ordering::SeqCst) {
                return ffi::SQLITE_OK;
            }
            let tail = content(file, length as usize, usize::MAX);
            let length = length as usize;
            note(watch, Change::Truncate { length, tail });
        }
    }
    inner!(file.xTruncate(length))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as SQLite calls it.
    if let Some(watch) = unsafe { watch(file) } {
        if watch.power.load(Ordering::SeqCst)
            && let Some(watched) = watched().get_mut(&watch.directory)
        {
            watched.files.remove(&watch.path);
        }
        return ffi::SQLITE_OK;
    }
    inner!(file.xSync(flags))
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    inner!(file.xFileSize(size))
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    inner!(file.xLock(level))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    inner!(file.xUnlock(level))
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    inner!(file.xCheckReservedLock(held))
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    inner!(file.xFileControl(operation, argument))
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    inner!(file.xSectorSize())
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    inner!(file.xDeviceCharacteristics())
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    inner!(file.xShmMap(page, size, extend, mapped))
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    inner!(file.xShmLock(offset, n, flags))
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    inner!(file.xShmBarrier());
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    inner!(file.xShmUnmap(delete))
}

/// Of the second version: without mapped files, of which nobody would see what is written to them.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Writes a row under `synchronous`, and answers what a cut of the power leaves of two.
    fn after_a_cut(synchronous: &str, survives: bool) -> Vec<i64> {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::watch(directory.path());
        let path = directory.path().join("some.db");
        let open = || {
            let conn = crate::wal::open_wal(&path).unwrap();
            conn.execute_batch(&format!("PRAGMA synchronous = {synchronous}"))
                .unwrap();
            conn
        };
        let conn = open();
        conn.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
            .unwrap();
        let home = Connection::open(&path).unwrap();
        home.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .unwrap();
        conn.execute("INSERT INTO t VALUES (2)", []).unwrap();
        disk.switch_off();
        // Nothing of this reaches the disk, nor what closing would carry home.
        conn.execute("INSERT INTO t VALUES (3)", []).unwrap();
        drop((conn, home));
        disk.lose(|| survives).unwrap();
        disk.switch_on();
        let conn = open();
        let mut rows = conn.prepare("SELECT n FROM t ORDER BY n").unwrap();
        let rows = rows.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_as_it_comes() {
        assert_eq!(after_a_cut("FULL", false), [1, 2]);
        assert_eq!(after_a_cut("FULL", true), [1, 2]);
        assert_eq!(after_a_cut("NORMAL", false), [1]);
        assert_eq!(after_a_cut("NORMAL", true), [1, 2]);
    }
}
