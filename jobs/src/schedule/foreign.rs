//! Words that a dialect does not know: most are another one's, and their writer is told whose
//! they are and what to write here.

use super::cron::Cron;
use super::dialect::{Dialect, Grammar};
use super::error::{Beside, ScheduleError, Setting};
use super::explain::sentence;
use super::expression::Expression;
use super::field::Field;
use super::month_day::MonthDay;
use crate::shown::shown;

/// The refusal of a text that is no value of a field.
pub(super) fn refuse_word(
    field: &Field,
    grammar: &Grammar,
    item: &str,
    text: &str,
) -> ScheduleError {
    let is_day = field.name.starts_with("day");
    if text.contains('?') {
        return if grammar.has_day_words() && is_day {
            field.refuse(
                item,
                "has `?` beside other values, and `?` says that the field names no days",
                "write `?` alone, or leave it out",
            )
        } else if grammar.has_day_words() {
            field.refuse(
                item,
                "has `?`, which only the two day fields may have",
                "write `*`",
            )
        } else {
            field.refuse(item, "has `?`, Quartz's sign for no value", "write `*`")
        };
    }
    if text.contains('~') {
        return field.refuse(
            item,
            "has `~`, cronie's sign for a value chosen at random",
            "write one fixed value",
        );
    }
    if text.eq_ignore_ascii_case("h") || text.starts_with("H(") {
        return field.refuse(
            item,
            "has `H`, Jenkins's sign for a value chosen by hash",
            "write one fixed value",
        );
    }
    if is_day && (item.contains('#') || is_day_word(item)) {
        return refuse_day_word(field, grammar, item);
    }
    if text.is_empty() {
        return field.refuse(
            item,
            "has a number missing",
            format!("write {}", field.forms()),
        );
    }
    let short = text.get(..3).unwrap_or_default();
    if field.named_value(short).is_some() {
        return field.refuse(
            item,
            "has a name of more than three letters",
            format!("write `{}`", short.to_ascii_lowercase()),
        );
    }
    if let Some(name) = crate::nearest::nearest(text, field.names.iter().copied()) {
        // In the writer's own capitals.
        let name = if text == text.to_ascii_uppercase() {
            name.to_ascii_uppercase()
        } else {
            name.to_owned()
        };
        return field.refuse(
            item,
            format!("names no value of this field, {}", field.limits()),
            format!("did you mean `{}`?", item.replace(text, &name)),
        );
    }
    field.refuse(
        item,
        format!("is not a value of this field, {}", field.limits()),
        format!("write {}", field.forms()),
    )
}

fn is_day_word(item: &str) -> bool {
    let upper = item.to_ascii_uppercase();
    let of_signs = |c: char| matches!(c, 'L' | 'W' | '-') || c.is_ascii_digit();
    upper.ends_with(['L', 'W']) || (upper.contains(['L', 'W']) && upper.chars().all(of_signs))
}

fn refuse_day_word(field: &Field, grammar: &Grammar, item: &str) -> ScheduleError {
    if grammar.has_day_words() {
        let forms = if field.name == "day of month" {
            "`L`, `L-3` (at most `L-30`), `LW`, `L-3W` or `15W`"
        } else {
            "`L`, `6L` or `6#3`, with 1 (SUN) to 7 (SAT) and the first to fifth of a month"
        };
        let alone =
            item.eq_ignore_ascii_case("L") || MonthDay::parse(grammar, field, item).is_some();
        return if alone {
            field.refuse(
                item,
                "stands beside other values, and Quartz knows it only alone in its field",
                "write it alone, and make a job of each",
            )
        } else {
            field.refuse(
                item,
                "is no form of `L`, `W` or `#` that this field knows",
                format!("write {forms}"),
            )
        };
    }
    if item.contains('#') {
        return field.refuse(
            item,
            "has `#`, Quartz's sign for the nth weekday of a month",
            "name the days of the month, for example `15-21` with `*/7` as day of week for the third Sunday",
        );
    }
    field.refuse(
        item,
        "has `L` or `W`, Quartz's signs for the last day and the nearest working day",
        "name the days, for example `28-31`, and let the program look whether it is the last",
    )
}

