//! `/proc/self/mountinfo`, line by line (proc_pid_mountinfo(5)).

use crate::lines::lines;
use crate::report::{Problem, Report};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Of the device, `8:1`; file systems on none have numbers of their own.
    pub number: String,
    /// What of the file system is shown here.
    pub root: String,
    /// Where.
    pub point: String,
    /// Options of this mount.
    pub options: Vec<String>,
    pub kind: String,
    pub device: String,
    /// Options of the file system, whatever mounts it has.
    pub options_of_super: Vec<String>,
}

impl Mount {
    fn any(&self, words: &[&str]) -> bool {
        let mut all = self.options.iter().chain(&self.options_of_super);
        all.any(|option| words.contains(&option.as_str()))
    }

    pub fn is_read_only(&self) -> bool {
        self.any(&["ro"])
    }

    /// Whether it says at all if it may be written, both of the mount and of what is below.
    pub fn says_whether_writable(&self) -> bool {
        let says = |options: &[String]| {
            options
                .iter()
                .any(|option| option == "ro" || option == "rw")
        };
        says(&self.options) && says(&self.options_of_super)
    }

    /// Mounted to be written, while the file system below is read-only: nobody mounts it so.
    pub fn turned_read_only(&self) -> bool {
        let has = |options: &[String]| options.iter().any(|option| option == "ro");
        has(&self.options_of_super) && !has(&self.options)
    }

    /// Whether it asks its disk to flush where it must, which all do unless told otherwise.
    pub fn barriers(&self) -> bool {
        !self.any(&["nobarrier", "barrier=0", "barrier=none", "barrier=off"])
    }
}

/// Reads all lines; those that are none are problems.
pub fn parse_mountinfo(text: &str) -> (Vec<Mount>, Vec<Problem>) {
    let mut mounts = Vec::new();
    let mut report = Report::default();
    for line in lines(text) {
        match parse_line(line.text) {
            Some(mount) => mounts.push(mount),
            None => report.problem(
                format!("proc/self/mountinfo, {}", line.place()),
                format!("{:?} is no mount", line.text),
            ),
        }
    }
    (mounts, report.problems)
}

fn parse_line(line: &str) -> Option<Mount> {
    // Optional fields end with a dash alone.
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ');
    let (_id, _parent) = (before.next()?, before.next()?);
    let (number, root, point) = (before.next()?, before.next()?, before.next()?);
    let (major, minor) = number.split_once(':')?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    if !is_number(major) || !is_number(minor) {
        return None;
    }
    let options = list(before.next()?);
    let mut behind = behind.split(' ');
    let (kind, device) = (behind.next()?, behind.next()?);
    Some(Mount {
        number: number.to_owned(),
        root: unescaped(root),
        point: unescaped(point),
        options,
        kind: kind.to_owned(),
        device: unescaped(device),
        options_of_super: list(behind.next()?),
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Blanks, tabs, line ends and backslashes are written in octal.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4);
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                plain.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            _ => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_may_be_many_or_none() {
        for text in [
            "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue",
            "36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue",
        ] {
            let (mounts, problems) = parse_mountinfo(text);
            assert!(problems.is_empty(), "{problems:?}");
            let [mount] = mounts.as_slice() else { panic!() };
            assert_eq!(
                (
                    mount.number.as_str(),
                    mount.root.as_str(),
                    mount.point.as_str()
                ),
                ("98:0", "/mnt1", "/mnt2")
            );
            assert_eq!(mount.options, ["rw", "noatime"]);
            assert_eq!(
                (mount.kind.as_str(), mount.device.as_str()),
                ("ext3", "/dev/root")
            );
        }
    }

    #[test]
    fn what_is_no_mount_is_a_problem() {
        for text in [
            "36 35 98:0 /mnt1 /mnt2 rw,noatime",
            "36 35 x:0 / / rw - ext4 a rw",
            "36 35 98:0 / / rw - ext4 /dev/sda",
            "garbled",
        ] {
            let (mounts, problems) = parse_mountinfo(text);
            assert!(mounts.is_empty() && problems.len() == 1, "{text}");
        }
    }

    #[test]
    fn blanks_in_paths_are_octal() {
        for (text, expected) in [
            ("/a\\040b", "/a b"),
            ("/a\\134b", "/a\\b"),
            ("/a\\", "/a\\"),
            ("/a\\9", "/a\\9"),
            ("/ä\\04", "/ä\\04"),
        ] {
            assert_eq!(unescaped(text), expected);
        }
    }
}
