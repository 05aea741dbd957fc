use protocol::JoinTokenId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};

/// An admin takes a join token back: nobody is let in by it any more. Who was let in before stays;
/// that is for [`RevokeAgent`](super::RevokeAgent).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeJoinToken {
    pub id: JoinTokenId,
    pub by: String,
    pub reason: String,
}

impl RevokeJoinToken {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let id = self.id;
        let Some(known) = context.join_token(id)? else {
            return Err(Refusal::NoSuchJoinToken { id }.into());
        };
        if known.revoked_at.is_some() {
            return Ok(Done::JoinTokenRevoked { changed: false });
        }
        let by = clip(&self.by);
        context.mark_join_token_revoked(id, by)?;
        let why = format!("{id}: {}", self.reason);
        context.audit(Audit {
            by,
            action: "revoke join token",
            on: On::All,
            reason: Some(clip(&why)),
        })?;
        Ok(Done::JoinTokenRevoked { changed: true })
    }
}

#[cfg(test)]
mod tests {
    use protocol::{JoinTokenId, Role};

    use super::*;
    use crate::command::enrol::tests::{bed, enrol};

    #[test]
    fn a_join_token_is_revoked_once_and_lets_nobody_in_any_more() {
        let mut bed = bed(Role::Agent, 5);
        bed.ok(enrol("h1", '1'));
        let revoke = |id: i64| RevokeJoinToken {
            id: JoinTokenId(id),
            by: "eve".to_owned(),
            reason: "it was in a log".to_owned(),
        };
        for changed in [true, false] {
            assert_eq!(bed.ok(revoke(1)), Done::JoinTokenRevoked { changed });
        }
        // Nor the host that it has let in already.
        for (name, key) in [("h1", '1'), ("h2", '2')] {
            let refused = bed.refused(enrol(name, key));
            assert!(
                matches!(refused, Refusal::JoinTokenRevoked { .. }),
                "{refused:?}"
            );
        }
        assert_eq!(
            bed.view("SELECT join_token, role, uses, uses_left, revoked_by FROM join_token_view"),
            ["join-1|agent|5|4|eve"]
        );
        assert_eq!(
            bed.view("SELECT by, reason FROM audit_view WHERE action = 'revoke join token'"),
            ["eve|join-1: it was in a log"]
        );
        let none = bed.refused(revoke(2));
        assert!(matches!(none, Refusal::NoSuchJoinToken { .. }), "{none:?}");
    }
}
