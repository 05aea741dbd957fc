//! Members in one process, with QUIC between them on the loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::{DurationMs, WallMs};
use tempfile::TempDir;
use transport::ca::{self, Subject, Validity};
use transport::{Identity, Role};

use super::super::{Begin, Facts, Group, GroupOptions, PeersAt};
use super::group::{batch, leads, propose};
use super::relay::{Cable, Relay};
use super::several::{Groups, PATIENT, until};
use crate::authority::Authority;

/// An authority, the data directories of some machines, and the groups that run on them.
struct House {
    directory: TempDir,
    addresses: BTreeMap<u64, SocketAddr>,
    /// In front of members that are to be reached through one.
    relays: BTreeMap<u64, Relay>,
    groups: Groups,
}

/// The third is the witness.
fn role(node: u64) -> Role {
    if node == 3 {
        Role::Witness
    } else {
        Role::Coordinator
    }
}

fn validity() -> Validity {
    Validity {
        now: WallMs(crate::clock::read_now().wall.0),
        lifetime: DurationMs::from_secs(3600),
    }
}

impl House {
    fn new() -> House {
        let directory = tempfile::tempdir().unwrap();
        let cluster = "prod".parse().unwrap();
        ca::create(&directory.path().join("ca"), &cluster, validity()).unwrap();
        House {
            directory,
            addresses: BTreeMap::new(),
            relays: BTreeMap::new(),
            groups: Groups::default(),
        }
    }

    /// The identity of a control machine.
    fn identity(&self, name: &str, node: u64) -> Identity {
        let out = self.directory.path().join("pki").join(name);
        let subject = Subject::new(role(node), &name.parse().unwrap()).node(node);
        ca::issue(
            &self.directory.path().join("ca"),
            &subject,
            &out,
            validity(),
        )
        .unwrap();
        Identity::load(&out).unwrap()
    }

    /// The first machine alone has its key.
    fn authority(&self, node: u64) -> Option<Authority> {
        let ca = self.directory.path().join("ca");
        let identity = self.identity("of-the-authority", node);
        let life = DurationMs::from_secs(7200);
        let authority = Authority::beside(&ca, &identity, life).unwrap();
        authority.filter(|_| node == 1)
    }

    fn data(&self, node: u64) -> PathBuf {
        let data = self.directory.path().join(format!("data-{node}"));
        std::fs::create_dir_all(&data).unwrap();
        data
    }

