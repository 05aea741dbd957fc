use protocol::ResourceName;
use serde::{Deserialize, Serialize};

use crate::apply::{Context, Stop, clip};
use crate::outcome::{Done, Refusal};
use crate::tables::record::{Audit, On};

/// Forgets a resource. Refused while a job in force uses it, or a shard holds some of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteResource {
    pub name: ResourceName,
    pub by: String,
}

impl DeleteResource {
    pub(crate) fn apply(&self, context: &mut Context<'_>) -> Result<Done, Stop> {
        let resource = self.name.clone();
        let Some(known) = context.resource(&self.name)? else {
            return Err(Refusal::NoSuchResource { resource }.into());
        };
        if let Some(job) = context.user_of(&self.name)? {
            let job = job.to_string();
            return Err(Refusal::ResourceUsed { resource, job }.into());
        }
        if known.in_use > 0 {
            let in_use = known.in_use;
            return Err(Refusal::ResourceHeld { resource, in_use }.into());
        }
        context.delete_resource(&self.name)?;
        context.audit(Audit {
            by: clip(&self.by),
            action: "delete resource",
            on: On::All,
            reason: Some(self.name.as_str()),
        })?;
        Ok(Done::ResourceDeleted)
    }
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::command::{Grant, PutJob, PutResource};
    use crate::testing::{self, Bed, attach, end, finish};

    fn delete(name: &str) -> DeleteResource {
        DeleteResource {
            name: name.parse().unwrap(),
            by: "ada".to_owned(),
        }
    }

    fn put(yaml: &str) -> PutJob {
        testing::put("team/job", yaml)
    }

    #[test]
    fn what_is_used_or_held_stays() {
        let mut bed = Bed::new();
        assert!(matches!(
            bed.refused(put("needs: { uses: { db: 1 } }")),
            Refusal::UnknownResource { .. }
        ));
        bed.ok(PutResource {
            name: "db".parse().unwrap(),
            capacity: 2,
            by: "ada".to_owned(),
        });
        assert!(matches!(
            bed.refused(put("needs: { uses: { db: 3 } }")),
            Refusal::BeyondCapacity { .. }
        ));
        let job = bed.job("needs: { uses: { db: 1 } }");
        assert!(matches!(
            bed.refused(delete("db")),
            Refusal::ResourceUsed { .. }
        ));
        let (agent_id, session) = bed.attach(attach("h1"));
        let (run_id, _) = bed.fire(job, 1);
        bed.ok(Grant {
            run_id,
            shard: 0,
            session,
            uses: vec![("db".parse().unwrap(), 1)],
        });
        let token = bed.set.shards[&(run_id, 0)].state.lease().unwrap().token;
        let settle = crate::command::Settlement {
            version: 1,
            from: bed.set.jobs[&job].fired_through,
            decisions: Vec::new(),
        };
        bed.ok(PutJob {
            settle: Some(settle),
            ..put("")
        });
        assert!(matches!(
            bed.refused(delete("db")),
            Refusal::ResourceHeld { in_use: 1, .. }
        ));
        bed.ok(finish(agent_id, token, end(AttemptOutcome::Succeeded)));
        assert_eq!(bed.ok(delete("db")), Done::ResourceDeleted);
        assert!(matches!(
            bed.refused(delete("db")),
            Refusal::NoSuchResource { .. }
        ));
    }
}
