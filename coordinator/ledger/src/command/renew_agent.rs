use protocol::{AgentName, Role, WallMs};
use serde::{Deserialize, Serialize};

use super::create_token::is_digest;
use crate::apply::{Context, Stop, malformed};
use crate::outcome::{Done, Refusal};
use crate::tables::join::Enrolment;

/// A host that shows a certificate which is still good is to be given the next one, of the same key.
///
/// It is not in the audit, since nobody decides anything: that is when it is refused, and whoever
/// revoked the host is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewAgent {
    pub name: AgentName,
    /// SHA-256 of its public key.
    pub key: String,
    /// When its next certificate will end.
    pub good_until: WallMs,
}

impl RenewAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if !is_digest(&self.key) {
            return Err(malformed("the key is not given as its SHA-256"));
        }
        let Some(agent) = context.agent_named(&self.name)? else {
            let name = self.name.clone();
            return Err(Refusal::NoAgentNamed { name }.into());
        };
        agent.refuse_revoked()?;
        match context.enrolment_of(&self.key)? {
            Some(known) if (known.role, &known.name) == (Role::Agent, &self.name) => {
                context.note_certificate(&self.key, self.good_until)?;
            }
            Some(known) => {
                let (role, name) = (known.role, known.name);
                return Err(Refusal::KeyEnrolled { role, name }.into());
            }
            // Its first certificate was issued by hand, where the authority is, and so may its
            // second have been, of another key.
            None if context.is_host_enrolled(&self.name)? => {
                context.replace_key(&self.name, &self.key, self.good_until)?;
            }
            None => {
                let enrolment = Enrolment {
                    role: Role::Agent,
                    name: self.name.clone(),
                    node: None,
                };
                context.insert_enrolment(&self.key, &enrolment, None, self.good_until)?;
            }
        }
        Ok(Done::Renewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::RevokeAgent;
    use crate::command::enrol::tests::{bed, enrol};
    use crate::testing::attach;

    fn renew(name: &str, key: char, until: i64) -> RenewAgent {
        RenewAgent {
            name: name.parse().unwrap(),
            key: key.to_string().repeat(64),
            good_until: WallMs(until),
        }
    }

    #[test]
    fn a_host_is_renewed_however_it_was_let_in_and_a_revoked_one_is_not() {
        let mut bed = bed(Role::Agent, 5);
        bed.ok(enrol("h1", '1'));
        let early = bed.refused(renew("h1", '1', 10_000));
        assert!(matches!(early, Refusal::NoAgentNamed { .. }), "{early:?}");
        for host in ["h1", "by-hand"] {
            bed.attach(attach(host));
        }
        for (name, key, until) in [
            ("h1", '1', 10_000),
            ("by-hand", '2', 11_000),
            // Issued again by hand.
            ("by-hand", '3', 12_000),
        ] {
            assert_eq!(bed.ok(renew(name, key, until)), Done::Renewed, "{name}");
        }
        assert_eq!(
            bed.view("SELECT name, join_token, certificate_until FROM enrolment_view ORDER BY 1"),
            [
                "by-hand|-|1970-01-01T00:00:12.000Z",
                "h1|join-1|1970-01-01T00:00:10.000Z"
            ]
        );
        let other = bed.refused(renew("by-hand", '1', 13_000));
        assert!(matches!(other, Refusal::KeyEnrolled { .. }), "{other:?}");
        bed.ok(RevokeAgent {
            name: "h1".parse().unwrap(),
            by: "ada".to_owned(),
            reason: "sold".to_owned(),
        });
        let revoked = bed.refused(renew("h1", '1', 14_000));
        assert!(matches!(revoked, Refusal::Revoked { .. }), "{revoked:?}");
    }
}
