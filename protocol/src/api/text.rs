//! How times and ids are written in the API's JSON: `#[serde(with = "Rfc3339")]`.
//!
//! Types and not modules, so that the schema of a field is that of what it is written as.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::ids::{IdError, Prefixed};
use crate::time::WallMs;

/// A time as RFC 3339 text.
pub struct Rfc3339;

/// A time that may be absent, as RFC 3339 text or `null`.
pub struct Rfc3339OrNull;

/// An id as it is displayed: `run-12`.
pub struct IdText<T>(PhantomData<T>);

/// An id that may be absent, as it is displayed or `null`.
pub struct IdOrNull<T>(PhantomData<T>);

impl Rfc3339 {
    pub fn serialize<S: Serializer>(t: &WallMs, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&t.to_rfc3339())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<WallMs, D::Error> {
        read_time(&String::deserialize(d)?)
    }
}

fn read_time<E: Error>(text: &str) -> Result<WallMs, E> {
    WallMs::parse_rfc3339(text).map_err(|error| {
        let how = "write it with its offset, as 2026-11-29T02:10:00Z";
        E::custom(format!("`{text}` is not a time: {error}; {how}"))
    })
}

impl Rfc3339OrNull {
    #[allow(clippy::ref_option)] // the signature serde calls
    pub fn serialize<S: Serializer>(t: &Option<WallMs>, s: S) -> Result<S::Ok, S::Error> {
        match t {
            Some(t) => Rfc3339::serialize(t, s),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<WallMs>, D::Error> {
        Option::<String>::deserialize(d)?
            .map(|text| read_time(&text))
            .transpose()
    }
}

impl<T: Display + FromStr<Err = IdError> + Prefixed> IdText<T> {
    pub fn serialize<S: Serializer>(id: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

impl<T: Display + FromStr<Err = IdError> + Prefixed> IdOrNull<T> {
    #[allow(clippy::ref_option)] // the signature serde calls
    pub fn serialize<S: Serializer>(id: &Option<T>, s: S) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => s.collect_str(id),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
        Option::<String>::deserialize(d)?
            .map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(feature = "schema")]
mod schema {
    //! What the words above look like, for the API's own description.

    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{IdOrNull, IdText, Rfc3339, Rfc3339OrNull};
    use crate::access::Reach;
    use crate::ids::Prefixed;
    use crate::names::{
        AGENT_NAME_PATTERN as LABEL, NAME_PART_PATTERN as PART, RESOURCE_NAME_PATTERN as RESOURCE,
    };
    use crate::{AgentName, ClassName, JobName, NamespaceName, ResourceName, TokenName};

    /// Written in place, under no name of its own.
    macro_rules! inline_schema {
        ([$($generics:tt)*] $type:ty, $name:expr, $schema:expr) => {
            impl<$($generics)*> JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    $name
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        };
    }

    inline_schema!([] Rfc3339, "Time".into(),
        json_schema!({ "type": "string", "format": "date-time" }));
    inline_schema!([] Rfc3339OrNull, "TimeOrNull".into(),
        json_schema!({ "type": ["string", "null"], "format": "date-time" }));
    inline_schema!([T: Prefixed] IdText<T>, T::PREFIX.into(),
        json_schema!({ "type": "string", "pattern": id_pattern::<T>() }));
    inline_schema!([T: Prefixed] IdOrNull<T>, format!("{}-or-null", T::PREFIX).into(),
        json_schema!({ "type": ["string", "null"], "pattern": id_pattern::<T>() }));
    inline_schema!([] JobName, "JobName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{PART}/{PART}$") }));
    inline_schema!([] ClassName, "ClassName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{PART}$") }));
    inline_schema!([] AgentName, "AgentName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{LABEL}$") }));
    inline_schema!([] ResourceName, "ResourceName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{RESOURCE}$") }));
    inline_schema!([] NamespaceName, "NamespaceName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{PART}$") }));
    inline_schema!([] TokenName, "TokenName".into(),
        json_schema!({ "type": "string", "pattern": format!("^{PART}$") }));
    inline_schema!([] Reach, "Reach".into(),
    json_schema!({
        "type": ["array", "null"],
        "items": { "type": "string", "pattern": format!("^{PART}$") },
        "minItems": 1,
    }));

    /// Ids are counted from 1; 18 digits are more than are ever minted.
    fn id_pattern<T: Prefixed>() -> String {
        format!("^{}-[0-9]{{1,18}}$", T::PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::{JobId, RunId};

    #[test]
    fn ids_that_leave_the_process_are_text() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Row {
            #[serde(with = "IdText::<RunId>")]
            run: RunId,
            #[serde(with = "IdOrNull::<JobId>")]
            of: Option<JobId>,
        }
        for (of, json) in [
            (Some(JobId(3)), r#"{"run":"run-12","of":"job-3"}"#),
            (None, r#"{"run":"run-12","of":null}"#),
        ] {
            let run = RunId(12);
            let row = Row { run, of };
            assert_eq!(serde_json::to_string(&row).unwrap(), json);
            assert_eq!(serde_json::from_str::<Row>(json).unwrap(), row);
        }
        assert!(serde_json::from_str::<Row>(r#"{"run":12,"of":null}"#).is_err());
    }
}
