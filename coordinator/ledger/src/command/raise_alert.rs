use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::codes::Coded;
use crate::outcome::Done;
use crate::tables::record::On;

/// Records something a person should know that no other command records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseAlert {
    pub kind: AlertKind,
    pub on: On,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A job's row cannot be read; it does not fire.
    UnreadableJob,
    /// Schedules are settled beyond what the clock shows: nothing of them fires until it gets there.
    ClockBehind,
    /// The clock differs from those of the fleet; it is still believed.
    ClockDiffers,
    /// The clock is not believed: nothing fires.
    ClockHeld,
    /// The time service of the leader's machine does not keep its clock.
    ClockUnsynchronised,
    /// A job fired more often than its schedule names; it was stopped.
    FuseBlown,
    /// Shards wait for a host for too long.
    BacklogOld,
    /// The ledger does not take a job's fire; it does not fire.
    FireRefused,
    /// The leader changed several times and an agent with leases has not been heard of since.
    FlappingLeader,
    /// A fire was skipped because an earlier run was still live.
    OverlapSkipped,
    /// A waiting run passed its start deadline.
    StartDeadlinePassed,
    /// Instants were given up after an outage.
    GivenUp,
    /// A run needs a person.
    NeedsConfirmation,
    /// Two processes under one identity.
    DuplicateAgent,
    /// A person revoked an agent.
    AgentRevoked,
    /// The ledger's tables do not take what the scheduler decided about a run; it is tried again,
    /// ever more rarely.
    CommandRefused,
    /// A certificate in use ends soon.
    CertificateEnds,
    /// A fire was skipped because a job that its job comes `after` did not succeed.
    PredecessorFailed,
    /// The ledger was restored from a backup: what it means, and what is to be done.
    Restored,
    /// What of a job's schedule ran between the backup and its restore is for a person to find out.
    UnknownSinceBackup,
    /// A backup could not be made, or not shipped.
    BackupFailed,
    /// The last good backup is too old.
    BackupOverdue,
    /// A machine of the control group is not heard.
    MemberMissing,
    /// A machine of the control group lacks much of the log.
    MemberBehind,
    /// The disk of a control machine fills up.
    RoomShort,
    /// The leader's address cannot be where the leader is.
    AddressAway,
    /// A host does not fare well, and may be cordoned for it.
    HostUnwell,
    /// A part of a host vanished or got worse.
    HostChanged,
    /// Another coordinator goes by other classes of hosts than the leader.
    ClassesDiffer,
    /// A control machine is not what its class asks for.
    MemberUnfit,
}

impl AlertKind {
    pub const ALL: &'static [AlertKind] = <AlertKind as Coded>::ALL;

    pub const fn as_str(self) -> &'static str {
        match self {
            AlertKind::UnreadableJob => "unreadable_job",
            AlertKind::FlappingLeader => "flapping_leader",
            AlertKind::OverlapSkipped => "overlap_skipped",
            AlertKind::StartDeadlinePassed => "start_deadline_passed",
            AlertKind::GivenUp => "given_up",
            AlertKind::NeedsConfirmation => "needs_confirmation",
            AlertKind::DuplicateAgent => "duplicate_agent",
            AlertKind::FireRefused => "fire_refused",
            AlertKind::ClockDiffers => "clock_differs",
            AlertKind::ClockHeld => "clock_held",
            AlertKind::ClockUnsynchronised => "clock_unsynchronised",
            AlertKind::FuseBlown => "fuse_blown",
            AlertKind::BacklogOld => "backlog_old",
            AlertKind::ClockBehind => "clock_behind",
            AlertKind::AgentRevoked => "agent_revoked",
            AlertKind::CommandRefused => "command_refused",
            AlertKind::CertificateEnds => "certificate_ends",
            AlertKind::PredecessorFailed => "predecessor_failed",
            AlertKind::Restored => "restored",
            AlertKind::UnknownSinceBackup => "unknown_since_backup",
            AlertKind::BackupFailed => "backup_failed",
            AlertKind::BackupOverdue => "backup_overdue",
            AlertKind::MemberMissing => "member_missing",
            AlertKind::MemberBehind => "member_behind",
            AlertKind::RoomShort => "room_short",
            AlertKind::AddressAway => "address_away",
            AlertKind::HostUnwell => "host_unwell",
            AlertKind::HostChanged => "host_changed",
            AlertKind::ClassesDiffer => "classes_differ",
            AlertKind::MemberUnfit => "member_unfit",
        }
    }
}

impl RaiseAlert {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        context.raise(self.kind, self.on, clip(&self.text))?;
        Ok(Done::AlertRaised)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{AgentId, RunId, WallMs};

    use super::*;
    use crate::Proposal;
    use crate::command::{ClearAlert, Command, Over, SettleAlerts};
    use crate::testing::Bed;

