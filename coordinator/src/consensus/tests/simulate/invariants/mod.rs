//! What must hold, whatever happens.

mod acknowledged;
mod agreement;
mod leaders;
mod tokens;

pub(super) use acknowledged::Acknowledged;
pub(super) use agreement::Agreement;
pub(super) use leaders::Leaders;
pub(super) use tokens::Tokens;
