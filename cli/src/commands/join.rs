//! Letting hosts in: the text that one machine makes and another shows.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use protocol::api::{CreateJoinTokenRequest, CreatedJoinToken, EnrolAnswer, EnrolRequest};
use protocol::{AgentName, ClusterId, DurationMs};
use transport::ca::{Enrolment, Issued};
use transport::https::{Fingerprint, HttpsClient};

use crate::args::Asking;
use crate::client::Client;
use crate::clock;
use crate::commands::asking_user;
use crate::commands::ca::of_ca;
use crate::failure::Failure;
use crate::output::talk;

const FORM: &str = "matins-join-1";

/// Everything that a host must know to be let in, as one word:
/// `matins-join-1,<cluster>,<fingerprint of its authority>,<secret>,<host:port of the API>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinToken {
    cluster: ClusterId,
    authority: Fingerprint,
    secret: String,
    address: String,
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoinToken {
            cluster,
            authority,
            secret,
            address,
        } = self;
        write!(f, "{FORM},{cluster},{authority},{secret},{address}")
    }
}

impl FromStr for JoinToken {
    type Err = String;

    fn from_str(text: &str) -> Result<JoinToken, String> {
        let parts: Vec<&str> = text.trim().split(',').collect();
        let [FORM, cluster, authority, secret, address] = parts[..] else {
            return Err(format!(
                "it is not a join token: that is one word in five parts that begins with {FORM}"
            ));
        };
        Ok(JoinToken {
            cluster: cluster.parse().map_err(|error| format!("{error}"))?,
            authority: authority.parse().map_err(|error| format!("{error}"))?,
            secret: secret.to_owned(),
            address: address.to_owned(),
        })
    }
}

/// `matins token join`
pub(crate) fn create(
    uses: u32,
    expires: DurationMs,
    name_prefix: Option<&str>,
    address: &str,
    asking: &Asking,
) -> Result<(), Failure> {
    let request = CreateJoinTokenRequest {
        uses,
        expires_at: clock::now() + expires,
        name_prefix: name_prefix.map(str::to_owned),
        by: Some(asking_user()),
    };
    let made: CreatedJoinToken = asking
        .target
        .find()?
        .post("/api/v1/join-tokens", &request)?;
    let authority = made.authority.parse().map_err(|error| {
        Failure::of_error(
            "reading the coordinator's answer",
            &error,
            "see that coordinator and command line are of one version: `matins version`",
        )
    })?;
    let token = JoinToken {
        cluster: made.cluster,
        authority,
        secret: made.secret,
        address: address.to_owned(),
    };
    let text = serde_json::json!({ "token": token.to_string() });
    asking.output.print(&text, |_| format!("{token}\n"))?;
    if asking.output.is_for_people() {
        talk(&format!(
            "it lets {uses} in until {}; on each host: matins agent enrol --token TOKEN --name NAME \
             --identity DIR",
            made.expires_at
        ));
    }
    Ok(())
}

/// `matins agent enrol`
pub(crate) fn enrol(token: &JoinToken, name: &AgentName, identity: &Path) -> Result<(), Failure> {
    let what = format!("enrolling {name} at {}", token.address);
    if identity
        .join(transport::identity::CERTIFICATE_FILE)
        .exists()
    {
        return Err(Failure::bad_input(
            what,
            format!("{} holds an identity already", identity.display()),
            "use that one, or name a directory of its own for the new one",
        ));
    }
    let key = Enrolment::kept_in(identity).map_err(|error| of_ca(what.clone(), &error))?;
    let request = EnrolRequest {
        secret: token.secret.clone(),
        name: name.clone(),
        request: key.request().map_err(|error| of_ca(what.clone(), &error))?,
    };
    let trusted = HttpsClient::pinned(&token.cluster, token.authority).map_err(|error| {
        Failure::of_error(what.clone(), &error, "use the whole text of the join token")
    })?;
    let client = Client::new(&format!("https://{}", token.address), "", Some(trusted));
    let answer: EnrolAnswer = client.post("/api/v1/enrol", &request)?;
    let issued = Issued {
        certificate: answer.certificate,
        authorities: answer.authorities,
    };
    key.complete(identity, issued)
        .map_err(|error| of_ca(what, &error))?;
    talk(&format!(
        "{} holds the identity of {name} in the cluster {}",
        identity.display(),
        token.cluster
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_token_reads_as_it_is_written() {
        let text = format!("{FORM},prod,{},matins_ab,10.0.0.1:7412", "0f".repeat(32));
        assert_eq!(text.parse::<JoinToken>().unwrap().to_string(), text);
        for bad in [
            "",
            "matins_ab",
            &text[1..],
            &text.replace("prod", "P"),
            &format!("{text},x"),
        ] {
            assert!(bad.parse::<JoinToken>().is_err(), "{bad}");
        }
    }
}
