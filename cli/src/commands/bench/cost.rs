//! What processes have used, by `/proc`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use nix::unistd::{SysconfVar, sysconf};

/// Processor time of a process and of those that it started and that live, all their threads, in
/// seconds; 0 where there is no such process.
pub(super) fn cpu_s_with_children(pid: u32) -> f64 {
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    let stat = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let used = |pid| stat(pid).as_deref().and_then(ticks).unwrap_or(0);
    with_children(pid).map(used).sum::<u64>() as f64 / ticks_per_s as f64
}

/// Memory that processes and those that they started take, in bytes. A page of a file that several of
/// them have mapped is one page: a program's text is there once for all its processes.
pub(super) fn resident_bytes_with_children(pids: &[u32]) -> u64 {
    let mut pages = Pages::default();
    for pid in pids.iter().flat_map(|pid| with_children(*pid)) {
        // It can only have ended.
        let _ = pages.add(pid);
    }
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    pages.count() * page_bytes.unwrap_or(4096) as u64
}

/// Pages that are in memory.
#[derive(Default)]
struct Pages {
    /// File, and page of it.
    of_files: BTreeSet<(String, u64)>,
    own: u64,
}

/// Of an entry of `/proc/PID/pagemap`: the page is in memory; it belongs to a file.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

impl Pages {
    fn count(&self) -> u64 {
        self.own + self.of_files.len() as u64
    }

    fn add(&mut self, pid: u32) -> io::Result<()> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page_bytes = page_bytes.unwrap_or(4096) as u64;
        for mapping in maps.lines().filter_map(Mapping::parse) {
            let mut entries = vec![0; ((mapping.end - mapping.start) / page_bytes * 8) as usize];
            let at = mapping.start / page_bytes * 8;
            // The kernel's own page, far up, has no entry.
            let Ok(read) = pagemap.read_at(&mut entries, at) else {
                continue;
            };
            for (n, entry) in entries[..read].chunks_exact(8).enumerate() {
                let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes of them"));
                if entry & PRESENT == 0 {
                    continue;
                }
                if entry & OF_FILE == 0 {
                    self.own += 1;
                    continue;
                }
                let page = mapping.offset / page_bytes + n as u64;
                self.of_files.insert((mapping.file.to_owned(), page));
            }
        }
        Ok(())
    }
}

struct Mapping<'a> {
    start: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    /// Device, inode and name.
    file: &'a str,
}

impl Mapping<'_> {
    /// Reads a line of `/proc/PID/maps`.
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mut fields = line.splitn(4, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            file: fields.next()?,
        })
    }
}

fn with_children(pid: u32) -> impl Iterator<Item = u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    // A kernel without that file has them counted by nobody.
    let children: Vec<u32> = children
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect();
    std::iter::once(pid).chain(children)
}

/// User and system time of a line of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    // The name of the program stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "12 (a) 1 (b) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(100));
        assert_eq!(ticks("12 (a"), None);
    }

    #[test]
    fn memory_is_found() {
        let line = "7f01a000-7f01c000 r-xp 00003000 fe:00 1234    /usr/bin/a b";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f01_a000, 0x7f01_c000));
        assert_eq!(mapping.offset, 0x3000);
        assert_eq!(mapping.file, "fe:00 1234    /usr/bin/a b");

        let pid = std::process::id();
        let mut pages = Pages::default();
        pages.add(pid).unwrap();
        let (own, of_files) = (pages.own, pages.of_files.len());
        assert!(own > 0 && of_files > 0);
        pages.add(pid).unwrap();
        assert!(pages.own > own, "what is its own is its own");
        assert!(pages.of_files.len() < 2 * of_files, "a file's page is one");
        assert!(resident_bytes_with_children(&[pid]) > 0);
    }
}