    /// An address that is the node's from now on.
    fn address(&mut self, node: u64) -> SocketAddr {
        *self.addresses.entry(node).or_insert_with(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        })
    }

    /// Has a node be reached by a cable that can be cut, from its next start on.
    async fn lay_cable(&mut self, node: u64) {
        let address = self.address(node);
        self.relays.insert(node, Relay::to(address).await);
    }

    fn cable(&self, node: u64) -> &Cable {
        &self.relays[&node].cable
    }

    fn reached_at(&mut self, node: u64) -> String {
        let address = self.address(node);
        let relay = self.relays.get(&node);
        relay.map_or(address, |relay| relay.address).to_string()
    }

    fn options(&mut self, node: u64, begin: Begin) -> GroupOptions {
        let address = self.address(node);
        let name = format!("c{node}");
        let mut options = GroupOptions::in_directory(&self.data(node), node, begin);
        options.timers = PATIENT;
        options.own = Facts {
            name: name.clone(),
            role: role(node),
            peers: self.reached_at(node),
            agents: format!("{name}.example:7411"),
            api: format!("https://{name}.example:7412"),
            token: String::new(),
            speaks: ledger::COMMANDS_VERSION,
        };
        options.peers = Some(PeersAt {
            authority: self.authority(node),
            identity: self.identity(&name, node),
            bind: address,
        });
        options
    }

    async fn start(&mut self, node: u64, begin: Begin) {
        let options = self.options(node, begin);
        let group = Group::start(options).await.unwrap();
        self.groups.insert(node, group);
    }

    async fn stop(&mut self, node: u64) {
        let group = self.groups.remove(&node).unwrap();
        group.stop().await.unwrap();
    }

    /// Asks who is at a node's address, and makes it a voter.
    async fn add(&mut self, to: u64, node: u64) {
        let address = self.reached_at(node);
        let leader = &self.groups[&to];
        let candidate = leader.meet(&address).await.unwrap();
        assert_eq!(candidate.node, node);
        leader.add(node, candidate.member).await.unwrap();
        let (_, mut voters) = leader.members();
        voters.insert(node);
        leader.set_voters(voters).await.unwrap();
    }

    /// Why a member would not add the machine at an address.
    async fn why_not(&self, by: u64, address: &str) -> String {
        let met = self.groups[&by].meet(address).await;
        met.unwrap_err().to_string()
    }

    /// Three voters, of which the first leads; some are reached by cables.
    async fn of_three(cables: &[u64]) -> House {
        let mut house = House::new();
        for node in cables {
            house.lay_cable(*node).await;
        }
        house.start(1, Begin::Alone).await;
        leads(&house.groups[&1]).await;
        assert_eq!(propose(&house.groups[&1]).await, 2);
        for node in [2, 3] {
            house.start(node, Begin::Join).await;
            house.add(1, node).await;
        }
        house
    }

    async fn stop_all(mut self) {
        let nodes: Vec<u64> = self.groups.keys().copied().collect();
        for node in nodes {
            self.stop(node).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_elect_replicate_hand_over_and_fail_over() {
    let mut house = House::of_three(&[]).await;
    assert_eq!(propose(&house.groups[&1]).await, 4);
    house.groups.agree(1).await;
    let (members, voters) = house.groups[&3].members();
    assert_eq!(voters, BTreeSet::from([1, 2, 3]));
    assert_eq!(members[&2].store, house.groups[&2].store());
    assert_eq!(members[&3].facts.role, Role::Witness);

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
    house.stop_all().await;
}

/// What a member says of itself is what all know of it, also after it has come back with other words
/// and at another address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_membership_follows_what_members_say_of_themselves() {
    let mut house = House::of_three(&[]).await;
    house.stop(2).await;
    house.addresses.remove(&2);
    let mut options = house.options(2, Begin::Join);
    options.own.api = "https://elsewhere.example:7412".to_owned();
    let expected = options.own.clone();
    house.groups.insert(2, Group::start(options).await.unwrap());
    for group in house.groups.values() {
        until("everybody knows where it is now", async || {
            group.members().0[&2].facts == expected
        })
        .await;
    }
    // And the leader reaches it there.
    until("it is connected to", async || {
        let peers = house.groups[&1].peers();
        peers[&2].connected.is_some() && peers[&2].trouble.is_none()
    })
    .await;
    let (_, minted) = house.groups.propose(&[1]).await;
    assert_eq!(minted, 4);
    house.groups.agree(1).await;
    house.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_knows_how_the_others_stand() {
    let house = House::of_three(&[]).await;
    propose(&house.groups[&1]).await;
    until(
        "the leader knows how far the others are, and their clocks",
        async || {
            let peers = house.groups[&1].peers();
            peers.len() == 2
                && peers.iter().all(|(&node, peer)| {
                    peer.connected.is_some()
                        && peer.heard.is_some()
                        && house.groups[&1].behind(node) == Some(0)
                        && peer.clock.is_some()
                })
        },
    )
    .await;
    let peers = house.groups[&1].peers();
    for (node, peer) in &peers {
        let clock = peer.clock.unwrap();
        // They share one.
        assert!(clock.ahead.0.abs() <= clock.unsure.0, "{node}: {clock:?}");
        assert!(clock.steady);
        let shown = house.directory.path().join("pki").join(format!("c{node}"));
        let shown = Identity::load(&shown).unwrap().lifetime();
        assert_eq!(peer.certificate, Some(shown));
        let facts = peer.facts.as_ref().unwrap();
        assert_eq!(facts, &house.groups[node].members().0[node].facts);
    }
    // How far the others are is the leader's to know.
    assert_eq!(house.groups[&2].behind(3), None);
    house.stop_all().await;
}

/// A witness, for instance: the authority's key is with a coordinator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_the_authoritys_key_is_renewed_by_one_that_has_it() {
    let house = House::of_three(&[]).await;
    for node in [2, 3] {
        let group = &house.groups[&node];
        until("it knows whom to ask", async || group.peers().len() == 2).await;
        let certificate = group.ask_for_certificate().await.unwrap();
        let name = format!("c{node}");
        let identity = Identity::load(&house.directory.path().join("pki").join(name)).unwrap();
        let before = identity.lifetime();
        // It is of this machine's name, number and key, or it would not be taken.
        let renewed = identity.take_renewed(&certificate).unwrap();
        assert!(renewed.until > before.until);
    }
    let refused = house.groups[&1].ask_for_certificate().await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("does not have the key"), "{refused}");
    house.stop_all().await;
}

