//! Whatever the ledger is told: it answers, and its promises hold.

use std::collections::BTreeMap;

use ledger::{Change, Done, Outcome, Proposal, RunFilter, Store, WorkingSet};
use proptest::prelude::*;
use protocol::{Rule, Rules, RunId, RunState, Token};

use crate::generate::{Choices, Past, choices, proposal};

/// The rules that are looked up while a command is applied.
const RULES: [Rule; 32] = [
    Rule::FireComparesAndSwaps,
    Rule::RunAndWatermarkTogether,
    Rule::PutSettlesOwedInstants,
    Rule::Tombstones,
    Rule::ManualRunsStayInThePast,
    Rule::OverlapJudgedInApply,
    Rule::FencePerExecution,
    Rule::UnsafeUnknownGoesToPerson,
    Rule::InterruptionsAreFree,
    Rule::NeverStartedNeedsSameSupervisor,
    Rule::AttachReleasesNeverStarted,
    Rule::LostNeedsVerifiedDead,
    Rule::ExpireNamesToken,
    Rule::EpochChecked,
    Rule::ReceiptCountsWithCurrentToken,
    Rule::StaleReceiptChangesNothing,
    Rule::LeaseEndsByReceiptOrExpiry,
    Rule::PauseJudgedInApply,
    Rule::ResumeSkipsThePast,
    Rule::ConditionsJudgedInApply,
    Rule::CatchUpTakesTurns,
    Rule::RedoNeedsHarmless,
    Rule::PersonIsReminded,
    Rule::ResourcesBounded,
    Rule::CordonHolds,
    Rule::SweepProvesItsOwnBoot,
    Rule::FlappingAlarm,
    Rule::RestoreRaisesGeneration,
    Rule::RestoredScheduleIsUnknown,
    Rule::RestoredRunsGoToPerson,
    Rule::RestoreOvertakesReceipts,
    Rule::RestoreHoldsGrants,
];

/// A ledger that is told one generated command after another.
struct Told {
    store: Store,
    set: WorkingSet,
    past: Past,
    position: i64,
}

impl Told {
    fn new(rules: Rules) -> Told {
        Told {
            store: Store::open_in_memory(rules).unwrap(),
            set: WorkingSet::default(),
            past: Past::default(),
            position: 0,
        }
    }

    fn tell(&mut self, choices: &mut Choices) -> (Proposal, Outcome) {
        let proposal = proposal(choices, &self.set, &self.past);
        let outcome = self
            .store
            .propose(std::slice::from_ref(&proposal))
            .unwrap()
            .remove(0);
        for change in &outcome.changes {
            self.set.absorb(change);
            if let Change::Run(run) = change {
                self.past.runs.insert(run.run_id);
            }
        }
        if let Ok(Done::Granted { token, .. }) = &outcome.result {
            self.past.tokens.push(*token);
        }
        (proposal, outcome)
    }

    /// What must be true after every command.
    fn check(&mut self, outcome: &Outcome, rules_on: bool) -> Result<(), TestCaseError> {
        prop_assert_eq!(&self.set, &self.store.working_set().unwrap());
        if outcome.result.is_err() {
            prop_assert!(outcome.changes.is_empty());
        }
        self.check_positions(outcome, rules_on)?;
        for change in &outcome.changes {
            if let Change::Run(run) = change {
                self.check_run(run.run_id, rules_on)?;
            }
        }
        Ok(())
    }

    /// Every position given out is above every one before.
    fn check_positions(&mut self, outcome: &Outcome, rules_on: bool) -> Result<(), TestCaseError> {
        let mut minted: Vec<i64> = match &outcome.result {
            Ok(Done::Active { epoch }) => vec![epoch.0],
            Ok(Done::Granted { token, .. }) => vec![token.0],
            Ok(Done::Attached { session, .. }) => vec![session.0],
            _ => Vec::new(),
        };
        let starts = matches!(
            outcome.result,
            Ok(Done::Admitted { .. }
                | Done::Fired { .. }
                | Done::RunStarted { .. }
                | Done::Rerun { .. })
        );
        if starts && rules_on {
            minted.extend(outcome.changes.iter().filter_map(|change| match change {
                Change::Run(run) => run.fence,
                _ => None,
            }));
            minted.sort_unstable();
        }
        for position in minted {
            prop_assert!(position > self.position, "{outcome:?}");
            self.position = position;
        }
        Ok(())
    }

