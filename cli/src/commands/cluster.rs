//! `matins cluster`: the machines that decide.

use protocol::WallMs;
use protocol::api::{
    AddMemberRequest, Cluster as Seen, ClusterAnswer, ClusterMember, RemoveMemberRequest,
    TransferRequest,
};

use crate::args::{Asking, Cluster};
use crate::clock;
use crate::commands::{ca, join};
use crate::failure::Failure;
use crate::output::Room;
use crate::text::{Table, wrap_prose};

const PATH: &str = "/api/v1/cluster";

pub(crate) fn cluster(what: &Cluster) -> Result<(), Failure> {
    match what {
        Cluster::Init {
            cluster,
            name,
            identity,
        } => ca::init(cluster, name, identity),
        Cluster::Join(joining) => join::join(joining),
        Cluster::Status { asking } => {
            let seen: Seen = asking.target.find()?.get(PATH, &[])?;
            asking
                .output
                .print(&seen, |room| status(&seen, clock::now(), room))
        }
        Cluster::Add { address, asking } => {
            let request = AddMemberRequest {
                address: address.clone(),
            };
            change(asking, "add", &request, |node| {
                format!("node {node} is in the group and votes\n")
            })
        }
        Cluster::Remove { node, asking } => {
            let request = RemoveMemberRequest { node: *node };
            change(asking, "remove", &request, |node| {
                format!(
                    "node {node} is out of the group; never give its number to another machine\n"
                )
            })
        }
        Cluster::Transfer { to, asking } => {
            let request = TransferRequest { to: *to };
            change(asking, "transfer", &request, |node| {
                format!("node {node} leads\n")
            })
        }
    }
}

fn change(
    asking: &Asking,
    verb: &str,
    request: &impl serde::Serialize,
    says: impl Fn(u64) -> String,
) -> Result<(), Failure> {
    let path = format!("{PATH}/{verb}");
    let answer: ClusterAnswer = asking.target.find()?.post(&path, request)?;
    asking.output.print(&answer, |_| says(answer.node))
}

