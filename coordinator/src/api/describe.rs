//! What the API says of itself, as an OpenAPI 3.1 document.
//!
//! A description that is written beside the code stops being true. So here a handler describes
//! itself by its own signature: each of its arguments is an [`Input`] that tells what it takes and
//! which answers it may cause, what it returns is an [`Answer`]. [`Routes`] serves an operation
//! and notes it in one step; there is no other way to be served.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::routing::{MethodFilter, on};
use protocol::ApiRole;
use protocol::api::ErrorBody;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Api;
use super::asker::describe_asker;
use super::error::ApiError;

/// What any operation may be answered with, whatever it is asked.
const EVERYWHERE: &[StatusCode] = &[
    StatusCode::NOT_ACCEPTABLE,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// What is said of an operation beside what its handler's signature says.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// A name for programs that are made from the document.
    pub(super) id: &'static str,
    pub(super) says: &'static str,
    /// Refusals that only the handler can know of.
    pub(super) refuses: &'static [StatusCode],
    pub(super) open: Open,
    pub(super) by: By,
}

/// Which coordinators answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The one that leads; the others say where it is.
    Leader,
    Any,
}

/// Who may ask for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    ToAll,
    /// To bearers of tokens of this role at least.
    To(ApiRole, Scope),
}

/// What of this Matins an operation is about, by which tokens of some namespaces are held to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The job that its path names: the gate judges whether it is within reach.
    Job,
    /// Jobs, which it does not name in its path: its handler tells and changes only what is within
    /// the reach of the [`Asker`](super::asker::Asker), which it therefore takes.
    Within,
    /// Nothing that is any job's: for every token.
    Common,
    /// This Matins as a whole: for tokens without limit.
    Everything,
}

impl Scope {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Scope::Job => "job",
            Scope::Within => "within",
            Scope::Common => "common",
            Scope::Everything => "everything",
        }
    }
}

pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) about: About,
    describe: fn(&mut Draft),
}

/// Everything that is served.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Api>,
    operations: Vec<Operation>,
}

impl Routes {
    pub(super) fn serve<H, T>(
        mut self,
        method: Method,
        path: &'static str,
        handler: H,
        about: About,
    ) -> Routes
    where
        H: Handler<T, Api> + Described<T>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum knows");
        self.router = self.router.route(path, on(filter, handler));
        self.operations.push(Operation {
            method,
            path,
            about,
            describe: H::describe,
        });
        self
    }

    pub(super) fn into_parts(self) -> (Router<Api>, Vec<Operation>) {
        (self.router, self.operations)
    }
}

impl Operation {
    /// Every status that it is answered with, and in which forms its success may come.
    pub(super) fn answers(&self) -> (Vec<StatusCode>, Vec<String>) {
        let mut draft = Draft::default();
        (self.describe)(&mut draft);
        // Else a token of some namespaces would be told of all.
        debug_assert!(
            draft.knows_who_asks || !matches!(self.about.open, Open::To(_, Scope::Within)),
            "{} does not look at who asks",
            self.about.id
        );
        let content = draft.success["content"].as_object();
        let media_types = content.into_iter().flat_map(Map::keys).cloned().collect();
        (draft.all_statuses(self.about), media_types)
    }
}

/// A handler whose signature says what it takes and gives; `T` as [`Handler`] has it.
pub(super) trait Described<T> {
    fn describe(draft: &mut Draft);
}

macro_rules! described {
    ($($input:ident),+) => {
        impl<F, Fut, A, M, $($input),+> Described<(M, $($input,)+)> for F
        where
            F: FnOnce($($input),+) -> Fut,
            Fut: Future<Output = Result<A, ApiError>>,
            A: Answer,
            $($input: Input),+
        {
            fn describe(draft: &mut Draft) {
                $($input::describe(draft);)+
                A::describe(draft);
            }
        }
    };
}

described!(T1);
described!(T1, T2);
described!(T1, T2, T3);
described!(T1, T2, T3, T4);
described!(T1, T2, T3, T4, T5);

/// An argument of a handler.
pub(super) trait Input {
    fn describe(draft: &mut Draft);
}

