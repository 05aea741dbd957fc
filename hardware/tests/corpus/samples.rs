//! Small outputs written here, each with something bad in it, for whoever has no corpus.

use hardware::Tool;

pub(crate) const SAMPLES: &[(&str, Tool, &str)] = &[
    ("mdstat", Tool::Mdstat, MDSTAT),
    ("mdadm", Tool::Mdadm, MDADM),
    ("storcli as JSON", Tool::Storcli, STORCLI_JSON),
    ("storcli as text", Tool::Storcli, STORCLI_TEXT),
    ("ssacli in short", Tool::Ssacli, SSACLI),
    ("ssacli in detail", Tool::Ssacli, SSACLI_DETAIL),
    ("arcconf", Tool::Arcconf, ARCCONF),
    ("MegaCli drives", Tool::Megacli, MEGACLI),
    ("MegaCli battery", Tool::Megacli, MEGACLI_BATTERY),
    ("sas2ircu", Tool::Sas2ircu, SAS2IRCU),
    ("tw_cli", Tool::TwCli, TW_CLI),
    ("smartctl as text", Tool::Smartctl, SMARTCTL_TEXT),
    ("smartctl as JSON", Tool::Smartctl, SMARTCTL_JSON),
    ("nvme as text", Tool::Nvme, NVME),
    ("nvme as JSON", Tool::Nvme, NVME_JSON),
    ("edac-util", Tool::Edac, EDAC),
    ("sensors", Tool::Sensors, SENSORS),
    ("ipmitool", Tool::Sensors, IPMITOOL),
    ("chrony tracking", Tool::ChronyTracking, TRACKING),
    ("chrony sources", Tool::ChronySources, SOURCES),
    ("cpuinfo", Tool::CpuRoot, CPUINFO),
    ("machine", Tool::CpuRoot, MACHINE),
];

const MDSTAT: &str = "\
Personalities : [raid1] [raid6]
md1 : active raid6 sdd1[3] sdc1[2](F) sdb1[1] sda1[0]
      104320 blocks super 1.2 level 6, 512k chunk, algorithm 2 [4/3] [UU_U]
      bitmap: 0/1 pages [0KB], 65536KB chunk

md0 : active raid1 sdb2[2] sda2[0]
      104320 blocks super 1.2 [2/1] [U_]
      [==>..................]  recovery = 12.6% (13144/104320) finish=0.1min speed=13144K/sec

unused devices: <none>
";

const MDADM: &str = "\
/dev/md5:
           Version : 1.2
        Raid Level : raid5
      Raid Devices : 3
     Total Devices : 3
             State : clean, degraded
    Active Devices : 2
   Working Devices : 2
    Failed Devices : 1
     Spare Devices : 0

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      active sync   /dev/sdb1
       -       0        0        2      removed
       2       8       33        -      faulty   /dev/sdc1
";

const STORCLI_JSON: &str = r#"{
"Controllers":[
{
 "Command Status" : {
  "CLI Version" : "007.1907.0000.0000",
  "Controller" : 0,
  "Status" : "Success",
  "Description" : "None"
 },
 "Response Data" : {
  "Basics" : {
   "Controller" : 0,
   "Model" : "Sample RAID 1"
  },
  "Status" : {
   "Controller Status" : "Needs Attention",
   "Memory Uncorrectable Errors" : 0,
   "BBU Status" : 1024
  },
  "TOPOLOGY" : [
   { "DG" : 0, "Arr" : "-", "Row" : "-", "EID:Slot" : "-", "Type" : "RAID1", "State" : "Dgrd" },
   { "DG" : 0, "Arr" : 0, "Row" : 0, "EID:Slot" : "252:0", "Type" : "DRIVE", "State" : "Onln" },
   { "DG" : 0, "Arr" : 0, "Row" : 1, "EID:Slot" : "252:1", "Type" : "DRIVE", "State" : "Offln" }
  ],
  "VD LIST" : [
   {
    "DG/VD" : "0/0",
    "TYPE" : "RAID1",
    "State" : "Dgrd",
    "Access" : "RW",
    "Cache" : "RWBD",
    "Size" : "1.818 TB"
   }
  ],
  "PD LIST" : [
   {
    "EID:Slt" : "252:0",
    "State" : "Onln",
    "Model" : "X"
   },
   {
    "EID:Slt" : "252:1",
    "State" : "Offln",
    "Model" : "X"
   }
  ],
  "Cachevault_Info" : [
   {
    "Model" : "CVPM02",
    "State" : "Optimal",
    "Temp" : "28C"
   }
  ]
 }
}
]
}
"#;

