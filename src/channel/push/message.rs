//! What the service worker gets: the JSON, cut to fit, and its encryption (RFC 8291, aes128gcm).
//!
//! Owns the payload's form, the cap and the topic. It must not know which words are in it, which is the
//! template's business, nor where it goes, which is the client's.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use unicode_segmentation::UnicodeSegmentation;
use web_push::{ContentEncoding, SubscriptionInfo, WebPushError, WebPushMessageBuilder};

use super::subscription::Subscription;
use crate::envelope::EnvelopeId;
use crate::outcome::{Cause, Detail, Refusal};
use crate::render::Notification;

/// The most bytes of JSON that every push service carries: Mozilla's bridge to Android is the tightest.
pub(super) const PLAINTEXT_CAP: usize = 2815;
/// The bytes of the hash that make a topic: 24 are 32 characters, all that RFC 8030 (5.4) allows, and a
/// length that Apple can decode.
const TOPIC_BYTES: usize = 24;
/// Shows that something was cut.
const ELLIPSIS: &str = "…";

#[derive(Serialize)]
struct Content<'a> {
    title: &'a str,
    body: &'a str,
    url: &'a str,
    tag: &'a str,
}

impl Content<'_> {
    fn json(&self) -> Result<Vec<u8>, Refusal> {
        serde_json::to_vec(self).map_err(|_| {
            Refusal::new(Cause::OurDefect, Detail::fixed("the notification could not be written as JSON"))
        })
    }
}

/// The topic and tag of an envelope: 32 characters of base64url, the same for every attempt and process,
/// so that a second copy replaces the first.
pub fn topic(id: &EnvelopeId) -> String {
    let hash = Sha256::digest(id.as_str());
    BASE64_URL_SAFE_NO_PAD.encode(hash.iter().copied().take(TOPIC_BYTES).collect::<Vec<_>>())
}

/// The JSON of a notification, at most [`PLAINTEXT_CAP`] bytes. What does not fit is cut from the end of
/// the body, then, with no body left, from the end of the title; url and tag stay whole.
///
/// # Errors
/// The url leaves no room for any title.
pub fn plaintext(notification: &Notification, tag: &str) -> Result<Vec<u8>, Refusal> {
    let Notification { title, body, url } = notification;
    let url = url.as_str();
    let whole = Content { title, body, url, tag }.json()?;
    if whole.len() <= PLAINTEXT_CAP {
        return Ok(whole);
    }
    let without_body = Content { title, body: "", url, tag }.json()?;
    if let Some(room) = PLAINTEXT_CAP.checked_sub(without_body.len()) {
        let body = cut(body, room).unwrap_or_default();
        return Content { title, body: &body, url, tag }.json();
    }
    let without_words = Content { title: "", body: "", url, tag }.json()?;
    match PLAINTEXT_CAP.checked_sub(without_words.len()).and_then(|room| cut(title, room)) {
        Some(title) => Content { title: &title, body: "", url, tag }.json(),
        None => {
            let detail =
                format!("{} bytes without title and body, over {PLAINTEXT_CAP}", without_words.len());
            Err(Refusal::new(Cause::TooLarge, Detail::scrub(&detail, &[])))
        }
    }
}

/// The start of `text` and an ellipsis, in `room` bytes of JSON. Characters as readers see them stay whole
/// if one fits at all. `None` if there is no room for one character.
fn cut(text: &str, room: usize) -> Option<String> {
    let room = room.checked_sub(ELLIPSIS.len())?;
    let end = match fitting(text.graphemes(true), room) {
        0 => fitting(text.split_inclusive(|_| true), room),
        end => end,
    };
    let start = text.get(..end).filter(|start| !start.is_empty())?;
    Some(format!("{}{ELLIPSIS}", start.trim_end()))
}

/// The length of the longest run of `pieces` whose JSON takes at most `room` bytes.
fn fitting<'a>(pieces: impl Iterator<Item = &'a str>, room: usize) -> usize {
    let (mut end, mut taken) = (0, 0);
    for piece in pieces {
        taken += escaped_len(piece);
        if taken > room {
            break;
        }
        end += piece.len();
    }
    end
}

/// The bytes that `text` takes inside a JSON string.
fn escaped_len(text: &str) -> usize {
    const QUOTES: usize = 2;
    serde_json::to_string(text).map_or(usize::MAX / 2, |json| json.len() - QUOTES)
}

/// Encrypts for `subscription`. Each call draws a new salt and sender key (RFC 8291, 3.1).
///
/// # Errors
/// The cryptographic library fails; the keys have been checked before.
pub(super) fn encrypt(subscription: &Subscription, plaintext: &[u8]) -> Result<Vec<u8>, WebPushError> {
    let info = SubscriptionInfo { endpoint: SAFE_ENDPOINT.to_owned(), keys: subscription.keys().clone() };
    let mut builder = WebPushMessageBuilder::new(&info);
    builder.set_payload(ContentEncoding::Aes128Gcm, plaintext);
    builder.build()?.payload.map(|payload| payload.content).ok_or(WebPushError::Unspecified)
}

