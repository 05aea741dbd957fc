//! What an agent that runs nothing says of a host that there is none of: a profile of the size of a real
//! one, and beats with health and load, so that a benchmark of many agents has them too.

use std::sync::Arc;
use std::time::Duration;

use agent_core::agent::Occasion;
use profiles::changes::digest;
use protocol::host::{FACTS, Form, HostHealth, HostLoad, Value};
use protocol::{HostFacts, HostNow, HostProfile};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::looks::WrittenProfile;
use crate::run::Input;

/// Load is as new as that of a real host.
const LOAD_EVERY: Duration = Duration::from_secs(5);

/// Looks come with every so many loads.
const LOADS_PER_LOOK: u64 = 6;

/// Disks of the host: with them a profile has some 10 KiB, as a large one has.
const DRIVES: u64 = 24;

/// Tells of the host called `name` until nobody listens.
pub(crate) async fn run(name: String, inputs: mpsc::Sender<Input>) {
    let profile = profile(&name);
    let bytes = serde_json::to_vec(&profile).expect("texts and numbers are always JSON");
    let profile = WrittenProfile {
        digest: digest(&profile),
        bytes: Arc::from(bytes),
    };
    let occasion = Occasion::Look;
    let mut heard = inputs.send(Input::Profile { profile, occasion }).await;
    let mut told = 0;
    while heard.is_ok() {
        heard = inputs.send(Input::Host(host_now(told))).await;
        told += 1;
        sleep(LOAD_EVERY).await;
    }
}

fn host_now(told: u64) -> HostNow {
    HostNow {
        health: Some(HostHealth {
            look: told / LOADS_PER_LOOK + 1,
            health: "ok".to_owned(),
            reasons: Vec::new(),
            rebuilding: false,
        }),
        load: Some(HostLoad {
            cpu_used_milli: (told % 40) as u32 * 100,
            memory_available_bytes: (64 << 30) + (told << 20),
            cpu_pressure_milli: Some(1),
            memory_pressure_milli: Some(0),
            io_pressure_milli: Some(2),
        }),
        ..HostNow::default()
    }
}

fn profile(name: &str) -> HostProfile {
    let mut facts = HostFacts::default();
    for spec in FACTS {
        let value = match spec.form {
            Form::Truth => Value::Truth(false),
            Form::Number => Value::Number(1 << 33),
            Form::Text => Value::Text(format!("a text of {name}")),
            Form::Word(words) => Value::Text(words[0].to_owned()),
        };
        facts.know(spec.name, value);
    }
    let drive = |n: u64| {
        json!({
            "kind": "drive", "id": format!("/dev/sd{n}"), "health": "ok",
            "reason": "it says that it is well",
            "serial": format!("{name}-{n}"), "model": "a model of a vendor's", "medium": "ssd",
            "size_bytes": 960_197_124_096_u64, "wear_percent": 3, "spare_percent": 100,
            "media_errors": 0, "reallocated": 0, "predictive_failures": 0, "temperature_c": 31,
            "unknown": {"write_cache": "the drive does not tell", "power_loss_capacitor": "the drive does not tell"},
        })
    };
    let items: Vec<_> = (0..DRIVES).map(drive).collect();
    HostProfile {
        facts,
        report: json!({"items": items, "problems": []}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_profile_like_that_of_a_host() {
        let one = profile("h1");
        let bytes = serde_json::to_vec(&one).unwrap().len();
        assert!((8 << 10..32 << 10).contains(&bytes), "{bytes}");
        assert_ne!(digest(&one), digest(&profile("h2")));
        assert_ne!(host_now(0).load, host_now(1).load);
    }
}