const STORCLI_TEXT: &str = "\
CLI Version = 007.1907.0000.0000
Controller = 0
Status = Success
Description = None

Status :
======
Controller Status = Needs Attention
BBU Status = 0

VD LIST :
=======

------------------------------------------------------------
DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name
------------------------------------------------------------
0/0   RAID1 Dgrd  RW     Yes     RWBD  -   ON  1.818 TB os disk
------------------------------------------------------------

Cac=CacheCade|Rec=Recovery|OfLn=OffLine

PD LIST :
=======

-----------------------------------------------------------------------
EID:Slt DID State DG     Size Intf Med SED PI SeSz Model            Sp
-----------------------------------------------------------------------
252:0     8 Onln   0 1.818 TB SATA HDD N   N  512B SAMPLE DISK 2000 U
252:1     9 UBad   0 1.818 TB SATA HDD N   N  512B SAMPLE DISK 2000 U
-----------------------------------------------------------------------

Cachevault_Info :
===============

------------------------------------
Model  State   Temp Mode MfgDate
------------------------------------
CVPM02 Failed  28C  -    2014/06/06
------------------------------------
";

const SSACLI: &str = "\
Smart Array P420i in Slot 0 (Embedded)    (sn: 0014)
   Controller Status: OK
   Cache Status: Permanently Disabled
   Battery/Capacitor Status: Failed (Replace Batteries/Capacitors)

   array A (SAS, Unused Space: 0  MB)

      logicaldrive 1 (279.4 GB, RAID 1, Recovering, 45% complete)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS, 300 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS, 300 GB, Rebuilding)

   array B (Failed)

      logicaldrive 2 (1.8 TB, RAID 5, OK)

      physicaldrive 2I:1:5 (port 2I:box 1:bay 5, SATA, 1 TB, Predictive Failure)
      physicaldrive 2I:1:6 (port 2I:box 1:bay 6, SATA, 1 TB, OK, spare)
";

const SSACLI_DETAIL: &str = "\
Smart Array P440ar in Slot 0 (Embedded)
   Controller Status: OK
   Cache Status: OK
   No-Battery Write Cache: Disabled
   Battery/Capacitor Count: 1
   Battery/Capacitor Status: OK

   Internal Drive Cage at Port 1I, Box 1, OK

   Array: A
      Interface Type: SAS
      Status: OK
      MultiDomain Status: OK

      Logical Drive: 1
         Size: 279.4 GB
         Fault Tolerance: 1
         Status: Interim Recovery Mode
         Caching:  Enabled
         Logical Drive Label: A0

      physicaldrive 1I:1:1
         Status: OK
         Drive Type: Data Drive
         Interface Type: SAS
         Rotational Speed: 10000
      physicaldrive 1I:1:2
         Status: Failed
         Drive Type: Data Drive
         Interface Type: SAS
";

const ARCCONF: &str = "\
Controllers found: 1
----------------------------------------------------------------------
Controller information
----------------------------------------------------------------------
   Controller Status                        : Optimal
   Controller Model                         : Sample 5805
   Defunct disk drive count                 : 1
   Logical devices/Failed/Degraded          : 1/0/1
   --------------------------------------------------------
   Controller Battery Information
   --------------------------------------------------------
   Status                                   : Failed
   Over temperature                         : No
   Capacity remaining                       : 3 percent

----------------------------------------------------------------------
Logical device information
----------------------------------------------------------------------
Logical device number 0
   RAID level                               : 5
   Status of logical device                 : Degraded
   Size                                     : 1906678 MB
   Write-cache setting                      : Enabled (write-back)
   Failed stripes                           : No
   --------------------------------------------------------
   Logical device segment information
   --------------------------------------------------------
   Segment 0                                : Present (0,0) A
   Segment 1                                : Missing
   Segment 2                                : Present (0,2) C