/// Given to the crate, which panics on an endpoint without scheme or host. It sends nothing, so that any
/// endpoint will do.
pub(super) const SAFE_ENDPOINT: &str = "https://push.invalid/";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use url::Url;

    use super::super::testing::{Receiver, envelope_for, notification};
    use super::*;

    const TAG: &str = "0123456789abcdef0123456789abcdef";

    fn fit(title: &str, body: &str, url: &str) -> Result<(usize, Value), Refusal> {
        let notification =
            Notification { title: title.to_owned(), body: body.to_owned(), url: Url::parse(url).unwrap() };
        let bytes = plaintext(&notification, TAG)?;
        Ok((bytes.len(), serde_json::from_slice(&bytes).unwrap()))
    }

    /// A body that makes the JSON `length` bytes long.
    fn body_for(length: usize) -> String {
        "b".repeat(length - fit("t", "", "https://app.test/").unwrap().0)
    }

    /// Case 24: to the byte.
    #[test]
    fn what_fits_to_the_byte_is_sent_whole_and_one_byte_more_is_cut() {
        let body = body_for(PLAINTEXT_CAP);
        assert_eq!(fit("t", &body, "https://app.test/").unwrap().1["body"], body);
        for length in [2816, 3053] {
            let (sent, content) = fit("t", &body_for(length), "https://app.test/").unwrap();
            assert_eq!(sent, PLAINTEXT_CAP);
            assert!(content["body"].as_str().unwrap().ends_with("b…"));
        }
    }

    /// Case 14: a body of 40 KB is cut to fit.
    /// Case 24: 2,815, 2,816 and 3,053 bytes.
    #[test]
    fn bodies_of_the_sizes_at_which_services_differ_are_sent() {
        for length in [2815, 2816, 3053, 40_000] {
            let (sent, content) = fit("title", &"x".repeat(length), "https://app.test/").unwrap();
            assert_eq!(sent, PLAINTEXT_CAP);
            assert_eq!(content["title"], "title");
            assert_eq!(content["tag"], TAG);
        }
    }

    /// Case 24: a title of a thousand emoji.
    #[test]
    fn a_title_of_a_thousand_emoji_is_cut_between_two_of_them() {
        let (sent, content) = fit(&"👩‍👧".repeat(1000), "body", "https://app.test/player/x?t=1").unwrap();
        assert!(sent <= PLAINTEXT_CAP && sent > PLAINTEXT_CAP - "👩‍👧".len());
        let title = content["title"].as_str().unwrap().strip_suffix('…').unwrap();
        assert!(title.graphemes(true).all(|emoji| emoji == "👩‍👧"));
        assert_eq!(content["body"], "");
        assert_eq!(content["url"], "https://app.test/player/x?t=1");
    }

    /// Case 24: a URL of 2,000 characters is sent, one that does not fit is failed.
    #[test]
    fn a_long_url_costs_the_body_and_a_longer_one_the_message() {
        let long = format!("https://app.test/{}", "u".repeat(2000));
        let (sent, content) = fit("title", &"x".repeat(3000), &long).unwrap();
        assert_eq!((sent, content["url"].as_str()), (PLAINTEXT_CAP, Some(long.as_str())));
        let refusal = fit("title", "", &format!("https://app.test/{}", "u".repeat(3000))).unwrap_err();
        assert_eq!(refusal.cause, Cause::TooLarge);
        assert!(refusal.detail.as_str().contains("bytes without title and body"), "{}", refusal.detail);
    }

    #[test]
    fn a_character_larger_than_the_room_is_cut_itself() {
        let (sent, content) = fit("t", &format!("a{}", "\u{301}".repeat(2000)), "https://app.test/").unwrap();
        assert!(sent <= PLAINTEXT_CAP && content["body"].as_str().unwrap().starts_with("a\u{301}"));
    }

    #[test]
    fn the_topic_is_of_the_id_alone_and_of_a_form_that_every_service_takes() {
        let id = EnvelopeId::new("a/b?c#d %é").unwrap();
        assert_eq!(topic(&id), topic(&id.clone()));
        assert_eq!(topic(&id).len(), 32);
        assert!(topic(&id).bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_ne!(topic(&id), topic(&EnvelopeId::new("other").unwrap()));
        // sha256("abc") begins ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c (FIPS 180-2).
        assert_eq!(topic(&EnvelopeId::new("abc").unwrap()), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qc");
    }

    #[test]
    fn what_is_encrypted_is_read_by_the_receiver_alone() {
        let receiver = Receiver::new();
        let subscription =
            Subscription::of(&envelope_for(&receiver.subscription("https://push.example.net/x")), false)
                .unwrap();
        let text = plaintext(&notification(), TAG).unwrap();
        let (one, other) = (encrypt(&subscription, &text).unwrap(), encrypt(&subscription, &text).unwrap());
        assert_eq!(receiver.decrypt(&one).unwrap(), text);
        assert_eq!(receiver.decrypt(&other).unwrap(), text);
        assert_ne!(one, other, "a new salt and key each time");
        assert_eq!(Receiver::new().decrypt(&one), None);
        let read: Value = serde_json::from_slice(&text).unwrap();
        let Notification { title, body, url } = notification();
        assert_eq!(read, json!({"title": title, "body": body, "url": url.as_str(), "tag": TAG}));
    }

    proptest! {
        #[test]
        fn a_message_never_exceeds_the_cap_and_cuts_only_ends(
            (title, title_times) in ("[\\s\\S]{1,6}", 0_usize..400),
            (body, body_times) in ("[\\s\\S]{1,6}", 0_usize..900),
            path in 0_usize..2900,
        ) {
            let (title, body) = (title.repeat(title_times), body.repeat(body_times));
            let url = format!("https://app.test/{}", "u".repeat(path));
            if let Ok((sent, content)) = fit(&title, &body, &url) {
                prop_assert!(sent <= PLAINTEXT_CAP);
                prop_assert_eq!(content["url"].as_str(), Some(url.as_str()));
                for (whole, field) in [(&title, "title"), (&body, "body")] {
                    let sent = content[field].as_str().unwrap();
                    prop_assert!(sent == whole || whole.starts_with(sent.strip_suffix('…').unwrap_or_default()));
                }
            } else {
                prop_assert!(path > 2600);
            }
        }
    }
}
