//! Holds the tests that cross crates; see `tests/`.
