//! Push through Web Push with VAPID.

pub mod address;
pub mod endpoint;
pub mod resolver;
pub mod subject;
pub mod vapid;

pub use subject::{VapidSubject, VapidSubjectError};
pub use vapid::{VapidKey, VapidKeyError};

/// What the operator sets for this channel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// VAPID_PRIVATE_KEY.
    pub key: VapidKey,
    /// VAPID_SUBJECT.
    pub subject: VapidSubject,
    /// PUSH_ALLOW_PRIVATE_ENDPOINTS: endpoints may be plain http and on private addresses, for
    /// development alone.
    pub allow_private_endpoints: bool,
}
