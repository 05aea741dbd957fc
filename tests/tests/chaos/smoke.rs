//! A little of everything that the long trials do at length.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::cables::on_network;
use crate::end::settle;
use crate::journal::Journal;
use crate::room::Room;
use crate::writers::Writer;

/// Under load the leader is killed, its successor stands still for so long that the other takes
/// over, and the hosts are without a network.
#[test]
fn a_group_under_load_is_struck_three_times() -> Result<()> {
    on_network("a machine room", || {
        let mut room = Room::start(3)?;
        let journal = Journal::begin(&room.site)?;
        let each = Writer {
            schedule: "@every 2s",
            shards: 3,
            seconds: 1.0,
            takeover: "60s",
            ..Writer::of("smoke/each")
        };
        each.apply(&room.site)?;
        let long = Writer {
            seconds: 25.0,
            takeover: "60s",
            ..Writer::of("smoke/long")
        };
        long.run(&mut room.site)?;

        let killed = room.site.wait_for_leader()?;
        room.site.kill(&killed)?;
        let next = room.site.wait_for_leader()?;
        room.site.start_control(&killed)?;
        room.site.wait_until_ready(&killed)?;

        room.site.stop(&next)?;
        sleep(Duration::from_secs(5));
        room.site.go_on(&next)?;
        room.site.wait_until_ready(&next)?;

        room.cut_hosts(Duration::from_secs(10))?;

        let ended = settle(&mut room.site, journal, &[&each], Duration::ZERO)?;
        ended.nobody_was_overtaken()?;
        ended.nothing_was_interrupted(&long)?;
        room.site.close()
    })
}
