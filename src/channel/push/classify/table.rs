//! What push services' answers mean, as rows: held against the code by the tests beside this file, and
//! against `docs/outcomes.md` by the channels' tests.

use std::time::Duration;

use super::super::endpoint::Endpoint;
use crate::outcome::Cause::{self, *};
use crate::outcome::Outcome::{self, Bounced, Failed};
use crate::outcome::Scope;

pub(super) const FCM: &str = "https://fcm.googleapis.com/fcm/send/cAfeBabe01";
pub(super) const MOZILLA: &str = "https://updates.push.services.mozilla.com/wpush/v2/cAfeBabe01";
pub(super) const APPLE: &str = "https://web.push.apple.com/cAfeBabe01";
pub(super) const WINDOWS: &str = "https://db5p.notify.windows.com/w/?token=cAfeBabe01";
pub(super) const OTHER: &str = "https://push.example.net/cAfeBabe01";

const DELIVERED: Outcome = Outcome::Delivered { provider_id: None };
const RETRY: Outcome = Outcome::Retry { after: None };
const SPACED: Outcome = Outcome::Retry { after: Some(Duration::from_secs(1)) };
const UNCLEAR: Outcome = Outcome::Unclear { after: None };
const HOLD: Outcome = Outcome::Pause { scope: Scope::Destination, after: None };
const WAIT: Outcome = Outcome::Pause { scope: Scope::Destination, after: Some(Duration::from_secs(1)) };

/// What a status means where the service says no more.
pub(in crate::channel) const EVERY_SERVICE: &[(u16, Outcome, Cause)] = &[
    (100, RETRY, UnexpectedAnswer),
    (200, DELIVERED, Accepted),
    (201, DELIVERED, Accepted),
    (202, DELIVERED, Accepted),
    (299, DELIVERED, Accepted),
    (301, Failed, EndpointForbidden),
    (307, Failed, EndpointForbidden),
    (400, Failed, Refused),
    (401, HOLD, PushCredential),
    (402, RETRY, UnexpectedAnswer),
    (403, HOLD, PushCredential),
    (404, Bounced, SubscriptionGone),
    (405, HOLD, EndpointBlocked),
    (406, Failed, Refused),
    (408, UNCLEAR, Timeout),
    (409, RETRY, UnexpectedAnswer),
    (410, Bounced, SubscriptionGone),
    (413, Failed, TooLarge),
    (418, RETRY, UnexpectedAnswer),
    (425, RETRY, Unavailable),
    (429, WAIT, RateLimited),
    (451, RETRY, UnexpectedAnswer),
    (500, UNCLEAR, ServerError),
    (501, UNCLEAR, ServerError),
    (502, UNCLEAR, BadGateway),
    (503, RETRY, Unavailable),
    (504, UNCLEAR, GatewayTimeout),
    (599, UNCLEAR, ServerError),
    (999, RETRY, UnexpectedAnswer),
];

/// Endpoint, status, headers, body, and what they mean.
pub(in crate::channel) type Row =
    (&'static str, u16, &'static [(&'static str, &'static str)], &'static str, Outcome, Cause);
/// What some services say in their own way, and others do not.
pub(in crate::channel) const SOME_SERVICES: &[Row] = &[
    (FCM, 400, &[], "UnauthorizedRegistration", HOLD, PushCredential),
    (FCM, 400, &[], "<HTML><TITLE>UnauthorizedRegistration</TITLE></HTML>", HOLD, PushCredential),
    (APPLE, 400, &[], r#"{"reason":"VapidPkHashMismatch"}"#, HOLD, PushCredential),
    (APPLE, 400, &[], r#"{"reason":"BadTtl"}"#, Failed, Refused),
    (WINDOWS, 201, &[("x-wns-status", "received")], "", DELIVERED, Accepted),
    (WINDOWS, 200, &[("x-wns-status", "dropped")], "", RETRY, Dropped),
    (WINDOWS, 200, &[("x-wns-status", "ChannelThrottled")], "", RETRY, Dropped),
    (WINDOWS, 406, &[], "", SPACED, RateLimited),
    (WINDOWS, 410, &[], "", Bounced, SubscriptionGone),
    (WINDOWS, 410, &[("x-wns-error-description", "Domain Blocked by user")], "", HOLD, EndpointBlocked),
    (WINDOWS, 410, &[], "Domain Blocked", HOLD, EndpointBlocked),
    (WINDOWS, 404, &[("x-wns-error-description", "Domain Blocked by user")], "", HOLD, EndpointBlocked),
    (OTHER, 200, &[("x-wns-status", "dropped")], "", DELIVERED, Accepted),
    (OTHER, 410, &[("x-wns-error-description", "Domain Blocked")], "", Bounced, SubscriptionGone),
];

/// The service that a row is of, by its label.
pub(in crate::channel) fn service((endpoint, ..): &Row) -> &'static str {
    Endpoint::parse(endpoint, false).unwrap().service().label()
}
