//! What a host says of itself: facts that classes, matching and reports go by, and how it fares now.
//!
//! The facts are a flat list of names and values, so that a class of a site's own can ask for any of
//! them, so that two profiles of one host can be held against each other fact by fact, and so that an
//! older coordinator keeps what a newer agent tells. Which names there are, in which unit, stands in
//! [`FACTS`] alone. A fact that is not there does not apply; one that has a value which could not be
//! learned says why.
//!
//! Numbers are integers with their unit in the name: what is decided by them is decided the same way
//! everywhere.

mod registration;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::time::DurationMs;

pub use registration::{
    DIFFERENCE_TEXT_BYTES_MAX, DIFFERENCES_MAX, Difference, FactsError, NoDigest,
    PROFILE_BYTES_MAX, ProfileDigest, Turn,
};

/// A profile has at most so many facts, and each text of it so many bytes.
pub const FACTS_MAX: usize = 256;
pub const FACT_TEXT_BYTES_MAX: usize = 256;

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Truth(bool),
    Number(i64),
    Text(String),
}

/// What is known of one property of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostFact {
    Known(Value),
    /// It has a value, which could not be learned; half a sentence says why.
    Unknown(String),
}

/// A host's facts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostFacts(pub BTreeMap<String, HostFact>);

impl HostFacts {
    pub fn fact(&self, name: &str) -> Option<&HostFact> {
        self.0.get(name)
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            HostFact::Known(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            HostFact::Known(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn truth(&self, name: &str) -> Option<bool> {
        match self.0.get(name)? {
            HostFact::Known(Value::Truth(truth)) => Some(*truth),
            _ => None,
        }
    }

    pub fn know(&mut self, name: &'static str, value: Value) {
        self.0.insert(name.to_owned(), HostFact::Known(value));
    }

    pub fn miss(&mut self, name: &'static str, why: impl Into<String>) {
        self.0
            .insert(name.to_owned(), HostFact::Unknown(why.into()));
    }
}

/// Of what form the values of a fact are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Truth,
    /// In the unit that the name ends with.
    Number,
    /// One of these words, the best first.
    Word(&'static [&'static str]),
    Text,
}

/// A fact that a profile can have.
#[derive(Clone, Copy, Debug)]
pub struct FactSpec {
    pub name: &'static str,
    pub form: Form,
    /// For people, without a full stop.
    pub meaning: &'static str,
}

const fn number(name: &'static str, meaning: &'static str) -> FactSpec {
    let form = Form::Number;
    FactSpec {
        name,
        form,
        meaning,
    }
}

const fn text(name: &'static str, meaning: &'static str) -> FactSpec {
    let form = Form::Text;
    FactSpec {
        name,
        form,
        meaning,
    }
}

const fn truth(name: &'static str, meaning: &'static str) -> FactSpec {
    let form = Form::Truth;
    FactSpec {
        name,
        form,
        meaning,
    }
}

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    meaning: &'static str,
) -> FactSpec {
    let form = Form::Word(words);
    FactSpec {
        name,
        form,
        meaning,
    }
}

/// How a host or a part of it fares, the best first.
pub const HEALTHS: &[&str] = &["ok", "unknown", "rebuilding", "degraded", "failed"];

/// As [`HEALTHS`], of which each is a word: the later, the worse. What cannot be told is no good news, and
/// is worse than `Ok` wherever two are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    Ok,
    Unknown,
    /// On its way back: something that failed is being filled again.
    Rebuilding,
    /// It works, and the next fault may end that.
    Degraded,
    Failed,
}

impl Health {
    pub const ALL: [Health; 5] = [
        Health::Ok,
        Health::Unknown,
        Health::Rebuilding,
        Health::Degraded,
        Health::Failed,
    ];

    pub const fn as_str(self) -> &'static str {
        HEALTHS[self as usize]
    }

    /// Whether something is known to be wrong.
    pub fn is_bad(self) -> bool {
        self > Health::Unknown
    }

    /// What the word means; one that this version does not know is unknown.
    pub fn of_word(word: &str) -> Health {
        let known = Health::ALL.into_iter().find(|known| known.as_str() == word);
        known.unwrap_or(Health::Unknown)
    }
}

/// Grades of fdatasync, by its 99th percentile: A up to 2 ms, B up to 10, C up to 20, D above.
pub const FSYNC_GRADES: &[&str] = &["A", "B", "C", "D"];
/// What is to be thought of a disk's word that a write is durable, the best first.
pub const WRITE_HONESTIES: &[&str] = &[
    "protected",
    "volatile-consistent",
    "unknown",
    "suspicious",
    "unsafe",
];
/// What is to be thought of a clock, the best first.
pub const CLOCK_VERDICTS: &[&str] = &["synchronised", "free-running", "unsynchronised"];

