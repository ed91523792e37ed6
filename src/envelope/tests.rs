use super::*;
use proptest::prelude::*;
use serde_json::json;

fn whole() -> Value {
    json!({
        "schema_version": "1", "id": "e-1", "user_id": "u-1", "channel": "email",
        "template": "your-week-digest.v1",
        "recipient": {"email": "ann@example.test", "email_verified": null},
        "consent_snapshot": {"cadence": "weekly", "unsubscribe_ref": "r-1"},
        "payload": {"sections": []}, "not_before": null,
        "created_at": "2026-08-03T06:00:00+02:00", "unknown": {"x": 1}
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut envelope = whole();
    envelope[field] = value;
    envelope
}

fn without(field: &str) -> Value {
    let mut envelope = whole();
    envelope.as_object_mut().unwrap().remove(field);
    envelope
}

fn field_named(element: &Value) -> String {
    match read(&element.to_string()) {
        Reading::Malformed { error, .. } => error.field,
        other => panic!("expected a malformed envelope, got {other:?}"),
    }
}

#[test]
fn a_whole_envelope_is_read_whatever_else_it_holds() {
    let Reading::Envelope(envelope) = read(&whole().to_string()) else { panic!("not an envelope") };
    assert_eq!(envelope.id.as_str(), "e-1");
    assert_eq!(envelope.created_at.to_rfc3339(), "2026-08-03T04:00:00+00:00");
    assert_eq!(envelope.not_before, None);
    assert_eq!(envelope.template.family(), "your-week-digest");
}

#[test]
fn a_malformed_envelope_names_its_field() {
    for field in [
        "user_id",
        "channel",
        "template",
        "recipient",
        "consent_snapshot",
        "payload",
        "created_at",
        "schema_version",
    ] {
        assert_eq!(field_named(&without(field)), field);
        assert_eq!(field_named(&with(field, Value::Null)), field, "null reads as absent");
    }
    assert_eq!(field_named(&with("user_id", json!(7))), "user_id");
    assert_eq!(field_named(&with("template", json!(""))), "template");
    assert_eq!(field_named(&with("consent_snapshot", json!({}))), "consent_snapshot.unsubscribe_ref");
    assert_eq!(field_named(&with("created_at", json!("2026-08-03T06:00:00"))), "created_at", "no offset");
    assert_eq!(field_named(&with("expires_at", json!("tomorrow"))), "expires_at");
}

#[test]
fn another_schema_version_is_left_for_another_build() {
    for version in [json!("2"), json!("1.1"), json!(1)] {
        assert!(matches!(read(&with("schema_version", version).to_string()), Reading::Unreadable { .. }));
    }
}

#[test]
fn an_element_without_a_usable_id_is_unnamed() {
    for element in [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        without("id"),
        with("id", json!(4)),
        with("id", json!("")),
        with("id", json!("..")),
    ] {
        assert!(matches!(read(&element.to_string()), Reading::Unnamed { .. }), "{element}");
    }
}

#[test]
fn an_id_is_as_long_as_a_path_can_carry_it() {
    for (longest, one_more) in [("x".repeat(7_000), "x"), ("é".repeat(1_166), "é")] {
        assert!(EnvelopeId::new(longest.clone()).is_ok());
        let element = with("id", json!(longest + one_more));
        assert!(matches!(read(&element.to_string()), Reading::Unnamed { .. }));
    }
}

#[test]
fn nothing_personal_is_in_debug_or_in_an_error() {
    let marker = "marker@example.test";
    let envelope = with("recipient", json!({"email": marker}));
    assert!(!format!("{:?}", read(&envelope.to_string())).contains(marker));
    let bad = with("created_at", json!(marker));
    assert!(!format!("{:?}", read(&bad.to_string())).contains(marker));
}

/// All of it, which `Debug` does not show.
fn fields(envelope: &Envelope) -> impl PartialEq + std::fmt::Debug + use<> {
    let Envelope { id, user_id, channel, template, recipient, consent, payload, .. } = envelope.clone();
    let times = (envelope.not_before, envelope.expires_at, envelope.created_at);
    let unsubscribe = consent.unsubscribe_ref.expose().to_owned();
    let words = (id, user_id, channel, template, consent.cadence, unsubscribe);
    (words, recipient.0, payload.0, times)
}

fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), any::<f64>().prop_map(Value::from)];
    let date =
        "[+-]?[0-9]{4,6}-(02|12)-[0-9]{2}T[0-9]{2}:59:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})";
    let text = prop_oneof!["[\\s\\S]{0,20}", date].prop_map(Value::from);
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let fields = proptest::collection::hash_map("[a-z_]{1,9}", inner, 0..4);
        prop_oneof![list, fields.prop_map(|fields| Value::Object(fields.into_iter().collect()))]
    })
}

proptest! {
    #[test]
    fn no_value_of_a_field_panics_and_what_is_wrong_is_said_of_that_field(at: proptest::sample::Index, value in any_json()) {
        let names: Vec<String> = whole().as_object().unwrap().keys().cloned().collect();
        let name = at.get(&names);
        match read(&with(name, value).to_string()) {
            Reading::Malformed { error, .. } => prop_assert!(error.field.starts_with(name.as_str()), "{error}"),
            Reading::Unnamed { .. } => prop_assert_eq!(name, "id"),
            Reading::Unreadable { version, .. } => prop_assert!(version.as_str().len() <= 1000),
            Reading::Envelope(envelope) => prop_assert!(!envelope.id.as_str().is_empty()),
        }
    }

    /// What is whole is read the short way, and comes to the same.
    #[test]
    fn with_care_or_without_an_envelope_is_the_same(at: proptest::sample::Index, value in any_json()) {
        let names: Vec<String> = whole().as_object().unwrap().keys().cloned().collect();
        let name = at.get(&names);
        let element = with(name, value).to_string();
        match (read(&element), read_with_care(&element)) {
            (Reading::Envelope(short), Reading::Envelope(careful)) => {
                prop_assert_eq!(fields(&short), fields(&careful));
            }
            (short, careful) => prop_assert_eq!(format!("{short:?}"), format!("{careful:?}")),
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\s\\S]{0,200}") {
        read(&text);
    }

    #[test]
    fn a_family_is_a_prefix_of_its_name(name in "[a-z.v0-9-]{1,20}") {
        let template = TemplateName::new(name.clone());
        prop_assert!(name.starts_with(template.family()));
    }
}

proptest! {
    /// Payloads wait as text: what was readable once is so again, and says the same.
    #[test]
    fn a_payload_is_read_again_as_it_was_written(bits: u64, whole: i64) {
        let float = f64::from_bits(bits);
        let numbers = [float, -float, f64::MAX, f64::MIN_POSITIVE, 5e-324, 0.1 + 0.2, 1e23];
        for number in numbers.into_iter().filter(|number| number.is_finite()) {
            let content = json!({"number": number, "whole": whole, "text": "\u{0}\u{2028}\"\\ä🙂"});
            let content = content.as_object().unwrap();
            prop_assert_eq!(&Payload::new(content).read(), content);
        }
    }
}
