//! Who asks, and what they may.
//!
//! Two kinds of token let somebody in. The *machine's own* lies in the data directory of each
//! control machine (`api-token`) and never leaves it: it is how whoever runs the machine gets in when
//! nothing else is there yet, or any more. The other coordinators know a digest of it while the machine
//! is a member, so that a command given on a standby can go on to the one that leads. It may everything,
//! and is nobody's in particular: what stands in the audit is the name that its bearer gives. All others are made by
//! `matins token create` and live in the ledger, so every control machine knows them and their end;
//! what stands in the audit is the token's own name, whatever its bearer says.
//!
//! The [`gate`](super::gate) finds out who asks and holds them to what the operation's
//! [`About`](super::describe::About) demands. A handler gets an [`Asker`] only through the gate.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::{ApiRole, JobName, Reach, TokenName};
use serde_json::{Value, json};

use super::describe::{Draft, Input};
use super::error::ApiError;

/// Longest name of a person and longest reason.
const BY_CHARS_MAX: usize = 256;
const REASON_CHARS_MAX: usize = 4096;

/// In the audit for who has the machine's own token and does not say who they are.
const LOCAL: &str = "local";

/// Whoever a request was let in for.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Of the token; `None` for the machine's own.
    name: Option<TokenName>,
    role: ApiRole,
    reach: Reach,
    /// The address that the request came from.
    source: Box<str>,
}

impl Asker {
    /// With the machine's own token.
    pub(super) fn local(source: Box<str>) -> Asker {
        Asker {
            name: None,
            role: ApiRole::Admin,
            reach: Reach::ALL,
            source,
        }
    }

    pub(super) fn of_token(token: ledger::TokenRow, source: Box<str>) -> Asker {
        Asker {
            name: Some(token.name),
            role: token.role,
            reach: token.reach,
            source,
        }
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Who and why, for the audit. The bearer of the machine's own token may `say` who they are.
    pub(crate) fn signs(
        &self,
        what: &str,
        say: Option<String>,
        reason: Option<&str>,
    ) -> Result<String, ApiError> {
        let said = say.unwrap_or_else(|| LOCAL.to_owned());
        check_words(what, &said, reason)?;
        Ok(self.name.as_ref().map_or(said, TokenName::to_string))
    }

    /// Refuses whoever may less than this.
    pub(crate) fn must_be(&self, what: &str, role: ApiRole) -> Result<(), ApiError> {
        if self.role >= role {
            return Ok(());
        }
        Err(ApiError::forbidden(
            what,
            format!("this is for the role {role}, and {}", self.words()),
            format!(
                "ask with a token of the role {role}; who has the machine's own token makes one \
                 with `matins token create`"
            ),
        ))
    }

    /// Refuses whoever is not let in for this job.
    pub(crate) fn must_reach(&self, what: &str, job: &JobName) -> Result<(), ApiError> {
        if self.reach.holds(job) {
            return Ok(());
        }
        let namespace = job.namespace();
        let remedy = format!(
            "ask with a token that reaches it (`matins token create --namespace {namespace}`)"
        );
        Err(self.out_of_reach(what, "it is about a job outside of them", remedy))
    }

    /// Refuses whoever is let in for some namespaces only.
    pub(super) fn must_reach_all(&self, what: &str) -> Result<(), ApiError> {
        if self.reach.is_all() {
            return Ok(());
        }
        let remedy = "ask with a token that was made without `--namespace`";
        let why = "it is about no job, but about all of this Matins";
        Err(self.out_of_reach(what, why, remedy))
    }

    fn out_of_reach(&self, what: &str, why: &str, remedy: impl Into<String>) -> ApiError {
        ApiError::forbidden(what, format!("{}: {why}", self.words()), remedy)
    }

    fn words(&self) -> String {
        match &self.name {
            Some(name) => format!("the token {name} is {} of {}", self.role, self.reach),
            None => "the machine's own token may everything".to_owned(),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asker, ApiError> {
        let found = parts.extensions.get::<Asker>();
        found.cloned().ok_or_else(|| {
            let what = super::input::what(parts);
            ApiError::internal(what, "the gate let in a request of nobody")
        })
    }
}

impl Input for Asker {
    fn describe(draft: &mut Draft) {
        draft.knows_who_asks = true;
    }
}

/// Whether who asks, and why, can be kept for ever in the audit.
fn check_words(what: &str, by: &str, reason: Option<&str>) -> Result<(), ApiError> {
    let said = |field: &str, text: &str, longest: usize, control: &[char]| {
        if text.trim().is_empty() {
            let why = format!("`{field}` is empty, and it is kept as the record of this");
            return Err(ApiError::invalid(what, why, format!("fill in `{field}`")));
        }
        if text.chars().count() > longest {
            let why = format!("`{field}` is longer than {longest} characters");
            return Err(ApiError::invalid(what, why, format!("shorten `{field}`")));
        }
        if let Some(c) = text
            .chars()
            .find(|c| c.is_control() && !control.contains(c))
        {
            let why = format!(
                "`{field}` holds the control character U+{:04X}",
                u32::from(c)
            );
            return Err(ApiError::invalid(
                what,
                why,
                format!("take it out of `{field}`"),
            ));
        }
        Ok(())
    };
    // A reason may have several lines; a name is one.
    said("by", by, BY_CHARS_MAX, &[])?;
    reason.map_or(Ok(()), |reason| {
        said("reason", reason, REASON_CHARS_MAX, &['\n', '\t'])
    })
}

/// What [`check_words`] wants, in the words of a schema, of every body that has these fields.
pub(crate) fn describe_asker(schema: &mut Value) {
    for (field, longest, control) in [
        ("by", BY_CHARS_MAX, r"\u0000-\u001f\u007f-\u009f"),
        (
            "reason",
            REASON_CHARS_MAX,
            r"\u0000-\u0008\u000b-\u001f\u007f-\u009f",
        ),
    ] {
        let text = schema.pointer_mut(&format!("/properties/{field}"));
        if let Some(text) = text.and_then(Value::as_object_mut) {
            let pattern = format!("^[^{control}]*[^{control}\\s][^{control}]*$");
            text.insert("pattern".to_owned(), json!(pattern));
            text.insert("maxLength".to_owned(), json!(longest));
        }
    }
}
