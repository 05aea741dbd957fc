//! What shards share, and of which there is only so much.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use coordinator_core::Request;
use ledger::{Done, ROWS_MAX};
use protocol::ResourceName;
use protocol::api::{DeleteResourceAnswer, DeleteResourceRequest, PutResourceRequest, Resource};

use super::Api;
use super::asker::Asker;
use super::error::ApiError;
use super::input::{Entity, NamePath, Params};
use super::jobs::out_of_place;
use super::pages::{PageQuery, Paged};

/// `GET /api/v1/resources`: by name.
pub(super) async fn list(
    State(api): State<Api>,
    uri: Uri,
    Params(query): Params<PageQuery>,
) -> Result<Paged<Resource>, ApiError> {
    let what = "listing the resources";
    let (after, limit) = query.read::<ResourceName>(what, ROWS_MAX)?;
    let read = move |reader: &ledger::Reader| reader.resources(after.as_ref(), limit);
    Ok(Paged::of(&uri, api.readers.read(what, read).await?))
}

/// `PUT /api/v1/resources/{name}`
pub(super) async fn put(
    State(api): State<Api>,
    asker: Asker,
    NamePath(name): NamePath<ResourceName>,
    Entity(body): Entity<PutResourceRequest>,
) -> Result<Json<Resource>, ApiError> {
    let what = format!("setting resource {}", name.as_str());
    let by = asker.signs(&what, body.by, None)?;
    let capacity = body.capacity;
    let request = Request::PutResource {
        resource: name.clone(),
        capacity,
        by,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::ResourcePut { in_use } => Ok(Json(Resource {
            resource: name.as_str().to_owned(),
            capacity,
            in_use,
        })),
        other => Err(out_of_place(&what, &other)),
    }
}

/// `DELETE /api/v1/resources/{name}`
pub(super) async fn delete(
    State(api): State<Api>,
    asker: Asker,
    NamePath(name): NamePath<ResourceName>,
    Entity(body): Entity<DeleteResourceRequest>,
) -> Result<Json<DeleteResourceAnswer>, ApiError> {
    let what = format!("deleting resource {}", name.as_str());
    let by = asker.signs(&what, body.by, None)?;
    let request = Request::DeleteResource {
        resource: name.clone(),
        by,
    };
    match api.carry_out(&what, &asker, request).await? {
        Done::ResourceDeleted => Ok(Json(DeleteResourceAnswer {
            resource: name.as_str().to_owned(),
        })),
        other => Err(out_of_place(&what, &other)),
    }
}
