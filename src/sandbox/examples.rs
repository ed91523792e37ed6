//! Example envelopes for the demo and for tests.
//!
//! Owns their content: a podcast app's weekly digest and nudge, made up but plausible. It must not know
//! how anything is rendered. The content of an id is always the same, that of ids differs.

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::push::Subscription;

/// Where the links of the example app point.
pub const APP_ORIGIN: &str = "https://listen.example.com";

/// An envelope that is whole, to be changed as needed and enqueued.
#[derive(Debug, Clone)]
pub struct Example(Value);

/// A weekly digest by email, written an hour ago and good for a week.
pub fn digest(id: &str, address: &str) -> Example {
    let pick = pick(id);
    let payload = json!({"sections": [
        {"kind": "revisit", "items": [own_highlight(pick), own_highlight(pick + 1)]},
        {"kind": "new_in_follows", "items": [editors_pick(pick)]},
        {"kind": "trending_in_your_corpus", "items": [editors_pick(pick + 1), editors_pick(pick + 2)]},
    ]});
    envelope(id, "your-week-digest.v1", payload).to_address(address)
}

/// A nudge to a browser about a highlight of the reader's own.
pub fn nudge(id: &str, subscription: &Subscription) -> Example {
    let pick = pick(id);
    let payload = json!({"highlight_count": pick % 5 + 1, "lead": own_highlight(pick)});
    envelope(id, "resurface-nudge.v1", payload).to_browser(subscription)
}

impl Example {
    /// Sends it by email.
    pub fn to_address(self, address: &str) -> Example {
        let recipient = json!({"email": address, "email_verified": true});
        self.set("/channel", "email").set("/recipient", recipient)
    }

    /// Sends it by push.
    pub fn to_browser(self, subscription: &Subscription) -> Example {
        let recipient = json!({"push_subscription": subscription.json});
        self.set("/channel", "push").set("/recipient", recipient)
    }

    /// Sets the field at a JSON pointer (RFC 6901); the last segment may be a new field. A pointer
    /// whose parent is no object changes nothing.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Example {
        let (parent, field) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        if let Some(Value::Object(fields)) = self.0.pointer_mut(parent) {
            fields.insert(field.to_owned(), value.into());
        }
        self
    }

    /// Takes a top-level field away.
    pub fn without(mut self, field: &str) -> Example {
        if let Value::Object(fields) = &mut self.0 {
            fields.remove(field);
        }
        self
    }
}

impl From<Example> for Value {
    fn from(example: Example) -> Value {
        example.0
    }
}

fn envelope(id: &str, template: &str, payload: Value) -> Example {
    let now = Utc::now();
    let at = |offset: TimeDelta| (now + offset).to_rfc3339_opts(SecondsFormat::Secs, true);
    Example(json!({
        "schema_version": "1",
        "id": id,
        "user_id": format!("user-of-{id}"),
        "template": template,
        "consent_snapshot": {
            "digest_enabled": true, "cadence": "weekly", "unsubscribe_ref": format!("unsub-{id}"),
        },
        "payload": payload,
        "created_at": at(TimeDelta::hours(-1)),
        "expires_at": at(TimeDelta::days(7)),
    }))
}

/// A number of an id, the same on every machine.
fn pick(id: &str) -> usize {
    id.bytes().fold(0, |sum, byte| sum + usize::from(byte))
}

fn own_highlight(pick: usize) -> Value {
    item(&OWN_HIGHLIGHTS[pick % OWN_HIGHLIGHTS.len()], "user")
}

fn editors_pick(pick: usize) -> Value {
    item(&EDITORS_PICKS[pick % EDITORS_PICKS.len()], "auto")
}

struct Clip {
    quote: &'static str,
    slug: &'static str,
    title: &'static str,
    second: u32,
    refs: &'static [(&'static str, &'static str)],
}

fn item(clip: &Clip, source: &str) -> Value {
    let refs: Vec<Value> = clip
        .refs
        .iter()
        .map(|(id, label)| {
            let kind = id.split_once(':').map_or(*id, |(kind, _)| kind);
            json!({"id": id, "kind": kind, "label": label})
        })
        .collect();
    json!({
        "quote": clip.quote,
        "episode_slug": clip.slug,
        "episode_title": clip.title,
        "t_ms": clip.second * 1000,
        "graph_refs": refs,
        "deep_link": format!("/player/{}?t={}", clip.slug, clip.second),
        "source": source,
    })
}

const OWN_HIGHLIGHTS: [Clip; 3] = [
    Clip {
        quote: "A map that shows everything is no use to anyone who is lost.",
        slug: "field-notes-41-the-cartographers",
        title: "The Cartographers’ Quarrel",
        second: 1_284,
        refs: &[("person:ines-okafor", "Inês Okafor"), ("topic:cartography", "Cartography")],
    },
    Clip {
        quote: "We kept the sourdough alive for the same reason we kept the letters: somebody had to be fed next.",
        slug: "slow-kitchen-112-starters",
        title: "Starters & Inheritance",
        second: 655,
        refs: &[("person:marta-lindqvist", "Marta Lindqvist"), ("topic:fermentation", "Fermentation")],
    },
    Clip {
        quote: "Every outage is a story about two people who each thought the other one was watching.",
        slug: "night-shift-7-the-pager",
        title: "The Pager on the Windowsill",
        second: 2_017,
        refs: &[
            ("person:tomasz-wrona", "Tomasz Wrona"),
            ("topic:incident-response", "Incident response"),
            ("topic:shared-attention", "Shared attention"),
        ],
    },
];

const EDITORS_PICKS: [Clip; 3] = [
    Clip {
        quote: "The tide tables were the first spreadsheet that people bet their lives on.",
        slug: "field-notes-44-tide-tables",
        title: "Tide Tables: “High Water at 4:10”",
        second: 412,
        refs: &[("topic:tides", "Tides"), ("topic:forecasting", "Forecasting")],
    },
    Clip {
        quote: "You do not learn a language, you are slowly forgiven in it.",
        slug: "second-tongue-18-forgiven",
        title: "Slowly Forgiven",
        second: 938,
        refs: &[("person:yuki-haddad", "Yuki Haddad"), ("topic:language-learning", "Language learning")],
    },
    Clip {
        quote: "An archive is an argument with people who are not born yet.",
        slug: "stacks-63-what-we-keep",
        title: "What We Keep",
        second: 1_771,
        refs: &[("person:adaeze-brandt", "Adaeze Brandt"), ("topic:archives", "Archives")],
    },
];