    fn raise(kind: AlertKind, on: On, text: &str) -> RaiseAlert {
        let text = text.to_owned();
        RaiseAlert { kind, on, text }
    }

    /// As a query names it, and as an answer does.
    #[test]
    fn a_kind_has_one_word_wherever_it_is_written() {
        for &kind in AlertKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn an_alert_is_kept_with_what_it_is_about_and_a_bounded_text() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.at = WallMs(1500);
        for (kind, on, text) in [
            (AlertKind::UnreadableJob, On::Job(job), "x".to_owned()),
            (AlertKind::ClockBehind, On::All, "ä".repeat(5000)),
        ] {
            assert_eq!(bed.ok(raise(kind, on, &text)), Done::AlertRaised);
        }
        assert_eq!(
            bed.view("SELECT alert, at, kind, name, length(text) FROM alert_view"),
            [
                "alert-1|1970-01-01T00:00:01.500Z|unreadable_job|team/job|1",
                "alert-2|1970-01-01T00:00:01.500Z|clock_behind|-|1024",
            ]
        );
    }

    #[test]
    fn a_matter_that_is_open_counts_up_and_one_that_was_over_is_opened_anew() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let skipped = |run, text: &str| {
            let on = On::Run(job, RunId(run));
            raise(AlertKind::OverlapSkipped, on, text)
        };
        for (at, run) in [(1000, 1), (2000, 2), (3000, 3)] {
            bed.at = WallMs(at);
            let text = format!("skipped {run}");
            bed.ok(skipped(run, &text));
        }
        let shown = "SELECT alert, run, text, count, at, last_at FROM alert_view";
        assert_eq!(
            bed.view(shown),
            ["alert-1|run-3|skipped 3|3|1970-01-01T00:00:01.000Z|1970-01-01T00:00:03.000Z"]
        );
        let clear = || ClearAlert {
            alert_id: protocol::AlertId(1),
            by: "ada".to_owned(),
            reason: String::new(),
        };
        assert_eq!(bed.ok(clear()), Done::AlertCleared { changed: true });
        assert_eq!(bed.ok(clear()), Done::AlertCleared { changed: false });
        bed.ok(skipped(4, "skipped 4"));
        assert_eq!(
            bed.view("SELECT alert, count, cleared_at, cleared_by FROM alert_view"),
            ["alert-1|3|1970-01-01T00:00:03.000Z|ada", "alert-2|1|-|-"]
        );
    }

    #[test]
    fn runs_are_matters_of_their_own_and_agents_too() {
        let mut bed = Bed::new();
        let job = bed.job("");
        for run in [1, 2] {
            let on = On::Run(job, RunId(run));
            bed.ok(raise(AlertKind::CommandRefused, on, "stuck"));
            let on = On::Agent(AgentId(run));
            bed.ok(raise(AlertKind::CertificateEnds, on, "ends"));
        }
        bed.ok(raise(AlertKind::CertificateEnds, On::All, "ends"));
        assert_eq!(bed.view("SELECT count(*) FROM alerts"), ["5"]);
        bed.ok(SettleAlerts {
            kind: AlertKind::CertificateEnds,
            over: Over::AllBut(vec![On::Agent(AgentId(2))]),
        });
        assert_eq!(
            bed.view("SELECT alert_id FROM alerts WHERE cleared_at IS NULL"),
            ["1", "3", "4"]
        );
        bed.ok(SettleAlerts {
            kind: AlertKind::CommandRefused,
            over: Over::These(vec![On::Run(job, RunId(2)), On::Run(job, RunId(9))]),
        });
        assert_eq!(
            bed.view("SELECT alert_id FROM alerts WHERE cleared_at IS NULL"),
            ["1", "4"]
        );
    }

    #[test]
    fn of_the_cleared_only_the_newest_are_kept_and_every_open_one() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let stuck = |run| raise(AlertKind::CommandRefused, On::Run(job, RunId(run)), "stuck");
        let over = SettleAlerts {
            kind: AlertKind::CommandRefused,
            over: Over::AllBut(Vec::new()),
        };
        let stays = raise(AlertKind::FireRefused, On::Job(job), "refused");
        let commands = [Command::from(stays)]
            .into_iter()
            .chain((2..10_496).map(|run| stuck(run).into()))
            .chain([over.into()]);
        let batch: Vec<Proposal> = commands
            .map(|command| Proposal {
                epoch: None,
                at: WallMs(0),
                source: None,
                command,
            })
            .collect();
        bed.store.propose(&batch).unwrap();
        bed.ok(raise(AlertKind::ClockBehind, On::All, "behind"));
        assert_eq!(
            bed.view("SELECT count(*), min(alert_id) FROM alerts"),
            ["10001|1"]
        );
    }
}
