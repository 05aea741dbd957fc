//! Asking again where a coordinator says that it was asked too fast.
//!
//! Such a request was refused before anybody looked at it, so it is safe to send again whatever it
//! asks for, and the answer says when. A person is told of the wait; a wait that is too long is
//! left to them.

use std::thread;
use std::time::Duration;

use ureq::http::header::RETRY_AFTER;
use ureq::http::{Response, StatusCode};
use ureq::{Body, Error};

use crate::output::talk;

/// How long one request waits at the most, all its waits together.
const WAITS_MAX: Duration = Duration::from_secs(60);

/// Where the answer does not say for how long, or says not at all.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// How long a request may wait because it came too soon after others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Duration);

impl Default for Patience {
    fn default() -> Patience {
        Patience(WAITS_MAX)
    }
}

impl Patience {
    /// For who cannot wait.
    pub(crate) const fn none() -> Patience {
        Patience(Duration::ZERO)
    }

    /// How long may be waited for an election that takes at most so long.
    pub(crate) fn for_election(self, limit: Duration) -> Duration {
        self.0.min(limit)
    }

    /// Asks, and asks again when it may where that was too soon. Answers the last of these answers.
    pub(crate) fn ask(
        self,
        ask: impl Fn() -> Result<Response<Body>, Error>,
    ) -> Result<Response<Body>, Error> {
        let mut left = self.0;
        let mut is_told = false;
        loop {
            let answer = ask()?;
            if answer.status() != StatusCode::TOO_MANY_REQUESTS {
                return Ok(answer);
            }
            let wait = wait_of(&answer);
            if wait > left {
                return Ok(answer);
            }
            if !is_told {
                talk(&format!(
                    "the coordinator is asked too fast from here: waiting {} s, as it says",
                    wait.as_secs()
                ));
                is_told = true;
            }
            thread::sleep(wait);
            left -= wait;
        }
    }
}

fn wait_of(answer: &Response<Body>) -> Duration {
    let said = answer.headers().get(RETRY_AFTER);
    let said = said.and_then(|said| said.to_str().ok()?.trim().parse().ok());
    said.map_or(WAIT_MIN, Duration::from_secs).max(WAIT_MIN)
}
