//! What the shipped templates promise, and what no template set may do.

use super::*;
use crate::envelope::{self, Reading};
use serde_json::{Value, json};
use std::sync::LazyLock;

mod clients;
mod set;
mod shipped;
mod theme;

const TEMPLATES: [(&str, &str); 2] = [
    ("your-week-digest.v1", include_str!("../../../templates/your-week-digest.v1/example.json")),
    ("resurface-nudge.v1", include_str!("../../../templates/resurface-nudge.v1/example.json")),
];

fn links() -> Links {
    Links::new(&Url::parse("https://app.test").unwrap(), "/api/app/comms/unsubscribe").unwrap()
}

fn shipped() -> Arc<Templates> {
    static SHIPPED: LazyLock<Arc<Templates>> =
        LazyLock::new(|| Library::load(None, links()).unwrap().current());
    SHIPPED.clone()
}

fn example(name: &str) -> Value {
    let (_, text) = TEMPLATES.iter().find(|(template, _)| *template == name).unwrap();
    serde_json::from_str(text).unwrap()
}

fn digest() -> Value {
    example("your-week-digest.v1")
}

fn nudge() -> Value {
    example("resurface-nudge.v1")
}

/// A digest of one section whose items are `items`.
fn digest_of(items: Vec<Value>) -> Value {
    let mut envelope = digest();
    envelope["payload"] = json!({"sections": [{"kind": "revisit", "items": items}]});
    envelope
}

fn item() -> Value {
    nudge()["payload"]["lead"].clone()
}

fn item_with(field: &str, value: Value) -> Value {
    let mut item = item();
    item[field] = value;
    item
}

/// Every envelope that shows `item`: one of each template.
fn showing(item: &Value) -> [Value; 2] {
    let mut other = nudge();
    other["payload"]["lead"] = item.clone();
    [digest_of(vec![item.clone()]), other]
}

fn read(envelope: &Value) -> Envelope {
    match envelope::read(&envelope.to_string()) {
        Reading::Envelope(envelope) => *envelope,
        other => panic!("no envelope: {other:?}"),
    }
}

fn mail(envelope: &Value) -> Mail {
    shipped().mail(&read(envelope)).unwrap_or_else(|refusal| panic!("{}", refusal.detail))
}

fn notification(envelope: &Value) -> Notification {
    shipped().notification(&read(envelope)).unwrap_or_else(|refusal| panic!("{}", refusal.detail))
}

fn refusals(envelope: &Value) -> [Refusal; 2] {
    let (set, envelope) = (shipped(), read(envelope));
    [set.mail(&envelope).unwrap_err(), set.notification(&envelope).unwrap_err()]
}

/// The values of `href` in `html`, entities resolved as a client does.
fn hrefs(html: &str) -> Vec<String> {
    let values = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.map(|value| value.replace("&#39;", "'").replace("&amp;", "&")).collect()
}
