//! The pages in a real browser: what is clicked, typed and read on them, with the worker behind.
//!
//! Needs Debian's chromium and chromium-driver; `make test-browser` installs them and runs this. Pictures of each
//! page in both themes and at two widths are left in `target/tmp`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod browser;
mod desk;
mod looks;
mod others;
mod process;
