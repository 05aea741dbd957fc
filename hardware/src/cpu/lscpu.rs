//! `lscpu`: a summary that somebody kept, where the files it is made of are not at hand.

use super::cpulist::parse_list;
use super::item;
use crate::facts::CpuFacts;
use crate::json::{Json, documents, is_json};
use crate::lines::{lines, number, size};
use crate::report::Report;

/// Reads `lscpu`, with `-J` too. Sums over kinds of cores are not made: on machines with several, sockets times cores
/// is not what they have.
pub fn parse_lscpu(text: &str) -> Report {
    let mut report = Report::default();
    let of_json = is_json(text).then(|| {
        let mut fields = String::new();
        for document in documents(text, &mut report) {
            document
                .all("lscpu")
                .for_each(|list| flatten(list, &mut fields));
        }
        fields
    });
    let mut told = Told::default();
    let mut facts = CpuFacts::unknown("lscpu does not tell");
    for line in lines(of_json.as_deref().unwrap_or(text)) {
        if let Some((key, value)) = line.pair() {
            told.field(&key, value, &mut facts);
        }
    }
    let Some(threads) = facts.threads.known().copied() else {
        if report.problems.is_empty() {
            report.problem("the file", "nothing in it is in the form of lscpu");
        }
        return report;
    };
    told.learn_cores(threads, &mut facts);
    if !told.nodes.is_empty() {
        facts.node_lists = told.nodes.into();
    }
    let said = told.kinds.iter().map(Kind::said);
    match said.collect::<Option<Vec<_>>>() {
        Some(said) if told.kinds.len() > 1 => facts.kinds = said.into(),
        None if told.kinds.len() > 1 => {}
        _ => facts.kinds = crate::Fact::NotApplicable,
    }
    let guest = told
        .guest_of
        .map_or_else(String::new, |vendor| format!(", in a guest of {vendor}"));
    report.items.push(item(
        facts,
        format!("{threads} logical processors by lscpu{guest}"),
    ));
    report
}

/// What is read before it is known how much of it multiplies.
#[derive(Default)]
struct Told {
    sockets: Option<u64>,
    per_socket: Option<u64>,
    per_core: Option<u64>,
    kinds: Vec<Kind>,
    nodes: Vec<String>,
    guest_of: Option<String>,
}

impl Told {
    fn field(&mut self, key: &str, value: &str, facts: &mut CpuFacts) {
        match key {
            "cpu(s)" => facts.threads.learn(number(value)),
            "on-line cpu(s) list" => {
                let online = parse_list(value).map(|set| set.len() as u64);
                facts.threads_usable.learn(online);
            }
            "thread(s) per core" => {
                self.per_core = number(value);
                if let Some(kind) = self.kinds.last_mut() {
                    kind.per_core = self.per_core;
                }
            }
            "socket(s)" | "cpu socket(s)" => {
                self.sockets = number(value);
                if let Some(kind) = self.kinds.last_mut() {
                    kind.sockets = self.sockets;
                }
            }
            "core(s) per socket" => {
                self.per_socket = number(value);
                if let Some(kind) = self.kinds.last_mut() {
                    kind.per_socket = self.per_socket;
                }
            }
            // All caches of that level together, where it says how many they are.
            "l3" | "l3 cache" if value.contains("instance") => {
                facts.cache_last_level_bytes.learn(size(value));
            }
            "hypervisor vendor" => self.guest_of = Some(value.to_owned()),
            "numa node(s)" => facts.numa_nodes.learn(number(value)),
            "model name" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                let name = words.join(" ");
                self.kinds.push(Kind {
                    model: name.clone(),
                    sockets: None,
                    per_socket: None,
                    per_core: None,
                });
                let is_name = !matches!(name.as_str(), "" | "-");
                facts.model.learn(is_name.then_some(name));
            }
            key => self.nodes.extend(node_list(key, value)),
        }
    }

    /// `Socket(s)` counts once a kind of core, and books and drawers multiply beyond what runs.
    fn learn_cores(&self, threads: u64, facts: &mut CpuFacts) {
        let cores = self.sockets.zip(self.per_socket);
        let cores = cores.and_then(|(sockets, cores)| sockets.checked_mul(cores));
        if self.kinds.len() <= 1 && cores.is_some_and(|cores| cores <= threads) {
            facts.packages.learn(self.sockets);
            facts.cores.learn(cores);
            return;
        }
        facts.packages = crate::Fact::Unknown(
            "it has several kinds of cores, or more places than processors".into(),
        );
        facts.cores = facts.packages.clone();
        // Without SMT each processor is a core; and kinds that make up all processors make up all cores.
        let online = facts.threads_usable.known().copied().unwrap_or(threads);
        let of_kinds = self
            .kinds
            .iter()
            .map(|kind| kind.cores().zip(kind.threads()));
        let of_kinds = of_kinds.reduce(|sum, kind| {
            let ((cores, threads), (more, further)) = (sum?, kind?);
            cores.checked_add(more).zip(threads.checked_add(further))
        });
        let of_kinds = of_kinds.flatten().filter(|(_, all)| *all == online);
        let of_one = self.kinds.len() <= 1 && self.per_core == Some(1);
        facts.cores.learn(
            of_kinds
                .map(|(cores, _)| cores)
                .or(of_one.then_some(online)),
        );
    }
}

