//! Giving memory back that nothing is in.
//!
//! What is freed the allocator keeps for later, unless it lies at the end. That is right for what comes
//! and goes, and wrong for what comes once: the command line of a program with many commands is read in
//! half a MiB, and the rows of a hundred thousand jobs are a hundred MiB until they have been read; what
//! is made meanwhile lies behind them.
#![allow(unsafe_code)]

/// Gives whole free pages back to the kernel. To be called when something large has just been freed and
/// nothing like it comes soon.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and moves nothing that is allocated.
    let _ = unsafe { nix::libc::malloc_trim(0) };
}
