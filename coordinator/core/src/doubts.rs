//! What a job asks for, held against all there is: a mistake in it is told when the job is put, not
//! at the night's first fire.
//!
//! Only what lasts counts: that a host is full, off, cordoned or short of memory just now says nothing
//! of tonight. Nor is anything refused, for the host may be on its way.

use std::fmt;

use jobs::Manifest;
use ledger::Bar;
use profiles::matching::{Amounts, Ask, Strain};
use protocol::{ClassName, Now};

use crate::core::Core;
use crate::dispatch::{Host, Report, Standing};

/// Why no shard of a job would find a place, however long it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The leader knows no such class.
    NoSuchClass(ClassName),
    /// None of the hosts is what is asked for, or has as much.
    NoHost(Box<Report>),
}

impl Doubt {
    pub const fn kind(&self) -> &'static str {
        match self {
            Doubt::NoSuchClass(_) => "no_such_class",
            Doubt::NoHost(_) => "no_host",
        }
    }

    /// The field of the manifest that asks for it.
    pub const fn field(&self) -> &'static str {
        match self {
            Doubt::NoSuchClass(_) => "needs.class",
            Doubt::NoHost(_) => "needs",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::NoSuchClass(class) => {
                write!(
                    f,
                    "there is no class `{}`: `matins classes` lists those there are",
                    class.as_str()
                )
            }
            Doubt::NoHost(report) => write!(f, "no host is what it asks for: {report}"),
        }
    }
}

impl Core {
    /// Why shards of this job would find no place, by all that is known now. `None` where no host is
    /// known, or where one has not told yet what it is: it may be the one. Of what shards share the
    /// ledger takes no job that could never have enough.
    pub fn doubt(&self, manifest: &Manifest, now: Now) -> Option<Doubt> {
        let ask = Ask::of(&manifest.needs);
        match &ask.filter.class {
            Some(class) if self.classes.class(class).is_none() => {
                Some(Doubt::NoSuchClass(class.clone()))
            }
            _ => self.doubt_of_hosts(&ask, now),
        }
    }

    /// Walks over the hosts until one could take it: mostly the first.
    fn doubt_of_hosts(&self, ask: &Ask, now: Now) -> Option<Doubt> {
        let mut report = Report::of_nobody(ask, &self.classes);
        for host in self.hosts(now) {
            match host.standing {
                Standing::Barred(Bar::Revoked) => continue,
                Standing::Barred(Bar::Quarantined) => report.quarantined += 1,
                _ if host.facts.0.is_empty() => return None,
                _ => report.count_ready(&at_rest(host), ask, &self.classes),
            }
            report.considered += 1;
            if report.free > 0 {
                return None;
            }
        }
        (report.considered > 0).then(|| Doubt::NoHost(Box::new(report)))
    }
}

/// The same host with nothing on it.
fn at_rest(host: Host) -> Host {
    Host {
        set_aside: Amounts::default(),
        strain: Strain::default(),
        ..host
    }
}
