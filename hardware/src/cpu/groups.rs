//! What the control group of this process may use, on both versions of them and in the old cpuset
//! file system.
//!
//! Limits bind wherever they stand on the way from the leaf to the root; the tightest counts.

use std::collections::BTreeSet;

use super::cpulist::parse_list;
use crate::root::Root;

/// Processors that the control group leaves.
pub(super) fn processors(root: &Root) -> Option<BTreeSet<u32>> {
    cpuset(
        root,
        &[
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cpuset.cpus",
            "cpus",
        ],
    )
}

/// NUMA nodes whose memory it leaves.
pub(super) fn nodes(root: &Root) -> Option<BTreeSet<u32>> {
    cpuset(
        root,
        &[
            "cpuset.mems.effective",
            "cpuset.effective_mems",
            "cpuset.mems",
            "mems",
        ],
    )
}

fn cpuset(root: &Root, files: &[&str]) -> Option<BTreeSet<u32>> {
    let path = root.line("proc/self/cpuset")?;
    let mounts = mounts(root, |kind, options| {
        kind == "cpuset" || kind == "cgroup2" || options.split(',').any(|option| option == "cpuset")
    });
    for directory in upward(&path) {
        for mount in &mounts {
            let found = files.iter().find_map(|file| {
                let set = parse_list(&root.line(&format!("{mount}{directory}/{file}"))?)?;
                // Empty means that the parent's holds.
                (!set.is_empty()).then_some(set)
            });
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Whole processors whose time the control group grants; none without a limit.
pub(super) fn quota(root: &Root) -> Option<f64> {
    let of_file = |path: String| {
        let line = root.line(&path)?;
        let (quota, period) = line.split_once(' ')?;
        ratio(quota.parse().ok()?, period.parse().ok()?)
    };
    let unified = group_files(root, "", "cgroup2", "cpu.max")
        .into_iter()
        .filter_map(of_file);
    let old = group_files(root, "cpu", "cgroup", "cpu.cfs_quota_us")
        .into_iter()
        .filter_map(|path| {
            let period = path.replace("cpu.cfs_quota_us", "cpu.cfs_period_us");
            ratio(
                root.line(&path)?.parse().ok()?,
                root.line(&period)?.parse().ok()?,
            )
        });
    unified.chain(old).min_by(f64::total_cmp)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Bytes that the control group grants; none without a limit. More than the machine has is no limit,
/// which is for the caller to see.
pub(crate) fn memory_limit(root: &Root) -> Option<u64> {
    let unified = group_files(root, "", "cgroup2", "memory.max");
    let old = group_files(root, "memory", "cgroup", "memory.limit_in_bytes");
    let limits = unified
        .iter()
        .chain(&old)
        .filter_map(|path| root.number(path));
    limits.min()
}

/// A file of the control group of this process and of all above it.
fn group_files(root: &Root, controller: &str, kind: &str, file: &str) -> Vec<String> {
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers
            .split(',')
            .any(|name| name == controller)
            .then(|| path.trim().to_owned())
    });
    let Some(group) = group else {
        return Vec::new();
    };
    let mounts = mounts(root, |mounted, options| {
        mounted == kind
            && (controller.is_empty() || options.split(',').any(|option| option == controller))
    });
    let mut files = Vec::new();
    for directory in upward(&group) {
        files.extend(
            mounts
                .iter()
                .map(|mount| format!("{mount}{directory}/{file}")),
        );
    }
    files
}

/// Where file systems are mounted that are meant, without the slash before them.
fn mounts(root: &Root, meant: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let text = root
        .read("proc/mounts")
        .or_else(|| root.read("proc/self/mounts"));
    let text = text.unwrap_or_default();
    let mut mounts: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, path, kind, options, ..] = fields.as_slice() else {
                return None;
            };
            meant(kind, options).then(|| path.trim_start_matches('/').to_owned())
        })
        .collect();
    mounts.dedup();
    mounts
}

/// `/a/b`, `/a`, and the root of the groups as the empty text.
fn upward(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|end| &path[..end]))
}
