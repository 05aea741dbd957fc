//! Three members in one process, with a modelled network that can be cut.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::Store;
use protocol::Rules;
use tempfile::TempDir;
use transport::Role;

use super::super::retention::Limits;
use super::super::start::Workers;
use super::super::{Begin, ChangeError, Facts, Group, GroupOptions, Member, ProposeError, Timers};
use super::draw::Draw;
use super::group::{LIMIT, batch, epoch, leads, propose};
use super::lan::Lan;
use super::several::{Groups, PATIENT};

pub(super) struct House {
    lan: Lan,
    /// A directory for each node, below this one.
    directory: PathBuf,
    pub(super) groups: Groups,
    timers: Timers,
    witness: Option<u64>,
    /// The directory, if it goes with the house.
    own: Option<TempDir>,
}

impl House {
    /// Three voters, of which the first has led a ledger of its own before.
    async fn of_three() -> House {
        House::of(PATIENT, None).await
    }

    /// As [`House::of_three`]; the third may be a witness.
    async fn of(timers: Timers, witness: Option<u64>) -> House {
        let own = tempfile::tempdir().unwrap();
        let mut house = House {
            timers,
            witness,
            ..House::at(own.path())
        };
        house.own = Some(own);
        house.found().await;
        house
    }

    /// An empty house that keeps its files in a directory.
    pub(super) fn at(directory: &Path) -> House {
        House {
            lan: Lan::new(Draw::new(0)),
            directory: directory.to_owned(),
            groups: Groups::default(),
            timers: PATIENT,
            witness: None,
            own: None,
        }
    }

    pub(super) async fn found(&mut self) {
        fs::create_dir(self.directory_of(1)).unwrap();
        let first = GroupOptions::in_directory(&self.directory_of(1), 1, Begin::Alone);
        let mut store = Store::open(&first.ledger, Rules::all()).unwrap();
        assert_eq!(epoch(&store.propose(&batch()).unwrap()), 2);
        drop(store);
        self.start(1, Begin::Alone).await;
        leads(&self.groups[&1]).await;
        for node in [2, 3] {
            self.start(node, Begin::Join).await;
        }
        self.join().await;
    }

    /// Makes voters of all that run. A change that is under way is waited for.
    pub(super) async fn join(&self) {
        let all: Vec<u64> = self.groups.keys().copied().collect();
        let joined = async {
            loop {
                let leader = self.groups.leader(&all).await;
                if self.try_to_join(leader).await.is_ok() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, joined).await.unwrap();
    }

    async fn try_to_join(&self, leader: u64) -> Result<(), ChangeError> {
        for (node, group) in self.groups.iter() {
            let member = Member {
                store: group.store(),
                facts: self.facts(*node),
            };
            if *node != leader {
                self.groups[&leader].add(*node, member).await?;
            }
        }
        let voters = self.groups.keys().copied().collect();
        self.groups[&leader].set_voters(voters).await
    }

    fn directory_of(&self, node: u64) -> PathBuf {
        self.directory.join(node.to_string())
    }

    fn facts(&self, node: u64) -> Facts {
        Facts {
            role: if self.witness == Some(node) {
                Role::Witness
            } else {
                Role::Coordinator
            },
            ..Facts::default()
        }
    }

    pub(super) async fn start(&mut self, node: u64, begin: Begin) {
        let directory = self.directory_of(node);
        fs::create_dir_all(&directory).unwrap();
        let plug = self.lan.plug(node);
        let mut options = GroupOptions::in_directory(&directory, node, begin);
        options.timers = self.timers;
        options.own = self.facts(node);
        let group = Group::start_with(options, |_| plug, Limits::default(), Workers::start)
            .await
            .unwrap();
        self.lan
            .attach(node, group.raft.clone(), group.snapshots.clone());
        self.groups.insert(node, group);
    }

    pub(super) async fn stop(&mut self, node: u64) {
        self.lan.detach(node);
        let group = self.groups.remove(&node).unwrap();
        group.stop().await.unwrap();
    }

    fn cut_off(&self, node: u64) {
        for other in self.groups.keys().filter(|other| **other != node) {
            self.lan.cut(node, *other);
            self.lan.cut(*other, node);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_join_hold_what_was_there_before_the_log() {
    let mut house = House::of_three().await;
    assert_eq!(propose(&house.groups[&1]).await, 4);
    house.groups.agree(1).await;
    let (members, voters) = house.groups[&3].members();
    assert_eq!(members[&3].store, house.groups[&3].store());
    assert_eq!(voters, [1, 2, 3].into());

    // Planned: the one that is told leads.
    house.groups[&1].transfer(2).await.unwrap();
    leads(&house.groups[&2]).await;
    assert_eq!(house.groups.propose(&[1, 2, 3]).await, (2, 6));
    house.groups.agree(2).await;

    // One goes, another leads; it comes back and has everything.
    house.stop(2).await;
    let (leader, minted) = house.groups.propose(&[1, 3]).await;
    assert_eq!(minted, 8);
    house.start(2, Begin::Join).await;
    house.groups.agree(leader).await;
    for node in [1, 2, 3] {
        house.stop(node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_confirms_nothing_and_what_it_proposed_may_be_lost() {
    let house = House::of_three().await;
    house.cut_off(1);
    let lost = house.groups[&1].propose(batch());
    let others = async {
        let (leader, minted) = house.groups.propose(&[2, 3]).await;
        assert_eq!(minted, 4);
        assert!(
            house.groups[&1]
                .confirm(Duration::from_millis(50))
                .await
                .is_err()
        );
        house.lan.heal();
        leader
    };
    let (lost, leader) = tokio::join!(lost, others);
    assert_eq!(lost, Err(ProposeError::Unknown));
    house.groups.agree(leader).await;
    // Nothing of it was applied anywhere.
    assert_eq!(house.groups.propose(&[1, 2, 3]).await.1, 6);
}

/// An entry is on the first coordinator and the witness, and the first dies: the second cannot win,
/// since it lacks the entry, and the witness brings it up and hands over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_witness_leads_where_nobody_else_can_and_hands_over() {
    let mut house = House::of(Timers::default(), Some(3)).await;
    house.cut_off(2);
    assert_eq!(house.groups.propose(&[1]).await, (1, 4));
    house.stop(1).await;
    let mut witness = house.groups[&3].leadership();
    house.lan.heal();
    let led = witness.wait_for(|now| now.leads);
    tokio::time::timeout(LIMIT, led).await.unwrap().unwrap();
    assert_eq!(house.groups.propose(&[2]).await, (2, 6));
    house.groups.agree(2).await;

    // Where a coordinator can win, the witness leaves it to it; also after a restart.
    house.stop(3).await;
    house.start(3, Begin::Join).await;
    house.start(1, Begin::Join).await;
    assert_eq!(house.groups.propose(&[2]).await, (2, 8));
    house.groups.agree(2).await;
    house.stop(2).await;
    assert_eq!(house.groups.propose(&[1]).await, (1, 10));
    assert_ne!(house.groups[&3].leadership().borrow().leader, Some(3));
}
