//! Wall clocks of processes that a trial can set (libfaketime). The clock since boot is left alone.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::grounds::Grounds;
use crate::site::{Site, binary};

/// Where Debian and its kin keep it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

/// A wall clock that a trial can move, for some of a site's processes.
pub(crate) struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Gives these processes a clock of their own that is off by so much.
    pub(crate) fn of(
        site: &mut Site,
        names: &[&str],
        library: &str,
        offset: &str,
    ) -> Result<Clock> {
        let first = names.first().context("nobody's clock")?;
        let path = site.path(&format!("clock-{first}"));
        let clock = Clock {
            file: PathBuf::from(&path),
        };
        clock.set(offset)?;
        let env = [
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", &path),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for name in names {
            let grounds = Grounds {
                env: env.to_vec(),
                ..Grounds::default()
            };
            site.put(name, grounds);
        }
        Ok(clock)
    }

    /// How far it is off from now on, such as `+25h`.
    pub(crate) fn set(&self, offset: &str) -> Result<()> {
        // In one step: half a line would be another time.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{offset}\n"))?;
        Ok(fs::rename(&fresh, &self.file)?)
    }
}

/// The library, or `None` on a machine that cannot hold these trials, said in one line.
#[allow(clippy::print_stderr)]
pub(crate) fn library() -> Result<Option<&'static str>> {
    let found = LIBRARIES
        .iter()
        .find(|path| fs::exists(path).unwrap_or(false));
    if let Some(library) = found {
        // What is linked statically has no clock that could be replaced.
        let binary = fs::read(binary()?)?;
        let interpreter = b"ld-linux";
        let linked = binary.windows(interpreter.len()).take(4096);
        ensure!(
            linked.into_iter().any(|window| window == interpreter),
            "matins is linked statically: these trials would prove nothing"
        );
        return Ok(Some(library));
    }
    ensure!(std::env::var_os("CI").is_none(), "CI must have libfaketime");
    eprintln!("skipped: a wrong clock needs libfaketime (the package faketime)");
    Ok(None)
}
