//! The root that readers look below, and the only place that touches files.
//!
//! Files of `/proc` and `/sys` may vanish between two looks, be endless, or hold bytes that are no
//! text. Every read is bounded, answers why it failed, and follows no link that leaves its root.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

mod archive;
mod listing;

/// The most that is read of one file. The largest that matter here, `/proc/cpuinfo` of a machine with
/// a thousand processors, have about one MiB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Where `/proc` and `/sys` are found: a directory, which is `/` on the machine itself, or what an
/// archive held.
#[derive(Debug)]
pub enum Root {
    Directory(PathBuf),
    Archive(Archive),
}

/// Regular files of an archive by their path below its root, and links.
#[derive(Debug, Default)]
pub struct Archive {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) links: BTreeMap<String, String>,
    pub(crate) directories: BTreeSet<String>,
}

impl Root {
    /// The machine itself.
    pub fn machine() -> Self {
        Self::Directory(PathBuf::from("/"))
    }

    /// A directory; one that is not there has nothing in it.
    pub fn directory(path: &Path) -> Self {
        Self::Directory(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }

    /// Whether it is the machine itself, which can be asked for more than files tell.
    pub fn is_machine(&self) -> bool {
        matches!(self, Self::Directory(root) if root == Path::new("/"))
    }

    /// A file as text; bytes that are no text are replaced. None where it cannot be read, which for
    /// these files mostly means that the kernel does not have it.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file that is no text.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Directory(root) => read_bounded(&inside(root, path)?),
            Self::Archive(archive) => archive.file(path).map(<[u8]>::to_vec),
        }
    }

    /// A file of one line, without what ends it. An empty one is none.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let line = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!line.is_empty()).then(|| line.to_owned())
    }

    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// Names in a directory, sorted. None where there is no such directory.
    pub(crate) fn names(&self, path: &str) -> Option<Vec<String>> {
        match self {
            Self::Directory(root) => names_of(&inside(root, path)?),
            Self::Archive(archive) => archive.names(path),
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Self::Directory(root) => inside(root, path).is_some(),
            Self::Archive(archive) => {
                archive.files.contains_key(&archive.resolve(path)) || archive.names(path).is_some()
            }
        }
    }

    /// Where a link points, as it is written.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        match self {
            Self::Directory(root) => link_of(&root.join(path)),
            Self::Archive(archive) => archive.links.get(path).cloned(),
        }
    }
}

/// Where a path leads, if that is there and below the root: a copy of `/sys` may hold links that are
/// absolute, and would show this machine in place of the other.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let path = root.join(path).canonicalize().ok()?;
    path.starts_with(root).then_some(path)
}

#[expect(clippy::disallowed_types, reason = "this is where files are read")]
fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    // A pipe or a device could hold the reader up for ever; the files meant here are plain.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[expect(clippy::disallowed_methods, reason = "this is where files are read")]
fn names_of(path: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(path).ok()?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    Some(names)
}

fn link_of(path: &Path) -> Option<String> {
    let target = path.read_link().ok()?;
    Some(target.to_string_lossy().into_owned())
}

impl Archive {
    fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(&self.resolve(path)).map(Vec::as_slice)
    }

    fn names(&self, path: &str) -> Option<Vec<String>> {
        let directory = self.resolve(path);
        let prefix = format!("{directory}/");
        let from = || prefix.clone()..;
        let files = self.files.range(from()).map(|(path, _)| path);
        let links = self.links.range(from()).map(|(path, _)| path);
        let directories = self.directories.range(from());
        let mut names = BTreeSet::new();
        // Sorted: what is below one directory stands together.
        for below in [
            below(files, &prefix),
            below(links, &prefix),
            below(directories, &prefix),
        ] {
            names.extend(below);
        }
        let exists = !names.is_empty() || self.directories.contains(&directory);
        exists.then(|| names.into_iter().collect())
    }

    /// Follows links on the way, a bounded number of them.
    fn resolve(&self, path: &str) -> String {
        let mut path = path.trim_matches('/').to_owned();
        for _ in 0..8 {
            let Some((link, target)) = self.link_on(&path) else {
                break;
            };
            let rest = path[link.len()..].to_owned();
            let parent = link.rsplit_once('/').map_or("", |(parent, _)| parent);
            let base = if target.starts_with('/') { "" } else { parent };
            path = normal(&format!("{base}/{target}{rest}"));
        }
        path
    }

    fn link_on(&self, path: &str) -> Option<(String, String)> {
        let ends = path
            .match_indices('/')
            .map(|(end, _)| end)
            .chain([path.len()]);
        ends.map(|end| &path[..end])
            .find_map(|link| Some((link.to_owned(), self.links.get(link)?.clone())))
    }
}

/// The first names behind a prefix, of sorted paths that begin there.
fn below<'a>(paths: impl Iterator<Item = &'a String>, prefix: &str) -> BTreeSet<String> {
    let rests = paths.map_while(|path| path.strip_prefix(prefix));
    let names = rests.map(|rest| rest.split('/').next().unwrap_or(rest).to_owned());
    names.collect()
}

/// A path without `.` and `..`, which cannot lead out of the root.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_a_root() {
        let place = std::env::temp_dir().join(format!("matins-root-{}", std::process::id()));
        let inner = place.join("root/sys");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(place.join("secret"), "1").unwrap();
        std::fs::write(inner.join("size"), "2").unwrap();
        std::os::unix::fs::symlink(place.join("secret"), inner.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../../secret", inner.join("up")).unwrap();
        std::os::unix::fs::symlink("size", inner.join("beside")).unwrap();
        let root = Root::directory(&place.join("root"));
        let read = [
            "sys/size",
            "sys/beside",
            "sys/absolute",
            "sys/up",
            "../secret",
        ]
        .map(|path| root.number(path));
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(read, [Some(2), Some(2), None, None, None]);
    }
}
