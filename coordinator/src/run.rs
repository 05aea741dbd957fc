//! From nothing to serving, and back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coordinator_core::address::Trouble;
use coordinator_core::clock::Thresholds;
use coordinator_core::{Afterwards, NoSuccessor};
use profiles::classes::Classes;
use protocol::DurationMs;
use protocol::message::Incarnation;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::timeout;
use transport::https::HttpsServer;
use transport::identity::CA_FILE;
use transport::{Identity, IdentityError, ListenError, Listener, Role, TlsError};

use crate::address;
use crate::agents;
use crate::api::{self, Api, ApiListener, OpenOutputs, Readers};
use crate::authority::{Authority, AuthorityError};
use crate::backups::{self, BackupSchedule};
use crate::class_file::ClassFile;
use crate::clock::read_boot_id;
use crate::committer;
use crate::consensus::GroupError;
use crate::data_dir::{DataDir, DataDirError};
use crate::engine::{self, Engine, HandOverError, Input, REQUEST_LIMIT, Scheduler};
use crate::exit::causes;
use crate::fitness::{self, Fitness};
use crate::lead::{self, About, Lead};
use crate::member::Member;
use crate::members;
use crate::membership::{Membership, Reached, is_in_the_clear};
use crate::metrics::Metrics;
use crate::quorum::Quorum;
use crate::registration::Registry;
use crate::renewal::{self, OwnCertificate};
use crate::roster::Roster;
use crate::time_service::{self, Saying, TimeService};
use crate::token::ApiToken;

/// How long requests under way may take when the process is asked to stop.
const FAREWELL_LIMIT: Duration = REQUEST_LIMIT;

/// How long the last batch may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How long a coordinator looks for who leads before it says where it can be found all the same.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// Everything a coordinator must be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Made (mode 0700) where it is missing; one coordinator at a time.
    pub data_dir: PathBuf,
    /// With `ca.pem`, `cert.pem` and `key.pem` of a coordinator.
    pub identity_dir: PathBuf,
    /// UDP address where agents attach.
    pub agents_addr: SocketAddr,
    /// TCP address of the HTTP API: in the clear on loopback, over TLS everywhere else.
    pub api_addr: SocketAddr,
    /// How it takes part in its group.
    pub membership: Membership,
    /// What this coordinator is called in the ledger and in answers.
    pub node: String,
    /// How far from the fleet's clocks this machine's may be.
    pub clock: Thresholds,
    /// Which hosts are of which class.
    pub classes: ClassFile,
    /// Who is asked how this machine's clock is kept.
    pub time_service: TimeService,
    /// Socket of the process that keeps the leader's address, where there is one.
    pub address_keeper: Option<PathBuf>,
    /// Backups that it makes while it leads.
    pub backups: Option<BackupSchedule>,
    /// How long the certificates are good that it gives, where it has the authority's key.
    pub certificate_life: DurationMs,
    /// How it is found out whether this machine is what a control machine should be.
    pub fitness: Option<Fitness>,
}

