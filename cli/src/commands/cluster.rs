//! `matins cluster`: the machines that decide.

use protocol::WallMs;
use protocol::api::{
    AddMemberRequest, Cluster as Seen, ClusterAnswer, ClusterMember, ClusterStanding,
    RemoveMemberRequest, TransferRequest,
};

use crate::args::{Asking, Cluster};
use crate::clock;
use crate::commands::{asking_user, ca, join};
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
                by: Some(asking_user()),
            };
            change(asking, "add", &request, |node| {
                format!("node {node} is in the group and votes\n")
            })
        }
        Cluster::Remove { node, asking } => {
            let request = RemoveMemberRequest {
                node: *node,
                by: Some(asking_user()),
            };
            change(asking, "remove", &request, |node| {
                format!(
                    "node {node} is out of the group; never give its number to another machine\n"
                )
            })
        }
        Cluster::Transfer { to, asking } => {
            let request = TransferRequest {
                to: *to,
                by: Some(asking_user()),
            };
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
    let mut text = String::new();
    for line in wrap_prose(&lead(seen, now), 80) {
        text.push_str(&line);
        text.push('\n');
    }
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
    if !seen.members.is_empty() {
        text.push('\n');
        text.push_str(&table.render_in(room));
    }
    let Outlook { means, next } = outlook(seen);
    let troubles = seen.members.iter().filter_map(|member| {
        let trouble = member.trouble.as_ref()?;
        let stands = if member.reached {
            "has trouble"
        } else {
            "is not spoken to"
        };
        Some(format!("Node {} {stands}: {trouble}", member.node))
    });
    let turned_away = seen.turned_away.iter().map(|stranger| {
        let (who, why) = (&stranger.who, &stranger.why);
        let times = match stranger.times {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        format!("Turned away {times}: {who}: {why}")
    });
    let next = next.map(|next| format!("Next: {next}"));
    let full = seen.members.iter().filter_map(|member| {
        let mebibytes = member.spare_bytes? >> 20;
        Some(format!(
            "The ledger's disk of {} has {mebibytes} MiB left; when it is full that machine ends: \
             make room.",
            named(seen, member.node)
        ))
    });
    let address = seen.address_trouble.as_ref().map(|trouble| {
        let own = named(seen, seen.node);
        format!("The leader's address cannot be on {own}: {trouble}.")
    });
    let ending = seen.members.iter().filter_map(|member| {
        let until = member.certificate_until?.to_rfc3339();
        let who = named(seen, member.node);
        Some(format!(
            "The certificate of {who} ends at {until}, and its connections with it; the log of that \
             machine says why it is not renewed."
        ))
    });
    let not_renewed = seen.certificate_trouble.as_ref().map(|why| {
        let own = named(seen, seen.node);
        format!("The certificate of {own} is not renewed: {why}. It is tried again.")
    });
    let troubles = troubles.chain(full).chain(address);
    let troubles = troubles.chain(ending).chain(not_renewed);
    let troubles = troubles.chain(older_than_others(seen));
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

/// By who is heard: that somebody has the lead by the last word that arrived says nothing of now.
fn lead(seen: &Seen, now: WallMs) -> String {
    let since = clock::to_the_second(seen.since);
    let lasted = format!(
        "for {} (since {})",
        clock::to_the_second(now) - since,
        since.to_rfc3339()
    );
    let own = named(seen, seen.node);
    match (seen.standing, seen.leader) {
        (ClusterStanding::Waits, _) => {
            format!("Node {} is in no group yet, {lasted}.", seen.node)
        }
        (ClusterStanding::Removed, _) => {
            format!("{own} is no member of its group any more, {lasted}.")
        }
        (_, Some(leader)) if leader == seen.node => format!("{own} leads, {lasted}."),
        (_, Some(leader)) => format!(
            "{} leads, as {own} sees it, which has followed {lasted}.",
            named(seen, leader)
        ),
        (ClusterStanding::CutOff, None) => format!(
            "Nobody can decide: {own} has the lead, and too few of the others hear it, {lasted}."
        ),
        (_, None) => {
            let last = seen.last_leader.filter(|&last| last != seen.node);
            let last = last.map_or_else(String::new, |last| {
                format!(" {} led last.", named(seen, last))
            });
            format!("{own} hears nobody who leads, {lasted}.{last}")
        }
    }
}

fn named(seen: &Seen, node: u64) -> String {
    let known = seen.members.iter().find(|member| member.node == node);
    match known {
        Some(member) if !member.name.is_empty() => format!("{} (node {node})", member.name),
        _ => format!("node {node}"),
    }
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
        // What others lack who were not heard is not known to be so any more.
        _ if !member.reached || seen.standing == ClusterStanding::Removed => "?".to_owned(),
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

/// An upgrade that is under way, or was left half way.
fn older_than_others(seen: &Seen) -> Option<String> {
    let newest = seen.members.iter().map(|member| member.speaks).max()?;
    let older = seen.members.iter().filter(|member| member.speaks < newest);
    let older: Vec<String> = older.map(|member| named(seen, member.node)).collect();
    (!older.is_empty()).then(|| {
        format!(
            "Of an older version than the others: {}. What only the newer one knows is refused until \
             all are upgraded.",
            older.join(", ")
        )
    })
}

struct Outlook {
    means: String,
    next: Option<String>,
}

/// What the loss of one more machine would mean, and what to do about it.
fn outlook(seen: &Seen) -> Outlook {
    let told = |means: &str, next: String| Outlook {
        means: means.to_owned(),
        next: Some(next),
    };
    match seen.standing {
        ClusterStanding::Waits if seen.reached_at.is_empty() => told(
            "It waits to be added, and does not know where others reach it.",
            "start it again with `--advertise HOST`, its name or address for the others".to_owned(),
        ),
        ClusterStanding::Waits => told(
            "It waits to be added.",
            format!(
                "`matins cluster add {}`, where the coordinator runs that leads",
                seen.reached_at
            ),
        ),
        ClusterStanding::Removed => told(
            "It decides nothing, and takes over for nobody. The others are shown as it knew them.",
            "stop it and clear its data directory; to add the machine again, give it a \
             certificate with a new number"
                .to_owned(),
        ),
        _ if !seen.quorum => without_quorum(seen),
        _ if seen.leader.is_none() => told(
            "Enough of those that vote are heard: one of them is about to be elected.",
            "look again in some seconds; where it stays so, ask the other coordinator".to_owned(),
        ),
        _ => with_quorum(seen),
    }
}

/// Nothing that is asked of the group can be done, so nothing is named that would have to be.
fn without_quorum(seen: &Seen) -> Outlook {
    let voters: Vec<&ClusterMember> = seen.members.iter().filter(|m| m.votes).collect();
    let needed = voters.len() / 2 + 1;
    let (reached, lost): (Vec<&ClusterMember>, Vec<&ClusterMember>) =
        voters.iter().partition(|member| member.reached);
    let names = |members: &[&ClusterMember], word: &str| {
        let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
        names.join(word)
    };
    let missing = needed.saturating_sub(reached.len()).max(1);
    let start = match lost.len() {
        all if all <= missing => format!("start {} again", names(&lost, " and ")),
        _ if missing == 1 => format!(
            "start {} again: one of them is enough",
            names(&lost, " or ")
        ),
        _ => format!("start {missing} again of {}", names(&lost, ", ")),
    };
    Outlook {
        means: format!(
            "Nothing can be decided now: of {} voters {} heard from here ({}), and {needed} are \
             needed. Nothing fires and nothing is granted; what runs goes on until its leases end.",
            voters.len(),
            match reached.len() {
                1 => "1 is".to_owned(),
                heard => format!("{heard} are"),
            },
            names(&reached, ", "),
        ),
        next: Some(format!(
            "{start}, or see to the network between. `remove` cannot be decided either: where too \
             many disks are gone for good, `matins backup --data DIR --to FILE` on a machine that \
             is left, and then `matins restore`"
        )),
    }
}

fn with_quorum(seen: &Seen) -> Outlook {
    let voters: Vec<&ClusterMember> = seen.members.iter().filter(|m| m.votes).collect();
    // Only what is given to a member is safe there.
    let serves = |member: &ClusterMember| member.reached && member.trouble.is_none();
    let reached = voters.iter().filter(|member| serves(member)).count();
    let needed = voters.len() / 2 + 1;
    let again = |lost: &ClusterMember| {
        let name = &lost.name;
        let mend = match (lost.reached, &lost.trouble) {
            (true, _) => format!("mend what is said of {name} above"),
            (false, Some(_)) => format!("start {name} again, or mend what is said of it above"),
            (false, None) => format!("start {name} again"),
        };
        format!(
            "{mend}; if it is gone for good, `matins cluster remove {}`, and add a new machine \
             under a new number",
            lost.node
        )
    };
    let lost = voters.iter().find(|member| !serves(member));
    let lost = lost.map(|lost| again(lost));
    let coming = seen.members.iter().find(|member| !member.votes);
    let told = |means: &str, next: Option<String>| Outlook {
        means: means.to_owned(),
        next,
    };
    if let Some(coming) = coming.filter(|_| lost.is_none()) {
        let means = format!(
            "{} follows without a vote until it has caught up.",
            coming.name
        );
        let next = if coming.reached {
            format!("`matins cluster add {}` once more", coming.peers)
        } else {
            again(coming)
        };
        told(&means, Some(next))
    } else if voters.len() == 1 {
        told(
            "One machine holds everything: while it is down nothing fires, and with its disk all is \
             lost that no backup has.",
            Some(
                "start `matins coordinator --join` on another machine, then `matins cluster add \
                 HOST:7410`"
                    .to_owned(),
            ),
        )
    } else if voters.len() == 2 {
        let third = if voters.iter().any(|voter| voter.role == "witness") {
            "coordinator --join"
        } else {
            "witness"
        };
        let next = format!(
            "start `matins {third}` on a third machine, then `matins cluster add HOST:7410`"
        );
        told(
            "Two voters need each other: while either is down nothing fires.",
            Some(next),
        )
    } else if reached <= needed {
        told(
            "If one more machine is lost, nothing fires until one is back.",
            lost,
        )
    } else {
        told("Any one machine may be lost; the others go on.", lost)
    }
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
            spare_bytes: None,
            certificate_until: None,
            trouble: None,
        }
    }

    /// As node 1 sees it, which leads wherever enough are heard.
    fn seen(members: Vec<ClusterMember>) -> Seen {
        let voters = members.iter().filter(|member| member.votes);
        let heard = voters.clone().filter(|member| member.reached).count();
        let quorum = heard > voters.count() / 2;
        Seen {
            node: 1,
            reached_at: "c1.example:7410".to_owned(),
            standing: if quorum {
                ClusterStanding::Leads
            } else {
                ClusterStanding::CutOff
            },
            since: WallMs(0),
            quorum,
            term: 7,
            leader: quorum.then_some(1),
            last_leader: Some(1),
            epoch: None,
            members,
            address_trouble: None,
            certificate_trouble: None,
            turned_away: Vec::new(),
        }
    }

    fn check(seen: &Seen, lead: &str, means: &str, next: &str) {
        let text = status(seen, WallMs(1000), Room::Columns80);
        let told = outlook(seen);
        assert!(super::lead(seen, WallMs(1000)).contains(lead), "{text}");
        assert!(told.means.contains(means), "{text}");
        if next.is_empty() {
            assert_eq!(told.next, None, "{text}");
        } else {
            assert!(told.next.unwrap_or_default().contains(next), "{text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn what_one_more_loss_means_is_said_with_the_next_command() {
        for (members, means, next) in [
            (
                vec![member(1, true, true)],
                "One machine holds everything",
                "--join",
            ),
            (
                vec![member(1, true, true), member(2, true, true)],
                "Two voters need each other",
                "matins witness",
            ),
            (
                vec![member(1, true, true), member(3, true, true)],
                "Two voters need each other",
                "matins coordinator --join",
            ),
            (
                vec![member(1, true, true), member(2, true, false)],
                "without a vote",
                "matins cluster add c2.example:7410",
            ),
            // It could not be met there.
            (
                vec![member(1, true, true), member(2, false, false)],
                "without a vote",
                "start c2 again",
            ),
            (
                vec![
                    member(1, true, true),
                    member(2, true, true),
                    member(3, true, true),
                ],
                "Any one machine may be lost",
                "",
            ),
            (
                vec![
                    member(1, true, true),
                    member(2, false, true),
                    member(3, true, true),
                ],
                "If one more machine is lost",
                "start c2 again",
            ),
        ] {
            check(&seen(members), "c1 (node 1) leads", means, next);
        }
    }

    #[test]
    fn without_a_quorum_nobody_leads_and_nothing_is_advised_that_would_be_refused() {
        for (members, means, next) in [
            (
                vec![
                    member(1, true, true),
                    member(2, false, true),
                    member(3, false, true),
                ],
                "of 3 voters 1 is heard from here (c1), and 2 are needed",
                "start c2 or c3 again: one of them is enough",
            ),
            (
                vec![member(1, true, true), member(2, false, true)],
                "of 2 voters 1 is heard from here (c1), and 2 are needed",
                "start c2 again",
            ),
        ] {
            let seen = seen(members);
            check(&seen, "Nobody can decide: c1 (node 1)", means, next);
            let next = outlook(&seen).next.unwrap();
            assert!(!next.contains("matins cluster"), "{next}");
            assert!(next.contains("matins restore"), "{next}");
        }
    }

    #[test]
    fn whoever_does_not_lead_says_how_it_stands_itself() {
        let three = || {
            vec![
                member(1, true, true),
                member(2, true, true),
                member(3, true, true),
            ]
        };
        let at = |standing, leader, members| Seen {
            standing,
            leader,
            last_leader: Some(2),
            ..seen(members)
        };
        for (seen, lead, means, next) in [
            (
                at(ClusterStanding::Follows, Some(2), three()),
                "c2 (node 2) leads, as c1 (node 1) sees it, which has followed for 1s",
                "Any one machine may be lost",
                "",
            ),
            (
                at(ClusterStanding::Searches, None, three()),
                "c1 (node 1) hears nobody who leads, for 1s (since 1970-01-01T00:00:00Z). c2 (node 2) led last.",
                "about to be elected",
                "look again",
            ),
            (
                at(ClusterStanding::Waits, None, Vec::new()),
                "Node 1 is in no group yet",
                "waits to be added",
                "matins cluster add c1.example:7410",
            ),
            (
                at(ClusterStanding::Removed, None, three()),
                "c1 (node 1) is no member of its group any more",
                "takes over for nobody",
                "a certificate with a new number",
            ),
        ] {
            check(&seen, lead, means, next);
        }
    }

    #[test]
    fn what_is_about_to_go_wrong_is_said() {
        let mut seen = seen(vec![member(1, true, true), member(2, true, true)]);
        seen.members[1].spare_bytes = Some(512 << 20);
        seen.address_trouble = Some("eth0 has no carrier".to_owned());
        seen.members[1].certificate_until = Some(WallMs(3_000));
        seen.certificate_trouble = Some("no member has the key".to_owned());
        check(&seen, "c1 (node 1) leads", "Two voters", "matins witness");
        let text = status(&seen, WallMs(1000), Room::Columns80);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("disk of c2 (node 2) has 512 MiB left"),
            "{text}"
        );
        assert!(
            text.contains("cannot be on c1 (node 1): eth0 has no carrier."),
            "{text}"
        );
        assert!(
            text.contains("The certificate of c2 (node 2) ends at 1970-01-01T00:00:03Z, and"),
            "{text}"
        );
        assert!(
            text.contains("of c1 (node 1) is not renewed: no member has the key."),
            "{text}"
        );
    }

    #[test]
    fn a_member_that_takes_nothing_is_not_counted_on() {
        for (reached, next) in [
            (
                true,
                "mend what is said of c3 above; if it is gone for good",
            ),
            (false, "start c3 again, or mend what is said of it above"),
        ] {
            let mut seen = seen(vec![
                member(1, true, true),
                member(2, true, true),
                member(3, reached, true),
            ]);
            seen.members[2].trouble = Some("it cannot use what it is sent".to_owned());
            check(&seen, "c1 (node 1) leads", "If one more machine", next);
        }
    }

    #[test]
    fn a_group_of_two_versions_says_who_is_to_be_upgraded() {
        let mut seen = seen((1..=3).map(|node| member(node, true, true)).collect());
        assert_eq!(older_than_others(&seen), None);
        seen.members[1].speaks = 2;
        let told = older_than_others(&seen).unwrap();
        assert!(told.contains("c1 (node 1), c3 (node 3)."), "{told}");
        check(&seen, "c1 (node 1) leads", "Any one machine", "");
        assert!(status(&seen, WallMs(0), Room::Columns80).contains(&told[..30]));
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
        // What it lacked when it was last heard.
        assert!(!text.contains("1234"), "{text}");
    }
}
