//! The contract's message as the worker reads it: types and tolerant parsing.
//!
//! Owns [`Envelope`] and the reading of one element of a page. Unknown fields are ignored, `null` reads
//! as absent, and what cannot be read says which field and why. It must not know a channel: what a
//! recipient holds is decoded by the channel that needs it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::outcome::{Cause, Detail, Refusal};

/// The schema version that this build reads.
pub const SCHEMA_VERSION: &str = "1";

/// The longest id, in bytes as it stands in a path, percent-encoded. Every recipient of a URI should
/// support 8,000 octets (RFC 9110, 4.1); the rest is left for the seam's base and the path around the id.
/// What is longer is cut off or refused on its way, and what can never be acked must not be sent.
const LONGEST_SEGMENT: usize = 7_000;

/// The app's id of an envelope: opaque, non-empty, and the idempotency key of everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvelopeId(String);

impl EnvelopeId {
    /// Takes an id that can be one segment of a path.
    ///
    /// # Errors
    /// An empty id, `.` and `..`, which no URL can carry as a segment (RFC 3986, 5.2.4), and one that is
    /// too long for any.
    pub fn new(id: impl Into<String>) -> Result<EnvelopeId, &'static str> {
        let id = id.into();
        match id.as_str() {
            "" => Err("id is empty"),
            "." | ".." => Err("id cannot be a segment of a path"),
            long if encoded_len(long) > LONGEST_SEGMENT => Err("id is too long for a path"),
            _ => Ok(EnvelopeId(id)),
        }
    }

    /// The id as the app wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The bytes that an id takes in a path: all but the unreserved characters (RFC 3986, 2.3) take three.
fn encoded_len(id: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    id.bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum()
}

impl fmt::Display for EnvelopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a channel, as the contract writes it: `email`, `push`, others to come.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(String);

impl ChannelName {
    /// A channel by its word in the contract.
    pub fn new(name: impl Into<String>) -> ChannelName {
        ChannelName(name.into())
    }

    /// The word of the contract.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A template's name with its version, such as `your-week-digest.v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateName(String);

impl TemplateName {
    /// A template by its name with version.
    pub fn new(name: impl Into<String>) -> TemplateName {
        TemplateName(name.into())
    }

    /// Name and version.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its version: `your-week-digest` of `your-week-digest.v1`.
    pub fn family(&self) -> &str {
        match self.0.rsplit_once(".v") {
            Some((family, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) => {
                family
            }
            _ => &self.0,
        }
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One message to one recipient on one channel, already assembled and consented, never rendered. `Debug`
/// shows what logs show of it.
#[derive(Clone)]
pub struct Envelope {
    /// The idempotency key of everything.
    pub id: EnvelopeId,
    /// The app's opaque user.
    pub user_id: String,
    /// Which lane carries it.
    pub channel: ChannelName,
    /// What it looks like.
    pub template: TemplateName,
    /// Where it goes; decoded by the channel.
    pub recipient: Recipient,
    /// Consent at enqueue time; only what rendering needs.
    pub consent: Consent,
    /// What it says; its shape is the template's.
    pub payload: Payload,
    /// Not to be delivered earlier.
    pub not_before: Option<DateTime<Utc>>,
    /// Not to be delivered at or after.
    pub expires_at: Option<DateTime<Utc>>,
    /// When the app wrote it.
    pub created_at: DateTime<Utc>,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envelope { id, channel, template, .. } = self;
        write!(f, "Envelope({id} of {channel} by {template}, …)")
    }
}

/// The part of `consent_snapshot` that rendering uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// `weekly`, `daily`; a word that this build does not know renders neutrally.
    pub cadence: Option<String>,
    /// Goes into the unsubscribe link; a capability, so never logged.
    pub unsubscribe_ref: UnsubscribeRef,
}

/// The reference in the unsubscribe link. Whoever holds it can unsubscribe the user: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct UnsubscribeRef(String);

impl UnsubscribeRef {
    /// The reference, for the link alone.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UnsubscribeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnsubscribeRef(…)")
    }
}

/// Where an envelope goes, as the app wrote it. Personal data: `Debug` shows nothing of it.
#[derive(Clone, PartialEq)]
pub struct Recipient(Map<String, Value>);

impl Recipient {
    /// Whoever reads `address`, for a message that is not the app's.
    pub fn of_mail(address: &str) -> Recipient {
        Recipient(Map::from_iter([("email".to_owned(), address.into())]))
    }

    /// Reads the recipient as `T`, the shape that a channel needs.
    ///
    /// # Errors
    /// The field (`recipient.…`) and what is wrong with it, without its value.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, FieldError> {
        // To keep track of the path costs a copy: only for whom it must be told.
        T::deserialize(&self.0).or_else(|_| decode(Value::Object(self.0.clone()), "recipient"))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recipient(…)")
    }
}

/// What an envelope says, kept as JSON text: a tree takes more room, and hundreds wait for their turn.
/// Personal data: `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Box<str>);

impl Payload {
    #[expect(clippy::expect_used, reason = "a map of JSON values always has a JSON form")]
    fn new(content: &Map<String, Value>) -> Payload {
        Payload(serde_json::to_string(content).expect("a map of JSON values").into())
    }

    /// The structured content, `null`s taken out.
    #[expect(clippy::expect_used, reason = "the text was written of a map")]
    pub fn read(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).expect("the text of a map")
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload(…)")
    }
}

/// A field that is missing or wrong, and how; never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// The path of the field, such as `recipient.email`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FieldError {
    /// A problem with the field at `field`. `problem` must not hold the field's value.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> FieldError {
        FieldError { field: field.into(), problem: problem.into() }
    }

    /// The error as the reason why an envelope can never be sent.
    pub fn refusal(&self, cause: Cause) -> Refusal {
        Refusal::new(cause, Detail::scrub(&self.to_string(), &[]))
    }
}

