//! What a cgroup has read from and written to disks.
//!
//! A device that hands on what it is asked, as an array does, is counted with those that it hands on
//! to: the same bytes would appear twice. Which kinds of device those are, /proc/devices tells by name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::group::read as read_file;
use super::layout::Version;

/// Of block devices that consist of others.
const STACKED: [&str; 5] = ["md", "mdp", "device-mapper", "loop", "drbd"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IoCounts {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) read_operations: u64,
    pub(super) write_operations: u64,
}

/// `None` where it is not counted.
pub(super) fn read(group: &Path, version: Version, stacked: &BTreeSet<u32>) -> Option<IoCounts> {
    match version {
        Version::V2 => Some(parse_v2(&read_file(group, "io.stat")?, stacked)),
        Version::V1 => {
            let bytes = read_file(group, "blkio.throttle.io_service_bytes")?;
            let operations = read_file(group, "blkio.throttle.io_serviced")?;
            let (read_bytes, write_bytes) = parse_v1(&bytes, stacked);
            let (read_operations, write_operations) = parse_v1(&operations, stacked);
            Some(IoCounts {
                read_bytes,
                write_bytes,
                read_operations,
                write_operations,
            })
        }
    }
}

/// Majors of the devices that consist of others. A kind that is loaded later counts twice.
pub(super) fn read_stacked(proc: &Path) -> BTreeSet<u32> {
    // Without that file nothing is known to be stacked.
    let text = fs::read_to_string(proc.join("devices")).unwrap_or_default();
    let block = text
        .split_once("Block devices:")
        .map_or("", |(_, block)| block);
    block
        .lines()
        .filter_map(|line| {
            let (major, name) = line.trim().split_once(' ')?;
            STACKED.contains(&name.trim()).then(|| major.parse().ok())?
        })
        .collect()
}

/// Lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`.
fn parse_v2(text: &str, stacked: &BTreeSet<u32>) -> IoCounts {
    let mut counts = IoCounts::default();
    for (_, rest) in lines_of_disks(text, stacked) {
        for word in rest.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else {
                continue;
            };
            let sum = match name {
                "rbytes" => &mut counts.read_bytes,
                "wbytes" => &mut counts.write_bytes,
                "rios" => &mut counts.read_operations,
                "wios" => &mut counts.write_operations,
                _ => continue,
            };
            *sum = sum.saturating_add(value.parse().unwrap_or(0));
        }
    }
    counts
}

/// Lines `8:0 Read 1`; what is read, and what is written.
fn parse_v1(text: &str, stacked: &BTreeSet<u32>) -> (u64, u64) {
    let of = |wanted: &str| {
        lines_of_disks(text, stacked)
            .filter_map(|(_, rest)| rest.split_once(' '))
            .filter(|(name, _)| *name == wanted)
            .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
            .fold(0, u64::saturating_add)
    };
    (of("Read"), of("Write"))
}

/// The major of each line and what follows the device, but for stacked ones.
fn lines_of_disks<'a>(
    text: &'a str,
    stacked: &'a BTreeSet<u32>,
) -> impl Iterator<Item = (u32, &'a str)> {
    text.lines().filter_map(|line| {
        let (device, rest) = line.split_once(' ')?;
        let major = device.split_once(':')?.0.parse().ok()?;
        (!stacked.contains(&major)).then_some((major, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_not_counted_beside_its_disks() {
        let proc = tempfile::tempdir().unwrap();
        let devices = "Character devices:\n  9 st\n\nBlock devices:\n  7 loop\n  8 sd\n  9 md\n259 blkext\n253 device-mapper\n";
        fs::write(proc.path().join("devices"), devices).unwrap();
        let stacked = read_stacked(proc.path());
        assert_eq!(stacked, BTreeSet::from([7, 9, 253]));
        let v2 = "8:0 rbytes=4096 wbytes=1 rios=2 wios=3 dbytes=9 dios=9\n\
                  259:1 rbytes=1 wbytes=1 rios=1 wios=1\n\
                  9:0 rbytes=4096 wbytes=1 rios=2 wios=3\n\
                  8:16 \nnonsense\n";
        let expected = IoCounts {
            read_bytes: 4_097,
            write_bytes: 2,
            read_operations: 3,
            write_operations: 4,
        };
        assert_eq!(parse_v2(v2, &stacked), expected);
        let v1 = "8:0 Read 100\n8:0 Write 7\n8:0 Sync 99\n8:0 Total 107\n\
                  253:0 Read 100\n253:0 Total 100\n259:2 Write 3\nTotal 210\n";
        assert_eq!(parse_v1(v1, &stacked), (100, 10));
        assert_eq!(parse_v1("", &stacked), (0, 0));
    }
}
