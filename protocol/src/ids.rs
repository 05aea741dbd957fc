//! Integer ids, each a type of its own so that none can stand in another's place.
//!
//! All are minted by the ledger while it applies a command, never by a clock or a random source,
//! so every replica mints the same. [`Token`], [`Epoch`] and [`SessionId`] come from one counter
//! that only rises: a *position*. It packs a generation (20 bits) above a counter (33 bits) that
//! carries into it; a restore raises the generation, so no position is ever given out twice.
//! 53 bits survive JSON and every language's double.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Text before the number in an id's display.
pub trait Prefixed {
    const PREFIX: &'static str;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl Prefixed for $name {
            const PREFIX: &'static str = $prefix;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            /// Reads the displayed form; the bare number is not accepted.
            fn from_str(text: &str) -> Result<$name, IdError> {
                let digits = text
                    .strip_prefix(concat!($prefix, "-"))
                    // No id has a sign.
                    .filter(|digits| !digits.starts_with(['-', '+']))
                    .ok_or_else(|| IdError::Prefix { text: text.to_owned(), expected: $prefix })?;
                digits
                    .parse()
                    .map($name)
                    .map_err(|source| IdError::Number { text: text.to_owned(), source })
            }
        }
    };
}

id!(
    /// A job for ever: across versions, renames, delete and re-create.
    JobId, "job"
);
id!(
    /// One fire of a job, or one manual run.
    RunId, "run"
);
id!(
    /// One carrying-out of a run; a rerun adds another.
    ExecutionId, "exec"
);
id!(
    /// A host, by the identity in its certificate.
    AgentId, "agent"
);
id!(
    /// Something a person should know.
    AlertId, "alert"
);
id!(
    /// A token by which hosts or control machines are let in.
    JoinTokenId, "join"
);
id!(
    /// One lease of one shard: the fencing token. Strictly rising, restores included.
    Token, "token"
);
id!(
    /// One reign of one leader: the position of its committed `BecomeActive`.
    Epoch, "epoch"
);
id!(
    /// One committed attach of an agent.
    SessionId, "session"
);

/// Text that is not an id of the kind asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdError {
    #[error(
        "`{text}` is not {} {expected} id: expected `{expected}-<number>`",
        article(expected)
    )]
    Prefix {
        text: String,
        expected: &'static str,
    },
    #[error("`{text}` does not end in a number")]
    Number { text: String, source: ParseIntError },
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e']) {
        "an"
    } else {
        "a"
    }
}

/// Bits of the counter below the generation in a position.
pub const POSITION_COUNTER_BITS: u32 = 33;

/// The first position of a generation.
pub const fn first_position_of(generation: i64) -> i64 {
    generation << POSITION_COUNTER_BITS
}

/// The generation of a position.
pub const fn generation_of(position: i64) -> i64 {
    position >> POSITION_COUNTER_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_display_with_a_prefix_and_parse_back() {
        assert_eq!(RunId(12).to_string(), "run-12");
        assert_eq!("run-12".parse::<RunId>(), Ok(RunId(12)));
        assert!(matches!(
            "job-12".parse::<RunId>(),
            Err(IdError::Prefix { .. })
        ));
        assert!(matches!(
            "run-x".parse::<RunId>(),
            Err(IdError::Number { .. })
        ));
        for signed in ["run--1", "run-+1"] {
            assert!(matches!(
                signed.parse::<RunId>(),
                Err(IdError::Prefix { .. })
            ));
        }
        let refused = "1".parse::<AlertId>().unwrap_err().to_string();
        assert_eq!(refused, "`1` is not an alert id: expected `alert-<number>`");
    }

    #[test]
    fn a_later_generation_lies_above_every_counter_of_the_earlier() {
        let counter_max = (1i64 << POSITION_COUNTER_BITS) - 1;
        assert!(first_position_of(8) > first_position_of(7) + counter_max);
        assert_eq!(first_position_of(7) + counter_max + 1, first_position_of(8));
        assert!(first_position_of(1 << 20) <= 1 << 53);
    }
}
