//! The client of the seam: the app's two endpoints.
//!
//! Owns [`Seam`], what the engine asks of an outbox; its HTTP form is in `http`. It must not know leases,
//! retries or what a page means for them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::envelope::{self, ChannelName, EnvelopeId, Reading};
use crate::outcome::{AckStatus, Cause, Detail};

mod http;

pub use http::{HttpSeam, Settings};

/// What the engine asks of the app's outbox.
#[async_trait]
pub trait Seam: Send + Sync + 'static {
    /// Everything pending on `channel`, oldest first, at most `limit` elements.
    ///
    /// # Errors
    /// The seam is out of reach, refuses the token, or its answer is no page.
    async fn pending(&self, channel: &ChannelName, limit: u16) -> Result<Page, SeamError>;

    /// Reports the terminal status of an envelope.
    ///
    /// # Errors
    /// The status is not stored: see [`SeamError::is_final`] for whether asking again can help.
    async fn ack(&self, id: &EnvelopeId, ack: &Ack) -> Result<Acked, SeamError>;
}

/// One answer of `pending`.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The elements in the seam's order, not yet read.
    pub elements: Vec<Element>,
    /// The seam's clock, from its Date header.
    pub date: Option<DateTime<Utc>>,
}

/// One element of a page. Its id is read at once, the rest when asked for: a page lists again what is
/// already held.
#[derive(Clone)]
pub struct Element {
    id: Result<EnvelopeId, &'static str>,
    page: Arc<String>,
    place: Range<usize>,
}

impl Element {
    /// An element from its JSON text.
    pub fn new(json: impl Into<String>) -> Element {
        let json = json.into();
        let place = 0..json.len();
        Element::within(&Arc::new(json), place)
    }

    /// The element that stands at `place` in the text of a page, which all its elements share.
    fn within(page: &Arc<String>, place: Range<usize>) -> Element {
        let id = envelope::id_of(page.get(place.clone()).unwrap_or_default());
        Element { id, page: Arc::clone(page), place }
    }

    fn json(&self) -> &str {
        self.page.get(self.place.clone()).unwrap_or_default()
    }

    /// The id, where there is a usable one.
    pub fn id(&self) -> Option<&EnvelopeId> {
        self.id.as_ref().ok()
    }

    /// Why there is no usable id, where there is none.
    pub fn problem(&self) -> Option<&'static str> {
        self.id.as_ref().err().copied()
    }

    /// Tells elements without an id apart, so that each is reported once.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.json().hash(&mut hasher);
        hasher.finish()
    }

    /// Reads the whole element.
    pub fn read(&self) -> Reading {
        envelope::read(self.json())
    }
}

/// An element holds personal data: `Debug` shows its id alone.
impl std::fmt::Debug for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Element").field(&self.id).finish()
    }
}

/// What is posted for an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The terminal status.
    pub status: AckStatus,
    /// More, for the app's operator.
    pub detail: Detail,
}

/// What the seam answered to an ack that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// Stored as posted.
    Stored,
    /// An earlier, different status stays in force.
    Differs(AckStatus),
    /// The seam does not know the id.
    Unknown,
}

/// Why the seam did not do what it was asked. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeamError {
    /// No answer: refused, unresolved, timed out, cut.
    #[error("the seam is out of reach ({0}): is OUTBOX_BASE_URL right, and the app up?")]
    Unreachable(Cause),
    /// 401.
    #[error("the seam refuses the token (401): is INTERNAL_OUTBOX_TOKEN the app's?")]
    TokenRefused,
    /// 403, which the app itself never answers.
    #[error("something before the seam forbids it to this worker (403): a proxy, or the network's rules?")]
    Forbidden,
    /// 503: the app has no token configured, or is not ready.
    #[error("the seam is not ready (503): is the app's token configured?")]
    NotReady,
    /// 3xx: OUTBOX_BASE_URL is wrong.
    #[error("the seam redirects to {}: OUTBOX_BASE_URL is wrong", to.as_deref().unwrap_or("no address"))]
    Redirected {
        /// The origin that it points to (scheme, host, port), where it names one. The rest of the
        /// address is left out: it may hold a token.
        to: Option<Arc<str>>,
    },
    /// An answer that the contract does not know; asking again may help.
    #[error("the seam answered {0}")]
    Status(u16),
    /// A 4xx that asking again does not change.
    #[error("the seam refuses this request for good ({0})")]
    Refused(u16),
    /// A 200 that is not what the contract says.
    #[error("the seam's answer is not readable: is OUTBOX_BASE_URL the app's?")]
    Unreadable,
    /// A 200 with more than this many bytes, which nobody reads to the end.
    #[error("the seam's answer is larger than {0} bytes (a page: lower OUTBOX_PAGE_LIMIT)")]
    TooLarge(usize),
}

impl SeamError {
    /// Whether the seam has refused this very request for good.
    pub fn is_final(&self) -> bool {
        matches!(self, SeamError::Refused(_))
    }

    /// Whether the operator must mend a setting, here or at the app, before any answer is another.
    pub fn is_setup(&self) -> bool {
        match self {
            SeamError::TokenRefused
            | SeamError::Forbidden
            | SeamError::NotReady
            | SeamError::Redirected { .. }
            | SeamError::Unreadable => true,
            SeamError::Unreachable(_)
            | SeamError::Status(_)
            | SeamError::Refused(_)
            | SeamError::TooLarge(_) => false,
        }
    }

    /// Whether this worker is turned away, whatever it asks for.
    pub fn is_turned_away(&self) -> bool {
        matches!(self, SeamError::TokenRefused | SeamError::Forbidden)
    }

    /// The name in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            SeamError::Unreachable(_) => "unreachable",
            SeamError::TokenRefused => "token_refused",
            SeamError::Forbidden => "forbidden",
            SeamError::NotReady => "not_ready",
            SeamError::Redirected { .. } => "redirected",
            SeamError::Status(_) => "status",
            SeamError::Refused(_) => "refused",
            SeamError::Unreadable => "unreadable",
            SeamError::TooLarge(_) => "too_large",
        }
    }
}
