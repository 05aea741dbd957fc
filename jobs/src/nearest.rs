//! The known word nearest to a mistyped one, for "did you mean".

/// Of these candidates, in ASCII, the one with the fewest edits from `word`, if that is few enough
/// to be a typing mistake: a third of its length, at most 3. Case does not count. The first of equals wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word this long is no typing mistake, and the distance costs its square.
    const LONGEST: usize = 64;
    let word: Vec<char> = word.chars().take(LONGEST + 1).collect();
    if word.len() > LONGEST {
        return None;
    }
    let edits_most = |candidate: &str| (candidate.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        // Each character too many is an edit: most need no closer look.
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= edits_most(candidate))
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|&(edits, candidate)| edits <= edits_most(candidate))
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, ignoring ASCII case.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, c) in candidate.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, w) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(!w.eq_ignore_ascii_case(&c));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        let known = ["timeout", "timezone", "owner", "run"];
        for (word, expected) in [
            ("timout", Some("timeout")),
            ("time_zone", Some("timezone")),
            ("Owner", Some("owner")),
            ("rum", Some("run")),
            ("priority", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"timeout".repeat(100_000), known), None);
    }
}
