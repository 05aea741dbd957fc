//! `matins import quartz`: triggers of Quartz, from its XML or from a dump of its tables.
//!
//! A job of Matins is a *trigger* of Quartz: it is the trigger that has the hours and says what
//! becomes of a late one, and several may run the same class. What they run is a Java class, which
//! is named and left to a person.

mod tables;
mod trigger;
mod xml;

use jobs::Dialect;

use super::account::Account;
use super::names::Names;
use super::{Asked, Misses, Undecided, judge_schedule};

/// Longest XML read.
const XML_BYTES_MAX: usize = 16 << 20;

pub(crate) fn import_quartz(
    file: &str,
    bytes: &[u8],
    asked: &Asked,
    names: &mut Names,
) -> Result<Account, Undecided> {
    let mut account = Account::of(file, bytes);
    if !is_xml(bytes) {
        tables::import(bytes, asked, names, &mut account)?;
        return Ok(account);
    }
    if bytes.len() > XML_BYTES_MAX {
        account.refuse_whole(
            format!("it is XML of more than {} MiB", XML_BYTES_MAX >> 20),
            "split it, and see that it is the right file",
        );
        return Ok(account);
    }
    if let Some(text) = account.decode(bytes) {
        xml::import(&text, asked, names, &mut account)?;
    }
    Ok(account)
}

fn is_xml(bytes: &[u8]) -> bool {
    match bytes {
        // In UTF-16 nobody dumps tables.
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        bytes => bytes
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(bytes)
            .trim_ascii_start()
            .starts_with(b"<"),
    }
}

/// The expression as it will stand in the manifest, or why it cannot and what to write.
pub(crate) fn judged(
    cron: &str,
    dialect: Dialect,
    timezone: &str,
    decide: &mut Vec<String>,
) -> Result<String, Misses> {
    let judge = |cron: &str| judge_schedule(cron, timezone, dialect);
    let Err(misses) = judge(cron) else {
        return Ok(cron.to_owned());
    };
    if let Some(cut) = long_steps_cut(cron).filter(|cut| judge(cut).is_ok()) {
        decide.push(format!(
            "`{cron}` has a step longer than its field: Quartz before 2.3 fired as `{cut}` does, \
             newer ones refuse it. It is imported as `{cut}`; see what was meant."
        ));
        return Ok(cut);
    }
    Err(misses)
}

/// An expression with each step that is longer than its field cut down to what it names, the first
/// value: so Quartz read `0/60` until 2.3, and it refuses to since.
fn long_steps_cut(cron: &str) -> Option<String> {
    const LONGEST: [u32; 6] = [59, 59, 23, 31, 12, 7];
    const FIRST: [&str; 6] = ["0", "0", "0", "1", "1", "1"];
    let mut fields: Vec<String> = cron
        .split_ascii_whitespace()
        .map(ToOwned::to_owned)
        .collect();
    let mut is_cut = false;
    for ((field, longest), first) in fields.iter_mut().zip(LONGEST).zip(FIRST) {
        let Some((start, step)) = field.split_once('/') else {
            continue;
        };
        let is_long = step.parse::<u32>().is_ok_and(|step| step > longest);
        let is_start = start == "*" || start.bytes().all(|b| b.is_ascii_digit());
        if is_long && is_start {
            *field = match start {
                "*" | "" => first.to_owned(),
                start => start.to_owned(),
            };
            is_cut = true;
        }
    }
    is_cut.then(|| fields.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_past_its_field_names_the_first_value() {
        for (cron, expected) in [
            ("0/60 * * * * ?", Some("0 * * * * ?")),
            ("*/90 * * * * ?", Some("0 * * * * ?")),
            ("5 0/60 0/24 * * ?", Some("5 0 0 * * ?")),
            ("0 0 0 1/32 * ?", Some("0 0 0 1 * ?")),
            ("0/30 * * * * ?", None),
            ("0/60,5 * * * * ?", None),
            ("", None),
        ] {
            assert_eq!(long_steps_cut(cron).as_deref(), expected, "{cron}");
        }
    }
}
