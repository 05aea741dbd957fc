//! A tar of a machine's `/proc` and `/sys`, in memory.
//!
//! Plain ustar and what GNU and POSIX added for long names. What is in it may have any directory in
//! front of `proc` and `sys`: it is cut off.

use super::{Archive, normal};

const BLOCK: usize = 512;

impl Archive {
    /// Reads an archive that is not compressed. What is broken in it ends it; how much was read before is
    /// kept. An error is half a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut archive = Self::default();
        let mut at = 0;
        let mut long_name: Option<String> = None;
        let mut long_link: Option<String> = None;
        while let Some(header) = bytes.get(at..at + BLOCK) {
            if header.iter().all(|byte| *byte == 0) {
                break;
            }
            if !is_header(header) {
                break;
            }
            let size = octal(&header[124..136]).unwrap_or(0);
            let start = at + BLOCK;
            let end = start.saturating_add(size).min(bytes.len());
            let content = &bytes[start..end];
            at = start.saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
            match header[156] {
                b'L' => long_name = Some(text(content)),
                b'K' => long_link = Some(text(content)),
                b'x' => {
                    long_name = pax(content, "path").or(long_name);
                    long_link = pax(content, "linkpath").or(long_link);
                }
                kind => {
                    let name = long_name.take().unwrap_or_else(|| name_of(header));
                    let link = long_link.take().unwrap_or_else(|| text(&header[157..257]));
                    archive.put(kind, &normal(&name), link, content);
                }
            }
        }
        if archive.files.is_empty() {
            return Err("it is no tar archive with files in it".into());
        }
        archive.cut_prefix();
        Ok(archive)
    }

    fn put(&mut self, kind: u8, name: &str, link: String, content: &[u8]) {
        if name.is_empty() {
            return;
        }
        match kind {
            b'0' | 0 | b'7' => {
                self.files.insert(name.to_owned(), content.to_vec());
            }
            // A hard link is the file that it names, which came before.
            b'1' => {
                if let Some(content) = self.files.get(&normal(&link)).cloned() {
                    self.files.insert(name.to_owned(), content);
                }
            }
            b'2' => {
                self.links.insert(name.to_owned(), link);
            }
            b'5' => {
                self.directories.insert(name.to_owned());
            }
            _ => {}
        }
    }

    /// Directories in front of `proc` and `sys` are of whoever packed it.
    pub(super) fn cut_prefix(&mut self) {
        let names = self.files.keys().chain(&self.directories);
        let prefix = names
            .filter_map(|name| {
                let parts: Vec<&str> = name.split('/').collect();
                let at = parts
                    .iter()
                    .position(|part| *part == "proc" || *part == "sys")?;
                Some(parts[..at].join("/"))
            })
            .min_by_key(String::len);
        let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else {
            return;
        };
        let prefix = format!("{prefix}/");
        let cut = |name: String| {
            name.strip_prefix(&prefix)
                .map_or(name.clone(), str::to_owned)
        };
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|(name, bytes)| (cut(name), bytes))
            .collect();
        self.links = std::mem::take(&mut self.links)
            .into_iter()
            .map(|(name, link)| (cut(name), link))
            .collect();
        self.directories = std::mem::take(&mut self.directories)
            .into_iter()
            .map(cut)
            .collect();
    }
}

/// The sum over a header stands in it.
fn is_header(header: &[u8]) -> bool {
    let sum = header.iter().enumerate().map(|(at, byte)| {
        let counted = if (148..156).contains(&at) {
            b' '
        } else {
            *byte
        };
        usize::from(counted)
    });
    octal(&header[148..156]) == Some(sum.sum())
}

fn octal(field: &[u8]) -> Option<usize> {
    let digits = text(field);
    usize::from_str_radix(digits.trim(), 8).ok()
}

fn text(field: &[u8]) -> String {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn name_of(header: &[u8]) -> String {
    let name = text(&header[..100]);
    // POSIX puts the front of a long name behind the rest; GNU uses the place for dates.
    let prefix = if &header[257..263] == b"ustar\0" {
        text(&header[345..500])
    } else {
        String::new()
    };
    if prefix.is_empty() {
        name
    } else {
        format!("{prefix}/{name}")
    }
}

/// A record of POSIX's own header: `LENGTH KEY=VALUE`.
fn pax(content: &[u8], key: &str) -> Option<String> {
    let content = text(content);
    content.lines().find_map(|line| {
        let (_, record) = line.split_once(' ')?;
        let (name, value) = record.split_once('=')?;
        (name == key).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    fn entry(name: &str, kind: u8, link: &str, content: &str) -> Vec<u8> {
        let mut header = vec![0_u8; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[148..156].fill(b' ');
        let sum: usize = header.iter().map(|byte| usize::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header.extend(content.as_bytes());
        header.resize(header.len().div_ceil(BLOCK) * BLOCK, 0);
        header
    }

    fn archive() -> Vec<u8> {
        let mut bytes = entry("m/sys/devices/x/size", b'0', "", "12\n");
        bytes.extend(entry("m/sys/block/sda", b'2', "../devices/x", ""));
        bytes.extend(entry("m/sys/out", b'2', "../../../../etc", ""));
        bytes.extend(entry("m/proc/cpuinfo", b'0', "", "processor : 0\n"));
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    }

    #[test]
    fn files_links_and_names_below_the_root() {
        let root = Root::Archive(Archive::parse(&archive()).unwrap());
        assert_eq!(root.line("sys/block/sda/size").as_deref(), Some("12"));
        assert_eq!(root.names("sys/block"), Some(vec!["sda".to_owned()]));
        assert_eq!(root.names("sys/block/sda"), Some(vec!["size".to_owned()]));
        assert_eq!(root.read("sys/out/passwd"), None);
        assert!(root.has("sys/devices/x") && !root.has("sys/devices/y"));
    }

    #[test]
    fn cut_anywhere_it_does_not_panic() {
        let whole = archive();
        for length in 0..whole.len() {
            let _ = Archive::parse(&whole[..length]);
        }
        assert!(Archive::parse(&[7; 4096]).is_err());
        assert!(Archive::parse(b"").is_err());
    }
}
