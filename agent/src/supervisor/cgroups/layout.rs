//! Which cgroup hierarchies this machine has, and where in each this process is.

use std::path::{Path, PathBuf};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) version: Version,
    /// Controllers of a version 1 hierarchy; version 2 says in a file of each cgroup which it has.
    pub(super) controllers: Vec<String>,
    /// Directory of the cgroup that this process is in.
    pub(super) own: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        }
    }
}

/// From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. Lines that are not understood
/// are passed over; of a hierarchy that is mounted several times the first mount counts.
pub(super) fn parse(mountinfo: &str, cgroup: &str) -> Vec<Mounted> {
    let memberships: Vec<(Vec<&str>, &str)> = cgroup
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            Some((controllers.split(',').collect(), path))
        })
        .collect();
    let mut found: Vec<Mounted> = Vec::new();
    for line in mountinfo.lines() {
        let Some(mount) = Mount::parse(line) else {
            continue;
        };
        let (version, membership) = match mount.kind {
            "cgroup2" => {
                let own = memberships.iter().find(|(names, _)| names == &[""]);
                (Version::V2, own)
            }
            "cgroup" => {
                let is = |name: &&str| mount.options.iter().any(|option| option == name);
                let own = memberships
                    .iter()
                    .find(|(names, _)| !names.contains(&"") && names.iter().all(is));
                (Version::V1, own)
            }
            _ => continue,
        };
        let Some((names, path)) = membership else {
            continue;
        };
        let controllers: Vec<String> = names
            .iter()
            .filter(|name| !name.is_empty() && !name.starts_with("name="))
            .map(|&name| name.to_owned())
            .collect();
        // A hierarchy for names alone, as systemd keeps one, holds nothing and limits nothing.
        let of_use = version == Version::V2 || !controllers.is_empty();
        let known = found
            .iter()
            .any(|m| m.version == version && m.controllers == controllers);
        if of_use && !known {
            let own = mount.directory_of(path);
            found.push(Mounted {
                version,
                controllers,
                own,
            });
        }
    }
    found
}

struct Mount<'a> {
    /// The cgroup that is mounted, which is not the topmost one in a container.
    root: String,
    point: String,
    kind: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Mount {
            root: unescape(root),
            point: unescape(point),
            kind,
            options: options.split(',').collect(),
        })
    }

    fn directory_of(&self, path: &str) -> PathBuf {
        let below = Path::new(path)
            .strip_prefix(&self.root)
            .or_else(|_| Path::new(path).strip_prefix("/"))
            .unwrap_or(Path::new(""));
        let point = Path::new(&self.point);
        // Joined with nothing, it would get a stroke at its end.
        point.components().chain(below.components()).collect()
    }
}

/// Blanks are written as `\040` and the like.
fn unescape(text: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mountinfo: &str, cgroup: &str) -> Vec<String> {
        parse(mountinfo, cgroup)
            .into_iter()
            .map(|m| {
                format!(
                    "{:?} {} {}",
                    m.version,
                    m.controllers.join(","),
                    m.own.display()
                )
            })
            .collect()
    }

    #[test]
    fn hierarchies_of_many_machines() {
        for (machine, mountinfo, cgroup, expected) in [
            (
                "systemd with version 2 alone",
                "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
                "0::/system.slice/matins-supervisor.service",
                &["V2  /sys/fs/cgroup/system.slice/matins-supervisor.service"][..],
            ),
            (
                "both versions, some controllers mounted together",
                "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs rw\n\
                 31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                 32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                 33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                 34 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
                "9:name=systemd:/a\n4:memory:/b/c\n2:cpu,cpuacct:/\n0::/d",
                &[
                    "V2  /sys/fs/cgroup/unified/d",
                    "V1 cpu,cpuacct /sys/fs/cgroup/cpu,cpuacct",
                    "V1 memory /sys/fs/cgroup/memory/b/c",
                ],
            ),
            (
                "a container that sees the host's paths",
                "31 23 0:27 /docker/f00 /sys/fs/cgroup rw - cgroup2 cgroup rw",
                "0::/docker/f00",
                &["V2  /sys/fs/cgroup"],
            ),
            (
                "mounted twice, a blank in the path, and noise",
                "nonsense\n\
                 31 23 0:27 / /run/my\\040cgroups rw shared:9 - cgroup2 cgroup2 rw\n\
                 32 23 0:27 / /mnt rw - cgroup2 cgroup2 rw",
                "0::/x\nnonsense",
                &["V2  /run/my cgroups/x"],
            ),
            ("none", "", "", &[]),
        ] {
            assert_eq!(found(mountinfo, cgroup), expected, "{machine}");
        }
    }
}
