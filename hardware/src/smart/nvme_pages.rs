//! What an NVMe drive answers itself, byte by byte: Identify Controller, and the SMART / Health log (page
//! 02h). Numbers are little-endian; the places are those of the NVM Express base specification.

use super::Drive;
use crate::fact::Fact;
use crate::facts::Medium;
use crate::report::{Health, Item};

/// Bytes of Identify Controller.
pub const IDENTIFY_BYTES: usize = 4096;
/// Bytes of the log page.
pub const HEALTH_LOG_BYTES: usize = 512;

/// Reads what a drive answered. An answer that did not come leaves what it would have told unknown.
pub fn parse_nvme_pages(
    id: &str,
    identify: Option<&[u8; IDENTIFY_BYTES]>,
    log: Option<&[u8; HEALTH_LOG_BYTES]>,
) -> Item {
    let mut drive = Drive::of(id.to_owned(), "the drive did not answer");
    drive.facts.medium = Medium::Ssd.into();
    drive.facts.transport = "nvme".to_owned().into();
    drive.facts.reallocated = Fact::NotApplicable;
    drive.facts.pending = Fact::NotApplicable;
    drive.facts.smartctl_type = Fact::NotApplicable;
    if let Some(identify) = identify {
        drive.facts.serial.learn(text(&identify[4..24]));
        drive.facts.model.learn(text(&identify[24..64]));
        // VWC, bit 0: a volatile write cache is present. Whether it is switched on is a feature of its own, and
        // present is the worse answer.
        drive.facts.write_cache = (identify[525] & 1 == 1).into();
    }
    if let Some(log) = log {
        read_log(log, &mut drive);
    }
    drive.item()
}

fn read_log(log: &[u8; HEALTH_LOG_BYTES], drive: &mut Drive) {
    // A page of zeros alone is what a broken bridge answers: a drive that runs has a temperature.
    if log.iter().all(|byte| *byte == 0) {
        drive
            .judgement
            .say(Health::Unknown, "its health log is empty");
        return;
    }
    drive.judged = true;
    drive.critical_warning(u64::from(log[0]));
    if log[0] == 0 {
        drive.judgement.say(Health::Ok, "no critical warning");
    }
    let kelvin = i64::from(u16::from_le_bytes([log[1], log[2]]));
    drive
        .facts
        .temperature_c
        .learn((kelvin > 0).then_some(kelvin - 273));
    drive.spare(Some(u64::from(log[3])), Some(u64::from(log[4])));
    drive.worn(u64::from(log[5]));
    drive.facts.media_errors = count(log, 160).into();
}

/// A number of 16 bytes; what needs more than 8 of them has overflowed elsewhere.
fn count(log: &[u8; HEALTH_LOG_BYTES], at: usize) -> u64 {
    let number = log[at..at + 16]
        .iter()
        .rev()
        .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;

    fn log(bytes: &[(usize, u8)]) -> [u8; HEALTH_LOG_BYTES] {
        let mut log = [0; HEALTH_LOG_BYTES];
        // 300 K, all spares left of at least 10 %.
        log[1..5].copy_from_slice(&[44, 1, 100, 10]);
        for (at, byte) in bytes {
            log[*at] = *byte;
        }
        log
    }

    #[test]
    fn the_log_is_judged_as_its_bits_say() {
        for (bytes, expected) in [
            (&[][..], Health::Ok),
            (&[(0, 1)], Health::Degraded),
            (&[(0, 1 << 3)], Health::Failed),
            (&[(0, 1 << 7)], Health::Unknown),
            (&[(3, 9)], Health::Degraded),
            (&[(5, 99)], Health::Ok),
            (&[(5, 100)], Health::Degraded),
        ] {
            let item = parse_nvme_pages("/dev/nvme0n1", None, Some(&log(bytes)));
            assert_eq!(item.health, expected, "{bytes:?}: {item:?}");
        }
        let zeros = parse_nvme_pages("/dev/nvme0n1", None, Some(&[0; HEALTH_LOG_BYTES]));
        assert_eq!(zeros.health, Health::Unknown);
        let nothing = parse_nvme_pages("/dev/nvme0n1", None, None);
        assert_eq!(nothing.health, Health::Unknown);
    }

    #[test]
    fn numbers_and_names_stand_at_their_places() {
        let mut identify = [0; IDENTIFY_BYTES];
        identify[4..24].copy_from_slice(b"S5XN123             ");
        identify[24..34].copy_from_slice(b"Some Drive");
        let log = log(&[(5, 7), (160, 2), (161, 1)]);
        for (vwc, expected) in [(0, false), (1, true), (0b110, false), (0b111, true)] {
            identify[525] = vwc;
            let item = parse_nvme_pages("/dev/nvme0n1", Some(&identify), Some(&log));
            let Facts::Drive(facts) = item.facts else {
                panic!()
            };
            assert_eq!(facts.write_cache, expected.into(), "{vwc:#b}");
            assert_eq!(facts.model, "Some Drive".to_owned().into());
            assert_eq!(facts.serial, "S5XN123".to_owned().into());
            assert_eq!(facts.temperature_c, 27.into());
            assert_eq!(facts.wear_percent, 7.into());
            assert_eq!(facts.media_errors, 258.into());
        }
    }
}