/// Every fact that a profile can have. `disk` is the one that holds the agent's data directory.
pub const FACTS: &[FactSpec] = &[
    text("cpu.model", "what its processors are called"),
    number("cpu.packages", "sockets"),
    number("cpu.cores", "cores"),
    number("cpu.threads", "logical processors that the machine has"),
    number(
        "cpu.threads_usable",
        "logical processors that run and that the agent may use",
    ),
    number(
        "cpu.usable_milli",
        "processors that jobs can have, in thousandths: threads usable, and the quota of the agent's cgroup",
    ),
    number("cpu.numa_nodes", "NUMA nodes"),
    number(
        "cpu.score_single",
        "measured speed of one thread; 1,000 is the reference machine",
    ),
    number(
        "cpu.score_all",
        "measured speed of all threads; 1,000 is one thread of the reference machine",
    ),
    number("memory.size_bytes", "memory of the machine"),
    number(
        "memory.usable_bytes",
        "memory that jobs can have: the machine's, and the limit of the agent's cgroup",
    ),
    truth("memory.ecc", "whether memory corrects errors"),
    number(
        "memory.bandwidth_bytes_per_s",
        "measured speed of memory, all nodes together",
    ),
    word("disk.medium", &["ssd", "hdd"], "what the disk stores on"),
    truth("disk.virtual", "whether a hypervisor hides the disk"),
    word(
        "disk.write_honesty",
        WRITE_HONESTIES,
        "what is to be thought of the disk's word that a write is durable",
    ),
    word(
        "disk.fsync_grade",
        FSYNC_GRADES,
        "grade of the measured fdatasync latency",
    ),
    number(
        "disk.fsync_p99_us",
        "99 of 100 measured fdatasyncs took at most so long",
    ),
    truth(
        "disk.fsync_while_busy",
        "whether processors were busy while fdatasync was measured: the disk is that good or better",
    ),
    number(
        "disk.random_write_iops",
        "measured random writes of 4 KiB per second, each durable",
    ),
    number(
        "disk.probe_bytes_per_year",
        "what measuring writes to the disk in a year",
    ),
    number(
        "disk.size_bytes",
        "size of the file system with the agent's data",
    ),
    number("disk.free_bytes", "what of it is free to the agent"),
    truth(
        "storage.redundant",
        "whether the data of the disk survives the loss of one drive",
    ),
    word(
        "storage.health",
        HEALTHS,
        "the worst of arrays, volumes, batteries and drives",
    ),
    truth(
        "storage.rebuilding",
        "whether an array is being filled, made to agree or reshaped",
    ),
    number("power.supplies", "power supplies that work"),
    number(
        "nic.speed_mbit_per_s",
        "speed of the fastest network link that is up",
    ),
    word(
        "clock.verdict",
        CLOCK_VERDICTS,
        "what is to be thought of the clock",
    ),
    number("clock.bound_us", "how wrong the clock can be at most"),
    word(
        "host.health",
        HEALTHS,
        "the worst of all that is judged, the clock left out",
    ),
    truth("host.virtual", "whether it is a virtual machine"),
    text("host.hypervisor", "what runs the virtual machine"),
    text("host.kernel", "release of the kernel"),
    text("host.timezone", "time zone of the host"),
    text("host.architecture", "instruction set of the processors"),
];

/// The fact of this name.
pub fn fact_spec(name: &str) -> Option<&'static FactSpec> {
    FACTS.iter().find(|spec| spec.name == name)
}

/// Everything that an agent has found out about its host: what it registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostProfile {
    pub facts: HostFacts,
    /// Every part with its health and facts, and problems, in the shape that `matins hardware --output
    /// json` has. For people; nothing is decided by it.
    pub report: Json,
}

/// How the host fares at a beat: small, and told with every one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostNow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<HostClock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HostHealth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<HostLoad>,
}

/// What the host's own time service says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostClock {
    /// One of [`CLOCK_VERDICTS`]; another word is unknown to this version.
    pub verdict: String,
    /// Microseconds that the clock is slow (above 0) or fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction_us: Option<i64>,
    /// How wrong it can be at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_us: Option<i64>,
    /// By how many parts in a million the kernel is told to run it fast (above 0) or slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steered_ppm: Option<i64>,
    /// Who said so: `chronyd`, `chronyc`, `kernel`.
    pub source: String,
    /// What the verdict rests on, and why who knows more said nothing; at most
    /// [`FACT_TEXT_BYTES_MAX`] bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The last step of the clock that was seen since the agent began, and how long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ClockStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// Above 0 the clock was set forward.
    pub by_us: i64,
    pub ago: DurationMs,
}

/// The worst of what is judged of the host, as the newest look at it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHealth {
    /// Counts looks since the agent began: two beats may tell of one look.
    pub look: u64,
    /// One of [`HEALTHS`].
    pub health: String,
    /// What is not well, a line each; the worst first, and at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(default)]
    pub rebuilding: bool,
}

/// How busy the host is, whoever it works for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLoad {
    /// Processors in use, in thousandths, over the last beat.
    pub cpu_used_milli: u32,
    pub memory_available_bytes: u64,
    /// Share of the last beat in which some task waited, in thousandths; unset where the kernel does
    /// not count pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_milli: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure_milli: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_pressure_milli: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_their_form_on_the_way() {
        let mut facts = HostFacts::default();
        facts.know("cpu.cores", Value::Number(8));
        facts.know("memory.ecc", Value::Truth(true));
        facts.know("disk.medium", Value::Text("ssd".to_owned()));
        facts.miss("disk.fsync_grade", "it was not measured");
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts);
        assert_eq!(facts.number("cpu.cores"), Some(8));
        assert_eq!(facts.truth("memory.ecc"), Some(true));
        assert_eq!(facts.text("disk.medium"), Some("ssd"));
        assert_eq!(facts.number("disk.fsync_grade"), None);
    }

    #[test]
    fn names_of_facts_are_each_once_and_in_groups() {
        for (place, spec) in FACTS.iter().enumerate() {
            assert!(spec.name.contains('.'), "{}", spec.name);
            let same = FACTS[place + 1..]
                .iter()
                .find(|other| other.name == spec.name);
            assert!(same.is_none(), "{}", spec.name);
        }
    }

    #[test]
    fn a_health_is_its_word() {
        for (health, &word) in Health::ALL.into_iter().zip(HEALTHS) {
            assert_eq!(health.as_str(), word);
            assert_eq!(serde_json::to_value(health).unwrap(), word);
            assert_eq!(Health::of_word(word), health);
        }
        assert_eq!(Health::of_word("melting"), Health::Unknown);
        assert!(Health::Failed > Health::Degraded && Health::Unknown > Health::Ok);
    }
}
