//! The secrets that let a request in.
//!
//! The machine's own lies in its data directory as it is. Of those that the ledger knows only a
//! digest is kept, so a token begins with a word that says so: nothing else is looked for there.

use std::fmt::{self, Write};
use std::hint::black_box;
use std::str::FromStr;

use sha2::{Digest, Sha256};

const BYTES: usize = 32;

/// What a token begins with that the ledger knows; by it people and scanners tell a secret that
/// lies about.
const MARK: &str = "matins_";

/// The machine's own: 256 random bits, written as 64 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct ApiToken(String);

/// A token for somebody: [`MARK`] and 256 random bits, written as 64 hexadecimal digits.
pub(crate) struct Secret(String);

/// Text that is not a token.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "a token is {} hexadecimal digits and nothing else; remove the file, and a new one is drawn",
    2 * BYTES
)]
pub struct TokenError;

impl ApiToken {
    pub(crate) fn draw() -> Result<ApiToken, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(ApiToken(hex(&bytes)))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// By which the other control machines know it.
    pub(crate) fn digest(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }

    /// Compares in a time that does not depend on how much of it is right.
    pub(crate) fn is(&self, offered: &[u8]) -> bool {
        let own = self.0.as_bytes();
        if own.len() != offered.len() {
            return false;
        }
        let difference = own
            .iter()
            .zip(offered)
            .fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
        difference == 0
    }
}

impl Secret {
    pub(crate) fn draw() -> Result<Secret, getrandom::Error> {
        let random = ApiToken::draw()?;
        Ok(Secret(format!("{MARK}{}", random.reveal())))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// What the ledger keeps of it.
    pub(crate) fn digest(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }
}

/// What the ledger would have of a token that was offered; `None` for what is none of its kind.
pub(crate) fn digest_of(offered: &[u8]) -> Option<String> {
    let digits = offered.strip_prefix(MARK.as_bytes())?;
    is_hex(digits).then(|| hex(&Sha256::digest(offered)))
}

/// The digest by which another control machine's own token is known that was offered; `None` for what
/// is none of its kind.
pub(crate) fn digest_of_machines(offered: &[u8]) -> Option<String> {
    is_hex(offered).then(|| hex(&Sha256::digest(offered)))
}

fn is_hex(text: &[u8]) -> bool {
    let is_digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 2 * BYTES && text.iter().all(is_digit)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

impl FromStr for ApiToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<ApiToken, TokenError> {
        if is_hex(text.as_bytes()) {
            Ok(ApiToken(text.to_owned()))
        } else {
            Err(TokenError)
        }
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = ApiToken::draw().unwrap();
        let text = token.reveal().to_owned();
        assert!(token.is(text.as_bytes()));
        assert!(!token.is(&text.as_bytes()[1..]));
        assert!(!token.is(format!("{text}0").as_bytes()));
        for place in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[place] ^= 1;
            assert!(!token.is(&wrong), "{place}");
        }
        assert!(text.parse::<ApiToken>().unwrap().is(text.as_bytes()));
        assert_eq!(format!("{token:?}"), "ApiToken(secret)");
    }

    #[test]
    fn the_digest_of_what_is_offered_is_that_of_what_was_made() {
        let secret = Secret::draw().unwrap();
        let text = secret.reveal().to_owned();
        assert_eq!(digest_of(text.as_bytes()), Some(secret.digest()));
        assert!(!secret.digest().contains(&text[MARK.len()..]));
        let other = Secret::draw().unwrap();
        assert_ne!(digest_of(other.reveal().as_bytes()), Some(secret.digest()));
        for none in [
            "",
            "matins_",
            &text[1..],
            &text.to_uppercase(),
            &text[MARK.len()..],
        ] {
            assert_eq!(digest_of(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for bad in ["", "abc", &"g".repeat(64), &"A".repeat(64), &"a".repeat(65)] {
            assert!(bad.parse::<ApiToken>().is_err(), "{bad:?}");
        }
    }
}
