//! Applying one command: the flat `match`, and what every command's `apply` gets to work with.

use std::cell::RefCell;
use std::collections::BTreeMap;

use protocol::{AgentId, Epoch, JobId, ResourceName, Rule, Rules, RunId, WallMs};
use rusqlite::{Connection, ErrorCode};

use crate::command::{Command, Proposal, ReleaseGrants};
use crate::meta::Meta;
use crate::outcome::{Change, Done, Outcome, Refusal};
use crate::rows::{AgentRow, BackupRow, JobRow, ResourceRow, RunRow, ShardRow, VersionRow};
use crate::tables::held::Held;

/// Longest text of a person or host that is kept, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 2048;

/// The state that a command meets, and the record of what it changes.
pub(crate) struct Context<'a> {
    /// Inside the batch's transaction.
    pub(crate) conn: &'a Connection,
    /// What of the tables is held back; see there.
    pub(crate) held: &'a RefCell<Held>,
    pub(crate) rules: Rules,
    /// The proposer's wall time.
    pub(crate) at: WallMs,
    /// The address that a person asked from.
    pub(crate) source: Option<&'a str>,
    pub(crate) meta: &'a mut Meta,
    pub(crate) changes: Changes,
}

/// Why an `apply` does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An outcome like any other.
    Refused(Refusal),
    /// The database failed: nothing may be answered any more.
    Failed(rusqlite::Error),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Stop {
        if is_not_taken(&error) {
            return Stop::Refused(Refusal::Constraint {
                what: error.to_string(),
            });
        }
        Stop::Failed(error)
    }
}

/// A command that a table does not take is the command's fault, not the disk's: without this, one
/// such command would stop every replica for ever.
pub(crate) fn is_not_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

pub(crate) fn malformed(what: impl Into<String>) -> Stop {
    Stop::Refused(Refusal::Malformed { what: what.into() })
}

/// After-images of changed rows: of each row the last one, in the order in which
/// [`crate::WorkingSet::absorb`] can take them.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    epoch: Option<Epoch>,
    held: Option<bool>,
    backup: Option<BackupRow>,
    versions: BTreeMap<(JobId, u32), VersionRow>,
    runs: BTreeMap<RunId, RunRow>,
    shards: BTreeMap<(RunId, u32), ShardRow>,
    jobs: BTreeMap<JobId, JobRow>,
    agents: BTreeMap<AgentId, AgentRow>,
    resources: BTreeMap<ResourceName, Option<ResourceRow>>,
}

impl Changes {
    pub(crate) fn epoch(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    pub(crate) fn held(&mut self, held: bool) {
        self.held = Some(held);
    }

    pub(crate) fn backup(&mut self, row: BackupRow) {
        self.backup = Some(row);
    }

    pub(crate) fn version(&mut self, row: &VersionRow) {
        self.versions.insert((row.job_id, row.version), row.clone());
    }

    pub(crate) fn run(&mut self, row: &RunRow) {
        self.runs.insert(row.run_id, row.clone());
    }

    pub(crate) fn shard(&mut self, row: &ShardRow) {
        self.shards.insert((row.run_id, row.shard), row.clone());
    }

    pub(crate) fn job(&mut self, row: &JobRow) {
        self.jobs.insert(row.job_id, row.clone());
    }

    /// `None`: it is gone.
    pub(crate) fn resource(&mut self, name: &ResourceName, row: Option<&ResourceRow>) {
        self.resources.insert(name.clone(), row.cloned());
    }

    pub(crate) fn agent(&mut self, row: &AgentRow) {
        self.agents.insert(row.agent_id, row.clone());
    }

    fn into_list(self) -> Vec<Change> {
        // Jobs after runs: a job that moves on to a new version lets go of the old one, unless an
        // open run, which must be known by then, still holds it.
        let epoch = self.epoch.map(Change::Epoch).into_iter();
        epoch
            .chain(self.held.map(Change::Held))
            .chain(self.backup.map(Change::Backup))
            .chain(self.versions.into_values().map(Change::Version))
            .chain(self.runs.into_values().map(Change::Run))
            .chain(self.shards.into_values().map(Change::Shard))
            .chain(self.jobs.into_values().map(Change::Job))
            .chain(self.agents.into_values().map(Change::Agent))
            .chain(
                self.resources
                    .into_iter()
                    .map(|(name, row)| row.map_or(Change::NoResource(name), Change::Resource)),
            )
            .collect()
    }
}

/// How what a refused command has written is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// Each command has a savepoint of its own: dear, since it copies every page it touches.
    Each,
    /// Not at all. A command that is refused has nearly always been refused before it wrote anything; where
    /// one had begun, the whole batch is taken back and applied anew with [`Undo::Each`].
    Batch,
}

/// What became of a command.
pub(crate) enum Applied {
    Outcome(Outcome),
    /// It was refused after it had begun to write, or one before it was, and nothing has been
    /// taken back.
    HalfDone,
}

/// A batch on its way.
pub(crate) struct Batch<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) rules: Rules,
    pub(crate) undo: Undo,
    pub(crate) meta: Meta,
    pub(crate) held: RefCell<Held>,
}

