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
        word(gate.verdict(at(boot, error)))
    });
    stretches.collect()
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Trusted => "trusted",
        Verdict::NoReference => "no reference",
        Verdict::Warned(_) => "warned",
        Verdict::Held(Doubt::Stepped { .. }) => "stepped",
        Verdict::Held(Doubt::Unheard { .. }) => "unheard",
        Verdict::Held(Doubt::Contradicted(_)) => "contradicted",
        Verdict::Held(Doubt::Divided(_)) => "divided",
    }
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

/// Every line of the module's table, and what lies on either side of it.
#[test]
fn the_table_row_by_row() {
    use Says::{Agree, Contradict, Differ, Divided, Nothing};
    use service::Keeping::{FreeRunning, Synchronised, Unsynchronised};

    let of = |from| Difference {
        ahead: DurationMs(2_000),
        from,
    };
    let (machines, hosts, node) = (
        of(Others::ControlMachines(2)),
        of(Others::Hosts(3)),
        of(Others::Node(2)),
    );
    let right = Some((Synchronised, 0));
    let slightly = Some((Synchronised, 500_000));
    let wrong = Some((Synchronised, 5_000_000));
    let free = Some((FreeRunning, 0));
    let free_and_wrong = Some((FreeRunning, 5_000_000));
    let unkept = Some((Unsynchronised, 5_000_000));
    let check = |members, fleet, service, expected: &str| {
        for (held, unheard) in [(false, false), (true, false), (false, true)] {
            let now = at(1_000, 0);
            let mut gate = ClockGate {
                members_say: members,
                fleet_says: fleet,
                held_until: held.then(|| now.boot + STAND_STILL),
                unheard_until: unheard.then(|| now.boot + FIRST_LOOK),
                ..ClockGate::default()
            };
            if let Some((keeping, ahead_us)) = service {
                let word = ServiceWord {
                    keeping,
                    ahead_us: Some(ahead_us),
                    bound_us: Some(ahead_us),
                    reason: String::new(),
                };
                gate.hear_service(word, now);
            }
            let expected = match (held, unheard, expected) {
                (true, ..) => "stepped",
                (_, true, "contradicted" | "divided") | (_, false, _) => expected,
                (_, true, _) => "unheard",
            };
            let verdict = word(gate.verdict(now));
            assert_eq!(verdict, expected, "{members:?} {fleet:?} {service:?}");
        }
    };
    for service in [None, right, slightly, wrong, free, free_and_wrong, unkept] {
        check(Contradict(machines), Nothing, service, "contradicted");
        check(Contradict(machines), Agree, service, "contradicted");
        check(Agree, Contradict(hosts), service, "contradicted");
        check(Divided(node), Nothing, service, "divided");
    }
    for (members, fleet) in [(Agree, Nothing), (Nothing, Agree), (Divided(node), Agree)] {
        check(members, fleet, None, "trusted");
        check(members, fleet, right, "trusted");
        check(members, fleet, free, "trusted");
        check(members, fleet, unkept, "trusted");
        check(members, fleet, slightly, "warned");
        check(members, fleet, wrong, "warned");
        check(members, fleet, free_and_wrong, "warned");
    }
    for (members, fleet) in [(Differ(machines), Nothing), (Agree, Differ(hosts))] {
        for service in [None, right, slightly, wrong, free, free_and_wrong, unkept] {
            check(members, fleet, service, "warned");
        }
    }
    check(Nothing, Nothing, None, "no reference");
    check(Nothing, Nothing, free, "no reference");
    check(Nothing, Nothing, unkept, "no reference");
    check(Nothing, Nothing, right, "trusted");
    check(Nothing, Nothing, slightly, "warned");
    check(Nothing, Nothing, wrong, "contradicted");
    check(Nothing, Nothing, free_and_wrong, "contradicted");
}

#[test]
fn the_other_coordinator_is_heir_where_the_time_service_says_that_it_is_right() {
    use members::{MemberClock, Reading};
    use protocol::Role;

    let now = at(10_000, 0);
    let heir = |other_ahead: i64, with_witness: bool| {
        let mut gate = ClockGate::default();
        let clock = |node, role, ahead| MemberClock {
            node,
            role,
            reading: Some(Reading::new(DurationMs(ahead), DurationMs(5), true, now)),
        };
        let mut clocks = vec![clock(2, Role::Coordinator, other_ahead)];
        if with_witness {
            clocks.push(clock(3, Role::Witness, 0));
        }
        gate.hear_members(&clocks, now);
        let word = ServiceWord {
            keeping: service::Keeping::Synchronised,
            ahead_us: Some(-5_000_000),
            bound_us: Some(5_001_000),
            reason: String::new(),
        };
        gate.hear_service(word, now);
        gate.heir(now)
    };
    assert_eq!(heir(5_000, false), Some(2));
    assert_eq!(heir(2_000, false), None, "it is wrong as well");
    assert_eq!(heir(5_000, true), None, "the witness agrees with this one");
}
