//! What a machine is made of and how it fares: its processors, memory, disks, arrays, controllers,
//! batteries and clock.
//!
//! Two ways lead in. `read_x(root)` looks below an injected root for what the kernel tells in `/proc`
//! and `/sys`; `parse_x(text)` reads what a vendor's tool printed, which somebody else ran. Both answer
//! with a [`Report`]: items with their health and facts, and problems for what was there and was not
//! understood.
//!
//! Three rules hold everywhere, because each has been broken at great cost by others:
//!
//! - **Good words are on a list.** A word that no list has is unknown, never well, and is named. Of all
//!   that is said of one thing at whatever layer, the worst counts.
//! - **Absent is unknown.** It is not zero, not bad and not well; why it is unknown is said.
//! - **What is broken costs itself.** A garbled line costs a fact or a problem, never the report, and no
//!   input makes a parser panic.
//!
//! Nothing here has a clock, starts a process, or opens a socket; only `root` touches files.

mod block;
mod chrony;
mod controllers;
mod cpu;
mod fact;
pub mod facts;
mod filesystems;
pub mod honesty;
mod join;
mod json;
mod judgement;
mod lines;
mod md;
mod memory;
mod nic;
mod pci;
mod report;
mod root;
mod sensors;
mod smart;
mod supplies;
mod system;
mod tables;
mod text;
mod tool;

pub use block::{DiskCounters, parse_disk_counters, read_block_devices, read_disk_counters};
pub use chrony::{
    Reply, ReplyError, SourceData, Tracking, judge_clock, parse_chrony_sources,
    parse_chrony_tracking, parse_reply,
};
pub use controllers::{
    parse_arcconf, parse_megacli, parse_sas2ircu, parse_ssacli, parse_storcli, parse_tw_cli,
};
pub use cpu::{parse_cpuinfo, parse_lscpu, read_cpu};
pub use fact::{Fact, Why};
pub use facts::Facts;
pub use filesystems::{Mount, mount_of, parse_mountinfo, read_filesystems, read_mounts};
pub use join::join;
pub use lines::is_redundant;
pub use md::{parse_mdadm, parse_mdstat, read_md_arrays};
pub use memory::{parse_edac, parse_smbios, read_edac, read_memory, read_smbios};
pub use nic::read_nics;
pub use pci::{RAID_DRIVERS, is_raid_driver, read_controllers};
pub use report::{Health, Item, Problem, Report};
pub use root::{Archive, Root};
pub use sensors::parse_sensors;
pub use smart::{HEALTH_LOG_BYTES, IDENTIFY_BYTES, parse_nvme, parse_nvme_pages, parse_smartctl};
pub use supplies::parse_supplies;
pub use system::{Pressure, parse_pressure, read_system};
pub use tool::{BYTES_MAX, Tool};

/// All that the kernel of a machine tells, without asking any device. What a copy of `/proc` and `/sys`
/// does not have is left out, as is what a kernel does not have. The file system that holds `path` is there
/// whatever it is.
pub fn read_machine(root: &Root, path: Option<&str>) -> Report {
    let mut report = read_cpu(root);
    if root.has("proc/meminfo") || root.has("sys/devices/system/node") {
        report.append(read_memory(root));
    }
    if root.has("sys/block") || root.has("sys/class/block") {
        report.append(read_block_devices(root));
        report.append(read_md_arrays(root));
        report.append(read_controllers(root));
    }
    if root.has("proc/self/mountinfo") {
        report.append(read_filesystems(root, path));
    }
    if root.has("sys/class/net") {
        report.append(read_nics(root));
    }
    report.append(read_system(root));
    honesty::settle(&mut report);
    report
}
