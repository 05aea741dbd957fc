//! A ledger goes on from a backup of it.
//!
//! Everything that happened after the backup has happened: processes ran, tokens were written into
//! other databases, people were told ids. The restored ledger knows nothing of it, and must not act
//! as if it had not been.
//!
//! - What it mints from here on lies above all that was minted meanwhile, by where the clock stands.
//! - What its jobs' schedules named since their watermarks is in doubt: it becomes a gap, which a
//!   person looks into. The gap ends when a leader whose clock is believed first looks at the job.
//! - What was open has gone on without it, so that nobody knows how far: a person says.
//! - The receipts of leases from before decide nothing: they may have been overtaken.
//! - Nothing is granted until whatever still runs must have ended ([`super::ReleaseGrants`]).

use protocol::attempt::AttemptOutcome;
use protocol::ids::{POSITION_COUNTER_BITS, first_position_of, generation_of};
use protocol::{Rule, RunId, Token, WallMs};
use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::codes::FIRST_FINAL_RUN_STATE;
use crate::command::AlertKind;
use crate::outcome::{Done, Refusal};
use crate::rows::{RunState, ShardState};
use crate::tables::agent::list_agents;
use crate::tables::job::{JOB_COLUMNS, read_job};
use crate::tables::record::{Audit, On};
use crate::tables::shard::Shard;

/// 2025-01-01T00:00:00Z, from which generations are counted.
const GENERATIONS_BEGIN: WallMs = WallMs(1_735_689_600_000);

const HOUR_MS: i64 = 3_600_000;

/// So many there are.
const GENERATIONS: i64 = 1 << (53 - POSITION_COUNTER_BITS);

/// Ids a millisecond: more than any group can mint, so that what is minted after a restore stays
/// below what the next one begins with.
const IDS_A_MS: i64 = 100;

/// By so much ids rise at the least, where the clock is of no help.
const IDS_SKIPPED_MIN: i64 = 1_000_000_000;

/// How slowly the first positions of a generation rise that the clock has not reached yet.
const AHEAD_OF_CLOCK: i64 = 64;

/// The first command of a ledger that was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// What the clock shows at the restore. The generation rests on it, and nothing else.
    pub clock: WallMs,
    /// When the backup was made.
    pub taken_at: WallMs,
    pub by: String,
    pub reason: String,
}