/// What somebody must know who was woken up: who leads, whom to miss, and what to do.
fn status(seen: &Seen, now: WallMs, room: Room) -> String {
    let mut text = format!("{}\n\n", lead(seen, now));
    let mut table = Table::new(&["NODE", "~NAME", "ROLE", "VOTE", "HEARD", "BEHIND", "CLOCK"]);
    for member in &seen.members {
        table.row(vec![
            member.node.to_string(),
            member.name.clone(),
            member.role.clone(),
            if member.votes { "yes" } else { "no" }.to_owned(),
            heard(seen, member),
            behind(seen, member),
            clock_of(seen, member),
        ]);
    }
    text.push_str(&table.render_in(room));
    let Outlook { means, next } = outlook(seen);
    let troubles = seen.members.iter().filter_map(|member| {
        let trouble = member.trouble.as_ref()?;
        Some(format!("Node {} is not spoken to: {trouble}", member.node))
    });
    let turned_away = seen.turned_away.iter().map(|stranger| {
        let (who, why) = (&stranger.who, &stranger.why);
        format!("Turned away {} times: {who}: {why}", stranger.times)
    });
    let next = next.map(|next| format!("Next: {next}"));
    let told = troubles.chain(turned_away).chain([means]).chain(next);
    for told in told {
        text.push('\n');
        for line in wrap_prose(&told, 80) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

fn lead(seen: &Seen, now: WallMs) -> String {
    let Some(leader) = seen.leader else {
        return "Nobody leads: nothing fires and nothing is granted.".to_owned();
    };
    let members = &seen.members;
    let name = members
        .iter()
        .find(|member| member.node == leader)
        .map_or("?", |member| member.name.as_str());
    let since = seen.since.map_or_else(String::new, |since| {
        let lasted = clock::to_the_second(now) - clock::to_the_second(since);
        format!(
            ", for {lasted} (since {})",
            clock::to_the_second(since).to_rfc3339()
        )
    });
    let by = if leader == seen.node {
        String::new()
    } else {
        format!(", as node {} sees it", seen.node)
    };
    format!("{name} (node {leader}) leads{since}{by}.")
}

fn heard(seen: &Seen, member: &ClusterMember) -> String {
    match member.heard_ms_ago {
        _ if member.node == seen.node => "itself".to_owned(),
        _ if member.reached => "now".to_owned(),
        None => "never".to_owned(),
        Some(ago) => format!("{} s ago", ago / 1000),
    }
}

fn behind(seen: &Seen, member: &ClusterMember) -> String {
    match member.behind {
        _ if Some(member.node) == seen.leader => "-".to_owned(),
        Some(0) => "no".to_owned(),
        Some(entries) => entries.to_string(),
        None => "?".to_owned(),
    }
}

fn clock_of(seen: &Seen, member: &ClusterMember) -> String {
    if member.node == seen.node {
        return "-".to_owned();
    }
    match (member.clock_ahead_ms, member.clock_steady) {
        (Some(_), Some(false)) => "was set".to_owned(),
        (Some(ahead), _) => format!("{ahead:+} ms"),
        (None, _) => "?".to_owned(),
    }
}

struct Outlook {
    means: String,
    next: Option<String>,
}

/// What the loss of one more machine would mean, and what to do about it.
fn outlook(seen: &Seen) -> Outlook {
    let voters: Vec<&ClusterMember> = seen.members.iter().filter(|m| m.votes).collect();
    let reached = voters.iter().filter(|member| member.reached).count();
    let needed = voters.len() / 2 + 1;
    let lost = voters.iter().find(|member| !member.reached);
    let bring_back = lost.map(|lost| {
        format!(
            "start {} again; if it is gone for good, `matins cluster remove {}`, and \
             add a new machine under a new number",
            lost.name, lost.node
        )
    });
    let coming = seen.members.iter().find(|member| !member.votes);
    let (means, next) = if seen.leader.is_none() || reached < needed {
        let means = format!(
            "{reached} of {} voters are reached from here, and {needed} are needed. What runs \
             goes on until its leases end.",
            voters.len()
        );
        (means, bring_back)
    } else if let Some(coming) = coming {
        let means = format!(
            "{} follows without a vote until it has caught up.",
            coming.name
        );
        (
            means,
            Some(format!("`matins cluster add {}` once more", coming.peers)),
        )
    } else if voters.len() == 1 {
        let means = "One machine holds everything: while it is down nothing fires, and with its \
                     disk all is lost that no backup has.";
        let next = "start `matins coordinator --join` on another machine, then `matins cluster \
                    add HOST:7410`";
        (means.to_owned(), Some(next.to_owned()))
    } else if voters.len() == 2 {
        let means = "Two voters need each other: while either is down nothing fires.";
        let next = "start `matins witness` on a third machine, then `matins cluster add HOST:7410`";
        (means.to_owned(), Some(next.to_owned()))
    } else if reached == needed {
        let means = "If one more machine is lost, nothing fires until one is back.";
        (means.to_owned(), bring_back)
    } else {
        (
            "Any one machine may be lost; the others go on.".to_owned(),
            None,
        )
    };
    Outlook { means, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u64, reached: bool, votes: bool) -> ClusterMember {
        ClusterMember {
            node,
            name: format!("c{node}"),
            role: if node == 3 { "witness" } else { "coordinator" }.to_owned(),
            votes,
            peers: format!("c{node}.example:7410"),
            agents: String::new(),
            api: String::new(),
            reached,
            heard_ms_ago: (node > 1).then_some(if reached { 40 } else { 95_000 }),
            behind: (node > 1).then_some(if reached { 0 } else { 1234 }),
            clock_ahead_ms: (node > 1).then_some(-3),
            clock_unsure_ms: (node > 1).then_some(1),
            clock_steady: (node > 1).then_some(true),
            speaks: 1,
            trouble: None,
        }
    }

    fn seen(members: Vec<ClusterMember>) -> Seen {
        Seen {
            node: 1,
            term: 7,
            leader: Some(1),
            epoch: None,
            since: Some(WallMs(0)),
            members,
            turned_away: Vec::new(),
        }
    }

    #[test]
    fn what_one_more_loss_means_is_said_with_the_next_command() {
        for (members, leader, means, next) in [
            (
                vec![member(1, true, true)],
                Some(1),
                "One machine holds everything",
                "--join",
            ),
            (
                vec![member(1, true, true), member(2, true, true)],
                Some(1),
                "Two voters need each other",
                "matins witness",
            ),
            (
                vec![member(1, true, true), member(2, true, false)],
                Some(1),
                "without a vote",
                "matins cluster add c2.example:7410",
            ),
            (
                vec![
                    member(1, true, true),
                    member(2, true, true),
                    member(3, true, true),
                ],
                Some(1),
                "Any one machine may be lost",
                "",
            ),
            (
                vec![
                    member(1, true, true),
                    member(2, false, true),
                    member(3, true, true),
                ],
                Some(1),
                "If one more machine is lost",
                "start c2 again",
            ),
            (
                vec![
                    member(1, true, true),
                    member(2, false, true),
                    member(3, false, true),
                ],
                None,
                "1 of 3 voters are reached",
                "matins cluster remove 2",
            ),
        ] {
            let seen = Seen {
                leader,
                ..seen(members)
            };
            let told = outlook(&seen);
            assert!(told.means.contains(means), "{}", told.means);
            assert!(told.next.unwrap_or_default().contains(next));
            for line in status(&seen, WallMs(1000), Room::Columns80).lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn the_status_at_a_glance() {
        let members = vec![
            member(1, true, true),
            member(2, false, true),
            member(3, true, true),
        ];
        let text = status(&seen(members), WallMs(61_000), Room::Columns80);
        assert!(
            text.starts_with("c1 (node 1) leads, for 1m1s (since 1970-01-01T00:00:00Z).\n"),
            "{text}"
        );
        assert!(text.contains("95 s ago"), "{text}");
        assert!(text.contains("1234"), "{text}");
    }
}
