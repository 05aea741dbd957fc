use protocol::ResourceName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::Done;
use crate::rows::ResourceRow;
use crate::tables::record::{Audit, On};

/// Makes a resource, or says how much of it there is.
///
/// Less than is in use takes nothing away from anybody: no more is given until what is held fits
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutResource {
    pub name: ResourceName,
    pub capacity: u32,
    pub by: String,
}

impl PutResource {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let known = context.resource(&self.name)?;
        let in_use = known.as_ref().map_or(0, |known| known.in_use);
        let changed = known.is_none_or(|known| known.capacity != self.capacity);
        if changed {
            context.write_resource(&ResourceRow {
                name: self.name.clone(),
                capacity: self.capacity,
                in_use,
            })?;
            context.audit(Audit {
                by: clip(&self.by),
                action: "put resource",
                on: On::All,
                reason: Some(&format!("{}: {}", self.name.as_str(), self.capacity)),
            })?;
        }
        Ok(Done::ResourcePut { in_use })
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::Grant;
    use crate::outcome::Refusal;
    use crate::testing::{Bed, attach, end, finish};

    const USES: &str = "shards: 4\nneeds: { uses: { db: 2 } }";

    fn put(capacity: u32) -> PutResource {
        PutResource {
            name: "db".parse().unwrap(),
            capacity,
            by: "ada".to_owned(),
        }
    }

    #[test]
    fn it_is_counted_by_what_is_leased_and_no_more_is_given_than_there_is() {
        let mut bed = Bed::new();
        bed.ok(put(5));
        let job = bed.job(USES);
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        let grant = |shard| Grant {
            run_id,
            shard,
            session,
            uses: vec![("db".parse().unwrap(), 2)],
        };
        bed.ok(grant(0));
        let token = bed.set.shards[&(run_id, 0)].state.lease().unwrap().token;
        bed.ok(grant(1));
        let refused = bed.refused(grant(2));
        let expected = Refusal::Exhausted {
            resource: "db".parse().unwrap(),
            wanted: 2,
            in_use: 4,
            capacity: 5,
        };
        assert_eq!(refused, expected);
        // Every end gives back, a failure too.
        bed.ok(finish(agent_id, token, end(AttemptOutcome::Failed)));
        assert_eq!(bed.view("SELECT * FROM resource_view"), ["db|5|2"]);
        bed.ok(grant(2));
        // Less than is held takes nothing away.
        assert_eq!(bed.ok(put(1)), Done::ResourcePut { in_use: 4 });
        assert!(matches!(
            bed.refused(grant(3)),
            Refusal::Exhausted { capacity: 1, .. }
        ));
        assert_eq!(
            bed.view("SELECT by, action, reason FROM audit_view WHERE action = 'put resource'"),
            ["ada|put resource|db: 5", "ada|put resource|db: 1"]
        );
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let mut bed = Bed::new();
        bed.ok(put(5));
        bed.ok(put(5));
        assert_eq!(bed.view("SELECT count(*) FROM audit_view"), ["1"]);
    }
}
