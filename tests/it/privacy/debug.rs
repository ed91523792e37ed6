//! What `{:?}` shows: a type that holds a secret, an address, an endpoint or a payload shows nothing of
//! it, wherever somebody may one day print it.

use std::fmt::Debug;
use std::sync::Arc;

use delivery_worker::channel::email::EmailChannel;
use delivery_worker::channel::push::PushChannel;
use delivery_worker::channel::{Channel, Delivery};
use delivery_worker::config::{Config, Environment};
use delivery_worker::envelope::{Envelope, Reading};
use delivery_worker::outbox::{Element, HttpSeam, Page};
use delivery_worker::render::{Library, Links};
use delivery_worker::sandbox::Subscription;
use delivery_worker::sandbox::examples::nudge;
use delivery_worker::sandbox::push::VapidKeys;
use serde_json::{Value, json};

use super::{MARK, marked};

/// Holds the mark in everything that must stay hidden.
fn environment(vapid_private: &str) -> Environment {
    let settings = [
        ("OUTBOX_BASE_URL", "http://127.0.0.1:1".to_owned()),
        ("INTERNAL_OUTBOX_TOKEN", format!("t0ken-{MARK}")),
        ("APP_ORIGIN", "https://listen.example.com".to_owned()),
        ("RESEND_API_KEY", format!("re_{MARK}_key")),
        ("MAIL_FROM", format!("Digest <digest.{MARK}@mail.example.com>")),
        ("MAIL_REPLY_TO", format!("answers.{MARK}@example.com")),
        ("VAPID_PRIVATE_KEY", vapid_private.to_owned()),
        ("VAPID_SUBJECT", format!("mailto:ops.{MARK}@mail-host.com")),
    ];
    settings.into_iter().collect()
}

fn read(envelope: impl Into<Value>) -> Envelope {
    match Element::new(envelope.into().to_string()).read() {
        Reading::Envelope(envelope) => *envelope,
        other => panic!("not an envelope: {other:?}"),
    }
}

/// A browser's subscription of the worker's own making, whose endpoint bears the mark.
fn browser() -> Subscription {
    let point = VapidKeys::generate().unwrap().public;
    let endpoint = format!("https://push.{MARK}.net/{MARK}");
    let auth = "YXV0aC1hdXRoLWF1dGgtMQ";
    Subscription {
        token: MARK.to_owned(),
        json: json!({"endpoint": endpoint, "keys": {"p256dh": point, "auth": auth}}),
    }
}

#[test]
fn no_debug_output_holds_a_secret_an_address_an_endpoint_or_a_payload() {
    let vapid = VapidKeys::generate().unwrap().private;
    let env = environment(&vapid);
    let (config, _) = Config::read(&env).unwrap();
    let links = Links::new(&config.rendering.app_origin, &config.rendering.unsubscribe_path).unwrap();
    let library = Library::load(None, links).unwrap();
    let json = Value::from(marked("mail"));
    let element = Element::new(json.to_string());
    let (mail, push) = (read(json), read(nudge("push", &browser()).set("/payload/lead/quote", MARK)));
    let shown = |what: &dyn Debug| format!("{what:?}\n{what:#?}");
    let mut all = vec![
        shown(&env),
        shown(&config),
        shown(&element),
        shown(&element.read()),
        shown(&Page { elements: vec![element.clone()], date: None }),
        shown(&mail),
        shown(&push),
        shown(&library),
        shown(&library.current().mail(&mail).unwrap()),
        shown(&library.current().notification(&push).unwrap()),
    ];
    let (email, pushes) = (config.email.unwrap(), config.push.unwrap());
    all.extend([shown(&email), shown(&pushes), shown(&pushes.key), shown(&pushes.subject)]);
    let email = EmailChannel::new(email).unwrap();
    all.push(shown(&email.route(&mail).unwrap()));
    all.push(shown(&PushChannel::new(pushes).unwrap().route(&push).unwrap()));
    all.push(shown(&Delivery {
        envelope: Arc::new(push),
        templates: library.current(),
        now: mail.created_at,
        refused_before: false,
    }));
    all.extend([shown(&config.outbox), shown(&HttpSeam::new(config.outbox).unwrap())]);
    for text in all {
        for private in [MARK, vapid.as_str(), "YXV0aC1hdXRoLWF1dGgtMQ"] {
            assert!(!text.to_lowercase().contains(&private.to_lowercase()), "{private} is in {text}");
        }
    }
}