impl Restore {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if self.taken_at < GENERATIONS_BEGIN {
            return Err(malformed("a backup that is older than Matins"));
        }
        if self.clock < self.taken_at {
            return Err(Refusal::ClockBeforeBackup {
                clock: self.clock,
                taken_at: self.taken_at,
            }
            .into());
        }
        let rules = context.rules;
        if rules.on(Rule::RestoreRaisesGeneration) {
            self.raise(context)?;
        }
        let position = context.meta.mint_position();
        end_sessions(context)?;
        let jobs = put_in_doubt(context)?;
        let runs = self.ask_for_runs(context)?;
        context.meta.restored = Some(position);
        context.meta.held = true;
        context.changes.held(true);
        let (by, reason) = (clip(&self.by), clip(&self.reason));
        context.conn.execute(
            "INSERT INTO restores VALUES (?1, ?2, ?3, ?4, ?5, NULL)",
            params![position, context.at.0, self.taken_at.0, by, reason],
        )?;
        context.audit(Audit {
            by,
            action: "restore",
            on: On::All,
            reason: Some(reason),
        })?;
        self.tell(context, jobs, runs)?;
        Ok(Done::Restored {
            generation: generation_of(position),
            runs,
            jobs,
        })
    }

    fn raise(&self, context: &mut Context<'_>) -> Result<(), Stop> {
        let position = raised(context.meta.position, self.clock);
        if generation_of(position) >= GENERATIONS {
            return Err(malformed(format!(
                "a generation beyond the last: the clock shows {}",
                self.clock
            )));
        }
        context.meta.position = position;
        let by_clock = since_begin(self.clock).saturating_mul(IDS_A_MS);
        context.meta.raise_ids(by_clock, IDS_SKIPPED_MIN);
        Ok(())
    }

    fn ask_for_runs(&self, context: &mut Context<'_>) -> Result<u32, Stop> {
        if !context.rules.on(Rule::RestoredRunsGoToPerson) {
            return Ok(0);
        }
        let open = context
            .conn
            .prepare("SELECT run_id FROM runs WHERE state < ?1 ORDER BY run_id")?
            .query_map([FIRST_FINAL_RUN_STATE], |row| Ok(RunId(row.get(0)?)))?
            .collect::<Result<Vec<_>, _>>()?;
        for &run_id in &open {
            self.ask_for_run(context, run_id)?;
        }
        Ok(u32::try_from(open.len()).unwrap_or(u32::MAX))
    }

    fn ask_for_run(&self, context: &mut Context<'_>, run_id: RunId) -> Result<(), Stop> {
        let mut run = context.run(run_id)?;
        let why = format!(
            "it was open in the backup of {}, and how far it came since nobody knows",
            self.taken_at.whole_second()
        );
        let ask = ShardState::NeedsConfirmation;
        let shards = context.shards(run_id)?;
        if shards.is_empty() {
            for shard in 0..run.row.shards {
                let mut shard = Shard::new(run_id, shard, ask);
                shard.row.reason = Some(why.clone());
                context.insert_shard(&mut run, &shard)?;
            }
        }
        for mut shard in shards {
            let why = match (shard.row.state, shard.row.reason.take()) {
                (ShardState::Succeeded | ShardState::Cancelled, _) => continue,
                (ShardState::NeedsConfirmation, Some(before)) => format!("{before}; {why}"),
                (ShardState::Leased(lease), _) => {
                    let (token, lost) = (lease.token, AttemptOutcome::Lost);
                    let cause = "the ledger was restored from a backup";
                    context.end_attempt_unheard(token, lost, cause)?;
                    why.clone()
                }
                _ => why.clone(),
            };
            shard.again = false;
            context.move_shard(&mut run, &mut shard, ask, Some(why))?;
        }
        run.row.waits = None;
        if run.row.state == RunState::NeedsConfirmation {
            context.ask_person(&mut run)?;
            return context.update_run(&run);
        }
        context.roll_up(&mut run)
    }

    fn tell(&self, context: &mut Context<'_>, jobs: u32, runs: u32) -> Result<(), Stop> {
        let text = format!(
            "the ledger was restored by {} from a backup of {}: {}. What happened since the backup is \
             not in it. {} a person (`matins get runs --state \
             needs_confirmation`); what the schedules of {} named since is a gap each, told \
             of by alerts of their own; apply again what was applied since. Nothing is granted until \
             every lease of before has run out, which takes 15 minutes of one leader. \
             When all is seen to, clear this alert",
            clip(&self.by),
            self.taken_at.whole_second(),
            clip(&self.reason),
            match runs {
                1 => "1 run that was open needs".to_owned(),
                runs => format!("{runs} runs that were open need"),
            },
            match jobs {
                1 => "1 job".to_owned(),
                jobs => format!("{jobs} jobs"),
            },
        );
        context.raise(AlertKind::Restored, On::All, clip(&text))
    }
}

/// Whoever is attached knows so of the group of before, and attaches again.
fn end_sessions(context: &mut Context<'_>) -> Result<(), Stop> {
    for mut agent in list_agents(context.conn)? {
        if let Some(session) = agent.row.session.take() {
            context.end_session(session)?;
            context.write_agent(&agent)?;
        }
    }
    Ok(())
}

/// Answers how many jobs there are.
fn put_in_doubt(context: &mut Context<'_>) -> Result<u32, Stop> {
    let jobs = context
        .conn
        .prepare(&format!("SELECT {JOB_COLUMNS} FROM jobs WHERE NOT deleted"))?
        .query_map([], read_job)?
        .collect::<Result<Vec<_>, _>>()?;
    if !context.rules.on(Rule::RestoredScheduleIsUnknown) {
        return Ok(0);
    }
    for mut job in jobs.iter().cloned() {
        job.in_doubt = true;
        context.update_job(&job)?;
    }
    Ok(u32::try_from(jobs.len()).unwrap_or(u32::MAX))
}

impl Context<'_> {
    /// Whether a token was minted by a history that a restore has broken off.
    pub(crate) fn is_before_restore(&self, token: Token) -> bool {
        if !self.rules.on(Rule::RestoreOvertakesReceipts) {
            return false;
        }
        self.meta
            .restored
            .is_some_and(|restored| token.0 < restored)
    }
}

/// Milliseconds since generations are counted, and at most until they are used up.
fn since_begin(clock: WallMs) -> i64 {
    let since = clock.0.saturating_sub(GENERATIONS_BEGIN.0);
    since.clamp(0, HOUR_MS * GENERATIONS)
}

