//! How fast memory is: the triad `a = b + s * c` of STREAM over more than the caches hold.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hardware::{Facts, Root, read_memory};
use serde::{Deserialize, Serialize};

use super::processors::{allowed, parse_list, pin};
use super::{Measured, Refusal, Skip};

const TIME: Duration = Duration::from_secs(1);
/// Each of the three arrays is so many times as large as the last-level caches of its node.
const TIMES_CACHE: u64 = 4;
/// Where the kernel does not tell the caches, or they are very large.
const ARRAY_BYTES_MIN: u64 = 64 << 20;
const ARRAY_BYTES_MAX: u64 = 2 << 30;
/// The arrays take at most this part of the memory that is free.
const PART_OF_FREE: u64 = 4;
/// Read `b` and `c`, write `a`; that a cache reads `a` before it is written is not counted, as in STREAM.
const BYTES_PER_ELEMENT: usize = 24;
const NODES: &str = "/sys/devices/system/node";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// All nodes together, each measured alone.
    pub bytes_per_s: u64,
    pub nodes: Vec<NodeBandwidth>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBandwidth {
    pub node: u32,
    /// The best pass over the arrays, as STREAM has it.
    pub bytes_per_s: u64,
    pub median_bytes_per_s: u64,
    pub passes: u64,
    pub threads: u32,
    /// Of each of the three.
    pub array_bytes: u64,
    /// Of the node, as far as the kernel tells.
    pub cache_bytes: Option<u64>,
}

/// A node with the processors of it that may be used.
struct Node {
    number: u32,
    processors: Vec<usize>,
}

/// Measures each NUMA node for a second.
///
/// A node is bound by its processors: the threads are held to them and touch their parts of the arrays
/// first, so that the kernel takes the memory of that node as long as it has some. No policy is set; a
/// node without processors that may be used is not measured.
pub fn measure_memory(stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Measured<Bandwidth> {
    measure(stop, tell).into()
}

fn measure(stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<Bandwidth, Refusal> {
    let mut nodes = Vec::new();
    for node in read_nodes().map_err(Refusal::because)? {
        tell(&format!("memory of node {}", node.number));
        let cache_bytes = read_cache_bytes(&node.processors);
        let array_bytes = plan_array_bytes(cache_bytes, read_free_bytes());
        let array_bytes = array_bytes.map_err(Refusal::because)?;
        let found = measure_node(&node, array_bytes, TIME, stop).map_err(Refusal::because)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Skip::Stopped.into());
        }
        nodes.push(NodeBandwidth {
            cache_bytes,
            ..found
        });
    }
    Ok(Bandwidth {
        bytes_per_s: nodes.iter().map(|node| node.bytes_per_s).sum(),
        nodes,
    })
}

/// Nodes with processors that may be used; a kernel that knows none has one.
fn read_nodes() -> Result<Vec<Node>, String> {
    let allowed = allowed()?;
    let mut nodes = Vec::new();
    for entry in fs::read_dir(NODES).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        let mut processors = parse_list(&list).unwrap_or_default();
        processors.retain(|processor| allowed.contains(processor));
        if !processors.is_empty() {
            nodes.push(Node { number, processors });
        }
    }
    if nodes.is_empty() {
        nodes.push(Node {
            number: 0,
            processors: allowed,
        });
    }
    nodes.sort_by_key(|node| node.number);
    Ok(nodes)
}

/// The last-level caches of these processors, each once.
fn read_cache_bytes(processors: &[usize]) -> Option<u64> {
    let mut counted: Vec<usize> = Vec::new();
    let mut sum = 0;
    for processor in processors {
        if counted.contains(processor) {
            continue;
        }
        let caches = format!("/sys/devices/system/cpu/cpu{processor}/cache");
        let line = |index: u32, file: &str| {
            fs::read_to_string(format!("{caches}/index{index}/{file}")).ok()
        };
        let level = |index: &u32| line(*index, "level")?.trim().parse::<u32>().ok();
        let last = (0..16)
            .filter(|index| level(index).is_some())
            .max_by_key(level)?;
        sum += parse_kib(&line(last, "size")?)?;
        counted.extend(parse_list(&line(last, "shared_cpu_list")?)?);
        counted.push(*processor);
    }
    (sum > 0).then_some(sum)
}

/// `32768K`.
fn parse_kib(text: &str) -> Option<u64> {
    let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Memory that can be had without driving anything out, of the machine and of the control group; None
/// where nobody tells.
fn read_free_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let available = parse_available(&text)?;
    let usable = read_memory(&Root::machine())
        .items
        .into_iter()
        .find_map(|item| {
            let Facts::Memory(memory) = item.facts else {
                return None;
            };
            memory.usable_bytes.known().copied()
        });
    Some(usable.map_or(available, |usable| usable.min(available)))
}

/// `/proc/meminfo`.
fn parse_available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// How large each of the three arrays is.
fn plan_array_bytes(cache_bytes: Option<u64>, free_bytes: Option<u64>) -> Result<u64, String> {
    let wanted = cache_bytes.map_or(ARRAY_BYTES_MIN, |bytes| bytes.saturating_mul(TIMES_CACHE));
    let wanted = wanted.clamp(ARRAY_BYTES_MIN, ARRAY_BYTES_MAX);
    let free_bytes = free_bytes.ok_or("the kernel does not tell how much memory is free")?;
    if wanted * 3 > free_bytes / PART_OF_FREE {
        return Err(format!(
            "three arrays of {} MiB are needed to get past the caches, and {} MiB of memory are free: \
             measuring takes a quarter of that at most",
            wanted >> 20,
            free_bytes >> 20
        ));
    }
    Ok(wanted)
}

