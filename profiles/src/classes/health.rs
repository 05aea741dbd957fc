//! Which health of a host is acted on.

use protocol::Health;

/// What the `[health]` table says: from which health on something is done. `None` is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRule {
    /// At least so ill, and the host is cordoned.
    pub cordon: Option<Health>,
    /// At least so ill, and somebody is told.
    pub alarm: Option<Health>,
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
    /// What a health asks for.
    pub fn severity(&self, health: Health) -> Severity {
        let reached = |from: Option<Health>| from.is_some_and(|from| health >= from);
        if reached(self.cordon) {
            Severity::Cordon
        } else if reached(self.alarm) {
            Severity::Alarm
        } else {
            Severity::Nothing
        }
    }

    /// As in a class file, a line each.
    pub fn written(&self) -> Vec<String> {
        let word = |from: Option<Health>| from.map_or("never", Health::as_str);
        vec![
            format!("cordon = \"{}\"", word(self.cordon)),
            format!("alarm = \"{}\"", word(self.alarm)),
            format!("cordon_at_most_percent = {}", self.cordon_at_most_percent),
        ]
    }
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
        let usual = rule(Some(Health::Failed), Some(Health::Degraded));
        let strict = rule(Some(Health::Rebuilding), Some(Health::Rebuilding));
        let never = rule(None, None);
        for (rule, health, expected) in [
            (usual, Health::Ok, Severity::Nothing),
            (usual, Health::Unknown, Severity::Nothing),
            (usual, Health::Rebuilding, Severity::Nothing),
            (usual, Health::Degraded, Severity::Alarm),
            (usual, Health::Failed, Severity::Cordon),
            (strict, Health::Unknown, Severity::Nothing),
            (strict, Health::Rebuilding, Severity::Cordon),
            (strict, Health::Failed, Severity::Cordon),
            (never, Health::Failed, Severity::Nothing),
        ] {
            assert_eq!(rule.severity(health), expected, "{rule:?} {health:?}");
        }
    }
}
