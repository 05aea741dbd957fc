//! The third voter: a full replica of log and ledger that does no business. What it does about
//! leading is decided in the group.

use std::path::PathBuf;

use transport::{Identity, Role};

use crate::data_dir::DataDir;
use crate::member::Member;
use crate::membership::{Membership, Reached};
use crate::run::{CoordinatorError, asked_to_stop};

/// Everything a witness must be told.
#[derive(Clone, Debug)]
pub struct WitnessOptions {
    /// Made (mode 0700) where it is missing; one process at a time.
    pub data_dir: PathBuf,
    /// With `ca.pem`, `cert.pem` and `key.pem` of a witness.
    pub identity_dir: PathBuf,
    pub membership: Membership,
}

/// Runs a witness until SIGTERM or SIGINT. Until it is added to a group it waits. Needs a tokio runtime
/// with IO and time around it. An error of its files ends the process as a coordinator's does.
pub async fn run_witness(options: WitnessOptions) -> Result<(), CoordinatorError> {
    let identity = Identity::load(&options.identity_dir)?;
    if identity.name().role != Role::Witness {
        return Err(CoordinatorError::NoWitness {
            name: identity.name().to_string(),
        });
    }
    let data = DataDir::open(&options.data_dir)?;
    let reached = Reached {
        agents: None,
        api: None,
    };
    let group = options.membership.group(&data, &identity, reached)?;
    let node = group.node;
    let mut member = Member::start(group).await?;
    tracing::info!(node, "the witness is up");
    let stop = asked_to_stop()?;
    let lived = tokio::select! {
        () = stop => Ok(()),
        _ = &mut member.thread.ended => Err(CoordinatorError::Died { name: member.thread.name }),
    };
    if lived.is_ok() {
        member.stop().await;
        tracing::info!("the witness has stopped");
    }
    lived
}
