//! Three places with a machine in each, the clients that write, and the eye that looks whether all
//! holds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{fs, mem};

use ledger::power::Disk;
use tempfile::TempDir;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};
use transport::Role;

use super::super::super::retention::Limits;
use super::super::super::start::Workers;
use super::super::super::{Begin, Facts, Group, GroupOptions, Member, StoreId, Timers};
use super::super::draw::Draw;
use super::super::group::{batch, epoch};
use super::super::lan::Lan;
use super::disks::{self, Speed};
use super::invariants::{Acknowledged, Agreement, Leaders, Tokens};
use super::operator;
use super::runtime::Machine;
use super::transition::{Place, Transition};

/// How long faults go on.
const FAULTS: Duration = Duration::from_secs(40);

/// How long a group without faults may take until everything is in order.
const HEALED_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks at what the clients have met.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The place of the witness.
const WITNESS: Place = 2;

/// So that entries are purged and snapshots made all the time.
const LIMITS: Limits = Limits {
    keep: Duration::from_secs(2),
    look_every: Duration::from_secs(1),
    bytes_small: 0,
    bytes_max: 1 << 30,
};

/// The groups that run, as clients find them.
#[derive(Clone, Default)]
pub(super) struct Groups(Arc<Mutex<BTreeMap<u64, Arc<Group>>>>);

impl Groups {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Group>>> {
        self.0.lock().unwrap()
    }

    fn all(&self) -> Vec<(u64, Arc<Group>)> {
        let running = self.running();
        let all = running.iter();
        all.map(|(node, group)| (*node, Arc::clone(group)))
            .collect()
    }

    fn leaders(&self) -> Vec<(u64, Arc<Group>)> {
        let mut all = self.all();
        all.retain(|(_, group)| group.leadership().borrow().leads);
        all
    }

    /// The store of a node that waits, and a group that says that it leads.
    pub(super) fn newcomer_and_leader(&self, new: u64) -> Option<(StoreId, Arc<Group>)> {
        let store = self.running().get(&new)?.store();
        let (_, leader) = self.leaders().pop()?;
        Some((store, leader))
    }
}

/// A machine, whether it runs or not.
struct Standing {
    node: u64,
    directory: TempDir,
    disk: Disk,
    speed: Speed,
    life: Option<Arc<Machine>>,
}

/// What is seen and noted by all.
#[derive(Default)]
struct Notes {
    history: Vec<String>,
    acknowledged: Acknowledged,
    tokens: Tokens,
    /// What a client met that ends the simulation.
    broken: Option<String>,
}

type Shared = Arc<Mutex<Notes>>;

pub(super) struct World {
    begun: Instant,
    draw: Draw,
    lan: Lan,
    groups: Groups,
    places: Vec<Standing>,
    next_node: u64,
    /// Puts a new machine in the place of a lost one; one at a time.
    operator: Option<JoinHandle<()>>,
    clients: Vec<JoinHandle<()>>,
    notes: Shared,
    agreement: Agreement,
    leaders: Leaders,
}

impl World {
    /// Three voters, of which the first began alone.
    pub(super) async fn begin(seed: u64) -> World {
        // From here on the clock stands on whole milliseconds.
        sleep(Duration::from_millis(1)).await;
        let mut draw = Draw::new(seed);
        let mut world = World {
            begun: Instant::now(),
            lan: Lan::new(Draw::new(draw.next())),
            groups: Groups::default(),
            places: Vec::new(),
            next_node: 4,
            operator: None,
            clients: Vec::new(),
            notes: Shared::default(),
            agreement: Agreement::default(),
            leaders: Leaders::default(),
            draw,
        };
        for node in 1..=3 {
            let directory = tempfile::tempdir().unwrap();
            world.places.push(Standing {
                node,
                disk: Disk::watch(directory.path()),
                directory,
                speed: Speed::new(Draw::new(world.draw.next())),
                life: None,
            });
        }
        world.start(0, Begin::Alone).await;
        let first = world.group(0).unwrap();
        let mut leadership = first.leadership();
        leadership.wait_for(|now| now.leads).await.unwrap();
        for place in [1, 2] {
            world.start(place, Begin::Join).await;
            let store = world.group(place).unwrap().store();
            let facts = facts(place);
            let node = world.places[place].node;
            first.add(node, Member { store, facts }).await.unwrap();
        }
        first.set_voters([1, 2, 3].into()).await.unwrap();
        drop(first);
        for _ in 0..2 {
            let draw = Draw::new(world.draw.next());
            let client = client(world.groups.clone(), Arc::clone(&world.notes), draw);
            world.clients.push(tokio::spawn(client));
        }
        world
    }

    /// Goes on, with a fault now and then.
    pub(super) async fn live(&mut self) {
        let end = Instant::now() + FAULTS;
        while Instant::now() < end {
            let pause = self.draw.time(50..1200);
            self.pass(pause).await;
            let transition = Transition::draw(&mut self.draw);
            if self.applies(transition) {
                self.note(&format!("{transition:?}"));
                self.happens(transition).await;
            }
        }
    }

