//! The person whom runs wait for whose outcome nobody knows.

use std::collections::BTreeMap;

use anyhow::Result;
use protocol::api::Run;
use protocol::{RunId, RunState};

use crate::site::Site;

/// Has those carried out again that wait for a person, and counts how often each was asked about.
pub(crate) fn answer_for(
    site: &Site,
    open: &[Run],
    asked: &mut BTreeMap<RunId, usize>,
) -> Result<()> {
    for run in open {
        if run.state == RunState::NeedsConfirmation {
            let id = run.run.to_string();
            site.matins(&["confirm", &id, "--as", "retry", "--reason", "looked at it"])?;
            *asked.entry(run.run).or_default() += 1;
        }
    }
    Ok(())
}