fn measure_node(
    node: &Node,
    array_bytes: u64,
    time: Duration,
    stop: &AtomicBool,
) -> Result<NodeBandwidth, String> {
    let threads = node.processors.len();
    let elements = array_bytes as usize / 8 / threads;
    let passes = Passes {
        barrier: Barrier::new(threads),
        seconds: Mutex::new(Vec::new()),
        end: AtomicBool::new(false),
    };
    let failed: Vec<String> = thread::scope(|scope| {
        let works: Vec<_> = node
            .processors
            .iter()
            .enumerate()
            .map(|(place, processor)| {
                let passes = &passes;
                scope.spawn(move || passes.work(*processor, elements, place == 0, time, stop))
            })
            .collect();
        let ended = works.into_iter().map(ScopedJoinHandle::join);
        ended
            .filter_map(|ended| match ended {
                Ok(result) => result.err(),
                Err(_) => Some("a thread that measured memory panicked".to_owned()),
            })
            .collect()
    });
    if let Some(why) = failed.into_iter().next() {
        return Err(why);
    }
    let mut seconds = passes.seconds.into_inner().expect("nobody panicked");
    seconds.sort_by(f64::total_cmp);
    let bytes = (elements * threads * BYTES_PER_ELEMENT) as f64;
    let rate = |seconds: Option<&f64>| seconds.map_or(0, |seconds| (bytes / seconds) as u64);
    Ok(NodeBandwidth {
        node: node.number,
        bytes_per_s: rate(seconds.first()),
        median_bytes_per_s: rate(seconds.get(seconds.len() / 2)),
        passes: seconds.len() as u64,
        threads: threads as u32,
        array_bytes: (elements * threads * 8) as u64,
        cache_bytes: None,
    })
}

/// Passes that all threads of a node make together.
struct Passes {
    barrier: Barrier,
    seconds: Mutex<Vec<f64>>,
    end: AtomicBool,
}

impl Passes {
    fn work(
        &self,
        processor: usize,
        elements: usize,
        leads: bool,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let pinned = pin(processor);
        // What is written first by this thread lies on its node. Zeros would only be promised.
        let mut a = vec![1.0; elements];
        let b = vec![2.0; elements];
        let c = vec![0.5; elements];
        let scale = std::hint::black_box(3.0);
        let begun = Instant::now();
        loop {
            self.barrier.wait();
            let pass_begun = Instant::now();
            triad(&mut a, &b, &c, scale);
            std::hint::black_box(&mut a);
            self.barrier.wait();
            if leads {
                let mut seconds = self.seconds.lock().expect("nobody panicked");
                seconds.push(pass_begun.elapsed().as_secs_f64());
                let over = begun.elapsed() >= time || stop.load(Ordering::Relaxed);
                self.end.store(over, Ordering::Relaxed);
            }
            // All see the same word of the one that leads.
            self.barrier.wait();
            if self.end.load(Ordering::Relaxed) {
                break;
            }
        }
        pinned?;
        if a.first() == Some(&3.5) || a.is_empty() {
            Ok(())
        } else {
            Err("memory holds another value than was written to it".to_owned())
        }
    }
}

fn triad(a: &mut [f64], b: &[f64], c: &[f64], scale: f64) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + scale * c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn arrays_are_larger_than_caches_and_leave_memory_to_others() {
        for (cache_mib, free_mib, expected_mib) in [
            (Some(32), Some(16_384), Some(128)),
            (Some(1), Some(16_384), Some(64)),
            (None, Some(16_384), Some(64)),
            (Some(1_152), Some(262_144), Some(2_048)),
            (Some(32), Some(1_535), None),
            (Some(32), None, None),
        ] {
            let planned = plan_array_bytes(
                cache_mib.map(|mib: u64| mib * MIB),
                free_mib.map(|mib: u64| mib * MIB),
            );
            assert_eq!(
                planned.ok(),
                expected_mib.map(|mib: u64| mib * MIB),
                "{cache_mib:?} of {free_mib:?}"
            );
        }
    }

    #[test]
    fn a_node_has_a_speed() {
        let node = Node {
            number: 0,
            processors: allowed().unwrap(),
        };
        let never = AtomicBool::new(false);
        let found = measure_node(&node, MIB, Duration::from_millis(5), &never).unwrap();
        assert!(found.bytes_per_s >= found.median_bytes_per_s && found.median_bytes_per_s > 0);
        assert!(found.passes > 0);
    }

    #[test]
    fn sizes_as_the_kernel_writes_them() {
        assert_eq!(parse_kib("32768K\n"), Some(32 * MIB));
        assert_eq!(parse_kib("32M"), None);
        let meminfo = "MemTotal:       24683652 kB\nMemAvailable:     2048 kB\n";
        assert_eq!(parse_available(meminfo), Some(2 * MIB));
        assert_eq!(parse_available("MemTotal: 5 kB\n"), None);
    }
}