    /// Takes all faults back, and waits until the group is whole.
    pub(super) async fn heal(&mut self) {
        self.note("everything is mended");
        self.lan.heal();
        for place in 0..3 {
            self.places[place].speed.slow_down(Duration::ZERO);
            self.start(place, Begin::Join).await;
        }
        let end = Instant::now() + HEALED_WITHIN;
        while !self.is_whole().await {
            assert!(
                Instant::now() < end,
                "the group does not recover: {:#?}",
                self.state()
            );
            self.pass(Duration::from_millis(200)).await;
        }
        self.note("everything goes on");
    }

    /// Stops it all; answers what happened.
    pub(super) async fn end(mut self) -> Vec<String> {
        for client in mem::take(&mut self.clients) {
            client.abort();
        }
        for place in 0..3 {
            self.kill(place).await;
        }
        let leaders = self.leaders.count();
        let mut notes = self.notes.lock().unwrap();
        let acknowledged = notes.acknowledged.so_far().len();
        let mut history = mem::take(&mut notes.history);
        history.push(format!(
            "{acknowledged} acknowledged under {leaders} leaders"
        ));
        assert!(
            acknowledged > 20,
            "hardly anything was written: {history:#?}"
        );
        history
    }

    fn note(&self, what: &str) {
        let at = self.begun.elapsed().as_millis();
        let mut notes = self.notes.lock().unwrap();
        notes.history.push(format!("{at:>6} ms {what}"));
    }

    fn group(&self, place: Place) -> Option<Arc<Group>> {
        let node = self.places[place].node;
        self.groups.running().get(&node).cloned()
    }

    fn runs(&self, place: Place) -> bool {
        self.places[place].life.is_some()
    }

    /// Whether it can happen and would be seen.
    fn applies(&self, transition: Transition) -> bool {
        match transition {
            Transition::Start(place) => !self.runs(place),
            Transition::Kill(place)
            | Transition::PowerCut(place)
            | Transition::Transfer(place)
            | Transition::Snapshot(place) => self.runs(place),
            // One disk at a time, until another holds what it held.
            Transition::LoseDisk(_) => match &self.operator {
                Some(operator) => operator.is_finished(),
                None => true,
            },
            _ => true,
        }
    }

    async fn happens(&mut self, transition: Transition) {
        match transition {
            Transition::Kill(place) => self.kill(place).await,
            Transition::PowerCut(place) => self.cut_power(place).await,
            Transition::PowerCutOfAll => {
                for place in 0..3 {
                    self.cut_power(place).await;
                }
                for place in 0..3 {
                    self.start(place, Begin::Join).await;
                }
            }
            Transition::Start(place) => self.start(place, Begin::Join).await,
            Transition::CutOneWay(from, to) => self.cut(from, to),
            Transition::CutOff(place) => {
                for other in (0..3).filter(|other| *other != place) {
                    self.cut(place, other);
                    self.cut(other, place);
                }
            }
            Transition::LoseMessages(percent) => self.lan.lose(percent),
            Transition::Mend => self.lan.heal(),
            Transition::SlowDisk(place, by) => self.places[place].speed.slow_down(by),
            Transition::SlowDisks(by) => {
                for standing in &self.places {
                    standing.speed.slow_down(by);
                }
            }
            Transition::QuickDisk(place) => self.places[place].speed.slow_down(Duration::ZERO),
            Transition::Transfer(place) => {
                let to = self.places[place].node;
                for (node, leader) in self.groups.leaders() {
                    if node != to {
                        leader.transfer(to).await.unwrap();
                    }
                }
            }
            Transition::Snapshot(place) => {
                if let Some(group) = self.group(place) {
                    group.snapshot().await.unwrap();
                }
            }
            Transition::LoseDisk(place) => self.lose_disk(place).await,
        }
    }

    fn cut(&self, from: Place, to: Place) {
        self.lan.cut(self.places[from].node, self.places[to].node);
    }

    async fn start(&mut self, place: Place, begin: Begin) {
        if self.runs(place) {
            return;
        }
        let machine = Machine::new(self.draw.next());
        let standing = &mut self.places[place];
        standing.life = Some(Arc::clone(&machine));
        let node = standing.node;
        let mut options = GroupOptions::in_directory(standing.directory.path(), node, begin);
        options.own = facts(place);
        options.timers = Timers::default();
        let (plug, speed) = (self.lan.plug(node), standing.speed.clone());
        let work = |workers: Workers| {
            disks::work(workers, &speed);
            Ok(Vec::new())
        };
        let starting = Group::start_with(options, |_| plug, LIMITS, work);
        let group = machine.does(starting).await.unwrap();
        self.lan
            .attach(node, group.raft.clone(), group.snapshots.clone());
        self.groups.running().insert(node, Arc::new(group));
    }