/// Why a coordinator did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("setting up TLS for the API")]
    ApiTls(#[from] TlsError),
    #[error("finding out where the identity's directory is")]
    Place(#[source] io::Error),
    #[error("preparing the data directory")]
    DataDir(#[from] DataDirError),
    #[error("loading the coordinator's identity")]
    Identity(#[from] IdentityError),
    #[error(
        "the certificate of {name} is no witness's: issue one with `matins ca issue --role witness --node N`"
    )]
    NoWitness { name: String },
    #[error(
        "{name} waits to be added to a group, and nobody has said where others reach it: it listens on all of its addresses. Start it with `--advertise HOST`, its name or address for the others"
    )]
    NoAddress { name: String },
    #[error("taking part in the group")]
    Group(#[source] Box<GroupError>),
    #[error("listening for agents")]
    Agents(#[from] ListenError),
    #[error("listening for the API on {address}")]
    Api {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("drawing this process's incarnation")]
    Random(#[source] getrandom::Error),
    #[error("starting the thread that asks the time service")]
    TimeService(#[source] io::Error),
    #[error("reading the kernel's boot id")]
    BootId(#[source] io::Error),
    #[error("starting the thread `{name}`")]
    Thread {
        name: &'static str,
        source: io::Error,
    },
    #[error("listening for signals")]
    Signals(#[source] io::Error),
    #[error("the thread `{name}` ended by itself; the log before this says why")]
    Died { name: &'static str },
    #[error("serving the API")]
    Serving(#[source] io::Error),
}

impl From<GroupError> for CoordinatorError {
    fn from(error: GroupError) -> CoordinatorError {
        CoordinatorError::Group(Box::new(error))
    }
}

/// Runs a coordinator until SIGTERM or SIGINT: then it gives the lead to another, where there is one,
/// requests under way are answered, the batch in the ledger's hands is committed, and it returns.
///
/// Needs a tokio runtime with IO and time around it, of one thread or several. When the ledger fails,
/// the process ends at once, with [`LEDGER_FAILED`](crate::LEDGER_FAILED).
pub async fn run(options: Options) -> Result<(), CoordinatorError> {
    run_until(options, asked_to_stop()?).await
}

/// Ready when SIGTERM or SIGINT has come.
pub(crate) fn asked_to_stop() -> Result<impl Future<Output = ()>, CoordinatorError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(CoordinatorError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CoordinatorError::Signals)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!(signal = "SIGTERM", "asked to stop"),
            _ = interrupt.recv() => tracing::info!(signal = "SIGINT", "asked to stop"),
        }
    })
}

/// As [`run`], until `stop` is ready instead of a signal.
pub async fn run_until(
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), CoordinatorError> {
    let identity = Identity::load(&options.identity_dir)?;
    let data = DataDir::open(&options.data_dir)?;
    let token = data.token()?;
    let agents = Listener::bind(options.agents_addr, &identity, Role::Agent)?;
    let (listener, api_address) = bind_api(options.api_addr).await?;
    let api_door = ApiDoor::new(api_address, &options.identity_dir, &identity)?;
    let reached = Reached {
        agents: Some(agents.local_addr()),
        api: Some(api_address),
        token: Some(token.digest()),
    };
    let authority = Authority::beside(&options.identity_dir, &identity, options.certificate_life)?;
    let membership = &options.membership;
    let group = membership.group(&data, &identity, authority.clone(), reached)?;
    let ledger = group.ledger.clone();
    let member = Member::start(group).await?;

    let time_service =
        time_service::ask(options.time_service).map_err(CoordinatorError::TimeService)?;
    let roster = Arc::new(Roster::default());
    let (say, certificate) = watch::channel(OwnCertificate::of(&identity));
    let mut threads = Threads::start(
        member,
        &options.node,
        certificate.clone(),
        options.clock,
        Arc::clone(&options.classes.classes),
        time_service.clone(),
        Arc::clone(&roster),
    )?;
    if let Some(keeper) = options.address_keeper {
        threads.hold_address(keeper);
    }
    let of_group = || Arc::downgrade(threads.member.group());
    let digest = options.classes.classes.digest();
    threads
        .member
        .group()
        .tell(|said| said.classes = Some(digest));
    if let Some(fitness) = options.fitness {
        let data_dir = options.data_dir.clone();
        fitness::watch(fitness, data_dir, &options.classes.classes, of_group())?;
    }
    let authority = authority.map(Arc::new);
    let mut keeping = JoinSet::new();
    keeping.spawn(renewal::keep(
        identity,
        authority.as_deref().cloned(),
        Arc::downgrade(threads.member.group()),
        say,
    ));
    keeping.spawn(time_service::tell(of_group(), time_service.clone()));
    let api = Api {
        authority,
        engine: threads.engine.clone(),
        lead: threads.lead.clone(),
        readers: Readers::new(ledger),
        metrics: Arc::clone(&threads.metrics),
        roster,
        outputs: OpenOutputs::default(),
        token: Arc::new(token.clone()),
        classes: options.classes,
        node: options.node.as_str().into(),
        agents_address: agents.local_addr(),
        address_trouble: threads.address_trouble.subscribe(),
        certificate,
        time_service,
    };
    let listener = ApiListener::new(listener, api_door.https.clone());
    if let Some(schedule) = options.backups {
        let engine = threads.engine.clone();
        keeping.spawn(backups::keep(
            schedule,
            options.data_dir,
            options.node,
            engine,
        ));
    }
    let doors = Doors::open(agents, listener, api);
    let house = House {
        data,
        token,
        api_door,
        threads,
        doors,
        _keeping: keeping,
    };
    house.live(stop).await
}

/// All the parts while they run.
struct House {
    data: DataDir,
    token: ApiToken,
    api_door: ApiDoor,
    threads: Threads,
    doors: Doors,
    /// What makes backups and renews the certificate; ends with the house.
    _keeping: JoinSet<()>,
}

impl House {
    async fn live(mut self, stop: impl Future<Output = ()>) -> Result<(), CoordinatorError> {
        let lived = self.open_until(stop).await;
        if lived.is_ok() {
            self.threads.hand_over().await;
        }
        // From here on nobody new comes in, and whoever is in gets an answer.
        let unpublished = self.data.unpublish();
        self.doors.close_api(lived.is_ok()).await;
        // What a thread that died left undone, nobody does any more; the files stand that.
        if !matches!(lived, Err(CoordinatorError::Died { .. })) {
            self.threads.stop().await;
        }
        self.doors.close_agents().await;
        tracing::info!("the coordinator has stopped");
        lived?;
        Ok(unpublished?)
    }

    /// Says where it can be found, which a program takes for a sign that it can be asked: once it acts,
    /// or knows that it does not. Stays until it is asked to stop or cannot go on.
    async fn open_until(&mut self, stop: impl Future<Output = ()>) -> Result<(), CoordinatorError> {
        let lead = self.threads.lead.clone();
        let published = async {
            if let Some(standing) = lead.settled(SETTLE_LIMIT).await {
                let url = self.api_door.url();
                self.data.publish(&url, &self.token, &self.api_door.ca)?;
                tracing::info!(
                    api = url,
                    agents = %self.doors.agents.local_addr(),
                    ?standing,
                    "the coordinator is up"
                );
            }
            // Where it is neither, its thread has ended, and that is noticed beside this.
            std::future::pending::<Result<(), DataDirError>>().await
        };
        tokio::select! {
            died = self.threads.died() => Err(died),
            served = &mut self.doors.api_task => Err(serving_ended(served)),
            published = published => Ok(published?),
            () = stop => Ok(()),
        }
    }
}

/// The threads, as seen from outside.
struct Threads {
    engine: Engine,
    lead: Lead,
    following: JoinHandle<()>,
    address: Option<JoinHandle<()>>,
    address_trouble: watch::Sender<Option<Trouble>>,
    metrics: Arc<Metrics>,
    scheduler: Thread,
    committer: Thread,
    member: Member,
}

pub(crate) struct Thread {
    pub(crate) name: &'static str,
    /// Ready when the thread has ended, however.
    pub(crate) ended: oneshot::Receiver<()>,
}

impl Threads {
    fn start(
        member: Member,
        node: &str,
        certificate: watch::Receiver<OwnCertificate>,
        clock: Thresholds,
        classes: Arc<Classes>,
        time_service: Saying,
        roster: Arc<Roster>,
    ) -> Result<Threads, CoordinatorError> {
        let incarnation = getrandom::u64().map_err(CoordinatorError::Random)?;
        let about = About {
            node: node.to_owned(),
            incarnation: Incarnation(incarnation),
            boot_id: read_boot_id().map_err(CoordinatorError::BootId)?,
            clock,
            classes,
            time_service,
        };
        let (engine, inbox) = engine::channel();
        let metrics = Arc::new(Metrics::default());
        let (committer, write) =
            committer::prepare(member.proposer(), engine.clone(), Arc::clone(&metrics));
        let group = member.group();
        let quorum = Quorum::new(Arc::clone(group), member.runtime().clone(), engine.clone());
        let scheduler = Scheduler::new(inbox, committer, quorum, roster, Arc::clone(&metrics));
        let (address_trouble, _) = watch::channel(None);
        tokio::spawn(members::tell(
            Arc::downgrade(group),
            engine.clone(),
            address_trouble.subscribe(),
            certificate,
        ));
        Ok(Threads {
            committer: Thread::start("committer", write)?,
            scheduler: Thread::start("scheduler", move || scheduler.run())?,
            lead: Lead::new(group, engine.clone()),
            following: tokio::spawn(lead::follow(Arc::clone(group), engine.clone(), about)),
            address: None,
            address_trouble,
            engine,
            metrics,
            member,
        })
    }

    /// Has the leader's address on this machine whenever this coordinator reigns.
    fn hold_address(&mut self, keeper: PathBuf) {
        let timers = self.member.group().timers();
        let (lead, engine) = (self.lead.clone(), self.engine.clone());
        let follow = address::follow(keeper, lead, timers, engine, self.address_trouble.clone());
        self.address = Some(tokio::spawn(follow));
    }

    /// Gives the lead to another, where there is one that can have it.
    async fn hand_over(&self) {
        match self.engine.hand_over(None, Afterwards::Ends).await {
            Ok(to) => tracing::info!(to, "the lead was given away"),
            Err(HandOverError::NotLeading | HandOverError::NoSuccessor(NoSuccessor::Nobody)) => {}
            Err(error) => tracing::warn!(error = causes(&error), "the lead was not given away"),
        }
    }

    /// Waits for a thread that ends without having been asked.
    async fn died(&mut self) -> CoordinatorError {
        let name = tokio::select! {
            _ = &mut self.following => "lead",
            () = ended(&mut self.address) => "address",
            _ = &mut self.scheduler.ended => self.scheduler.name,
            _ = &mut self.committer.ended => self.committer.name,
            _ = &mut self.member.thread.ended => self.member.thread.name,
        };
        CoordinatorError::Died { name }
    }

    /// Lets the batch in the ledger's hands be committed and its outcomes be told, if that can be.
    async fn stop(mut self) {
        self.following.abort();
        self.engine.send(Input::Stop);
        // An end is an end, by return or by panic.
        if timeout(STOP_LIMIT, &mut self.scheduler.ended)
            .await
            .is_err()
        {
            tracing::warn!("the ledger's last batch does not come back; going without it");
            self.member.give_up();
        }
        let ended = async {
            let _ = self.following.await;
            let _ = self.committer.ended.await;
            // It ends with the scheduler; what is served has ended before the address goes.
            if let Some(address) = self.address {
                let _ = address.await;
            }
            self.member.stop().await;
        };
        if timeout(STOP_LIMIT, ended).await.is_err() {
            tracing::warn!("the files are not closed in order; going without that");
        }
    }
}

async fn ended(task: &mut Option<JoinHandle<()>>) {
    match task {
        // An end is an end, by return or by panic.
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

impl Thread {
    pub(crate) fn start(
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Thread, CoordinatorError> {
        let (alive, ended) = oneshot::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Dropped after the work, or by the panic that ends it.
                let _alive: oneshot::Sender<()> = alive;
                work();
            })
            .map_err(|source| CoordinatorError::Thread { name, source })?;
        Ok(Thread { name, ended })
    }
}

/// Where agents and people come in.
struct Doors {
    agents: Arc<Listener>,
    agents_task: JoinHandle<()>,
    api_task: JoinHandle<io::Result<()>>,
    close_api: watch::Sender<bool>,
    outputs: OpenOutputs,
}

impl Doors {
    fn open(agents: Listener, listener: ApiListener, api: Api) -> Doors {
        let agents = Arc::new(agents);
        let welcome = agents::welcome(
            Arc::clone(&agents),
            api.engine.clone(),
            Arc::clone(&api.roster),
            api.authority.clone(),
            Registry::new(api.engine.clone(), &api.readers),
        );
        let outputs = api.outputs.clone();
        let (close_api, mut closing) = watch::channel(false);
        let closed = async move {
            // The sender's end counts as well.
            let _ = closing.wait_for(|closing| *closing).await;
        };
        Doors {
            agents,
            agents_task: tokio::spawn(welcome),
            api_task: tokio::spawn(api::serve(listener, api, closed)),
            close_api,
            outputs,
        }
    }

    /// Takes no new request; with `patience`, waits for those under way.
    async fn close_api(&mut self, patience: bool) {
        self.close_api.send_replace(true);
        self.outputs.close();
        if patience && timeout(FAREWELL_LIMIT, &mut self.api_task).await.is_err() {
            tracing::warn!("requests were still under way; their connections are cut");
        }
        self.api_task.abort();
    }

    async fn close_agents(self) {
        self.agents.shutdown("the coordinator stops").await;
        self.agents_task.abort();
    }
}

/// How the API is reached.
struct ApiDoor {
    address: SocketAddr,
    /// Where it is not spoken in the clear.
    https: Option<HttpsServer>,
    /// Whom a client over TLS is to trust, here or at another coordinator.
    ca: PathBuf,
}

impl ApiDoor {
    fn new(
        address: SocketAddr,
        identity_dir: &Path,
        identity: &Identity,
    ) -> Result<ApiDoor, CoordinatorError> {
        let https = (!is_in_the_clear(address))
            .then(|| HttpsServer::new(identity))
            .transpose()?;
        // Whoever reads it may stand in another directory.
        let ca = path::absolute(identity_dir.join(CA_FILE)).map_err(CoordinatorError::Place)?;
        Ok(ApiDoor { address, https, ca })
    }

    /// For programs on this machine.
    fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = if self.https.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{address}")
    }
}

async fn bind_api(address: SocketAddr) -> Result<(TcpListener, SocketAddr), CoordinatorError> {
    let failed = |source| CoordinatorError::Api { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn serving_ended(served: Result<io::Result<()>, JoinError>) -> CoordinatorError {
    CoordinatorError::Serving(match served {
        Ok(Ok(())) => io::Error::other("it ended without having been asked"),
        Ok(Err(error)) => error,
        Err(error) => error.into(),
    })
}
