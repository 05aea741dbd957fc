//! One field of a cron expression: its grammar and the values it names.
//!
//! A field is `item,item,...`; an item is `*`, `*/step`, `value`, `low-high` or
//! `low-high/step`, and in some dialects `value/step`; a value is a number or, for months and
//! weekdays, the first three letters of the English name. That is what the manuals say, without
//! what the implementations let pass and then ignore or never run.

use super::dialect::{Grammar, Question};
use super::error::ScheduleError;
use super::explain::sentence;
use super::foreign;

/// Which field, with its limits and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) low: u16,
    pub(super) high: u16,
    /// Of the values from `low` on, in lower case.
    pub(super) names: &'static [&'static str],
}

/// A part of a field, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `*`, `*/step`, and `?` where that is the same.
    All {
        step: u16,
    },
    One(u16),
    /// `low-high`, `low-high/step`. Runs over the end of the field where `low` is the greater.
    Span {
        low: u16,
        high: u16,
        step: u16,
    },
    /// `low/step`, up to the end of the field.
    From {
        low: u16,
        step: u16,
    },
}

impl Item {
    /// The values named, each once, in the order in which they are come by.
    pub(super) fn values(self, field: &Field) -> impl Iterator<Item = u16> + use<> {
        let (low, high, step) = match self {
            Item::All { step } => (field.low, field.high, step),
            Item::One(value) => (value, value, 1),
            Item::Span { low, high, step } => (low, high, step),
            Item::From { low, step } => (low, field.high, step),
        };
        let (last, size) = (field.high, field.high - field.low + 1);
        let end = if low <= high { high } else { high + size };
        (low..=end)
            .step_by(usize::from(step))
            .map(move |value| if value > last { value - size } else { value })
    }
}

impl Field {
    pub(super) const fn numbers(name: &'static str, low: u16, high: u16) -> Field {
        Field::named(name, low, high, &[])
    }

