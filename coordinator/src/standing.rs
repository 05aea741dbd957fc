//! How this machine takes part in its group, and since when: what people, programs and the log are
//! told of it.
//!
//! Consensus knows who has the lead by the last word that arrived, however long ago; who is woken up
//! must not be told that for how things are. So it is looked at again and again who is heard, and
//! what is said holds by that alone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use protocol::api::ClusterStanding;
use protocol::{BootMs, DurationMs, Now, WallMs};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::read_now;
use crate::consensus::{Group, Progress};
use crate::roll::Roll;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Whoever waits to be added says so this often.
const SAY_EVERY: DurationMs = DurationMs::from_secs(60);

/// For so long may nobody be heard that leads before it is a matter for a person: an election takes
/// less.
const ELECTED_BY: DurationMs = DurationMs::from_secs(5);

/// Who the members are is read from the files only after the group has started, and until then it
/// looks as if there were none.
const READ_BY: DurationMs = DurationMs::from_secs(1);

/// Of one that has just been added it may seem for a moment as if it had been removed.
const REMOVED_BY: DurationMs = DurationMs::from_secs(2);

/// What is known of this machine's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) standing: ClusterStanding,
    pub(crate) since: WallMs,
    /// Until when this node had everything that was known to be committed.
    pub(crate) caught_up: BootMs,
    /// Who leads, or led when that was last known.
    pub(crate) last_leader: Option<u64>,
}

/// What the standing follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    place: Place,
    leads: bool,
    hears_leader: bool,
    quorum: bool,
}

/// Whether this node is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    NotYet,
    Member,
    NoMore,
}

impl Seen {
    fn standing(self) -> ClusterStanding {
        match (self.place, self.leads) {
            (Place::NotYet, _) => ClusterStanding::Waits,
            (Place::NoMore, _) => ClusterStanding::Removed,
            (Place::Member, true) if self.quorum => ClusterStanding::Leads,
            (Place::Member, true) => ClusterStanding::CutOff,
            (Place::Member, false) if self.hears_leader => ClusterStanding::Follows,
            (Place::Member, false) => ClusterStanding::Searches,
        }
    }
}

/// `removed`: for long enough to be believed.
fn see(group: &Group, begun: BootMs, removed: bool, now: Now) -> Seen {
    let leadership = *group.leadership().borrow();
    let roll = Roll::call(group, now);
    Seen {
        place: if roll.is_empty() && now.boot - begun >= READ_BY {
            Place::NotYet
        } else if removed {
            Place::NoMore
        } else {
            Place::Member
        },
        leads: leadership.leads,
        hears_leader: leadership.leader.is_some_and(|leader| roll.hears(leader)),
        quorum: roll.votes().decide(),
    }
}

/// Keeps looking, and tells the log of what changes, until the group is stopped.
pub(crate) async fn watch(group: Weak<Group>, say: watch::Sender<Stands>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = read_now().boot;
    let Some(mut leadership) = group.upgrade().map(|group| group.leadership()) else {
        return;
    };
    let mut told = Told::default();
    let mut progress = Progress::default();
    let mut removed_since = None;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            changed = leadership.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
        let Some(group) = group.upgrade() else {
            return;
        };
        let now = read_now();
        removed_since = match removed_since {
            _ if !group.is_removed() => None,
            since => since.or(Some(now.boot)),
        };
        let removed = removed_since.is_some_and(|since| now.boot - since >= REMOVED_BY);
        let standing = see(&group, begun, removed, now).standing();
        let latest = group.progress();
        let leader = group.leadership().borrow().leader;
        say.send_if_modified(|stands| {
            let before = *stands;
            if stands.standing != standing {
                stands.standing = standing;
                stands.since = now.wall;
            }
            // What was committed at the last look is applied by this one: it keeps up.
            if latest.applied >= progress.committed {
                stands.caught_up = now.boot;
            }
            stands.last_leader = leader.or(stands.last_leader);
            *stands != before
        });
        progress = latest;
        told.tell(&group, standing, leader, now);
    }
}

