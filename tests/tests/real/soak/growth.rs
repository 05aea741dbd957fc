//! Whether what was measured again and again has grown.
//!
//! A process that serves has caches that fill and queues that breathe, so its first minutes and its
//! single values say little. What a leak does is to make the end of a long life differ from its
//! beginning: the median of the last fifth is held against that of the second.

use std::collections::BTreeMap;
use std::fmt;

/// What is measured, of a process or of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    AnonymousKib,
    PssKib,
    RssKib,
    Descriptors,
    Sockets,
    Threads,
    Children,
    Files,
    Kib,
    Cgroups,
    Processes,
}

/// What is measured of whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thing {
    pub(super) name: String,
    pub(super) measure: Measure,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) at_s: f64,
    /// Which of the processes of this name it was; a place has one for ever.
    pub(super) incarnation: u32,
    pub(super) value: f64,
}

/// Every series of values, in the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves(pub(super) BTreeMap<Thing, Vec<Point>>);

/// How one incarnation began and ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) from_s: f64,
    pub(super) through_s: f64,
    /// Medians of its second and of its last fifth.
    pub(super) second: f64,
    pub(super) last: f64,
}

/// Growth up to `absolute`, and a part of what was there, is breathing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slack {
    pub(super) absolute: f64,
    pub(super) share: f64,
}

/// So many points that each fifth has a median worth the name.
const POINTS_MIN: usize = 25;

impl Slack {
    pub(super) const fn of(absolute: f64) -> Slack {
        let share = 0.0;
        Slack { absolute, share }
    }

    /// The most that may be, where so much was before.
    pub(super) fn most(self, before: f64) -> f64 {
        before * (1.0 + self.share) + self.absolute
    }

    pub(super) fn allows(self, before: f64, after: f64) -> bool {
        after <= self.most(before)
    }
}

impl Curves {
    pub(super) fn note(&mut self, name: &str, measure: Measure, point: Point) {
        let name = name.to_owned();
        let thing = Thing { name, measure };
        self.0.entry(thing).or_default().push(point);
    }

    /// Every incarnation that lived long enough to be judged.
    pub(super) fn stretches(&self) -> Vec<(&Thing, Stretch)> {
        let mut all = Vec::new();
        for (thing, points) in &self.0 {
            let lives = points.chunk_by(|a, b| a.incarnation == b.incarnation);
            all.extend(lives.filter_map(|life| Some((thing, stretch(life)?))));
        }
        all
    }
}

fn stretch(life: &[Point]) -> Option<Stretch> {
    if life.len() < POINTS_MIN {
        return None;
    }
    let fifth = life.len() / 5;
    let from_s = life.first()?.at_s;
    let through_s = life.last()?.at_s;
    Some(Stretch {
        from_s,
        through_s,
        second: median(&life[fifth..2 * fifth]),
        last: median(&life[life.len() - fifth..]),
    })
}

/// Of at least one point; the higher one of the two in the middle.
fn median(points: &[Point]) -> f64 {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Measure {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Measure::AnonymousKib => "anonymous KiB",
            Measure::PssKib => "PSS KiB",
            Measure::RssKib => "RSS KiB",
            Measure::Descriptors => "descriptors",
            Measure::Sockets => "sockets",
            Measure::Threads => "threads",
            Measure::Children => "children",
            Measure::Files => "files",
            Measure::Kib => "KiB",
            Measure::Cgroups => "cgroups",
            Measure::Processes => "processes",
        }
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.measure.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point every second, each with its incarnation.
    fn curves(values: impl IntoIterator<Item = (u32, f64)>) -> Curves {
        let mut curves = Curves::default();
        for (n, (incarnation, value)) in values.into_iter().enumerate() {
            let at_s = n as f64;
            let point = Point {
                at_s,
                incarnation,
                value,
            };
            curves.note("a", Measure::Files, point);
        }
        curves
    }

    #[test]
    fn the_last_fifth_is_held_against_the_second() {
        let check = |values: &[(u32, f64)], expected: &[(f64, f64)]| {
            let curves = curves(values.iter().copied());
            let found = curves.stretches();
            let medians: Vec<(f64, f64)> = found.iter().map(|(_, s)| (s.second, s.last)).collect();
            assert_eq!(medians, expected, "{values:?}");
        };
        let life =
            |incarnation, value: fn(u32) -> f64| (0..50).map(move |n| (incarnation, value(n)));
        let rising: Vec<_> = life(1, f64::from).collect();
        check(&rising, &[(15.0, 45.0)]);
        // A cache that fills in the beginning, and a peak or two, are no growth.
        let filling = |n: u32| if n < 10 { f64::from(n) } else { 10.0 };
        check(&life(1, filling).collect::<Vec<_>>(), &[(10.0, 10.0)]);
        let peaks = |n: u32| if n.is_multiple_of(5) { 99.0 } else { 7.0 };
        check(&life(1, peaks).collect::<Vec<_>>(), &[(7.0, 7.0)]);
        // Each incarnation by itself, and only those that lived long enough.
        let two: Vec<_> = life(1, f64::from).chain(life(2, |_| 3.0)).collect();
        check(&two, &[(15.0, 45.0), (3.0, 3.0)]);
        check(&rising[..POINTS_MIN - 1], &[]);
    }

    #[test]
    fn slack_is_a_number_and_a_share() {
        let check = |absolute, share, before, after, expected| {
            let slack = Slack { absolute, share };
            assert_eq!(slack.allows(before, after), expected, "{slack:?}");
        };
        check(0.0, 0.0, 5.0, 5.0, true);
        check(0.0, 0.0, 5.0, 6.0, false);
        check(2.0, 0.0, 5.0, 7.0, true);
        check(2.0, 0.1, 50.0, 57.0, true);
        check(2.0, 0.1, 50.0, 58.0, false);
    }
}
