use std::collections::BTreeSet;

/// Tokens rise: what is minted after an acknowledgement is higher than what was acknowledged, and
/// none is minted twice.
#[derive(Default)]
pub(in super::super) struct Tokens {
    minted: BTreeSet<i64>,
}

impl Tokens {
    /// Of which those are lower that are minted from now on.
    pub(in super::super) fn highest(&self) -> i64 {
        self.minted.last().copied().unwrap_or(0)
    }

    /// `highest` is what [`Tokens::highest`] was when it was asked for.
    pub(in super::super) fn minted(&mut self, token: i64, highest: i64) -> Result<(), String> {
        if token <= highest {
            return Err(format!("the token {token} was minted after {highest}"));
        }
        if !self.minted.insert(token) {
            return Err(format!("the token {token} was minted twice"));
        }
        Ok(())
    }
}
