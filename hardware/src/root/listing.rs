//! Files of `/proc` and `/sys` as a text with their names: what `grep -r .` prints, what `tail -n +1`
//! prints of several files, and the text archives (ttar) that test data is kept in.

use super::{Archive, normal};
use crate::lines::lines;

impl Archive {
    /// Reads such a text. None if it names no file of `/proc` or `/sys`.
    pub fn parse_listing(text: &str) -> Option<Self> {
        let mut archive = Self::default();
        // Name of the file whose lines follow.
        let mut open: Option<String> = None;
        for line in lines(text) {
            if let Some(name) = head(line.text) {
                archive.begin(&name);
                open = Some(name);
            } else if let Some(directory) = line.text.strip_prefix("Directory:") {
                archive.directories.insert(normal(directory.trim()));
                open = None;
            } else if let (Some(name), Some(target)) = (&open, line.text.strip_prefix("SymlinkTo:"))
            {
                archive.files.remove(name);
                archive.links.insert(name.clone(), target.trim().to_owned());
            } else if let Some((name, value)) = named(line.text) {
                archive.begin(&name);
                archive.add(&name, value);
                open = None;
            } else if let Some(name) = &open
                && !is_about(line.text)
            {
                archive.add(name, line.text);
            }
        }
        if archive.files.is_empty() {
            return None;
        }
        archive.cut_prefix();
        Some(archive)
    }

    fn begin(&mut self, name: &str) {
        self.files.entry(name.to_owned()).or_default();
    }

    fn add(&mut self, name: &str, line: &str) {
        let file = self.files.entry(name.to_owned()).or_default();
        // How ttar writes that a file does not end its last line, and bytes that are none.
        let line = line
            .strip_suffix("EOF")
            .unwrap_or(line)
            .replace("NULLBYTE", "");
        file.extend(line.bytes());
        file.push(b'\n');
    }
}

/// `Path: sys/...` or `==> /sys/... <==`.
fn head(line: &str) -> Option<String> {
    let name = line.strip_prefix("Path:");
    let name = name.or_else(|| line.strip_prefix("==>")?.strip_suffix("<=="));
    Some(normal(name?.trim())).filter(|name| !name.is_empty())
}

/// `/sys/devices/system/edac/mc/mc0/ce_count:0`, or with a blank or `=` between.
fn named(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once([':', ' ', '=', '\t'])?;
    let below = |root: &str| name.starts_with(root) || name.contains(&format!("/{root}"));
    if !(below("sys/") || below("proc/")) {
        return None;
    }
    let value = value.trim_start_matches([':', '=', ' ', '\t']);
    Some((normal(name), value.trim()))
}

/// Lines of ttar about a file, not of it.
fn is_about(line: &str) -> bool {
    let mode = |prefix: &str| {
        let rest = line.strip_prefix(prefix).map(str::trim);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    line.starts_with("# ttar") || mode("Lines:") || mode("Mode:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn one_file_in_many_forms() {
        for text in [
            "/sys/block/md0/md/level:raid1\n",
            "sys/block/md0/md/level raid1\n",
            "==> /sys/block/md0/md/level <==\nraid1\n\n",
            "Path: fixtures/sys/block/md0/md/level\nLines: 1\nraid1\nMode: 644\n# ttar - - - - -\n",
            "Path: sys/block/md0/md/level\nLines: 1\nraid1EOF\nMode: 644\n",
        ] {
            let root = Root::Archive(Archive::parse_listing(text).unwrap());
            assert_eq!(
                root.line("sys/block/md0/md/level").as_deref(),
                Some("raid1"),
                "{text}"
            );
        }
        for text in [
            "",
            "md0 : active raid1 sda1[0]\n",
            "mc0: 0 Corrected Errors\n",
        ] {
            assert!(Archive::parse_listing(text).is_none(), "{text}");
        }
    }
}
