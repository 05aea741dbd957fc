//! `matins ca`: the cluster's authority and what it signs.

use std::path::Path;

use protocol::{AgentName, ClusterId, DurationMs};
use transport::Role;
use transport::ca::{
    self, CA_KEY_FILE, CA_LIFETIME, CERTIFICATE_LIFETIME, CaError, RENEWED_LIFETIME, Subject,
    Validity,
};
use transport::identity::{CA_FILE, CERTIFICATE_FILE};

use crate::args::Ca;
use crate::clock;
use crate::failure::Failure;
use crate::output::talk;

pub(crate) fn ca(what: Ca) -> Result<(), Failure> {
    match what {
        Ca::Create { dir, cluster } => {
            let validity = Validity {
                now: clock::now(),
                lifetime: CA_LIFETIME,
            };
            ca::create(&dir, &cluster, validity).map_err(|error| {
                of_ca(format!("making an authority in {}", dir.display()), &error)
            })?;
            talk(&format!(
                "{} holds the authority of {cluster}: keep ca.key there and nowhere else",
                dir.display()
            ));
        }
        Ca::Issue {
            dir,
            role,
            name,
            node,
            out,
        } => {
            let subject = match (role, node) {
                (Role::Agent, Some(_)) => {
                    return Err(Failure::bad_input(
                        "issuing a certificate for an agent",
                        "an agent is no node of the control group",
                        "leave out --node",
                    ));
                }
                _ => Subject::new(role, &name).node(node),
            };
            let peer = issue(&dir, &subject, &out)?;
            talk(&format!(
                "{} holds the identity of {peer}, good until {}",
                out.display(),
                clock::now() + CERTIFICATE_LIFETIME
            ));
        }
    }
    Ok(())
}

/// `matins cluster init`: the authority lies with the first coordinator, which lets the others in and
/// renews what they have.
pub(crate) fn init(cluster: &ClusterId, name: &AgentName, identity: &Path) -> Result<(), Failure> {
    let what = || format!("beginning the cluster {cluster} in {}", identity.display());
    if identity.join(CERTIFICATE_FILE).exists() {
        return Err(Failure::bad_input(
            what(),
            format!("{} holds an identity already", identity.display()),
            "use that one, or name a directory of its own for another cluster",
        ));
    }
    if identity.join(CA_FILE).exists() && identity.join(CA_KEY_FILE).exists() {
        // An earlier call was cut short: it goes on.
        let there = ca::cluster_of(identity).map_err(|error| of_ca(what(), &error))?;
        if there != *cluster {
            return Err(Failure::bad_input(
                what(),
                format!("the authority there is of the cluster {there}"),
                "name that cluster, or a directory of its own for another one",
            ));
        }
    } else {
        let validity = Validity {
            now: clock::now(),
            lifetime: CA_LIFETIME,
        };
        ca::create(identity, cluster, validity).map_err(|error| of_ca(what(), &error))?;
    }
    let subject = Subject::new(Role::Coordinator, name);
    let peer = issue_for(identity, &subject, identity, RENEWED_LIFETIME)?;
    talk(&format!(
        "{directory} holds the authority of {cluster} and the identity of {peer}, node 1; keep a copy of \
         ca.pem and ca.key in a safe place; next: matins coordinator --identity {directory} --data DIR",
        directory = identity.display()
    ));
    Ok(())
}

pub(crate) fn issue(
    authority: &Path,
    subject: &Subject,
    out: &Path,
) -> Result<transport::PeerName, Failure> {
    issue_for(authority, subject, out, CERTIFICATE_LIFETIME)
}

fn issue_for(
    authority: &Path,
    subject: &Subject,
    out: &Path,
    lifetime: DurationMs,
) -> Result<transport::PeerName, Failure> {
    let validity = Validity {
        now: clock::now(),
        lifetime,
    };
    ca::issue(authority, subject, out, validity)
        .map_err(|error| of_ca(format!("issuing a certificate for the {subject}"), &error))
}

pub(crate) fn of_ca(what: String, error: &CaError) -> Failure {
    let remedy = match error {
        CaError::Exists { .. } => {
            "issue certificates with the one that is there, or name another directory"
        }
        CaError::Read { .. } => {
            "name the authority's directory, made with `matins ca create`, as a user that may \
             read it"
        }
        CaError::Write { .. } => "name a directory that you may write to",
        CaError::Clock { .. } => "set this machine's clock",
        _ => "see that ca.pem and ca.key are the two files that `matins ca create` made together",
    };
    Failure::of_error(what, error, remedy)
}