impl Batch<'_> {
    /// Applies one command. `Err` is a failure of the database; everything else is an outcome.
    pub(crate) fn apply(&mut self, proposal: &Proposal) -> rusqlite::Result<Applied> {
        let (before, written) = (self.meta, self.written());
        match self.begin(proposal) {
            Ok(()) => {}
            // What was held back belongs to some command before this one.
            Err(error) if is_not_taken(&error) => return Ok(Applied::HalfDone),
            Err(error) => return Err(error),
        }
        let mut context = Context {
            conn: self.conn,
            held: &self.held,
            rules: self.rules,
            at: proposal.at,
            source: proposal.source.as_deref().map(clip),
            meta: &mut self.meta,
            changes: Changes::default(),
        };
        let result = match context.judge_epoch(proposal) {
            Ok(()) => context.carry_out(&proposal.command),
            Err(refusal) => Err(refusal.into()),
        };
        let changes = context.changes;
        let outcome = match result {
            Ok(done) => Outcome {
                result: Ok(done),
                changes: changes.into_list(),
            },
            Err(Stop::Refused(refusal)) => {
                if self.undo == Undo::Batch && self.written() != written {
                    return Ok(Applied::HalfDone);
                }
                self.take_back()?;
                self.meta = before;
                Outcome {
                    result: Err(refusal),
                    changes: Vec::new(),
                }
            }
            Err(Stop::Failed(error)) => return Err(error),
        };
        self.end()?;
        self.meta.last_applied += 1;
        Ok(Applied::Outcome(outcome))
    }

    /// Rises with everything that is written.
    fn written(&self) -> (u64, u64) {
        (self.conn.total_changes(), self.held.borrow().writes())
    }

    fn begin(&self, proposal: &Proposal) -> rusqlite::Result<()> {
        match self.undo {
            Undo::Batch => self
                .held
                .borrow_mut()
                .prepare_for(self.conn, &proposal.command),
            Undo::Each => self.savepoint("SAVEPOINT command"),
        }
    }

    fn take_back(&self) -> rusqlite::Result<()> {
        match self.undo {
            Undo::Batch => Ok(()),
            Undo::Each => self.savepoint("ROLLBACK TO command"),
        }
    }

    fn end(&self) -> rusqlite::Result<()> {
        match self.undo {
            Undo::Batch => Ok(()),
            Undo::Each => self.savepoint("RELEASE command"),
        }
    }

    fn savepoint(&self, statement: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(statement)?.execute([]).map(drop)
    }
}

impl Context<'_> {
    fn judge_epoch(&self, proposal: &Proposal) -> Result<(), Refusal> {
        let Some(got) = proposal.epoch else {
            return Ok(());
        };
        // Who begins a reign cannot be of it yet.
        let begins = matches!(proposal.command, Command::BecomeActive(_));
        if begins || self.meta.epoch == Some(got) || !self.rules.on(Rule::EpochChecked) {
            return Ok(());
        }
        Err(Refusal::StaleEpoch {
            got,
            current: self.meta.epoch.unwrap_or(Epoch(0)),
        })
    }

    fn carry_out(&mut self, command: &Command) -> Result<Done, Stop> {
        match command {
            Command::BecomeActive(command) => command.apply(self),
            Command::PutJob(command) => command.apply(self),
            Command::DeleteJob(command) => command.apply(self),
            Command::PauseJob(command) => command.apply(self),
            Command::ResumeJob(command) => command.apply(self),
            Command::Fire(command) => command.apply(self),
            Command::Admit(command) => command.apply(self),
            Command::SkipWaiting(command) => command.apply(self),
            Command::Unplaceable(command) => command.apply(self),
            Command::Grant(command) => command.apply(self),
            Command::MarkStarted(command) => command.apply(self),
            Command::Finish(command) => command.apply(self),
            Command::Expire(command) => command.apply(self),
            Command::AttachAgent(command) => command.apply(self),
            Command::EndSession(command) => command.apply(self),
            Command::Quarantine(command) => command.apply(self),
            Command::RevokeAgent(command) => command.apply(self),
            Command::CordonAgent(command) => command.apply(self),
            Command::UncordonAgent(command) => command.apply(self),
            Command::PutResource(command) => command.apply(self),
            Command::DeleteResource(command) => command.apply(self),
            Command::ManualRun(command) => command.apply(self),
            Command::Rerun(command) => command.apply(self),
            Command::Redo(command) => command.apply(self),
            Command::CancelRun(command) => command.apply(self),
            Command::Confirm(command) => command.apply(self),
            Command::RaiseAlert(command) => command.apply(self),
            Command::Remind(command) => command.apply(self),
            Command::SettleAlerts(command) => command.apply(self),
            Command::ClearAlert(command) => command.apply(self),
            Command::CreateToken(command) => command.apply(self),
            Command::RevokeToken(command) => command.apply(self),
            Command::CreateJoinToken(command) => command.apply(self),
            Command::RevokeJoinToken(command) => command.apply(self),
            Command::Enrol(command) => command.apply(self),
            Command::RenewAgent(command) => command.apply(self),
            Command::RegisterHost(command) => command.apply(self),
            Command::Restore(command) => command.apply(self),
            Command::NoteBackup(command) => command.apply(self),
            Command::NoteHealth(command) => command.apply(self),
            Command::ChangeGroup(command) => command.apply(self),
            Command::ReleaseGrants(_) => ReleaseGrants::apply(self),
        }
    }
}

/// What is kept of a text: its beginning, cut between two characters.
pub(crate) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}
