#![no_main]

use hardware::{
    HEALTH_LOG_BYTES, IDENTIFY_BYTES, Report, Tool, parse_disk_counters, parse_mountinfo,
    parse_nvme_pages, parse_pressure, parse_smbios, parse_supplies,
};

// The first byte says which parser reads the rest.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((first, output)) = input.split_first() else {
        return;
    };
    let tools = Tool::ALL.len();
    let which = usize::from(*first) % (tools + 4);
    fuzz::bytes_within_limit(output, |output| {
        let text = String::from_utf8_lossy(output);
        match which.checked_sub(tools) {
            None => is_whole(&Tool::ALL[which].parse(output)),
            Some(0) => {
                let (_, problems) = parse_mountinfo(&text);
                is_whole(&Report {
                    items: Vec::new(),
                    problems,
                });
                parse_pressure(&text);
                parse_disk_counters(&text);
            }
            Some(1) => is_whole(&parse_smbios(output)),
            Some(2) => is_whole(&parse_supplies(&text)),
            Some(_) => {
                let log = output.first_chunk::<HEALTH_LOG_BYTES>();
                let rest = output.get(HEALTH_LOG_BYTES..).unwrap_or_default();
                let identify = rest.first_chunk::<IDENTIFY_BYTES>();
                is_whole(&Report {
                    items: vec![parse_nvme_pages("/dev/nvme0n1", identify, log)],
                    problems: Vec::new(),
                });
            }
        }
    });
});

fn is_whole(report: &Report) {
    let json = serde_json::to_string(report).expect("a report is JSON");
    let read: Report = serde_json::from_str(&json).expect("its own JSON can be read back");
    assert_eq!(read.items.len(), report.items.len());
}
