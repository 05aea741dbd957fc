//! Lists a page at a time.
//!
//! A list takes `limit`, and says where it goes on in a `Link` header with `rel="next"`: a target
//! to ask as it is, with a `cursor` that means something here only. A page with such a link may hold
//! fewer rows than were asked for, or none; the list ends where there is no link.

use axum::Json;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use ledger::{Page, RunCursor};
use protocol::{AgentName, AlertId, JobName, JoinTokenId, ResourceName, RunId, TokenName, WallMs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::describe::{Answer, Draft, Input};
use super::error::ApiError;
use super::input::check_limit;

/// Where a page begins: what a cursor says.
pub(super) trait Place: Sized {
    fn write(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

/// Query of a list that has no filter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    cursor: Option<String>,
}

impl PageQuery {
    /// Where the page begins, and how many rows it may have.
    pub(super) fn read<P: Place>(
        &self,
        what: &str,
        default: u32,
    ) -> Result<(Option<P>, u32), ApiError> {
        let place = place(what, self.cursor.as_deref())?;
        Ok((place, limit(what, self.limit, default)?))
    }
}

/// One page of a list.
pub(super) struct Paged<T> {
    rows: Vec<T>,
    next: Option<String>,
}

/// The place that a request's cursor names, if it has one.
pub(super) fn place<P: Place>(what: &str, cursor: Option<&str>) -> Result<Option<P>, ApiError> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let place = text.and_then(|text| P::read(&text));
    place.map(Some).ok_or_else(|| {
        ApiError::invalid(
            what,
            "the cursor is none that this list has given",
            "begin without one, and go on by the Link header of each answer",
        )
    })
}

/// How many rows are asked for, if a page has so many.
pub(super) fn limit(what: &str, asked: Option<u32>, default: u32) -> Result<u32, ApiError> {
    let remedy = "ask for fewer at a time, and go on by the Link header of each answer";
    check_limit(what, asked.unwrap_or(default), remedy)
}

impl<T> Paged<T> {
    /// The page that `asked` was answered with.
    pub(super) fn of<P: Place>(asked: &Uri, page: Page<T, P>) -> Paged<T> {
        let cursor = page.next.map(|place| {
            let cursor = BASE64_URL_SAFE_NO_PAD.encode(place.write());
            format!("cursor={cursor}")
        });
        Paged::going_on(asked, page.rows, cursor)
    }

    /// Goes on at the same target, but for the parameter `next`, `name=value`.
    pub(super) fn going_on(asked: &Uri, rows: Vec<T>, next: Option<String>) -> Paged<T> {
        let next = next.map(|next| {
            let name = next.split('=').next().unwrap_or_default();
            let asked_for = asked.query().unwrap_or_default().split('&');
            let mut pairs: Vec<&str> = asked_for
                .filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name))
                .collect();
            pairs.push(&next);
            format!("<{}?{}>; rel=\"next\"", asked.path(), pairs.join("&"))
        });
        Paged { rows, next }
    }

    pub(super) fn map<U>(self, shown: impl FnMut(T) -> U) -> Paged<U> {
        Paged {
            rows: self.rows.into_iter().map(shown).collect(),
            next: self.next,
        }
    }
}

impl<T: Serialize> IntoResponse for Paged<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.rows).into_response();
        if let Some(link) = self.next.and_then(|next| HeaderValue::try_from(next).ok()) {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

impl<T: JsonSchema> Answer for Paged<T> {
    fn describe(draft: &mut Draft) {
        draft.answers_json::<Vec<T>>();
        draft.answers_with_header(
            "Link",
            "Where the list goes on, if it does: `<target>; rel=\"next\"`.",
        );
    }
}

impl Input for Uri {
    fn describe(_: &mut Draft) {}
}

impl Place for RunCursor {
    fn write(&self) -> String {
        format!("{}.{}", self.fire_time.0, self.run_id.0)
    }

    fn read(text: &str) -> Option<RunCursor> {
        let (fire_time, run_id) = text.split_once('.')?;
        Some(RunCursor {
            fire_time: WallMs(fire_time.parse().ok()?),
            run_id: RunId(run_id.parse().ok()?),
        })
    }
}

/// Places that are written as their own text is.
macro_rules! written_as_itself {
    ($($place:ty),+) => {
        $(impl Place for $place {
            fn write(&self) -> String {
                self.to_string()
            }

            fn read(text: &str) -> Option<$place> {
                text.parse().ok()
            }
        })+
    };
}

written_as_itself!(
    JobName,
    AgentName,
    ResourceName,
    TokenName,
    AlertId,
    JoinTokenId,
    i64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_where_its_link_says() {
        let asked = Uri::from_static("/api/v1/runs?job=t%2Fa&cursor=old&limit=2");
        let place_of = RunCursor {
            fire_time: WallMs(-5),
            run_id: RunId(7),
        };
        let page = Page {
            rows: vec![1, 2],
            next: Some(place_of),
        };
        let link = Paged::of(&asked, page).next.unwrap();
        let (target, rest) = link[1..].split_once('>').unwrap();
        assert_eq!(rest, "; rel=\"next\"");
        let (kept, cursor) = target.split_once("&cursor=").unwrap();
        assert_eq!(kept, "/api/v1/runs?job=t%2Fa&limit=2");
        assert_eq!(place("x", Some(cursor)).unwrap(), Some(place_of));
        for wrong in ["", "old", "====", "MQ"] {
            assert!(place::<RunCursor>("x", Some(wrong)).is_err(), "{wrong}");
        }
    }
}
