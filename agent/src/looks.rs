//! The host is looked at all the time: a little of it often, the whole of it seldom.
//!
//! A short look reads what the kernel tells of arrays, memory errors and disks in a moment, on a thread
//! where nobody waits for it. Every ten of them, and whenever one finds something else than the one
//! before, [`look`](crate::look) reads the whole host in a process of its own. What is another profile
//! than before is looked at once more before it is told: a tool that failed once has lost no drive.
//!
//! What the host can do is measured by another child, after a look that says that it is due, and only while
//! no attempt lives; one that is started ends it.
//!
//! No look begins while one before it has not ended. One that hangs is told as what it is: the host's
//! health is unknown, since nobody can look.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::agent::Occasion;
use hardware::{DiskCounters, Health, Root, read_disk_counters, read_edac, read_md_arrays};
use probes::{Filling, Forecast};
use protocol::HostNow;
use protocol::host::{HostHealth, PROFILE_BYTES_MAX, ProfileDigest};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::chain::chain;
use crate::clock::now;
use crate::flushes::Flushes;
use crate::look::{Headline, REASONS_MAX};
use crate::run::Input;
use crate::scores::{Due, Measuring};

/// The whole host is looked at after so many short looks, if nothing is seen before.
const WHOLE_AFTER: u32 = 10;

/// How long a look may take before it is told that it hangs. Tools have limits of their own, and there
/// may be several.
const SHORT_MAX: Duration = Duration::from_secs(20);
const WHOLE_MAX: Duration = Duration::from_secs(180);

/// How long measuring may take, and how long until it has ended that was asked to.
const MEASURING_MAX: Duration = Duration::from_secs(120);
const STOPPING_MAX: Duration = Duration::from_secs(15);

/// Whole looks before that, for what was seen or is doubted.
const EXTRA_MAX: u32 = 3;

/// And where the tools of controllers are asked: some hold theirs up for as long.
const EXTRA_WITH_CONTROLLERS_MAX: u32 = 1;

/// A profile that is another one at so many looks in a row is told, however it changes.
const DOUBTS_MAX: u32 = 3;

/// What is known is told again after so long.
const DAY: Duration = Duration::from_secs(24 * 3600);

const DAY_MS: i64 = 24 * 3_600_000;

/// The first line is short; this only bounds what a broken child may say.
const LOOK_BYTES_MAX: usize = PROFILE_BYTES_MAX + 64 * 1024;

/// What nobody can tell.
const UNKNOWN: &str = "unknown";

/// How an agent looks at its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looking {
    /// Where `/proc` and `/sys` are found: `/`, but for trials.
    pub root: PathBuf,
    /// Runs [`write_look`](crate::write_look), given `root` and the data directory, and
    /// [`measure_host`](crate::measure_host).
    pub program: PathBuf,
    /// What is measured of it.
    pub measuring: Measuring,
    /// Between two short looks.
    pub every: Duration,
}

/// A host's profile as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenProfile {
    pub(crate) digest: ProfileDigest,
    /// JSON.
    pub(crate) bytes: Arc<[u8]>,
}

