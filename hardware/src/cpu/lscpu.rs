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
    let (mut sockets, mut per_socket, mut models) = (None, None, 0);
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
            "socket(s)" => sockets = number(value),
            "core(s) per socket" => per_socket = number(value),
            "numa node(s)" => facts.numa_nodes.learn(number(value)),
            "model name" => {
                models += 1;
                facts
                    .model
                    .learn(Some(value.to_owned()).filter(|name| !name.is_empty()));
            }
            _ => {}
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
    if models <= 1 && cores.is_some_and(|cores| cores <= threads) {
        facts.packages.learn(sockets);
        facts.cores.learn(cores);
    } else {
        facts.packages = crate::Fact::Unknown(
            "it has several kinds of cores, or more places than processors".into(),
        );
        facts.cores = facts.packages.clone();
    }
    report.items.push(item(
        facts,
        format!("{threads} logical processors by lscpu"),
    ));
    report
}
