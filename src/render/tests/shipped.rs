//! The two templates that ship.

use super::*;
use proptest::prelude::*;

#[test]
fn the_shipped_messages_look_as_they_did() {
    for (name, _) in TEMPLATES {
        let mail = mail(&example(name));
        insta::assert_snapshot!(format!("{name}.subject"), mail.subject);
        insta::assert_snapshot!(format!("{name}.html"), mail.html);
        insta::assert_snapshot!(format!("{name}.text"), mail.text);
        let push = notification(&example(name));
        insta::assert_snapshot!(
            format!("{name}.push"),
            format!("{}\n{}\n{}", push.title, push.body, push.url)
        );
    }
}

#[test]
fn every_item_is_shown_whole_in_both_parts() {
    let envelope = digest();
    let mail = mail(&envelope);
    let links = hrefs(&mail.html);
    for section in envelope["payload"]["sections"].as_array().unwrap() {
        for item in section["items"].as_array().unwrap() {
            for field in ["quote", "episode_title"] {
                let Some(words) = item[field].as_str() else { continue };
                assert!(mail.text.contains(words), "{words}");
                assert!(mail.html.contains(&text::escape_html(words).replace('\n', "<br>")), "{words}");
            }
            for reference in item["graph_refs"].as_array().unwrap() {
                let id = reference["id"].as_str().unwrap().replace(':', "%3A");
                let link = format!("https://app.test/{}/{id}", reference["kind"].as_str().unwrap());
                assert!(links.contains(&link) && mail.text.contains(&link), "{link}");
                assert!(mail.html.contains(reference["label"].as_str().unwrap()));
            }
            let link = format!("https://app.test{}", item["deep_link"].as_str().unwrap());
            assert!(links.contains(&link) && mail.text.contains(&link), "{link}");
        }
    }
    assert!(mail.text.contains("Listen from 12:34"));
}

#[test]
fn a_reader_can_tell_a_capture_of_their_own_from_a_pick_in_words() {
    for (source, words) in [
        (json!("user"), "Your highlight"),
        (json!("auto"), "Editor's pick"),
        (json!("curator-9"), "Highlight"),
        (Value::Null, "Highlight"),
    ] {
        for envelope in showing(&item_with("source", source)) {
            let mail = mail(&envelope);
            let push = notification(&envelope);
            assert!(mail.text.contains(&format!("\n{words} from ")), "{}", mail.text);
            assert!(mail.html.contains(&format!(">{}<", text::escape_html(words))), "{}", mail.html);
            assert!(push.body.starts_with(&format!("{words} · ")), "{}", push.body);
        }
    }
}

#[test]
fn a_digest_says_which_days_it_is_of_in_utc() {
    for (cadence, created_at, period) in [
        ("weekly", "2026-08-03T06:00:00Z", "Jul 28 – Aug 3"),
        ("weekly", "2026-08-04T05:00:00+14:00", "Jul 28 – Aug 3"),
        ("weekly", "2026-01-03T23:00:00-05:00", "Dec 29, 2025 – Jan 4, 2026"),
        ("daily", "2026-08-03T06:00:00Z", "Aug 3"),
        ("hourly", "2026-08-03T06:00:00Z", "Aug 3"),
    ] {
        let mut envelope = digest();
        envelope["consent_snapshot"]["cadence"] = json!(cadence);
        envelope["created_at"] = json!(created_at);
        let mail = mail(&envelope);
        assert!(mail.html.contains(&format!(">{period}</p>")), "{}", mail.html);
        assert_eq!(mail.text.lines().nth(3), Some(period));
    }
}

#[test]
fn an_unknown_cadence_or_section_kind_reads_neutrally() {
    for (cadence, title) in [
        (json!("weekly"), "Your week"),
        (json!("daily"), "Your day"),
        (json!("hourly"), "Your digest"),
        (json!("other"), "Your digest"),
        (Value::Null, "Your digest"),
    ] {
        let mut envelope = digest();
        envelope["consent_snapshot"]["cadence"] = cadence;
        let subject = format!("{title}: 4 moments, starting with “The Long Middle”");
        assert_eq!(mail(&envelope).subject, subject);
        assert_eq!(notification(&envelope).title, subject);
    }
    for (kind, heading) in [
        ("revisit", "Worth revisiting"),
        ("new_in_follows", "New in what you follow"),
        ("trending_in_your_corpus", "Trending in your library"),
        ("on_this_day", "More for you"),
    ] {
        let mut envelope = digest();
        envelope["payload"]["sections"][0]["kind"] = json!(kind);
        let mail = mail(&envelope);
        assert!(mail.html.contains(heading) && mail.text.contains(heading), "{kind}");
    }
}

