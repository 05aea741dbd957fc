//! The work by which processors are scored.
//!
//! One round is the same work every time, on every machine: a hash that walks over a table and branches by
//! what it finds there, a sort, a product of matrices, and a chain of operations each of which waits
//! for the last. Half of its time goes into integers and half into floating point on the reference machine;
//! all of it fits the first-level cache, for memory is measured by itself. It calls nothing of the
//! standard library that a newer compiler could make faster, and its answer is known: a processor that
//! finds another one computes wrong.

use std::hint::black_box;

/// Changes whenever a round does; scores of two versions are not to be compared.
pub const KERNEL_VERSION: u32 = 1;

/// What every round comes to.
pub(super) const ANSWER: u64 = 8_874_395_572_448_086_180;

/// Rounds a second of one thread of the reference machine: an AMD EPYC of the fourth generation (family
/// 25, model 17) at the clock that its cloud gives it, under KVM. They are the score of 1,000.
pub(super) const REFERENCE_ROUNDS_PER_S: f64 = 1340.0;

const TABLE: usize = 2048;
const STEPS: u32 = 60_000;
const SORTED: usize = 512;
const SIDE: usize = 24;
const PRODUCTS: usize = 128;
const CHAIN: u32 = 110_000;

/// Does the work once and says what it came to. Takes less than a millisecond.
pub(super) fn round() -> u64 {
    let integers = hash_and_sort(black_box(0x9e37_79b9_7f4a_7c15));
    let floats = multiply_and_chain(black_box(0.625));
    integers.rotate_left(7) ^ floats
}

fn hash_and_sort(seed: u64) -> u64 {
    let mut table = [0_u32; TABLE];
    let mut x = seed;
    let mut sum = 0_u64;
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let held = &mut table[(x >> 53) as usize % TABLE];
        if *held & 1 == 0 {
            *held = held.wrapping_mul(0x9e37_79b1).wrapping_add(x as u32);
        } else {
            *held = held.rotate_right(5) ^ (x >> 32) as u32;
        }
        // The next place depends on what was found in this one.
        x = x.wrapping_add(u64::from(*held));
        sum = sum.wrapping_mul(31).wrapping_add(x >> 11);
    }
    let sorted = &mut table[..SORTED];
    shell_sort(sorted);
    let order = sorted.iter().zip(1_u64..);
    order.fold(sum, |sum, (value, place)| {
        sum.wrapping_add(u64::from(*value).wrapping_mul(place))
    })
}

fn shell_sort(values: &mut [u32]) {
    for gap in [132, 57, 23, 10, 4, 1] {
        for i in gap..values.len() {
            let value = values[i];
            let mut place = i;
            while place >= gap && values[place - gap] > value {
                values[place] = values[place - gap];
                place -= gap;
            }
            values[place] = value;
        }
    }
}

fn multiply_and_chain(seed: f64) -> u64 {
    let mut a = [[0.0; SIDE]; SIDE];
    let mut b = [[0.0; SIDE]; SIDE];
    for (i, (row_a, row_b)) in a.iter_mut().zip(&mut b).enumerate() {
        for (j, (of_a, of_b)) in row_a.iter_mut().zip(row_b).enumerate() {
            *of_a = seed / (i + j + 1) as f64;
            *of_b = seed * (i as f64 - j as f64) / SIDE as f64;
        }
    }
    let mut sum = 0.0;
    for step in 0..PRODUCTS {
        let mut product = [[0.0; SIDE]; SIDE];
        for (row, of_a) in product.iter_mut().zip(&a) {
            for (factor, of_b) in of_a.iter().zip(&b) {
                for (sum, value) in row.iter_mut().zip(of_b) {
                    *sum += factor * value;
                }
            }
        }
        // Each product is another one, and none is lost.
        a[step % SIDE] = product[(step + 1) % SIDE];
        sum += product[step % SIDE][step / SIDE];
    }
    // The logistic map never settles, and each step waits for the one before.
    let mut y = seed;
    for step in 0..CHAIN {
        y = 3.999 * y * (1.0 - y);
        if step % 8 == 0 {
            sum += (y + 1.0).sqrt() / (y + 0.5);
        }
    }
    (sum + y).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_comes_to_the_same() {
        assert_eq!((round(), round()), (ANSWER, ANSWER));
    }

    #[test]
    fn what_is_sorted_is_in_order() {
        let mut values: Vec<u32> = (0..512)
            .map(|i: u32| i.wrapping_mul(2_654_435_761))
            .collect();
        let mut expected = values.clone();
        expected.sort_unstable();
        shell_sort(&mut values);
        assert_eq!(values, expected);
    }
}
