//! How the health of an item is found: from all that was said of it, the worst counts.
//!
//! Good words are on a list, and only they are good: a word that no list has is unknown, with the
//! word, and never well. What says nothing is unknown too.

use crate::facts::Facts;
use crate::report::{Health, Item};

/// Words and what they mean, in lower case with single blanks.
pub(crate) type Words = &'static [(&'static str, Health)];

/// Sentences kept of one item. No tool says so much; a garbled file may.
const SENTENCES_MAX: usize = 32;

/// All that was said of one item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    said: Vec<(Health, String)>,
    notes: Vec<String>,
}

impl Judgement {
    /// What is no worse than what was said before may be left out where there is much; the worst never.
    pub(crate) fn say(&mut self, health: Health, reason: impl Into<String>) {
        if self.said.len() >= SENTENCES_MAX {
            if self.worst() >= Some(health) {
                return;
            }
            self.said.pop();
        }
        self.said.push((health, reason.into()));
    }

    /// Worth reading, and no evidence.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        if self.notes.len() < SENTENCES_MAX {
            self.notes.push(note.into());
        }
    }

    /// Judges a word of the tool's.
    pub(crate) fn word(&mut self, what: &str, said: &str, words: Words) {
        let health = meaning(said, words);
        match health {
            Some(health) => self.say(health, format!("{what}: {}", said.trim())),
            None if said.trim().is_empty() => self.say(Health::Unknown, format!("{what} is empty")),
            None => self.say(
                Health::Unknown,
                format!("{what}: {:?} is no word known here", said.trim()),
            ),
        }
    }

    /// Judges a yes or no of which yes is bad. `said` is shown of what is neither.
    pub(crate) fn fault(&mut self, fault: &str, raised: Option<bool>, said: &str) {
        match raised {
            Some(false) => {}
            Some(true) => self.say(Health::Degraded, fault),
            None => self.say(Health::Unknown, format!("{fault}: {said:?}")),
        }
    }

    /// What must have been said before anything can be well.
    pub(crate) fn require(&mut self, said: bool, what: &str) {
        if !said {
            self.say(Health::Unknown, format!("{what} is not told"));
        }
    }

    /// A count of errors, of which none should be there. What is no number is unknown.
    pub(crate) fn errors(&mut self, what: &str, said: Option<u64>, bad: Health) {
        match said {
            Some(0) => {}
            Some(count) => self.say(bad, format!("{what}: {count}")),
            None => self.say(Health::Unknown, format!("{what} is no number")),
        }
    }

    pub(crate) fn worst(&self) -> Option<Health> {
        self.said.iter().map(|(health, _)| *health).max()
    }

    /// What is broken is being filled again: degraded is rebuilding then. What failed stays failed.
    pub(crate) fn rebuilds(&mut self) {
        for (health, _) in &mut self.said {
            if *health == Health::Degraded {
                *health = Health::Rebuilding;
            }
        }
    }

    /// The item that all of it was said of.
    pub(crate) fn item(self, id: impl Into<String>, facts: Facts) -> Item {
        let (health, reason) = self.finish();
        Item {
            id: id.into(),
            health,
            reason,
            facts,
        }
    }

    /// The verdict and what it rests on: the worst first, then what else is not well, then notes.
    pub(crate) fn finish(self) -> (Health, String) {
        let Some(worst) = self.worst() else {
            let mut reason = vec!["nothing is told of its health".to_owned()];
            reason.extend(self.notes);
            return (Health::Unknown, reason.join("; "));
        };
        let mut said = self.said;
        said.sort_by_key(|(health, _)| std::cmp::Reverse(*health));
        let all_well = worst == Health::Ok;
        let reasons = said
            .into_iter()
            .filter(|(h, _)| all_well || *h > Health::Ok);
        let mut reason: Vec<String> = Vec::new();
        for sentence in reasons.map(|(_, reason)| reason).chain(self.notes) {
            if !reason.contains(&sentence) {
                reason.push(sentence);
            }
        }
        (worst, reason.join("; "))
    }
}

/// What a word means, if a list has it. Case and blanks do not count.
pub(crate) fn meaning(said: &str, words: Words) -> Option<Health> {
    let said = crate::lines::plain(said);
    let found = words.iter().find(|(word, _)| *word == said);
    found.map(|(_, health)| *health)
}

/// Yes or no, as tools write it.
pub(crate) fn flag(said: &str) -> Option<bool> {
    match crate::lines::plain(said).as_str() {
        "yes" | "true" | "enabled" | "on" | "1" => Some(true),
        "no" | "false" | "disabled" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = &[("optimal", Health::Ok), ("degraded", Health::Degraded)];

    fn judge(said: &[&str]) -> Health {
        let mut judgement = Judgement::default();
        for word in said {
            judgement.word("state", word, WORDS);
        }
        judgement.finish().0
    }

    #[test]
    fn only_a_word_of_the_list_is_well() {
        assert_eq!(judge(&[]), Health::Unknown);
        assert_eq!(judge(&["Optimal"]), Health::Ok);
        assert_eq!(judge(&["  OPTIMAL\t"]), Health::Ok);
        assert_eq!(judge(&["Splendid"]), Health::Unknown);
        assert_eq!(judge(&[""]), Health::Unknown);
        assert_eq!(judge(&["Optimal", "Splendid"]), Health::Unknown);
        assert_eq!(
            judge(&["Degraded", "Optimal", "Splendid"]),
            Health::Degraded
        );
    }

    #[test]
    fn what_must_be_told_is_missed() {
        for (told, expected) in [(true, Health::Ok), (false, Health::Unknown)] {
            let mut judgement = Judgement::default();
            judgement.word("state", "Optimal", WORDS);
            judgement.require(told, "its verdict");
            assert_eq!(judgement.finish().0, expected);
        }
    }

    #[test]
    fn much_may_be_said_and_the_worst_is_kept() {
        let mut said = vec!["Optimal"; 1000];
        said.extend(["Degraded"; 1000]);
        said.extend(["Optimal"; 1000]);
        assert_eq!(judge(&said), Health::Degraded);
    }

    #[test]
    fn the_reason_begins_with_the_worst_and_names_the_word() {
        let mut judgement = Judgement::default();
        judgement.word("state", "Optimal", WORDS);
        judgement.word("state", "Splendid", WORDS);
        judgement.word("state", "Degraded", WORDS);
        judgement.note("hot");
        let (health, reason) = judgement.finish();
        assert_eq!(health, Health::Degraded);
        assert_eq!(
            reason,
            "state: Degraded; state: \"Splendid\" is no word known here; hot"
        );
    }
}
