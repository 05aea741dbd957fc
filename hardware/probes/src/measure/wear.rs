//! What measuring wears off a drive in a year.

use serde::{Deserialize, Serialize};

/// What a small client drive is rated for: 300 TB written. A larger one bears more.
pub const RATED_BYTES: u64 = 300_000_000_000_000;

const HOURS_A_YEAR: u64 = 8_766;

/// A probe that is made again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// What one of them writes to the device.
    pub bytes: u64,
    pub times_a_year: u64,
}

impl Repeated {
    pub fn hourly(bytes: u64) -> Repeated {
        Repeated {
            bytes,
            times_a_year: HOURS_A_YEAR,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    pub bytes_a_year: u64,
    /// Of [`RATED_BYTES`], the thousandths that a year takes.
    pub rated_per_mille: f64,
}

/// What all of these write in a year together.
pub fn wear(probes: &[Repeated]) -> Wear {
    let yearly = probes
        .iter()
        .map(|probe| probe.bytes.saturating_mul(probe.times_a_year));
    let bytes_a_year = yearly.fold(0, u64::saturating_add);
    Wear {
        bytes_a_year,
        rated_per_mille: bytes_a_year as f64 * 1000.0 / RATED_BYTES as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mebibyte_an_hour_is_nine_gigabytes_a_year() {
        let hourly = wear(&[Repeated::hourly(1 << 20)]);
        assert_eq!(hourly.bytes_a_year, 9_191_817_216);
        assert!(
            (hourly.rated_per_mille - 0.0306).abs() < 0.0001,
            "{hourly:?}"
        );
        let whole = Repeated {
            bytes: 256 << 20,
            times_a_year: 2,
        };
        let both = wear(&[Repeated::hourly(1 << 20), whole]);
        assert_eq!(both.bytes_a_year, 9_191_817_216 + (512 << 20));
    }

    #[test]
    fn no_number_is_too_large() {
        assert_eq!(
            wear(&[Repeated::hourly(u64::MAX); 2]).bytes_a_year,
            u64::MAX
        );
        assert_eq!(wear(&[]).bytes_a_year, 0);
    }
}