/// Case 9: field, place and template are named.
#[test]
fn a_missing_required_field_is_named_with_the_template_and_the_place() {
    for field in ["episode_slug", "deep_link", "graph_refs"] {
        for (envelope, place) in
            showing(&item_with(field, Value::Null)).iter().zip(["sections[0].items[0]", "lead"])
        {
            for refusal in refusals(envelope) {
                let template = envelope["template"].as_str().unwrap();
                assert_eq!(refusal.cause, Cause::PayloadInvalid);
                let sentence = format!("{field}: is missing in {place} (template {template})");
                assert_eq!(refusal.detail.as_str(), sentence);
            }
        }
    }
    let mut envelope = nudge();
    envelope["payload"]["highlight_count"] = Value::Null;
    for refusal in refusals(&envelope) {
        let sentence = "highlight_count: is missing in the payload (template resurface-nudge.v1)";
        assert_eq!(refusal.detail.as_str(), sentence);
    }
}

#[test]
fn an_empty_or_flat_payload_is_refused() {
    let mut no_items = digest();
    no_items["payload"]["sections"][1]["items"] = json!([]);
    let mut no_sections = digest();
    no_sections["payload"]["sections"] = json!([]);
    let no_refs = digest_of(vec![item(), item_with("graph_refs", json!([]))]);
    let strange = json!([{"kind": "show", "id": "show:1"}, {"kind": "mood"}]);
    let no_known_refs = digest_of(vec![item_with("graph_refs", strange)]);
    let unlabelled = digest_of(vec![item_with("graph_refs", json!([{"kind": "topic", "id": "topic:x"}]))]);
    let null_item = digest_of(vec![item(), Value::Null]);
    for (envelope, sentence) in [
        (no_items, "items: is empty in sections[1]"),
        (no_sections, "sections: is empty in the payload"),
        (no_refs, "graph_refs: is empty in sections[0].items[1]"),
        (no_known_refs, "graph_refs: holds no reference to a person or topic in sections[0].items[0]"),
        (unlabelled, "label: is missing in sections[0].items[0].graph_refs[0]"),
        (null_item, "items[1]: is of the wrong type in sections[0]"),
    ] {
        for refusal in refusals(&envelope) {
            assert_eq!(refusal.cause, Cause::PayloadInvalid);
            assert_eq!(refusal.detail.as_str(), format!("{sentence} (template your-week-digest.v1)"));
        }
    }
}

#[test]
fn references_of_an_unknown_kind_are_left_out_and_the_others_stay() {
    let refs = json!([{"kind": "show", "id": 7}, {"kind": "topic", "id": "topic:soil", "label": "Soil"}, {"kind": "x"}]);
    for envelope in showing(&item_with("graph_refs", refs)) {
        let mail = mail(&envelope);
        assert!(mail.text.contains("\nSoil:\nhttps://app.test/topic/topic%3Asoil\n"));
        assert_eq!(hrefs(&mail.html).iter().filter(|link| link.contains("/topic/")).count(), 1);
        assert!(notification(&envelope).body.contains(" · Soil: “"));
    }
}

/// Case 9: optional ones, null or absent.
#[test]
fn optional_fields_may_be_null_or_absent_in_any_combination() {
    let optional = ["quote", "episode_title", "t_ms", "source"];
    for chosen in 0..(1 << optional.len()) {
        for gone in [true, false] {
            let mut item = item();
            for (_, field) in optional.iter().enumerate().filter(|(bit, _)| chosen & (1 << bit) != 0) {
                item[*field] = Value::Null;
                if gone {
                    item.as_object_mut().unwrap().remove(*field);
                }
            }
            for envelope in showing(&item) {
                let mail = mail(&envelope);
                assert!(!mail.html.contains("“”") && !mail.text.contains("null"));
                notification(&envelope);
            }
        }
    }
}

