//! One field of a cron expression: its grammar and the set of values it names.
//!
//! The grammar is that of Vixie's manual page, without what the implementations let pass and
//! then ignore or never run: `item,item,...` where an item is `*`, `*/step`, `value`,
//! `low-high` or `low-high/step`, and a value is a number of one or two digits or, for months
//! and weekdays, the first three letters of the English name.

use super::error::ScheduleError;

/// Which field, with its limits and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    low: u8,
    high: u8,
    names: &'static [&'static str],
}

pub(super) const MINUTE: Field = Field::numbers("minute", 0, 59);
pub(super) const HOUR: Field = Field::numbers("hour", 0, 23);
pub(super) const DAY: Field = Field::numbers("day of month", 1, 31);
pub(super) const MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
/// 0 and 7 are both Sunday; [`Values::bits`] has it at 0 and at 7 as written.
pub(super) const WEEKDAY: Field = Field {
    name: "day of week",
    low: 0,
    high: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// What a field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    /// Bit n is set where value n is named.
    pub(super) bits: u64,
    /// Vixie's star: the field's first character is `*`, whatever follows.
    pub(super) star: bool,
}

impl Field {
    const fn numbers(name: &'static str, low: u8, high: u8) -> Field {
        Field {
            name,
            low,
            high,
            names: &[],
        }
    }

    pub(super) fn parse(&self, text: &str) -> Result<Values, ScheduleError> {
        let mut bits = 0;
        for item in text.split(',') {
            if item.is_empty() {
                return Err(self.refuse(
                    text,
                    "has an empty place in its list",
                    "write one comma between two values and none at the ends",
                ));
            }
            bits |= self.parse_item(item)?;
        }
        Ok(Values {
            bits,
            star: text.starts_with('*'),
        })
    }

