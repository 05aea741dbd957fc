//! What is to be thought of the clock, by the word of whoever answered.
//!
//! chronyd calls itself synchronised for minutes after all of its sources have died. So two things are
//! looked at that it tells beside its own word, and whichever comes first counts: that no source has
//! answered its last eight questions, and how old the reference is. And its word on how wrong the
//! clock may be rests on a clock that drifts by no more than one part in a million; here it is
//! [`DRIFT_PPM`]. And where it follows none of those that answer it, for their time varies or they
//! contradict each other, that word is of the last moment when it did: what they say now counts too.

use hardware::facts::{ClockVerdict, SourceState};
use hardware::{SourceData, Tracking};

use super::chronyd::Told;
use super::kernel::KernelClock;
use super::{ClockLook, Source};

/// By how much a clock may drift that nobody corrects, in parts per million.
const DRIFT_PPM: f64 = 50.0;

/// `wall_s`: what this clock shows, in seconds since 1970.
pub(super) fn of_chronyd(told: &Told, wall_s: f64) -> ClockLook {
    let mut look = of_tracking(&told.tracking, Source::Chronyd, wall_s);
    if look.verdict == ClockVerdict::Synchronised
        && let Some(why) = nobody_answers(&told.sources)
    {
        look.verdict = ClockVerdict::FreeRunning;
        look.reason = why;
        look.stale = true;
        return look;
    }
    if look.verdict == ClockVerdict::Synchronised
        && let Some((source, off_s)) = nearest_unfollowed(told)
    {
        let off_us = in_us(off_s);
        look.bound_us = look.bound_us.map(|bound| bound.max(off_us));
        look.reason = format!(
            "chronyd follows none of its sources for now; by {}, the nearest, it may be {off_s:.3} s wrong",
            source.name
        );
    }
    look
}

