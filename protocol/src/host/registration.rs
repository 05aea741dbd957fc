//! How a host's profile gets to the ledger, and what one says that the one before did not.
//!
//! A profile may be large and seldom changes, while five thousand agents attach at once when the lead
//! changes. So a profile has a digest of what matters of it: the coordinator says at every attach
//! which one the ledger has, and only an agent that has another sends its own, on a stream beside the
//! control stream. What the digest is taken over is the agent's matter; nobody else computes it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{FACT_TEXT_BYTES_MAX, FACTS_MAX, HostFact, HostFacts, Value};

/// Largest profile in bytes of JSON: that of a host with a thousand drives.
pub const PROFILE_BYTES_MAX: usize = 1 << 20;

/// Differences to the profile before that are told of one by one.
pub const DIFFERENCES_MAX: usize = 64;

/// Longest name and value in a difference, in bytes.
pub const DIFFERENCE_TEXT_BYTES_MAX: usize = 256;

/// Digest of what matters of a profile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileDigest(pub [u8; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest of a profile is 32 hexadecimal digits in lower case")]
pub struct NoDigest;

impl fmt::Display for ProfileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProfileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileDigest({self})")
    }
}

impl FromStr for ProfileDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<ProfileDigest, NoDigest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NoDigest),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
            return Err(NoDigest);
        };
        let mut bytes = [0; 16];
        if pairs.len() != bytes.len() {
            return Err(NoDigest);
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(ProfileDigest(bytes))
    }
}

impl TryFrom<String> for ProfileDigest {
    type Error = NoDigest;

    fn try_from(text: String) -> Result<ProfileDigest, NoDigest> {
        text.parse()
    }
}

impl From<ProfileDigest> for String {
    fn from(digest: ProfileDigest) -> String {
        digest.to_string()
    }
}

/// How something differs from the profile before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// It is there no more.
    Vanished,
    Worse,
    Changed,
    Better,
    Came,
}

impl Turn {
    pub const fn as_str(self) -> &'static str {
        match self {
            Turn::Vanished => "vanished",
            Turn::Worse => "worse",
            Turn::Changed => "changed",
            Turn::Better => "better",
            Turn::Came => "came",
        }
    }

    /// Whether a person is to hear of it.
    pub const fn is_bad(self) -> bool {
        matches!(self, Turn::Vanished | Turn::Worse)
    }
}

/// Something that is not as the profile before said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub turn: Turn,
    /// A part of the host, `drive /dev/sda`, or a fact, `memory.size_bytes`.
    pub about: String,
    /// Unset where it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// In words: `drive /dev/sda vanished (ok)`, `array md0 got worse: ok, now degraded`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = &self.about;
        match self.turn {
            Turn::Vanished => write!(f, "{about} vanished")?,
            Turn::Worse => write!(f, "{about} got worse")?,
            Turn::Changed => write!(f, "{about} changed")?,
            Turn::Better => write!(f, "{about} got better")?,
            Turn::Came => write!(f, "{about} is new")?,
        }
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, ": {before}, now {after}"),
            (Some(value), None) | (None, Some(value)) => write!(f, " ({value})"),
            (None, None) => Ok(()),
        }
    }
}

/// Why facts are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    #[error("{facts} facts, more than the {FACTS_MAX} that a profile may have")]
    TooMany { facts: usize },
    #[error("the name of a fact has {bytes} bytes, more than {FACT_TEXT_BYTES_MAX}")]
    LongName { bytes: usize },
    #[error("`{name}` has a text of {bytes} bytes, more than {FACT_TEXT_BYTES_MAX}")]
    LongText { name: String, bytes: usize },
}

impl HostFacts {
    /// Whether they are within the bounds that a profile has.
    pub fn check(&self) -> Result<(), FactsError> {
        let facts = self.0.len();
        if facts > FACTS_MAX {
            return Err(FactsError::TooMany { facts });
        }
        for (name, fact) in &self.0 {
            let bytes = name.len();
            if bytes > FACT_TEXT_BYTES_MAX {
                return Err(FactsError::LongName { bytes });
            }
            let bytes = match fact {
                HostFact::Known(Value::Text(text)) | HostFact::Unknown(text) => text.len(),
                HostFact::Known(Value::Truth(_) | Value::Number(_)) => 0,
            };
            if bytes > FACT_TEXT_BYTES_MAX {
                let name = name.clone();
                return Err(FactsError::LongText { name, bytes });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_and_nothing_else_is_one() {
        let digest = ProfileDigest([0xa0; 16]);
        let text = digest.to_string();
        assert_eq!(text, "a0".repeat(16));
        assert_eq!(text.parse(), Ok(digest));
        let written = serde_json::to_string(&digest).unwrap();
        assert_eq!(
            serde_json::from_str::<ProfileDigest>(&written).unwrap(),
            digest
        );
        for wrong in [
            "",
            "a0",
            &"A0".repeat(16),
            &"a0".repeat(17),
            &"ä".repeat(16),
        ] {
            assert_eq!(wrong.parse::<ProfileDigest>(), Err(NoDigest), "{wrong}");
        }
    }

    #[test]
    fn facts_are_bounded_in_number_and_length() {
        let long = "x".repeat(FACT_TEXT_BYTES_MAX + 1);
        let mut facts = HostFacts::default();
        facts.know("host.kernel", Value::Text("x".repeat(FACT_TEXT_BYTES_MAX)));
        assert_eq!(facts.check(), Ok(()));
        let mut texts = facts.clone();
        texts.miss("disk.medium", long.clone());
        assert!(matches!(texts.check(), Err(FactsError::LongText { .. })));
        let mut names = facts.clone();
        names.0.insert(long, HostFact::Known(Value::Truth(true)));
        assert!(matches!(names.check(), Err(FactsError::LongName { .. })));
        for n in 0..FACTS_MAX {
            let fact = HostFact::Known(Value::Number(1));
            facts.0.insert(format!("site.{n}"), fact);
        }
        assert!(matches!(facts.check(), Err(FactsError::TooMany { .. })));
    }

    #[test]
    fn a_difference_reads_as_a_sentence() {
        for (turn, before, after, expected) in [
            (Turn::Vanished, Some("ok"), None, "battery c0 vanished (ok)"),
            (Turn::Came, None, Some("ok"), "battery c0 is new (ok)"),
            (
                Turn::Worse,
                Some("ok"),
                Some("failed"),
                "battery c0 got worse: ok, now failed",
            ),
        ] {
            let difference = Difference {
                turn,
                about: "battery c0".to_owned(),
                before: before.map(str::to_owned),
                after: after.map(str::to_owned),
            };
            assert_eq!(difference.to_string(), expected);
        }
    }
}