----------------------------------------------------------------------
Physical Device information
----------------------------------------------------------------------
      Device #0
         Device is a Hard drive
         State                              : Online
         Model                              : X
         S.M.A.R.T. warnings                : 0
      Device #1
         Device is a Hard drive
         State                              : Failed
         Model                              : X
         S.M.A.R.T. warnings                : 3

Command completed successfully.
";

const MEGACLI: &str = "\
Adapter #0

Virtual Drive: 0 (Target Id: 0)
Name                :
RAID Level          : Primary-5, Secondary-0, RAID Level Qualifier-3
Size                : 2.725 TB
State               : Degraded
Number Of Drives    : 4
Span Depth          : 1
Default Cache Policy: WriteBack, ReadAhead, Direct, No Write Cache if Bad BBU
Current Cache Policy: WriteThrough, ReadAhead, Direct, No Write Cache if Bad BBU

Enclosure Device ID: 252
Slot Number: 0
Media Error Count: 0
Other Error Count: 0
Predictive Failure Count: 0
Firmware state: Online, Spun Up
Inquiry Data: SAMPLE DISK
Drive has flagged a S.M.A.R.T alert : No

Enclosure Device ID: 252
Slot Number: 1
Media Error Count: 3
Other Error Count: 0
Predictive Failure Count: 0
Firmware state: Failed
Inquiry Data: SAMPLE DISK
Drive has flagged a S.M.A.R.T alert : No

Enclosure Device ID: 252
Slot Number: 2
Media Error Count: 0
Other Error Count: 0
Predictive Failure Count: 9
Firmware state: Online, Spun Up
Inquiry Data: SAMPLE DISK
Drive has flagged a S.M.A.R.T alert : Yes

Exit Code: 0x00
";

const MEGACLI_BATTERY: &str = "\
BBU status for Adapter: 0

BatteryType: iBBU
Voltage: 4049 mV
Temperature: 36 C

BBU Firmware Status:

  Charging Status              : None
  Voltage                      : OK
  Temperature                  : OK
  Learn Cycle Requested        : No
  Learn Cycle Active           : No
  Learn Cycle Status           : OK
  Learn Cycle Timeout          : No
  I2c Errors Detected          : No
  Battery Pack Missing         : No
  Battery Replacement required : Yes
  Remaining Capacity Low       : No
  Periodic Learn Required      : No

Battery state:

Relative State of Charge: 96 %
Charger System State: 1
Exit Code: 0x00
";

const SAS2IRCU: &str = "\
Read configuration has been initiated for controller 0
------------------------------------------------------------------------
Controller information
------------------------------------------------------------------------
  Controller type                         : SAS2008
  RAID Support                            : Yes
------------------------------------------------------------------------
IR Volume information
------------------------------------------------------------------------
IR volume 1
  Volume ID                               : 79
  Status of volume                        : Degraded (DGD)
  RAID level                              : RAID1
  Size (in MB)                            : 69618
  PHY[0] Enclosure#/Slot#                 : 1:0
  PHY[1] Enclosure#/Slot#                 : 1:1
------------------------------------------------------------------------
Physical device information
------------------------------------------------------------------------
Initiator at ID #0

Device is a Hard disk
  Enclosure #                             : 1
  Slot #                                  : 0
  State                                   : Optimal (OPT)
  Model Number                            : X
  Drive Type                              : SAS_HDD
Device is a Hard disk
  Enclosure #                             : 1
  Slot #                                  : 1
  State                                   : Failed (FLD)
  Model Number                            : X
  Drive Type                              : SAS_HDD
------------------------------------------------------------------------
SAS2IRCU: Command DISPLAY Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
";

const TW_CLI: &str = "\
Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
------------------------------------------------------------------------------
u0    RAID-10   OK             -       -       64K     1396.96   RiW    ON
u1    RAID-5    DEGRADED       -       -       64K     1396.96   OFF    ON

VPort Status         Unit Size      Type  Phy Encl-Slot    Model
------------------------------------------------------------------------------
p0    OK             u0   698.63 GB SATA  0   -            SAMPLE DISK 750
p1    DEVICE-ERROR   u1   698.63 GB SATA  1   -            SAMPLE DISK 750
p2    NOT-PRESENT    -    -         -     2   -            -

