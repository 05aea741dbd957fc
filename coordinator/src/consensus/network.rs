//! The network of a group that has one voter: there is nobody to speak to.

use std::future::Future;

use openraft::OptionalSend;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};

use super::snapshots::SnapshotFile;
use super::types::{Member, SnapshotOf, Types, VoteCast};

pub(super) struct NoPeers;

pub(super) struct NoPeer;

#[derive(Debug, thiserror::Error)]
#[error("this group has one voter and no network to others")]
struct Nobody;

fn nobody() -> Unreachable<Types> {
    Unreachable::new(&Nobody)
}

impl RaftNetworkFactory<Types> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, _target: u64, _member: &Member) -> NoPeer {
        NoPeer
    }
}

impl RaftNetworkV2<Types> for NoPeer {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(nobody()))
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(RPCError::Unreachable(nobody()))
    }

    async fn full_snapshot(
        &mut self,
        _vote: VoteCast,
        _snapshot: SnapshotOf,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(StreamingError::Unreachable(nobody()))
    }
}
