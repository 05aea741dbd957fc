use super::*;

const INFO: &str = "\
Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
------------------------------------------------------------------------------
u0    RAID-10   OK             -       -       64K     1396.96   RiW    ON
u1    RAID-5    REBUILDING     45%     -       64K     1396.96   OFF    ON
u2    SPARE     OK             -       -       -       698.63    -      OFF

VPort Status         Unit Size      Type  Phy Encl-Slot    Model
------------------------------------------------------------------------------
p0    OK             u0   698.63 GB SATA  0   -            WDC WD7500AYYS-01RC
p1    DEVICE-ERROR   u1   698.63 GB SATA  1   -            WDC WD7500AYYS-01RC
p2    NOT-PRESENT    -    -         -     2   -            -
";

#[test]
fn units_ports_and_empty_bays() {
    let report = parse_tw_cli(INFO);
    assert!(report.problems.is_empty(), "{report:?}");
    let told: Vec<(&str, Health)> = report
        .items
        .iter()
        .map(|item| (item.id.as_str(), item.health))
        .collect();
    let expected = [
        ("u0", Health::Ok),
        ("u1", Health::Rebuilding),
        ("u2", Health::Ok),
        ("p0", Health::Ok),
        ("p1", Health::Failed),
    ];
    assert_eq!(told, expected);
    let Facts::Volume(unit) = &report.items[1].facts else {
        panic!()
    };
    assert_eq!(unit.action_percent, 45.0.into());
    assert_eq!(unit.cache_policy, CachePolicy::WriteThrough.into());
    let Facts::Drive(drive) = &report.items[3].facts else {
        panic!()
    };
    assert_eq!(drive.model, "WDC WD7500AYYS-01RC".to_owned().into());
}

#[test]
fn parts_of_a_unit_count_in_the_whole() {
    let unit = |sub: &str, disk: &str| {
        format!(
            "Unit     UnitType  Status         %RCmpl  %V/I/M  Port  Stripe  Size(GB)\n\
             ------------------------------------------------------------------------\n\
             u0       RAID-10   OK             -       -       -     64K     1396.96\n\
             u0-0     RAID-1    {sub}             -       -       -     -       -\n\
             u0-0-0   DISK      OK             -       -       p0    -       698.48\n\
             u0-0-1   DISK      {disk}             -       -       p1    -       698.48\n\
             u0/v0    Volume    -              -       -       -     -       1396.96\n"
        )
    };
    for (sub, disk, expected, active) in [
        ("OK", "OK", Health::Ok, 2),
        ("DEGRADED", "OK", Health::Degraded, 2),
        ("OK", "DEGRADED", Health::Degraded, 1),
        ("REBUILDING", "REBUILDING", Health::Rebuilding, 1),
        ("SPLENDID", "OK", Health::Unknown, 2),
    ] {
        let report = parse_tw_cli(&unit(sub, disk));
        assert_eq!(report.items.len(), 1, "{report:?}");
        assert_eq!(report.items[0].health, expected, "{sub} {disk}");
        let Facts::Volume(facts) = &report.items[0].facts else {
            panic!()
        };
        assert_eq!(facts.members_active, active.into());
    }
}

#[test]
fn a_card_in_lines_of_its_own() {
    for (count, expected) in [
        ("0", Health::Ok),
        ("1", Health::Degraded),
        ("many", Health::Unknown),
    ] {
        let text = format!(
            "/c0 Driver Version = 2.26\n/c0 Model = 9690SA-8I\n/c0 Not Optimal Units = {count}\n\
             /c0/u0 status = OK\n"
        );
        let report = parse_tw_cli(&text);
        assert_eq!(report.items.len(), 1, "{report:?}");
        assert_eq!(report.items[0].health, expected);
    }
}
