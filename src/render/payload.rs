//! What a template may be given: the payload, checked and made whole.
//!
//! Owns [`PayloadSchema`]. After [`PayloadSchema::read`] a payload has every field that its template
//! requires, links that stay on APP_ORIGIN, references with a page, and `null` where an optional field is
//! absent. It must not know handlebars. No error holds a value of the payload.

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use super::links::{GRAPH_KINDS, Links};
use crate::envelope::{FieldError, Payload};

/// How many times one value may be described anew by `$ref`, `allOf` and the like: a schema that refers
/// to itself ends here.
const HOPS: u8 = 16;

/// A template's `payload.schema.json`.
pub(super) struct PayloadSchema {
    schema: Value,
    validator: Validator,
}

impl PayloadSchema {
    /// Compiles a schema. Its references must lie within itself.
    ///
    /// # Errors
    /// What is wrong with the schema.
    pub(super) fn compile(text: &str) -> Result<PayloadSchema, String> {
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| format!("is no JSON Schema: {error}"))?;
        Ok(PayloadSchema { schema, validator })
    }

    /// The payload as a template gets it.
    ///
    /// # Errors
    /// The field that is missing or wrong, and where it belongs.
    pub(super) fn read(&self, payload: &Payload, links: &Links) -> Result<Value, FieldError> {
        let mut value = Value::Object(payload.read());
        // To say yes costs less than to say where not.
        if !self.validator.is_valid(&value)
            && let Some(error) = self.validator.iter_errors(&value).next()
        {
            return Err(explain(error.instance_path(), error.kind()));
        }
        keep_to_the_app(&mut value, &Trail::Root, links)?;
        fill(&self.schema, &self.schema, &mut value, HOPS);
        // Should serde_json keep the order of arrival (its `preserve_order`, which any dependency may
        // switch on), `each` over an object would show it, and a retry would have other bytes.
        value.sort_all_objects();
        Ok(value)
    }
}

/// One step into a payload.
#[derive(Debug, Clone)]
enum Step {
    Field(String),
    Index(usize),
}

/// The way to a value while it is walked; written down only where something is wrong there.
enum Trail<'a> {
    Root,
    Field(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn steps(&self) -> Vec<Step> {
        let (parent, step) = match self {
            Trail::Root => return Vec::new(),
            Trail::Field(parent, name) => (parent, Step::Field((*name).to_owned())),
            Trail::Index(parent, index) => (parent, Step::Index(*index)),
        };
        let mut steps = parent.steps();
        steps.push(step);
        steps
    }

    fn problem(&self, what: &str) -> FieldError {
        problem(&self.steps(), what)
    }
}

/// A problem with the last field of `path`: `title: is missing in sections[0].items[3]`. Field and place
/// are apart, so that each is short enough to be shown in a log line.
fn problem(path: &[Step], problem: &str) -> FieldError {
    let named = path.iter().rposition(|step| matches!(step, Step::Field(_))).unwrap_or(0);
    let (place, name) = path.split_at(named);
    match (write(name), write(place)) {
        (name, _) if name.is_empty() => FieldError::new("payload", problem),
        (name, place) if place.is_empty() => FieldError::new(name, format!("{problem} in the payload")),
        (name, place) => FieldError::new(name, format!("{problem} in {place}")),
    }
}

fn write(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Field(name) if out.is_empty() => out.push_str(name),
            Step::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

fn explain(location: &Location, kind: &ValidationErrorKind) -> FieldError {
    let mut path: Vec<Step> = location
        .into_iter()
        .map(|segment| match segment {
            LocationSegment::Property(name) => Step::Field(name.into_owned()),
            LocationSegment::Index(index) => Step::Index(index),
        })
        .collect();
    match kind {
        ValidationErrorKind::Required { property } => {
            path.push(Step::Field(property.as_str().unwrap_or_default().to_owned()));
            problem(&path, "is missing")
        }
        ValidationErrorKind::MinItems { limit: 1 } | ValidationErrorKind::MinLength { limit: 1 } => {
            problem(&path, "is empty")
        }
        ValidationErrorKind::Type { .. } => problem(&path, "is of the wrong type"),
        other => problem(&path, &format!("breaks the template's rule `{}`", other.keyword())),
    }
}

/// The contract's rules that hold in every payload, whatever its template: a `deep_link` leads into the
/// app, and `graph_refs` holds at least one reference with a page. Those of other kinds are left out.
fn keep_to_the_app(value: &mut Value, trail: &Trail<'_>, links: &Links) -> Result<(), FieldError> {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let trail = Trail::Field(trail, name);
                match (name.as_str(), &mut *value) {
                    ("deep_link", Value::String(link)) => {
                        links.app(link).map_err(|bad| trail.problem(&bad.to_string()))?;
                    }
                    ("graph_refs", Value::Array(refs)) => keep_linkable(refs, &trail, links)?,
                    _ => {}
                }
                keep_to_the_app(value, &trail, links)?;
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                keep_to_the_app(item, &Trail::Index(trail, index), links)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn keep_linkable(refs: &mut Vec<Value>, trail: &Trail<'_>, links: &Links) -> Result<(), FieldError> {
    refs.retain(|it| it.get("kind").and_then(Value::as_str).is_some_and(|kind| GRAPH_KINDS.contains(&kind)));
    if refs.is_empty() {
        return Err(trail.problem("holds no reference to a person or topic"));
    }
    for it in refs {
        let field = |name| it.get(name).and_then(Value::as_str).unwrap_or_default();
        links.graph(field("kind"), field("id")).map_err(|bad| trail.problem(&bad.to_string()))?;
    }
    Ok(())
}

/// Gives `value` a `null` for each property that its schema declares and it lacks, at every depth.
/// Templates are strict, and an optional field is no mistake.
fn fill(schema: &Value, root: &Value, value: &mut Value, hops: u8) {
    let Some(hops) = hops.checked_sub(1) else { return };
    for (keyword, says) in schema.as_object().into_iter().flatten() {
        match (keyword.as_str(), says, &mut *value) {
            ("$ref", Value::String(link), _) => {
                if let Some(referred) = link.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) {
                    fill(referred, root, value, hops);
                }
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas), _) => {
                schemas.iter().for_each(|schema| fill(schema, root, value, hops));
            }
            ("properties", Value::Object(properties), Value::Object(fields)) => {
                for (name, schema) in properties {
                    match fields.get_mut(name) {
                        Some(value) => fill(schema, root, value, HOPS),
                        None => drop(fields.insert(name.clone(), Value::Null)),
                    }
                }
            }
            ("items", schema, Value::Array(items)) => {
                items.iter_mut().for_each(|item| fill(schema, root, item, HOPS));
            }
            _ => {}
        }
    }
}