    /// Ends the process at a place, in the middle of whatever it does.
    async fn kill(&mut self, place: Place) {
        let standing = &mut self.places[place];
        let Some(machine) = standing.life.take() else {
            return;
        };
        standing.disk.switch_off();
        self.lan.detach(standing.node);
        machine.end();
        let group = self.groups.running().remove(&standing.node);
        if let Some(group) = group {
            for task in &group.tasks {
                task.abort();
            }
        }
        // Whoever asked it something notices.
        for _ in 0..10_000 {
            if standing.disk.is_closed() {
                standing.disk.switch_on();
                return;
            }
            yield_now().await;
        }
        panic!("node {} does not end", standing.node);
    }

    async fn cut_power(&mut self, place: Place) {
        self.kill(place).await;
        let surviving = self.draw.of(&[0, 50, 100]);
        let draw = &mut self.draw;
        let lost = self.places[place].disk.lose(|| draw.percent(surviving));
        lost.unwrap();
    }

    async fn lose_disk(&mut self, place: Place) {
        self.kill(place).await;
        let standing = &mut self.places[place];
        let old = mem::replace(&mut standing.node, self.next_node);
        self.next_node += 1;
        fs::remove_dir_all(standing.directory.path()).unwrap();
        standing.directory = tempfile::tempdir().unwrap();
        standing.disk = Disk::watch(standing.directory.path());
        let new = standing.node;
        self.start(place, Begin::Join).await;
        let replacing = operator::replace(self.groups.clone(), old, new, facts(place));
        self.operator = Some(tokio::spawn(replacing));
    }

    /// Lets time pass, and looks whether all holds.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep(LOOK_EVERY).await;
            let broken = self.notes.lock().unwrap().broken.take();
            if let Some(broken) = broken {
                panic!("{broken}");
            }
        }
        for (node, group) in self.groups.all() {
            self.look(node, &group).await;
        }
    }

    /// Looks into a ledger; answers how far it has come, if it says so in time.
    async fn look(&mut self, node: u64, group: &Group) -> Option<u64> {
        let acknowledged = self.notes.lock().unwrap().acknowledged.so_far();
        let limit = Duration::from_millis(300);
        let before = *group.leadership().borrow();
        let leads = group.confirm(limit).await.is_ok();
        if leads && before.leads && *group.leadership().borrow() == before {
            self.leaders.confirmed(node, before);
        }
        let looking = group.look(|store| (store.applied().unwrap(), store.dump().unwrap()));
        let (applied, dump) = timeout(limit, looking).await.ok()?.ok()?;
        if leads {
            Acknowledged::check(&acknowledged, node, &dump);
        }
        let applied = applied.position?.index;
        self.agreement.look(node, applied, dump);
        Some(applied)
    }

    /// Whether all three vote, hold the same, and something new was acknowledged.
    async fn is_whole(&mut self) -> bool {
        if self.operator.as_ref().is_some_and(|it| !it.is_finished()) {
            return false;
        }
        let Some((_, leader)) = self.groups.leaders().pop() else {
            return false;
        };
        let answer = timeout(Duration::from_secs(3), leader.propose(batch())).await;
        if !matches!(answer, Ok(Ok(_))) {
            return false;
        }
        let mine: BTreeSet<u64> = self.places.iter().map(|standing| standing.node).collect();
        if leader.members().1 != mine {
            return false;
        }
        // While nobody writes.
        for client in mem::take(&mut self.clients) {
            client.abort();
        }
        sleep(Duration::from_secs(2)).await;
        let mut reached = Vec::new();
        for (node, group) in self.groups.all() {
            reached.push(self.look(node, &group).await);
        }
        reached.len() == 3 && reached[0].is_some() && reached.iter().all(|at| *at == reached[0])
    }

    fn state(&self) -> Vec<String> {
        let history = &self.notes.lock().unwrap().history;
        let mut lines = history.clone();
        for (node, group) in self.groups.all() {
            let leadership = *group.leadership().borrow();
            let voters = group.members().1;
            lines.push(format!("node {node}: {leadership:?} {voters:?}"));
        }
        lines
    }
}

fn facts(place: Place) -> Facts {
    Facts {
        role: if place == WITNESS {
            Role::Witness
        } else {
            Role::Coordinator
        },
        ..Facts::default()
    }
}

const PAUSE_MS: Range<u64> = 1..80;

/// Writes to whoever says that it leads, and notes what is acknowledged.
async fn client(groups: Groups, notes: Shared, mut draw: Draw) {
    loop {
        sleep(draw.time(PAUSE_MS)).await;
        let leaders = groups.leaders();
        if leaders.is_empty() {
            continue;
        }
        let (node, leader) = draw.of(&leaders);
        drop(leaders);
        let highest = notes.lock().unwrap().tokens.highest();
        let answer = timeout(Duration::from_secs(3), leader.propose(batch())).await;
        drop(leader);
        if let Ok(Ok(outcomes)) = answer {
            let token = epoch(&outcomes);
            let mut notes = notes.lock().unwrap();
            if let Err(broken) = notes.tokens.minted(token, highest) {
                notes.broken = Some(format!("node {node}: {broken}"));
            }
            notes.acknowledged.note(token);
            notes
                .history
                .push(format!("{token} acknowledged by {node}"));
        }
    }
}
