//! Whom the lead is given to when this coordinator is to give it away.
//!
//! Another one that has everything would do, were it not for its clock: a leader whose clock is wrong
//! fires nothing, and gives the lead back at once to whoever has a better one. So among those that could
//! lead, one whose clock was read of late, has stood still and agrees comes first, and only among its like
//! counts who lacks least.
//!
//! Where there is none but such with a clock that is known to be wrong, it depends on why the lead is to be
//! given away. Whoever goes on running keeps it, and says why: nothing would fire elsewhere, and here it
//! does. A process that ends gives it to the best there is: that one would be elected anyway, only later,
//! and everything but firing goes on by other clocks.

use protocol::Now;

use crate::clock::members::{Amiss, Looks};
use crate::core::Core;

/// A coordinator that votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: u64,
    /// Entries of the log that it lacks.
    pub behind: u64,
}

/// What becomes of this coordinator when it has given the lead away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It stands by; and where nobody is fit, it may as well lead on.
    Stays,
    Ends,
}

/// Who is to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub node: u64,
    /// It is to lead in spite of this.
    pub amiss: Option<Amiss>,
}

/// Why nobody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuccessor {
    #[error("there is no other coordinator that could lead now")]
    Nobody,
    #[error(
        "the clock of node {node} {amiss}: nothing would fire there; this coordinator leads on"
    )]
    Amiss { node: u64, amiss: Amiss },
}

impl Core {
    /// Whom of these to give the lead to.
    pub fn choose_successor(
        &self,
        candidates: &[Candidate],
        afterwards: Afterwards,
        now: Now,
    ) -> Result<Chosen, NoSuccessor> {
        let (chosen, looks) = candidates
            .iter()
            .map(|&candidate| (candidate, self.gate.looks(candidate.node, now)))
            .min_by_key(|&(candidate, looks)| (rank(looks), candidate.behind, candidate.node))
            .ok_or(NoSuccessor::Nobody)?;
        let node = chosen.node;
        match (looks, afterwards) {
            (Looks::Good | Looks::Unread, _) => Ok(Chosen { node, amiss: None }),
            (Looks::Amiss(amiss), Afterwards::Ends) => Ok(Chosen {
                node,
                amiss: Some(amiss),
            }),
            (Looks::Amiss(amiss), Afterwards::Stays) => Err(NoSuccessor::Amiss { node, amiss }),
        }
    }
}

fn rank(looks: Looks) -> u8 {
    match looks {
        Looks::Good => 0,
        Looks::Unread => 1,
        Looks::Amiss(_) => 2,
    }
}
