//! The rule row by row, and what is found in reports.

use super::*;
use crate::Tool;
use WriteHonesty::{Protected, Suspicious, Unknown, Unsafe, VolatileConsistent};

fn check(evidence: Evidence, expected: WriteHonesty, said: &str) {
    let verdict = judge(&evidence);
    assert_eq!(verdict.honesty, expected, "{evidence:?}: {verdict:?}");
    assert!(
        verdict.evidence.join("; ").contains(said),
        "{said:?} is not in {verdict:?}"
    );
}

fn ssd(drive_cache: Option<bool>, kernel_cache: Option<bool>, flushes: (u64, f64)) -> Evidence {
    Evidence {
        medium: Some(Medium::Ssd),
        drive_cache,
        kernel_cache,
        flushes: Some(flushes),
        ..Evidence::default()
    }
}

#[test]
fn drives() {
    for (evidence, expected, said) in [
        (
            ssd(Some(false), Some(false), (0, 0.0)),
            Protected,
            "no volatile cache is on",
        ),
        (
            ssd(Some(true), Some(false), (0, 0.0)),
            Suspicious,
            "never flushed",
        ),
        (ssd(None, Some(false), (0, 0.0)), Unknown, "was not asked"),
        (ssd(None, None, (500, 900.0)), Unknown, "told by nobody"),
        (
            ssd(Some(true), Some(true), (500, 900.0)),
            VolatileConsistent,
            "0.90 ms",
        ),
        (
            ssd(None, Some(true), (500, 900.0)),
            VolatileConsistent,
            "as flash does",
        ),
        (
            ssd(Some(true), Some(true), (500, 200.0)),
            VolatileConsistent,
            "0.20 ms",
        ),
        (
            ssd(Some(true), Some(true), (500, 199.0)),
            Suspicious,
            "at least 0.2 ms",
        ),
        (ssd(Some(true), Some(true), (99, 1.0)), Unknown, "too few"),
    ] {
        check(evidence, expected, said);
    }
    let hdd = |mean| Evidence {
        medium: Some(Medium::Hdd),
        ..ssd(Some(true), Some(true), (500, mean))
    };
    check(hdd(8333.0), VolatileConsistent, "a disc that turns");
    check(hdd(3999.0), Suspicious, "at least 4 ms");
    let uncounted = Evidence {
        flushes: None,
        ..hdd(0.0)
    };
    check(uncounted, Unknown, "not counted");
    let nameless = Evidence {
        medium: None,
        ..hdd(1.0)
    };
    check(nameless, Unknown, "stores on");
}

#[test]
fn a_capacitor_covers_what_is_fast() {
    let fast = ssd(Some(true), Some(true), (500, 30.0));
    for (capacitor, expected) in [
        (Some(true), Protected),
        (Some(false), Suspicious),
        (None, Suspicious),
    ] {
        let evidence = Evidence {
            capacitor,
            ..fast.clone()
        };
        check(evidence, expected, "");
    }
}

#[test]
fn speed_never_acquits() {
    for mean in [1.0, 250.0, 5000.0, 1e9] {
        let verdict = judge(&ssd(Some(true), Some(true), (1_000_000, mean)));
        assert!(verdict.honesty > Protected, "{mean} us: {verdict:?}");
    }
}

#[test]
fn what_somebody_else_hides_is_unknown() {
    let evidence = Evidence {
        hidden: Some("a hypervisor hides what it is"),
        ..ssd(Some(false), Some(false), (545, 42.0))
    };
    check(evidence, Unknown, "hypervisor");
    let evidence = Evidence {
        controller: Controller::Silent("megaraid_sas".into()),
        ..ssd(Some(false), Some(false), (545, 42.0))
    };
    check(evidence, Unknown, "megaraid_sas");
}

#[test]
fn volumes() {
    use CachePolicy::{WriteBack, WriteBackAlways, WriteThrough};
    for (cache_policy, cache_protected, without_battery, drive_cache, expected) in [
        (
            Some(WriteBack),
            Some(true),
            Some(false),
            Some(false),
            Protected,
        ),
        (Some(WriteBack), Some(true), None, Some(false), Protected),
        (Some(WriteThrough), None, Some(true), Some(false), Protected),
        (Some(WriteBack), Some(true), Some(false), None, Unknown),
        (Some(WriteBack), None, Some(false), Some(false), Unknown),
        (None, Some(true), Some(false), Some(false), Unknown),
        (Some(WriteBack), Some(false), None, Some(false), Unsafe),
        (Some(WriteBack), Some(true), Some(true), Some(false), Unsafe),
        (Some(WriteBack), Some(true), Some(false), Some(true), Unsafe),
        (Some(WriteThrough), None, None, Some(true), Unsafe),
        (
            Some(WriteBackAlways),
            Some(true),
            Some(false),
            Some(false),
            Unsafe,
        ),
    ] {
        let volume = Volume {
            cache_policy,
            cache_protected,
            without_battery,
            drive_cache,
        };
        let evidence = Evidence {
            controller: Controller::Volume(volume),
            ..Evidence::default()
        };
        check(evidence, expected, "");
    }
}

