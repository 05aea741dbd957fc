//! The secret that lets a request in.

use std::fmt::{self, Write};
use std::hint::black_box;
use std::str::FromStr;

const BYTES: usize = 32;

/// 256 random bits, written as 64 hexadecimal digits.
#[derive(Clone)]
pub(crate) struct ApiToken(String);

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
        let mut text = String::with_capacity(2 * BYTES);
        for byte in bytes {
            write!(text, "{byte:02x}").expect("writing to a string does not fail");
        }
        Ok(ApiToken(text))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
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

impl FromStr for ApiToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<ApiToken, TokenError> {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 2 * BYTES && text.bytes().all(is_digit) {
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
    fn what_is_no_token_is_refused() {
        for bad in ["", "abc", &"g".repeat(64), &"A".repeat(64), &"a".repeat(65)] {
            assert!(bad.parse::<ApiToken>().is_err(), "{bad:?}");
        }
    }
}
