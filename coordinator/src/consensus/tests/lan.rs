//! A network between members, modelled: every message takes its time, may be lost, and each direction
//! can be cut by itself. What was asked may have been done though nothing is heard of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, Raft};
use tokio::time::sleep;

use super::super::Member;
use super::super::snapshots::{SnapshotFile, Snapshots};
use super::super::state::State;
use super::super::types::{SnapshotOf, Types, VoteCast};
use super::draw::Draw;

#[derive(Clone)]
pub(super) struct Lan(Arc<Mutex<Cables>>);

struct Cables {
    ends: BTreeMap<u64, End>,
    /// From whom to whom nothing comes through.
    cut: BTreeSet<(u64, u64)>,
    /// Messages that are lost, of a hundred.
    lossy: u64,
    draw: Draw,
}

#[derive(Clone)]
struct End {
    raft: Raft<Types, State>,
    snapshots: Snapshots,
}

impl Lan {
    pub(super) fn new(draw: Draw) -> Lan {
        Lan(Arc::new(Mutex::new(Cables {
            ends: BTreeMap::new(),
            cut: BTreeSet::new(),
            lossy: 0,
            draw,
        })))
    }

    pub(super) fn plug(&self, node: u64) -> Plug {
        Plug {
            lan: self.clone(),
            from: node,
        }
    }

    pub(super) fn attach(&self, node: u64, raft: Raft<Types, State>, snapshots: Snapshots) {
        self.cables().ends.insert(node, End { raft, snapshots });
    }

    pub(super) fn detach(&self, node: u64) {
        self.cables().ends.remove(&node);
    }

    pub(super) fn cut(&self, from: u64, to: u64) {
        self.cables().cut.insert((from, to));
    }

    pub(super) fn lose(&self, percent: u64) {
        self.cables().lossy = percent;
    }

    pub(super) fn heal(&self) {
        let mut cables = self.cables();
        cables.cut.clear();
        cables.lossy = 0;
    }

    fn cables(&self) -> MutexGuard<'_, Cables> {
        self.0.lock().unwrap()
    }
}

/// A member's cables.
pub(super) struct Plug {
    lan: Lan,
    from: u64,
}

pub(super) struct Link {
    lan: Lan,
    from: u64,
    to: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("nothing is heard")]
struct Nothing;

fn nothing() -> Unreachable<Types> {
    Unreachable::new(&Nothing)
}

impl Link {
    async fn travel(
        &self,
        from: u64,
        to: u64,
        option: &RPCOption,
    ) -> Result<(), Unreachable<Types>> {
        let (time, lost) = {
            let mut cables = self.lan.cables();
            let lossy = cables.lossy;
            let lost = cables.draw.percent(lossy) || cables.cut.contains(&(from, to));
            (cables.draw.time(0..8), lost)
        };
        if lost {
            sleep(option.hard_ttl()).await;
            return Err(nothing());
        }
        sleep(time).await;
        Ok(())
    }

    async fn ask<T, E, F>(
        &self,
        option: RPCOption,
        ask: impl FnOnce(End) -> F,
    ) -> Result<T, Unreachable<Types>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.travel(self.from, self.to, &option).await?;
        let end = self.lan.cables().ends.get(&self.to).cloned();
        let answer = ask(end.ok_or_else(nothing)?).await;
        let answer = answer.map_err(|_| nothing())?;
        self.travel(self.to, self.from, &option).await?;
        Ok(answer)
    }
}

impl RaftNetworkFactory<Types> for Plug {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _member: &Member) -> Link {
        Link {
            lan: self.lan.clone(),
            from: self.from,
            to: target,
        }
    }
}

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let ask = |end: End| async move { end.raft.append_entries(rpc).await };
        Ok(self.ask(option, ask).await?)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let ask = |end: End| async move { end.raft.vote(rpc).await };
        Ok(self.ask(option, ask).await?)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let ask = |end: End| async move { end.raft.pre_vote(rpc).await };
        Ok(self.ask(option, ask).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteCast,
        snapshot: SnapshotOf,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let ask = |end: End| async move {
            let arrived = end.snapshots.fresh();
            fs::copy(snapshot.snapshot.path(), arrived.path()).map_err(|_| ())?;
            let snapshot = SnapshotOf {
                meta: snapshot.meta,
                snapshot: arrived,
            };
            let installed = end.raft.install_full_snapshot(vote, snapshot).await;
            installed.map_err(|_| ())
        };
        Ok(self.ask(option, ask).await?)
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let ask = |end: End| async move { end.raft.handle_transfer_leader(request).await };
        Ok(self.ask(option, ask).await?)
    }
}
