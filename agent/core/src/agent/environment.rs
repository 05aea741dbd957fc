//! The environment of an attempt: the job's side of Matins, the same in every language.

use protocol::Token;
use protocol::attempt::Work;

/// Everything an attempt finds in its environment; nothing is inherited. The supervisor adds
/// what it needs to recognise its own processes.
pub(super) fn environment(work: &Work, token: Token, path: &str) -> Vec<(String, String)> {
    let mut env = vec![
        ("PATH", path.to_owned()),
        // A job that wants local time reads its own zone below, never the machine's.
        ("TZ", "UTC".to_owned()),
        ("MATINS_JOB", work.job.to_string()),
        // The same before and after a rename: what a job's own database knows it by.
        (
            "MATINS_JOB_ID",
            work.first_name.as_ref().unwrap_or(&work.job).to_string(),
        ),
        ("MATINS_FIRE_TIME", work.fire_time.to_rfc3339()),
        ("MATINS_TIMEZONE", work.timezone.clone()),
        ("MATINS_SHARD", work.shard.to_string()),
        ("MATINS_SHARDS", work.shards.to_string()),
        ("MATINS_EXECUTION_ID", work.execution_id.to_string()),
        ("MATINS_ATTEMPT", work.attempt.to_string()),
        ("MATINS_TRIGGER", work.trigger.as_str().to_owned()),
        // Bare numbers: guards compare them in the job's own database.
        ("MATINS_TOKEN", token.0.to_string()),
        // Equal across attempts and executions of one shard of one run.
        (
            "MATINS_IDEMPOTENCY_KEY",
            format!("{}/{}", work.run_id, work.shard),
        ),
    ];
    if !work.nominal.is_empty() {
        env.push(("MATINS_NOMINAL_TIME", work.nominal.join(",")));
    }
    if let Some(fence) = work.fence {
        env.push(("MATINS_FENCE", fence.to_string()));
    }
    if let Some(redo) = work.redo {
        env.push(("MATINS_REDO", redo.to_string()));
    }
    env.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::work;

    fn value(work: &Work, name: &str) -> Option<String> {
        environment(work, Token(77), "/bin")
            .into_iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v)
    }

    #[test]
    fn the_contract_of_a_scheduled_attempt() {
        let work = work();
        for (name, expected) in [
            ("MATINS_JOB", "settlement/reconcile"),
            ("MATINS_JOB_ID", "settlement/reconcile"),
            ("MATINS_FIRE_TIME", "2026-11-29T15:30:00Z"),
            ("MATINS_NOMINAL_TIME", "2026-11-29T23:30:00"),
            ("MATINS_TIMEZONE", "Asia/Shanghai"),
            ("MATINS_SHARD", "3"),
            ("MATINS_SHARDS", "32"),
            ("MATINS_EXECUTION_ID", "exec-9"),
            ("MATINS_ATTEMPT", "2"),
            ("MATINS_TRIGGER", "scheduled"),
            ("MATINS_TOKEN", "77"),
            ("MATINS_FENCE", "41"),
            ("MATINS_IDEMPOTENCY_KEY", "run-12/3"),
            ("TZ", "UTC"),
            ("PATH", "/bin"),
        ] {
            assert_eq!(value(&work, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn a_rename_changes_the_name_and_not_the_id_and_a_redo_is_numbered() {
        let mut renamed = work();
        renamed.first_name = Some("finance/old".parse().unwrap());
        renamed.redo = Some(40);
        for (name, expected) in [
            ("MATINS_JOB", "settlement/reconcile"),
            ("MATINS_JOB_ID", "finance/old"),
            ("MATINS_REDO", "40"),
        ] {
            assert_eq!(value(&renamed, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_does_not_apply_is_unset_and_the_key_survives_a_retry() {
        let first = work();
        let mut other = first.clone();
        other.fence = None;
        other.nominal.clear();
        other.attempt = 3;
        assert_eq!(value(&other, "MATINS_FENCE"), None);
        assert_eq!(value(&other, "MATINS_REDO"), None);
        assert_eq!(value(&other, "MATINS_NOMINAL_TIME"), None);
        assert_eq!(
            value(&first, "MATINS_IDEMPOTENCY_KEY"),
            value(&other, "MATINS_IDEMPOTENCY_KEY")
        );
        other.nominal = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(value(&other, "MATINS_NOMINAL_TIME").as_deref(), Some("a,b"));
    }
}
