//! A cron expression as written: fields of items, not yet the times they name.

use super::dialect::{Dialect, Grammar, Question};
use super::error::{Beside, ScheduleError, Setting};
use super::field::{Field, Item};
use super::foreign;
use super::month_day::MonthDay;
use crate::shown::shown;

/// What a day field says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DayField {
    /// `?`: the other field names the days.
    NoValue,
    Items(Vec<Item>),
    /// `L`, `15W`, `6#3`: one day of each month, or none.
    MonthDay(MonthDay),
}

/// A field's items with the field they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Items {
    pub(super) field: &'static Field,
    pub(super) items: Vec<Item>,
}

impl Items {
    /// The values named; some may come more than once.
    pub(super) fn values(&self) -> impl Iterator<Item = u16> {
        let field = self.field;
        self.items.iter().flat_map(move |item| item.values(field))
    }
}

/// A parsed expression: every field is in order for itself.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) grammar: &'static Grammar,
    /// `None` where the dialect has no seconds: then it is second 0.
    pub(super) seconds: Option<Items>,
    pub(super) minutes: Items,
    pub(super) hours: Items,
    pub(super) days: DayField,
    pub(super) months: Items,
    pub(super) weekdays: DayField,
    /// Of the weekday items: the field, whose numbering differs between dialects.
    pub(super) weekday_field: &'static Field,
    pub(super) day_field: &'static Field,
    /// `None` where none are written: then it is every year.
    pub(super) years: Option<Items>,
}

const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

impl Expression {
    /// Reads the fields of a dialect, or a macro, which means the same in all of them.
    pub(super) fn parse(
        text: &str,
        grammar: &'static Grammar,
    ) -> Result<Expression, ScheduleError> {
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        if first.starts_with('@') {
            let fields = macro_fields(text.trim_matches([' ', '\t']))?;
            return Expression::parse_fields(fields, Dialect::Vixie.grammar());
        }
        if let Some(zone) = first
            .strip_prefix("CRON_TZ=")
            .or_else(|| first.strip_prefix("TZ="))
        {
            let rest = text.trim_start()[first.len()..].trim();
            if let Err(mut error) = Expression::parse(rest, grammar) {
                error.reason.push_str(", and before it stands the zone");
                error.remedy = format!(
                    "{}; the zone is no part of it: set the timezone `{}`",
                    error.remedy,
                    shown(zone)
                );
                return Err(error);
            }
            let mut error = ScheduleError::new("cron", text, "has the zone in it", "");
            error.beside = Some(Box::new(Beside {
                setting: Setting::Timezone(shown(zone)),
                cron: Some(rest.to_owned()),
                first: true,
            }));
            return Err(error);
        }
        Expression::parse_fields(text, grammar)
    }

    fn parse_fields(text: &str, grammar: &'static Grammar) -> Result<Expression, ScheduleError> {
        let written: Vec<&str> = text
            .split([' ', '\t'])
            .filter(|field| !field.is_empty())
            .collect();
        let most = grammar.fields.len();
        if written.len() > most || written.len() < most - grammar.optional {
            return Err(foreign::refuse_count(text, &written, grammar));
        }
        let mut fields = grammar.fields.iter().zip(written.iter().copied());
        let mut next = || fields.next().expect("their number was compared");
        let items = |(field, text): (&'static Field, &str)| {
            let items = field.parse(grammar, text)?;
            Ok(Items { field, items })
        };
        let seconds = match grammar.fields[0].name {
            "second" => Some(items(next())?),
            _ => None,
        };
        let (minutes, hours) = (items(next())?, items(next())?);
        let (day_field, day) = next();
        let days = parse_day(grammar, day_field, day)?;
        let months = items(next())?;
        let (weekday_field, weekday) = next();
        let weekdays = parse_day(grammar, weekday_field, weekday)?;
        let years = fields.next().map(items).transpose()?;
        let expression = Expression {
            grammar,
            seconds,
            minutes,
            hours,
            days,
            months,
            weekdays,
            weekday_field,
            day_field,
            years,
        };
        expression.check_one_day_field(&written)?;
        Ok(expression)
    }

