//! `lscpu`: a summary that somebody kept, where the files it is made of are not at hand.

use super::cpulist::parse_list;
use super::item;
use crate::facts::CpuFacts;
use crate::lines::{lines, number};
use crate::report::Report;

/// Reads `lscpu`. Sums over kinds of cores are not made: on machines with several, sockets times cores
/// is not what they have.
pub fn parse_lscpu(text: &str) -> Report {
    let mut report = Report::default();
    let mut facts = CpuFacts::unknown("lscpu does not tell");
    let (mut sockets, mut per_socket) = (None, None);
    let mut kinds: Vec<Kind> = Vec::new();
    let mut nodes = Vec::new();
    for line in lines(text) {
        let Some((key, value)) = line.pair() else {
            continue;
        };
        match key.as_str() {
            "cpu(s)" => facts.threads.learn(number(value)),
            "on-line cpu(s) list" => {
                let online = parse_list(value).map(|set| set.len() as u64);
                facts.threads_usable.learn(online);
            }
            "socket(s)" => {
                sockets = number(value);
                if let Some(kind) = kinds.last_mut() {
                    kind.sockets = sockets;
                }
            }
            "core(s) per socket" => {
                per_socket = number(value);
                if let Some(kind) = kinds.last_mut() {
                    kind.per_socket = per_socket;
                }
            }
            "numa node(s)" => facts.numa_nodes.learn(number(value)),
            "model name" => {
                kinds.push(Kind {
                    model: value.to_owned(),
                    sockets: None,
                    per_socket: None,
                });
                facts
                    .model
                    .learn(Some(value.to_owned()).filter(|name| !name.is_empty()));
            }
            key => nodes.extend(node_list(key, value)),
        }
    }
    let Some(threads) = facts.threads.known().copied() else {
        report.problem("the file", "nothing in it is in the form of lscpu");
        return report;
    };
    // Socket(s) counts once a kind of core, and books and drawers multiply beyond what runs.
    let cores = sockets
        .zip(per_socket)
        .and_then(|(sockets, cores)| sockets.checked_mul(cores));
    if kinds.len() <= 1 && cores.is_some_and(|cores| cores <= threads) {
        facts.packages.learn(sockets);
        facts.cores.learn(cores);
    } else {
        facts.packages = crate::Fact::Unknown(
            "it has several kinds of cores, or more places than processors".into(),
        );
        facts.cores = facts.packages.clone();
    }
    if !nodes.is_empty() {
        facts.node_lists = nodes.into();
    }
    match kinds.iter().map(Kind::said).collect::<Option<Vec<_>>>() {
        Some(said) if kinds.len() > 1 => facts.kinds = said.into(),
        None if kinds.len() > 1 => {}
        _ => facts.kinds = crate::Fact::NotApplicable,
    }
    report.items.push(item(
        facts,
        format!("{threads} logical processors by lscpu"),
    ));
    report
}

/// Cores of one model, of a machine that has several.
struct Kind {
    model: String,
    sockets: Option<u64>,
    per_socket: Option<u64>,
}

impl Kind {
    fn said(&self) -> Option<String> {
        let cores = self.sockets?.checked_mul(self.per_socket?)?;
        Some(format!("{cores} {}", self.model))
    }
}

/// `NUMA node0 CPU(s): 0-62:2`
fn node_list(key: &str, value: &str) -> Option<String> {
    let node = key.strip_prefix("numa node")?.strip_suffix(" cpu(s)")?;
    node.parse::<u32>().ok()?;
    parse_list(value)?;
    Some(format!("node{node}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;

    #[test]
    fn kinds_of_cores_are_told_apart() {
        let text = "CPU(s): 8\nOn-line CPU(s) list: 0-7\nModel name: Small\nCore(s) per socket: 6\n\
                    Socket(s): 1\nModel name: Big\nCore(s) per socket: 2\nSocket(s): 1\n\
                    NUMA node(s): 1\nNUMA node0 CPU(s): 0-6:2\nNUMA node1 CPU(s): x\n";
        let report = parse_lscpu(text);
        let Facts::Cpu(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(
            facts.kinds,
            vec!["6 Small".to_owned(), "2 Big".to_owned()].into()
        );
        assert_eq!(facts.node_lists, vec!["node0: 0-6:2".to_owned()].into());
        assert_eq!(facts.cores.known(), None);
    }
}
