//! What can be known of each kind of thing, under one name whatever tool told it.
//!
//! Each `struct` is a row of facts; [`Facts`] joins them into what an [`Item`](crate::Item) has.
//! In JSON a known fact is a value under its name, an unknown one is `null` and says why in the
//! item's `unknown`, and one that does not apply is not there. The macro below writes that once for
//! all of them, so that a fact cannot be forgotten in one direction.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::fact::{Fact, Why};

/// A row of facts that can be written to JSON and read back.
trait Row: Sized {
    /// Every fact under its name: `Known` as JSON.
    fn entries(&self) -> Vec<(&'static str, Fact<Value>)>;

    /// Takes its facts out of `map`; what has another type than ours is unknown. A name in `map` that
    /// is no fact of ours stays there: a newer Matins wrote it.
    fn take(map: &mut Map<String, Value>, unknown: &Map<String, Value>) -> Self;
}

fn to_json<T: Serialize>(fact: &Fact<T>) -> Fact<Value> {
    match fact {
        Fact::Known(value) => match serde_json::to_value(value) {
            Ok(value) => Fact::Known(value),
            Err(error) => Fact::Unknown(error.to_string().into()),
        },
        Fact::Unknown(why) => Fact::Unknown(why.clone()),
        Fact::NotApplicable => Fact::NotApplicable,
    }
}

fn from_json<T: DeserializeOwned>(
    name: &str,
    map: &mut Map<String, Value>,
    unknown: &Map<String, Value>,
) -> Fact<T> {
    match map.remove(name) {
        None => Fact::NotApplicable,
        Some(Value::Null) => {
            let why = unknown.get(name).and_then(Value::as_str);
            Fact::Unknown(why.unwrap_or("no reason was given").to_owned().into())
        }
        Some(value) => match serde_json::from_value(value) {
            Ok(value) => Fact::Known(value),
            Err(error) => Fact::Unknown(error.to_string().into()),
        },
    }
}

macro_rules! rows {
    ($($(#[$doc:meta])* $row:ident { $($(#[$fact_doc:meta])* $fact:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $($(#[$fact_doc])* pub $fact: Fact<$type>,)* }

        impl $row {
            /// A row of which nothing is known yet, and why what stays so is not known.
            pub fn unknown(why: impl Into<Why>) -> Self {
                let why = why.into();
                Self { $($fact: Fact::Unknown(why.clone()),)* }
            }

            /// Takes what another row of the same thing knows; what it does not know stays as it is.
            pub fn learn_from(&mut self, other: &Self) {
                $(self.$fact.learn_from(&other.$fact);)*
            }
        }

        impl Row for $row {
            fn entries(&self) -> Vec<(&'static str, Fact<Value>)> {
                vec![$((name_of(stringify!($fact)), to_json(&self.$fact)),)*]
            }

            fn take(map: &mut Map<String, Value>, unknown: &Map<String, Value>) -> Self {
                Self { $($fact: from_json(name_of(stringify!($fact)), map, unknown),)* }
            }
        }
    )*};
}

/// A fact may be called like a word of the language.
fn name_of(identifier: &'static str) -> &'static str {
    identifier.strip_prefix("r#").unwrap_or(identifier)
}

rows! {
    /// An array of disks, or a volume that a controller cut out of one.
    ArrayFacts {
        /// `raid0`, `raid1`, `raid5`, `raid10`, `linear`, `container`, ...
        level: String,
        /// Members that it was made of.
        members_required: u64,
        /// Members that hold its data now.
        members_active: u64,
        /// Members that failed or are gone, counted even where the array is whole without them.
        members_failed: u64,
        spares: u64,
        action: Action,
        /// How far the action is, 0 to 100.
        action_percent: f64,
        /// What it does with a write now.
        cache_policy: CachePolicy,
        /// Whether a battery or capacitor in order stands behind a cache that holds writes back.
        cache_protected: bool,
        /// Whether the disks behind it may use their own volatile caches, which no battery covers.
        drive_write_cache: bool,
        size_bytes: u64,
        /// What the operating system calls it: `/dev/sda`.
        device: String,
        write_honesty: WriteHonesty,
        /// What that rests on, a sentence each.
        write_evidence: Vec<String>,
    }

    ControllerFacts {
        model: String,
        /// The module of the kernel that serves it.
        driver: String,
        /// `raid`, `hba`, `mixed`.
        mode: String,
        /// Whether it holds writes back even without a battery in order.
        write_back_without_battery: bool,
        /// Whether its disks may use their own volatile caches, which no battery covers.
        drive_write_cache: bool,
        temperature_c: i64,
        memory_corrected_errors: u64,
        memory_uncorrected_errors: u64,
    }

    /// What keeps a controller's cache alive when the power goes.
    BatteryFacts {
        /// `BBU`, `CacheVault`, `ZMM`, `capacitor`.
        r#type: String,
        model: String,
        charge_percent: u64,
        /// Whether it is to be replaced.
        replace: bool,
        temperature_c: i64,
    }

    DriveFacts {
        model: String,
        serial: String,
        medium: Medium,
        /// `sata`, `sas`, `nvme`, `usb`, `virtio`, ...
        transport: String,
        /// The module of the kernel that serves what it hangs on.
        driver: String,
        size_bytes: u64,
        /// Share of its rated writes that is used up; may exceed 100.
        wear_percent: u64,
        /// Share of its spare blocks that is left.
        spare_percent: u64,
        /// Errors of the medium that it could not correct.
        media_errors: u64,
        /// Sectors that it had to replace.
        reallocated: u64,
        /// Sectors that it could not read and has not replaced yet.
        pending: u64,
        /// How often it foretold its own failure.
        predictive_failures: u64,
        /// Its own verdict on itself.
        passed: bool,
        temperature_c: i64,
        /// Whether its volatile write cache is on, by its own word.
        write_cache: bool,
        /// Whether the kernel believes in such a cache, and so asks for flushes. It can be told to believe
        /// otherwise.
        kernel_write_cache: bool,
        /// Flushes that the kernel asked for since it started, where it counts them.
        flushes: u64,
        /// How long one of them took on average.
        flush_mean_us: f64,
        write_honesty: WriteHonesty,
        /// What that rests on, a sentence each.
        write_evidence: Vec<String>,
        /// Whether it reports a capacitor of its own against loss of power, in order.
        power_loss_capacitor: bool,
        /// Whether it rests to save power, and was not woken to be asked.
        asleep: bool,
        /// What `smartctl -d` must be told to reach it.
        smartctl_type: String,
    }

    MemoryFacts {
        size_bytes: u64,
        /// What this process may use of it: its control group may allow less.
        usable_bytes: u64,
        modules: u64,
        slots: u64,
        /// Whether errors are corrected at all.
        ecc: bool,
        corrected_errors: u64,
        uncorrected_errors: u64,
    }

    SensorFacts {
        value: f64,
        unit: String,
        /// The tool's word for its state.
        state: String,
    }

    ClockFacts {
        verdict: ClockVerdict,
        /// Seconds that the clock is slow (above 0) or fast now, not yet slewed away.
        correction_s: f64,
        /// Seconds that it can be wrong at most: |correction| + root delay / 2 + root dispersion.
        bound_s: f64,
        stratum: u64,
        leap: Leap,
        reference: String,
    }

    SourceFacts {
        /// `server`, `peer`, `reference clock`.
        mode: String,
        state: SourceState,
        stratum: u64,
        /// Whether it answered one of the last eight times.
        reachable: bool,
        /// Seconds by which we were ahead of it at its last sample; below 0 we were behind.
        offset_s: f64,
        error_s: f64,
        /// Seconds since its last answer.
        age_s: u64,
    }

    CpuFacts {
        model: String,
        packages: u64,
        cores: u64,
        /// Logical processors that the machine has, in use or not.
        threads: u64,
        /// Those that run, and that this process may use.
        threads_usable: u64,
        numa_nodes: u64,
        /// Those whose memory this process may use.
        numa_nodes_usable: u64,
        /// Time on processors that the control group grants, in whole processors.
        quota: f64,
        cache_last_level_bytes: u64,
        governor: String,
        /// Processors of each NUMA node, as the kernel writes lists: `node0: 0-15`.
        node_lists: Vec<String>,
        /// Kinds of processors that differ, and how many there are of each.
        kinds: Vec<String>,
    }

    /// One file system that is mounted.
    FilesystemFacts {
        r#type: String,
        /// What is mounted, as the mount says: `/dev/sda1`, `server:/export`.
        device: String,
        /// The disks below it, through partitions, logical volumes and arrays.
        drives: Vec<String>,
        /// Whether its data survives the loss of one of them.
        redundant: bool,
        read_only: bool,
        /// Whether it asks its disks to flush where it must: `nobarrier` turns that off.
        barriers: bool,
        size_bytes: u64,
        /// What of it is free to those who are not root.
        free_bytes: u64,
        /// Files that it can hold.
        inodes: u64,
        inodes_free: u64,
        write_honesty: WriteHonesty,
        /// What that rests on, a sentence each.
        write_evidence: Vec<String>,
    }

    /// A network link, or several that are bound together.
    NicFacts {
        driver: String,
        address: String,
        /// Whether it is up and the other end answers.
        carrier: bool,
        speed_mbit_per_s: u64,
        duplex: String,
        /// Of several links bound together: how they share the work.
        mode: String,
        members: u64,
        members_active: u64,
        receive_errors: u64,
        transmit_errors: u64,
    }

    /// The machine as a whole, and the system on it.
    SystemFacts {
        vendor: String,
        product: String,
        r#virtual: bool,
        hypervisor: String,
        /// What kind of container this process sees the machine from.
        container: String,
        architecture: String,
        kernel: String,
        timezone: String,
        /// Version of the rules of time zones.
        tzdata: String,
        /// Whether the hardware's clock is kept in local time.
        rtc_local: bool,
        /// Share of the last five minutes in which some task waited for a processor, memory, a disk.
        cpu_pressure_percent: f64,
        memory_pressure_percent: f64,
        io_pressure_percent: f64,
    }

    /// A module of memory.
    ModuleFacts {
        size_bytes: u64,
        r#type: String,
        speed_mt_per_s: u64,
        maker: String,
        part: String,
        serial: String,
    }

    SupplyFacts {
        model: String,
        serial: String,
        power_max_w: u64,
    }
}

/// What an array does beside serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Idle,
    /// Reads all and compares; the array is whole.
    Check,
    /// Makes copies or parity agree.
    Resync,
    /// Fills a replaced member.
    Recovery,
    Reshape,
    /// One of the others waits for its turn.
    Delayed,
}

/// What becomes of a write before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// It waits in the controller's memory as long as a battery is in order.
    WriteBack,
    /// It waits there with or without a battery.
    WriteBackAlways,
    WriteThrough,
}

/// What is to be thought of a word that a write is durable, from best to worst. Only cutting the power
/// proves a disk honest, so none of them says that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteHonesty {
    /// Nothing volatile is on the way, or what is, is kept alive when the power goes.
    Protected,
    /// There is a volatile cache, and flushing it takes as long as it must.
    VolatileConsistent,
    Unknown,
    /// What it says and what it does cannot both be true.
    Suspicious,
    /// It is set up to lose writes that were acknowledged.
    Unsafe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Discs that turn.
    Hdd,
    Ssd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockVerdict {
    Synchronised,
    /// It was synchronised, and its reference has not been heard for too long.
    FreeRunning,
    Unsynchronised,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leap {
    Normal,
    /// A second will be inserted at the end of the day.
    Insert,
    Delete,
    Unsynchronised,
}

/// What chronyd thinks of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    Selected,
    Combined,
    /// Good enough, and left out.
    Excluded,
    /// It lies: most others disagree with it.
    Falseticker,
    Jittery,
    /// Not to be selected, mostly because it does not answer.
    Unselectable,
}

/// The facts of an item, by what it is.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "most items of a machine are drives, and a box would be met by everybody who reads one"
)]
pub enum Facts {
    Array(ArrayFacts),
    Volume(ArrayFacts),
    Controller(ControllerFacts),
    Battery(BatteryFacts),
    Drive(DriveFacts),
    Memory(MemoryFacts),
    Sensor(SensorFacts),
    Clock(ClockFacts),
    Source(SourceFacts),
    Cpu(CpuFacts),
    Filesystem(FilesystemFacts),
    Nic(NicFacts),
    Host(SystemFacts),
    Module(ModuleFacts),
    Supply(SupplyFacts),
}

