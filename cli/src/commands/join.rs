//! Letting machines in: the text that one machine makes and another shows.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use protocol::api::{
    CreateJoinTokenRequest, CreatedJoinToken, EnrolAnswer, EnrolRequest, JoinToken as Listed,
    RevokeJoinTokenAnswer, RevokeJoinTokenRequest,
};
use protocol::{ClusterId, Role, WallMs};
use transport::Identity;
use transport::ca::{Enrolment, Issued};
use transport::https::{Fingerprint, HttpsClient};

use crate::args::{AboutJoin, Asking, Join, Joining, MakeJoin};
use crate::client::Client;
use crate::clock;
use crate::commands::asking_user;
use crate::commands::ca::of_ca;
use crate::failure::Failure;
use crate::output::{Room, talk};
use crate::text::Table;

const FORM: &str = "matins-join-1";

const PATH: &str = "/api/v1/join-tokens";

/// Everything that a machine must know to be let in, as one word:
/// `matins-join-1,<cluster>,<fingerprint of its authority>,<role>,<secret>,<host:port of the API>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinToken {
    cluster: ClusterId,
    authority: Fingerprint,
    role: Role,
    secret: String,
    address: String,
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoinToken {
            cluster,
            authority,
            role,
            secret,
            address,
        } = self;
        write!(f, "{FORM},{cluster},{authority},{role},{secret},{address}")
    }
}

impl FromStr for JoinToken {
    type Err = String;

    fn from_str(text: &str) -> Result<JoinToken, String> {
        let parts: Vec<&str> = text.trim().split(',').collect();
        let [FORM, cluster, authority, role, secret, address] = parts[..] else {
            return Err(format!(
                "it is not a join token: that is one word in six parts that begins with {FORM}"
            ));
        };
        Ok(JoinToken {
            cluster: cluster.parse().map_err(|error| format!("{error}"))?,
            authority: authority.parse().map_err(|error| format!("{error}"))?,
            role: role.parse().map_err(|error| format!("{error}"))?,
            secret: secret.to_owned(),
            address: address.to_owned(),
        })
    }
}

/// `matins token join`
pub(crate) fn token(what: &Join) -> Result<(), Failure> {
    match (&what.about, &what.make) {
        (Some(AboutJoin::List { asking }), _) => list(asking),
        (Some(AboutJoin::Revoke { id, reason, asking }), _) => {
            let request = RevokeJoinTokenRequest {
                by: Some(asking_user()),
                reason: reason.clone(),
            };
            let client = asking.target.find()?;
            let answer: RevokeJoinTokenAnswer =
                client.post(&format!("{PATH}/{id}/revoke"), &request)?;
            asking.output.print(&answer, |_| {
                let already = if answer.changed { "" } else { " already" };
                format!("{id} is revoked{already}\n")
            })
        }
        (None, make) => {
            let make = make.as_ref();
            create(
                make.expect("the parser demands what making a token needs"),
                &what.asking,
            )
        }
    }
}

fn create(make: &MakeJoin, asking: &Asking) -> Result<(), Failure> {
    let request = CreateJoinTokenRequest {
        role: make.role,
        uses: make.uses,
        expires_at: clock::now() + make.expires,
        name_prefix: make.name_prefix.clone(),
        by: Some(asking_user()),
    };
    let made: CreatedJoinToken = asking.target.find()?.post(PATH, &request)?;
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
        role: made.role,
        secret: made.secret,
        address: make.address.clone(),
    };
    let text = serde_json::json!({ "id": made.id.to_string(), "token": token.to_string() });
    asking.output.print(&text, |_| format!("{token}\n"))?;
    if asking.output.is_for_people() {
        talk(&format!(
            "{} lets {} in as {} until {}; on each: matins {} --token TOKEN --name NAME \
             --identity DIR",
            made.id,
            make.uses,
            made.role,
            made.expires_at,
            command_of(made.role)
        ));
    }
    Ok(())
}

/// What a machine of this role is let in with.
fn command_of(role: Role) -> &'static str {
    match role {
        Role::Agent => "agent enrol",
        Role::Coordinator | Role::Witness => "cluster join",
    }
}

fn list(asking: &Asking) -> Result<(), Failure> {
    let client = asking.target.find()?;
    let tokens: Vec<Listed> = client.list_all(PATH, &[])?;
    asking
        .output
        .print(&tokens, |room| table(&tokens, clock::now(), room))
}

fn table(tokens: &[Listed], now: WallMs, room: Room) -> String {
    let mut table = Table::new(&["TOKEN", "ROLE", "LEFT", "~NAMES", "STATE", "~BY"]);
    for token in tokens {
        table.row(vec![
            token.id.to_string(),
            token.role.to_string(),
            format!("{} of {}", token.uses_left, token.uses),
            token
                .name_prefix
                .as_ref()
                .map_or_else(|| "any".to_owned(), |prefix| format!("{prefix}*")),
            state(token, now),
            token.created_by.clone(),
        ]);
    }
    table.render_in(room)
}