/// Why the host was not looked at.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("starting {}", program.display())]
    Start {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("reading what it found")]
    Read(#[from] std::io::Error),
    #[error("it ended with {0} and had not told anything")]
    Ended(std::process::ExitStatus),
    #[error("reading its first line")]
    Headline(#[from] serde_json::Error),
    #[error("it wrote more than {LOOK_BYTES_MAX} bytes")]
    TooMuch,
    #[error("it has not ended within {} s", limit.as_secs())]
    Hangs { limit: Duration },
    #[error("a thread for it broke down")]
    Thread(#[from] tokio::task::JoinError),
}

/// What is told of a disk that somebody must look after by tomorrow. Its health is still what it is.
fn soon_full(forecast: &Forecast) -> Option<String> {
    let full_in = forecast.full_in.filter(|full_in| full_in.0 < DAY_MS)?;
    let per_hour = forecast.hour_bytes_per_h.max(forecast.day_bytes_per_h)?;
    let mib_per_h = per_hour / (1 << 20);
    let hours = full_in.0 / (DAY_MS / 24);
    Some(format!(
        "the disk with the agent's files fills by {mib_per_h} MiB an hour: full in {hours} h"
    ))
}

/// What a short look sees.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    /// Each thing with its health, and each disk.
    things: Vec<String>,
    /// Of the things.
    worst: Health,
}

/// A short look, and what the kernel counts of the disks then.
type Short = (Sight, BTreeMap<String, DiskCounters>);

/// What becomes of a profile that was found.
#[derive(Debug, Default)]
struct Telling {
    told: Option<(ProfileDigest, Duration)>,
    /// Another one than was told, and how often in a row it was another one.
    doubted: Option<(ProfileDigest, u32)>,
}

impl Telling {
    /// Whether what a look found is to be told; `at` is the time since the first look.
    fn judge(&mut self, found: ProfileDigest, at: Duration) -> Option<Occasion> {
        let Some((told, told_at)) = self.told else {
            self.told = Some((found, at));
            return Some(Occasion::Look);
        };
        if found == told {
            self.doubted = None;
            if at.saturating_sub(told_at) < DAY {
                return None;
            }
            self.told = Some((found, at));
            return Some(Occasion::Daily);
        }
        let seen = match self.doubted {
            // What is another one at every look is told as well, at last.
            Some((doubted, _)) if doubted == found => DOUBTS_MAX,
            Some((_, seen)) => seen + 1,
            None => 1,
        };
        if seen < DOUBTS_MAX {
            self.doubted = Some((found, seen));
            return None;
        }
        self.doubted = None;
        self.told = Some((found, at));
        Some(Occasion::Look)
    }
}

/// When the whole host is looked at.
#[derive(Debug, Default)]
struct Rhythm {
    sight: Option<Sight>,
    /// Short looks since the last whole one that was due by itself.
    shorts: u32,
    /// Whole ones since then that were not.
    extra: u32,
}

impl Rhythm {
    /// Something else is known than at the last look.
    fn hasten(&mut self) {
        self.shorts = WHOLE_AFTER;
    }

    fn whole_is_due(&mut self, sight: Sight, doubted: bool, extra_max: u32) -> bool {
        let other = self.sight.as_ref() != Some(&sight);
        let first = self.sight.is_none();
        self.sight = Some(sight);
        self.shorts += 1;
        if first || self.shorts >= WHOLE_AFTER {
            (self.shorts, self.extra) = (0, 0);
            return true;
        }
        let extra = (other || doubted) && self.extra < extra_max;
        self.extra += u32::from(extra);
        extra
    }
}

struct Looks {
    looking: Looking,
    data_directory: PathBuf,
    inputs: mpsc::Sender<Input>,
    /// How many attempts live here.
    living: watch::Receiver<usize>,
    begun: Instant,
    /// Looks whose word of the host's health is told.
    seen: u64,
    telling: Telling,
    /// The last that was told.
    health: HostHealth,
    /// How fast the disk with the agent's files fills.
    filling: Filling,
    /// Whether it was told that it is soon full.
    fills: bool,
    flushes: Flushes,
    /// Whole looks that may come before one is due by itself.
    extra_max: u32,
    /// The last failure that was logged; the same one again is not news.
    failure: String,
}

/// Looks for as long as somebody takes what is found.
pub(crate) async fn run(
    looking: Looking,
    data_directory: PathBuf,
    inputs: mpsc::Sender<Input>,
    living: watch::Receiver<usize>,
) {
    let mut rhythm = Rhythm::default();
    let every = looking.every;
    let flushes = Flushes::read(&data_directory);
    let mut looks = Looks {
        looking,
        data_directory,
        inputs,
        living,
        begun: Instant::now(),
        seen: 0,
        telling: Telling::default(),
        health: HostHealth {
            look: 0,
            health: UNKNOWN.to_owned(),
            reasons: Vec::new(),
            rebuilding: false,
        },
        filling: Filling::default(),
        fills: false,
        flushes,
        extra_max: EXTRA_MAX,
        failure: String::new(),
    };
    while !looks.inputs.is_closed() {
        match looks.short().await {
            Ok((sight, counters)) => {
                looks.watch_flushes(counters);
                let worst = sight.worst;
                let doubted = looks.telling.doubted.is_some();
                if rhythm.whole_is_due(sight, doubted, looks.extra_max) {
                    let due = looks.whole().await;
                    if due.is_some() && looks.measure().await && due == Some(Due::Scores) {
                        rhythm.hasten();
                    }
                } else if worst.as_str() == looks.health.health {
                    // What is the worst was looked at, and is as it was.
                    looks.say(looks.health.clone()).await;
                }
            }
            Err(error) => looks.fail(&error).await,
        }
        sleep(every).await;
    }
}

impl Looks {
    async fn short(&mut self) -> Result<Short, LookError> {
        let root = self.looking.root.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let counters = read_disk_counters(&Root::directory(&root));
            (Sight::read(&root), counters)
        });
        let read = self.patiently(reading, SHORT_MAX).await;
        Ok(read?)
    }

    /// A disk that flushes slower than it did is told of among the reasons, and its health stays what it is.
    fn watch_flushes(&mut self, counters: BTreeMap<String, DiskCounters>) {
        let wall_ms = now().wall.0;
        for why in self.flushes.handle_counters(wall_ms, counters) {
            tracing::warn!(why, "a disk of this host has become slow");
        }
        if let Err(error) = self.flushes.write(&self.data_directory, wall_ms) {
            let why = error.to_string();
            tracing::warn!(why, "how fast disks flush is not kept");
        }
    }

    /// Waits for a look to end; says so where that takes too long, and waits on.
    async fn patiently<T>(&mut self, look: impl Future<Output = T>, limit: Duration) -> T {
        let mut look = pin!(look);
        if let Ok(ended) = timeout(limit, &mut look).await {
            return ended;
        }
        self.fail(&LookError::Hangs { limit }).await;
        look.await
    }

    /// Answers with what is to be measured.
    async fn whole(&mut self) -> Option<Due> {
        let child = look_once(self.looking.clone(), self.data_directory.clone());
        match self.patiently(child, WHOLE_MAX).await {
            Ok((headline, bytes)) => {
                let due = headline.due.filter(|_| !headline.rebuilding);
                self.note(headline, bytes).await;
                due
            }
            Err(error) => {
                self.fail(&error).await;
                None
            }
        }
    }

    /// Has the host measured while no attempt lives; whether that was done.
    async fn measure(&mut self) -> bool {
        if *self.living.borrow_and_update() > 0 {
            return false;
        }
        let measured = measure_once(&self.looking, &self.data_directory, &mut self.living).await;
        match measured {
            Ok(status) if status.success() => true,
            Ok(status) => {
                tracing::warn!(%status, "measuring this host failed");
                false
            }
            Err(error) => {
                let why = chain(&error);
                tracing::warn!(why, "this host cannot be measured");
                false
            }
        }
    }

    async fn note(&mut self, headline: Headline, bytes: Arc<[u8]>) {
        self.failure.clear();
        self.extra_max = if headline.has_controllers {
            EXTRA_WITH_CONTROLLERS_MAX
        } else {
            EXTRA_MAX
        };
        let digest = headline.digest;
        let mut reasons = headline.reasons;
        if let Some((size_bytes, free_bytes)) = headline.space {
            let at = now().boot;
            self.filling.handle_sample(at, size_bytes, free_bytes);
            let soon = soon_full(&self.filling.forecast());
            if let Some(why) = soon.as_ref().filter(|_| !self.fills) {
                tracing::warn!(why, "the disk with the output of attempts fills");
            }
            self.fills = soon.is_some();
            if let Some(soon) = soon {
                reasons.truncate(REASONS_MAX - 1);
                reasons.push(soon);
            }
        }
        if let Some(slow) = self.flushes.reasons().next() {
            reasons.truncate(REASONS_MAX - 1);
            reasons.push(slow);
        }
        self.say(HostHealth {
            look: 0,
            health: headline.health,
            reasons,
            rebuilding: headline.rebuilding,
        })
        .await;
        if let Some(occasion) = self.telling.judge(digest, self.begun.elapsed()) {
            let profile = WrittenProfile { digest, bytes };
            let told = Input::Profile { profile, occasion };
            // Nobody listens any more when the agent is stopping.
            let _ = self.inputs.send(told).await;
        }
    }

    /// Tells the health that a look has found.
    async fn say(&mut self, health: HostHealth) {
        self.seen += 1;
        let look = self.seen;
        if health.health != self.health.health {
            let (health, reasons) = (&health.health, &health.reasons);
            tracing::info!(health, ?reasons, "how this host fares");
        }
        self.health = HostHealth { look, ..health };
        let host = HostNow {
            health: Some(self.health.clone()),
            ..HostNow::default()
        };
        let _ = self.inputs.send(Input::Host(host)).await;
    }

    /// What nobody can look at is unknown.
    async fn fail(&mut self, error: &LookError) {
        let why = chain(error);
        if why != self.failure {
            tracing::warn!(why, "this host cannot be looked at");
            self.failure.clone_from(&why);
        }
        self.say(HostHealth {
            look: 0,
            health: UNKNOWN.to_owned(),
            reasons: vec![format!("the host cannot be looked at: {why}")],
            rebuilding: self.health.rebuilding,
        })
        .await;
    }
}