impl Facts {
    /// The word for it in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Array(_) => "array",
            Self::Volume(_) => "volume",
            Self::Controller(_) => "controller",
            Self::Battery(_) => "battery",
            Self::Drive(_) => "drive",
            Self::Memory(_) => "memory",
            Self::Sensor(_) => "sensor",
            Self::Clock(_) => "clock",
            Self::Source(_) => "source",
            Self::Cpu(_) => "cpu",
            Self::Filesystem(_) => "filesystem",
            Self::Nic(_) => "nic",
            Self::Host(_) => "host",
            Self::Module(_) => "module",
            Self::Supply(_) => "supply",
        }
    }

    /// Every fact under its name; what is known, as JSON.
    pub fn entries(&self) -> Vec<(&'static str, Fact<Value>)> {
        match self {
            Self::Array(row) | Self::Volume(row) => row.entries(),
            Self::Controller(row) => row.entries(),
            Self::Battery(row) => row.entries(),
            Self::Drive(row) => row.entries(),
            Self::Memory(row) => row.entries(),
            Self::Sensor(row) => row.entries(),
            Self::Clock(row) => row.entries(),
            Self::Source(row) => row.entries(),
            Self::Cpu(row) => row.entries(),
            Self::Filesystem(row) => row.entries(),
            Self::Nic(row) => row.entries(),
            Self::Host(row) => row.entries(),
            Self::Module(row) => row.entries(),
            Self::Supply(row) => row.entries(),
        }
    }

    pub(crate) fn take(
        kind: &str,
        map: &mut Map<String, Value>,
        unknown: &Map<String, Value>,
    ) -> Option<Self> {
        Some(match kind {
            "array" => Self::Array(Row::take(map, unknown)),
            "volume" => Self::Volume(Row::take(map, unknown)),
            "controller" => Self::Controller(Row::take(map, unknown)),
            "battery" => Self::Battery(Row::take(map, unknown)),
            "drive" => Self::Drive(Row::take(map, unknown)),
            "memory" => Self::Memory(Row::take(map, unknown)),
            "sensor" => Self::Sensor(Row::take(map, unknown)),
            "clock" => Self::Clock(Row::take(map, unknown)),
            "source" => Self::Source(Row::take(map, unknown)),
            "cpu" => Self::Cpu(Row::take(map, unknown)),
            "filesystem" => Self::Filesystem(Row::take(map, unknown)),
            "nic" => Self::Nic(Row::take(map, unknown)),
            "host" => Self::Host(Row::take(map, unknown)),
            "module" => Self::Module(Row::take(map, unknown)),
            "supply" => Self::Supply(Row::take(map, unknown)),
            _ => return None,
        })
    }
}
