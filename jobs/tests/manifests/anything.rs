//! Whatever is handed over is answered.

use jobs::{Manifest, parse_manifests};
use proptest::prelude::*;

use crate::LEAST;

/// Pieces of manifests, to be strung together in any order.
const PIECES: [&str; 40] = [
    "\n",
    "\n",
    "\n  ",
    "\n- ",
    " ",
    "\t",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|",
    ">",
    "- ",
    "---\n",
    "...\n",
    "# ",
    "&a ",
    "*a",
    "!!str ",
    "? ",
    "%YAML 1.2\n",
    "\\x",
    "\u{feff}",
    "\r",
    "\u{85}",
    "é",
    "name: demo/x",
    "schedule: ",
    "cron: ",
    "retry:",
    "exec: ",
    "~",
    "012",
    "1e9",
    "yes",
    "{fire_date-1d}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        if let Err(problems) = parse_manifests("job.yaml", &text) {
            prop_assert!(!problems.is_empty());
        }
        let _ = Manifest::from_json(&text);
    }

    #[test]
    fn any_pieces_are_answered(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.iter().map(|&i| PIECES[i]).collect();
        if let Err(problems) = parse_manifests("job.yaml", &text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.line >= 1 && problem.column >= 1 && !problem.what.is_empty() && !problem.remedy.is_empty());
            }
        }
    }

    /// One character of a good manifest replaced, taken out or put in.
    #[test]
    fn a_slip_of_the_finger_is_answered(at in 0..LEAST.len(), take in 0..3usize, put in "[-:{}\\[\\]\"'&*!|>%@#,? \t\na0]{0,2}") {
        let end = (at + take).min(LEAST.len());
        let text = format!("{}{put}{}", &LEAST[..at], &LEAST[end..]);
        if let Ok(manifests) = parse_manifests("job.yaml", &text) {
            for manifest in manifests {
                let back = Manifest::from_json(&manifest.to_json());
                prop_assert_eq!(back.unwrap(), manifest);
            }
        }
    }
}