impl Sight {
    fn read(root: &Path) -> Sight {
        let place = Root::directory(root);
        let mut report = read_md_arrays(&place);
        report.append(read_edac(&place));
        let items = report.items.iter();
        let mut things: Vec<String> = items
            .clone()
            .map(|item| format!("{} {} {}", item.facts.kind(), item.id, item.health.as_str()))
            .collect();
        let disks = std::fs::read_dir(root.join("sys/block"));
        let disks = disks.into_iter().flatten().flatten();
        things.extend(disks.map(|disk| disk.file_name().to_string_lossy().into_owned()));
        things.sort();
        Sight {
            things,
            worst: items.map(|item| item.health).max().unwrap_or(Health::Ok),
        }
    }
}

/// Has a child measure until it has ended, or an attempt needs the host.
async fn measure_once(
    looking: &Looking,
    data_directory: &Path,
    living: &mut watch::Receiver<usize>,
) -> Result<ExitStatus, LookError> {
    // The end of its input, which that of this process is too, asks it to stop: a signal would leave its
    // file behind.
    let mut child = child(looking, data_directory)
        .arg("--take-measure")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|source| LookError::Start {
            program: looking.program.clone(),
            source,
        })?;
    let input = child.stdin.take();
    tokio::select! {
        ended = child.wait() => return Ok(ended?),
        // Whoever counts them ends with the agent.
        _ = living.wait_for(|&living| living > 0) => {}
        () = sleep(MEASURING_MAX) => {}
    }
    drop(input);
    if let Ok(ended) = timeout(STOPPING_MAX, child.wait()).await {
        return Ok(ended?);
    }
    child.kill().await?;
    Err(LookError::Hangs {
        limit: MEASURING_MAX,
    })
}