/// Where positions go on after those of a backup.
///
/// The clock counts hours since 2025 in the generation, and the part of the hour in the counter: 2,386
/// positions a millisecond, more than any group mints. So whatever was restored from which backup and
/// when, positions begin above all that were minted before. Only a generation that is ahead of the
/// clock, because the backup was itself made within an hour of a restore or by a wrong clock, is
/// counted on from the backup; then too the later of two restores begins higher.
fn raised(backup: i64, clock: WallMs) -> i64 {
    let since = since_begin(clock);
    let part = (i128::from(since % HOUR_MS) << POSITION_COUNTER_BITS) / i128::from(HOUR_MS);
    let part = i64::try_from(part).expect("part of an hour is less than a counter");
    let by_clock = first_position_of(since / HOUR_MS) + part;
    let by_backup = first_position_of(generation_of(backup) + 1) + part / AHEAD_OF_CLOCK;
    by_clock.max(by_backup)
}

#[cfg(test)]
mod tests {
    use protocol::{AgentId, RunId, SessionId};

    use super::*;
    use crate::command::{
        Confirm, Decision, DeleteJob, Fire, GapReason, Grant, PauseJob, ReleaseGrants, ResumeJob,
        Settlement, Verdict,
    };
    use crate::outcome::Refusal;
    use crate::testing::{Bed, MINUTE, attach, end, finish, fire};

    const HOURS: i64 = 16_784;
    const CLOCK: WallMs = WallMs(GENERATIONS_BEGIN.0 + HOURS * HOUR_MS);

    fn restore_at(clock: WallMs) -> Restore {
        Restore {
            clock,
            taken_at: WallMs(CLOCK.0 - HOUR_MS),
            by: "ada".to_owned(),
            reason: "both disks are gone".to_owned(),
        }
    }

    fn restore() -> Restore {
        restore_at(CLOCK)
    }

    fn unknown(from: i64, through: i64, count: u64) -> Decision {
        Decision::Gap {
            from: WallMs(from * MINUTE),
            through: WallMs(through * MINUTE),
            count,
            reason: GapReason::Unknown,
        }
    }

    fn settles(bed: &Bed, from: i64, through: i64, decisions: Vec<Decision>) -> Fire {
        Fire {
            job_id: bed.set.jobs.keys().next().copied().unwrap(),
            version: 1,
            from: WallMs(from * MINUTE),
            through: WallMs(through * MINUTE),
            decisions,
        }
    }

    fn position(bed: &Bed) -> i64 {
        bed.view("SELECT position FROM meta")[0].parse().unwrap()
    }

    #[test]
    fn positions_go_on_above_all_that_was_minted_before() {
        let minute = |n: i64| WallMs(CLOCK.0 + n * MINUTE);
        let of = first_position_of;
        // The generation is the greater of the backup's plus one and the hours since 2025.
        for (backup, clock, generation) in [
            (0, CLOCK, HOURS),
            (of(5) + 77, CLOCK, HOURS),
            (of(HOURS) - 1, CLOCK, HOURS),
            (of(HOURS), CLOCK, HOURS + 1),
            (of(HOURS + 9) + 3, CLOCK, HOURS + 10),
            (of(7), WallMs(0), 8),
        ] {
            assert_eq!(generation_of(raised(backup, clock)), generation, "{backup}");
            assert!(raised(backup, clock) > backup);
        }
        // One backup restored again and again: each begins above what 20,000 tokens a second can
        // have minted since the one before.
        for backup in [0, of(HOURS - 3), of(HOURS) + 5] {
            let firsts: Vec<i64> = (1..59).map(|n| raised(backup, minute(n))).collect();
            for pair in firsts.windows(2) {
                assert!(pair[1] - pair[0] > 60 * 20_000, "{backup}: {pair:?}");
            }
        }
        assert!(raised(0, minute(61)) > raised(0, minute(59)) + 2 * 60 * 20_000);
    }

    #[test]
    fn no_token_and_no_id_is_minted_a_second_time() {
        for (rule, rises) in [(None, true), (Some(Rule::RestoreRaisesGeneration), false)] {
            let mut bed = rule.map_or_else(Bed::new, Bed::without);
            bed.job("");
            bed.attach(attach("h1"));
            let before = position(&bed);
            let done = bed.ok(restore());
            let generation = if rises { HOURS } else { 0 };
            assert_eq!(
                done,
                Done::Restored {
                    generation,
                    runs: 0,
                    jobs: 1
                }
            );
            assert_eq!(position(&bed) > before + 1_000_000, rises);
            let job = bed.job_named("team/new", "");
            let minted = job.0 > HOURS * HOUR_MS * IDS_A_MS;
            assert_eq!(minted, rises);
        }
    }

