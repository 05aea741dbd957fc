//! What a person asks of hosts and of what they share.

use std::thread;
use std::time::Duration;

use protocol::api::{
    AgentAnswer, AgentDetail, AgentLease, CordonRequest, DeleteResourceRequest, DrainRequest,
    PutResourceRequest, Resource, RevokeAnswer, RevokeRequest, UncordonRequest,
};
use protocol::{AgentName, ResourceName};

use crate::args::{self, Asking, Cordon, Drain, Uncordon};
use crate::client::{Client, Target};
use crate::commands::get::resources_table;
use crate::commands::{agent_path, asking_user, look_again};
use crate::failure::Failure;
use crate::output::talk;
use crate::paint::in_tone;
use crate::progress::Progress;
use crate::text::count;

/// How often a drain looks whether anything runs there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Shards that are named before a drain.
const NAMED_MAX: usize = 5;

pub(crate) fn cordon(options: &Cordon) -> Result<(), Failure> {
    let request = CordonRequest {
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    let client = options.asking.target.find()?;
    let answer = client.post(&format!("{}/cordon", agent_path(&options.host)), &request)?;
    tell(&options.asking, &answer)
}

pub(crate) fn uncordon(options: &Uncordon) -> Result<(), Failure> {
    let request = UncordonRequest {
        by: Some(asking_user()),
    };
    let client = options.asking.target.find()?;
    let answer = client.post(&format!("{}/uncordon", agent_path(&options.host)), &request)?;
    tell(&options.asking, &answer)
}

pub(crate) fn drain(options: &Drain) -> Result<(), Failure> {
    let client = options.asking.target.find()?;
    if options.now {
        say_what_goes_to_a_person(&client, options)?;
    }
    let request = DrainRequest {
        now: options.now,
        by: Some(asking_user()),
        reason: options.reason.clone(),
    };
    let path = agent_path(&options.host);
    let mut answer: AgentAnswer = client.post(&format!("{path}/drain"), &request)?;
    if !options.no_wait {
        answer = wait_until_empty(&options.asking.target, &options.host, answer)?;
    }
    tell(&options.asking, &answer)
}

/// What is interrupted and may not run a second time unasked is a person's from then on.
fn say_what_goes_to_a_person(client: &Client, options: &Drain) -> Result<(), Failure> {
    let detail: AgentDetail = client.get(&agent_path(&options.host), &[])?;
    let leases = detail.leases.iter();
    let unsafe_ones: Vec<&AgentLease> = leases.filter(|lease| !lease.safe).collect();
    if unsafe_ones.is_empty() {
        return Ok(());
    }
    let mut named: Vec<String> = unsafe_ones
        .iter()
        .take(NAMED_MAX)
        .map(|lease| format!("shard {} of {} ({})", lease.shard, lease.run, lease.job))
        .collect();
    if let more @ 1.. = unsafe_ones.len().saturating_sub(NAMED_MAX) {
        named.push(format!("{more} more"));
    }
    let named = named.join(", ");
    let whose = "whose jobs do not declare a second run harmless";
    if options.force {
        talk(&format!(
            "interrupting {named}, {whose}: each needs a person's word afterwards"
        ));
        return Ok(());
    }
    Err(Failure::failed(
        format!("draining {} at once", options.host),
        format!("it runs {named}, {whose}: interrupted, each would wait for a person"),
        "leave --now out and wait for their end, or interrupt them all the same with --force",
    ))
}

/// The drain stands whatever becomes of the waiting.
fn wait_until_empty(
    target: &Target,
    host: &AgentName,
    mut answer: AgentAnswer,
) -> Result<AgentAnswer, Failure> {
    let mut progress = Progress::new();
    let mut missed = 0;
    while answer.leased > 0 {
        progress.show(&format!(
            "{host} is drained when {} more have ended; ^C stops waiting, not the drain",
            count(u64::from(answer.leased), "shard")
        ));
        thread::sleep(LOOK_AGAIN);
        let look = |client: &Client| client.get::<AgentDetail>(&agent_path(host), &[]);
        if let Some(detail) = look_again(target, &mut missed, look)? {
            answer = AgentAnswer {
                agent: detail.agent.agent,
                state: detail.agent.state,
                leased: detail.agent.leased,
            };
        }
        if answer.state == "ready" {
            return Err(Failure::failed(
                format!("waiting until nothing runs on {host}"),
                "somebody has given it work again meanwhile",
                format!("see who in `matins get audit`, and drain it again: matins drain {host}"),
            ));
        }
    }
    Ok(answer)
}

pub(crate) fn revoke(name: &AgentName, reason: String, asking: &Asking) -> Result<(), Failure> {
    let client = asking.target.find()?;
    let request = RevokeRequest {
        by: Some(asking_user()),
        reason,
    };
    let answer: RevokeAnswer = client.post(&format!("{}/revoke", agent_path(name)), &request)?;
    if !answer.known {
        talk(&format!(
            "no agent of this name has ever attached; see that {name} is spelt as its certificate \
             spells it"
        ));
    }
    asking
        .output
        .print(&answer, |_| format!("{name} revoked\n"))
}

pub(crate) fn resource(what: &args::Resource) -> Result<(), Failure> {
    match what {
        args::Resource::Set {
            name,
            capacity,
            asking,
        } => {
            let request = PutResourceRequest {
                capacity: *capacity,
                by: Some(asking_user()),
            };
            let client = asking.target.find()?;
            let answer: Resource = client.put(&resource_path(name), &request)?;
            show(asking, &answer)
        }
        args::Resource::Get { name, asking } => {
            let client = asking.target.find()?;
            let all: Vec<Resource> = client.list_all("/api/v1/resources", &[])?;
            let known: Vec<&str> = all.iter().map(|r| r.resource.as_str()).collect();
            match all
                .iter()
                .find(|resource| resource.resource == name.as_str())
            {
                Some(resource) => show(asking, resource),
                None => Err(Failure::failed(
                    format!("showing the resource {name}"),
                    match known.as_slice() {
                        [] => "there is none at all".to_owned(),
                        known => format!("there are only {}", known.join(", ")),
                    },
                    format!("make it with `matins resource set {name} CAPACITY`"),
                )),
            }
        }
        args::Resource::Delete { name, asking } => {
            let request = DeleteResourceRequest {
                by: Some(asking_user()),
            };
            let client = asking.target.find()?;
            client.delete(&resource_path(name), &request)?;
            let answer = serde_json::json!({"resource": name, "result": "deleted"});
            asking
                .output
                .print(&answer, |_| format!("{name} deleted\n"))
        }
    }
}

fn show(asking: &Asking, resource: &Resource) -> Result<(), Failure> {
    asking.output.print(resource, |room| {
        resources_table(std::slice::from_ref(resource), room)
    })
}

fn tell(asking: &Asking, answer: &AgentAnswer) -> Result<(), Failure> {
    asking.output.print(answer, |_| {
        let runs = match answer.leased {
            0 => "nothing runs there".to_owned(),
            n => format!("{} there yet", count(u64::from(n), "shard")),
        };
        let state = in_tone(&answer.state);
        format!("{} {state}, {runs}\n", answer.agent)
    })
}

fn resource_path(name: &ResourceName) -> String {
    format!("/api/v1/resources/{name}")
}