fn child(looking: &Looking, data_directory: &Path) -> Command {
    let mut child = Command::new(&looking.program);
    child
        .arg("look")
        .arg(format!("--root={}", looking.root.display()))
        .arg(format!("--data={}", data_directory.display()))
        .arg(format!("--measure={}", looking.measuring.as_str()));
    child
}

/// The whole host, as a child finds it.
async fn look_once(
    looking: Looking,
    data_directory: PathBuf,
) -> Result<(Headline, Arc<[u8]>), LookError> {
    let mut child = child(&looking, &data_directory)
        .arg(format!("--parent-pid={}", std::process::id()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| LookError::Start {
            program: looking.program,
            source,
        })?;
    let out = child.stdout.take().expect("it was asked for");
    let mut written = Vec::new();
    out.take(LOOK_BYTES_MAX as u64 + 1)
        .read_to_end(&mut written)
        .await?;
    if written.len() > LOOK_BYTES_MAX {
        return Err(LookError::TooMuch);
    }
    let status = child.wait().await?;
    let end = written.iter().position(|&byte| byte == b'\n');
    let Some(end) = end.filter(|_| status.success()) else {
        return Err(LookError::Ended(status));
    };
    let headline = serde_json::from_slice(&written[..end])?;
    Ok((headline, Arc::from(&written[end + 1..])))
}

#[cfg(test)]
mod tests {
    use protocol::DurationMs;

    use super::*;

    const A: ProfileDigest = ProfileDigest([1; 16]);
    const B: ProfileDigest = ProfileDigest([2; 16]);
    const C: ProfileDigest = ProfileDigest([3; 16]);

    #[test]
    fn another_profile_is_told_when_it_was_found_twice_or_is_never_the_same() {
        let other = |n| ProfileDigest([n; 16]);
        for (found, told) in [
            (vec![A, A, A], vec![A]),
            (vec![A, B, A, B, A], vec![A]),
            (vec![A, B, B, B], vec![A, B]),
            (vec![A, B, C, C], vec![A, C]),
            (vec![A, B, C, other(4), other(5)], vec![A, other(4)]),
        ] {
            let mut telling = Telling::default();
            let heard: Vec<ProfileDigest> = found
                .iter()
                .filter(|&&digest| telling.judge(digest, Duration::ZERO) == Some(Occasion::Look))
                .copied()
                .collect();
            assert_eq!(heard, told, "{found:?}");
        }
    }

    #[test]
    fn a_disk_is_told_of_that_is_full_by_tomorrow() {
        let forecast = |full_in_h: Option<i64>| Forecast {
            hour_bytes_per_h: Some(3 << 20),
            day_bytes_per_h: Some(2 << 20),
            full_in: full_in_h.map(|hours| DurationMs(hours * 3_600_000)),
        };
        let said = soon_full(&forecast(Some(23))).unwrap();
        assert!(said.contains("by 3 MiB an hour: full in 23 h"), "{said}");
        assert_eq!(soon_full(&forecast(Some(24))), None);
        assert_eq!(soon_full(&forecast(None)), None);
        assert_eq!(soon_full(&Forecast::default()), None);
    }

    #[test]
    fn what_is_known_is_told_once_a_day() {
        let mut telling = Telling::default();
        let mut told = Vec::new();
        for hour in 0..60 {
            let at = Duration::from_secs(hour * 3600);
            if let Some(occasion) = telling.judge(A, at) {
                told.push((hour, occasion));
            }
        }
        let daily = Occasion::Daily;
        assert_eq!(told, [(0, Occasion::Look), (24, daily), (48, daily)]);
    }

    #[test]
    fn the_whole_host_is_looked_at_now_and_then_and_when_something_is_seen() {
        let sight = |n: usize| Sight {
            things: vec!["sda".to_owned(); n],
            worst: Health::Ok,
        };
        let mut rhythm = Rhythm::default();
        let mut due = |n, doubted| rhythm.whole_is_due(sight(n), doubted, EXTRA_MAX);
        assert!(due(1, false), "the first");
        let quiet: Vec<bool> = (0..20).map(|_| due(1, false)).collect();
        assert_eq!(quiet.iter().filter(|&&due| due).count(), 2);
        assert!(quiet[9] && quiet[19]);
        assert!(due(2, false), "a disk came");
        assert!(due(2, true), "it is looked at once more");
        assert!(!due(2, false));
        // What is another one at every look does not keep a host busy.
        let restless: Vec<bool> = (0..20).map(|n| due(n + 3, true)).collect();
        // Two are due by themselves, and extra ones come before, between and after them.
        assert!(restless.iter().filter(|&&due| due).count() <= 2 + 3 * EXTRA_MAX as usize);
        // Nor its controllers: of 100 short looks the first, each tenth and one between.
        let mut rhythm = Rhythm::default();
        let mut due = |n| rhythm.whole_is_due(sight(n), true, EXTRA_WITH_CONTROLLERS_MAX);
        let restless = (0..100).filter(|&n| due(n)).count();
        assert_eq!(restless, 10 + 10);
    }

    #[tokio::test]
    async fn what_a_child_says_is_not_believed_blindly() {
        let home = tempfile::tempdir().unwrap();
        let looking = |program: &str| Looking {
            root: home.path().to_owned(),
            program: program.into(),
            measuring: Measuring::Off,
            every: Duration::from_secs(30),
        };
        for (program, expected) in [
            ("/nowhere/matins", "starting /nowhere/matins"),
            ("/bin/false", "it ended with exit status: 1"),
            ("/bin/true", "it ended with exit status: 0"),
            ("/bin/echo", "reading its first line"),
        ] {
            let looked = look_once(looking(program), home.path().to_owned()).await;
            let error = looked.unwrap_err().to_string();
            assert!(error.contains(expected), "{program}: {error}");
        }
    }
}
