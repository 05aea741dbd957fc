use super::*;
use protocol::WallMs;

const START: i64 = 1_800_000_000_000;

fn at(boot: i64, wall_error: i64) -> Now {
    Now {
        boot: BootMs(boot),
        wall: WallMs(START + boot + wall_error),
    }
}

/// Observes (boot, wall error) pairs in turn and says whether the last finds the gate open.
fn open_after(readings: &[(i64, i64)]) -> bool {
    let mut gate = ClockGate::default();
    for &(boot, error) in readings {
        gate.observe(at(boot, error));
    }
    let &(boot, error) = readings.last().unwrap();
    gate.verdict(at(boot, error)).may_fire()
}

#[test]
fn a_step_holds_until_the_clock_has_stood_still_for_a_minute() {
    assert!(
        open_after(&[(0, 0), (100, 900)]),
        "below a second is not a step"
    );
    assert!(!open_after(&[(0, 0), (100, 1_001)]));
    assert!(!open_after(&[(0, 0), (100, -1_001)]));
    assert!(!open_after(&[(0, 0), (100, 5_000), (60_099, 5_000)]));
    assert!(open_after(&[(0, 0), (100, 5_000), (60_100, 5_000)]));
    assert!(
        !open_after(&[(0, 0), (100, 5_000), (30_000, 0), (89_999, 0)]),
        "a second step"
    );
}

#[test]
fn steering_is_no_step_and_small_steps_add_up() {
    let steering: Vec<_> = (0..4000).map(|i| (i * 1000, i / 2)).collect();
    assert!(
        open_after(&steering),
        "500 ppm for an hour moves 2 s and is steering"
    );
    assert!(
        !open_after(&[(0, 0), (100, 600), (200, 1_200)]),
        "two steps of 0.6 s"
    );
}

#[test]
fn frequent_readings_do_not_hide_steering() {
    let mut gate = ClockGate::default();
    for i in 0..400_000 {
        assert_eq!(
            gate.observe(at(i * 10, i / 200)),
            None,
            "500 ppm read every 10 ms"
        );
    }
}

/// Three agents with the right time beat every 5 s; this clock is wrong by each error for 70 s.
/// Answers with the verdict at the end of each stretch.
fn verdicts(errors: &[(i64, bool)]) -> Vec<&'static str> {
    let mut gate = ClockGate::default();
    let mut boot = 0;
    let stretches = errors.iter().map(|&(error, heard)| {
        for second in 0..70 {
            boot += 1_000;
            if heard && second % 5 == 0 {
                for agent in 1..=3 {
                    let trip = Some(DurationMs(10));
                    gate.hear(
                        AgentId(agent),
                        WallMs(START + boot - 5),
                        trip,
                        at(boot, error),
                    );
                }
            }
            gate.observe(at(boot, error));
        }
        match gate.verdict(at(boot, error)) {
            Verdict::Trusted => "trusted",
            Verdict::NoReference => "no reference",
            Verdict::Warned(_) => "warned",
            Verdict::Held(Doubt::Stepped { .. }) => "stepped",
            Verdict::Held(Doubt::Unheard { .. }) => "unheard",
            Verdict::Held(Doubt::Contradicted(_)) => "contradicted",
            Verdict::Held(Doubt::Divided(_)) => "divided",
        }
    });
    stretches.collect()
}

#[test]
fn the_table_of_decisions() {
    // What moves by less than a second at once is no step.
    type Case = (&'static [(i64, bool)], &'static [&'static str]);
    let cases: &[Case] = &[
        (&[(0, false)], &["no reference"]),
        (&[(0, true), (105, true)], &["trusted", "trusted"]),
        (
            &[(0, true), (106, true), (60, true), (50, true)],
            &["trusted", "warned", "warned", "trusted"],
        ),
        (&[(0, true), (-900, true)], &["trusted", "warned"]),
        (
            &[
                (0, true),
                (900, true),
                (1_100, true),
                (600, true),
                (450, true),
            ],
            &[
                "trusted",
                "warned",
                "contradicted",
                "contradicted",
                "warned",
            ],
        ),
        // Who falls silent has not changed his mind; who never spoke has not contradicted.
        (
            &[(900, true), (1_100, true), (1_100, false), (50, true)],
            &["warned", "contradicted", "contradicted", "trusted"],
        ),
        (&[(900, true), (900, false)], &["warned", "no reference"]),
        // A step is a new beginning, and the fleet has the last word again.
        (
            &[(0, true), (3_600_000, true), (0, true)],
            &["trusted", "contradicted", "trusted"],
        ),
        (
            &[(0, true), (3_600_000, true), (3_600_000, false), (0, false)],
            &["trusted", "contradicted", "contradicted", "no reference"],
        ),
    ];
    for (errors, expected) in cases {
        assert_eq!(&verdicts(errors), expected, "{errors:?}");
    }
}

#[test]
fn a_reign_begins_with_what_is_known_of_the_clock() {
    let after = |before, error, hours: i64| {
        let mut gate = ClockGate::default();
        gate.begin(before, at(hours * 3_600_000, error));
        gate
    };
    let held = |gate: &ClockGate, error, boot| match gate.verdict(at(boot, error)) {
        Verdict::Held(doubt) => Some(doubt),
        _ => None,
    };
    // Nobody can be asked, or the clock stands where it stood, but for an hour's steering.
    assert_eq!(held(&after(Before::Nobody, 0, 0), 0, 0), None);
    let seen = Before::Seen(at(0, 0));
    assert_eq!(held(&after(seen, 3_000, 1), 3_000, 3_600_000), None);
    // It was set meanwhile.
    let stepped = Doubt::Stepped {
        remaining: STAND_STILL,
    };
    assert_eq!(
        held(&after(seen, 6_000, 1), 6_000, 3_600_000),
        Some(stepped)
    );
    // The hosts are waited for, and not for ever.
    let mut gate = after(Before::Hosts, 0, 0);
    let unheard = |remaining| {
        Some(Doubt::Unheard {
            remaining: DurationMs(remaining),
        })
    };
    assert_eq!(held(&gate, 0, 0), unheard(30_000));
    assert_eq!(held(&gate, 0, 29_999), unheard(1));
    assert_eq!(held(&gate, 0, 30_000), None);
    for agent in 1..=3 {
        let trip = Some(DurationMs(10));
        gate.hear(AgentId(agent), WallMs(START + 4_995), trip, at(5_000, 0));
    }
    gate.observe(at(5_000, 0));
    assert_eq!(gate.verdict(at(5_000, 0)), Verdict::Trusted);
    // Once they have spoken their silence is no reason to wait again.
    gate.observe(at(29_000, 0));
    assert_eq!(gate.verdict(at(29_000, 0)), Verdict::NoReference);
}

#[test]
fn a_doubt_says_who_differs_by_how_much() {
    let difference = |ahead| Difference {
        ahead: DurationMs(ahead),
        from: Others::Hosts(5),
    };
    let doubt = Doubt::Contradicted(difference(90_000_000));
    assert_eq!(
        doubt.to_string(),
        "is 1d1h ahead of the clocks of 5 hosts, which agree with each other"
    );
    assert_eq!(
        difference(-1_500).to_string(),
        "1s500ms behind the clocks of 5 hosts, which agree with each other"
    );
}
