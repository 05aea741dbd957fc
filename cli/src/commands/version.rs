//! `matins version`: of this program, and of the coordinator it talks to.

use protocol::api::Status;
use serde_json::{Value, json};

use crate::args::Version;
use crate::failure::Failure;

const OWN: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn version(options: &Version) -> Result<(), Failure> {
    let output = options.asking.output;
    let asked = options.asking.target.find().and_then(|client| {
        let status: Status = client.get("/api/v1/status", &[])?;
        Ok((client.url(), status))
    });
    let page = match asked {
        Ok((url, status)) => {
            let data = data(&json!({"url": url, "status": status}));
            output.page(&data, |_| both(&url, &status))
        }
        Err(Failure::Told(told)) => {
            let page = output.page(&data(&Value::Null), |_| own());
            page.saying(output, format!("no coordinator: {}", told.why))
        }
        Err(failure) => return Err(failure),
    };
    page.print()
}

fn data(coordinator: &Value) -> Value {
    json!({
        "version": OWN,
        "tzdata": jobs::tzdata_version(),
        "coordinator": coordinator,
    })
}

fn own() -> String {
    format!("matins {OWN}, tzdata {}\n", jobs::tzdata_version())
}

fn both(url: &str, status: &Status) -> String {
    let leads = match status.epoch {
        Some(epoch) => format!("leads ({epoch})"),
        None => "does not lead".to_owned(),
    };
    let differs = if status.version == OWN && status.tzdata == jobs::tzdata_version() {
        ""
    } else {
        "the two differ: what this program computes itself (`next`, `apply --dry-run`) may not \
         be\nwhat the coordinator does\n"
    };
    let says = status.clock_says.as_ref();
    let says = says.map_or_else(String::new, |says| format!(": {says}"));
    format!(
        "{}coordinator {} on {} at {url}, tzdata {}\n{leads}, clock: {}{says}\n{differs}",
        own(),
        status.version,
        status.node,
        status.tzdata,
        status.clock.replace('_', " ")
    )
}
