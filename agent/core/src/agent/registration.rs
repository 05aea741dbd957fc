//! When the host's profile is to be sent.
//!
//! At every attach the coordinator says which profile the ledger has. It is sent where that is another
//! one, and once a day for what is in it and moves by itself: after a change of leader five thousand
//! agents attach, and none of them has anything to tell. What was refused would be refused again, so it
//! waits for another profile; what could not be sent is sent again after a while.

use protocol::host::ProfileDigest;
use protocol::message::KeptProfile;
use protocol::{BootMs, DurationMs, Now};

use super::{Action, Agent, ConnectionId};

/// After a registration that came to nothing.
const AGAIN_AFTER: DurationMs = DurationMs(30_000);

/// Why a host has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It is from time to time: what it found is told where it is something else.
    Look,
    /// What is known is to be told again.
    Daily,
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    Taken,
    Refused,
    /// It did not arrive, or there was nobody to take it.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Registration {
    /// Of what the host was found to be.
    own: Option<ProfileDigest>,
    kept: KeptProfile,
    /// It is sent even if it is kept.
    anew: bool,
    /// The connection that it is being sent on.
    under_way: Option<ConnectionId>,
    refused: Option<ProfileDigest>,
    /// Nothing is sent before.
    not_before: Option<BootMs>,
}

impl Registration {
    /// What is to be sent, were it time.
    fn wanted(&self) -> Option<ProfileDigest> {
        let own = self.own?;
        let told = match self.kept {
            KeptProfile::NotKept => return None,
            KeptProfile::Missing => false,
            KeptProfile::Is(kept) => kept == own && !self.anew,
        };
        let idle = self.under_way.is_none();
        (idle && !told && self.refused != Some(own)).then_some(own)
    }

    /// When something is to be sent that may not be yet.
    pub(super) fn next_at(&self) -> Option<BootMs> {
        self.wanted().and(self.not_before)
    }

    /// A session has begun, with whoever has this.
    pub(super) fn note_attached(&mut self, kept: KeptProfile) {
        self.kept = kept;
        self.under_way = None;
        self.not_before = None;
    }
}

impl Agent {
    /// What the host was found to be, by its digest; whoever found it keeps the profile itself for
    /// [`Action::Register`].
    pub fn handle_profile(&mut self, digest: ProfileDigest, occasion: Occasion, now: Now) {
        self.enforce_deadlines(now.boot);
        self.registration.own = Some(digest);
        if occasion == Occasion::Daily {
            self.registration.anew = true;
            self.registration.refused = None;
        }
        self.register(now.boot);
    }

    /// What became of the profile of [`Action::Register`] on this connection.
    pub fn handle_registered(
        &mut self,
        connection: ConnectionId,
        digest: ProfileDigest,
        end: Registered,
        now: Now,
    ) {
        self.enforce_deadlines(now.boot);
        let registration = &mut self.registration;
        // Another session has begun meanwhile, and said what is kept.
        if registration.under_way != Some(connection) {
            return;
        }
        registration.under_way = None;
        match end {
            Registered::Taken => {
                registration.kept = KeptProfile::Is(digest);
                registration.anew = false;
            }
            Registered::Refused => registration.refused = Some(digest),
            Registered::Failed => registration.not_before = Some(now.boot + AGAIN_AFTER),
        }
        self.register(now.boot);
    }

    /// Sends the profile, where that is due.
    pub(super) fn register(&mut self, now: BootMs) {
        let Some(connection) = self.attached_on().filter(|_| !self.stopping) else {
            return;
        };
        let registration = &mut self.registration;
        if registration.not_before.is_some_and(|at| now < at) {
            return;
        }
        if let Some(digest) = registration.wanted() {
            registration.not_before = None;
            registration.under_way = Some(connection);
            self.actions
                .push_back(Action::Register { connection, digest });
        }
    }
}
