//! How keepalived is started, here and by `cargo bench --bench address`: by its usual protocol and
//! with nothing to track, so that what is measured is keepalived alone.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// What its log says once it waits for whoever has the address to fall silent.
pub(crate) const STANDS_BY: &str = "Entering BACKUP STATE";

/// Completes a command that begins it on a machine whose interface is `eth0`. Whoever has the address
/// keeps it, whatever is started beside it. `files` is a directory of this process alone: where one
/// was killed, the next would not start as long as the dead one's pid is taken.
pub(crate) fn complete(
    command: &mut Command,
    files: &Path,
    address: impl Display,
    advert_s: f64,
) -> io::Result<()> {
    fs::create_dir_all(files)?;
    let configuration = files.join("keepalived.conf");
    let text = format!(
        "vrrp_instance leader {{\n state BACKUP\n nopreempt\n version 3\n interface eth0\n \
         virtual_router_id 51\n advert_int {advert_s}\n \
         virtual_ipaddress {{\n {address}/32 dev eth0\n }}\n}}\n"
    );
    fs::write(&configuration, text)?;
    command
        .args(["--dont-fork", "--vrrp", "--log-console", "--use-file"])
        .arg(configuration);
    for (option, file) in [("--pid", "pid"), ("--vrrp_pid", "vrrp")] {
        command.arg(option).arg(files.join(file));
    }
    Ok(())
}
