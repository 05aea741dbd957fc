//! Links the binary to a fixed address (docs/decisions/0014-a-fixed-address.md).
//!
//! A position-independent binary of this size has 1.3 MiB of pointers that the loader writes at
//! every start, which makes them memory of that process alone. The supervisor's own is a fifth of
//! that.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
