//! The tools whose output can be read, by name.

use crate::report::Report;
use crate::root::{Archive, Root};

/// The most that is read of an output. The longest seen, all drives of a full shelf by smartctl, have
/// a few MiB.
pub const BYTES_MAX: usize = 64 << 20;

/// What printed a file, or what it is a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Mdstat,
    Mdadm,
    Storcli,
    Ssacli,
    Arcconf,
    Megacli,
    Sas2ircu,
    TwCli,
    Smartctl,
    Nvme,
    Edac,
    Sensors,
    /// No tool: `/proc` and `/sys` themselves, see [`Tool::read`]. Processors, memory, disks and arrays.
    CpuRoot,
    ChronyTracking,
    ChronySources,
}

impl Tool {
    pub const ALL: [Self; 15] = [
        Self::Mdstat,
        Self::Mdadm,
        Self::Storcli,
        Self::Ssacli,
        Self::Arcconf,
        Self::Megacli,
        Self::Sas2ircu,
        Self::TwCli,
        Self::Smartctl,
        Self::Nvme,
        Self::Edac,
        Self::Sensors,
        Self::CpuRoot,
        Self::ChronyTracking,
        Self::ChronySources,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Mdstat => "mdstat",
            Self::Mdadm => "mdadm",
            Self::Storcli => "storcli",
            Self::Ssacli => "ssacli",
            Self::Arcconf => "arcconf",
            Self::Megacli => "megacli",
            Self::Sas2ircu => "sas2ircu",
            Self::TwCli => "tw_cli",
            Self::Smartctl => "smartctl",
            Self::Nvme => "nvme",
            Self::Edac => "edac",
            Self::Sensors => "sensors",
            Self::CpuRoot => "cpu-root",
            Self::ChronyTracking => "chrony-tracking",
            Self::ChronySources => "chrony-sources",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Reads the same below a root, where the kernel tells it too.
    pub fn read(self, root: &Root) -> Option<Report> {
        match self {
            Self::CpuRoot => Some(crate::read_machine(root, None)),
            Self::Edac => {
                let mut report = crate::read_edac(root);
                if report.items.is_empty() {
                    report.problem(
                        "sys/devices/system/edac",
                        "no memory controller counts errors",
                    );
                }
                Some(report)
            }
            Self::Mdstat => Some(crate::read_md_arrays(root)),
            _ => None,
        }
    }

    /// Reads an output whatever is in it: bytes that are no text are replaced, and beyond a bound nothing
    /// is read. Where [`Tool::read`] reads a root, a tar of it is read too, and a text with names and
    /// contents of its files. Every answer is a report.
    pub fn parse(self, bytes: &[u8]) -> Report {
        let read = &bytes[..bytes.len().min(BYTES_MAX)];
        let text = crate::text::decode(read);
        let of_root = self.archive(read, &text);
        let of_root = of_root.and_then(|archive| self.read(&Root::Archive(archive)));
        let mut report = of_root.unwrap_or_else(|| self.parse_text(&text));
        if read.len() < bytes.len() {
            report.problem(
                "the file",
                format!("only its first {BYTES_MAX} bytes were read"),
            );
        }
        crate::honesty::settle(&mut report);
        report
    }

    /// A root that was packed, for what is read of roots at all.
    fn archive(self, bytes: &[u8], text: &str) -> Option<Archive> {
        if !matches!(self, Self::CpuRoot | Self::Edac | Self::Mdstat) {
            return None;
        }
        let archive = Archive::parse(bytes).ok();
        archive.or_else(|| Archive::parse_listing(text))
    }

    fn parse_text(self, text: &str) -> Report {
        match self {
            Self::Mdstat => crate::parse_mdstat(text),
            Self::Mdadm => crate::parse_mdadm(text),
            Self::Storcli => crate::parse_storcli(text),
            Self::Ssacli => crate::parse_ssacli(text),
            Self::Arcconf => crate::parse_arcconf(text),
            Self::Megacli => crate::parse_megacli(text),
            Self::Sas2ircu => crate::parse_sas2ircu(text),
            Self::TwCli => crate::parse_tw_cli(text),
            Self::Smartctl => crate::parse_smartctl(text),
            Self::Nvme => crate::parse_nvme(text),
            Self::Edac => crate::parse_edac(text),
            Self::Sensors => crate::parse_sensors(text),
            Self::ChronyTracking => crate::parse_chrony_tracking(text),
            Self::ChronySources => crate::parse_chrony_sources(text),
            // A summary of processors, where somebody kept no more than that.
            Self::CpuRoot if text.contains("On-line CPU(s) list") || text.contains("CPU(s):") => {
                crate::parse_lscpu(text)
            }
            Self::CpuRoot => crate::parse_cpuinfo(text),
        }
    }
}
