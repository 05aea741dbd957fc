//! What supervisor and log writer say to each other: one JSON object in each packet, descriptors
//! beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use protocol::Token;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::sys;

/// Largest packet. Names of jobs and directories are far shorter.
pub(super) const PACKET_BYTES_MAX: usize = 32 * 1024;

/// From supervisor to log writer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Order {
    /// Keep what comes out of the two pipes beside this, standard output first.
    Open {
        token: Token,
        directory: String,
        /// Content of the file that says whose output it is.
        about: String,
        bytes_max: u64,
        /// An earlier log writer may have kept some of it.
        resumed: bool,
    },
    /// Its processes are gone: what is in the pipes now is the last of it.
    Close { token: Token },
}

/// From log writer to supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Word {
    Opened {
        token: Token,
    },
    /// Nothing more comes of this output, and what came is written.
    Drained {
        token: Token,
    },
    /// Whether output can be written, and if not why. Said when it changes.
    Trouble {
        why: Option<String>,
    },
}

/// Both ends of a connection on which packets stay whole.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

/// Sends one packet, and with it these descriptors. What would block is an error of that kind.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    word: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
    flags: MsgFlags,
) -> io::Result<()> {
    let packet = serde_json::to_vec(word)?;
    let descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let beside = if descriptors.is_empty() {
        &rights[..0]
    } else {
        &rights[..]
    };
    let flags = flags | MsgFlags::MSG_NOSIGNAL;
    loop {
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&packet)],
            beside,
            flags,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// One packet and what came with it; `None` when the other side is gone.
pub(super) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = cmsg_space!([RawFd; 2]);
    let mut pieces = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut descriptors = Vec::new();
    let bytes = {
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut space), flags)?;
        for beside in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = beside {
                descriptors.extend(received.into_iter().map(sys::adopt));
            }
        }
        message.bytes
    };
    if bytes == 0 {
        return Ok(None);
    }
    let word = serde_json::from_slice(&buffer[..bytes])?;
    Ok(Some((word, descriptors)))
}
