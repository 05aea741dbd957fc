use protocol::TokenName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};

/// An admin takes a token back. Its row stays, and so does its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeToken {
    pub name: TokenName,
    pub by: String,
    pub reason: String,
}

impl RevokeToken {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let Some(known) = context.token_named(&self.name)? else {
            let name = self.name.clone();
            return Err(Refusal::NoTokenNamed { name }.into());
        };
        if known.revoked.is_some() {
            return Ok(Done::TokenRevoked { changed: false });
        }
        let by = clip(&self.by);
        context.mark_token_revoked(&self.name, by)?;
        let why = format!("{}: {}", self.name, self.reason);
        context.audit(Audit {
            by,
            action: "revoke token",
            on: On::All,
            reason: Some(clip(&why)),
        })?;
        Ok(Done::TokenRevoked { changed: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::create_token::tests::token;
    use crate::testing::Bed;

    #[test]
    fn a_token_is_revoked_once_and_its_name_stays_its_own() {
        let mut bed = Bed::new();
        bed.ok(token("ci", 'a'));
        let revoke = |name: &str| RevokeToken {
            name: name.parse().unwrap(),
            by: "eve".to_owned(),
            reason: "it was in a log".to_owned(),
        };
        assert_eq!(bed.ok(revoke("ci")), Done::TokenRevoked { changed: true });
        assert_eq!(bed.ok(revoke("ci")), Done::TokenRevoked { changed: false });
        assert_eq!(
            bed.view("SELECT name, revoked_by FROM token_view WHERE revoked_at IS NOT NULL"),
            ["ci|eve"]
        );
        assert_eq!(
            bed.view("SELECT by, reason FROM audit_view WHERE action = 'revoke token'"),
            ["eve|ci: it was in a log"]
        );
        let none = bed.refused(revoke("other"));
        assert!(matches!(none, Refusal::NoTokenNamed { .. }), "{none:?}");
        let again = bed.refused(token("ci", 'b'));
        assert!(
            matches!(again, Refusal::TokenNameTaken { revoked: true, .. }),
            "{again:?}"
        );
    }
}