    /// Where a field can say nothing, exactly one of the two must. `*` in both is taken for it:
    /// Spring's schedules are written so, and nothing else can be meant.
    fn check_one_day_field(&self, written: &[&str]) -> Result<(), ScheduleError> {
        if self.grammar.question != Question::NoValue {
            return Ok(());
        }
        let (day, weekday) = (written[self.day_at()], written[self.day_at() + 2]);
        let with = |day: &str, weekday: &str| {
            let mut fields = written.to_vec();
            fields[self.day_at()] = day;
            fields[self.day_at() + 2] = weekday;
            foreign::in_words(&fields.join(" "), self.grammar)
        };
        let both = |other: &str, text: &str| {
            format!("names days, and so does the {other} `{text}`: Quartz takes one of the two")
        };
        let (field, text, reason, remedy) = match (&self.days, &self.weekdays) {
            (DayField::NoValue, DayField::NoValue) => (
                self.weekday_field,
                weekday,
                "leaves the days to the day of month, which says `?` too".to_owned(),
                format!("write {}", with("*", "?")),
            ),
            (DayField::NoValue, _) | (_, DayField::NoValue) => return Ok(()),
            _ if day == "*" && weekday == "*" => return Ok(()),
            _ if day == "*" => (
                self.day_field,
                day,
                both("day of week", weekday),
                format!("write {}", with("?", weekday)),
            ),
            _ if weekday == "*" => (
                self.weekday_field,
                weekday,
                both("day of month", day),
                format!("write {}", with(day, "?")),
            ),
            _ => (
                self.weekday_field,
                weekday,
                both("day of month", day),
                format!("write {} or {}", with("?", weekday), with(day, "?")),
            ),
        };
        Err(field.refuse(text, reason, remedy))
    }

    /// Which field, counted from 0, is the day of month.
    pub(super) fn day_at(&self) -> usize {
        self.grammar.fields.len() - self.grammar.optional - 3
    }

    /// Both day fields are `*`, which is taken for `?` in one of them.
    pub(super) fn has_star_for_question(&self) -> bool {
        let star = |days: &DayField| *days == DayField::Items(vec![Item::All { step: 1 }]);
        self.grammar.question == Question::NoValue && star(&self.days) && star(&self.weekdays)
    }

    /// Both day fields restrict the days, and a day that satisfies one of them is named; else it
    /// must satisfy both.
    pub(super) fn is_either_day(&self) -> bool {
        let restricts = |days: &DayField| match days {
            DayField::Items(items) => !self.grammar.has_star(items),
            _ => false,
        };
        self.grammar.question != Question::NoValue
            && restricts(&self.days)
            && restricts(&self.weekdays)
    }

    pub(super) fn has_month_day(&self) -> bool {
        [&self.days, &self.weekdays]
            .iter()
            .any(|days| matches!(days, DayField::MonthDay(_)))
    }

    /// Seconds, minutes and hours mean an interval, not times of the clock face.
    pub(super) fn is_interval(&self) -> bool {
        [
            self.seconds.as_ref(),
            Some(&self.minutes),
            Some(&self.hours),
        ]
        .into_iter()
        .flatten()
        .any(|field| self.grammar.is_interval(&field.items))
    }
}

fn parse_day(
    grammar: &Grammar,
    field: &'static Field,
    text: &str,
) -> Result<DayField, ScheduleError> {
    if text == "?" && grammar.question == Question::NoValue {
        return Ok(DayField::NoValue);
    }
    // The week's last day, as Quartz counts.
    if grammar.has_day_words() && field.names.len() == 7 && text.eq_ignore_ascii_case("L") {
        return Ok(DayField::Items(vec![Item::One(field.high)]));
    }
    if grammar.has_day_words()
        && let Some(day) = MonthDay::parse(grammar, field, text)
    {
        return Ok(DayField::MonthDay(day));
    }
    field.parse(grammar, text).map(DayField::Items)
}

/// `23:30`, as hour and minute.
fn clock_time(text: &str) -> Option<(u32, u32)> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some((hour, minute))
}

fn macro_fields(text: &str) -> Result<&'static str, ScheduleError> {
    if let Some((_, fields)) = MACROS.iter().find(|(name, _)| *name == text) {
        return Ok(fields);
    }
    let refuse =
        |reason: &str, remedy: String| Err(ScheduleError::new("cron", text, reason, remedy));
    if text == "@reboot" {
        return refuse(
            "is no time, and no machine of the fleet is the one whose start would count",
            "give the job a schedule, or start it with the host's own init".to_owned(),
        );
    }
    if let Some((name, fields)) = MACROS
        .iter()
        .find(|(name, _)| text.starts_with(name) && text[name.len()..].starts_with([' ', '\t']))
    {
        let more = text[name.len()..].trim_start_matches([' ', '\t']);
        let remedy = match clock_time(more).filter(|_| fields.starts_with("0 0 * * *")) {
            Some((hour, minute)) => {
                format!("write `{minute} {hour} * * *` for every day at {more}")
            }
            None => format!("write `{name}` alone, or its fields, `{fields}`, with what you mean"),
        };
        return refuse(
            &format!("says more than `{name}`, which takes nothing after it"),
            remedy,
        );
    }
    let known = MACROS.iter().map(|(name, _)| *name);
    match crate::nearest::nearest(text, known.chain(["@every"])) {
        Some("@every") => refuse(
            "is not an interval",
            "write `@every` and a duration, for example `@every 1h30m`".to_owned(),
        ),
        Some(name) => refuse("is not a known macro", format!("write `{name}`")),
        None => refuse(
            "is not a known macro",
            "write the fields, `@every 1h30m`, or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually".to_owned(),
        ),
    }
}
