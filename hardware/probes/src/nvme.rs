//! Asking NVMe drives themselves, by the kernel's pass-through of admin commands: Identify Controller and
//! the SMART / Health log. Both only read. It needs root (`CAP_SYS_ADMIN`).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use hardware::{HEALTH_LOG_BYTES, IDENTIFY_BYTES, Item, parse_nvme_pages};

const IDENTIFY: u8 = 0x06;
/// Of Identify: the controller's own.
const OF_CONTROLLER: u32 = 1;
const READ_LOG: u8 = 0x02;
const HEALTH_LOG: u32 = 0x02;
const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// How long a drive may take. The kernel keeps to it, and resets a drive that does not.
const TIMEOUT_MS: u32 = 5000;

/// Asks the drive of a namespace: `/dev/nvme0n1`. What it did not answer is told as why.
pub(crate) fn ask_nvme(namespace: &str) -> Result<Item, String> {
    let controller = controller_of(namespace)
        .ok_or_else(|| format!("{namespace} is no namespace of an NVMe drive"))?;
    let file = File::open(Path::new(controller))
        .map_err(|error| format!("{controller} cannot be opened: {error}"))?;
    let mut identify = [0; IDENTIFY_BYTES];
    let identified = ioctl::admin(
        file.as_raw_fd(),
        Command {
            opcode: IDENTIFY,
            namespace: 0,
            word10: OF_CONTROLLER,
        },
        &mut identify,
    );
    let mut log = [0; HEALTH_LOG_BYTES];
    let dwords = u32::try_from(HEALTH_LOG_BYTES / 4 - 1).expect("a page is small");
    let logged = ioctl::admin(
        file.as_raw_fd(),
        Command {
            opcode: READ_LOG,
            namespace: ALL_NAMESPACES,
            word10: dwords << 16 | HEALTH_LOG,
        },
        &mut log,
    );
    match (identified, logged) {
        (Err(error), Err(_)) => Err(format!("{controller} does not answer: {error}")),
        (identified, logged) => Ok(parse_nvme_pages(
            namespace,
            identified.is_ok().then_some(&identify),
            logged.is_ok().then_some(&log),
        )),
    }
}

/// `/dev/nvme0` of `/dev/nvme0n1`.
fn controller_of(namespace: &str) -> Option<&str> {
    let number = namespace.strip_prefix("/dev/nvme")?;
    let digits = number.find(|c: char| !c.is_ascii_digit())?;
    let is_namespace = number[digits..].starts_with('n') && digits > 0;
    is_namespace.then(|| &namespace[.."/dev/nvme".len() + digits])
}

struct Command {
    opcode: u8,
    namespace: u32,
    word10: u32,
}

/// The call itself.
#[expect(
    unsafe_code,
    reason = "the kernel takes a pointer to where the answer goes"
)]
mod ioctl {
    use std::os::fd::RawFd;

    use nix::errno::Errno;
    use nix::libc;

    use super::{Command, TIMEOUT_MS};

    /// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
    #[repr(C)]
    #[derive(Default)]
    struct Passthrough {
        opcode: u8,
        flags: u8,
        reserved: u16,
        namespace: u32,
        word2: u32,
        word3: u32,
        metadata: u64,
        address: u64,
        metadata_bytes: u32,
        data_bytes: u32,
        word10: u32,
        word11: u32,
        word12: u32,
        word13: u32,
        word14: u32,
        word15: u32,
        timeout_ms: u32,
        result: u32,
    }

    /// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
    const ADMIN: u64 = 0xc048_4e41;
    const _: () = assert!(size_of::<Passthrough>() == 0x48);

    /// Sends an admin command that only reads, and whose answer fills `answer`.
    pub(super) fn admin(fd: RawFd, command: Command, answer: &mut [u8]) -> Result<(), Errno> {
        let mut passthrough = Passthrough {
            opcode: command.opcode,
            namespace: command.namespace,
            address: answer.as_mut_ptr() as u64,
            data_bytes: u32::try_from(answer.len()).map_err(|_| Errno::EINVAL)?,
            word10: command.word10,
            timeout_ms: TIMEOUT_MS,
            ..Passthrough::default()
        };
        // SAFETY: the structure has the layout and size that the request number says, and lives until the call
        // returns. `address` and `data_bytes` name the memory of `answer`, which is borrowed for as long, and
        // the commands sent here write nothing but their answer of at most that length. A descriptor that is
        // of no NVMe drive refuses the request.
        let status = unsafe { libc::ioctl(fd, ADMIN as libc::Ioctl, &raw mut passthrough) };
        match Errno::result(status)? {
            0 => Ok(()),
            // The drive's own status.
            _ => Err(Errno::EIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_of_a_namespace() {
        for (namespace, expected) in [
            ("/dev/nvme0n1", Some("/dev/nvme0")),
            ("/dev/nvme12n3", Some("/dev/nvme12")),
            ("/dev/nvme0", None),
            ("/dev/nvmen1", None),
            ("/dev/sda", None),
        ] {
            assert_eq!(controller_of(namespace), expected, "{namespace}");
        }
    }

    #[test]
    fn what_is_no_drive_refuses() {
        let file = tempfile::tempfile().unwrap();
        let command = Command {
            opcode: IDENTIFY,
            namespace: 0,
            word10: OF_CONTROLLER,
        };
        let answer = ioctl::admin(file.as_raw_fd(), command, &mut [0; 16]);
        assert_eq!(answer, Err(nix::errno::Errno::ENOTTY));
        assert!(ask_nvme("/dev/nvme999n1").is_err());
    }
}