    fn parse_item(&self, item: &str) -> Result<u64, ScheduleError> {
        let (span, step) = match item.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (item, None),
        };
        let (low, high) = if span == "*" {
            (self.low, self.high)
        } else if let Some((low, high)) = span.split_once('-') {
            self.parse_range(item, low, high)?
        } else {
            let value = self.parse_value(item, span)?;
            if step.is_some() {
                return Err(self.refuse(
                    item,
                    "has a step after a single value",
                    format!("write a range before the step, `{span}-{}/...`", self.high),
                ));
            }
            (value, value)
        };
        let step = step.map_or(Ok(1), |step| self.parse_step(item, step))?;
        Ok((low..=high)
            .step_by(step)
            .fold(0, |bits, value| bits | 1 << value))
    }

    fn parse_range(&self, item: &str, low: &str, high: &str) -> Result<(u8, u8), ScheduleError> {
        if high.contains('-') {
            return Err(self.refuse(
                item,
                "has more than one `-`",
                "write ranges as low-high, several of them with commas between",
            ));
        }
        let (low_value, mut high_value) =
            (self.parse_value(item, low)?, self.parse_value(item, high)?);
        // A week that ends with its name: `sat-sun` is 6-7, which is also what cronie runs.
        if self.name == WEEKDAY.name && high.eq_ignore_ascii_case("sun") && low_value > 0 {
            high_value = 7;
        }
        if low_value > high_value {
            return Err(self.refuse(
                item,
                "is a range that runs backwards and would name nothing",
                format!(
                    "write two ranges, `{low_value}-{},{}-{high_value}`",
                    if self.name == WEEKDAY.name {
                        6
                    } else {
                        self.high
                    },
                    self.low
                ),
            ));
        }
        Ok((low_value, high_value))
    }

    /// A step longer than the field names its first value, as in every cron; four digits are
    /// more than anybody means, and what implementations make of more differs.
    fn parse_step(&self, item: &str, step: &str) -> Result<usize, ScheduleError> {
        let plain = (1..=4).contains(&step.len()) && step.bytes().all(|b| b.is_ascii_digit());
        let value = plain.then(|| step.parse().ok()).flatten();
        value.filter(|&value| value > 0).ok_or_else(|| {
            self.refuse(
                item,
                "has a step that is not a number from 1 to 9999",
                format!("write for example `*/{}`", self.high / 2),
            )
        })
    }

    fn parse_value(&self, item: &str, text: &str) -> Result<u8, ScheduleError> {
        if let Some(at) = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
        {
            return Ok(self.low + at as u8);
        }
        if let Some(value) = digits(text) {
            if (self.low..=self.high).contains(&value) {
                return Ok(value);
            }
            return Err(self.refuse(
                item,
                format!("is outside {}", self.limits()),
                format!("write a number from {} to {}", self.low, self.high),
            ));
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.refuse(
                item,
                format!(
                    "has a number of more than two digits, outside {}",
                    self.limits()
                ),
                format!("write a number from {} to {}", self.low, self.high),
            ));
        }
        Err(self.refuse_word(item, text))
    }

    /// Other dialects' words get the answer that their writer needs.
    fn refuse_word(&self, item: &str, text: &str) -> ScheduleError {
        if text.contains('?') {
            return self.refuse(item, "has `?`, Quartz's sign for no value", "write `*`");
        }
        if item.contains('#') {
            return self.refuse(
                item,
                "has `#`, Quartz's sign for the nth weekday of a month",
                "name the days of the month, for example `15-21` with `*/7` as day of week for the third Sunday",
            );
        }
        if text.contains('~') {
            return self.refuse(
                item,
                "has `~`, cronie's sign for a value chosen at random",
                "write one fixed value",
            );
        }
        if text.eq_ignore_ascii_case("h") || text.starts_with("H(") {
            return self.refuse(
                item,
                "has `H`, Jenkins's sign for a value chosen by hash",
                "write one fixed value",
            );
        }
        let quartz_day = text.ends_with(['L', 'W']) || text.starts_with("L-");
        if quartz_day && matches!(self.name, "day of month" | "day of week") {
            return self.refuse(
                item,
                "has `L` or `W`, Quartz's signs for the last day and the nearest working day",
                "name the days, for example `28-31`, and let the program look whether it is the last",
            );
        }
        if text.is_empty() {
            return self.refuse(
                item,
                "has a number missing",
                format!("write {}", self.forms()),
            );
        }
        let short = text.get(..3).unwrap_or_default();
        if self
            .names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(short))
        {
            return self.refuse(
                item,
                "has a name of more than three letters",
                format!("write `{}`", short.to_ascii_lowercase()),
            );
        }
        self.refuse(
            item,
            format!("is not a value of this field, {}", self.limits()),
            format!("write {}", self.forms()),
        )
    }

    fn limits(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("{}-{} or {first}-{last}", self.low, self.high),
            _ => format!("{}-{}", self.low, self.high),
        }
    }

    fn forms(&self) -> String {
        format!(
            "`*`, `*/2`, `{0}`, `{0}-{1}`, `{0}-{1}/2` or several with commas between",
            self.low, self.high
        )
    }

    fn refuse(
        &self,
        item: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ScheduleError {
        ScheduleError::new(self.name, item, reason, remedy)
    }
}

/// One or two digits and nothing else.
fn digits(text: &str) -> Option<u8> {
    let plain = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(field: Field, text: &str) -> Vec<u8> {
        let bits = field.parse(text).unwrap().bits;
        (0..64).filter(|bit| bits >> bit & 1 == 1).collect()
    }

    #[test]
    fn items_name_their_values() {
        assert_eq!(values(MINUTE, "*/20"), [0, 20, 40]);
        assert_eq!(values(MINUTE, "*/60"), [0]);
        assert_eq!(values(MINUTE, "59,0"), [0, 59]);
        assert_eq!(
            values(MINUTE, "5,10-12,40-59/9"),
            [5, 10, 11, 12, 40, 49, 58]
        );
        assert_eq!(values(HOUR, "07"), [7]);
        assert_eq!(values(MONTH, "oct-DEC/2"), [10, 12]);
        assert_eq!(values(WEEKDAY, "Sun,wed"), [0, 3]);
        assert_eq!(values(WEEKDAY, "sat-sun"), [6, 7]);
        assert_eq!(values(WEEKDAY, "sun-sun"), [0]);
        assert_eq!(values(WEEKDAY, "*/7"), [0, 7]);
    }

    #[test]
    fn the_first_character_makes_the_star() {
        for (text, star) in [
            ("*", true),
            ("*/2", true),
            ("*,5", true),
            ("1,*/10", false),
            ("1-31", false),
        ] {
            assert_eq!(DAY.parse(text).unwrap().star, star, "{text}");
        }
    }
}
