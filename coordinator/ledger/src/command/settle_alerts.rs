use serde::{Deserialize, Serialize};

use super::AlertKind;
use crate::apply::{Context, Stop};
use crate::outcome::Done;
use crate::tables::record::On;

/// The scheduler sees that matters of a kind are over, where such are open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleAlerts {
    pub kind: AlertKind,
    pub over: Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    These(Vec<On>),
    AllBut(Vec<On>),
}

impl SettleAlerts {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        match &self.over {
            Over::These(over) => {
                for &on in over {
                    context.settle_alert(self.kind, on)?;
                }
            }
            Over::AllBut(still) => context.settle_alerts_but(self.kind, still)?,
        }
        Ok(Done::AlertsSettled)
    }
}