/// Of the sources that answer, where chronyd follows none of them, that by which this clock is least
/// wrong, and how wrong at most, in seconds. One wrong server beside one that is right proves nothing;
/// a clock with which none of them agrees is contradicted.
fn nearest_unfollowed(told: &Told) -> Option<(&SourceData, f64)> {
    let followed =
        |source: &SourceData| matches!(source.state, SourceState::Selected | SourceState::Combined);
    if told.sources.iter().any(followed) {
        return None;
    }
    let correction_s = told.tracking.correction_s?;
    // A sample says how far chronyd's idea of the time is ahead of the source; that idea is ahead of the
    // clock by the correction.
    let off = |source: &SourceData| (correction_s - source.offset_s).abs() + source.error_s;
    let answers = |source: &&SourceData| source.reach != 0 && source.since_sample_s.is_some();
    told.sources
        .iter()
        .filter(answers)
        .map(|source| (source, off(source)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// Why chronyd listens to nobody, where that is so.
fn nobody_answers(sources: &[SourceData]) -> Option<String> {
    if sources.iter().any(|source| source.reach != 0) {
        return None;
    }
    Some(match sources {
        [] => "chronyd has no source".to_owned(),
        [source] => format!(
            "its only source, {}, has not answered its last eight questions",
            source.name
        ),
        _ => format!(
            "none of its {} sources has answered its last eight questions",
            sources.len()
        ),
    })
}

pub(super) fn of_tracking(tracking: &Tracking, source: Source, wall_s: f64) -> ClockLook {
    // The reference is dated by the right time as far as chronyd knows it, not by this clock.
    let now_s = wall_s + tracking.correction_s.unwrap_or(0.0);
    let verdict = tracking.verdict(Some(now_s));
    let then_ahead_s = tracking.reference_time_s.map_or(0.0, |then| then - now_s);
    let age_s = (-then_ahead_s).max(0.0);
    let bound_s = tracking
        .bound_s()
        .map(|bound| bound + age_s * DRIFT_PPM / 1e6);
    let kept = verdict.is_some_and(|verdict| verdict != ClockVerdict::Unsynchronised);
    let reason = match verdict {
        None => "leap status and reference are not both told".to_owned(),
        Some(ClockVerdict::Unsynchronised) => {
            "chronyd has not yet been able to synchronise it".to_owned()
        }
        Some(ClockVerdict::FreeRunning) if then_ahead_s > 0.0 => format!(
            "its reference, {}, is dated {then_ahead_s:.0} s ahead of the time it tells",
            tracking.reference
        ),
        Some(ClockVerdict::FreeRunning) => format!(
            "its reference, {}, was last heard {age_s:.0} s ago",
            tracking.reference
        ),
        Some(ClockVerdict::Synchronised) => format!("it follows {}", tracking.reference),
    };
    ClockLook {
        source,
        verdict: verdict.unwrap_or(ClockVerdict::Unsynchronised),
        correction_us: tracking.correction_s.filter(|_| kept).map(in_us),
        bound_us: bound_s.filter(|_| kept).map(in_us),
        reason,
        stale: verdict == Some(ClockVerdict::FreeRunning),
        silent: Vec::new(),
        tracking: Some(tracking.clone()),
    }
}

pub(super) fn of_kernel(kernel: KernelClock) -> ClockLook {
    let KernelClock {
        synchronised,
        error_max_us,
        correction_us,
    } = kernel;
    let (verdict, reason) = if synchronised {
        (
            ClockVerdict::Synchronised,
            "the kernel holds that somebody keeps it",
        )
    } else {
        (
            ClockVerdict::Unsynchronised,
            "nobody has told the kernel that it is right",
        )
    };
    let bound_us = error_max_us.saturating_add(correction_us.unwrap_or(0).saturating_abs());
    ClockLook {
        source: Source::Kernel,
        verdict,
        correction_us,
        // Of a clock that nobody keeps it is where the kernel stops counting.
        bound_us: synchronised.then_some(bound_us),
        reason: reason.to_owned(),
        stale: false,
        silent: Vec::new(),
        tracking: None,
    }
}

/// What the kernel says of a clock that chronyd kept and keeps no more. That it is right it was told by
/// chronyd, and believes for hours; how far it is off chronyd alone knew.
pub(super) fn left_by_chronyd(kernel: ClockLook) -> ClockLook {
    if kernel.verdict == ClockVerdict::Unsynchronised {
        return kernel;
    }
    ClockLook {
        verdict: ClockVerdict::FreeRunning,
        correction_us: None,
        bound_us: None,
        reason: "chronyd, which kept it, is heard no more".to_owned(),
        ..kernel
    }
}

/// Far beyond any clock it stops, and is what it was not before: a number.
fn in_us(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

/// What is told, look by look. A change for the worse is told when two looks in a row agree on it:
/// one lost packet is no news. Of one whose reference has died there is nothing to wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Steady {
    told: Option<ClockLook>,
    doubted: bool,
}

impl Steady {
    pub(super) fn take(&mut self, look: ClockLook) -> ClockLook {
        let worse = |told: &&ClockLook| {
            rank(look.verdict) > rank(told.verdict) && !look.stale && !self.doubted
        };
        if let Some(told) = self.told.as_ref().filter(worse) {
            self.doubted = true;
            return told.clone();
        }
        self.doubted = false;
        self.told = Some(look.clone());
        look
    }
}

fn rank(verdict: ClockVerdict) -> u8 {
    match verdict {
        ClockVerdict::Synchronised => 0,
        ClockVerdict::FreeRunning => 1,
        ClockVerdict::Unsynchronised => 2,
    }
}

#[cfg(test)]
mod tests {
    use hardware::facts::{Leap, SourceState};

    use super::*;
    use ClockVerdict::{FreeRunning, Synchronised, Unsynchronised};

    const WALL_S: f64 = 1_700_000_000.0;

    /// Heard so long ago, by the right time.
    fn tracking(age_s: f64, correction_s: f64) -> Tracking {
        Tracking {
            reference_id: Some(0x0a00_0001),
            reference: "10.0.0.1".into(),
            stratum: Some(3),
            leap: Some(Leap::Normal),
            reference_time_s: Some(WALL_S + correction_s - age_s),
            correction_s: Some(correction_s),
            root_delay_s: Some(0.002),
            root_dispersion_s: Some(0.001),
            update_interval_s: Some(1.0),
        }
    }

    fn source(reach: u16) -> SourceData {
        SourceData {
            name: "10.0.0.1".into(),
            mode: "server",
            state: SourceState::Selected,
            stratum: 2,
            poll: 0,
            reach,
            since_sample_s: Some(1),
            offset_measured_s: 0.0,
            offset_s: 0.0,
            error_s: 0.0,
        }
    }

    fn check(tracking: Tracking, reaches: &[u16], verdict: ClockVerdict, reason: &str) {
        let sources = reaches.iter().map(|&reach| source(reach)).collect();
        let look = of_chronyd(&Told { tracking, sources }, WALL_S);
        assert_eq!((look.verdict, look.reason.as_str()), (verdict, reason));
    }

    #[test]
    fn reach_and_age_whichever_is_first() {
        let follows = "it follows 10.0.0.1";
        check(tracking(3.0, 0.0), &[255], Synchronised, follows);
        check(tracking(3.0, 0.0), &[0, 1], Synchronised, follows);
        // Its clock is an hour slow: the age is that of the reference all the same.
        check(tracking(3.0, 3600.0), &[255], Synchronised, follows);
        let alone = "its only source, 10.0.0.1, has not answered its last eight questions";
        check(tracking(9.0, 0.0), &[0], FreeRunning, alone);
        let all = "none of its 2 sources has answered its last eight questions";
        check(tracking(9.0, 0.0), &[0, 0], FreeRunning, all);
        check(
            tracking(9.0, 0.0),
            &[],
            FreeRunning,
            "chronyd has no source",
        );
        check(tracking(64.0, 0.0), &[1], Synchronised, follows);
        let old = "its reference, 10.0.0.1, was last heard 65 s ago";
        check(tracking(65.0, 0.0), &[1], FreeRunning, old);
        let ahead = "its reference, 10.0.0.1, is dated 86400 s ahead of the time it tells";
        check(tracking(-86_400.0, 0.0), &[1], FreeRunning, ahead);
        check(tracking(-5.0, 0.0), &[1], Synchronised, follows);
        let rarely = Tracking {
            update_interval_s: Some(64.0),
            ..tracking(500.0, 0.0)
        };
        check(rarely, &[1], Synchronised, follows);
        let never = Tracking {
            leap: Some(Leap::Unsynchronised),
            ..tracking(0.0, 0.0)
        };
        let reason = "chronyd has not yet been able to synchronise it";
        check(never, &[0], Unsynchronised, reason);
    }

    /// What is said of a clock that is 0.3 s slow as chronyd last believed, by sources of which each is
    /// so and says so much.
    fn of_sources(sources: &[(SourceState, f64)]) -> ClockLook {
        let sources = sources.iter().map(|&(state, offset_s)| SourceData {
            state,
            offset_s,
            error_s: 0.001,
            ..source(255)
        });
        let told = Told {
            tracking: tracking(0.0, 0.3),
            sources: sources.collect(),
        };
        of_chronyd(&told, WALL_S)
    }

    #[test]
    fn what_is_followed_no_longer_is_no_word_on_now() {
        use SourceState::{Combined, Excluded, Falseticker, Jittery, Selected};
        let bound = |sources: &[_]| of_sources(sources).bound_us;
        let believed = Some(302_000);
        assert_eq!(bound(&[(Selected, -4.7)]), believed);
        assert_eq!(bound(&[(Jittery, -4.7), (Combined, 0.0)]), believed);
        // Five seconds ahead of this clock, which chronyd takes for 0.3 s slow.
        assert_eq!(bound(&[(Jittery, -4.7)]), Some(5_001_000));
        // As far behind it.
        assert_eq!(bound(&[(Jittery, 5.3)]), Some(5_001_000));
        // One of two that contradict each other agrees with this clock.
        let both = [(Falseticker, -4.7), (Falseticker, 0.3)];
        assert_eq!(bound(&both), believed);
        assert_eq!(
            bound(&[(Falseticker, -4.7), (Excluded, 9.3)]),
            Some(5_001_000)
        );
        let look = of_sources(&[(Jittery, -4.7)]);
        assert_eq!(look.verdict, Synchronised);
        let reason = "chronyd follows none of its sources for now; by 10.0.0.1, the nearest, it may be 5.001 s wrong";
        assert_eq!(look.reason, reason);
    }

    #[test]
    fn who_has_never_answered_contradicts_nobody() {
        let mute = SourceData {
            state: SourceState::Unselectable,
            since_sample_s: None,
            ..source(255)
        };
        let told = Told {
            tracking: tracking(0.0, 0.0),
            sources: vec![mute],
        };
        assert_eq!(of_chronyd(&told, WALL_S).bound_us, Some(2_000));
    }

    #[test]
    fn the_bound_grows_with_age() {
        let bound = |age_s| of_tracking(&tracking(age_s, -0.25), Source::Chronyd, WALL_S).bound_us;
        assert_eq!(bound(0.0), Some(252_000));
        assert_eq!(bound(20.0), Some(253_000));
    }

    #[test]
    fn of_a_clock_that_nobody_keeps_no_bound_is_told() {
        let kernel = |synchronised| {
            of_kernel(KernelClock {
                synchronised,
                error_max_us: 16_000_000,
                correction_us: None,
            })
        };
        assert_eq!(kernel(false).bound_us, None);
        assert_eq!(kernel(true).bound_us, Some(16_000_000));
        let never = Tracking {
            leap: Some(Leap::Unsynchronised),
            ..tracking(0.0, 0.0)
        };
        let look = of_tracking(&never, Source::Chronyc, WALL_S);
        assert_eq!((look.correction_us, look.bound_us), (None, None));
    }

    #[test]
    fn where_chronyd_has_gone_the_kernel_vouches_for_nothing() {
        for (synchronised, verdict) in [(true, FreeRunning), (false, Unsynchronised)] {
            let look = left_by_chronyd(of_kernel(KernelClock {
                synchronised,
                error_max_us: 500,
                correction_us: Some(0),
            }));
            assert_eq!(
                (look.verdict, look.correction_us, look.source),
                (verdict, (!synchronised).then_some(0), Source::Kernel)
            );
        }
    }

    #[test]
    fn for_the_worse_two_must_agree_unless_the_reference_has_died() {
        let look = |verdict, stale| ClockLook {
            verdict,
            stale,
            ..of_tracking(&tracking(0.0, 0.0), Source::Chronyd, WALL_S)
        };
        let mut steady = Steady::default();
        let mut take = |verdict, stale| steady.take(look(verdict, stale)).verdict;
        // There is nothing to hold the first against.
        assert_eq!(take(Unsynchronised, false), Unsynchronised);
        assert_eq!(take(Synchronised, false), Synchronised);
        assert_eq!(take(Unsynchronised, false), Synchronised);
        assert_eq!(take(Synchronised, false), Synchronised);
        assert_eq!(take(Unsynchronised, false), Synchronised);
        assert_eq!(take(Unsynchronised, false), Unsynchronised);
        assert_eq!(take(Synchronised, false), Synchronised);
        assert_eq!(take(FreeRunning, true), FreeRunning);
    }
}
