//! Push services that mean harm: anyone may name one, and 32 workers may stand before them at once.

use std::time::Duration;

use super::*;
use crate::http::BODY_CAP;
use crate::http::hostile::{BODIES, HEADS, PRELUDES, Peer};

const SHORT: Duration = Duration::from_millis(300);

fn hurried() -> PushChannel {
    let settings = Settings { allow_private_endpoints: true, ..settings() };
    let builder = http::client_builder().timeout(SHORT);
    PushChannel::over(builder, settings, Script::of(&[])).unwrap()
}

async fn answered_by(peer: &Peer, channel: &PushChannel) -> (Outcome, Cause) {
    let attempt = send(channel, &format!("{}/x", peer.base)).await;
    (attempt.outcome, attempt.cause)
}

fn unclear(cause: Cause) -> (Outcome, Cause) {
    (Outcome::Unclear { after: None }, cause)
}

fn accepted() -> (Outcome, Cause) {
    (Outcome::Delivered { provider_id: None }, Cause::Accepted)
}

#[tokio::test]
async fn a_body_without_end_is_cut_at_its_cap_and_the_status_has_said_it_all() {
    for flood in &BODIES {
        let peer = Peer::flooding(flood).await;
        assert_eq!(answered_by(&peer, &channel(true, &[])).await, accepted(), "{}", flood.what);
        peer.was_cut_at(BODY_CAP, flood.what).await;
    }
}

#[tokio::test]
async fn a_head_without_end_is_no_answer() {
    for flood in &HEADS {
        let peer = Peer::flooding(flood).await;
        let came = answered_by(&peer, &channel(true, &[])).await;
        assert_eq!(came, unclear(Cause::Reset), "{}", flood.what);
        peer.was_cut_at(0, flood.what).await;
    }
}

#[tokio::test]
async fn the_deadline_is_of_the_whole_exchange_and_not_of_each_byte() {
    for (head, expected) in [
        ("HTTP/1.1 201 ", unclear(Cause::Timeout)),
        ("HTTP/1.1 201 Created\r\nx-slow: ", unclear(Cause::Timeout)),
        ("HTTP/1.1 201 Created\r\ncontent-length: 60000\r\n\r\n", accepted()),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 60000\r\n\r\n", (Outcome::Bounced, Cause::SubscriptionGone)),
    ] {
        let peer = Peer::trickling(head).await;
        assert_eq!(answered_by(&peer, &hurried()).await, expected, "{head:?}");
        peer.was_cut_at(0, head).await;
    }
    for flood in &PRELUDES {
        let peer = Peer::flooding(flood).await;
        assert_eq!(answered_by(&peer, &hurried()).await, unclear(Cause::Timeout), "{}", flood.what);
    }
}
