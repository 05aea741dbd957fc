//! What is printed faster than it is kept: only the newest of it is held, in memory.

use std::collections::VecDeque;

use memchr::memchr_iter;
use protocol::output::{Amount, Stream};

/// The newest of what came, in the order it came in.
#[derive(Default)]
pub(super) struct Burst {
    chunks: VecDeque<(Stream, Vec<u8>)>,
    held: usize,
    dropped: Amount,
}

impl Burst {
    /// Takes bytes in, and drops the oldest while more than `bytes_max` would remain.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8], bytes_max: usize) {
        self.held += bytes.len();
        let mut spare = Vec::new();
        while let Some((_, oldest)) = self.chunks.front() {
            if self.held - oldest.len() < bytes_max {
                break;
            }
            self.held -= oldest.len();
            self.dropped.add(amount_of(oldest));
            if let Some((_, oldest)) = self.chunks.pop_front() {
                spare = oldest;
            }
        }
        match self.chunks.back_mut() {
            // What is dropped is dropped by the chunk, so a chunk is a part of what is held.
            Some((of, newest)) if *of == stream && newest.len() + bytes.len() <= bytes_max / 8 => {
                newest.extend_from_slice(bytes);
            }
            _ => {
                spare.clear();
                spare.extend_from_slice(bytes);
                self.chunks.push_back((stream, spare));
            }
        }
    }

    /// How much was dropped, and what was held.
    pub(super) fn into_parts(self) -> (Amount, VecDeque<(Stream, Vec<u8>)>) {
        (self.dropped, self.chunks)
    }
}

pub(super) fn amount_of(bytes: &[u8]) -> Amount {
    Amount {
        bytes: bytes.len() as u64,
        lines: memchr_iter(b'\n', bytes).count() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stays_and_all_is_counted() {
        let mut burst = Burst::default();
        let mut all = Vec::new();
        for n in 0..1_000 {
            let bytes = format!("line {n}\n").repeat(n % 7 + 1).into_bytes();
            let stream = if n % 11 < 8 {
                Stream::Stdout
            } else {
                Stream::Stderr
            };
            burst.push(stream, &bytes, 4_096);
            all.extend_from_slice(&bytes);
            assert!(burst.held < 4_096 + 512);
        }
        let (dropped, chunks) = burst.into_parts();
        let held: Vec<u8> = chunks.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert!(held.len() >= 4_096 && all.ends_with(&held));
        assert_eq!(dropped, amount_of(&all).less(amount_of(&held)));
        assert!(!dropped.is_nothing());
    }
}
