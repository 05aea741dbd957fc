use protocol::{ApiRole, Reach, TokenName, WallMs};
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip, malformed};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};
use crate::tables::token::TokenRow;

/// An admin makes a token by which somebody may ask.
///
/// A name is never given twice, revoked tokens included: what stands in the audit under it must
/// stay one bearer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateToken {
    pub name: TokenName,
    /// SHA-256 of the secret, 64 hexadecimal digits in lower case.
    pub secret: String,
    pub role: ApiRole,
    pub reach: Reach,
    pub expires_at: Option<WallMs>,
    pub by: String,
}

impl CreateToken {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        if !is_digest(&self.secret) {
            return Err(malformed("the secret is not given as its SHA-256"));
        }
        if let Some(known) = context.token_named(&self.name)? {
            return Err(Refusal::TokenNameTaken {
                name: self.name.clone(),
                revoked: known.revoked.is_some(),
            }
            .into());
        }
        let by = clip(&self.by);
        let token = TokenRow {
            name: self.name.clone(),
            role: self.role,
            reach: self.reach.clone(),
            created_at: context.at,
            created_by: by.to_owned(),
            expires_at: self.expires_at,
            revoked: None,
        };
        context.insert_token(&token, &self.secret)?;
        let until = match self.expires_at {
            Some(end) => format!(", until {end}"),
            None => String::new(),
        };
        let what = format!("{}: {} of {}{until}", self.name, self.role, self.reach);
        context.audit(Audit {
            by,
            action: "create token",
            on: On::All,
            reason: Some(clip(&what)),
        })?;
        Ok(Done::TokenCreated)
    }
}

/// Whether this is a SHA-256 as the ledger writes it.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Bed;

    pub(crate) fn token(name: &str, digit: char) -> CreateToken {
        CreateToken {
            name: name.parse().unwrap(),
            secret: digit.to_string().repeat(64),
            role: ApiRole::Operator,
            reach: serde_json::from_str(r#"["finance"]"#).unwrap(),
            expires_at: Some(WallMs(86_400_000)),
            by: "ada".to_owned(),
        }
    }

    #[test]
    fn a_token_is_found_by_the_digest_of_its_secret_and_stands_in_the_audit() {
        let mut bed = Bed::new();
        bed.source = Some("192.0.2.7".into());
        assert_eq!(bed.ok(token("ci", 'a')), Done::TokenCreated);
        assert_eq!(
            bed.view("SELECT name, role, namespaces ->> 0, created_by, expires_at FROM token_view"),
            ["ci|operator|finance|ada|1970-01-02T00:00:00.000Z"]
        );
        assert_eq!(
            bed.view("SELECT by, source, action, reason FROM audit_view"),
            [
                "ada|192.0.2.7|create token|ci: operator of finance/*, until \
                 1970-01-02T00:00:00Z"
            ]
        );
    }

    #[test]
    fn a_name_is_not_given_twice_and_neither_is_a_secret() {
        let mut bed = Bed::new();
        bed.ok(token("ci", 'a'));
        let taken = bed.refused(token("ci", 'b'));
        assert!(
            matches!(taken, Refusal::TokenNameTaken { revoked: false, .. }),
            "{taken:?}"
        );
        let same = bed.refused(token("ci-2", 'a'));
        assert!(matches!(same, Refusal::Constraint { .. }), "{same:?}");
        for secret in ["", "a", &"A".repeat(64), &"a".repeat(65)] {
            let bare = CreateToken {
                secret: secret.to_owned(),
                ..token("ci-3", 'c')
            };
            assert!(
                matches!(bed.refused(bare), Refusal::Malformed { .. }),
                "{secret}"
            );
        }
    }
}