/// What one element of a page turns out to be.
#[derive(Debug, Clone)]
pub enum Reading {
    /// A whole envelope.
    Envelope(Box<Envelope>),
    /// Its id can be read, the rest cannot: acked `failed` with the field's name.
    Malformed {
        /// Whose it is.
        id: EnvelopeId,
        /// What is wrong.
        error: FieldError,
    },
    /// Of a schema version that this build does not read: never acked, never sent.
    Unreadable {
        /// Whose it is.
        id: EnvelopeId,
        /// The version, as far as it may be shown.
        version: Detail,
    },
    /// Without a usable id: counted and logged, nothing else can be done.
    Unnamed {
        /// What is wrong with the id.
        problem: &'static str,
    },
}

/// The id of an element, without reading the rest.
///
/// # Errors
/// What keeps the element from having a usable id.
pub fn id_of(element: &str) -> Result<EnvelopeId, &'static str> {
    #[derive(Deserialize)]
    struct OnlyId {
        #[serde(default)]
        id: Value,
    }
    match serde_json::from_str::<OnlyId>(element) {
        Ok(OnlyId { id: Value::String(id) }) => EnvelopeId::new(id),
        Ok(OnlyId { id: Value::Null }) => Err("id is missing"),
        Ok(_) => Err("id is not a string"),
        Err(_) => Err("not an object with one id"),
    }
}

/// Reads one element of a page, or a file with one envelope.
pub fn read(element: &str) -> Reading {
    // To know which field is wrong costs copies: they are made where one is.
    match serde_json::from_str::<Wire>(element).ok().and_then(|wire| envelope(wire).ok()) {
        Some(envelope) => Reading::Envelope(Box::new(envelope)),
        None => read_with_care(element),
    }
}

/// Reads an element that may be of another version, or wrong in a field, which is then named.
fn read_with_care(element: &str) -> Reading {
    let id = match id_of(element) {
        Ok(id) => id,
        Err(problem) => return Reading::Unnamed { problem },
    };
    let mut fields = match serde_json::from_str::<Map<String, Value>>(element) {
        Ok(fields) => fields,
        Err(_) => {
            return Reading::Malformed { id, error: FieldError::new("envelope", "is not readable JSON") };
        }
    };
    take_nulls_out(&mut fields);
    match fields.get("schema_version") {
        None => malformed(id, FieldError::new("schema_version", "is missing")),
        Some(Value::String(version)) if version == SCHEMA_VERSION => {
            match decode(Value::Object(fields), "").and_then(envelope) {
                Ok(envelope) => Reading::Envelope(Box::new(envelope)),
                Err(error) => malformed(id, error),
            }
        }
        Some(Value::String(version)) => Reading::Unreadable { id, version: Detail::scrub(version, &[]) },
        Some(other) => Reading::Unreadable { id, version: Detail::scrub(&other.to_string(), &[]) },
    }
}

fn malformed(id: EnvelopeId, error: FieldError) -> Reading {
    Reading::Malformed { id, error }
}

/// `null` reads as absent, at every depth of objects; in arrays it keeps its place.
fn take_nulls_out(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    fields.values_mut().for_each(prune);
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => take_nulls_out(fields),
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[derive(Deserialize)]
struct Wire {
    schema_version: String,
    id: String,
    user_id: String,
    channel: String,
    template: String,
    recipient: Map<String, Value>,
    consent_snapshot: WireConsent,
    payload: Map<String, Value>,
    not_before: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
}

#[derive(Deserialize)]
struct WireConsent {
    cadence: Option<String>,
    unsubscribe_ref: String,
}

fn envelope(mut wire: Wire) -> Result<Envelope, FieldError> {
    if wire.schema_version != SCHEMA_VERSION {
        return Err(FieldError::new("schema_version", "is not read here"));
    }
    take_nulls_out(&mut wire.recipient);
    take_nulls_out(&mut wire.payload);
    for (field, value) in [
        ("user_id", &wire.user_id),
        ("channel", &wire.channel),
        ("template", &wire.template),
        ("consent_snapshot.unsubscribe_ref", &wire.consent_snapshot.unsubscribe_ref),
    ] {
        if value.is_empty() {
            return Err(FieldError::new(field, "is empty"));
        }
    }
    Ok(Envelope {
        id: EnvelopeId::new(wire.id).map_err(|problem| FieldError::new("id", problem))?,
        user_id: wire.user_id,
        channel: ChannelName::new(wire.channel),
        template: TemplateName::new(wire.template),
        recipient: Recipient(wire.recipient),
        consent: Consent {
            cadence: wire.consent_snapshot.cadence,
            unsubscribe_ref: UnsubscribeRef(wire.consent_snapshot.unsubscribe_ref),
        },
        payload: Payload::new(&wire.payload),
        not_before: wire.not_before,
        expires_at: wire.expires_at,
        created_at: wire.created_at,
    })
}

/// Decodes `value`, naming the field that does not fit below `root`. The value itself never gets into
/// the error: serde quotes it, and it may be an address.
fn decode<T: DeserializeOwned>(value: Value, root: &str) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.inner().to_string();
        let below = if path == "." { "" } else { path.as_str() };
        let (name, problem) = match inner.strip_prefix("missing field `").and_then(|s| s.split_once('`')) {
            Some((name, _)) => (name, "is missing"),
            None => ("", "does not have the form that the contract asks for"),
        };
        let field = [root, below, name].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(".");
        FieldError { field, problem: problem.to_owned() }
    })
}

#[cfg(test)]
mod tests;
