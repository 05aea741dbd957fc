//! Which of several coordinators is asked next.
//!
//! One of them leads, and only that one answers most questions; which, changes. So the others send
//! on to it, and where one does not answer at all, another is tried. What is decided here is only
//! whom to ask: whether it may be asked again at all is for who knows what it would do.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One hop to who leads, and one more where that has just changed.
const HOPS_MAX: usize = 3;

/// Addresses of a group's API. Clones share which of them answered last.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    all: Arc<[String]>,
    /// Who answered last, which is asked first. It may be none of those above.
    last: Arc<Mutex<Option<String>>>,
}

/// The way of one question.
#[derive(Debug)]
pub(crate) struct Walk {
    now: String,
    untried: Vec<String>,
    asked: Vec<String>,
    hops: usize,
}

impl Route {
    /// At least one address, by which the others are found.
    pub(crate) fn new(urls: impl IntoIterator<Item = String>) -> Route {
        let urls = urls.into_iter();
        let all: Vec<String> = urls
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        Route {
            all: all.into(),
            last: Arc::default(),
        }
    }

    /// Who is asked first.
    pub(crate) fn first(&self) -> String {
        let last = self.last().clone();
        last.or_else(|| self.all.first().cloned())
            .unwrap_or_default()
    }

    pub(crate) fn begin(&self) -> Walk {
        let now = self.first();
        let others = self.all.iter().filter(|url| **url != now);
        Walk {
            untried: others.rev().cloned().collect(),
            asked: vec![now.clone()],
            now,
            hops: 0,
        }
    }

    pub(crate) fn note(&self, answered: &str) {
        *self.last() = Some(answered.to_owned());
    }

    fn last(&self) -> MutexGuard<'_, Option<String>> {
        // A name is whole whoever panicked.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Walk {
    pub(crate) fn now(&self) -> &str {
        &self.now
    }

    /// Everybody who was asked.
    pub(crate) fn asked(&self) -> &[String] {
        &self.asked
    }

    /// On to the next that was named and not asked yet.
    pub(crate) fn go_on(&mut self) -> bool {
        let Some(next) = self.untried.pop() else {
            return false;
        };
        self.go(next);
        true
    }

    /// To where the one that was asked says that the leader is, if the token may be shown there and
    /// that has not been asked.
    pub(crate) fn follow(&mut self, api: &str) -> bool {
        let api = api.trim_end_matches('/');
        if self.hops == HOPS_MAX || !may_show_token(api) || self.asked.iter().any(|it| it == api) {
            return false;
        }
        self.hops += 1;
        self.untried.retain(|url| url != api);
        self.go(api.to_owned());
        true
    }

    fn go(&mut self, next: String) {
        self.asked.push(next.clone());
        self.now = next;
    }
}

/// Whether nobody on the way would read it.
pub(crate) fn may_show_token(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return url.starts_with("https://");
    };
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The addresses that a person has written, separated by commas, with what they may leave out.
pub(crate) fn parse_addresses(text: &str) -> Result<Vec<String>, String> {
    let written = text.split(',').map(str::trim);
    let urls: Vec<String> = written
        .filter(|address| !address.is_empty())
        .map(|address| {
            if address.contains("://") {
                address.to_owned()
            } else {
                format!("https://{address}")
            }
        })
        .collect();
    if urls.is_empty() {
        return Err("it names no address".to_owned());
    }
    match urls.iter().find(|url| !is_of_http(url)) {
        Some(url) => Err(format!("`{url}` is no address of an API")),
        None => Ok(urls),
    }
}

fn is_of_http(url: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, expected) in [
            ("http://127.0.0.1:7412", Some(vec!["http://127.0.0.1:7412"])),
            (
                "https://c1:7412, c2:7412,",
                Some(vec!["https://c1:7412", "https://c2:7412"]),
            ),
            ("", None),
            (" , ", None),
            ("ftp://c1", None),
            ("https://", None),
            ("https://c 1", None),
        ] {
            let expected: Option<Vec<String>> =
                expected.map(|urls| urls.into_iter().map(str::to_owned).collect());
            assert_eq!(parse_addresses(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn everybody_is_asked_once_and_who_leads_next() {
        let named = ["https://c1:1", "https://c2:1", "https://c3:1/"];
        let route = Route::new(named.map(str::to_owned));
        let mut walk = route.begin();
        assert_eq!(walk.now(), "https://c1:1");
        assert!(walk.go_on());
        assert_eq!(walk.now(), "https://c2:1");
        // Named or not; but not one that has been asked, and not round and round.
        assert!(walk.follow("https://c9:1/"));
        assert!(!walk.follow("https://c2:1"));
        assert!(walk.follow("https://c3:1"));
        assert!(!walk.go_on());
        assert!(walk.follow("https://c10:1"));
        assert!(!walk.follow("https://c11:1"));
        assert_eq!(walk.asked().len(), 5);

        route.clone().note("https://c9:1");
        let mut walk = route.begin();
        assert_eq!(walk.now(), "https://c9:1");
        assert!(walk.go_on());
        assert_eq!(walk.now(), "https://c1:1");
    }

    #[test]
    fn a_token_is_shown_to_nobody_in_the_clear_but_on_this_machine() {
        for (url, expected) in [
            ("https://c1:7412", true),
            ("http://127.0.0.1:7412", true),
            ("http://[::1]:7412", true),
            ("http://10.0.0.1:7412", false),
            ("http://c1:7412", false),
            ("http://127.0.0.1.example:7412", false),
            ("", false),
        ] {
            assert_eq!(may_show_token(url), expected, "{url}");
        }
    }
}
