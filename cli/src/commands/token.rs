//! `matins token`: by what people and programs are let in.

use protocol::api::{
    ApiToken, CreateTokenRequest, CreatedToken, RevokeTokenAnswer, RevokeTokenRequest,
};
use protocol::{Reach, WallMs};

use crate::args::{Asking, Token};
use crate::clock;
use crate::commands::{asking_user, join};
use crate::failure::Failure;
use crate::output::{Room, talk};
use crate::text::Table;

const PATH: &str = "/api/v1/tokens";

pub(crate) fn token(what: &Token) -> Result<(), Failure> {
    match what {
        Token::Create {
            name,
            role,
            namespaces,
            expires,
            asking,
        } => {
            let all = namespaces.is_empty();
            let namespaces = (!all).then(|| namespaces.iter().cloned().collect());
            let request = CreateTokenRequest {
                name: name.clone(),
                role: *role,
                namespaces: Reach::try_from(namespaces)
                    .expect("a list without any namespace is left out"),
                expires_at: expires.map(|length| clock::now() + length),
                by: Some(asking_user()),
            };
            create(asking, &request)
        }
        Token::Join(what) => join::token(what),
        Token::List { asking } => list(asking),
        Token::Revoke {
            name,
            reason,
            asking,
        } => {
            let request = RevokeTokenRequest {
                by: Some(asking_user()),
                reason: reason.clone(),
            };
            let client = asking.target.find()?;
            let answer: RevokeTokenAnswer =
                client.post(&format!("{PATH}/{name}/revoke"), &request)?;
            asking.output.print(&answer, |_| {
                let already = if answer.changed { "" } else { " already" };
                format!("{name} is revoked{already}\n")
            })
        }
    }
}

fn create(asking: &Asking, request: &CreateTokenRequest) -> Result<(), Failure> {
    let made: CreatedToken = asking.target.find()?.post(PATH, request)?;
    asking
        .output
        .print(&made, |_| format!("{}\n", made.token))?;
    if asking.output.is_for_people() {
        talk(&format!(
            "{}: {} of {}{}; nobody can tell this token again: keep it in a file that only its \
             user reads, and name that file in MATINS_TOKEN_FILE",
            made.name,
            made.role,
            made.namespaces,
            match made.expires_at {
                Some(end) => format!(", until {end}"),
                None => String::new(),
            }
        ));
    }
    Ok(())
}

fn list(asking: &Asking) -> Result<(), Failure> {
    let client = asking.target.find()?;
    let tokens: Vec<ApiToken> = client.list_all(PATH, &[])?;
    asking
        .output
        .print(&tokens, |room| table(&tokens, clock::now(), room))
}

fn table(tokens: &[ApiToken], now: WallMs, room: Room) -> String {
    let mut table = Table::new(&["~TOKEN", "ROLE", "~REACHES", "STATE", "~BY"]);
    for token in tokens {
        table.row(vec![
            token.name.to_string(),
            token.role.to_string(),
            token.namespaces.to_string(),
            state(token, now),
            token.created_by.clone(),
        ]);
    }
    table.render_in(room)
}

fn state(token: &ApiToken, now: WallMs) -> String {
    match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now => "ended".to_owned(),
        (None, Some(end)) => format!("until {}", clock::to_the_second(end).to_rfc3339()),
        (None, None) => "good".to_owned(),
    }
}