    /// The tally is the shards', and of each shard at most the newest lease is live.
    fn check_run(&self, run_id: RunId, rules_on: bool) -> Result<(), TestCaseError> {
        let detail = self.store.run(run_id).unwrap().unwrap();
        let mut tally: BTreeMap<&str, u32> = BTreeMap::new();
        for shard in &detail.shard_list {
            *tally.entry(shard.state.as_str()).or_default() += 1;
            let live: Vec<Token> = shard
                .attempts
                .iter()
                .filter(|attempt| attempt.ended_at.is_none())
                .map(|attempt| attempt.token)
                .collect();
            if rules_on {
                prop_assert_eq!(live.len(), usize::from(shard.state == "leased"));
                prop_assert!(live.is_empty() || shard.attempts.last().unwrap().token == live[0]);
            }
            prop_assert!(shard.attempts.is_sorted_by_key(|attempt| attempt.token));
        }
        let run = &detail.run;
        for (state, count) in [
            ("pending", run.pending),
            ("leased", run.leased),
            ("succeeded", run.succeeded),
            ("needs_confirmation", run.needs_confirmation),
            ("cancelled", run.cancelled),
        ] {
            prop_assert_eq!(tally.get(state).copied().unwrap_or(0), count);
        }
        let open = run.pending + run.leased;
        match run.state.as_str() {
            "ready" | "running" => prop_assert!(open > 0),
            "needs_confirmation" => prop_assert!(open == 0 && run.needs_confirmation > 0),
            "waiting" => prop_assert!(run.leased == 0),
            "succeeded" => prop_assert_eq!(run.succeeded, run.shards),
            _ => prop_assert_eq!(open, 0),
        }
        let is_final =
            !["waiting", "ready", "running", "needs_confirmation"].contains(&run.state.as_str());
        prop_assert_eq!(run.ended_at.is_some(), is_final);
        prop_assert_eq!(detail.executions.len(), run.execution as usize);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn promises_hold_after_every_command(
        mut steps in proptest::collection::vec(choices(), 1..120),
    ) {
        let mut told = Told::new(Rules::all());
        for step in &mut steps {
            let (_, outcome) = told.tell(step);
            told.check(&outcome, true)?;
        }
    }

    #[test]
    fn with_a_rule_off_it_still_answers_and_keeps_its_books(
        rule in proptest::sample::select(&RULES[..]),
        mut steps in proptest::collection::vec(choices(), 1..120),
    ) {
        let mut told = Told::new(Rules::without(rule));
        for step in &mut steps {
            let (_, outcome) = told.tell(step);
            prop_assert_eq!(&told.set, &told.store.working_set().unwrap());
            if outcome.result.is_err() {
                prop_assert!(outcome.changes.is_empty());
            }
        }
    }

    #[test]
    fn the_same_commands_give_the_same_ledger_in_one_batch_or_many(
        mut steps in proptest::collection::vec(choices(), 1..120),
        sizes in proptest::collection::vec(1usize..20, 1..10),
    ) {
        let mut told = Told::new(Rules::all());
        let (proposals, outcomes): (Vec<Proposal>, Vec<Outcome>) =
            steps.iter_mut().map(|step| told.tell(step)).unzip();
        let one_by_one = told.store.dump().unwrap();

        let mut at_once = Store::open_in_memory(Rules::all()).unwrap();
        prop_assert_eq!(&at_once.propose(&proposals).unwrap(), &outcomes);
        prop_assert_eq!(&at_once.dump().unwrap(), &one_by_one);

        let mut in_batches = Store::open_in_memory(Rules::all()).unwrap();
        let mut rest = proposals.as_slice();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (batch, later) = rest.split_at(rest.len().min(*size));
            in_batches.propose(batch).unwrap();
            rest = later;
        }
        prop_assert_eq!(&in_batches.dump().unwrap(), &one_by_one);
        prop_assert_eq!(in_batches.last_applied().unwrap(), proposals.len() as i64);
    }
}

/// Guards the generator: a property over commands that are all refused proves nothing.
#[test]
fn generated_commands_reach_every_kind_of_answer() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut done: BTreeMap<String, u32> = BTreeMap::new();
    let mut states: BTreeMap<RunState, u32> = BTreeMap::new();
    for _ in 0..140 {
        let mut told = Told::new(Rules::all());
        for _ in 0..120 {
            let mut step = choices().new_tree(&mut runner).unwrap().current();
            let (_, outcome) = told.tell(&mut step);
            if let Ok(answer) = &outcome.result {
                let kind = format!("{answer:?}");
                let kind = kind.split([' ', '{']).next().unwrap().to_owned();
                *done.entry(kind).or_default() += 1;
            }
        }
        let all = RunFilter {
            limit: 1000,
            ..RunFilter::default()
        };
        for run in told.store.runs(&all).unwrap() {
            *states.entry(run.state).or_default() += 1;
        }
    }
    assert_eq!(done.len(), 41, "{done:?}");
    assert!(done.values().all(|&count| count >= 3), "{done:?}");
    assert_eq!(states.len(), 9, "{states:?}");
}