/// The disk is new and the certificate is old: it has forgotten for whom it voted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_disk_does_not_vote_under_its_old_number() {
    let mut house = House::of_three(&[]).await;
    house.stop(2).await;
    std::fs::remove_dir_all(house.data(2)).unwrap();
    house.start(2, Begin::Join).await;
    until("the leader says why it does not speak to it", async || {
        let trouble = house.groups[&1].peers()[&2].trouble.clone();
        trouble.is_some_and(|it| it.contains("a certificate with a new number"))
    })
    .await;
    let address = house.reached_at(2);
    let error = house.why_not(1, &address).await;
    assert!(error.contains("the number was given twice"), "{error}");

    // Two voters are left: without one of them, nobody leads.
    house.stop(1).await;
    let alone = &house.groups[&3];
    let lonely = tokio::time::sleep(PATIENT.election_max * 3);
    let mut leadership = alone.leadership();
    tokio::select! {
        () = lonely => {}
        _ = leadership.wait_for(|now| now.leads) => panic!("it was elected by a wiped disk"),
    }
    assert!(
        house.groups[&2].members().0.is_empty(),
        "nothing was said to it"
    );
    house.stop_all().await;
}

/// Somebody has put back a copy of its files that is older than what it has acknowledged: who leads goes on
/// leading, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_a_disk_is_not_written_on() {
    let mut house = House::of_three(&[]).await;
    house.stop(3).await;
    let (data, copy) = (house.data(3), house.data(3).with_extension("copy"));
    copy_directory(&data, &copy);
    house.start(3, Begin::Join).await;
    propose(&house.groups[&1]).await;
    house.groups.agree(1).await;
    house.stop(3).await;
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    house.start(3, Begin::Join).await;
    until("the leader says why it sends it nothing", async || {
        let trouble = house.groups[&1].peers()[&3].trouble.clone();
        trouble.is_some_and(|it| it.contains("was exchanged for an older copy"))
    })
    .await;
    assert!(house.groups[&1].leadership().borrow().leads);
    propose(&house.groups[&1]).await;
    house.stop_all().await;
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_do_not_belong_are_not_spoken_to() {
    let mut house = House::new();
    house.start(1, Begin::Alone).await;
    leads(&house.groups[&1]).await;

    // A group of its own, in the same cluster.
    house.start(4, Begin::Alone).await;
    leads(&house.groups[&4]).await;
    let address = house.reached_at(4);
    let error = house.why_not(1, &address).await;
    assert!(error.contains("is of another group"), "{error}");
    // Both sides say so.
    until("the other one noted it", async || {
        let strangers = house.groups[&4].strangers();
        strangers
            .iter()
            .any(|it| it.who == "c1.coordinator.prod.matins" && it.why.contains("another group"))
    })
    .await;

    // Another cluster, of which the authority is another.
    let mut other = House::new();
    other.start(1, Begin::Alone).await;
    let address = other.reached_at(1);
    let error = house.why_not(1, &address).await;
    assert!(error.contains("is not signed by an authority"), "{error}");

    // Nobody there.
    let address = house.reached_at(9);
    let error = house.why_not(1, &address).await;
    assert!(error.contains("no answer from"), "{error}");

    // A certificate of another node than the data directory, and one of none.
    let mut options = house.options(5, Begin::Join);
    options.peers.as_mut().unwrap().identity = house.identity("c6", 6);
    let error = Group::start(options).await.err().unwrap().to_string();
    assert!(
        error.contains("says node 6, and its data directory is node 5"),
        "{error}"
    );
    let mut options = house.options(5, Begin::Join);
    let out = house.directory.path().join("pki/bare");
    let bare = Subject::new(Role::Witness, &"bare".parse().unwrap());
    ca::issue(&house.directory.path().join("ca"), &bare, &out, validity()).unwrap();
    options.peers.as_mut().unwrap().identity = Identity::load(&out).unwrap();
    let error = Group::start(options).await.err().unwrap().to_string();
    assert!(error.contains("`matins ca issue --node N`"), "{error}");
    other.stop_all().await;
    house.stop_all().await;
}