/// What stands before anybody has looked.
pub(crate) fn at_first(group: &Arc<Group>) -> Stands {
    let now = read_now();
    Stands {
        standing: see(group, now.boot, false, now).standing(),
        since: now.wall,
        caught_up: now.boot,
        last_leader: None,
    }
}

/// What the log was told last.
#[derive(Default)]
struct Told {
    last: Option<(ClusterStanding, BootMs)>,
    /// Since when nobody is heard that leads, and whether that was told.
    lonely: Option<(BootMs, bool)>,
}

impl Told {
    fn tell(&mut self, group: &Group, standing: ClusterStanding, leader: Option<u64>, now: Now) {
        let changed = self.last.is_none_or(|(last, _)| last != standing);
        let again = self.last.is_none_or(|(_, at)| now.boot - at >= SAY_EVERY);
        let (node, reached_at) = (group.node(), group.reached_at());
        if self.is_lonely_news(standing, now.boot) {
            tracing::warn!(
                node,
                "too few of those that vote are heard, or none that leads: nothing can be decided here"
            );
        }
        match standing {
            ClusterStanding::Searches | ClusterStanding::CutOff => return,
            ClusterStanding::Waits if changed || again => tracing::info!(
                node,
                address = reached_at,
                "waiting to be added to a group: `matins cluster add ADDRESS` where its coordinator runs"
            ),
            ClusterStanding::Removed if changed => tracing::warn!(
                node,
                "this machine was removed from its group and takes part in nothing: stop it and clear its data directory"
            ),
            ClusterStanding::Follows if changed => {
                tracing::info!(node, leader, "this machine follows who leads");
            }
            _ if changed => {}
            _ => return,
        }
        self.last = Some((standing, now.boot));
    }

    /// Whether nobody has been heard that leads for so long that it is to be told; once each time.
    fn is_lonely_news(&mut self, standing: ClusterStanding, now: BootMs) -> bool {
        if !matches!(
            standing,
            ClusterStanding::Searches | ClusterStanding::CutOff
        ) {
            self.lonely = None;
            return false;
        }
        let (since, told) = *self.lonely.get_or_insert((now, false));
        let news = !told && now - since >= ELECTED_BY;
        self.lonely = Some((since, told || news));
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nobody_leads_is_told_once_each_time() {
        let mut told = Told::default();
        let mut news = |standing, at: i64| told.is_lonely_news(standing, BootMs(at));
        let long = ELECTED_BY.0;
        for begun in [0, 10 * long] {
            assert!(!news(ClusterStanding::Searches, begun));
            assert!(!news(ClusterStanding::CutOff, begun + long - 1));
            assert!(news(ClusterStanding::Searches, begun + long));
            assert!(!news(ClusterStanding::Searches, begun + 2 * long));
            // As it stood before, and for a moment only.
            assert!(!news(ClusterStanding::Follows, begun + 3 * long));
            assert!(!news(ClusterStanding::Searches, begun + 4 * long));
            assert!(!news(ClusterStanding::Follows, begun + 4 * long + 1));
        }
    }

    #[test]
    fn what_is_said_goes_by_who_is_heard() {
        use ClusterStanding as Stands;
        let seen = |place, leads, hears_leader, quorum| Seen {
            place,
            leads,
            hears_leader,
            quorum,
        };
        for (seen, expected) in [
            (seen(Place::Member, false, true, true), Stands::Follows),
            // The witness is not heard: that is who leads' matter.
            (seen(Place::Member, false, true, false), Stands::Follows),
            (seen(Place::Member, false, false, true), Stands::Searches),
            (seen(Place::Member, true, false, true), Stands::Leads),
            (seen(Place::Member, true, false, false), Stands::CutOff),
            (seen(Place::NoMore, false, true, true), Stands::Removed),
            (seen(Place::NotYet, false, false, false), Stands::Waits),
        ] {
            assert_eq!(seen.standing(), expected, "{seen:?}");
        }
    }
}
