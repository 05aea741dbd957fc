use protocol::AlertId;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};

/// A person has seen to an alert. Where its matter goes on, the next time it is raised it is
/// opened anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearAlert {
    pub alert_id: AlertId,
    pub by: String,
    pub reason: String,
}

impl ClearAlert {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let alert = self.alert_id;
        let by = clip(&self.by);
        let changed = context
            .clear(alert, Some(by))?
            .ok_or(Refusal::NoSuchAlert { alert })?;
        if changed {
            context.audit(Audit {
                by,
                action: "clear alert",
                on: On::All,
                reason: Some(clip(&format!("{alert}: {}", self.reason))),
            })?;
        }
        Ok(Done::AlertCleared { changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{AlertKind, RaiseAlert};
    use crate::testing::Bed;

    #[test]
    fn who_cleared_what_is_on_record_once() {
        let mut bed = Bed::new();
        let clear = ClearAlert {
            alert_id: AlertId(1),
            by: "ada".to_owned(),
            reason: "known".to_owned(),
        };
        assert_eq!(
            bed.refused(clear.clone()),
            Refusal::NoSuchAlert { alert: AlertId(1) }
        );
        bed.ok(RaiseAlert {
            kind: AlertKind::ClockBehind,
            on: On::All,
            text: "look".to_owned(),
        });
        bed.ok(clear.clone());
        bed.ok(clear);
        assert_eq!(
            bed.view("SELECT by, action, reason FROM audit_view"),
            ["ada|clear alert|alert-1: known"]
        );
    }
}
