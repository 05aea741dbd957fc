//! What people would otherwise have an address move with: keepalived on two machines of the same
//! switch and in the same run. It knows neither a quorum nor who could do the work, and nobody takes
//! the address from a machine whose keepalived is dead.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::failover::KERNEL;
use super::keepalived;
use super::net::{INTERFACE, Net, Watch};
use super::site::Site;
use super::yardstick::installed;
use crate::clock;
use crate::failure::Failure;
use crate::output::talk;

const PROGRAM: &str = "keepalived";

const MACHINES: usize = 2;
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 6);

/// Its default. A standby is left alone for one at least, so that it has heard one.
const ADVERT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Takeovers {
    /// From each kill until the other machine answered on the address.
    pub(super) took_ms: Vec<i64>,
    /// How many machines of the dead had it still, [`KERNEL`] after that.
    pub(super) stayed: usize,
}

/// Kills keepalived where the address is, with its children, again and again; `None` where it is not
/// installed, or the machines have no networks of their own.
pub(super) fn takeovers(mut site: Site, rounds: u32) -> Result<Option<Takeovers>, Failure> {
    let Some(net) = site.net.take() else {
        return Ok(None);
    };
    let Some(program) = installed(PROGRAM) else {
        return Ok(None);
    };
    talk(&format!("killing keepalived {rounds} times"));
    let mut watch = Watch::begin(&net, MACHINES, ADDRESS);
    let mut starter = Starter {
        program,
        started: 0,
    };
    let [mut holder, mut other] = [0, 1];
    let mut holding = starter.start(&mut site, &net, holder)?;
    site.wait_for("an address by keepalived", |_| Ok(watch.is_at(holder)))?;
    let mut standing_by = starter.start(&mut site, &net, other)?;
    let mut found = Takeovers::default();
    for round in 0..rounds {
        // At another place between two adverts each time.
        thread::sleep(ADVERT + ADVERT * (round * 37 % 100) / 100);
        let killed_at = clock::now();
        site.kill(&holding)?;
        let answered = || watch.first_answer(other, killed_at);
        site.wait_for("an answer on the address", |_| Ok(answered().is_some()))?;
        found.took_ms.extend(answered());
        thread::sleep(KERNEL);
        if watch.is_at(holder) {
            found.stayed += 1;
            let removal = format!("address del {ADDRESS}/32 dev {INTERFACE}");
            net.ip(holder, &removal).map_err(|error| failed(&error))?;
            let gone = |_: &Site| Ok(!watch.is_at(holder));
            site.wait_for("a machine rid of the address", gone)?;
        }
        holding = standing_by;
        standing_by = starter.start(&mut site, &net, holder)?;
        (holder, other) = (other, holder);
    }
    watch.end()?;
    Ok(Some(found))
}

struct Starter {
    program: PathBuf,
    started: u32,
}

impl Starter {
    /// Starts one that stands by, under the name that is answered.
    fn start(&mut self, site: &mut Site, net: &Net, machine: usize) -> Result<String, Failure> {
        self.started += 1;
        let name = format!("keepalived-{}", self.started);
        let mut command = net.tied(machine);
        command.arg(&self.program);
        let files = site.root().join(&name);
        keepalived::complete(&mut command, &files, ADDRESS, ADVERT.as_secs_f64())
            .map_err(|error| failed(&error))?;
        let child = site.spawn(&name, &mut command);
        site.add(&name, child)?;
        site.wait_for("a keepalived that stands by", |site| {
            let log = fs::read_to_string(site.log(&name));
            Ok(log.is_ok_and(|log| log.contains(keepalived::STANDS_BY)))
        })?;
        Ok(name)
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::of_error(
        "measuring keepalived as a yardstick",
        error,
        "mend that, or measure without it by --no-yardstick",
    )
}