/// The log tells it only as far as the last entry was on its way already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_removed_is_told_by_the_others() {
    let mut house = House::of_three(&[]).await;
    until("all know that they are members", async || {
        let mut groups = house.groups.values();
        groups.all(|group| group.members().1.contains(&3) && !group.is_removed())
    })
    .await;
    house.groups[&1]
        .set_voters(BTreeSet::from([1, 2]))
        .await
        .unwrap();
    let told = async |house: &House| {
        until("the third was told", async || house.groups[&3].is_removed()).await;
    };
    told(&house).await;
    house.stop(3).await;
    house.start(3, Begin::Join).await;
    told(&house).await;
    assert!([1, 2].iter().all(|node| !house.groups[node].is_removed()));
    house.stop_all().await;
}

/// The others would look for it where nobody is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_be_found_again_is_not_added() {
    let mut house = House::new();
    house.start(1, Begin::Alone).await;
    leads(&house.groups[&1]).await;
    for (says, why) in [
        (String::new(), "does not say where it is reached"),
        (
            house.reached_at(1),
            "says that it is reached there, and it is not",
        ),
    ] {
        let mut options = house.options(2, Begin::Join);
        options.own.peers = says;
        house.groups.insert(2, Group::start(options).await.unwrap());
        let address = house.reached_at(2);
        let error = house.why_not(1, &address).await;
        assert!(error.contains(why), "{error}");
        assert!(error.contains("c2 (node 2)"), "{error}");
        assert!(error.contains("--advertise"), "{error}");
        house.stop(2).await;
    }
    house.stop_all().await;
}

/// A rolling upgrade: what the older member does not know is not proposed, until it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_a_member_does_not_know_is_refused() {
    let mut house = House::new();
    for (node, begin) in [(1, Begin::Alone), (2, Begin::Join)] {
        let mut options = house.options(node, begin);
        options.own.speaks = 0;
        house
            .groups
            .insert(node, Group::start(options).await.unwrap());
    }
    leads(&house.groups[&1]).await;
    house.add(1, 2).await;
    let refused = ledger::Refusal::NotKnownToAll {
        needs: 1,
        speaks: 0,
    };
    // The one that follows is upgraded first, and then the one that leads.
    for node in [2, 1] {
        let leader = house.groups.leader(&[1, 2]).await;
        assert_eq!(house.groups[&leader].speaks(), 0, "before {node}");
        let outcomes = house.groups[&leader].propose(batch()).await.unwrap();
        assert_eq!(outcomes.len(), 3);
        for outcome in outcomes {
            assert_eq!(outcome.result, Err(refused.clone()));
        }
        house.stop(node).await;
        house.start(node, Begin::Join).await;
    }
    let leader = house.groups.leader(&[1, 2]).await;
    until("all say what they know", async || {
        house.groups[&leader].speaks() == 1
    })
    .await;
    assert_eq!(house.groups.propose(&[1, 2]).await.1, 2);

    // Whoever knows less than all of them does not join.
    let mut options = house.options(3, Begin::Join);
    options.own.speaks = 0;
    house.groups.insert(3, Group::start(options).await.unwrap());
    let address = house.reached_at(3);
    let leader = house.groups.leader(&[1, 2]).await;
    let error = house.why_not(leader, &address).await;
    assert!(error.contains("upgrade it first"), "{error}");
    house.stop_all().await;
}