/// What a handler gives where it succeeds.
pub(super) trait Answer {
    fn describe(draft: &mut Draft);
}

/// One operation while its parts describe themselves.
pub(super) struct Draft {
    /// What is sent to the coordinator, as it is read.
    taken: SchemaGenerator,
    /// What it sends, as it is written.
    given: SchemaGenerator,
    parameters: Vec<Value>,
    body: Option<Value>,
    success: Value,
    statuses: Vec<StatusCode>,
    /// The handler takes the asker.
    pub(super) knows_who_asks: bool,
}

impl Default for Draft {
    fn default() -> Draft {
        let settings = || {
            SchemaSettings::draft2020_12()
                .with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        Draft {
            taken: settings().into_generator(),
            given: settings().for_serialize().into_generator(),
            parameters: Vec::new(),
            body: None,
            success: Value::Null,
            statuses: Vec::new(),
            knows_who_asks: false,
        }
    }
}

impl Draft {
    pub(super) fn may_answer(&mut self, status: StatusCode) {
        self.statuses.push(status);
    }

    /// A part of the path that is a value of type `T`.
    pub(super) fn path_value<T: JsonSchema>(&mut self, name: &str) {
        let schema = self.taken.subschema_for::<T>();
        self.path_part(name, schema.to_value());
    }

    pub(super) fn path_part(&mut self, name: &str, schema: Value) {
        self.parameters
            .push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        self.may_answer(StatusCode::BAD_REQUEST);
    }