fn honesties(report: &Report) -> Vec<(String, Option<WriteHonesty>)> {
    let told = report.items.iter().filter_map(|item| {
        let honesty = match &item.facts {
            Facts::Volume(facts) => &facts.write_honesty,
            Facts::Drive(facts) => &facts.write_honesty,
            Facts::Filesystem(facts) => &facts.write_honesty,
            _ => return None,
        };
        Some((item.id.clone(), honesty.known().copied()))
    });
    told.collect()
}

#[test]
fn a_file_system_is_no_better_than_its_worst_disk_and_its_mount() {
    for (kernel_cache, page, options, expected) in [
        ("write back", "write through", "rw", Protected),
        ("write through", "write back", "rw", Suspicious),
        ("write back", "write through", "rw,nobarrier", Unsafe),
        ("write back", "", "rw", Unknown),
    ] {
        let mut archive = crate::Archive::default();
        for (path, text) in [
            (
                "proc/self/mountinfo",
                format!("1 0 8:0 / / rw - xfs /dev/sda {options}\n"),
            ),
            ("sys/devices/ata1/block/sda/dev", "8:0".to_owned()),
            (
                "sys/devices/ata1/block/sda/queue/rotational",
                "0".to_owned(),
            ),
            (
                "sys/devices/ata1/block/sda/queue/write_cache",
                kernel_cache.to_owned(),
            ),
            (
                "sys/devices/ata1/block/sda/device/scsi_disk/0:0:0:0/cache_type",
                page.to_owned(),
            ),
            ("proc/meminfo", "MemTotal: 1 kB".to_owned()),
        ] {
            archive.files.insert(path.into(), text.into_bytes());
        }
        archive
            .links
            .insert("sys/block/sda".into(), "../devices/ata1/block/sda".into());
        let report = crate::read_machine(&crate::Root::Archive(archive), None);
        let found = honesties(&report);
        assert!(
            found.contains(&("/".to_owned(), Some(expected))),
            "{kernel_cache}, {page}, {options}: {found:?}"
        );
    }
}

/// One answer says that the cache is protected, the next that its battery wants replacing.
#[test]
fn a_bad_battery_is_heard_wherever_it_is_told() {
    let volume = r#"{"Controllers": [{"Command Status": {"Controller": 0, "Status": "Success"}, "Response Data":
        {"VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Cache": "RWBD"}],
         "BBU_Info": [{"Model": "BBU", "State": "Optimal"}]}}]}"#;
    let battery = |state: &str| {
        format!(
            r#"{{"Controllers": [{{"Command Status": {{"Controller": 0, "Status": "Success"}},
               "Response Data": {{"BBU_Info": [{{"Model": "BBU", "State": "{state}"}}]}}}}]}}"#
        )
    };
    for (state, expected) in [("Optimal", Unknown), ("Failed", Unsafe)] {
        let mut report = Report::default();
        for text in [volume, &battery(state)] {
            crate::join(&mut report, Tool::Storcli.parse(text.as_bytes()), None);
        }
        settle(&mut report);
        assert_eq!(
            honesties(&report),
            [("c0/v0".to_owned(), Some(expected))],
            "{state}: {report:?}"
        );
    }
}

/// Configurations that lose writes, as their tools print them.
#[test]
fn volumes_as_tools_tell_of_them() {
    let Some(hosts) = corpus() else {
        return;
    };
    for (file, tool, volume, expected) in [
        // "No-Battery Write Cache: Enabled", "Drive Write Cache: Enabled".
        ("ssacli/P440ar.txt", Tool::Ssacli, "slot0/ld1", Unsafe),
        ("ssacli/P408i-a.txt", Tool::Ssacli, "slot0/ld1", Unsafe),
        // Write-back, and the backup unit "Not Present".
        (
            "arcconf/no-backup-unit.getconfig.txt",
            Tool::Arcconf,
            "c1/ld0",
            Unsafe,
        ),
        // "Write Cache OK if Bad BBU".
        (
            "megacli/ld-writeback-without-bbu.txt",
            Tool::Megacli,
            "c0/v0",
            Unsafe,
        ),
        // A battery in order, and not a word about the caches of the disks.
        (
            "storcli/megaraid-controllers.json",
            Tool::Storcli,
            "c0/v0",
            Unknown,
        ),
    ] {
        let path = hosts.join(file);
        #[expect(clippy::disallowed_methods, reason = "a test reads what lies outside")]
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let found = honesties(&tool.parse(&bytes));
        assert!(
            found.contains(&(volume.to_owned(), Some(expected))),
            "{file}: {found:?}"
        );
    }
}

/// The corpus, where it is: see `tests/corpus/`.
#[expect(
    clippy::disallowed_methods,
    reason = "a test is told where the corpus lies"
)]
fn corpus() -> Option<std::path::PathBuf> {
    let corpus = std::env::var_os("MATINS_CORPUS").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus").into(),
        std::path::PathBuf::from,
    );
    let hosts = corpus.join("hosts");
    hosts.join("TRUTH.tsv").is_file().then_some(hosts)
}