/// The refusal of a text that has more or fewer fields than the dialect.
pub(super) fn refuse_count(
    text: &str,
    written: &[&str],
    grammar: &'static Grammar,
) -> ScheduleError {
    let found = written.len();
    let of_five = grammar.fields.len() - grammar.optional == 5;
    let right = if of_five { "five" } else { "six or seven" };
    let plural = if found == 1 { "" } else { "s" };
    let refuse = |why: &str, remedy: String| {
        let reason = format!("has {found} field{plural}, not {right}{why}");
        ScheduleError::new("cron", text, reason, remedy)
    };
    let reads = |text: &str| Expression::parse(text, grammar).is_ok();
    if of_five
        && matches!(found, 6 | 7)
        && Expression::parse(text, Dialect::Quartz.grammar()).is_ok()
    {
        return refuse(": with so many, the first is seconds", String::new());
    }
    if of_five && found > 5 && reads(&written[..5].join(" ")) {
        let (five, rest) = (written[..5].join(" "), written[5..].join(" "));
        let what = if rest.contains(|c: char| c.is_ascii_alphabetic() || c == '/') {
            "; in a crontab a user or a program follows here, and the program goes into `run.exec`"
        } else {
            ", for this dialect has neither seconds nor years"
        };
        return refuse(
            &format!(": after five good ones stands `{}`", shown(&rest)),
            format!("write `{five}`{what}"),
        );
    }
    // A field was forgotten: more likely one of the last.
    if of_five && found == 4 {
        let whole = (0..=4).rev().find_map(|at| {
            let mut fields = written.to_vec();
            fields.insert(at, "*");
            Some((at, fields.join(" "))).filter(|(_, text)| reads(text))
        });
        if let Some((at, whole)) = whole {
            return refuse(
                &format!(": probably the {} is missing", grammar.fields[at].name),
                format!("write {}", in_words(&whole, grammar)),
            );
        }
    }
    if !of_five && let Some(quartz) = in_quartz(text).filter(|text| reads(text)) {
        return refuse(
            ": the seconds are missing",
            format!("write {}, where Sunday is 1", in_words(&quartz, grammar)),
        );
    }
    refuse("", format!("write {}", grammar.form))
}

/// An expression of this dialect, and in brackets what it says, where it says something.
pub(super) fn in_words(text: &str, grammar: &'static Grammar) -> String {
    let Ok(expression) = Expression::parse(text, grammar) else {
        return format!("`{text}`");
    };
    let sentence = sentence::of(&expression);
    let mut letters = sentence.trim_end_matches('.').chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    let words: String = first.into_iter().chain(letters).collect();
    format!("`{text}` ({words})")
}

/// Adds to a refusal which other dialect means what its writer seems to want.
pub(super) fn point_elsewhere(
    mut error: ScheduleError,
    text: &str,
    refused_by: Dialect,
) -> ScheduleError {
    let read = |dialect: Dialect, text: &str| {
        let expression = Expression::parse(text, dialect.grammar()).ok()?;
        Cron::compile(&expression, text).ok()?;
        Some(expression)
    };
    let mut others = Dialect::ALL
        .into_iter()
        .filter(|&dialect| dialect != refused_by);
    let translated = in_quartz(text)
        .filter(|_| refused_by != Dialect::Quartz)
        .filter(|text| read(Dialect::Quartz, text).is_some_and(|e| e.has_month_day()));
    let (dialect, cron) = match (
        others.find(|&other| read(other, text).is_some()),
        translated,
    ) {
        (Some(other), _) => (other, None),
        (None, Some(quartz)) => (Dialect::Quartz, Some(quartz)),
        (None, None) => return error,
    };
    error.beside = Some(Box::new(Beside {
        setting: Setting::Dialect(dialect),
        cron,
        // What five fields cannot say.
        first: dialect == Dialect::Quartz,
    }));
    error
}

/// Five fields as Quartz writes them: a second in front, Sunday as 1, and `?` in the day field
/// that says nothing. Only where exactly one of them does.
pub(super) fn in_quartz(text: &str) -> Option<String> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return None;
    };
    let says_nothing = |field: &str| matches!(field, "*" | "?");
    let (day, weekday) = match (says_nothing(day), says_nothing(weekday)) {
        (_, true) => (day, "?".to_owned()),
        (true, false) => ("?", one_more(weekday)),
        (false, false) => return None,
    };
    Some(format!("0 {minute} {hour} {day} {month} {weekday}"))
}

/// A weekday field with Sunday as 0 or 7 made one with Sunday as 1. What follows `#` or `/`
/// counts something else.
fn one_more(weekday: &str) -> String {
    let mut before = ' ';
    let mut shifted = String::new();
    for c in weekday.chars() {
        match c.to_digit(8) {
            Some(day) if !matches!(before, '#' | '/') && !before.is_ascii_digit() => {
                shifted.push_str(&(day % 7 + 1).to_string());
            }
            _ => shifted.push(c),
        }
        before = c;
    }
    shifted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_fields_as_quartz_writes_them() {
        for (five, expected) in [
            ("0 0 L * *", Some("0 0 0 L * ?")),
            ("0 0 * * 5#3", Some("0 0 0 ? * 6#3")),
            ("0 0 * * 0L", Some("0 0 0 ? * 1L")),
            ("30 2 * * 1-5", Some("0 30 2 ? * 2-6")),
            ("30 2 * * fri#2", Some("0 30 2 ? * fri#2")),
            ("30 2 1W * 5", None),
            ("30 2 * *", None),
        ] {
            assert_eq!(in_quartz(five).as_deref(), expected, "{five}");
        }
    }
}