Name  OnlineState  BBUReady  Status    Volt     Temp     Hours  LastCapTest
---------------------------------------------------------------------------
bbu   On           No        WeakBat   OK       OK       0      xx-xxx-xxxx
";

const SMARTCTL_TEXT: &str = "\
smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.10] (local build)

=== START OF INFORMATION SECTION ===
Device Model:     SAMPLE DISK
Rotation Rate:    7200 rpm
SMART support is: Available - device has SMART capability.
SMART support is: Enabled

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: FAILED!
Drive failure expected in less than 24 hours. SAVE ALL DATA.

ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   001   001   005    Pre-fail  Always   FAILING_NOW 1975
194 Temperature_Celsius     0x0002   240   240   000    Old_age   Always       -       25 (Min/Max 19/39)
";

const SMARTCTL_JSON: &str = r#"{
  "smartctl": {
    "version": [7, 2],
    "exit_status": 0
  },
  "device": {
    "name": "/dev/nvme0",
    "type": "nvme",
    "protocol": "NVMe"
  },
  "smart_status": {
    "passed": false,
    "nvme": {
      "value": 4
    }
  },
  "nvme_smart_health_information_log": {
    "critical_warning": 4,
    "available_spare": 3,
    "available_spare_threshold": 10,
    "percentage_used": 116
  }
}
"#;

const NVME: &str = "\
Smart Log for NVME device:nvme0 namespace-id:ffffffff
critical_warning                        : 0x1
temperature                             : 37 C
available_spare                         : 3%
available_spare_threshold               : 10%
percentage_used                         : 104%
media_errors                            : 2
";

const NVME_JSON: &str = r#"{
  "critical_warning" : 8,
  "temperature" : 310,
  "avail_spare" : 100,
  "spare_thresh" : 10,
  "percent_used" : 5,
  "media_errors" : 0
}
"#;

const EDAC: &str = "\
mc0: 0 Uncorrected Errors with no DIMM info
mc0: 0 Corrected Errors with no DIMM info
mc0: csrow0: 2 Uncorrected Errors
mc0: csrow0: ch0: 0 Corrected Errors
";

const SENSORS: &str = "\
coretemp-isa-0000
Adapter: ISA adapter
Package id 0:  +101.0 C  (high = +80.0 C, crit = +100.0 C)

nct6775-isa-0290
Adapter: ISA adapter
fan1:          0 RPM  (min = 600 RPM)  ALARM
";

const IPMITOOL: &str = "\
Power Supply 1   | 03h | ok  | 10.1 | Presence detected, Failure detected
Power Supply 2   | 04h | ok  | 10.2 | Presence detected
Fan1             | 30h | cr  |  7.1 | 0 RPM
";

const TRACKING: &str = "\
Reference ID    : C0000201 (time.example.net)
Stratum         : 3
Ref time (UTC)  : Tue Jul 09 08:01:06 2019
System time     : 2.000275117 seconds slow of NTP time
Last offset     : -0.000442775 seconds
Root delay      : 0.020000000 seconds
Root dispersion : 0.001000000 seconds
Update interval : 1042.2 seconds
Leap status     : Not synchronised
";

const SOURCES: &str = "\
MS Name/IP address         Stratum Poll Reach LastRx Last sample
===============================================================================
^* a.example                     2   6   377    23   -923us[ -924us] +/-   43ms
^x b.example                     2   6   377    23  +3250ms[+3250ms] +/-   52us
^? c.example                     0   6     0     -     +0ns[   +0ns] +/-    0ns
";

const CPUINFO: &str = "\
processor\t: 0
model name\t: Sample CPU
physical id\t: 0
core id\t\t: 0
";

const MACHINE: &str = "\
/sys/devices/system/cpu/present:0-1
/sys/devices/system/cpu/online:0-1
==> /proc/self/mountinfo <==
1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
2 1 8:2 / /srv rw,relatime - ext4 /dev/sda2 ro
/sys/class/net/bond0/bonding/slaves:eth0 eth1
/sys/class/net/bond0/carrier:1
/sys/class/net/eth0/bonding_slave/mii_status:up
/sys/class/net/eth1/bonding_slave/mii_status:down
/sys/class/net/eth1/device/vendor:0x8086
/sys/class/net/eth1/carrier:1
";