    pub(super) const fn named(
        name: &'static str,
        low: u16,
        high: u16,
        names: &'static [&'static str],
    ) -> Field {
        Field {
            name,
            low,
            high,
            names,
        }
    }

    pub(super) fn parse(&self, grammar: &Grammar, text: &str) -> Result<Vec<Item>, ScheduleError> {
        text.split(',')
            .map(|item| {
                if item.is_empty() {
                    return Err(self.refuse(
                        text,
                        "has an empty place in its list",
                        "write one comma between two values and none at the ends",
                    ));
                }
                self.parse_item(grammar, item)
            })
            .collect()
    }

    fn parse_item(&self, grammar: &Grammar, item: &str) -> Result<Item, ScheduleError> {
        let (span, step_text) = match item.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (item, None),
        };
        let step = match step_text {
            Some(step) => self.parse_step(grammar, item, step)?,
            None => 1,
        };
        if span == "*" || (span == "?" && grammar.question == Question::Star) {
            return Ok(Item::All { step });
        }
        if let Some((low, high)) = span.split_once('-') {
            let (low, high) = self.parse_range(grammar, item, low, high)?;
            return Ok(Item::Span { low, high, step });
        }
        let low = self.parse_value(grammar, item, span)?;
        match step_text {
            None => Ok(Item::One(low)),
            Some(_) if grammar.open_steps => Ok(Item::From { low, step }),
            Some(step) => Err(self.refuse(
                item,
                "has a step after a single value",
                format!(
                    "write a range before the step, `{span}-{}/{step}`",
                    self.high
                ),
            )),
        }
    }

    fn parse_range(
        &self,
        grammar: &Grammar,
        item: &str,
        low: &str,
        high: &str,
    ) -> Result<(u16, u16), ScheduleError> {
        if high.contains('-') {
            return Err(self.refuse(
                item,
                "has more than one `-`",
                self.one_dash(grammar, item, low, high),
            ));
        }
        let low_value = self.parse_value(grammar, item, low)?;
        let mut high_value = self.parse_value(grammar, item, high)?;
        // A week that ends with its name where 7 is Sunday too: `sat-sun` is 6-7, which is also
        // what cronie runs.
        let first_again = self.low + self.names.len() as u16;
        if self.high == first_again
            && high.eq_ignore_ascii_case(self.names[0])
            && low_value > self.low
        {
            high_value = first_again;
        }
        // Years do not come round again.
        let comes_round = grammar.wraps && self.low < 1970;
        if low_value > high_value && !comes_round {
            return Err(self.refuse(
                item,
                "is a range that runs backwards and would name nothing",
                self.two_ranges(low_value, high_value),
            ));
        }
        Ok((low_value, high_value))
    }

    /// What `8-20-12` may mean.
    fn one_dash(&self, grammar: &Grammar, item: &str, low: &str, high: &str) -> String {
        let (high, step) = high.split_once('-').unwrap_or((high, ""));
        let value = |text: &str| self.parse_value(grammar, item, text).ok();
        let (Some(low_value), Some(high_value)) = (value(low), value(high)) else {
            return "write ranges as low-high, several of them with commas between".to_owned();
        };
        let mut ways = vec![format!(
            "`{low},{high}` for {low_value} and {high_value} alone"
        )];
        if low_value < high_value {
            ways.push(format!(
                "`{low}-{high}` for every {} from {low_value} to {high_value}",
                self.name
            ));
            let length = high_value - low_value;
            if let Some(step) = step.parse().ok().filter(|step| (2..=length).contains(step)) {
                ways.push(format!("`{low}-{high}/{step}` for every {step}th of them"));
            }
        }
        format!("write {}", sentence::list(ways.into_iter(), "or"))
    }

    fn two_ranges(&self, low: u16, high: u16) -> String {
        if self.low >= 1970 {
            return format!("write the earlier one first, `{high}-{low}`");
        }
        // Where 7 is Sunday once more, the week's last day is 6.
        let last = match self.names.len() {
            7 => self.low + 6,
            _ => self.high,
        };
        let range = |low: u16, high: u16| {
            if low == high {
                low.to_string()
            } else {
                format!("{low}-{high}")
            }
        };
        if low > last {
            return format!("write `{}`", range(self.low, high));
        }
        format!(
            "write two ranges, `{},{}`",
            range(low, last),
            range(self.low, high)
        )
    }

    /// What `3d` begins with, or some step.
    fn step_meant(&self, step: &str, most: u16) -> u16 {
        let digits = step
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(step.len());
        let number = step[..digits].parse().ok();
        number
            .filter(|number| (1..=most).contains(number))
            .unwrap_or((self.high - self.low).div_ceil(4))
    }

    /// Most cron programs take a step longer than the field and name its first value. Four
    /// digits are more than anybody means, and what implementations make of more differs.
    fn parse_step(&self, grammar: &Grammar, item: &str, step: &str) -> Result<u16, ScheduleError> {
        let most = if grammar.long_steps {
            9999
        } else {
            self.high.min(self.high - self.low + 1)
        };
        let plain = (1..=4).contains(&step.len()) && step.bytes().all(|b| b.is_ascii_digit());
        let value: Option<u16> = plain.then(|| step.parse().ok()).flatten();
        value
            .filter(|value| (1..=most).contains(value))
            .ok_or_else(|| {
                self.refuse(
                    item,
                    format!("has a step that is not a number from 1 to {most}"),
                    format!("write for example `*/{}`", self.step_meant(step, most)),
                )
            })
    }

    pub(super) fn parse_value(
        &self,
        grammar: &Grammar,
        item: &str,
        text: &str,
    ) -> Result<u16, ScheduleError> {
        if let Some(value) = self.named_value(text) {
            return Ok(value);
        }
        let digits_most = if self.high > 99 { 4 } else { 2 };
        let all_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if all_digits && text.len() > digits_most {
            return Err(self.refuse(
                item,
                format!(
                    "has a number of more than {} digits",
                    if digits_most == 2 { "two" } else { "four" }
                ),
                format!("write a number from {} to {}", self.low, self.high),
            ));
        }
        let value: Option<u16> = all_digits.then(|| text.parse().ok()).flatten();
        match value {
            Some(value) if (self.low..=self.high).contains(&value) => Ok(value),
            Some(value) => Err(self.refuse(
                item,
                format!("is outside {}", self.limits()),
                self.nearest_value(value),
            )),
            None => Err(foreign::refuse_word(self, grammar, item, text)),
        }
    }

    pub(super) fn named_value(&self, text: &str) -> Option<u16> {
        self.names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
            .map(|at| self.low + at as u16)
    }

    fn nearest_value(&self, value: u16) -> String {
        match (self.names.len(), self.low, value) {
            (7, 1, 0) => "write `1` or `SUN` for Sunday: this dialect counts Sunday as 1, Monday as 2 and Saturday as 7".to_owned(),
            (7, 0, 7) => "write `0` or `sun` for Sunday".to_owned(),
            _ => format!("write a number from {} to {}", self.low, self.high),
        }
    }

    pub(super) fn limits(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("{}-{} or {first}-{last}", self.low, self.high),
            _ => format!("{}-{}", self.low, self.high),
        }
    }

    pub(super) fn forms(&self) -> String {
        format!(
            "`*`, `*/2`, `{0}`, `{0}-{1}`, `{0}-{1}/2` or several with commas between",
            self.low, self.high
        )
    }

    pub(super) fn refuse(
        &self,
        item: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ScheduleError {
        ScheduleError::new(self.name, item, reason, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Dialect;

    fn field(dialect: Dialect, name: &str) -> &'static Field {
        let mut fields = dialect.grammar().fields.iter();
        fields.find(|field| field.name == name).unwrap()
    }

    fn values(dialect: Dialect, name: &str, text: &str) -> Vec<u16> {
        let field = field(dialect, name);
        let items = field.parse(dialect.grammar(), text).unwrap();
        let mut values: Vec<u16> = items.iter().flat_map(|item| item.values(field)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    #[test]
    fn items_name_their_values() {
        use Dialect::{Kubernetes, Quartz, Vixie};
        for (dialect, name, text, expected) in [
            (Vixie, "minute", "*/20", &[0, 20, 40][..]),
            (Vixie, "minute", "*/60", &[0]),
            (Vixie, "minute", "59,0", &[0, 59]),
            (
                Vixie,
                "minute",
                "5,10-12,40-59/9",
                &[5, 10, 11, 12, 40, 49, 58],
            ),
            (Vixie, "hour", "07", &[7]),
            (Vixie, "month", "oct-DEC/2", &[10, 12]),
            (Vixie, "day of week", "Sun,wed", &[0, 3]),
            (Vixie, "day of week", "sat-sun", &[6, 7]),
            (Vixie, "day of week", "sun-sun", &[0]),
            (Vixie, "day of week", "*/7", &[0, 7]),
            (Kubernetes, "hour", "5/9", &[5, 14, 23]),
            (Kubernetes, "minute", "?/30", &[0, 30]),
            (Quartz, "day of week", "FRI-MON", &[1, 2, 6, 7]),
            (Quartz, "day of week", "1/3", &[1, 4, 7]),
            (Quartz, "hour", "22-2", &[0, 1, 2, 22, 23]),
            // As Quartz does it, the step runs on over the end.
            (Quartz, "hour", "22-3/2", &[0, 2, 22]),
            (Quartz, "month", "11-2", &[1, 2, 11, 12]),
            (Quartz, "day of month", "30-2", &[1, 2, 30, 31]),
            (Quartz, "year", "2090/4", &[2090, 2094, 2098]),
        ] {
            assert_eq!(
                values(dialect, name, text),
                expected,
                "{dialect} {name} {text}"
            );
        }
    }
}
