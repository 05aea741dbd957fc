//! What the reports of the corpus must say: the table of `truths.rs`.

/// File and question of a truth, and what answers it: whom, and facts as they stand in JSON. `~` asks
/// for a part of a text, `null` is unknown and `-` does not apply.
pub(crate) type Answer = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

pub(crate) const ANSWERS: &[Answer] = &[
    (
        "mdstat/procfs-mixed.txt",
        "md6: level, required/active members, sync action and percent",
        &[(
            "md6",
            "level=raid1 members_required=2 members_active=1 action=recovery action_percent=8.5 members_failed=1 spares=1 health=rebuilding reason~sdb2",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md7: is it degraded?",
        &[(
            "md7",
            "health=degraded level=raid6 members_required=4 members_active=3 action=idle reason~sdc1",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md4: state",
        &[(
            "md4",
            "health=failed level=raid1 members_failed=1 spares=1 members_active=null reason~inactive",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md201: healthy?",
        &[(
            "md201",
            "health=ok members_required=2 members_active=2 action=check action_percent=5.7",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md42: operation",
        &[(
            "md42",
            "health=degraded level=raid5 members_required=3 members_active=2 action=reshape action_percent=56.1",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md219: does \"inactive\" mean failed?",
        &[("md219", "health=ok level=container")],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "md9: degraded?",
        &[(
            "md9",
            "health=ok members_required=4 members_active=4 members_failed=2 spares=1 action=delayed",
        )],
    ),
    (
        "mdstat/procfs-mixed.txt",
        "how many arrays are listed",
        &[("18 array", "")],
    ),
    (
        "mdstat/raid6-degraded-no-spare.txt",
        "state",
        &[(
            "md0",
            "health=degraded level=raid6 members_required=6 members_active=5 action=idle spares=0",
        )],
    ),
    (
        "mdstat/healthy-mixed.txt",
        "degraded arrays",
        &[("5 array ok", ""), ("5 array", "")],
    ),
    (
        "mdstat/healthy-mixed.txt",
        "does md1 have redundancy?",
        &[(
            "md1",
            "level=raid0 members_required=null spares=- health=ok reason~without*redundancy",
        )],
    ),
    (
        "mdstat/raid1-both-degraded.txt",
        "degraded arrays and action",
        &[
            (
                "md1",
                "health=degraded members_required=2 members_active=1 action=idle spares=0",
            ),
            (
                "md0",
                "health=rebuilding members_required=2 members_active=1 action=recovery action_percent=3.6",
            ),
        ],
    ),
    (
        "mdstat/raid1-delayed.txt",
        "md1",
        &[(
            "md1",
            "health=degraded members_required=2 members_active=1 action=delayed",
        )],
    ),
    (
        "mdstat/failed-but-complete.txt",
        "md1",
        &[(
            "md1",
            "health=ok members_required=5 members_active=5 members_failed=1 reason~sdh1",
        )],
    ),
    (
        "mdstat/imsm-container.txt",
        "md127 inactive: fault?",
        &[
            ("md127", "health=ok level=container"),
            ("md126", "health=ok level=raid1 members_active=2"),
        ],
    ),
    (
        "mdstat/raid5-with-spares.txt",
        "spares per array",
        &[("md1", "spares=1 health=ok"), ("md2", "spares=2 health=ok")],
    ),
    (
        "mdstat/raid10-check.txt",
        "md2",
        &[(
            "md2",
            "level=raid10 members_required=12 members_active=12 action=check action_percent=94.3 health=ok",
        )],
    ),
    (
        "mdadm/mdadm-query-raid5-ok.txt",
        "state",
        &[(
            "md0",
            "level=raid5 members_required=3 members_active=3 health=ok action=idle",
        )],
    ),
    (
        "mdadm/raid5-inactive.txt",
        "usable?",
        &[(
            "md1",
            "health=failed level=raid5 members_required=null members_active=null",
        )],
    ),
    (
        "megacli/bbu-replace.txt",
        "battery healthy?",
        &[(
            "c0/bbu",
            "health=degraded replace=true reason~remaining*capacity*low",
        )],
    ),
    (
        "megacli/bbu-replace.txt",
        "trap",
        &[("c0/bbu", "charge_percent=96 health=degraded")],
    ),
    (
        "megacli/bbu-replace-2.txt",
        "battery healthy?",
        &[(
            "c0/bbu",
            "health=degraded replace=true charge_percent=97 reason~remaining*capacity*low",
        )],
    ),
    (
        // What became of the volume stands in another file; why it did follows from this one.
        "megacli/bbu-replace-2.txt",
        "effect",
        &[("c0/bbu", "reason~volumes*write*through")],
    ),
    (
        "megacli/bbu-optimal.txt",
        "battery",
        &[(
            "c0/bbu",
            "model=iBBU08 type=BBU charge_percent=98 health=ok replace=false",
        )],
    ),
    (
        "megacli/bbu-state-empty.txt",
        "battery healthy?",
        &[("c0/bbu", "health=ok replace=false")],
    ),
    (
        "megacli/bbu-absent.txt",
        "battery present?",
        &[(
            "c0/bbu",
            "health=unknown reason~none*is*installed replace=-",
        )],
    ),
    (
        "megacli/ld-writeback-without-bbu.txt",
        "power-loss safe?",
        &[(
            "c0/v0",
            "level=raid1 health=ok cache_policy=write-back-always cache_protected=null",
        )],
    ),
    (
        "megacli/ld-raid6-cachecade.txt",
        "logical drives with data",
        &[
            (
                "c0/v0",
                "level=raid6 members_required=7 health=ok cache_policy=write-back",
            ),
            ("c0/v1", "level=- health=unknown"),
            ("1 volume ok", ""),
        ],
    ),
    (
        "megacli/pd-smart-alert.txt",
        "drives and trouble",
        &[
            ("8 drive", ""),
            ("7 drive ok", ""),
            (
                "c0/e252/s2",
                "health=degraded media_errors=71 predictive_failures=423 passed=false",
            ),
        ],
    ),
    (
        "megacli/pd-jbod.txt",
        "drives",
        &[
            ("4 drive", ""),
            ("c0/e32/s0", "reason~JBOD"),
            ("0 volume", ""),
        ],
    ),
    (
        "megacli/phys-drives-netdata.txt",
        "virtual drive",
        &[
            (
                "c0/v0",
                "level=raid1 members_required=8 health=ok cache_policy=write-back",
            ),
            ("c0/e32/s0", "medium=ssd"),
            ("8 drive ok", ""),
        ],
    ),
    (
        "storcli/megaraid-controllers.json",
        "controller",
        &[
            ("c0", "model~ServeRAID*M5015 health=ok"),
            ("c0/bbu", "model=iBBU08 health=ok"),
            (
                "c0/v0",
                "level=raid6 health=ok members_required=6 members_active=6",
            ),
            ("1 volume", ""),
        ],
    ),
    (
        "storcli/megaraid-controllers.json",
        "write policy",
        &[("c0/v0", "cache_policy=write-back cache_protected=true")],
    ),
    (
        "storcli/megaraid-drives.json",
        "drives",
        &[
            ("6 drive", ""),
            ("c0/e252/s0", "health=ok"),
            ("c0/e252/s1", ""),
            ("c0/e252/s3", ""),
            ("c0/e252/s4", ""),
            ("c0/e252/s5", ""),
            ("c0/e252/s7", ""),
        ],
    ),
    (
        "storcli/cachevault-drives.json",
        "drives",
        &[
            ("4 drive", ""),
            ("c0/e252/s0", ""),
            ("c0/e252/s1", ""),
            ("c0/e252/s4", ""),
            ("c0/e252/s5", "medium=ssd"),
        ],
    ),
    (
        "ssacli/P408i-a.txt",
        "controller, battery, array",
        &[
            ("slot0", "model~P408i-a health=ok reason~cache:*OK"),
            ("slot0/battery", "health=ok"),
            ("slot0/A", "level=raid6 members_required=4 health=ok"),
            ("4 drive ok", ""),
            ("slot0/2I:1:1", "medium=ssd transport=sata"),
        ],
    ),
    (
        "ssacli/P408i-a.txt",
        "No-Battery Write Cache",
        &[
            ("slot0", "write_back_without_battery=true"),
            ("slot0/ld1", "cache_policy=write-back-always"),
        ],
    ),
    (
        "ssacli/P440ar.txt",
        "drive write cache",
        &[("slot0", "drive_write_cache=true")],
    ),
    (
        "ssacli/P440ar.txt",
        "array A",
        &[
            ("slot0/A", "level=raid10 members_required=6 health=ok"),
            ("slot0/1I:1:1", "medium=ssd"),
        ],
    ),
    (
        "ssacli/status-recharging.txt",
        "write cache",
        &[
            ("slot0", "health=degraded reason~Temporarily*Disabled"),
            ("slot0/battery", "health=degraded reason~Recharging"),
        ],
    ),
    (
        "ssacli/array-failed-ld-ok.txt",
        "healthy?",
        &[
            ("slot1/B", "health=failed"),
            ("3 volume ok", ""),
            ("slot1/A", "health=ok"),
        ],
    ),
    (
        "ssacli/interim-recovery.txt",
        "logical drive 1",
        &[(
            "slot0/ld1",
            "level=raid5 health=degraded reason~interim*recovery",
        )],
    ),
    (
        "ssacli/hba-mode.txt",
        "slots",
        &[
            ("slot1", "mode=hba health=ok"),
            ("slot0", "mode=raid health=ok"),
        ],
    ),
    (
        "arcconf/zmm-build-verify.getstatus.txt",
        "task",
        &[(
            "c1/ld0",
            "action=resync action_percent=11 reason~In*Progress",
        )],
    ),
    (
        "arcconf/degraded-raid1.getconfig.txt",
        "array",
        &[
            (
                "c1/ld0",
                "level=raid1 health=degraded members_failed=1 cache_policy=write-back-always cache_protected=false",
            ),
            ("c1/d1", "health=failed"),
            ("c1", "reason~degraded*volumes"),
            ("c1/battery", "health=unknown reason~Not*Installed"),
        ],
    ),
    (
        "arcconf/rebuilding.getconfig.txt",
        "array",
        &[
            ("c1/ld0", "level=raid10 health=rebuilding action=recovery"),
            ("c1/d3", "health=rebuilding"),
            ("c1/battery", "type=ZMM reason~not*installed"),
            ("c1", "temperature_c=null"),
        ],
    ),
    (
        "arcconf/rebuilding.getstatus.txt",
        "task",
        &[(
            "c1/ld0",
            "action=recovery action_percent=1 health=rebuilding",
        )],
    ),
    (
        "arcconf/raid10-one-of-two-degraded.getconfig.txt",
        "arrays",
        &[
            ("2 volume", ""),
            ("c1/ld0", "health=ok"),
            (
                "c1/ld1",
                "health=degraded cache_policy=write-back-always cache_protected=null",
            ),
            ("1 drive failed", ""),
            ("0 battery", ""),
        ],
    ),
    (
        "arcconf/no-backup-unit.getconfig.txt",
        "power-loss protection",
        &[
            ("c1/battery", "reason~Not*Present"),
            (
                "c1/ld0",
                "cache_policy=write-back-always cache_protected=false",
            ),
        ],
    ),
    (
        "arcconf/supercap-verify.getstatus.txt",
        "task",
        &[("c1/ld0", "action_percent=90 reason~Build/Verify*with*fix")],
    ),
    (
        "arcconf/offline-spanned.getconfig.txt",
        "logical drive",
        &[
            ("c1/ld0", "health=failed level=linear"),
            ("1 drive failed", ""),
        ],
    ),
    (
        "arcconf/ld-current-netdata.txt",
        "array",
        &[("c1/ld0", "level=raid10 health=ok members_required=4")],
    ),
    (
        "tw_cli/bbu-ok.txt",
        "battery",
        &[
            ("bbu", "health=ok reason~93*hours"),
            ("bbu", "reason~24-Jul-2012"),
        ],
    ),
    (
        "smart/sata-failed.json",
        "SMART verdict",
        &[(
            "/dev/sdc",
            "health=failed passed=false reallocated=1975 pending=8",
        )],
    ),
    (
        "smart/open-failed.json",
        "healthy?",
        &[
            (
                "/dev/sda",
                "health=unknown passed=null reason~could*not*open",
            ),
            ("problem", "Open failed"),
        ],
    ),
    (
        "smart/raid-volume-no-smart.json",
        "healthy?",
        &[("/dev/sdb", "health=unknown passed=null model~Raid*1*Volume")],
    ),
    (
        "smart/ata-write-cache.json",
        "volatile write cache",
        &[("/dev/sda", "write_cache=true medium=ssd")],
    ),
    (
        "smart/scsi.json",
        "kind and verdict",
        &[(
            "/dev/sdg",
            "model~ST4000NM0043 medium=hdd health=ok passed=true reallocated=56",
        )],
    ),
    (
        "smart/nvme-client-samsung.json",
        "wear",
        &[(
            "/dev/nvme0",
            "wear_percent=16 spare_percent=100 passed=true health=ok transport=nvme",
        )],
    ),
    (
        "smart/ssd-enterprise-sata.json",
        "power-loss capacitor evidence",
        &[(
            "/dev/sdg",
            "power_loss_capacitor=true medium=ssd passed=true reallocated=0",
        )],
    ),
    (
        "smart/ssd-kingston-exit4.json",
        "exit status",
        &[("/dev/sda", "passed=true health=ok reason~some*command")],
    ),
    (
        "smart/hdd-no-rotation-rate.json",
        "kind",
        &[("/dev/sda", "medium=hdd")],
    ),
    (
        "smart/scan-megaraid.json",
        "what must be passed to -d",
        &[
            ("/dev/bus/0[megaraid,0]", "smartctl_type=megaraid,0"),
            ("/dev/bus/0[megaraid,1]", "smartctl_type=megaraid,1"),
        ],
    ),
    (
        "nvme/nvme-smart-log-2.3.json",
        "wear, temperature",
        &[(
            "nvme",
            "wear_percent=2 temperature_c=37 media_errors=0 health=ok",
        )],
    ),
    (
        "nvme/nvme-list-2.3.json",
        "drives",
        &[
            ("2 drive", ""),
            (
                "/dev/nvme0n1",
                "model~FireCuda*530 size_bytes=4000787030016 health=unknown",
            ),
        ],
    ),
    (
        "nvme/id-ctrl-wdc-sn730.json",
        "volatile write cache present?",
        &[("nvme", "write_cache=true")],
    ),
    (
        "cpu/x86_64-2cpu-cpuinfo.txt",
        "sockets, cores, threads",
        &[("cpu", "packages=2 cores=2 threads=2")],
    ),
    (
        "cpu/s390x-z14-64cpu-cpuinfo.txt",
        "logical CPUs",
        &[("cpu", "threads=64 cores=null")],
    ),
    (
        "cpu/procfs-8thread-cpuinfo.txt",
        "sockets, cores, threads",
        &[("cpu", "packages=1 cores=4 threads=8 model~i7-8650U")],
    ),
    (
        "cpu/lscpu-x86_64-64cpu.txt",
        "sockets, cores, threads, NUMA",
        &[("cpu", "packages=4 cores=32 threads=64 numa_nodes=3")],
    ),
    (
        "cpu/lscpu-x86_64-64cpu.txt",
        "NUMA node0 list",
        &[("cpu", "node_lists~node0:*0-62:2")],
    ),
    (
        "cpu/lscpu-arm-A510-A710-A715-X3.txt",
        "core kinds",
        &[(
            "cpu",
            "threads=8 kinds~3*Cortex-A510 kinds~2*Cortex-A710 kinds~2*Cortex-A715 kinds~1*Cortex-X3",
        )],
    ),
    (
        "cpu/cpuinfo-heterogeneous-sockets.txt",
        "cpu cores agree across sockets?",
        &[(
            "cpu",
            "reason~sockets*do*not*agree reason~socket*0*says*4 reason~socket*1*says*8",
        )],
    ),
    (
        "cpu/lscpu-x86_64-epyc_7451.txt",
        "sockets, cores, threads, NUMA",
        &[("cpu", "packages=2 cores=48 threads=96 numa_nodes=8")],
    ),
    (
        "cpu/lscpu-vmware_fpe.txt",
        "topology",
        &[(
            "cpu",
            "packages=2 cores=8 threads=16 numa_nodes=4 model~Opteron",
        )],
    ),
    (
        "cpu/lscpu-s390-lpar-drawer.txt",
        "CPU count",
        &[("cpu", "threads_usable=8 packages=null cores=8")],
    ),
    (
        "cpu/sysfs-x86_64-64cpu.tar.gz",
        "topology",
        &[(
            "cpu",
            "packages=4 cores=32 threads=64 threads_usable=64 numa_nodes=3",
        )],
    ),
    (
        "cpu/sysfs-vmware_fpe.tar.gz",
        "topology",
        &[(
            "cpu",
            "packages=2 cores=8 threads=16 threads_usable=16 numa_nodes=4",
        )],
    ),
    (
        "cpu/lscpu-rhel9-indented.txt",
        "sockets, cores, threads",
        &[("cpu", "packages=2 cores=2 threads=2")],
    ),
    (
        "cpu/hwloc-16em64t-4s2c2t-offlines.tar.bz2",
        "usable CPUs",
        &[
            (
                "cpu",
                "threads=16 threads_usable=12 packages=4 cores=7 numa_nodes=1",
            ),
            ("memory", "size_bytes=17174994944"),
        ],
    ),
    (
        "cpu/hwloc-offline-cpu0-node0.tar.bz2",
        "usable CPUs",
        &[(
            "cpu",
            "threads=24 threads_usable=17 packages=2 numa_nodes=1",
        )],
    ),
    (
        "cpu/hwloc-16amd64-8n2c-cpusets.tar.bz2",
        "usable inside the cpuset",
        &[
            (
                "cpu",
                "threads=16 threads_usable=10 numa_nodes=8 numa_nodes_usable=4",
            ),
            ("memory", "usable_bytes=34359738368"),
        ],
    ),
    (
        "cpu/hwloc-48amd64-4pa2n6c-sparse.tar.bz2",
        "topology",
        &[
            ("cpu", "packages=4 numa_nodes=8 cores=48 threads_usable=48"),
            ("memory", "size_bytes=101583552512"),
        ],
    ),
    (
        "cpu/hwloc-32amd64-4s2n4c-cgroup2.tar.bz2",
        "usable CPUs",
        &[(
            "cpu",
            "threads=32 threads_usable=6 numa_nodes=8 numa_nodes_usable=6",
        )],
    ),
    (
        "cpu/hwloc-32em64t-nvme-dimms.tar.bz2",
        "logical CPUs and NUMA",
        &[
            ("cpu", "threads=16 numa_nodes=2 packages=2"),
            ("2 drive", ""),
            ("/dev/nvme0n1", "transport=nvme"),
            ("/dev/sda", "medium=hdd"),
        ],
    ),
    (
        "ecc/dmidecode-vmware-128-slots.txt",
        "populated DIMMs, ECC",
        &[(
            "memory",
            "modules=1 slots=128 size_bytes=4294967296 ecc=false",
        )],
    ),
    (
        "ecc/dmidecode-units-gb.txt",
        "populated DIMM size",
        &[("memory", "size_bytes=4294967296")],
    ),
    (
        "ipmi/sdr-ibm-x3650.txt",
        "power supplies",
        &[
            ("Power Supply 1", "health=ok"),
            ("Power Supply 2", "health=ok"),
        ],
    ),
    (
        "ipmi/sdr-ibm-x3650.txt",
        "not readable sensors",
        &[
            ("DASD Backplane 3", "health=unknown value=null"),
            ("DASD Backplane 4", "health=unknown value=null"),
            ("2 sensor unknown", ""),
        ],
    ),
    (
        "ipmi/sdr-ibm-x3650.txt",
        "average power",
        &[("Avg Power", "value=210 unit=Watts")],
    ),
    (
        "ipmi/sdr-elist.txt",
        "power supply 1",
        &[(
            "Power Supply 1",
            "value=110 unit=Watts health=ok reason~Presence*detected",
        )],
    ),
    (
        "ipmi/sdr-elist.txt",
        "SEL",
        &[("SEL", "health=unknown value=null state=ns")],
    ),
    (
        "clock/sources-gps-unreachable.txt",
        "selected",
        &[
            ("GPS0", "state=selected stratum=0 mode=reference*clock"),
            ("a.b.c", "state=unselectable"),
        ],
    ),
    (
        "clock/tracking-checkmk.txt",
        "offset now",
        &[("chrony", "correction_s=0.000275117")],
    ),
    (
        "clock/tracking-checkmk.txt",
        "error bound",
        &[("chrony", "bound_s=0.01399956 health=ok")],
    ),
    (
        "clock/tracking-checkmk.txt",
        "stale?",
        &[("chrony", "reason~8338*s*after*1562659266")],
    ),
    (
        "clock/candm-reply-source-data.hex",
        "decoded",
        &[(
            "2401:db00:3110:20c0:face:0:48:0",
            "stratum=2 state=combined age_s=1705 error_s=0.00017888184811454266",
        )],
    ),
    (
        "clock/candm-reply-unauthorized.hex",
        "decoded",
        &[("problem", "command 57: not authorised (status 2)")],
    ),
    (
        "clock-captured/offset250ms.sources.txt",
        "states",
        &[
            ("FAKB", "state=selected"),
            ("FAKA", "state=combined"),
            ("BADC", "state=falseticker offset_s=3.25"),
            ("127.0.0.1", "reachable=false"),
        ],
    ),
    (
        "clock-captured/offset250ms.tracking.txt",
        "offset now",
        &[("chrony", "correction_s=0.250050008 health=degraded")],
    ),
    (
        "clock-captured/unsynchronised.sources.txt",
        "reachable sources",
        &[("4 source failed", ""), ("4 source", "")],
    ),
];

/// Truths of our kinds that a report has no place for, and why.
pub(crate) const NOT_ANSWERED: &[(&str, &str, &str)] = &[];
