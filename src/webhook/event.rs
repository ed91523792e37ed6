//! What an event of Resend says: whose mail it is about, and what became of it
//! (<https://resend.com/docs/dashboard/webhooks/event-types>).
//!
//! Owns the reading. An event finds its envelope by the tags that the worker has set, so that nothing need be
//! remembered. It must not know who is told.

use serde::Deserialize;
use serde_json::Value;

use crate::channel::confirm::Fate;
use crate::channel::email::envelope_of_tag;
use crate::envelope::EnvelopeId;

/// The tag that names the envelope.
const ENVELOPE: &str = "envelope";

/// What an event comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// This became of that envelope's mail.
    About(EnvelopeId, Fate),
    /// It ends nothing: a mail on its way, an event about something else, or one of tomorrow.
    Open,
    /// It would end something, but its mail is not one of this worker's, or its id cannot be read back.
    Stranger,
    /// It is not Resend's JSON.
    Unreadable,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    tags: Value,
    bounce: Option<Bounce>,
}

#[derive(Deserialize)]
struct Bounce {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// Reads a body whose signature is good.
pub(super) fn read(body: &[u8]) -> Event {
    let Ok(Wire { kind, data }) = serde_json::from_slice::<Wire>(body) else { return Event::Unreadable };
    let fate = match kind.as_str() {
        "email.delivered" | "email.opened" | "email.clicked" => Fate::Delivered,
        "email.bounced" if data.is_permanent() => Fate::Bounced,
        "email.complained" => Fate::Complained,
        "email.suppressed" => Fate::Suppressed,
        "email.failed" => Fate::Failed,
        _ => return Event::Open,
    };
    let envelope = data.tag(ENVELOPE).and_then(envelope_of_tag);
    envelope.map_or(Event::Stranger, |envelope| Event::About(envelope, fate))
}

impl Data {
    /// A mailbox that is full today ends nobody's consent.
    fn is_permanent(&self) -> bool {
        let kind = self.bounce.as_ref().and_then(|bounce| bounce.kind.as_deref());
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case("permanent"))
    }

    /// Tags come as they were sent, a list of names and values, or as an object.
    fn tag(&self, wanted: &str) -> Option<&str> {
        match &self.tags {
            Value::Object(tags) => tags.get(wanted)?.as_str(),
            Value::Array(tags) => {
                tags.iter().find(|tag| tag["name"] == wanted).and_then(|tag| tag["value"].as_str())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, data: Value) -> Event {
        read(json!({"type": kind, "created_at": "x", "data": data}).to_string().as_bytes())
    }

    fn about(kind: &str, more: Value) -> Event {
        let mut data = json!({"email_id": "m-1", "tags": {"envelope": "week_2F31", "template": "digest"}});
        if let Value::Object(more) = more {
            more.into_iter().for_each(|(name, value)| data[name] = value);
        }
        event(kind, data)
    }

    fn week() -> EnvelopeId {
        EnvelopeId::new("week/31").unwrap()
    }

    #[test]
    fn each_event_has_its_meaning_and_finds_its_envelope() {
        for (kind, fate) in [
            ("email.delivered", Fate::Delivered),
            ("email.opened", Fate::Delivered),
            ("email.clicked", Fate::Delivered),
            ("email.complained", Fate::Complained),
            ("email.suppressed", Fate::Suppressed),
            ("email.failed", Fate::Failed),
        ] {
            assert_eq!(about(kind, json!({})), Event::About(week(), fate), "{kind}");
        }
        for kind in [
            "email.sent",
            "email.scheduled",
            "email.delivery_delayed",
            "contact.created",
            "email.of_tomorrow",
        ] {
            assert_eq!(about(kind, json!({})), Event::Open, "{kind}");
        }
    }

    #[test]
    fn only_a_permanent_bounce_is_a_bounce() {
        let bounced = |bounce: Value| about("email.bounced", json!({"bounce": bounce}));
        assert_eq!(
            bounced(json!({"type": "Permanent", "subType": "General"})),
            Event::About(week(), Fate::Bounced)
        );
        for other in [json!({"type": "Transient"}), json!({"type": "Undetermined"}), json!({}), Value::Null] {
            assert_eq!(bounced(other.clone()), Event::Open, "{other}");
        }
    }

    #[test]
    fn tags_are_read_in_either_form_and_what_is_not_ours_is_a_stranger() {
        let listed =
            json!({"tags": [{"name": "category", "value": "x"}, {"name": "envelope", "value": "week_2F31"}]});
        assert_eq!(event("email.complained", listed), Event::About(week(), Fate::Complained));
        for tags in [
            json!(null),
            json!({}),
            json!({"envelope": 7}),
            json!([{"name": "envelope"}]),
            json!({"envelope": "__ab12"}),
            json!({"envelope": "_ZZ"}),
            json!({"envelope": ""}),
        ] {
            assert_eq!(event("email.complained", json!({"tags": tags})), Event::Stranger, "{tags}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body in prop_oneof![proptest::collection::vec(any::<u8>(), 0..80).boxed(),
                                              "\\{\"type\":\"email.[a-z]{4,9}\",\"data\":[\\[\\]{}\":,a-z]{0,40}\\}".prop_map(String::into_bytes).boxed()]) {
            drop(read(&body));
        }
    }
}
