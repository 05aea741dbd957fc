//! Which health of a host is acted on.

use protocol::host::HEALTHS;

/// What the `[health]` table says: from which health on something is done. `None` is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// At least so ill, and the host is cordoned.
    pub cordon: Option<&'static str>,
    /// At least so ill, and somebody is told.
    pub alarm: Option<&'static str>,
    /// Of the hosts, so many at most are cordoned by this rule at once; always one.
    pub cordon_at_most_percent: u32,
}

/// What is to be done about a host that fares so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Nothing,
    Alarm,
    Cordon,
}

impl HealthRule {
    /// What a health asks for. A word that this version does not know is like one that is unknown: it
    /// asks for nothing.
    pub fn severity(&self, health: &str) -> Severity {
        let Some(ill) = rank(health) else {
            return Severity::Nothing;
        };
        let reached = |from: Option<&str>| from.and_then(rank).is_some_and(|from| ill >= from);
        if reached(self.cordon) {
            Severity::Cordon
        } else if reached(self.alarm) {
            Severity::Alarm
        } else {
            Severity::Nothing
        }
    }
}

/// How ill a health is: the higher, the worse.
pub(super) fn rank(health: &str) -> Option<usize> {
    HEALTHS.iter().position(|known| *known == health)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_health_asks_for() {
        let rule = |cordon, alarm| HealthRule {
            cordon,
            alarm,
            cordon_at_most_percent: 30,
        };
        let usual = rule(Some("failed"), Some("degraded"));
        let strict = rule(Some("rebuilding"), Some("rebuilding"));
        let never = rule(None, None);
        for (rule, health, expected) in [
            (usual, "ok", Severity::Nothing),
            (usual, "unknown", Severity::Nothing),
            (usual, "rebuilding", Severity::Nothing),
            (usual, "degraded", Severity::Alarm),
            (usual, "failed", Severity::Cordon),
            (usual, "melting", Severity::Nothing),
            (strict, "unknown", Severity::Nothing),
            (strict, "rebuilding", Severity::Cordon),
            (strict, "failed", Severity::Cordon),
            (never, "failed", Severity::Nothing),
        ] {
            assert_eq!(rule.severity(health), expected, "{rule:?} {health}");
        }
    }
}
