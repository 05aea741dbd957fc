#![no_main]

use hardware::{Report, Tool};

// The first byte says which parser reads the rest.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((first, output)) = input.split_first() else {
        return;
    };
    let tool = Tool::ALL[usize::from(*first) % Tool::ALL.len()];
    fuzz::bytes_within_limit(output, |output| {
        let report = tool.parse(output);
        let json = serde_json::to_string(&report).expect("a report is JSON");
        let read: Report = serde_json::from_str(&json).expect("its own JSON can be read back");
        assert_eq!(read.items.len(), report.items.len());
    });
});
