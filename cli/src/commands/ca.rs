//! `matins ca`: the cluster's authority and what it signs.

use std::path::Path;

use transport::Role;
use transport::ca::{self, CA_LIFETIME, CERTIFICATE_LIFETIME, CaError, Subject, Validity};

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
                (_, Some(node)) => Subject::new(role, &name).node(node),
                (_, None) => Subject::new(role, &name),
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

pub(crate) fn issue(
    authority: &Path,
    subject: &Subject,
    out: &Path,
) -> Result<transport::PeerName, Failure> {
    let validity = Validity {
        now: clock::now(),
        lifetime: CERTIFICATE_LIFETIME,
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