/// Case 10.
#[test]
fn markup_is_as_typed_in_plain_outputs_and_escaped_once_in_html() {
    let title = "O'Neil & <b>Sons</b>";
    let mut item = item_with("episode_title", json!(title));
    item["deep_link"] = json!("/ok?a=1&b=2");
    for envelope in showing(&item) {
        let (mail, push) = (mail(&envelope), notification(&envelope));
        for plain in [&mail.subject, &mail.text, &push.title, &push.body] {
            assert!(plain.contains(title), "{plain}");
        }
        assert!(mail.html.contains("O&#39;Neil &amp; &lt;b&gt;Sons&lt;/b&gt;"));
        assert!(!mail.html.contains("<b>") && !mail.html.contains("&amp;amp;"));
        assert!(mail.html.contains("href=\"https://app.test/ok?a=1&amp;b=2\""));
        assert!(mail.text.contains("https://app.test/ok?a=1&b=2"));
        assert_eq!(push.url.as_str(), "https://app.test/ok?a=1&b=2");
    }
}

/// Case 11: each single-line output is one line.
#[test]
fn line_ends_in_a_title_break_no_header_and_stay_in_a_quote() {
    let mut item = item_with("episode_title", json!("a\r\nBcc: x@y.test\u{2028}\t\tb"));
    item["quote"] = json!("one\n    two\r\nthree");
    for envelope in showing(&item) {
        let (mail, push) = (mail(&envelope), notification(&envelope));
        for line in [&mail.subject, &push.title, &push.body] {
            assert!(line.contains("a Bcc: x@y.test b"), "{line}");
            assert_eq!(&text::one_line(line), line);
        }
        assert!(mail.text.contains("\n“one\n    two\nthree”\n"), "{}", mail.text);
        assert!(mail.html.contains("“one<br>    two<br>three”"));
    }
}

/// Case 12: all fail but the last, which is escaped.
#[test]
fn a_deep_link_off_the_origin_fails_the_envelope_wherever_the_item_stands() {
    for link in [
        "@evil.test/x",
        "//evil.test/x",
        "\\\\evil.test\\x",
        "/\\evil.test",
        "https://evil.test/x",
        "javascript:alert(1)",
        "/\t/evil.test/x",
    ] {
        let bad = item_with("deep_link", json!(link));
        let [digest, nudge] = showing(&bad);
        for envelope in [digest, nudge, digest_of(vec![item(), bad])] {
            for refusal in refusals(&envelope) {
                assert_eq!(refusal.cause, Cause::PayloadInvalid, "{link}");
                assert!(refusal.detail.as_str().starts_with("deep_link: must begin with exactly one /"));
                assert!(!refusal.detail.as_str().contains("evil"));
            }
        }
    }
    let envelope = digest_of(vec![item_with("deep_link", json!("/ok?x=\" onclick=\""))]);
    assert!(hrefs(&mail(&envelope).html).contains(&"https://app.test/ok?x=%22%20onclick=%22".to_owned()));
}

#[test]
fn the_unsubscribe_link_is_one_and_the_same_everywhere() {
    let mut envelope = digest();
    envelope["consent_snapshot"]["unsubscribe_ref"] = json!("a/b&c=d é");
    let mail = mail(&envelope);
    let link = "https://app.test/api/app/comms/unsubscribe?ref=a%2Fb%26c%3Dd%20%C3%A9";
    assert_eq!(mail.unsubscribe.as_str(), link);
    assert!(hrefs(&mail.html).contains(&link.to_owned()));
    assert!(mail.text.contains(&format!("\nUnsubscribe:\n{link}\n")));
}

/// Case 14: a quote of 40 KB, and 400 items.
#[test]
fn a_long_quote_is_sent_whole_and_a_mail_over_the_limit_fails_with_its_size() {
    let quote = "wörds ".repeat(40_000 / 7);
    let envelope = digest_of(vec![item_with("quote", json!(quote.trim_end()))]);
    assert!(mail(&envelope).html.contains(quote.trim_end()));
    assert!(notification(&envelope).body.contains(quote.trim_end()));

    let near = digest_of(vec![item_with("quote", json!("word ".repeat(18_600))); 1]);
    assert!(mail(&near).nearly_too_large().is_some_and(|bytes| bytes > NEAR_MAIL_BYTES));
    assert_eq!(mail(&envelope).nearly_too_large(), None);

    let many = digest_of(vec![item(); 400]);
    let refusal = shipped().mail(&read(&many)).unwrap_err();
    assert_eq!(refusal.cause, Cause::TooLarge);
    let size: usize = refusal.detail.as_str().split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(size > MAX_MAIL_BYTES, "{}", refusal.detail);
    assert!(notification(&many).title.starts_with("Your week: 400 moments"));
}

