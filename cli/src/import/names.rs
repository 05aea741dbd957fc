//! Names of imported jobs.
//!
//! A name is made from what the job *is*, never from where it stands: so the next import of a
//! source in which lines have moved finds the same jobs. Where the source has names of its own,
//! they are taken; else a readable word is made, and a digest tells apart what it leaves out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use protocol::names::NAME_PART_BYTES_MAX;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of a digest in a name.
const DIGEST_DIGITS: usize = 6;

/// Gives the same name twice to nobody.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Each name given, and the last number behind it that was.
    given: BTreeMap<String, u32>,
}

impl Names {
    /// `namespace/name`, and for what is equal to the last character a number behind it. Two equal
    /// lines do the same, so that it is no matter which of them has which.
    pub(crate) fn take(&mut self, namespace: &str, name: &str) -> String {
        let plain = format!("{namespace}/{name}");
        let mut number = self.given.get(&plain).copied().unwrap_or(0);
        let whole = loop {
            number += 1;
            let whole = match number {
                1 => plain.clone(),
                number => format!("{namespace}/{}", numbered(name, number)),
            };
            if !self.given.contains_key(&whole) {
                break whole;
            }
        };
        self.given.insert(whole.clone(), 1);
        self.given.insert(plain, number);
        whole
    }

    /// Whether this name was given already.
    pub(crate) fn has(&self, whole: &str) -> bool {
        self.given.contains_key(whole)
    }
}

/// A part of a job's name near to a text, at most so many bytes; empty where nothing remains.
pub(crate) fn slug(text: &str, bytes_max: usize) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9' | '_' | '.') => slug.push(c),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
        if slug.len() >= bytes_max {
            break;
        }
    }
    trimmed(&slug).to_owned()
}

/// A name that the source gives: as it is where it is a name here, else with a digest of what was
/// lost of it.
pub(crate) fn of_source(given: &str, digested: &[&str]) -> String {
    let whole = slug(given, NAME_PART_BYTES_MAX);
    if whole == given && !whole.is_empty() {
        return whole;
    }
    with_digest(given, digested)
}

/// A readable word and a digest of everything that makes the job this one.
pub(crate) fn with_digest(word: &str, digested: &[&str]) -> String {
    let word = slug(word, NAME_PART_BYTES_MAX - DIGEST_DIGITS - 1);
    let digest = digest(digested, DIGEST_DIGITS);
    match word.as_str() {
        "" => format!("job-{digest}"),
        word => format!("{word}-{digest}"),
    }
}

/// The first hexadecimal digits of a SHA-256 over texts that no other list of texts shares.
pub(crate) fn digest(texts: &[&str], digits: usize) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut digest = String::new();
    for byte in hasher.finalize() {
        write!(digest, "{byte:02x}").expect("writing to a String cannot fail");
    }
    digest.truncate(digits);
    digest
}

fn numbered(name: &str, number: u32) -> String {
    let number = format!("-{number}");
    let room = NAME_PART_BYTES_MAX - number.len();
    let stem = &name[..name.len().min(room)];
    format!("{}{number}", trimmed(stem))
}

fn trimmed(part: &str) -> &str {
    part.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use protocol::JobName;

    use super::*;

    #[test]
    fn every_text_gives_a_name() {
        let long = "x".repeat(200);
        for text in [
            "backup",
            "Backup DB!",
            "",
            "..",
            "对账",
            "-a-",
            &long,
            "a b  c",
        ] {
            for name in [of_source(text, &[text]), with_digest(text, &[text])] {
                let mut names = Names::default();
                for _ in 0..12 {
                    let whole = names.take("cron", &name);
                    assert!(whole.parse::<JobName>().is_ok(), "{text:?} gave {whole:?}");
                }
            }
        }
        assert_eq!(of_source("backup", &["x"]), "backup");
        assert_ne!(of_source("Backup", &["a"]), of_source("Backup", &["b"]));
        assert_ne!(digest(&["ab", "c"], 6), digest(&["a", "bc"], 6));
    }

    #[test]
    fn equal_names_get_numbers() {
        let mut names = Names::default();
        let taken: Vec<String> = (0..3).map(|_| names.take("cron", "a")).collect();
        assert_eq!(taken, ["cron/a", "cron/a-2", "cron/a-3"]);
    }

    #[test]
    fn a_name_that_ends_in_a_number_is_no_other_ones() {
        for order in [["a", "a", "a-2"], ["a-2", "a", "a"]] {
            let mut names = Names::default();
            let taken: BTreeSet<String> = order.iter().map(|n| names.take("cron", n)).collect();
            assert_eq!(taken.len(), 3, "{taken:?}");
        }
    }
}
