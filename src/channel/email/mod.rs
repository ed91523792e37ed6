//! Email through the Resend API.
