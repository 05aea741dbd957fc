//! Whether a disk of this machine is shared by weight.
//!
//! The files that take a weight are there whether or not anything heeds it: only the scheduler
//! `bfq` does, `cfq` before it, and the cost model of version 2 where somebody has switched it on.
//! Most disks of today have none of these, and then a weight is a wish.

use std::fs;
use std::path::Path;

/// Those that weigh who asks.
const SCHEDULERS: [&str; 2] = ["[bfq]", "[cfq]"];

/// `sys` is /sys.
pub(super) fn weigh(sys: &Path) -> bool {
    // A machine without disks has no such directory.
    let disks = fs::read_dir(sys.join("block")).into_iter().flatten();
    let by_scheduler = disks.filter_map(Result::ok).any(|disk| {
        let scheduler = fs::read_to_string(disk.path().join("queue/scheduler"));
        scheduler.is_ok_and(|text| text.split_whitespace().any(|s| SCHEDULERS.contains(&s)))
    });
    by_scheduler || by_cost(sys)
}

fn by_cost(sys: &Path) -> bool {
    ["fs/cgroup", "fs/cgroup/unified"].iter().any(|mount| {
        let model = fs::read_to_string(sys.join(mount).join("io.cost.qos"));
        model.is_ok_and(|text| text.split_whitespace().any(|word| word == "enable=1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_is_shared_by() {
        for (scheduler, cost, expected) in [
            ("[none] mq-deadline\n", None, false),
            ("none [mq-deadline] bfq\n", None, false),
            ("mq-deadline kyber [bfq] none\n", None, true),
            ("noop deadline [cfq]\n", None, true),
            ("[none]\n", Some("254:0 enable=0 ctrl=auto\n"), false),
            ("[none]\n", Some("254:0 enable=1 ctrl=auto\n"), true),
        ] {
            let sys = tempfile::tempdir().unwrap();
            let queue = sys.path().join("block/vda/queue");
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("scheduler"), scheduler).unwrap();
            if let Some(cost) = cost {
                let cgroup = sys.path().join("fs/cgroup");
                fs::create_dir_all(&cgroup).unwrap();
                fs::write(cgroup.join("io.cost.qos"), cost).unwrap();
            }
            assert_eq!(weigh(sys.path()), expected, "{scheduler} {cost:?}");
        }
        assert!(!weigh(Path::new("/nowhere")));
    }
}
