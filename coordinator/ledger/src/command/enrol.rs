use protocol::{AgentName, Role, WallMs};
use serde::{Deserialize, Serialize};

use super::create_token::is_digest;
use crate::apply::{Context, Stop, malformed};
use crate::outcome::{Done, Refusal};
use crate::tables::join::Enrolment;
use crate::tables::record::{Audit, On};

/// A host or a control machine shows a join token, and is to be given a certificate of its key under
/// this name.
///
/// Asked again with the same key it is let in again and nothing is used up, for as long as the token is
/// good: the answer to the first time may have been lost. A host's name that another key or another way
/// has been given is refused, since two hosts would then be one to everybody. A control machine is
/// known by its number instead, which is given here and never again; its name may be that of one
/// that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrol {
    /// SHA-256 of the join token's secret.
    pub secret: String,
    /// As what it wants to be let in.
    pub role: Role,
    pub name: AgentName,
    /// SHA-256 of its public key.
    pub key: String,
    /// The highest number of a control machine that the proposer knows of; those that were given here
    /// the ledger knows itself.
    pub above: u64,
    /// When its certificate will end.
    pub good_until: WallMs,
}

impl Enrol {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if !is_digest(&self.secret) || !is_digest(&self.key) {
            return Err(malformed("secret and key are not given as their SHA-256"));
        }
        let Some((id, token)) = context.join_token_by_secret(&self.secret)? else {
            return Err(Refusal::NoJoinToken.into());
        };
        let (at, name) = (context.at, || self.name.clone());
        if let Some(revoked) = token.revoked_at {
            return Err(Refusal::JoinTokenRevoked { at: revoked }.into());
        }
        if token.role != self.role {
            let (of, asked) = (token.role, self.role);
            return Err(Refusal::JoinTokenForRole { of, asked }.into());
        }
        if token.expires_at <= at {
            let end = token.expires_at;
            return Err(Refusal::JoinTokenEnded { end, at }.into());
        }
        let known = context.enrolment_of(&self.key)?;
        let attached = self.refuse_lost_name(context)?;
        if let Some(known) = known {
            if (known.role, &known.name) != (self.role, &self.name) {
                let (role, name) = (known.role, known.name);
                return Err(Refusal::KeyEnrolled { role, name }.into());
            }
            context.note_certificate(&self.key, self.good_until)?;
            let (again, node) = (true, known.node);
            return Ok(Done::Enrolled { again, node });
        }
        if self.role == Role::Agent && (attached || context.is_host_enrolled(&self.name)?) {
            return Err(Refusal::NameEnrolled { name: name() }.into());
        }
        if token.uses_left == 0 {
            return Err(Refusal::JoinTokenUsedUp.into());
        }
        if !self.name.as_str().starts_with(&token.name_prefix) {
            let (prefix, name) = (token.name_prefix, name());
            return Err(Refusal::JoinTokenForOthers { prefix, name }.into());
        }
        let node = match self.role {
            Role::Agent => None,
            Role::Coordinator | Role::Witness => Some(context.next_node(self.above)?),
        };
        let enrolment = Enrolment {
            role: self.role,
            name: name(),
            node,
        };
        context.insert_enrolment(&self.key, &enrolment, Some(id), self.good_until)?;
        context.use_join_token(id)?;
        let numbered = node.map(|node| format!("node {node}"));
        context.audit(Audit {
            by: self.name.as_str(),
            action: match self.role {
                Role::Agent => "enrol agent",
                Role::Coordinator => "enrol coordinator",
                Role::Witness => "enrol witness",
            },
            on: On::All,
            reason: numbered.as_deref(),
        })?;
        Ok(Done::Enrolled { again: false, node })
    }

    /// Whether a host of this name has attached; one that was revoked is let in no more.
    fn refuse_lost_name(&self, context: &Context<'_>) -> Result<bool, Stop> {
        if self.role != Role::Agent {
            return Ok(false);
        }
        let attached = context.agent_named(&self.name)?;
        if let Some(agent) = &attached {
            agent.refuse_revoked()?;
        }
        Ok(attached.is_some())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::command::{CreateJoinToken, RevokeAgent};
    use crate::testing::{Bed, attach};

    pub(crate) fn bed(role: Role, uses: u32) -> Bed {
        let mut bed = Bed::new();
        bed.ok(CreateJoinToken {
            secret: "a".repeat(64),
            role,
            name_prefix: "h".to_owned(),
            uses,
            expires_at: WallMs(1000),
            by: "ada".to_owned(),
        });
        bed
    }

    pub(crate) fn enrol(name: &str, key: char) -> Enrol {
        Enrol {
            secret: "a".repeat(64),
            role: Role::Agent,
            name: name.parse().unwrap(),
            key: key.to_string().repeat(64),
            above: 1,
            good_until: WallMs(9000),
        }
    }

    fn let_in(again: bool) -> Done {
        let node = None;
        Done::Enrolled { again, node }
    }

    #[test]
    fn each_host_uses_it_once_and_may_ask_again_with_its_key() {
        let mut bed = bed(Role::Agent, 2);
        for (name, key, again) in [
            ("h1", '1', false),
            ("h1", '1', true),
            ("h2", '2', false),
            ("h2", '2', true),
            ("h1", '1', true),
        ] {
            assert_eq!(bed.ok(enrol(name, key)), let_in(again), "{name}");
        }
        assert_eq!(bed.refused(enrol("h3", '3')), Refusal::JoinTokenUsedUp);
        let renamed = bed.refused(enrol("h4", '2'));
        assert!(
            matches!(renamed, Refusal::KeyEnrolled { .. }),
            "{renamed:?}"
        );
        // What ends with the token is the asking again, too: else a certificate's end would mean
        // nothing to whoever has kept an old token.
        bed.at = WallMs(5000);
        let late = bed.refused(enrol("h2", '2'));
        assert!(matches!(late, Refusal::JoinTokenEnded { .. }), "{late:?}");
        assert_eq!(
            bed.view("SELECT by, action FROM audit_view"),
            ["ada|create join token", "h1|enrol agent", "h2|enrol agent"]
        );
        assert_eq!(
            bed.view(
                "SELECT name, role, join_token, certificate_until FROM enrolment_view ORDER BY 1"
            ),
            [
                "h1|agent|join-1|1970-01-01T00:00:09.000Z",
                "h2|agent|join-1|1970-01-01T00:00:09.000Z"
            ]
        );
    }

    #[test]
    fn what_it_is_not_for_is_refused_and_uses_nothing_up() {
        let mut bed = bed(Role::Agent, 1);
        let other = bed.refused(enrol("x1", '1'));
        assert!(
            matches!(other, Refusal::JoinTokenForOthers { .. }),
            "{other:?}"
        );
        let role = bed.refused(Enrol {
            role: Role::Witness,
            ..enrol("h1", '1')
        });
        let (of, asked) = (Role::Agent, Role::Witness);
        assert_eq!(role, Refusal::JoinTokenForRole { of, asked });
        let unknown = Enrol {
            secret: "b".repeat(64),
            ..enrol("h1", '1')
        };
        assert_eq!(bed.refused(unknown), Refusal::NoJoinToken);
        bed.attach(attach("h7"));
        let taken = bed.refused(enrol("h7", '1'));
        assert!(matches!(taken, Refusal::NameEnrolled { .. }), "{taken:?}");
        bed.at = WallMs(1000);
        let late = bed.refused(enrol("h1", '1'));
        assert!(matches!(late, Refusal::JoinTokenEnded { .. }), "{late:?}");
        bed.at = WallMs(999);
        assert_eq!(bed.ok(enrol("h1", '1')), let_in(false));
        let stolen = bed.refused(enrol("h1", '2'));
        assert!(matches!(stolen, Refusal::NameEnrolled { .. }), "{stolen:?}");
        bed.ok(RevokeAgent {
            name: "h1".parse().unwrap(),
            by: "ada".to_owned(),
            reason: "sold".to_owned(),
        });
        let revoked = bed.refused(enrol("h1", '1'));
        assert!(matches!(revoked, Refusal::Revoked { .. }), "{revoked:?}");
    }

    #[test]
    fn a_control_machine_is_given_a_number_that_nobody_else_ever_has() {
        let mut bed = bed(Role::Coordinator, 9);
        let control = |name: &str, key: char, above: u64| Enrol {
            role: Role::Coordinator,
            above,
            ..enrol(name, key)
        };
        for (name, key, above, again, node) in [
            ("h1", '1', 1, false, 2),
            ("h1", '1', 1, true, 2),
            // One of the same name whose key is gone is another machine.
            ("h1", '2', 1, false, 3),
            // The group has a member that was numbered by hand.
            ("h2", '3', 7, false, 8),
            // It was removed from the group, and what was given is remembered.
            ("h3", '4', 1, false, 9),
            ("h1", '1', 9, true, 2),
        ] {
            let node = Some(node);
            let done = bed.ok(control(name, key, above));
            assert_eq!(done, Done::Enrolled { again, node }, "{name} {key}");
        }
        assert_eq!(
            bed.view("SELECT node, name, role FROM enrolment_view ORDER BY node"),
            [
                "2|h1|coordinator",
                "3|h1|coordinator",
                "8|h2|coordinator",
                "9|h3|coordinator"
            ]
        );
    }
}
