use protocol::AgentName;
use serde::{Deserialize, Serialize};

use super::create_token::is_digest;
use crate::apply::{Context, Stop, malformed};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};

/// A host shows a join token, and is to be given a certificate of its key under this name.
///
/// Asked again with the same key it is let in again, whatever has become of the token: the answer
/// to the first time may have been lost. A name that another key or another way has been given is
/// refused, since two hosts would then be one to everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolAgent {
    /// SHA-256 of the join token's secret.
    pub secret: String,
    pub name: AgentName,
    /// SHA-256 of the host's public key.
    pub key: String,
}

impl EnrolAgent {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if !is_digest(&self.secret) || !is_digest(&self.key) {
            return Err(malformed("secret and key are not given as their SHA-256"));
        }
        let Some(token) = context.join_token(&self.secret)? else {
            return Err(Refusal::NoJoinToken.into());
        };
        let name = || self.name.clone();
        let attached = context.agent_named(&self.name)?;
        if let Some(agent) = &attached {
            agent.refuse_revoked()?;
        }
        match context.enrolled_key(&self.name)? {
            Some(key) if key == self.key => return Ok(Done::Enrolled { again: true }),
            None if attached.is_none() => {}
            _ => return Err(Refusal::NameEnrolled { name: name() }.into()),
        }
        let at = context.at;
        if token.expires_at <= at {
            let end = token.expires_at;
            return Err(Refusal::JoinTokenEnded { end, at }.into());
        }
        if token.uses_left == 0 {
            return Err(Refusal::JoinTokenUsedUp.into());
        }
        if !self.name.as_str().starts_with(&token.name_prefix) {
            let prefix = token.name_prefix;
            return Err(Refusal::JoinTokenForOthers {
                prefix,
                name: name(),
            }
            .into());
        }
        context.insert_enrolment(&self.name, &self.key, &self.secret)?;
        context.audit(Audit {
            by: self.name.as_str(),
            action: "enrol agent",
            on: On::All,
            reason: None,
        })?;
        Ok(Done::Enrolled { again: false })
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::command::{CreateJoinToken, RevokeAgent};
    use crate::testing::{Bed, attach};

    fn bed(uses: u32) -> Bed {
        let mut bed = Bed::new();
        bed.ok(CreateJoinToken {
            secret: "a".repeat(64),
            name_prefix: "h".to_owned(),
            uses,
            expires_at: WallMs(1000),
            by: "ada".to_owned(),
        });
        bed
    }

    fn enrol(name: &str, key: char) -> EnrolAgent {
        EnrolAgent {
            secret: "a".repeat(64),
            name: name.parse().unwrap(),
            key: key.to_string().repeat(64),
        }
    }

    #[test]
    fn each_host_uses_it_once_and_may_ask_again_with_its_key() {
        let mut bed = bed(2);
        for (name, key, again) in [
            ("h1", '1', false),
            ("h1", '1', true),
            ("h2", '2', false),
            ("h2", '2', true),
            ("h1", '1', true),
        ] {
            assert_eq!(bed.ok(enrol(name, key)), Done::Enrolled { again }, "{name}");
        }
        assert_eq!(bed.refused(enrol("h3", '3')), Refusal::JoinTokenUsedUp);
        bed.at = WallMs(5000);
        assert_eq!(bed.ok(enrol("h2", '2')), Done::Enrolled { again: true });
        assert_eq!(
            bed.view("SELECT by, action FROM audit_view"),
            ["ada|create join token", "h1|enrol agent", "h2|enrol agent"]
        );
    }

    #[test]
    fn what_it_is_not_for_is_refused_and_uses_nothing_up() {
        let mut bed = bed(1);
        let other = bed.refused(enrol("x1", '1'));
        assert!(
            matches!(other, Refusal::JoinTokenForOthers { .. }),
            "{other:?}"
        );
        let unknown = EnrolAgent {
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
        assert_eq!(bed.ok(enrol("h1", '1')), Done::Enrolled { again: false });
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
}