    /// The fields of `T` as parameters of the query.
    pub(super) fn query<T: JsonSchema>(&mut self) {
        let schema = T::json_schema(&mut self.taken).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let none = Map::new();
        for (name, field) in schema["properties"].as_object().unwrap_or(&none) {
            let required = required.iter().any(|field| field == name);
            let mut field = field.clone();
            let says = field.as_object_mut().and_then(|f| f.remove("description"));
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": required,
                "schema": without_null(field),
            });
            if let Some(says) = says {
                parameter["description"] = says;
            }
            self.parameters.push(parameter);
        }
        self.may_answer(StatusCode::BAD_REQUEST);
    }

    pub(super) fn header(&mut self, name: &str, says: &str, schema: Value) {
        self.parameters.push(json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": says,
            "schema": schema,
        }));
    }

    pub(super) fn json_body<T: JsonSchema>(&mut self) {
        let schema = self.taken.subschema_for::<T>().to_value();
        self.body = Some(json!({
            "required": true,
            "content": { "application/json": { "schema": schema } },
        }));
        for status in [
            StatusCode::BAD_REQUEST,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::LENGTH_REQUIRED,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ] {
            self.may_answer(status);
        }
    }

    pub(super) fn answers_json<T: JsonSchema>(&mut self) {
        let schema = self.given.subschema_for::<T>().to_value();
        self.answers("application/json", schema);
    }

    /// A type that no answer is made of as a whole.
    pub(super) fn names<T: JsonSchema>(&mut self) {
        self.given.subschema_for::<T>();
    }

    /// One more form in which a success may come.
    pub(super) fn answers(&mut self, media_type: &str, schema: Value) {
        self.success["content"][media_type] = json!({ "schema": schema });
    }

    pub(super) fn answers_with_header(&mut self, name: &str, says: &str) {
        self.success["headers"][name] =
            json!({ "description": says, "schema": { "type": "string" } });
    }

    fn all_statuses(&self, about: About) -> Vec<StatusCode> {
        let mut all = vec![StatusCode::OK];
        all.extend(&self.statuses);
        all.extend(about.refuses);
        all.extend(EVERYWHERE);
        if let Open::To(role, scope) = about.open {
            all.push(StatusCode::UNAUTHORIZED);
            if role > ApiRole::Viewer || scope != Scope::Common {
                all.push(StatusCode::FORBIDDEN);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn operation(&mut self, about: About) -> Value {
        let mut responses = Map::new();
        for status in self.all_statuses(about) {
            let response = if status == StatusCode::OK {
                let mut success = std::mem::take(&mut self.success);
                success["description"] = json!("It was done, or here it is.");
                success["headers"]["X-Request-Id"] = request_id_header();
                success
            } else {
                json!({ "$ref": format!("#/components/responses/{}", response_name(status)) })
            };
            responses.insert(status.as_u16().to_string(), response);
        }
        let mut operation = json!({
            "operationId": about.id,
            "summary": about.says,
            "responses": responses,
        });
        if !self.parameters.is_empty() {
            operation["parameters"] = Value::Array(std::mem::take(&mut self.parameters));
        }
        if let Some(body) = self.body.take() {
            operation["requestBody"] = body;
        }
        match about.open {
            Open::ToAll => operation["security"] = json!([]),
            Open::To(role, scope) => {
                operation["security"] = json!([{ "bearer": [role.as_str()] }]);
                operation["x-matins-reach"] = json!(scope.as_str());
            }
        }
        self.statuses.clear();
        operation
    }

    /// Every type that was named, by its name.
    fn schemas(mut self) -> Map<String, Value> {
        let mut schemas = Map::new();
        let given = self.given.take_definitions(true);
        let mut taken = self.taken.take_definitions(true);
        taken.values_mut().for_each(describe_asker);
        for (name, schema) in given.into_iter().chain(taken) {
            // Read and written, a type looks the same, or it would need two names.
            let before = schemas.insert(name.clone(), schema.clone());
            debug_assert!(
                before.is_none_or(|before| before == schema),
                "{name} means two things"
            );
        }
        schemas
    }
}

/// The whole document.
pub(super) fn document(operations: &[Operation]) -> Value {
    let mut draft = Draft::default();
    let error = draft.given.subschema_for::<ErrorBody>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut refused: Vec<StatusCode> = Vec::new();
    for operation in operations {
        (operation.describe)(&mut draft);
        refused.extend(draft.all_statuses(operation.about));
        let described = draft.operation(operation.about);
        let method = operation.method.as_str().to_ascii_lowercase();
        paths
            .entry(operation.path)
            .or_default()
            .insert(method, described);
    }
    let responses: Map<String, Value> = refused
        .into_iter()
        .filter(|status| *status != StatusCode::OK)
        .map(|status| (response_name(status), refusal(status, &error)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Matins",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Jobs that run at their hour, once, on machines you own. Times are RFC 3339, lengths of \
                            time are in milliseconds and say so in their names, ids are text with their prefix. \
                            Every answer that is not a success says what was being done, why it was not, and what to \
                            do now.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "responses": responses,
            "schemas": draft.schemas(),
        },
    })
}

fn refusal(status: StatusCode, error: &Value) -> Value {
    let mut headers = json!({ "X-Request-Id": request_id_header() });
    let header = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            Some(("Retry-After", "Seconds to wait before asking again."))
        }
        StatusCode::UNAUTHORIZED => Some(("WWW-Authenticate", "`Bearer`")),
        _ => None,
    };
    if let Some((name, says)) = header {
        headers[name] = json!({ "description": says, "schema": { "type": "string" } });
    }
    json!({
        "description": status.canonical_reason().unwrap_or_default(),
        "headers": headers,
        "content": { "application/json": { "schema": error } },
    })
}

/// `NotFound` for 404: what the components of a document may be called.
fn response_name(status: StatusCode) -> String {
    let words = status.canonical_reason().unwrap_or_default().split(' ');
    words.collect()
}

fn request_id_header() -> Value {
    json!({
        "description": "Of this request: as it was given, or else one of the coordinator's own. The log has it.",
        "schema": { "type": "string" },
    })
}

/// The schema of an optional field, as a query has it: there, or left out.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array() {
        let types: Vec<&Value> = types.iter().filter(|t| *t != "null").collect();
        if let [one] = types[..] {
            schema["type"] = one.clone();
        }
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let null = json!({ "type": "null" });
        let choices: Vec<&Value> = choices.iter().filter(|choice| **choice != null).collect();
        if let [one] = choices[..] {
            return one.clone();
        }
    }
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("default");
    }
    schema
}