#[test]
fn one_and_many_are_counted_as_one_says_them() {
    let mut envelope = nudge();
    for (count, words) in [
        (json!(1), "1 highlight is waiting for you."),
        (json!(2.0), "2 highlights are waiting for you."),
        (json!(12345), "12345 highlights are waiting for you."),
    ] {
        envelope["payload"]["highlight_count"] = count;
        let mail = mail(&envelope);
        assert!(mail.text.contains(words) && mail.html.contains(words), "{}", mail.text);
    }
}

#[test]
fn nothing_of_a_message_is_in_its_debug_form() {
    let shown = format!("{:?} {:?} {:?}", mail(&nudge()), notification(&nudge()), shipped());
    assert_eq!(shown, "Mail(…) Notification(…) {\"resurface-nudge.v1\", \"your-week-digest.v1\"}");
}

/// The same JSON with the fields of each object turned round by `turn`.
fn shuffled(value: &Value, turn: usize) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", json!(name), shuffled(value, turn)))
                .collect();
            let length = fields.len().max(1);
            fields.rotate_left(turn % length);
            if turn % 2 == 1 {
                fields.reverse();
            }
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| shuffled(item, turn)).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// The places of all values in `value`, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, inner)| places(inner, &format!("{at}/{name}"), found))
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, inner)| places(inner, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Case 13: keys in any order.
    #[test]
    fn the_order_of_keys_and_unknown_fields_change_no_byte(turn in 0usize..40, which in 0usize..2) {
        let mut envelope = example(TEMPLATES[which].0);
        let expected = mail(&envelope);
        envelope["payload"]["unknown"] = json!({"deep": [{"quote": "x"}], "this": 1, "@root": {}});
        envelope["zzz"] = json!(1);
        let Reading::Envelope(again) = envelope::read(&shuffled(&envelope, turn)) else { panic!("no envelope") };
        let again = shipped().mail(&again).unwrap();
        prop_assert!(again == expected);
    }

    /// Case 12: no message ever links off the origin.
    #[test]
    fn no_message_links_off_the_origin_and_no_data_becomes_markup(words in "[\\s\\S]{1,40}", link in "[\\s\\S]{0,20}") {
        let mut item = item();
        for field in ["quote", "episode_title", "episode_slug", "source"] {
            item[field] = json!(format!("<a href=\"https://evil.test\">{words}"));
        }
        item["graph_refs"] = json!([{"kind": "topic", "id": format!("topic:{words}"), "label": format!("\"><i>{words}")}]);
        item["deep_link"] = json!(format!("/{link}"));
        for envelope in showing(&item) {
            let (set, envelope) = (shipped(), read(&envelope));
            let Ok(mail) = set.mail(&envelope) else { continue };
            for link in hrefs(&mail.html) {
                prop_assert!(link.starts_with("https://app.test/"), "{}", link);
            }
            let tags = |html: &str| html.matches('<').count();
            let breaks = mail.html.matches("<br>").count();
            let plain = super::mail(&nudge());
            if envelope.template.as_str() == "resurface-nudge.v1" {
                let expected = tags(&plain.html) - plain.html.matches("<br>").count();
                // The sample has one reference more, which is an anchor that opens and closes.
                prop_assert_eq!(tags(&mail.html) - breaks, expected - 2);
            }
            prop_assert!(set.notification(&envelope).unwrap().url.as_str().starts_with("https://app.test/"));
        }
    }

    #[test]
    fn a_poisoned_field_panics_nowhere_and_shows_in_no_refusal(at in any::<proptest::sample::Index>(), which in 0usize..2,
                                                              poison_of in 0usize..6) {
        let mut envelope = example(TEMPLATES[which].0);
        let mut found = Vec::new();
        places(&envelope["payload"], "", &mut found);
        let poison = [json!("m4rker\r\n<x>&"), json!(["m4rker"]), json!({"m4rker": "m4rker"}), json!(-1), json!(true), Value::Null];
        let place = format!("/payload{}", found[at.index(found.len())]);
        *envelope.pointer_mut(&place).unwrap() = poison[poison_of].clone();
        if let Reading::Envelope(envelope) = envelope::read(&envelope.to_string()) {
            for refusal in [shipped().mail(&envelope).err(), shipped().notification(&envelope).err()].into_iter().flatten() {
                prop_assert!(!refusal.detail.as_str().contains("m4rker"), "{}", refusal.detail);
                prop_assert!(matches!(refusal.cause, Cause::PayloadInvalid | Cause::RenderFailed));
            }
        }
    }
}