    #[test]
    fn ids_of_every_kind_rise_far_also_where_the_clock_is_of_no_help() {
        let mut bed = Bed::new();
        let least = |bed: &Bed| -> i64 {
            let sql = "SELECT min(jobs, runs, executions, agents, alerts, gaps, audits) FROM meta";
            bed.view(sql)[0].parse().unwrap()
        };
        bed.ok(restore());
        assert!(least(&bed) >= HOURS * HOUR_MS * IDS_A_MS);
        let job = bed.job("");
        bed.ok(restore());
        assert!(least(&bed) >= job.0 + IDS_SKIPPED_MIN);
    }

    #[test]
    fn a_schedule_in_doubt_becomes_a_gap_and_nothing_else() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.fire(job, 5);
        bed.ok(restore());
        assert!(bed.set.jobs[&job].in_doubt);
        assert_eq!(bed.view("SELECT in_doubt FROM job_view"), ["yes"]);
        let runs = fire(job, 1, WallMs(5 * MINUTE), 9 * MINUTE, [9]);
        assert!(matches!(bed.refused(runs), Refusal::InDoubt { .. }));
        let fires = settles(&bed, 5, 9, vec![unknown(5, 9, 4)]);
        bed.ok(fires);
        assert!(!bed.set.jobs[&job].in_doubt);
        assert_eq!(
            bed.view("SELECT after, through, count, reason FROM gap_view"),
            ["1970-01-01T00:05:00.000Z|1970-01-01T00:09:00.000Z|4|unknown since the backup"]
        );
        let told = bed.view("SELECT text FROM alert_view WHERE kind = 'unknown_since_backup'");
        assert!(
            told[0].contains("4 instants after 1970-01-01T00:05:00Z through 1970-01-01T00:09:00Z")
                && told[0].contains("`matins run team/job --at TIME --reason WHY`"),
            "{told:?}"
        );
        bed.fire(job, 10);
    }

    #[test]
    fn a_schedule_in_doubt_that_named_nothing_is_settled_in_silence() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.ok(restore());
        let nothing = settles(&bed, 0, 0, Vec::new());
        bed.ok(nothing);
        assert!(!bed.set.jobs[&job].in_doubt);
        assert_eq!(bed.view("SELECT kind FROM alert_view"), ["restored"]);
    }

    #[test]
    fn a_pause_does_not_hide_what_is_in_doubt() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.ok(PauseJob {
            job_id: job,
            by: "ada".to_owned(),
            reason: String::new(),
        });
        bed.ok(restore());
        let settle = |decisions| Settlement {
            version: 1,
            from: WallMs(0),
            decisions,
        };
        let resume = |settle| ResumeJob {
            job_id: job,
            cut_over: WallMs(9 * MINUTE),
            settle,
            by: "ada".to_owned(),
        };
        let mut paused = unknown(0, 9, 9);
        if let Decision::Gap { reason, .. } = &mut paused {
            *reason = GapReason::Paused;
        }
        assert!(matches!(
            bed.refused(resume(settle(vec![paused]))),
            Refusal::InDoubt { .. }
        ));
        // Settled while the pause lasts, or by what ends it.
        let fires = settles(&bed, 0, 3, vec![unknown(0, 3, 3)]);
        bed.ok(fires);
        assert!(bed.set.jobs[&job].is_paused());
        bed.ok(restore());
        let delete = DeleteJob {
            job_id: job,
            cut_over: WallMs(9 * MINUTE),
            settle: Settlement {
                from: WallMs(3 * MINUTE),
                ..settle(vec![unknown(3, 9, 6)])
            },
            by: "ada".to_owned(),
        };
        bed.ok(delete);
        assert_eq!(
            bed.view("SELECT reason FROM gap_view"),
            ["unknown since the backup"; 2]
        );
    }

    /// A run that waits, one with a shard of each kind, and one that needs a person already.
    fn open_runs(bed: &mut Bed) -> ((AgentId, SessionId), [RunId; 3], Token) {
        let job = bed.job("shards: 3\noverlap: queue");
        let agent = bed.attach(attach("h1"));
        let (runs, _) = bed.fire(job, 1);
        let done = bed.grant(runs, 0, agent.1);
        bed.ok(finish(agent.0, done, end(AttemptOutcome::Succeeded)));
        let leased = bed.grant(runs, 1, agent.1);
        let (waits, _) = bed.fire(job, 2);
        let other = bed.job_named("team/asks", "retry: { at_most: 0, backoff: [1s] }");
        let (asks, _) = bed.fire(other, 1);
        let token = bed.grant(asks, 0, agent.1);
        bed.ok(finish(agent.0, token, end(AttemptOutcome::Failed)));
        (agent, [runs, waits, asks], leased)
    }

    #[test]
    fn what_was_open_goes_to_a_person_and_nothing_is_leased() {
        let mut bed = Bed::new();
        let (_, [runs, waits, asks], leased) = open_runs(&mut bed);
        bed.ok(restore());
        for run_id in [runs, waits, asks] {
            assert_eq!(bed.state(run_id), "needs_confirmation");
            let why = bed.reason(run_id);
            assert!(why.contains("it was open in the backup of 2026"), "{why}");
        }
        assert_eq!(
            bed.view(&format!(
                "SELECT state FROM shard_view WHERE run = '{runs}' ORDER BY shard"
            )),
            ["succeeded", "needs_confirmation", "needs_confirmation"]
        );
        assert_eq!(
            bed.view(&format!(
                "SELECT outcome, reason FROM attempt_view WHERE token = '{leased}'"
            )),
            ["lost|the ledger was restored from a backup"]
        );
        assert_eq!(
            bed.view("SELECT count(*) FROM alert_view WHERE kind = 'needs_confirmation'"),
            ["3"]
        );
        let told = bed.view("SELECT text FROM alert_view WHERE kind = 'restored'");
        assert!(
            told[0].contains("3 runs that were open") && told[0].contains("2 jobs"),
            "{told:?}"
        );
        assert_eq!(
            bed.view("SELECT count(*) FROM session_view WHERE ended_at IS NULL"),
            ["0"]
        );
        assert_eq!(
            bed.view("SELECT action, reason FROM audit_view WHERE action = 'restore'"),
            ["restore|both disks are gone"]
        );
    }

    #[test]
    fn a_receipt_from_before_is_kept_and_decides_nothing() {
        for (rule, state) in [
            (None, "needs_confirmation"),
            (Some(Rule::RestoreOvertakesReceipts), "succeeded"),
        ] {
            let mut bed = rule.map_or_else(Bed::new, Bed::without);
            let (agent, [runs, ..], leased) = open_runs(&mut bed);
            bed.ok(restore());
            let receipt = finish(agent.0, leased, end(AttemptOutcome::Succeeded));
            let counted = rule.is_some();
            assert_eq!(bed.ok(receipt), Done::Finished { counted });
            assert_eq!(bed.shard(runs, 1).state.as_str(), state);
            let stale = bed.view(&format!(
                "SELECT stale_outcome FROM attempt_view WHERE token = '{leased}'"
            ));
            assert_eq!(stale == ["succeeded"], !counted);
        }
    }

    #[test]
    fn nothing_is_granted_until_it_is_released() {
        for rule in [None, Some(Rule::RestoreHoldsGrants)] {
            let mut bed = rule.map_or_else(Bed::new, Bed::without);
            let (_, [runs, ..], _) = open_runs(&mut bed);
            bed.ok(restore());
            bed.ok(Confirm {
                run_id: runs,
                shard: None,
                verdict: Verdict::Retry,
                by: "ada".to_owned(),
                reason: "looked".to_owned(),
            });
            let (_, session) = bed.attach(attach("h1"));
            let grant = Grant {
                run_id: runs,
                shard: 1,
                session,
                uses: Vec::new(),
            };
            let outcome = bed.outcome(grant.clone()).result;
            assert_eq!(outcome == Err(Refusal::Held), rule.is_none());
            if rule.is_none() {
                assert_eq!(bed.view("SELECT released_at FROM restore_view"), ["-"]);
                bed.at = WallMs(MINUTE);
                bed.ok(ReleaseGrants {});
                assert_eq!(
                    bed.view("SELECT released_at FROM restore_view"),
                    ["1970-01-01T00:01:00.000Z"]
                );
                bed.ok(grant);
            }
        }
    }

    #[test]
    fn a_clock_before_the_backup_is_refused() {
        let mut bed = Bed::new();
        bed.job("");
        let early = restore_at(WallMs(CLOCK.0 - HOUR_MS - 1));
        assert!(matches!(
            bed.refused(early),
            Refusal::ClockBeforeBackup { .. }
        ));
    }
}
