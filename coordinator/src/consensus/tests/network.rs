//! Members in one process, with QUIC between them on the loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use protocol::{DurationMs, WallMs};
use tempfile::TempDir;
use tokio::time::timeout;
use transport::ca::{self, Subject, Validity};
use transport::{Identity, Role};

use super::super::{Begin, Facts, Group, GroupOptions, PeersAt, ProposeError, Timers};
use super::group::{LIMIT, batch, content, epoch, leads, propose};

/// An authority, the data directories of some machines, and the groups that run on them.
pub(super) struct House {
    directory: TempDir,
    addresses: BTreeMap<u64, SocketAddr>,
    pub(super) groups: BTreeMap<u64, Group>,
    pub(super) timers: Timers,
}

/// The machine that tests may be busy; nobody is to be taken for dead for that.
pub(super) const PATIENT: Timers = Timers {
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_millis(1500),
    election_max: Duration::from_secs(3),
};

fn validity() -> Validity {
    Validity {
        now: WallMs(crate::clock::read_now().wall.0),
        lifetime: DurationMs::from_secs(3600),
    }
}

impl House {
    pub(super) fn new() -> House {
        let directory = tempfile::tempdir().unwrap();
        let cluster = "prod".parse().unwrap();
        ca::create(&directory.path().join("ca"), &cluster, validity()).unwrap();
        House {
            directory,
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
            timers: PATIENT,
        }
    }

    /// The identity of a control machine; the third is the witness.
    pub(super) fn identity(&self, name: &str, node: u64) -> Identity {
        let role = if node == 3 {
            Role::Witness
        } else {
            Role::Coordinator
        };
        let out = self.directory.path().join("pki").join(name);
        let subject = Subject::new(role, &name.parse().unwrap()).node(node);
        ca::issue(
            &self.directory.path().join("ca"),
            &subject,
            &out,
            validity(),
        )
        .unwrap();
        Identity::load(&out).unwrap()
    }

    pub(super) fn data(&self, node: u64) -> PathBuf {
        let data = self.directory.path().join(format!("data-{node}"));
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    /// An address that is the node's from now on.
    pub(super) fn address(&mut self, node: u64) -> SocketAddr {
        *self.addresses.entry(node).or_insert_with(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        })
    }

    pub(super) fn options(&mut self, node: u64, begin: Begin) -> GroupOptions {
        let address = self.address(node);
        let name = format!("c{node}");
        let mut options = GroupOptions::in_directory(&self.data(node), node, begin);
        options.timers = self.timers;
        options.own = Facts {
            name: name.clone(),
            role: if node == 3 {
                Role::Witness
            } else {
                Role::Coordinator
            },
            peers: address.to_string(),
            agents: format!("{name}.example:7411"),
            api: format!("https://{name}.example:7412"),
            speaks: ledger::COMMANDS_VERSION,
        };
        options.peers = Some(PeersAt {
            identity: self.identity(&name, node),
            bind: address,
        });
        options
    }

    pub(super) async fn start(&mut self, node: u64, begin: Begin) {
        let options = self.options(node, begin);
        let group = Group::start(options).await.unwrap();
        self.groups.insert(node, group);
    }

    pub(super) async fn stop(&mut self, node: u64) {
        let group = self.groups.remove(&node).unwrap();
        group.stop().await.unwrap();
    }

    /// Asks who is at a node's address, and makes it a voter.
    pub(super) async fn add(&mut self, to: u64, node: u64) {
        let address = self.address(node).to_string();
        let leader = &self.groups[&to];
        let candidate = leader.meet(&address).await.unwrap();
        assert_eq!(candidate.node, node);
        leader.add(node, candidate.member).await.unwrap();
        let (_, mut voters) = leader.members();
        voters.insert(node);
        leader.set_voters(voters).await.unwrap();
    }

    /// Three voters, of which the first leads.
    pub(super) async fn of_three(timers: Timers) -> House {
        let mut house = House::new();
        house.timers = timers;
        house.start(1, Begin::Alone).await;
        leads(&house.groups[&1]).await;
        assert_eq!(propose(&house.groups[&1]).await, 2);
        for node in [2, 3] {
            house.start(node, Begin::Join).await;
            house.add(1, node).await;
        }
        house
    }

    /// Who leads among `nodes`, once one of them does.
    pub(super) async fn leader(&self, nodes: &[u64]) -> u64 {
        let some = async {
            loop {
                for node in nodes {
                    let group = &self.groups[node];
                    if group.leadership().borrow().leads && group.confirm(LIMIT).await.is_ok() {
                        return *node;
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(LIMIT, some).await.unwrap()
    }

    /// Proposes to whoever of `nodes` leads; answers who that was, and the epoch.
    pub(super) async fn propose(&self, nodes: &[u64]) -> (u64, i64) {
        loop {
            let leader = self.leader(nodes).await;
            match self.groups[&leader].propose(batch()).await {
                Ok(outcomes) => return (leader, epoch(&outcomes)),
                // It led a moment ago.
                Err(ProposeError::NotLeading { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until all that are there hold the same.
    pub(super) async fn agree(&self, leader: u64) {
        let expected = content(&self.groups[&leader]).await;
        for group in self.groups.values() {
            until("the members hold the same", async || {
                content(group).await == expected
            })
            .await;
        }
    }

    pub(super) async fn stop_all(mut self) {
        let nodes: Vec<u64> = self.groups.keys().copied().collect();
        for node in nodes {
            self.stop(node).await;
        }
    }
}

/// Waits for something that is to come true by itself.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, held)
        .await
        .unwrap_or_else(|_| panic!("it does not come true that {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_elect_replicate_hand_over_and_fail_over() {
    let mut house = House::of_three(PATIENT).await;
    assert_eq!(propose(&house.groups[&1]).await, 4);
    house.agree(1).await;
    let (members, voters) = house.groups[&3].members();
    assert_eq!(voters, BTreeSet::from([1, 2, 3]));
    assert_eq!(members[&2].store, house.groups[&2].store());
    assert_eq!(members[&3].facts.role, Role::Witness);

    // Planned: the one that is told leads.
    house.groups[&1].transfer(2).await.unwrap();
    leads(&house.groups[&2]).await;
    assert_eq!(house.propose(&[1, 2, 3]).await, (2, 6));
    house.agree(2).await;

    // One goes, another leads; it comes back and has everything.
    house.stop(2).await;
    let (leader, minted) = house.propose(&[1, 3]).await;
    assert_eq!(minted, 8);
    house.start(2, Begin::Join).await;
    house.agree(leader).await;
    house.stop_all().await;
}