fn state(token: &Listed, now: WallMs) -> String {
    match token.revoked_at {
        Some(_) => "revoked".to_owned(),
        None if token.expires_at <= now => "ended".to_owned(),
        None if token.uses_left == 0 => "used up".to_owned(),
        None => {
            let end = clock::to_the_second(token.expires_at);
            format!("until {}", end.to_rfc3339())
        }
    }
}

/// `matins agent enrol`
pub(crate) fn enrol(joining: &Joining) -> Result<(), Failure> {
    let what = format!("enrolling {} at {}", joining.name, joining.token.address);
    check_role(&what, &joining.token, &[Role::Agent])?;
    be_let_in(&what, joining)?;
    let (directory, name) = (joining.identity.display(), &joining.name);
    talk(&format!(
        "{directory} holds the identity of {name} in the cluster {}",
        joining.token.cluster
    ));
    Ok(())
}

/// `matins cluster join`
pub(crate) fn join(joining: &Joining) -> Result<(), Failure> {
    let Joining {
        token,
        name,
        identity,
    } = joining;
    let what = format!("joining the cluster {} as {name}", token.cluster);
    check_role(&what, token, &[Role::Coordinator, Role::Witness])?;
    let answer = be_let_in(&what, joining)?;
    let node = answer.node.unwrap_or_default();
    let (directory, role) = (identity.display(), token.role);
    let run = match role {
        Role::Witness => "witness",
        Role::Agent | Role::Coordinator => "coordinator --join",
    };
    talk(&format!(
        "{directory} holds the identity of the {role} {name}, node {node} of the cluster {}; next: matins {run} \
         --identity {directory} --data DIR --advertise HOST here, and matins cluster add HOST:7410 \
         where the group is",
        token.cluster
    ));
    Ok(())
}

fn check_role(what: &str, token: &JoinToken, roles: &[Role]) -> Result<(), Failure> {
    if roles.contains(&token.role) {
        return Ok(());
    }
    Err(Failure::bad_input(
        what,
        format!("the join token lets in as {}", token.role),
        format!(
            "use it with `matins {}`, or have one made with --role",
            command_of(token.role)
        ),
    ))
}

/// Asks for a certificate of this machine's own key.
fn be_let_in(what: &str, joining: &Joining) -> Result<EnrolAnswer, Failure> {
    let Joining {
        token,
        name,
        identity,
    } = joining;
    refuse_good_identity(what, identity)?;
    let of_ca = |error| of_ca(what.to_owned(), &error);
    let key = Enrolment::kept_in(identity).map_err(of_ca)?;
    let request = EnrolRequest {
        secret: token.secret.clone(),
        role: token.role,
        name: name.clone(),
        request: key.request().map_err(of_ca)?,
    };
    let trusted = HttpsClient::pinned(&token.cluster, token.authority)
        .map_err(|error| Failure::of_error(what, &error, "use the whole text of the join token"))?;
    let client = Client::new(
        vec![format!("https://{}", token.address)],
        "",
        Some(trusted),
    );
    let answer: EnrolAnswer = client.post("/api/v1/enrol", &request)?;
    let issued = Issued {
        certificate: answer.certificate.clone(),
        authorities: answer.authorities.clone(),
    };
    key.complete(identity, issued).map_err(of_ca)?;
    Ok(answer)
}

/// What is in use is not replaced; what has ended may be, and keeps its key, by which it is known.
fn refuse_good_identity(what: &str, directory: &Path) -> Result<(), Failure> {
    if !directory
        .join(transport::identity::CERTIFICATE_FILE)
        .exists()
    {
        return Ok(());
    }
    let ended = Identity::load(directory).is_ok_and(|own| own.lifetime().until <= clock::now());
    if ended {
        return Ok(());
    }
    Err(Failure::bad_input(
        what,
        format!("{} holds an identity already", directory.display()),
        "use that one, or name a directory of its own for the new one",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_token_reads_as_it_is_written() {
        let text = format!(
            "{FORM},prod,{},witness,matins_ab,10.0.0.1:7412",
            "0f".repeat(32)
        );
        assert_eq!(text.parse::<JoinToken>().unwrap().to_string(), text);
        for bad in [
            "",
            "matins_ab",
            &text[1..],
            &text.replace("prod", "P"),
            &text.replace("witness", "watchman"),
            &format!("{text},x"),
        ] {
            assert!(bad.parse::<JoinToken>().is_err(), "{bad}");
        }
    }
}