/// Cores of one model, of a machine that has several.
struct Kind {
    model: String,
    sockets: Option<u64>,
    per_socket: Option<u64>,
    per_core: Option<u64>,
}

impl Kind {
    fn cores(&self) -> Option<u64> {
        self.sockets?.checked_mul(self.per_socket?)
    }

    fn threads(&self) -> Option<u64> {
        self.cores()?.checked_mul(self.per_core?)
    }

    fn said(&self) -> Option<String> {
        Some(format!("{} {}", self.cores()?, self.model))
    }
}

/// The fields of `lscpu -J`, one a line as without it.
fn flatten(list: &Json, fields: &mut String) {
    for field in list.list() {
        let said = |key| field.get(key).map(Json::said).unwrap_or_default();
        fields.extend([&said("field"), " ", &said("data"), "\n"]);
        field.all("children").for_each(|list| flatten(list, fields));
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

    fn facts(text: &str) -> CpuFacts {
        let report = parse_lscpu(text);
        assert!(report.problems.is_empty(), "{report:?}");
        let Facts::Cpu(facts) = report.items.into_iter().next().unwrap().facts else {
            panic!()
        };
        facts
    }

    #[test]
    fn as_json_it_tells_the_same() {
        let text = r#"{"lscpu": [{"field": "CPU(s):", "data": "8", "children": [{"field": "On-line CPU(s) list:", "data": "0-7"}]},
            {"field": "Vendor ID:", "data": "X", "children": [{"field": "Model name:", "data": "X  1", "children": [
            {"field": "Thread(s) per core:", "data": "2"}, {"field": "Core(s) per socket:", "data": "4"}, {"field": "Socket(s):", "data": "1"}]}]},
            {"field": "L3:", "data": "16 MiB (2 instances)"}, {"field": "NUMA node(s):", "data": "1"}]}"#;
        let of_json = facts(text);
        assert_eq!((&of_json.packages, &of_json.cores), (&1.into(), &4.into()));
        let plain = facts(
            "CPU(s): 8\nOn-line CPU(s) list: 0-7\nModel name: X 1\nThread(s) per core: 2\nCore(s) per socket: 4\n\
             Socket(s): 1\nL3: 16 MiB (2 instances)\nNUMA node(s): 1\n",
        );
        assert_eq!(of_json.cache_last_level_bytes, (16_u64 << 20).into());
        assert_eq!(of_json, plain);
    }

    #[test]
    fn cores_where_sockets_do_not_multiply() {
        for (text, expected) in [
            // A big and a small kind, one with two threads.
            (
                "CPU(s): 12\nModel name: Big\nThread(s) per core: 2\nCore(s) per socket: 2\nSocket(s): 1\n\
                 Model name: Small\nThread(s) per core: 1\nCore(s) per socket: 8\nSocket(s): 1\n",
                Some(10),
            ),
            // One processor is offline: kinds do not make up what runs.
            (
                "CPU(s): 12\nOn-line CPU(s) list: 0-10\nModel name: Big\nThread(s) per core: 2\nCore(s) per socket: 2\nSocket(s): 1\n\
                 Model name: Small\nThread(s) per core: 1\nCore(s) per socket: 8\nSocket(s): 1\n",
                None,
            ),
            // A mainframe.
            (
                "CPU(s): 8\nOn-line CPU(s) list: 0-7\nThread(s) per core: 1\nCore(s) per socket: 4\nSocket(s) per book: 2\n\
                 Socket(s): 16\nModel name: -\n",
                Some(8),
            ),
        ] {
            let facts = facts(text);
            assert_eq!(facts.cores.known().copied(), expected, "{text}");
            assert_eq!(facts.packages.known(), None);
        }
    }
}