/// A member that takes packets slowly, or none, holds up neither the other one nor who leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_behind_a_slow_cable_holds_up_nobody() {
    let house = House::of_three(&[3]).await;
    let term = house.groups[&1].leadership().borrow().term;
    // A few hundred kilobytes a second at most, and far more to carry.
    house.cable(3).slow_us.store(3_000, Ordering::Relaxed);
    for _ in 0..20 {
        let large: Arc<[ledger::Proposal]> = (0..300).flat_map(|_| batch().to_vec()).collect();
        house.groups[&1].propose(large).await.unwrap();
    }
    let behind = || [2, 3].map(|node| house.groups[&1].behind(node));
    assert!(
        behind()[0] < behind()[1],
        "{:?}: nothing was behind",
        behind()
    );
    // Heartbeats and votes passed by the log.
    let heard = house.groups[&1].peers()[&3].heard;
    until("it is still heard", async || {
        house.groups[&1].peers()[&3].heard > heard
    })
    .await;
    assert_eq!(house.groups[&3].leadership().borrow().term, term);

    // Nothing comes through at all, and then it does again.
    house.cable(3).cut(true);
    propose(&house.groups[&1]).await;
    house.cable(3).slow_us.store(0, Ordering::Relaxed);
    house.cable(3).cut(false);
    house.groups.agree(1).await;
    assert_eq!(house.groups[&1].leadership().borrow().term, term);
    house.stop_all().await;
}

/// The leader is heard and hears nothing: nobody would be elected while it is, so it must fall silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_no_answers_does_not_lead_for_ever() {
    let house = House::of_three(&[1, 2, 3]).await;
    propose(&house.groups[&1]).await;
    for node in [2, 3] {
        house.cable(node).cut_back.store(true, Ordering::Relaxed);
    }
    assert!(
        house.groups[&1]
            .confirm(Duration::from_millis(300))
            .await
            .is_err()
    );
    // Among themselves they use the same cables; whoever is elected is so after these are mended.
    until("the first is not followed any more", async || {
        house.groups[&1]
            .peers()
            .values()
            .all(|it| it.connected.is_none())
    })
    .await;
    for node in [2, 3] {
        house.cable(node).cut_back.store(false, Ordering::Relaxed);
    }
    let (leader, _) = house.groups.propose(&[1, 2, 3]).await;
    house.groups.agree(leader).await;
    house.stop_all().await;
}

/// It begins again, and what had arrived of it has done nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_is_cut_off_half_way_is_sent_again() {
    let mut house = House::new();
    house.lay_cable(2).await;
    house.start(1, Begin::Alone).await;
    leads(&house.groups[&1]).await;
    for _ in 0..8 {
        let large: Arc<[ledger::Proposal]> = (0..300).flat_map(|_| batch().to_vec()).collect();
        house.groups[&1].propose(large).await.unwrap();
    }
    house.groups[&1].snapshot().await.unwrap();
    house.start(2, Begin::Join).await;
    house.cable(2).slow_us.store(1_000, Ordering::Relaxed);
    let address = house.reached_at(2);
    let candidate = house.groups[&1].meet(&address).await.unwrap();
    let snapshots = house.data(2).join("snapshots");
    let arrived = || -> u64 {
        let files = std::fs::read_dir(&snapshots).unwrap().flatten();
        // One that has just been removed has no bytes.
        files.map(|it| it.metadata().map_or(0, |it| it.len())).sum()
    };
    let cutting = async {
        until("some of it has arrived", async || arrived() > 200_000).await;
        house.cable(2).cut(true);
        until("it is given up, and takes up no room", async || {
            arrived() == 0
        })
        .await;
        assert!(house.groups[&2].members().0.is_empty());
        house.cable(2).slow_us.store(0, Ordering::Relaxed);
        house.cable(2).cut(false);
    };
    let adding = house.groups[&1].add(2, candidate.member);
    let (added, ()) = tokio::join!(adding, cutting);
    added.unwrap();
    house.groups.agree(1).await;
    house.stop_all().await;
}
