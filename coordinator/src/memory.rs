//! Giving memory back that nothing is in, and that nobody comes back to.
//!
//! What is freed the allocator keeps for later, unless it lies at the end. That is right for what comes
//! and goes, and wrong for what comes once: the command line of a program with many commands is read in
//! half a MiB, and the rows of a hundred thousand jobs are a hundred MiB until they have been read; what
//! is made meanwhile lies behind them.
//!
//! The same holds for the program itself. What has been run stays mapped, and the kernel maps the
//! fifteen pages around with it: of a process that will run little from then on, most is what it began
//! with.
#![allow(unsafe_code)]

use std::fs;

use nix::libc;

/// Gives whole free pages back to the kernel. To be called when something large has just been freed and
/// nothing like it comes soon.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and moves nothing that is allocated.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Lets go of the program's pages, too. Those that are run again come back one by one, from the page
/// cache. To be called once, when what a process begins with is behind it.
pub fn give_back_beginning() {
    give_back();
    // Where it cannot be read, the pages stay.
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let here = give_back_beginning as *const () as usize;
    if let Some((start, end)) = code_around(&maps, here) {
        // SAFETY: the mapping is of a file, private, and cannot be written to: what is dropped of it
        // is read again from the file as it was. Nothing else than code is in it.
        let _ = unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_DONTNEED) };
    }
}

/// The mapping of a file, not to be written to and to be run, in which an address lies.
fn code_around(maps: &str, address: usize) -> Option<(usize, usize)> {
    let range = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let inode: u64 = fields.nth(2)?.parse().ok()?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        let is_code = permissions == "r-xp" && inode != 0;
        (is_code && (start..end).contains(&address)).then_some((start, end))
    };
    maps.lines().find_map(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_a_file_is_let_go() {
        let maps = "\
00200000-005b7000 r--p 00000000 fe:00 1234                               /usr/bin/matins
005b7000-01b63000 r-xp 003b6000 fe:00 1234                               /usr/bin/matins
01b63000-01d09000 r--p 01961000 fe:00 1234                               /usr/bin/matins
02000000-02100000 r-xp 00000000 00:00 0
03000000-03100000 rwxp 00000000 fe:00 99                                 /tmp/jit";
        for (address, expected) in [
            (0x5b_7000, Some((0x5b_7000, 0x1b6_3000))),
            (0x1b6_2fff, Some((0x5b_7000, 0x1b6_3000))),
            // Constants; what the loader has written to; nobody's file; what can be written.
            (0x20_0000, None),
            (0x1b6_3000, None),
            (0x200_0000, None),
            (0x300_0000, None),
        ] {
            assert_eq!(code_around(maps, address), expected, "{address:x}");
        }
        assert_eq!(code_around("what is this\n", 0), None);
    }

    #[test]
    fn what_was_run_is_no_longer_mapped_and_runs_again() {
        let mapped_kib = || {
            let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
            let (start, end) = code_around(
                &fs::read_to_string("/proc/self/maps").unwrap(),
                give_back_beginning as *const () as usize,
            )
            .unwrap();
            let head = format!("{start:08x}-{end:08x} ");
            let of_code = smaps.split_once(&head).unwrap().1;
            let rss = of_code.lines().find(|line| line.starts_with("Rss:"));
            let kib = rss.and_then(|line| line.split_ascii_whitespace().nth(1));
            kib.unwrap().parse::<u64>().unwrap()
        };
        let before = mapped_kib();
        give_back_beginning();
        let after = mapped_kib();
        assert!(
            after < before,
            "{after} KiB of code mapped, {before} before"
        );
    }
}
