//! What is kept up step by step equals what is built afresh.

use ledger::WorkingSet;
use protocol::Rule;

use crate::world::World;

/// A core is about to begin with this set: the one that was followed must be the same.
pub fn on_load(world: &mut World, loaded: &WorkingSet) {
    let differs = first_difference(&world.truth.set, loaded);
    world.require(
        differs.is_none(),
        "P7",
        "the followed working set is the loaded one",
        || differs.unwrap_or_default(),
    );
}

pub fn compare(world: &mut World) {
    let loaded = world.store.working_set().expect("the ledger can be read");
    let differs = first_difference(&world.truth.set, &loaded);
    world.require(
        differs.is_none(),
        "P7",
        "the followed working set is the loaded one",
        || differs.unwrap_or_default(),
    );
    let now = world.coordinator_now();
    let cores = world.coordinators.values();
    let alone = cores.filter(|c| c.core.is_some()).count() == 1;
    let alone = alone && world.rules.on(Rule::GrantBeforeWord);
    let Some(leader) = world.leader().filter(|leader| !leader.stopped) else {
        return;
    };
    let Some(core) = &leader.core else {
        return;
    };
    let indexes = core.check_indexes(now).err();
    let core = if alone && !leader.lags() {
        // A core keeps what the versions say, and not their rows.
        let mut stored = world.truth.set.clone();
        let versions = std::mem::take(&mut stored.versions);
        let differs = first_difference(core.working_set(), &stored);
        differs.or_else(|| core.check_versions(&versions).err())
    } else {
        None
    };
    world.require(
        indexes.is_none(),
        "P7",
        "indexes kept up equal those built afresh",
        || indexes.unwrap_or_default(),
    );
    world.require(
        core.is_none(),
        "P7",
        "the core's working set is the ledger's",
        || core.unwrap_or_default(),
    );
}

fn first_difference(followed: &WorkingSet, loaded: &WorkingSet) -> Option<String> {
    if followed == loaded {
        return None;
    }
    macro_rules! differs {
        ($field:ident) => {
            for (key, row) in &followed.$field {
                if loaded.$field.get(key) != Some(row) {
                    return Some(format!(
                        "followed {row:?}, loaded {:?}",
                        loaded.$field.get(key)
                    ));
                }
            }
            for (key, row) in &loaded.$field {
                if !followed.$field.contains_key(key) {
                    return Some(format!("loaded {row:?}, not followed"));
                }
            }
        };
    }
    differs!(jobs);
    differs!(versions);
    differs!(runs);
    differs!(shards);
    differs!(agents);
    Some(format!(
        "followed epoch {:?}, loaded {:?}",
        followed.epoch, loaded.epoch
    ))
}
