//! The third voter: a full replica of log and ledger that does no business. What it does about
//! leading is decided in the group.

use std::path::PathBuf;
use std::sync::Arc;

use profiles::classes::Classes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use transport::{Identity, Role};

use crate::data_dir::DataDir;
use crate::fitness::{self, Fitness};
use crate::member::Member;
use crate::membership::{Membership, Reached};
use crate::renewal::{self, OwnCertificate};
use crate::run::{CoordinatorError, asked_to_stop};
use crate::standing;
use crate::time_service::{self, TimeService};

/// Everything a witness must be told.
#[derive(Clone, Debug)]
pub struct WitnessOptions {
    /// Made (mode 0700) where it is missing; one process at a time.
    pub data_dir: PathBuf,
    /// With `ca.pem`, `cert.pem` and `key.pem` of a witness.
    pub identity_dir: PathBuf,
    pub membership: Membership,
    /// Who is asked how this machine's clock is kept.
    pub time_service: TimeService,
    /// How it is found out whether this machine is what a control machine should be.
    pub fitness: Option<Fitness>,
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
        token: None,
    };
    let membership = &options.membership;
    // The authority's key has no business with a witness.
    let group = membership.group(&data, &identity, None, reached)?;
    let node = group.node;
    let mut member = Member::start(group).await?;
    let mut keeping = JoinSet::new();
    let of_group = Arc::downgrade(member.group());
    let (say, _) = watch::channel(OwnCertificate::of(&identity));
    keeping.spawn(renewal::keep(identity, None, of_group.clone(), say));
    let saying = time_service::ask(options.time_service).map_err(CoordinatorError::TimeService)?;
    keeping.spawn(time_service::tell(of_group.clone(), saying));
    if let Some(fitness) = options.fitness {
        fitness::watch(fitness, options.data_dir, &Classes::built_in(), of_group)?;
    }
    let (say, _stands) = watch::channel(standing::at_first(member.group()));
    tokio::spawn(standing::watch(Arc::downgrade(member.group()), say));
    tracing::info!(node, "the witness is up");
    let stop = asked_to_stop()?;
    let lived = tokio::select! {
        () = stop => Ok(()),
        _ = &mut member.thread.ended => Err(CoordinatorError::Died { name: member.thread.name }),
    };
    keeping.shutdown().await;
    if lived.is_ok() {
        member.stop().await;
        tracing::info!("the witness has stopped");
    }
    lived
}
