//! Email through the Resend API.

use secrecy::SecretString;
use url::Url;

use super::Rate;

/// What the operator sets for this channel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// RESEND_API_KEY.
    pub api_key: SecretString,
    /// MAIL_FROM, verbatim.
    pub from: String,
    /// MAIL_REPLY_TO.
    pub reply_to: Option<String>,
    /// RESEND_BASE_URL.
    pub base_url: Url,
    /// RESEND_MAX_RPS.
    pub rate: Rate,
}
